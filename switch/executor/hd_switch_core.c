/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path of the native executor. A burst is processed in rounds, so that the memory that each packet needs is being
 * fetched while others are processed; only the last round changes sums, packet after packet.
 *
 *   1  headers are fetched
 *   2  simulator, for us?, form  -> its token's place in the table is fetched
 *   3  token, lease, member, slot -> its cell is fetched
 *   4  cell: stale, repeated, added, complete
 *
 * Ordinary frames need none of it, and skip the later rounds.
 */
#include "hd_bytes.h"
#include "hd_kernels.h"
#include "hd_switch_private.h"

#include <errno.h>
#include <stdlib.h>

enum look_kind {
	LOOK_DONE, /* dropped: `counter` says why */
	LOOK_ORDINARY,
	LOOK_CHUNK,
	LOOK_ANSWER
};

/* A packet's state between the rounds. */
struct look {
	enum look_kind kind;
	enum hd_switch_counter counter;
	uint32_t index; /* of the member */
	uint64_t token, place;
	struct switch_lease *lease;
	struct switch_cell *cell;
};

int hd_switch_core_create(
	const struct hd_switch_core_config *config,
	struct hd_switch_core **core,
	char *error,
	size_t error_bytes
) {
	struct hd_switch_core *made;
	size_t tokens
		= (size_t)HD_SWITCH_LEASES_MAX * (HD_SWITCH_MEMBERS_MAX + HD_SWITCH_RECEIVERS_MAX);

	if (config->self.ipv4 == 0 || config->self.udp_port == 0) {
		return switch_refuse(
			-EINVAL, error, error_bytes, "service address: it or its port is 0"
		);
	}
	if ((config->self.mac[0] & 1) != 0 || (config->self.router_mac[0] & 1) != 0)
		return switch_refuse(-EINVAL, error, error_bytes, "mac: multicast");
	made = calloc(1, sizeof *made);
	if (!made)
		return switch_refuse(-ENOMEM, error, error_bytes, "memory: not enough");
	made->self = config->self;
	made->memory_bytes = config->memory_bytes;
	if (hd_switch_table_init(&made->tokens, tokens, config->hash_key) < 0)
		goto no_tokens;
	if (switch_forward_init(made, config->hash_key) < 0)
		goto no_forward;
	*core = made;
	return 0;
no_forward:
	hd_switch_table_fini(&made->tokens);
no_tokens:
	free(made);
	return switch_refuse(-ENOMEM, error, error_bytes, "memory: not enough");
}

void hd_switch_core_destroy(struct hd_switch_core *core) {
	if (!core)
		return;
	switch_leases_fini(core);
	switch_forward_fini(core);
	hd_switch_table_fini(&core->tokens);
	free(core);
}

int hd_switch_core_simulate(
	struct hd_switch_core *core,
	uint32_t seed,
	uint32_t threshold,
	char *error,
	size_t error_bytes
) {
	if (threshold > 1 << 24) {
		return switch_refuse(
			-EINVAL, error, error_bytes, "threshold: %u (0 to %d)", threshold, 1 << 24
		);
	}
	if (threshold != 0 && seed == 0)
		return switch_refuse(-EINVAL, error, error_bytes, "seed: 0 (from 1)");
	core->simulator = (struct switch_simulator){seed, threshold};
	return 0;
}

void hd_switch_core_counters(
	const struct hd_switch_core *core,
	uint64_t counters[HD_SWITCH_COUNTER_COUNT]
) {
	memcpy(counters, core->counters, sizeof core->counters);
}

/* --- rounds 2 and 3: all that they read is constant within a burst ---------------------------- */

/* True when the frame is lost. */
static bool simulate(struct switch_simulator *simulator) {
	uint32_t state = simulator->state;

	if (simulator->threshold == 0)
		return false;
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	simulator->state = state;
	return state >> 8 < simulator->threshold;
}

static inline bool is_for_us(const struct hd_switch_core *core, const uint8_t *data, size_t bytes) {
	uint8_t type;

	/* Ethertype, version and header length of IPv4 are adjacent. */
	if (bytes < AT_FLAGS + 1 || (hd_get32(data + AT_ETHERTYPE) & 0xffffff00) != 0x08004500
	    || hd_get32(data + AT_DESTINATION) != core->self.ipv4)
		return false;
	type = data[AT_TYPE] & 0x0f;
	return (hd_get16(data + AT_FRAGMENT) & 0x3fff) == 0 && data[AT_PROTOCOL] == 17
		&& hd_get16(data + AT_UDP_DESTINATION) == core->self.udp_port
		&& hd_get16(data + AT_MAGIC) == HD_SWITCH_MAGIC
		&& (type == HD_SWITCH_TYPE_CHUNK || type == HD_SWITCH_TYPE_RESULT);
}

/* For a frame for us: LOOK_CHUNK, LOOK_ANSWER, or LOOK_DONE if it is malformed. */
static inline enum look_kind form_of(const uint8_t *data, size_t bytes) {
	size_t ip = hd_get16(data + AT_IPV4_BYTES), udp = hd_get16(data + AT_UDP_BYTES);
	size_t head = SWITCH_UDP_BYTES + HD_SWITCH_CHUNK_HEADER_BYTES;
	size_t count;

	if (data[AT_TYPE] >> 4 != HD_SWITCH_WIRE_VERSION || ip > bytes - SWITCH_ETHERNET_BYTES
	    || udp + SWITCH_IPV4_BYTES != ip || udp < head)
		return LOOK_DONE;
	count = hd_get16(data + AT_COUNT);
	if (udp != head + 4 * count)
		return LOOK_DONE;
	if ((data[AT_TYPE] & 0x0f) == HD_SWITCH_TYPE_RESULT)
		return count == 0 ? LOOK_ANSWER : LOOK_DONE;
	if (count == 0 || hd_get32(data + AT_ROUND) == 0
	    || (data[AT_DTYPE] != HD_DTYPE_FIXED32 && data[AT_DTYPE] != HD_DTYPE_FP32))
		return LOOK_DONE;
	return LOOK_CHUNK;
}

static inline void drop(struct look *look, enum hd_switch_counter counter) {
	look->kind = LOOK_DONE;
	look->counter = counter;
}

static inline void look_at_form(
	struct hd_switch_core *core,
	const struct hd_switch_packet *packet,
	struct look *look
) {
	const uint8_t *data = packet->data;

	if (simulate(&core->simulator)) {
		drop(look, HD_SWITCH_COUNTER_drop_simulated);
		return;
	}
	if (!is_for_us(core, data, packet->bytes)) {
		look->kind = LOOK_ORDINARY;
		return;
	}
	look->kind = form_of(data, packet->bytes);
	if (look->kind == LOOK_DONE) {
		drop(look, HD_SWITCH_COUNTER_drop_malformed);
		return;
	}
	look->token = hd_get64(data + AT_TOKEN);
	look->place = hd_switch_table_place(&core->tokens, look->token);
	__builtin_prefetch(&core->tokens.entries[look->place & core->tokens.mask]);
}

static inline bool is_of_lease(const struct switch_lease *lease, const uint8_t *data) {
	return hd_get32(data + AT_JOB) == lease->job && hd_get16(data + AT_EPOCH) == lease->epoch
		&& data[AT_ATTEMPT] == lease->attempt && hd_get16(data + AT_SHARD) == lease->shard
		&& data[AT_DTYPE] == lease->dtype;
}

static inline void fetch_cell(const struct switch_cell *cell, size_t stride) {
	const uint8_t *bytes = (const uint8_t *)cell;
	size_t most = stride < SWITCH_FETCHED ? stride : SWITCH_FETCHED;

	for (size_t at = 0; at < most; at += SWITCH_LINE)
		__builtin_prefetch(bytes + at, 1);
}

static inline void
look_at_token(const struct hd_switch_core *core, const uint8_t *data, struct look *look) {
	const struct hd_switch_entry *entry
		= hd_switch_table_at(&core->tokens, look->place, look->token);
	bool receiver = entry->value >> 24 != 0;
	struct switch_lease *lease;
	uint16_t slot;

	/* Token 0 finds an empty entry, whose key is 0 too. */
	if (entry->key == 0 || receiver != (look->kind == LOOK_ANSWER)) {
		drop(look, HD_SWITCH_COUNTER_drop_token);
		return;
	}
	lease = core->leases[entry->value & UINT16_MAX];
	look->lease = lease;
	look->index = entry->value >> 16 & UINT8_MAX;
	if (!is_of_lease(lease, data)) {
		drop(look, HD_SWITCH_COUNTER_drop_lease);
		return;
	}
	if (receiver)
		return;
	if (hd_get16(data + AT_COUNT) != lease->count) {
		drop(look, HD_SWITCH_COUNTER_drop_lease);
		return;
	}
	if (hd_get16(data + AT_WORKER) != lease->workers[look->index]
	    || (lease->waits >> look->index & 1) == 0) {
		drop(look, HD_SWITCH_COUNTER_drop_member);
		return;
	}
	slot = hd_get16(data + AT_SLOT);
	if ((slot & ~HD_SWITCH_SLOT_VERSION) >= lease->slot_count) {
		drop(look, HD_SWITCH_COUNTER_drop_slot);
		return;
	}
	look->cell = switch_cell_at(
		lease, slot & ~HD_SWITCH_SLOT_VERSION, slot & HD_SWITCH_SLOT_VERSION
	);
	fetch_cell(look->cell, lease->stride);
}

/* --- round 4 ---------------------------------------------------------------------------------- */

static inline void
count(struct hd_switch_core *core, struct hd_switch_packet *packet, enum hd_switch_counter counter
) {
	packet->verdict = HD_SWITCH_DROP;
	core->counters[counter]++;
}

static inline void send_copies(
	struct hd_switch_core *core,
	const struct switch_lease *lease,
	struct hd_switch_packet *packet,
	uint32_t copy
) {
	uint32_t copies = 1;

	if (copy == HD_SWITCH_COPY_MEMBERS)
		copies = lease->member_count;
	else if (copy == HD_SWITCH_COPY_RECEIVERS)
		copies = lease->receiver_count;
	packet->verdict = HD_SWITCH_COPY;
	packet->lease = lease->id;
	packet->copy = (uint8_t)copy;
	packet->bytes = SWITCH_ETHERNET_BYTES + (uint32_t)hd_get16(packet->data + AT_IPV4_BYTES);
	core->counters[HD_SWITCH_COUNTER_copies] += copies;
}

/* Turns the chunk's header into the result's; the values are there already. */
static inline void make_result(
	const struct switch_lease *lease,
	const struct switch_cell *cell,
	uint8_t *data,
	uint32_t flags
) {
	if (cell->seen != lease->all)
		flags |= HD_SWITCH_FLAG_PARTIAL;
	data[AT_TYPE] = HD_SWITCH_WIRE_VERSION << 4 | HD_SWITCH_TYPE_RESULT;
	data[AT_FLAGS] = (uint8_t)(cell->flags | flags);
	hd_put16(data + AT_WORKER, UINT16_MAX);
	hd_put64(data + AT_SEEN, cell->seen);
	hd_put16(data + AT_NEXT, (uint16_t)cell->next);
}

static bool has_not_finite(const struct switch_lease *lease, const uint32_t *lanes) {
	const float *values = (const float *)(const void *)lanes;

	return lease->dtype == HD_DTYPE_FP32
		&& hd_find_not_finite_f32(values, lease->count) < lease->count;
}

/* Sends the sum to those that may lack it: its member, or the receivers, who will answer all members. */
static void
repeat(struct hd_switch_core *core, struct hd_switch_packet *packet, struct look *look) {
	struct switch_lease *lease = look->lease;
	struct switch_cell *cell = look->cell;

	/* Completed by removing a member, so the sum was not checked. */
	if (has_not_finite(lease, switch_lanes(cell)))
		cell->flags |= HD_SWITCH_FLAG_NOT_FINITE;
	memcpy(packet->data + AT_VALUES, switch_lanes(cell), (size_t)lease->count * 4);
	make_result(lease, cell, packet->data, HD_SWITCH_FLAG_RESEND);
	core->counters[HD_SWITCH_COUNTER_repeated]++;
	lease->stats.repeated++;
	send_copies(
		core,
		lease,
		packet,
		lease->receiver_count > 0 ? HD_SWITCH_COPY_RECEIVERS : look->index
	);
}

static inline void
begin(struct hd_switch_core *core,
      struct switch_lease *lease,
      struct switch_cell *cell,
      const uint8_t *data) {
	bool open = cell->seen != 0 && !switch_complete(lease, cell->seen);

	core->counters[HD_SWITCH_COUNTER_overtaken] += open;
	lease->stats.overtaken += open;
	lease->stats.cells_open += !open;
	cell->key = (uint64_t)hd_get32(data + AT_ROUND) << 32 | hd_get32(data + AT_CHUNK);
	cell->seen = 0;
	cell->exponent = (int16_t)hd_get16(data + AT_EXPONENT);
	cell->next = INT16_MIN;
	cell->flags = 0;
}

/* Adds the values to the lanes, and writes the sum back if it is `complete`. True: not finite. */
static inline bool add_values(
	const struct switch_lease *lease,
	struct switch_cell *cell,
	uint8_t *values,
	bool complete
) {
	uint32_t *lanes = switch_lanes(cell);
	void *x = values;

	if (cell->seen == 0) {
		memcpy(lanes, values, (size_t)lease->count * 4);
		return complete && has_not_finite(lease, lanes);
	}
	if (lease->dtype == HD_DTYPE_FIXED32) {
		return complete ? hd_add_fixed_both(lanes, x, lease->count) :
				  hd_add_fixed(lanes, x, lease->count);
	}
	if (complete)
		return hd_add_f32_both((float *)(void *)lanes, x, lease->count);
	hd_add_f32((float *)(void *)lanes, x, lease->count);
	return false;
}

static inline void
add(struct hd_switch_core *core, struct hd_switch_packet *packet, struct look *look) {
	struct switch_lease *lease = look->lease;
	struct switch_cell *cell = look->cell;
	uint8_t *data = packet->data;
	uint64_t seen = cell->seen | UINT64_C(1) << look->index;
	bool complete = switch_complete(lease, seen);
	int16_t next = (int16_t)hd_get16(data + AT_NEXT);
	uint8_t kept = HD_SWITCH_FLAG_NOT_FINITE | HD_SWITCH_FLAG_ECN | HD_SWITCH_FLAG_LAST;

	cell->flags |= data[AT_FLAGS] & kept;
	cell->flags |= (data[AT_TOS] & 3) == 3 ? HD_SWITCH_FLAG_ECN : 0;
	if (next > cell->next)
		cell->next = next;
	if (add_values(lease, cell, data + AT_VALUES, complete))
		cell->flags |= HD_SWITCH_FLAG_NOT_FINITE;
	cell->seen = seen;
	if (!complete) {
		lease->stats.absorbed++;
		count(core, packet, HD_SWITCH_COUNTER_absorbed);
		return;
	}
	lease->stats.completed++;
	lease->stats.cells_open--;
	core->counters[HD_SWITCH_COUNTER_completed]++;
	if ((cell->flags & HD_SWITCH_FLAG_NOT_FINITE) != 0) {
		lease->stats.not_finite++;
		core->counters[HD_SWITCH_COUNTER_not_finite]++;
	}
	make_result(lease, cell, data, 0);
	send_copies(
		core,
		lease,
		packet,
		lease->receiver_count > 0 ? HD_SWITCH_COPY_RECEIVERS : HD_SWITCH_COPY_MEMBERS
	);
}

static inline void
take_chunk(struct hd_switch_core *core, struct hd_switch_packet *packet, struct look *look) {
	const uint8_t *data = packet->data;
	struct switch_cell *cell = look->cell;
	uint64_t key = (uint64_t)hd_get32(data + AT_ROUND) << 32 | hd_get32(data + AT_CHUNK);

	if (key < cell->key) {
		count(core, packet, HD_SWITCH_COUNTER_drop_stale);
		return;
	}
	if (key > cell->key) {
		begin(core, look->lease, cell, data);
	} else if ((int16_t)hd_get16(data + AT_EXPONENT) != cell->exponent) {
		count(core, packet, HD_SWITCH_COUNTER_drop_exponent);
		return;
	} else if ((cell->seen >> look->index & 1) != 0) {
		if (switch_complete(look->lease, cell->seen))
			repeat(core, packet, look);
		else
			count(core, packet, HD_SWITCH_COUNTER_drop_duplicate);
		return;
	}
	add(core, packet, look);
}

static inline void
take(struct hd_switch_core *core, struct hd_switch_packet *packet, struct look *look) {
	switch (look->kind) {
	case LOOK_CHUNK:
		take_chunk(core, packet, look);
		break;
	case LOOK_ANSWER:
		core->counters[HD_SWITCH_COUNTER_answered]++;
		look->lease->stats.answered++;
		send_copies(core, look->lease, packet, HD_SWITCH_COPY_MEMBERS);
		break;
	default:
		count(core, packet, look->counter);
		break;
	}
}

/* Rounds 1 and 2, after which ordinary frames are done. Returns the number of others: their `looks` and indices. */
static inline size_t look_at_all(
	struct hd_switch_core *core,
	struct hd_switch_packet *packets,
	size_t count,
	struct look *looks,
	struct hd_switch_packet **ours
) {
	struct switch_found found
		= {.source = SWITCH_NO_MAC, .target = SWITCH_NO_MAC, .like_in = SWITCH_NO_PORT};
	const bool simulated = core->simulator.threshold != 0;
	uint64_t alike = 0;
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		__builtin_prefetch(packets[i].data);
		__builtin_prefetch(packets[i].data + SWITCH_LINE);
	}
	for (size_t i = 0; i < count; i++) {
		struct hd_switch_packet *packet = &packets[i];

		if (!simulated && switch_is_like(core, packet, &found)) {
			packet->port = found.like_out;
			packet->verdict = HD_SWITCH_FORWARD;
			alike++;
			continue;
		}
		look_at_form(core, packet, &looks[n]);
		if (looks[n].kind == LOOK_ORDINARY)
			switch_forward(core, packet, &found);
		else
			ours[n++] = packet;
	}
	core->counters[HD_SWITCH_COUNTER_forwarded] += alike;
	return n;
}

/* Up to HD_SWITCH_BURST_MAX packets. */
static inline void
take_burst(struct hd_switch_core *core, struct hd_switch_packet *packets, size_t count) {
	struct look looks[HD_SWITCH_BURST_MAX];
	struct hd_switch_packet *ours[HD_SWITCH_BURST_MAX];
	size_t ours_count = look_at_all(core, packets, count, looks, ours);

	for (size_t i = 0; i < ours_count; i++)
		if (looks[i].kind != LOOK_DONE)
			look_at_token(core, ours[i]->data, &looks[i]);
	for (size_t i = 0; i < ours_count; i++)
		take(core, ours[i], &looks[i]);
}

void hd_switch_core_burst(
	struct hd_switch_core *core,
	struct hd_switch_packet *packets,
	size_t count
) {
	for (size_t done = 0; done < count; done += HD_SWITCH_BURST_MAX) {
		size_t left = count - done;

		take_burst(
			core,
			packets + done,
			left < HD_SWITCH_BURST_MAX ? left : HD_SWITCH_BURST_MAX
		);
	}
}
