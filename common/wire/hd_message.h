/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages. Each is declared once, as a list of fields; struct, codec, names and the tables of docs/wire.md are
 * made from these lists. Kinds and field orders are the wire format: append only.
 *
 * Field types:  u8 u16 u32 u64 (big-endian)   f32 f64 (IEEE bits, big-endian)
 *               name   u8 length <= HD_NAME_BYTES_MAX, UTF-8 without control characters
 *               text   u16 length <= HD_TEXT_BYTES_MAX, the same
 *               nonce  16 bytes
 *               blob   u32 length, bytes (a view into the message's buffer)
 *               segs   u8 count <= HD_SEGMENTS_MAX, each {u64 start_ns, u64 rate_bps, u64 bytes}
 *               ranges u8 count <= HD_SACK_RANGES_MAX, each {u32 first, u32 last}, descending, disjoint
 *
 * Senders and receivers (W worker, S server, C controller, A aggregator, T heddlectl):
 *   any <-> any   HELLO COOKIE WELCOME REFUSE RESET QUERY GONE (type HELLO); PING PONG CLOSE
 *   W,S -> C      REGISTER -> REGISTERED | REFUSE | WAIT (to a worker: then again);  LEAVE
 *   W -> S        JOIN -> JOINED | REFUSE | WAIT;  LEAVE
 *   C -> switch   SLOTS, VOID;  switch -> C  REPORT
 *   W -> A        JOIN (identifies the worker once the session is open; no spec, no answer);  SACK
 *   W -> C (or S) REQUEST -> GRANT | DROP;  CANCEL
 *   W -> C, S     NOTICE;  C -> W, S  ROSTER;  S -> W  ROSTER (S: where there is no controller)
 *   W -> C        OBSERVE;  C -> W    NOTICE (to a surplus worker)
 *   C -> sender   GRANT    C -> receiver  EXPECT    C -> S  VOID    C -> S, W  CREDIT
 *   C -> aggregator  GROUP, VOID   C -> receivers of a sum (S, replica)  MEMBERS   C -> W  REDUCE REDUCED   C-W CHANNEL
 *   A -> W        GO, VOID, SACK, PULL_STATE of a relayed model;  A <-> S, replica  VOID of a sum
 *   S -> W        GO, OUTCOME, DURABLE, STEP, PULL_STATE, ROUND, LACK;  W -> S  WORK
 *   receiver -> sender  SACK;  receiver -> C  REPORT;  S -> C  STATE, INFLIGHT
 *   C -> W,S      PROBE;  receiver of the probe -> C  PROBED
 *   monitor -> C  REGISTER -> REGISTERED;  LOAD (unnumbered)
 *   C -> S        REPLICA;  S -> replica  SEED, LOG;  replica -> S, S -> C  FOLLOW;  replica -> C  REQUEST (a copy)
 *   T -> C, S     SHOW -> TABLE | REFUSE;  T -> C  COMMAND -> DONE
 *   C -> W, S, replica, A, switch, monitor  POLL -> STATS (both unnumbered)
 */
#ifndef HD_MESSAGE_H
#define HD_MESSAGE_H

#include "hd_limits.h"
#include "hd_message_codes.h"
#include "hd_types.h"

enum hd_role {
	HD_ROLE_NONE = 0,
	HD_ROLE_CONTROLLER = 1,
	HD_ROLE_SERVER = 2,
	HD_ROLE_WORKER = 3,
	HD_ROLE_SHELL = 4,
	HD_ROLE_AGGREGATOR = 5,
	HD_ROLE_REPLICA = 6, /* a server that keeps replicas of other servers' jobs */
	HD_ROLE_SWITCH = 7, /* adds chunks on the path, in slots that groups lease */
	HD_ROLE_MONITOR = 8, /* counts other tenants' traffic on a host's link */
	HD_ROLE_COUNT
};

/* Sets of roles. A server and a replica are one program: each may be both, for different jobs. */
#define HD_FROM(role) (1u << (role))
#define HD_FROM_CONTROLLER HD_FROM(HD_ROLE_CONTROLLER)
#define HD_FROM_SERVERS (HD_FROM(HD_ROLE_SERVER) | HD_FROM(HD_ROLE_REPLICA))
#define HD_FROM_WORKER HD_FROM(HD_ROLE_WORKER)
#define HD_FROM_SHELL HD_FROM(HD_ROLE_SHELL)
#define HD_FROM_AGGREGATOR HD_FROM(HD_ROLE_AGGREGATOR)
#define HD_FROM_SWITCH HD_FROM(HD_ROLE_SWITCH)
#define HD_FROM_MONITOR HD_FROM(HD_ROLE_MONITOR)
#define HD_FROM_ANY (HD_FROM(HD_ROLE_COUNT) - HD_FROM(HD_ROLE_CONTROLLER))

enum hd_direction {
	HD_PUSH = 0,
	HD_PULL = 1,
	HD_COPY = 2, /* a push's copy for the replica; worker and round are the push's */
	HD_REDUCE = 3 /* all-reduces and other collectives: to the aggregators and back */
};

/* The actions of COMMAND. */
#define HD_VERBS(V)                                                                                \
	V(SET, "set", 1)                                                                           \
	V(PAUSE, "pause", 2) /* no new grants: all, or of a job */                                 \
	V(RESUME, "resume", 3)                                                                     \
	V(DRAIN, "drain", 4) /* no new grants to or from a host, no new jobs on its server */      \
	V(UNDRAIN, "undrain", 5)                                                                   \
	V(EVICT, "evict", 6) /* refuses a worker, or all of a job's, for good */                   \
	V(ELASTIC, "elastic", 7) /* policy for a job's number of workers */                        \
	V(CLEAR, "clear", 8) /* the table of the dataplane counts from now on */

enum hd_verb {
	HD_VERB_NONE = 0,
#define HD_VERB_ENUM(upper, text, number) HD_VERB_##upper = (number),
	HD_VERBS(HD_VERB_ENUM)
#undef HD_VERB_ENUM
	HD_VERB_COUNT
};

struct hd_segment {
	hd_ns start_ns; /* after the grant's `origin_ns` (controller's clock) */
	uint64_t rate_bps;
	uint64_t bytes;
};

struct hd_segs {
	uint8_t count;
	struct hd_segment item[HD_SEGMENTS_MAX];
};

struct hd_range {
	uint32_t first;
	uint32_t last;
};

struct hd_ranges {
	uint8_t count;
	struct hd_range item[HD_SACK_RANGES_MAX];
};

struct hd_blob {
	const uint8_t *data;
	uint32_t bytes;
};

typedef uint8_t hd_u8;
typedef uint16_t hd_u16;
typedef uint32_t hd_u32;
typedef uint64_t hd_u64;
typedef float hd_f32;
typedef double hd_f64;
typedef char hd_name[HD_NAME_BYTES_MAX + 1];
typedef char hd_text[HD_TEXT_BYTES_MAX + 1];
typedef uint8_t hd_nonce[16];
typedef struct hd_blob hd_blob;
typedef struct hd_segs hd_segs;
typedef struct hd_ranges hd_ranges;

/* clang-format off */

/* First packet of a session; repeated until answered. `boot` identifies the process. `asked`: the address that the
 * opener sends it to. `cookie`: COOKIE's; zeros: none yet. */
#define HD_FIELDS_HELLO(F) \
	F(u64, boot) F(nonce, nonce) F(u8, role) F(u32, session) F(name, name) \
	F(u32, asked_ipv4) F(u16, asked_port) F(nonce, cookie)
/* Answer: proves possession of the node key, and freshness by echoing the nonce. `session` is the index that the
 * receiver of WELCOME puts into every later packet. `seen`: the source address of HELLO. */
#define HD_FIELDS_WELCOME(F) \
	F(u64, boot) F(nonce, nonce) F(nonce, peer_nonce) F(u8, role) F(u32, session) F(name, name) \
	F(u64, peer_boot) F(u32, seen_ipv4) F(u16, seen_port)
/* A refusal with a text. In answer to HELLO (packet type HELLO): peer_nonce is its nonce. In a session: job is the
 * requested job. */
#define HD_FIELDS_REFUSE(F) F(u8, reason) F(u8, wire_version) F(u32, job) F(nonce, peer_nonce) F(text, text)
#define HD_FIELDS_PING(F) F(u64, sent_ns)
#define HD_FIELDS_PONG(F) F(u64, sent_ns) F(u64, received_ns) F(u64, replied_ns)
#define HD_FIELDS_CLOSE(F) F(u8, reason) F(text, text)
/* Answers a HELLO without a valid cookie: the opener sends HELLO again, with this one. peer_nonce is HELLO's. */
#define HD_FIELDS_COOKIE(F) F(nonce, peer_nonce) F(nonce, cookie)
/* Answers a packet of an unknown session; not authenticated. `session`: the index in that packet. */
#define HD_FIELDS_RESET(F) F(u32, session)
/* Asks the peer, after RESET, whether it knows this session. `peer_boot`, `role`, `name`: the peer's, from its HELLO or
 * WELCOME; `session`: the asking node's index, `peer_session`: the peer's; `asked`: the address that this is sent
 * to. */
#define HD_FIELDS_QUERY(F) \
	F(u64, boot) F(u64, peer_boot) F(nonce, nonce) F(u32, session) F(u32, peer_session) \
	F(u32, asked_ipv4) F(u16, asked_port) F(u8, role) F(name, name)
/* Answers a QUERY of an unknown session; a known one gets no answer. `peer_boot`, peer_nonce: QUERY's `boot` and
 * nonce. */
#define HD_FIELDS_GONE(F) F(u64, boot) F(u64, peer_boot) F(nonce, peer_nonce)

/* Registers a node with the controller. Worker: job, rank, model, bound, the number of workers with which the job
 * begins (`world`, 0: not set; all-reduces wait for them); of the newest all-reduce whose sum it has: its round
 * (`world` is then the number of its members), its attempt (`sum_id`, see REDUCE), the earlier rounds that it has
 * (`reduce_had`: bit i is round `reduce_round` - 1 - i), its oldest round that has not ended (`reduce_from`) and the
 * newest that it has called (`reduce_called`); when the server makes its steps (`sync`: enum hd_sync; `sync_count`: N,
 * or for a federated job the number of steps by which updates may be late). `flags`: enum hd_register_flag. Server,
 * aggregator: memory. Switch: `host` is its own node of the topology, `slots` the number that this controller can lease
 * in all; a chunk has `count_min` to `count_max` values of a type in `dtypes` (bit d: enum hd_dtype). Worker: the
 * maximum values of its chunks and the types that it can send into slots (none: it uses none); identity of the memory
 * that it can share (0: none). */
#define HD_FIELDS_REGISTER(F) \
	F(u8, role) F(name, host) F(name, tenant) F(name, job_name) F(u32, job) F(u16, worker) \
	F(u64, model_bytes) F(u32, tau_max) F(u8, staleness_rule) F(f32, staleness_c) \
	F(f32, job_weight) F(u32, data_ipv4) F(u16, data_port) F(u64, memory_bytes) F(u16, incarnation) \
	F(u16, world) F(u32, reduce_round) F(u8, sync) F(u32, sync_count) F(u8, flags) \
	F(u32, slots) F(u16, count_min) F(u16, count_max) F(u16, dtypes) F(u64, sum_id) \
	F(u32, reduce_from) F(u64, reduce_had) F(u64, shared) F(u32, reduce_called)
/* `reduce_round`: of the job's newest all-reduce that has begun: a worker that joins later continues from there. */
#define HD_FIELDS_REGISTERED(F) \
	F(u16, epoch) F(u32, job) F(u32, lease_us) F(u32, interval_us) F(u32, server_ipv4) \
	F(u16, server_port) F(u8, scheduled) F(u32, reduce_round)
/* `spec` is an encoded struct hd_jobspec (hd_jobspec.h). `last_round` shows both sides which pushes the server has
 * seen. */
#define HD_FIELDS_JOIN(F) F(u32, job) F(u16, worker) F(u32, last_round) F(name, host) F(blob, spec) F(u8, observer)
#define HD_FIELDS_JOINED(F) F(u32, job) F(u64, version) F(u64, durable) F(u32, last_round) F(u32, tau_max)
/* `reason` NONE, from a synchronous job's worker to its server: it pushes no more and waits for the outcomes of its
 * pushes; no step waits for it. Any other reason: it has left. From a server (`worker` 0): the job has ended there;
 * NONE: a checkpoint of it remains, LEFT: none does. */
#define HD_FIELDS_LEAVE(F) F(u32, job) F(u16, worker) F(u8, reason)

/* Requests one transfer, or to take part in a collective. push: bytes, norm (L2), peak (largest absolute value), base
 * = v(g). pull: have = version held (0 none), conditional: deliver only something newer than `have`. reduce: bytes,
 * op (enum hd_reduce_op), order (enum hd_group_order), have = its oldest open round: earlier ones do not wait for it;
 * peak, for fixed point; avoid: enum hd_group_avoid; `collective` to `tag`, `values` to `least`: enum hd_collective;
 * `state`: enum hd_request_state; `by_network`: not in shared memory. `attempt` counts from 1 in each round. `weight`:
 * of a federated push (its samples; 0: 1). */
#define HD_FIELDS_REQUEST(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, direction) F(u8, attempt) F(u8, dtype) F(u64, bytes) F(f32, norm) \
	F(u64, base) F(u64, have) F(u8, conditional) F(f32, peak) F(u8, order) F(u8, avoid) F(f32, weight) F(u8, collective) \
	F(u16, root) F(u16, exact) F(u64, room) F(name, tag) F(u8, op) F(u8, state) F(u8, by_network) F(blob, values) \
	F(u32, channel) F(u64, peer_boot) F(u32, wait_ms) F(u16, least)
/* To the sender of the transfer. Segment starts count from origin_ns on the controller's clock. `after`: token of the
 * transfer whose end starts this one (0: start by the clock, or at once without segments). `peer`: the destination of
 * the chunks. `cc_weight`: see hd_cc.h. `exponent`: of FIXED32, a value is sent as value / 2^exponent (two's
 * complement). `slots`: the push uses this many slots of a switch (`peer`), as `member` of the `members` of a lease, in
 * chunks of `count` values with round and attempt 1, from the lease's slot 0 on; the `receivers` of the sums answer
 * under `result_token`. */
#define HD_FIELDS_GRANT(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, direction) F(u8, attempt) F(u16, epoch) \
	F(u64, token) F(u64, position) F(f32, weight) F(f32, cc_weight) F(u64, after) \
	F(u64, origin_ns) F(segs, segments) F(u32, peer_ipv4) F(u16, peer_port) \
	F(u64, bytes) F(u64, have) F(u8, conditional) F(u8, dtype) F(u16, exponent) F(u64, result_token) \
	F(u16, slots) F(u16, count) F(u8, member) F(u8, members) F(u8, receivers)
/* To the receiver of the transfer: the token to accept, its position, and the session to send `go` to. `peer`: the
 * aggregator that sends the chunks; port 0: the server or worker itself. */
#define HD_FIELDS_EXPECT(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, direction) F(u8, attempt) F(u16, epoch) \
	F(u64, token) F(u64, position) F(u64, base) F(u64, bytes) F(f32, weight) F(u8, dtype) \
	F(u64, after) F(u32, peer_ipv4) F(u16, peer_port)
/* The request is refused by policy; the numbers are those of hd_plan_why (hd_plan.h). `deadline`, `sum_id` and `text`
 * are a collective's (enum hd_collective). */
#define HD_FIELDS_DROP(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, direction) F(u8, attempt) F(u8, reason) \
	F(f64, finish_s) F(u64, runner_up) F(u32, deadline) F(f64, slack_s) F(u64, sum_id) F(text, text) F(u32, channel)
#define HD_FIELDS_CANCEL(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, direction) F(u8, attempt) F(u64, token) F(u8, reason) \
	F(u32, channel)
#define HD_FIELDS_VOID(F) F(u32, job) F(u64, position) F(u64, token) F(u8, reason)
#define HD_FIELDS_GO(F) F(u32, job) F(u64, token)

/* Selective acknowledgement of a transfer. `held`: chunks below this index are all held; `done`: every byte is;
 * `window_bytes`: room at the receiver beyond what it has acknowledged. */
#define HD_FIELDS_SACK(F) \
	F(u64, token) F(u32, held) F(u8, done) F(u32, delay_us) F(u32, window_bytes) F(ranges, packets)
/* The server's decision on a push: outcome (enum hd_outcome), version after the commit, delay. */
#define HD_FIELDS_OUTCOME(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, outcome) F(u8, reason) F(u64, version) F(u32, delay) F(u64, durable)
#define HD_FIELDS_DURABLE(F) F(u32, job) F(u64, version)
/* A synchronous step has ended without an update of this worker: updates from an older version would be late.
 * `version`: the newest. */
#define HD_FIELDS_STEP(F) F(u32, job) F(u64, version)
/* The server's answer to a pull before its data: the pinned version and its bytes, or NOT_MODIFIED. */
#define HD_FIELDS_PULL_STATE(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, attempt) F(u64, token) F(u8, reason) F(u64, version) F(u64, bytes)
/* The receiver of a transfer reports its end to the controller. `limited_permille`: share of the time in which the
 * sender's own pacing, not the network, was the limit. `credited`: sent on a credit, without a request, so a push's
 * `base` and `norm` (L2, as received, including the weight) are reported here. For an all-reduce `token` is the attempt
 * (`sum_id`). */
#define HD_FIELDS_REPORT(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, direction) F(u8, attempt) F(u64, token) F(u8, outcome) F(u8, reason) \
	F(u64, bytes) F(u64, duration_ns) F(u64, rate_bps) F(u16, limited_permille) F(u64, version) F(u64, position) \
	F(u64, base) F(f32, norm) F(u8, credited) F(u32, channel)
/* A server tells a new controller the state of a job, then one INFLIGHT for each open transfer. `generation`: of the
 * newest REPLICA that assigned the job's server; 0: it has begun without one. */
#define HD_FIELDS_STATE(F) \
	F(u32, job) F(u64, version) F(u64, position) F(u32, tau_max) F(u64, model_bytes) F(u32, inflight) \
	F(u64, generation)
#define HD_FIELDS_INFLIGHT(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, direction) F(u8, attempt) F(u64, token) \
	F(u64, position) F(u64, base) F(u64, bytes) F(u64, held_bytes)
/* A grant in advance of a worker's next push: to the server, then to the worker. The worker may send this round without
 * a request, if it has at most `bytes`, within `expires_us`; its chunks carry base, type and bytes. The credit holds
 * the push's position. Meanwhile the worker may also request one pull of at most `pull_bytes` directly from the server;
 * with token 0 the credit is for that only. VOID ends it; the server ends an unspent one. */
#define HD_FIELDS_CREDIT(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, attempt) F(u16, epoch) F(u64, token) F(u64, position) \
	F(f32, weight) F(u64, bytes) F(u64, pull_bytes) F(u32, expires_us) F(u32, peer_ipv4) F(u16, peer_port)
/* An aggregator adds its `inputs` (or: `op`) and sends the sum to the `outputs` (lists: hd_group.h). `group` names it
 * in VOID and REPORT. A single input is relayed: `version` is then the model's, 0 until PULL_STATE names it. `peer`:
 * the server that sends it, with which the aggregator opens a session; port 0: senders open theirs. */
#define HD_FIELDS_GROUP(F) \
	F(u32, job) F(u64, group) F(u16, epoch) F(u8, dtype) F(u8, order) F(u16, exponent) F(u64, bytes) \
	F(u64, version) F(u64, origin_ns) F(blob, inputs) F(blob, outputs) F(u32, peer_ipv4) F(u16, peer_port) F(u8, op)
/* To the receiver of a sum, instead of one EXPECT for each of its `members` (hd_group.h). Their positions begin at
 * `position`; they are committed together or not at all. `weight` is the sum of theirs; `peer` is the aggregator. A
 * replica gets the same for its own transfer (`token`). With `count` the sum comes from the slots of a switch (`peer`),
 * as RESULTs of that many values, each of which is answered by RESULT without values, from `receiver` (0: the
 * server). */
#define HD_FIELDS_MEMBERS(F) \
	F(u32, job) F(u64, token) F(u16, epoch) F(u64, position) F(u64, bytes) F(f32, weight) F(u8, dtype) \
	F(u64, after) F(u32, peer_ipv4) F(u16, peer_port) F(blob, members) F(u16, count) F(u8, receiver)
/* Slots of a switch for the chunks of a group: a lease. `members` (hd_group.h) send into them, in the order of their
 * bits in `waits`; the sums go to `receivers`, if there are any, else to the members. `attempt` and `shard` are those
 * of the chunks, which have `count` values each. `lease` names it in VOID, which ends it, and in REPORT: APPLIED, it is
 * in force (`base`: with this `waits`), or FAILED. A repeated lease changes only `waits`, to a subset of it. It ends by
 * itself `expires_us` after the end of the controller's session. */
#define HD_FIELDS_SLOTS(F) \
	F(u32, job) F(u64, lease) F(u16, epoch) F(u8, attempt) F(u8, dtype) F(u16, shard) F(u16, count) \
	F(u16, slots) F(u64, waits) F(u32, expires_us) F(blob, members) F(blob, receivers)
/* To a worker of an all-reduce, once all `workers` have asked: where each shard goes, and its sum comes from (list:
 * hd_group.h). With `slots` it is one shard, in the slots of a lease, one for each chunk: `count` values of `dtype`,
 * with `lease_attempt` and `turn` for attempt and round, from `member`, the first with `exponent`. `sum_id` numbers the
 * attempts. `first`: index of chunk 0 in the lease's stream; chunk c has slot (first + c) % slots, version (first + c)
 * / slots % 2. `rate_bps`: maximum, of values; 0: unlimited. `scale`: ROSTER's, for the result at all members.
 * `members`: ranks, not with `slots`. `waiting`: workers that call the roll instead. `shared`: token of shared memory,
 * where `turn` counts; 0: none. */
#define HD_FIELDS_REDUCE(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u8, attempt) F(u16, epoch) F(u8, dtype) F(u16, exponent) \
	F(u64, bytes) F(u16, workers) F(blob, shards) F(u16, slots) F(u16, count) F(u8, member) F(u8, lease_attempt) \
	F(u32, turn) F(u64, first) F(u64, rate_bps) F(u64, sum_id) F(f32, scale) F(blob, members) F(u8, op) \
	F(u16, waiting) F(u64, shared) F(u8, inlined) F(u32, inline_bytes) F(blob, values) F(u32, channel) F(u64, peer_boot)
#define HD_FIELDS_REDUCED(F) F(u32, job) F(u16, worker) F(u32, round) F(u64, sum_id) F(u32, channel)
#define HD_FIELDS_CHANNEL(F) \
	F(u32, job) F(u16, worker) F(u32, channel) F(u64, peer_boot) F(u32, called) F(u32, from) F(u64, open) \
	F(u32, newest) F(u64, had)
/* Starts a packet train (hd_probe.h): sent to its receiver first, then, with `send`, to its sender. */
#define HD_FIELDS_PROBE(F) F(u64, token) F(u8, send) F(u32, peer_ipv4) F(u16, peer_port) F(u16, packets)
/* From the receiver of a probe: `packets` came in `duration_ns` after the first counted one, at this many different
 * `moments`: few mean that the receiver was asleep, or the path is fast. */
#define HD_FIELDS_PROBED(F) F(u64, token) F(u16, packets) F(u16, moments) F(u64, duration_ns)
/* Traffic of a host's network card in the last `interval_ns`, both ways: `out` leaves the host. Bytes of frames: the
 * fabric's own, all others', and both while ours flowed, for `busy_ns` in all. `elastic`: sum and number of others'
 * fast flows (at least a quarter of the fastest), each at its recent peak; `steady`: the rest. Unnumbered: the next one
 * makes up for a loss. */
#define HD_FIELDS_LOAD(F) \
	F(u64, interval_ns) F(u64, out_ours) F(u64, out_others) F(u64, out_busy_ns) F(u64, out_busy_ours) \
	F(u64, out_busy_others) F(u64, out_steady_bps) F(u64, out_elastic_bps) F(u16, out_flows) F(u64, in_ours) \
	F(u64, in_others) F(u64, in_busy_ns) F(u64, in_busy_ours) F(u64, in_busy_others) F(u64, in_steady_bps) \
	F(u64, in_elastic_bps) F(u16, in_flows)
/* A server's part in a job (enum hd_replica_order). `generation` counts these assignments, over all processes of the
 * controller; messages of an older one have no effect. KEEP: `rate_bps`: maximum for states, 0: bounded by congestion
 * control only; `div_max`: 0 none, < 0 the job's own; `every` > 0: no log, but a state after this many commits. */
#define HD_FIELDS_REPLICA(F) \
	F(u32, job) F(u64, generation) F(u16, epoch) F(u8, order) F(u32, peer_ipv4) F(u16, peer_port) \
	F(u64, rate_bps) F(f64, div_max) F(u32, every)
/* A state for the replica: model and momentum at `version`, `bytes` each, follow as chunks under these tokens, and the
 * later commits as LOG. `prior`: incarnation:16 last:64 of each earlier incarnation, oldest first. */
#define HD_FIELDS_SEED(F) \
	F(u32, job) F(u64, generation) F(u64, version) F(u64, model_token) F(u64, momentum_token) F(u64, bytes) \
	F(u32, every) F(blob, prior) F(blob, spec)
/* Commits, in their order (hd_entry.h); or (`of`: enum hd_log_of) the rounds that are in a state. */
#define HD_FIELDS_LOG(F) F(u32, job) F(u64, generation) F(u8, of) F(blob, entries)
/* A replica's progress (enum hd_follow_state): from the replica to its server, from the server to the controller.
 * `version`: the newest that the replica has completely; `behind`: entries of the log that it has not applied; the
 * server adds the bound of the distance (< 0: unknown), and whether commits wait for the replica (`held`). `peer`: the
 * replica. */
#define HD_FIELDS_FOLLOW(F) \
	F(u32, job) F(u64, generation) F(u8, state) F(u64, version) F(u32, behind) F(f64, divergence) \
	F(u8, held) F(u32, peer_ipv4) F(u16, peer_port)
/* A worker's machine will be preempted in `left_us`, as with a cloud's spot instances; from the controller: the job has
 * more workers than it should, and this one must leave by then. */
#define HD_FIELDS_NOTICE(F) F(u32, job) F(u16, worker) F(u32, left_us)
/* A round of a federated job, for a worker that was drawn: train from the model `version` and push the difference,
 * within `left_ms` (0: no limit). It is the `place`-th of `clients` drawn; `drops`: work of fewer than `epochs` does
 * not count; `mu`: of the proximal term. May be repeated, as the first or its answer may be lost. */
#define HD_FIELDS_ROUND(F) \
	F(u32, job) F(u32, round) F(u64, version) F(u16, place) F(u16, clients) F(u16, epochs) F(u8, drops) \
	F(f32, mu) F(u32, left_ms)
/* Fewer workers than `needed` are here for `round`, and none has come for `waited_ms`: sent to those that are `here`.
 * `gone` is the number that were lost without leaving, and may come back. Repeated after the same wait. */
#define HD_FIELDS_LACK(F) F(u32, job) F(u32, round) F(u16, here) F(u16, needed) F(u16, gone) F(u32, waited_ms)
/* A worker's report on such a round, before it pushes: `epochs`, the loss of its samples at the round's model, their
 * number (`weight`), and gamma = |grad h(w)| / |grad F(w_t)| (< 0: not computed). `gives` 0: no push will follow. */
#define HD_FIELDS_WORK(F) \
	F(u32, job) F(u16, worker) F(u32, round) F(u16, epochs) F(u8, gives) F(f32, weight) F(f32, gamma) F(f64, loss)
/* The current members of the job: `count` workers, `ranks` as a set of bits (hd_roster.h). `change` grows with every
 * difference: epoch:16 of the sender, changes:48. The values that depend on their number change together with it:
 * `target`, the number of workers that there should be (0: not set); `sync_count`, N of N-sync, and `tau_max` (0: the
 * job's); `scale` (0: the job's), a factor on updates, by which the server multiplies the mean of a synchronous
 * step. */
#define HD_FIELDS_ROSTER(F) \
	F(u32, job) F(u64, change) F(u16, count) F(blob, ranks) F(u16, target) F(u32, sync_count) F(u32, tau_max) \
	F(f32, scale)
/* A worker's observations since its last OBSERVE: its newest `step`, the sum of the losses of `samples` samples, the
 * time of a step, L2 norms of what it sent and of what a filter still holds back (< 0: unknown). */
#define HD_FIELDS_OBSERVE(F) \
	F(u32, job) F(u16, worker) F(u32, step) F(f64, loss_sum) F(u64, samples) F(u64, step_ns) F(f32, sent_norm) \
	F(f32, held_norm)
/* Too many workers come at once: this one must send REGISTER, or JOIN, again in `wait_us`. */
#define HD_FIELDS_WAIT(F) F(u32, job) F(u16, worker) F(u32, wait_us)
/* Operator's shell: `table` by name; the answer is one JSON document. */
#define HD_FIELDS_SHOW(F) F(name, table) F(text, filter)
#define HD_FIELDS_TABLE(F) F(name, table) F(blob, json)
/* An operator's command (enum hd_verb). `object`: for SET the setting; for ELASTIC "set", with words like
 * `policy=manual n=4` as the value, or "price"; for CLEAR "dataplane"; else "all", "job", "worker" or "host". `target`
 * names it (JOB or TENANT/JOB, a host), `value` is SET's value or the worker's rank. `request` is returned in DONE,
 * with NONE and what was done, or REFUSED and a text with the wrong field and its limit; `affected` counts the jobs,
 * nodes or transfers concerned. */
#define HD_FIELDS_COMMAND(F) F(u32, request) F(u8, verb) F(name, object) F(text, target) F(text, value)
#define HD_FIELDS_DONE(F) F(u32, request) F(u8, reason) F(u32, affected) F(text, text)
/* Asks a node for its counters. `mark` is returned in STATS: values as of the node's clock `at_ns` (hd_dataplane.h). */
#define HD_FIELDS_POLL(F) F(u32, mark)
#define HD_FIELDS_STATS(F) F(u32, mark) F(u64, at_ns) F(blob, values)

/* Name, member, kind, and the roles that may send it at all. A receiver's routes (hd_route.h) choose among these. */
#define HD_MESSAGES(M) \
	M(HELLO, hello, 1, HD_FROM_ANY) \
	M(WELCOME, welcome, 2, HD_FROM_ANY) \
	M(REFUSE, refuse, 3, HD_FROM_ANY) \
	M(PING, ping, 4, HD_FROM_ANY) \
	M(PONG, pong, 5, HD_FROM_ANY) \
	M(CLOSE, close, 6, HD_FROM_ANY) \
	M(COOKIE, cookie, 7, HD_FROM_ANY) \
	M(RESET, reset, 8, HD_FROM_ANY) \
	M(QUERY, query, 9, HD_FROM_ANY) \
	M(GONE, gone, 10, HD_FROM_ANY) \
	M(REGISTER, register_, 16, HD_FROM_WORKER | HD_FROM_SERVERS | HD_FROM_AGGREGATOR | HD_FROM_SWITCH | HD_FROM_MONITOR) \
	M(REGISTERED, registered, 17, HD_FROM_CONTROLLER) \
	M(JOIN, join, 18, HD_FROM_WORKER) \
	M(JOINED, joined, 19, HD_FROM_SERVERS) \
	M(LEAVE, leave, 20, HD_FROM_WORKER | HD_FROM_SERVERS) \
	M(REQUEST, request, 32, HD_FROM_WORKER | HD_FROM_SERVERS) \
	M(GRANT, grant, 33, HD_FROM_CONTROLLER | HD_FROM_SERVERS) \
	M(EXPECT, expect, 34, HD_FROM_CONTROLLER) \
	M(DROP, drop, 35, HD_FROM_CONTROLLER | HD_FROM_SERVERS) \
	M(CANCEL, cancel, 36, HD_FROM_WORKER) \
	M(VOID, void_, 37, HD_FROM_CONTROLLER | HD_FROM_SERVERS | HD_FROM_AGGREGATOR) \
	M(GO, go, 38, HD_FROM_SERVERS | HD_FROM_AGGREGATOR) \
	M(SACK, sack, 39, HD_FROM_WORKER | HD_FROM_SERVERS | HD_FROM_AGGREGATOR) \
	M(OUTCOME, outcome, 40, HD_FROM_SERVERS) \
	M(DURABLE, durable, 41, HD_FROM_SERVERS) \
	M(PULL_STATE, pull_state, 42, HD_FROM_SERVERS | HD_FROM_AGGREGATOR) \
	M(REPORT, report, 43, HD_FROM_WORKER | HD_FROM_SERVERS | HD_FROM_AGGREGATOR | HD_FROM_SWITCH) \
	M(STATE, state, 44, HD_FROM_SERVERS) \
	M(INFLIGHT, inflight, 45, HD_FROM_SERVERS) \
	M(ROUND, round, 46, HD_FROM_SERVERS) \
	M(WORK, work, 47, HD_FROM_WORKER) \
	M(CREDIT, credit, 48, HD_FROM_CONTROLLER) \
	M(GROUP, group, 49, HD_FROM_CONTROLLER) \
	M(MEMBERS, members, 50, HD_FROM_CONTROLLER) \
	M(PROBE, probe, 51, HD_FROM_CONTROLLER) \
	M(SLOTS, slots, 52, HD_FROM_CONTROLLER) \
	M(STEP, step, 53, HD_FROM_SERVERS) \
	M(LOAD, load, 54, HD_FROM_MONITOR) \
	M(PROBED, probed, 55, HD_FROM_WORKER | HD_FROM_SERVERS) \
	M(REPLICA, replica, 56, HD_FROM_CONTROLLER) \
	M(SEED, seed, 57, HD_FROM_SERVERS) \
	M(LOG, log, 58, HD_FROM_SERVERS) \
	M(FOLLOW, follow, 59, HD_FROM_SERVERS) \
	M(REDUCE, reduce, 60, HD_FROM_CONTROLLER) \
	M(NOTICE, notice, 61, HD_FROM_WORKER | HD_FROM_CONTROLLER) \
	M(ROSTER, roster, 62, HD_FROM_CONTROLLER | HD_FROM_SERVERS) \
	M(OBSERVE, observe, 63, HD_FROM_WORKER) \
	M(SHOW, show, 64, HD_FROM_SHELL) \
	M(TABLE, table, 65, HD_FROM_CONTROLLER | HD_FROM_SERVERS | HD_FROM_AGGREGATOR | HD_FROM_SWITCH) \
	M(COMMAND, command, 66, HD_FROM_SHELL) \
	M(DONE, done, 67, HD_FROM_CONTROLLER | HD_FROM_SERVERS | HD_FROM_AGGREGATOR | HD_FROM_SWITCH) \
	M(LACK, lack, 68, HD_FROM_SERVERS) \
	M(POLL, poll, 69, HD_FROM_CONTROLLER) \
	M(STATS, stats, 70, HD_FROM_WORKER | HD_FROM_SERVERS | HD_FROM_AGGREGATOR | HD_FROM_SWITCH | HD_FROM_MONITOR) \
	M(WAIT, wait, 71, HD_FROM_CONTROLLER | HD_FROM_SERVERS) \
	M(REDUCED, reduced, 72, HD_FROM_CONTROLLER) \
	M(CHANNEL, channel, 73, HD_FROM_CONTROLLER | HD_FROM_WORKER)

/* clang-format on */

enum hd_message_kind {
	HD_MSG_NONE = 0,
#define HD_MESSAGE_ENUM(upper, lower, number, from) HD_MSG_##upper = (number),
	HD_MESSAGES(HD_MESSAGE_ENUM)
#undef HD_MESSAGE_ENUM
};

#define HD_MESSAGE_FIELD(type, field) hd_##type field;
#define HD_MESSAGE_STRUCT(upper, lower, number, from)                                              \
	struct hd_msg_##lower {                                                                    \
		HD_FIELDS_##upper(HD_MESSAGE_FIELD)                                                \
	};
HD_MESSAGES(HD_MESSAGE_STRUCT)
#undef HD_MESSAGE_STRUCT
#undef HD_MESSAGE_FIELD

struct hd_message {
	uint8_t kind; /* enum hd_message_kind */
	union {
#define HD_MESSAGE_MEMBER(upper, lower, number, from) struct hd_msg_##lower lower;
		HD_MESSAGES(HD_MESSAGE_MEMBER)
#undef HD_MESSAGE_MEMBER
	};
};

/* Encodes the body into data, and may write there in any case. Returns its bytes, -EMSGSIZE (beyond capacity or
 * HD_MESSAGE_BYTES_MAX), -EINVAL (unknown kind; a count or string beyond its limit, see hd_text_copy(); ranges). */
int hd_message_encode(const struct hd_message *message, uint8_t *data, size_t capacity);

/* The roles that may send a kind at all (HD_FROM_*); 0 for an unknown kind. */
uint32_t hd_message_senders(uint8_t kind);

/* Decodes a whole body. Blobs point into data. Every count is checked, names and texts are valid UTF-8 without control
 * characters, floats and enumerations may be anything (their users check); bytes after the last known field are
 * refused. Returns 0 or -EBADMSG with *message undefined. */
int hd_message_decode(uint8_t kind, const uint8_t *data, size_t bytes, struct hd_message *message);

/* "grant", "request", ...; "unknown" otherwise. */
const char *hd_message_name(uint8_t kind);
const char *hd_role_name(uint8_t role);
const char *hd_verb_name(uint8_t verb);

enum hd_field_type {
	HD_FIELD_u8,
	HD_FIELD_u16,
	HD_FIELD_u32,
	HD_FIELD_u64,
	HD_FIELD_f32,
	HD_FIELD_f64,
	HD_FIELD_name, /* u8 length, bytes */
	HD_FIELD_text, /* u16 length, bytes */
	HD_FIELD_nonce,
	HD_FIELD_blob,
	HD_FIELD_segs,
	HD_FIELD_ranges
};

/* One row for each field of a kind, for documents, dissectors and tests. NULL past the last. */
struct hd_field_info {
	const char *name;
	const char *type;
	uint16_t offset; /* in struct hd_message */
	uint8_t code; /* enum hd_field_type */
};
const struct hd_field_info *hd_message_field(uint8_t kind, size_t index);

#endif
