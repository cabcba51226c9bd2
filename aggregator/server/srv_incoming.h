/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates in transfer: admission, states, commit, and how they end. */
#ifndef SRV_INCOMING_H
#define SRV_INCOMING_H

#include "hd_recv.h"
#include "hd_seal.h"
#include "srv_job.h"

struct rep_entry;
LIST_HEAD(srv_incoming_successors, srv_incoming);

/* One push of a transfer. */
struct srv_part {
	struct srv_handle handle; /* first; of a sum: its token at the aggregator */
	struct srv_incoming *in;
	struct srv_member *member;
	uint32_t round;
	uint8_t attempt;
	hd_version base;
	float weight; /* by which its worker multiplied it */
	uint8_t late; /* in steps; in a federated job's step */
	LIST_ENTRY(srv_part) member_link;
};

enum srv_incoming_kind {
	SRV_EXPECTED, /* announced by EXPECT */
	SRV_DIRECT, /* requested by its worker here */
	SRV_CREDIT, /* granted in advance: its first chunk sets dtype, bytes and base */
	SRV_SUM /* announced by MEMBERS */
};

/*
 * STARVED <-> ANNOUNCED --(first chunk)--> COMING --(last)--> HELD --(end of that call)--> READY --> STEPPED
 *
 * It may end in any of them: applied when it is READY or STEPPED.
 */
enum srv_incoming_state {
	SRV_STARVED, /* waits for memory, not granted yet (SRV_DIRECT) */
	SRV_ANNOUNCED,
	SRV_COMING, /* its first chunk was taken */
	SRV_HELD, /* complete */
	SRV_READY, /* complete and checked: it may be committed */
	SRV_STEPPED /* in its job's step: in that list, not in the queue, and in the sum */
};

/*
 * A transfer that is announced, in flight, or waits for its commit: one worker's update, or the sum of several from an
 * aggregator. The parts of a sum are committed together or not at all; part i is at position + i and makes the i-th
 * version from there.
 */
struct srv_incoming {
	struct srv_handle handle; /* first */
	struct hd_seal seal;
	struct srv_job *job;
	enum srv_incoming_kind kind;
	enum srv_incoming_state state; /* changed by srv_incoming_enter() only */
	uint8_t spoilt; /* enum hd_reason; NOT_FINITE: a NaN or Inf; REFUSED: malformed */
	bool queued, touched; /* it is in that list */
	bool pending; /* the controller knows that it is complete and waits */
	bool went; /* go was sent, or the aggregator had no session */
	bool normed; /* norm2 covers everything held */
	bool apart; /* its parts were announced one by one to a new controller */
	uint8_t dtype; /* of its values on the wire; the model's are fp32 */
	int16_t exponent; /* of fixed point, for a direct grant */
	uint64_t bytes; /* on the wire: at most the model's */
	uint64_t limit; /* of a credit: maximum of bytes */
	double norm2; /* squared L2 norm of what came: of a credit, and with a replica */
	uint64_t position; /* key in the job's queue; direct: the tail's at its completion */
	uint32_t packet_bytes; /* largest payload seen */
	uint32_t chunks; /* set at the end */
	hd_ns granted, active; /* when its grant came; when it last made progress */
	hd_ns completed_at;
	struct srv_buffer *buffer; /* NULL: no chunk yet */
	struct hd_recv *recv;
	struct rep_entry *entry; /* of a copy: its log entry; NULL: none yet */
	struct srv_peer *source; /* of a copy: its sender, once a chunk has come */
	struct hd_timer timer;
	struct hd_addr sender; /* of a sum */
	uint16_t slot_values; /* values a slot, if it comes through a switch; 0: it does not */
	uint8_t receiver; /* then: the index of this node among the sum's receivers */
	struct srv_peer *aggregator; /* its session; NULL: there is none at that address */
	struct srv_incoming *predecessor; /* this one starts when that one ends */
	struct srv_incoming_successors successors;
	LIST_ENTRY(srv_incoming) successor_link, aggregator_link;
	TAILQ_ENTRY(srv_incoming) open_link, queue_link, touched_link, starved_link;
	uint16_t part_count, steps; /* members; steps that its mean counts as */
	float scale; /* weight factor of a late update in a federated job's step; else 1 */
	struct srv_part parts[];
};

/* It is a replica's: only the log decides on it. */
static inline bool srv_incoming_is_copy(const struct srv_incoming *in) {
	return in->job->replica;
}

static inline bool srv_incoming_is_whole(const struct srv_incoming *in) {
	return in->state >= SRV_HELD;
}

/* --- states: srv_incoming.c ------------------------------------------------------------------- */
struct srv_incoming *srv_incoming_create(
	struct srv_turn *turn,
	struct srv_job *job,
	uint64_t token,
	uint16_t part_count
);
/* The only function that changes its state. */
void srv_incoming_enter(struct srv_incoming *in, enum srv_incoming_state state);
/* Sets the push at this index. */
void srv_incoming_part(struct srv_incoming *in, uint16_t index, const struct srv_part *part);
void srv_incoming_destroy(struct hd_server *server, struct srv_incoming *in);
/* Removes an update and lets its successors go. `done`: whether late chunks are answered so. */
void srv_incoming_end(struct srv_turn *turn, struct srv_incoming *in, bool done);
/* The session of its sender; NULL: there is none. */
struct srv_peer *srv_incoming_peer(const struct srv_incoming *in);
/* An event of this transfer with its identity. */
struct hd_event srv_incoming_event(const struct srv_incoming *in, enum hd_event_kind kind);
struct srv_tombstone srv_incoming_epitaph(const struct srv_incoming *in, uint64_t token, bool done);
/* Allocates a buffer and a receiver. 0 or -ENOMEM. The chunk header of a sum sets its properties (NULL for all
 * others). */
int srv_incoming_open(
	struct hd_server *server,
	struct srv_incoming *in,
	const struct hd_chunk_header *header
);
/* Handles it before the call ends. */
void srv_incoming_touch(struct hd_server *server, struct srv_incoming *in);
/* Inserts it after all with positions that are not greater. */
void srv_commit_queue(struct srv_incoming *in);
/* Makes it wait for the transfer `after`; if that has ended, it goes. */
void srv_incoming_follow(struct srv_turn *turn, struct srv_incoming *in, uint64_t after);
/* Tells the worker of `in` to start, without waiting for its predecessor. */
void srv_incoming_go(struct srv_turn *turn, struct srv_incoming *in);
/* Sets an update, or its copy, from EXPECT: this part is all of it. */
void srv_incoming_expect(
	struct srv_incoming *in,
	const struct hd_msg_expect *expect,
	const struct srv_part *part
);
/* Sets a sum from MEMBERS, without its parts. */
void srv_sum_expect(struct srv_incoming *in, const struct hd_msg_members *message);
/* The squared norm of a complete update. */
double srv_incoming_norm2(struct srv_incoming *in);
/* The sum is received over this session. */
void srv_sum_bind(struct srv_incoming *in, struct srv_peer *peer);
/* The factor its values were multiplied by; of a sum, their total. */
float srv_incoming_weight(const struct srv_incoming *in);
/* The same, not rounded. */
double srv_incoming_weights(const struct srv_incoming *in);

/* --- members' pushes: srv_member.c ------------------------------------------------------------ */
/* The member's incoming push of this round, or NULL. */
struct srv_part *srv_member_part(const struct srv_member *member, uint32_t round);
/* Whether one of its pushes is in its job's step. */
bool srv_member_stepped(const struct srv_member *member);

/* --- accepted payloads: srv_payload.c --------------------------------------------------------- */
/* Whether an update of this job may have this type and size. */
bool srv_payload_fits(const struct srv_job *job, uint8_t dtype, uint64_t bytes);
/* Checks its MAC, if it is sealed. */
bool srv_chunk_is_true(
	struct srv_turn *turn,
	struct hd_seal *seal,
	const struct hd_chunk_header *header,
	const struct hd_packet *packet
);
/* Whether the slots named in MEMBERS, if any, are valid. */
bool srv_stream_fits(const struct hd_msg_members *message, uint16_t members);
/* Squared L2 norm of values in wire format; of a sparse update: of one chunk's. */
double
srv_payload_norm2(const struct srv_job *job, uint8_t dtype, const void *values, size_t bytes);

/* --- the bound: srv_bound.c ------------------------------------------------------------------- */
/* HD_REASON_NONE if an update on `base` could still be applied after `ahead` others, else LOST_BASE or LATE. */
enum hd_reason srv_commit_bound(const struct srv_job *job, hd_version base, uint64_t ahead);
/* The same for all parts of a transfer. */
enum hd_reason
srv_commit_bounds(const struct srv_job *job, const struct srv_incoming *in, uint64_t ahead);
/* The delay of this part if it makes the version with that counter. */
uint32_t srv_commit_delay(const struct srv_part *part, uint64_t counter);
/* The updates that are committed with `in`: their number; the next transfer, NULL after the last. */
uint32_t srv_commit_parts(const struct srv_incoming *in);
struct srv_incoming *srv_commit_after(const struct srv_incoming *in);

/* --- messages: srv_tell.c --------------------------------------------------------------------- */
void srv_commit_outcome(
	struct srv_turn *turn,
	const struct srv_job *job,
	const struct srv_member *member,
	const struct srv_round *round
);
/* Reports the end of a push to the controller. */
void srv_commit_report(
	struct srv_turn *turn,
	const struct srv_incoming *in,
	const struct srv_round *round
);
/* A transfer ended, but not its round: tells its worker at once, so that it need not time out. */
void srv_push_withdraw(
	struct srv_turn *turn,
	const struct srv_job *job,
	const struct srv_member *member,
	uint64_t token,
	enum hd_reason reason
);
/* The same for any session; NULL: there is none. */
void srv_peer_withdraw(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct srv_job *job,
	uint64_t token,
	enum hd_reason reason
);
/* Reports a credit that was refused, or ended unspent. */
void srv_credit_report(
	struct srv_turn *turn,
	const struct hd_msg_credit *credit,
	enum hd_reason reason
);

/* --- ends: srv_fail.c ------------------------------------------------------------------------- */
uint8_t srv_reason_outcome(enum hd_reason reason);
/* A round ends without being applied: records and tells it, unless only its transfer has ended. */
void srv_round_fail(
	struct srv_turn *turn,
	struct srv_job *job,
	struct srv_member *member,
	const struct srv_round *round
);
/* A transfer that is no copy ends without being applied: tells the workers, records final outcomes, counts. For a sum,
 * `cause` is the part that the reason applies to (NULL: none); the other parts' workers may ask again. */
void srv_push_fail(
	struct srv_turn *turn,
	struct srv_incoming *in,
	enum hd_reason reason,
	const struct srv_part *cause
);
bool srv_credit_unspent(const struct srv_incoming *in);
/* An unspent credit ends: tells its worker, and the controller if it does not know. */
void srv_credit_end(
	struct srv_turn *turn,
	struct srv_incoming *in,
	enum hd_reason reason,
	bool report
);

#endif
