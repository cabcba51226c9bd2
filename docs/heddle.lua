-- SPDX-License-Identifier: BSD-3-Clause
-- Wireshark dissector of Heddle's wire (docs/wire.md). Use:
--     tshark -X lua_script:docs/heddle.lua -r capture.pcap
--     or copy it into Wireshark's folder of personal plugins. Filters: heddle.token == ..., heddle.grant.weight
-- It takes UDP port 4773 and whatever begins with the magic. Tags are shown, not verified. A message that came in
-- several fragments is shown with its last one, when the capture has them all.

-- The messages as the code has them (tests/unit/programs/check_wire_doc.py compares): kind, name, fields.
local messages = {
-- table: lua
	[1] = { "hello", { "boot:u64", "nonce:nonce", "role:u8", "session:u32", "name:name", "asked_ipv4:u32", "asked_port:u16", "cookie:nonce" } },
	[2] = { "welcome", { "boot:u64", "nonce:nonce", "peer_nonce:nonce", "role:u8", "session:u32", "name:name", "peer_boot:u64", "seen_ipv4:u32", "seen_port:u16" } },
	[3] = { "refuse", { "reason:u8", "wire_version:u8", "job:u32", "peer_nonce:nonce", "text:text" } },
	[4] = { "ping", { "sent_ns:u64" } },
	[5] = { "pong", { "sent_ns:u64", "received_ns:u64", "replied_ns:u64" } },
	[6] = { "close", { "reason:u8", "text:text" } },
	[7] = { "cookie", { "peer_nonce:nonce", "cookie:nonce" } },
	[8] = { "reset", { "session:u32" } },
	[9] = { "query", { "boot:u64", "peer_boot:u64", "nonce:nonce", "session:u32", "peer_session:u32", "asked_ipv4:u32", "asked_port:u16", "role:u8", "name:name" } },
	[10] = { "gone", { "boot:u64", "peer_boot:u64", "peer_nonce:nonce" } },
	[16] = { "register", { "role:u8", "host:name", "tenant:name", "job_name:name", "job:u32", "worker:u16", "model_bytes:u64", "tau_max:u32", "staleness_rule:u8", "staleness_c:f32", "job_weight:f32", "data_ipv4:u32", "data_port:u16", "memory_bytes:u64", "incarnation:u16", "world:u16", "reduce_round:u32", "sync:u8", "sync_count:u32", "flags:u8", "slots:u32", "count_min:u16", "count_max:u16", "dtypes:u16", "sum_id:u64", "reduce_from:u32", "reduce_had:u64", "shared:u64", "reduce_called:u32" } },
	[17] = { "registered", { "epoch:u16", "job:u32", "lease_us:u32", "interval_us:u32", "server_ipv4:u32", "server_port:u16", "scheduled:u8", "reduce_round:u32" } },
	[18] = { "join", { "job:u32", "worker:u16", "last_round:u32", "host:name", "spec:blob", "observer:u8" } },
	[19] = { "joined", { "job:u32", "version:u64", "durable:u64", "last_round:u32", "tau_max:u32" } },
	[20] = { "leave", { "job:u32", "worker:u16", "reason:u8" } },
	[32] = { "request", { "job:u32", "worker:u16", "round:u32", "direction:u8", "attempt:u8", "dtype:u8", "bytes:u64", "norm:f32", "base:u64", "have:u64", "conditional:u8", "peak:f32", "order:u8", "avoid:u8", "weight:f32", "collective:u8", "root:u16", "exact:u16", "room:u64", "tag:name", "op:u8", "state:u8", "by_network:u8", "values:blob", "channel:u32", "peer_boot:u64", "wait_ms:u32", "least:u16" } },
	[33] = { "grant", { "job:u32", "worker:u16", "round:u32", "direction:u8", "attempt:u8", "epoch:u16", "token:u64", "position:u64", "weight:f32", "cc_weight:f32", "after:u64", "origin_ns:u64", "segments:segs", "peer_ipv4:u32", "peer_port:u16", "bytes:u64", "have:u64", "conditional:u8", "dtype:u8", "exponent:u16", "result_token:u64", "slots:u16", "count:u16", "member:u8", "members:u8", "receivers:u8" } },
	[34] = { "expect", { "job:u32", "worker:u16", "round:u32", "direction:u8", "attempt:u8", "epoch:u16", "token:u64", "position:u64", "base:u64", "bytes:u64", "weight:f32", "dtype:u8", "after:u64", "peer_ipv4:u32", "peer_port:u16" } },
	[35] = { "drop", { "job:u32", "worker:u16", "round:u32", "direction:u8", "attempt:u8", "reason:u8", "finish_s:f64", "runner_up:u64", "deadline:u32", "slack_s:f64", "sum_id:u64", "text:text", "channel:u32" } },
	[36] = { "cancel", { "job:u32", "worker:u16", "round:u32", "direction:u8", "attempt:u8", "token:u64", "reason:u8", "channel:u32" } },
	[37] = { "void", { "job:u32", "position:u64", "token:u64", "reason:u8" } },
	[38] = { "go", { "job:u32", "token:u64" } },
	[39] = { "sack", { "token:u64", "held:u32", "done:u8", "delay_us:u32", "window_bytes:u32", "packets:ranges" } },
	[40] = { "outcome", { "job:u32", "worker:u16", "round:u32", "outcome:u8", "reason:u8", "version:u64", "delay:u32", "durable:u64" } },
	[41] = { "durable", { "job:u32", "version:u64" } },
	[42] = { "pull_state", { "job:u32", "worker:u16", "round:u32", "attempt:u8", "token:u64", "reason:u8", "version:u64", "bytes:u64" } },
	[43] = { "report", { "job:u32", "worker:u16", "round:u32", "direction:u8", "attempt:u8", "token:u64", "outcome:u8", "reason:u8", "bytes:u64", "duration_ns:u64", "rate_bps:u64", "limited_permille:u16", "version:u64", "position:u64", "base:u64", "norm:f32", "credited:u8", "channel:u32" } },
	[44] = { "state", { "job:u32", "version:u64", "position:u64", "tau_max:u32", "model_bytes:u64", "inflight:u32", "generation:u64" } },
	[45] = { "inflight", { "job:u32", "worker:u16", "round:u32", "direction:u8", "attempt:u8", "token:u64", "position:u64", "base:u64", "bytes:u64", "held_bytes:u64" } },
	[46] = { "round", { "job:u32", "round:u32", "version:u64", "place:u16", "clients:u16", "epochs:u16", "drops:u8", "mu:f32", "left_ms:u32" } },
	[47] = { "work", { "job:u32", "worker:u16", "round:u32", "epochs:u16", "gives:u8", "weight:f32", "gamma:f32", "loss:f64" } },
	[48] = { "credit", { "job:u32", "worker:u16", "round:u32", "attempt:u8", "epoch:u16", "token:u64", "position:u64", "weight:f32", "bytes:u64", "pull_bytes:u64", "expires_us:u32", "peer_ipv4:u32", "peer_port:u16" } },
	[49] = { "group", { "job:u32", "group:u64", "epoch:u16", "dtype:u8", "order:u8", "exponent:u16", "bytes:u64", "version:u64", "origin_ns:u64", "inputs:blob", "outputs:blob", "peer_ipv4:u32", "peer_port:u16", "op:u8" } },
	[50] = { "members", { "job:u32", "token:u64", "epoch:u16", "position:u64", "bytes:u64", "weight:f32", "dtype:u8", "after:u64", "peer_ipv4:u32", "peer_port:u16", "members:blob", "count:u16", "receiver:u8" } },
	[51] = { "probe", { "token:u64", "send:u8", "peer_ipv4:u32", "peer_port:u16", "packets:u16" } },
	[52] = { "slots", { "job:u32", "lease:u64", "epoch:u16", "attempt:u8", "dtype:u8", "shard:u16", "count:u16", "slots:u16", "waits:u64", "expires_us:u32", "members:blob", "receivers:blob" } },
	[53] = { "step", { "job:u32", "version:u64" } },
	[54] = { "load", { "interval_ns:u64", "out_ours:u64", "out_others:u64", "out_busy_ns:u64", "out_busy_ours:u64", "out_busy_others:u64", "out_steady_bps:u64", "out_elastic_bps:u64", "out_flows:u16", "in_ours:u64", "in_others:u64", "in_busy_ns:u64", "in_busy_ours:u64", "in_busy_others:u64", "in_steady_bps:u64", "in_elastic_bps:u64", "in_flows:u16" } },
	[55] = { "probed", { "token:u64", "packets:u16", "moments:u16", "duration_ns:u64" } },
	[56] = { "replica", { "job:u32", "generation:u64", "epoch:u16", "order:u8", "peer_ipv4:u32", "peer_port:u16", "rate_bps:u64", "div_max:f64", "every:u32" } },
	[57] = { "seed", { "job:u32", "generation:u64", "version:u64", "model_token:u64", "momentum_token:u64", "bytes:u64", "every:u32", "prior:blob", "spec:blob" } },
	[58] = { "log", { "job:u32", "generation:u64", "of:u8", "entries:blob" } },
	[59] = { "follow", { "job:u32", "generation:u64", "state:u8", "version:u64", "behind:u32", "divergence:f64", "held:u8", "peer_ipv4:u32", "peer_port:u16" } },
	[60] = { "reduce", { "job:u32", "worker:u16", "round:u32", "attempt:u8", "epoch:u16", "dtype:u8", "exponent:u16", "bytes:u64", "workers:u16", "shards:blob", "slots:u16", "count:u16", "member:u8", "lease_attempt:u8", "turn:u32", "first:u64", "rate_bps:u64", "sum_id:u64", "scale:f32", "members:blob", "op:u8", "waiting:u16", "shared:u64", "inlined:u8", "inline_bytes:u32", "values:blob", "channel:u32", "peer_boot:u64" } },
	[61] = { "notice", { "job:u32", "worker:u16", "left_us:u32" } },
	[62] = { "roster", { "job:u32", "change:u64", "count:u16", "ranks:blob", "target:u16", "sync_count:u32", "tau_max:u32", "scale:f32" } },
	[63] = { "observe", { "job:u32", "worker:u16", "step:u32", "loss_sum:f64", "samples:u64", "step_ns:u64", "sent_norm:f32", "held_norm:f32" } },
	[64] = { "show", { "table:name", "filter:text" } },
	[65] = { "table", { "table:name", "json:blob" } },
	[66] = { "command", { "request:u32", "verb:u8", "object:name", "target:text", "value:text" } },
	[67] = { "done", { "request:u32", "reason:u8", "affected:u32", "text:text" } },
	[68] = { "lack", { "job:u32", "round:u32", "here:u16", "needed:u16", "gone:u16", "waited_ms:u32" } },
	[69] = { "poll", { "mark:u32" } },
	[70] = { "stats", { "mark:u32", "at_ns:u64", "values:blob" } },
	[71] = { "wait", { "job:u32", "worker:u16", "wait_us:u32" } },
	[72] = { "reduced", { "job:u32", "worker:u16", "round:u32", "sum_id:u64", "channel:u32" } },
	[73] = { "channel", { "job:u32", "worker:u16", "channel:u32", "peer_boot:u64", "called:u32", "from:u32", "open:u64", "newest:u32", "had:u64" } },
}

-- Codes and their names (tests/unit/programs/check_dissector.py compares them with wire.md).
local names = {
	reason = { [0] = "none", "bound", "idles", "late", "lost-base", "void", "hold", "lease", "cancelled", "left",
		"not-finite", "refused", "no-memory", "duplicate", "not-modified", "epoch", "closed", "no-server", "timeout",
		"unknown-key", "version-mismatch", "expired", "preempted",
		"rank-held", "device", "mismatch", "members", "root", "peer" },
	outcome = { [0] = "pending", "applied", "dropped", "failed" },
	verb = { [0] = "none", "set", "pause", "resume", "drain", "undrain", "evict", "elastic", "clear" },
	role = { [0] = "none", "controller", "server", "worker", "shell", "aggregator", "replica", "switch",
		"monitor" },
	direction = { [0] = "push", "pull", "copy", "reduce" },
	dtype = { [0] = "fp32", "fp16", "bf16", "fixed32", "sparse32", "fp64", "int8", "uint8", "int32", "int64" },
	op = { [0] = "sum", "average", "minimum", "maximum", "product" },
	staleness_rule = { [0] = "constant", "inverse-sqrt", "adadelay" },
}

local proto = Proto("heddle", "Heddle")
local types = { [1] = "chunk", [2] = "result", [3] = "control", [4] = "hello", [5] = "probe", [6] = "sealed" }
local kinds = { [0] = "ack" }
for kind, message in pairs(messages) do kinds[kind] = message[1] end

local f = {
	version = ProtoField.uint8("heddle.version", "Version", base.DEC, nil, 0xf0),
	type = ProtoField.uint8("heddle.type", "Type", base.DEC, types, 0x0f),
	flags = ProtoField.uint8("heddle.flags", "Flags", base.HEX),
	job = ProtoField.uint32("heddle.job", "Job", base.HEX),
	epoch = ProtoField.uint16("heddle.epoch", "Epoch"),
	worker = ProtoField.uint16("heddle.worker", "Worker"),
	round = ProtoField.uint32("heddle.round", "Round"),
	attempt = ProtoField.uint8("heddle.attempt", "Attempt"),
	dtype = ProtoField.uint8("heddle.dtype", "Element type", base.DEC, names.dtype),
	exponent = ProtoField.int16("heddle.exponent", "Exponent"),
	shard = ProtoField.uint16("heddle.shard", "Shard"),
	slot = ProtoField.uint16("heddle.slot", "Slot"),
	chunk = ProtoField.uint32("heddle.chunk", "Chunk"),
	packet = ProtoField.uint32("heddle.packet", "Packet number"),
	incarnation = ProtoField.uint16("heddle.incarnation", "Model version, incarnation"),
	counter = ProtoField.uint64("heddle.counter", "Model version, counter"),
	count = ProtoField.uint16("heddle.count", "Values"),
	next_exponent = ProtoField.int16("heddle.next", "Exponent proposed for the slot's next chunk"),
	key = ProtoField.uint16("heddle.key", "Key id"),
	total = ProtoField.uint32("heddle.total", "Bytes of the transfer (on a credit)"),
	token = ProtoField.uint64("heddle.token", "Token", base.HEX),
	mac = ProtoField.bytes("heddle.mac", "MAC"),
	values = ProtoField.bytes("heddle.values", "Values"),
	session = ProtoField.uint32("heddle.session", "Session", base.HEX),
	sequence = ProtoField.uint64("heddle.sequence", "Sequence"),
	message = ProtoField.uint32("heddle.message", "Fragment number"),
	ack = ProtoField.uint32("heddle.ack", "Acknowledged"),
	ack_mask = ProtoField.uint32("heddle.ack_mask", "Acknowledged beyond", base.HEX),
	kind = ProtoField.uint8("heddle.kind", "Kind", base.DEC, kinds),
	body = ProtoField.bytes("heddle.body", "Body"),
	tag = ProtoField.bytes("heddle.tag", "Tag"),
}
-- Bits of the flags, by family.
local function bit(name, text, mask) return ProtoField.bool("heddle.flags." .. name, text, 8, nil, mask) end
local chunk_flags = {
	bit("resend", "Sent again", 0x01), bit("ecn", "Congestion was seen", 0x02),
	bit("not_finite", "NaN or Inf in it", 0x04), bit("last", "Highest chunk", 0x08),
	bit("scaled", "Scaled", 0x10), bit("partial", "A partial sum", 0x20),
	bit("ask", "Asks for an acknowledgement", 0x40), bit("paced", "Held back by its pacing", 0x80),
}
local control_flags = {
	bit("more", "The message goes on", 0x01), bit("answerer", "From the side that answered HELLO", 0x02),
}
-- Pieces of segments and ranges.
local pieces = {
	segs = { name = "segment", { "start_ns", 8 }, { "rate_bps", 8 }, { "bytes", 8 } },
	ranges = { name = "range", { "first", 4 }, { "last", 4 } },
}

local fields = {}
for _, list in ipairs({ chunk_flags, control_flags }) do
	for _, field in ipairs(list) do table.insert(fields, field) end
end
for _, piece in pairs(pieces) do
	for _, part in ipairs(piece) do
		local maker = part[2] == 8 and ProtoField.uint64 or ProtoField.uint32
		part.field = maker("heddle." .. piece.name .. "." .. part[1], part[1])
		table.insert(fields, part.field)
	end
end
for _, field in pairs(f) do table.insert(fields, field) end

local makers = {
	u8 = ProtoField.uint8, u16 = ProtoField.uint16, u32 = ProtoField.uint32, u64 = ProtoField.uint64,
	f32 = ProtoField.float, f64 = ProtoField.double, name = ProtoField.string, text = ProtoField.string,
	nonce = ProtoField.bytes, blob = ProtoField.bytes, segs = ProtoField.bytes, ranges = ProtoField.bytes,
}
local body_fields = {}
for kind, message in pairs(messages) do
	body_fields[kind] = {}
	for i, spec in ipairs(message[2]) do
		local name, kind_of_field = spec:match("([%w_]+):(%w+)")
		local filter = "heddle." .. message[1] .. "." .. name
		local field
		if names[name] then
			field = ProtoField.uint8(filter, name, base.DEC, names[name])
		elseif name:match("_ipv4$") then
			field = ProtoField.ipv4(filter, name)
		elseif name == "token" or name == "job" or name == "session" then
			field = makers[kind_of_field](filter, name, base.HEX)
		else
			field = makers[kind_of_field](filter, name)
		end
		body_fields[kind][i] = { field = field, type = kind_of_field, name = name }
		table.insert(fields, field)
	end
end
proto.fields = fields
local short_body = ProtoExpert.new("heddle.short", "The body is not what its kind has", expert.group.MALFORMED,
	expert.severity.ERROR)
proto.experts = { short_body }

local fixed = { u8 = 1, u16 = 2, u32 = 4, u64 = 8, f32 = 4, f64 = 8, nonce = 16 }

-- Where the field's value begins and how long it is; nil when the body ends before.
local function extent(body, at, kind)
	local left = body:len() - at
	if fixed[kind] then return at, fixed[kind], left >= fixed[kind] end
	local prefix = ({ name = 1, text = 2, blob = 4, segs = 1, ranges = 1 })[kind]
	if left < prefix then return at, 0, false end
	local count = body(at, prefix):uint()
	local unit = ({ segs = 24, ranges = 8 })[kind] or 1
	return at + prefix, count * unit, left - prefix >= count * unit
end

-- Segments of a grant, ranges of an acknowledgement: each a line, its parts beneath.
local function dissect_pieces(kind, buffer, tree)
	local piece, at = pieces[kind], 0
	while at < buffer:len() do
		local size = 0
		for _, part in ipairs(piece) do size = size + part[2] end
		local line = tree:add(buffer(at, size), piece.name)
		for _, part in ipairs(piece) do
			line:add(part.field, buffer(at, part[2]))
			at = at + part[2]
		end
	end
end

-- A model version: incarnation and counter.
local function explain(item, name, range)
	if name == "version" or name == "base" or name == "have" or name == "durable" then
		item:append_text(string.format(" (incarnation %u, counter %s)", range(0, 2):uint(), range(2, 6):uint64()))
	end
end

local function dissect_body(kind, body, tree)
	local at = 0
	for _, entry in ipairs(body_fields[kind]) do
		local from, length, whole = extent(body, at, entry.type)
		if not whole then
			tree:add(f.body, body(math.min(at, body:len() - 1))):append_text(" (cut short, or of another version)")
			tree:add_proto_expert_info(short_body)
			return
		end
		if length > 0 and (entry.type == "name" or entry.type == "text") then
			tree:add_packet_field(entry.field, body(from, length), ENC_UTF_8)
		elseif length > 0 then
			local item = tree:add(entry.field, body(from, length))
			if pieces[entry.type] then dissect_pieces(entry.type, body(from, length), item) end
			if entry.type == "u64" then explain(item, entry.name, body(from, length)) end
		end
		at = from + length
	end
	if at < body:len() then
		tree:add(f.body, body(at)):append_text(" (beyond the last field)")
		tree:add_proto_expert_info(short_body)
	end
end

-- Fragments by sender, receiver, session and number, as the first pass over the capture finds them.
local fragments = {}
function proto.init() fragments = {} end

local function stream_of(pinfo, buffer)
	return string.format("%s:%u>%s:%u/%u", pinfo.src, pinfo.src_port, pinfo.dst, pinfo.dst_port, buffer(4, 4):uint())
end

-- The whole body whose last fragment this is, or nil. Fragments of one kind, each but the last with MORE.
local function whole_body(pinfo, buffer, body, more)
	local number, stream = buffer(16, 4):uint(), stream_of(pinfo, buffer)
	local mine = fragments[stream] or {}
	fragments[stream] = mine
	if number > 0 then
		mine[number] = { bytes = body and body:bytes() or ByteArray.new(), more = more, kind = buffer(28, 1):uint() }
	end
	if more then return nil end
	local first = number
	while mine[first - 1] and mine[first - 1].more and mine[first - 1].kind == buffer(28, 1):uint() do
		first = first - 1
	end
	if first == number or number == 0 then return body and body:tvb() end
	local bytes = ByteArray.new()
	for i = first, number do bytes:append(mine[i].bytes) end
	return bytes:tvb("Message"), first
end

local function dissect_chunk(buffer, pinfo, tree, sealed)
	tree:add(f.job, buffer(4, 4))
	tree:add(f.epoch, buffer(8, 2))
	tree:add(f.worker, buffer(10, 2))
	tree:add(f.round, buffer(12, 4))
	tree:add(f.attempt, buffer(16, 1))
	tree:add(f.dtype, buffer(17, 1))
	for _, flag in ipairs(chunk_flags) do tree:add(flag, buffer(3, 1)) end
	tree:add(f.exponent, buffer(18, 2))
	tree:add(f.shard, buffer(20, 2))
	tree:add(f.slot, buffer(22, 2))
	tree:add(f.chunk, buffer(24, 4))
	tree:add(f.packet, buffer(28, 4))
	tree:add(f.incarnation, buffer(32, 2))
	tree:add(f.counter, buffer(34, 6))
	tree:add(f.count, buffer(40, 2))
	tree:add(f.next_exponent, buffer(42, 2))
	if buffer(44, 4):uint() > 0 then tree:add(f.total, buffer(44, 4)) end
	tree:add(f.token, buffer(48, 8))
	local head = 56
	if sealed then
		tree:add(f.mac, buffer(56, 8))
		head = 64
	end
	if buffer:len() > head then tree:add(f.values, buffer(head)) end
	pinfo.cols.info = string.format("chunk %u packet %u of worker %u round %u", buffer(24, 4):uint(),
		buffer(28, 4):uint(), buffer(10, 2):uint(), buffer(12, 4):uint())
end

local function dissect_control(buffer, pinfo, tree)
	local kind, more = buffer(28, 1):uint(), buffer(3, 1):uint() % 2 == 1
	tree:add(f.session, buffer(4, 4))
	tree:add(f.sequence, buffer(8, 8))
	tree:add(f.message, buffer(16, 4))
	tree:add(f.ack, buffer(20, 4))
	tree:add(f.ack_mask, buffer(24, 4))
	tree:add(f.kind, buffer(28, 1))
	tree:add(f.key, buffer(29, 2))
	for _, flag in ipairs(control_flags) do tree:add(flag, buffer(3, 1)) end
	local length = buffer:len() - 48
	local body = length > 0 and buffer(32, length) or nil
	local whole, first = whole_body(pinfo, buffer, body, more)
	if whole and body_fields[kind] then
		dissect_body(kind, whole, first and tree:add(proto, whole(), "Message of fragments from " .. first) or tree)
	elseif body then
		tree:add(f.body, body):append_text(more and " (part of a longer message)" or "")
	end
	tree:add(f.tag, buffer(buffer:len() - 16, 16))
	pinfo.cols.info = (kinds[kind] or "kind " .. kind) .. (more and " (part)" or "")
end

-- A packet of ours may begin there.
local function begins(buffer, at)
	if at + 48 > buffer:len() or buffer(at, 2):uint() ~= 0x4844 then return false end
	local kind = buffer(at + 2, 1):uint() % 16
	return kind == 1 or kind == 2 or kind == 3 or kind == 4 or kind == 6
end

-- Where a capture was made before a host cut its packets apart (UDP_SEGMENT), many equally long ones, of which the
-- last may be shorter, are one frame. The length of each; that of all when there is but one.
local function segment_bytes(buffer)
	local length = buffer:len()
	for size = 48, length - 48 do
		if begins(buffer, size) then
			local all = true
			for at = 2 * size, length - 1, size do all = all and begins(buffer, at) end
			if all then return size end
		end
	end
	return length
end

local function dissect_one(buffer, pinfo, root)
	local packet_type = buffer(2, 1):uint() % 16
	local chunk = packet_type == 1 or packet_type == 2 or packet_type == 6
	local control = packet_type == 3 or packet_type == 4
	local tree = root:add(proto, buffer())
	tree:add(f.version, buffer(2, 1))
	tree:add(f.type, buffer(2, 1))
	tree:add(f.flags, buffer(3, 1))
	if chunk then dissect_chunk(buffer, pinfo, tree, packet_type == 6) end
	if control then dissect_control(buffer, pinfo, tree) end
end

function proto.dissector(buffer, pinfo, root)
	if buffer:len() < 8 or buffer(0, 2):uint() ~= 0x4844 then return 0 end
	local packet_type = buffer(2, 1):uint() % 16
	local chunk = packet_type == 1 or packet_type == 2 or packet_type == 6
	local control = packet_type == 3 or packet_type == 4
	if (chunk and buffer:len() < (packet_type == 6 and 64 or 56)) or (control and buffer:len() < 48) then return 0 end
	pinfo.cols.protocol = "Heddle"
	local size, at = segment_bytes(buffer), 0
	while at < buffer:len() do
		dissect_one(buffer(at, math.min(size, buffer:len() - at)):tvb(), pinfo, root)
		at = at + size
	end
	if size < buffer:len() then pinfo.cols.info:append(string.format(" (%d in one frame)", math.ceil(at / size))) end
	return buffer:len()
end

DissectorTable.get("udp.port"):add(4773, proto)
proto:register_heuristic("udp", function(buffer, pinfo, tree)
	return proto.dissector(buffer, pinfo, tree) > 0
end)
