/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates that come: their lives, what may come, which may be committed, and how they end. */
#ifndef SRV_INCOMING_H
#define SRV_INCOMING_H

#include "hd_recv.h"
#include "hd_seal.h"
#include "srv_job.h"

struct rep_entry;
LIST_HEAD(srv_incoming_successors, srv_incoming);

/* One push of a transfer. */
struct srv_part {
	struct srv_handle handle; /* first; of a sum's: its token at the aggregator */
	struct srv_incoming *in;
	struct srv_member *member;
	uint32_t round;
	uint8_t attempt;
	hd_version base;
	float weight; /* by which its worker multiplied it */
	uint8_t late; /* steps; of one in a federated job's step */
	LIST_ENTRY(srv_part) member_link;
};

enum srv_incoming_kind {
	SRV_EXPECTED, /* told by EXPECT */
	SRV_DIRECT, /* asked for here */
	SRV_CREDIT, /* granted in advance: dtype, bytes and base are known from its first chunk on */
	SRV_SUM /* told by MEMBERS */
};

/*
 *   STARVED <-> TOLD --(first chunk)--> COMING --(last)--> HELD --(end of that call)--> READY --> STEPPED
 *
 * It ends in any of them: applied when it is READY or STEPPED.
 */
enum srv_incoming_state {
	SRV_STARVED, /* a direct one that waits for memory: it is not granted */
	SRV_TOLD,
	SRV_COMING, /* its first chunk was taken */
	SRV_HELD, /* whole */
	SRV_READY, /* the same, and looked at: it may be committed */
	SRV_STEPPED /* a member of its job's step: in that list instead of the queue, its values in the sum */
};

/*
 * A transfer that may come, comes, or waits for its commit: one worker's update, or the sum of several that an
 * aggregator sends. The parts of a sum are committed together or not at all; part i is at
 * position + i and makes the i-th version from there.
 */
struct srv_incoming {
	struct srv_handle handle; /* first */
	struct hd_seal seal;
	struct srv_job *job;
	enum srv_incoming_kind kind;
	enum srv_incoming_state state; /* changed by srv_incoming_enter() only */
	uint8_t spoilt; /* enum hd_reason; NOT_FINITE: a NaN or an Inf came where the job allows none; REFUSED: no runs of this
			   model, or no exponent */
	bool queued, touched; /* it is in that list */
	bool pending; /* the controller was told that it is held and waits */
	bool went; /* go was said, or would have been if the aggregator had a session */
	bool normed; /* norm2 counts all that is held */
	bool apart; /* a controller that does not know the sum was told of its parts one by one */
	uint8_t dtype; /* of its values on the wire; the model's are fp32 */
	int16_t exponent; /* of fixed point, granted directly */
	uint64_t bytes; /* that it has on the wire: not more than the model's */
	uint64_t limit; /* of a credit: bytes */
	double norm2; /* squared, of what has come: of a credit, and where a replica follows */
	uint64_t position; /* key in the job's queue; direct: that of the tail when it completed */
	uint32_t packet_bytes; /* biggest payload seen */
	uint32_t chunks; /* set at the end */
	hd_ns granted, active; /* its grant was heard; it last showed that it will come */
	hd_ns completed_at;
	struct srv_buffer *buffer; /* NULL: no chunk yet */
	struct hd_recv *recv;
	struct rep_entry *entry; /* of the log, of a copy; NULL: none, or not yet */
	struct srv_peer *source; /* of a copy: who sends it, once a chunk has come */
	struct hd_timer timer;
	struct hd_addr sender; /* of a sum */
	uint16_t
		slot_values; /* it comes from a switch's slots, so many values at a time; 0: it does not */
	uint8_t receiver; /* then: which of the sum's receivers this node is */
	struct srv_peer *aggregator; /* its session; NULL: none with that address */
	struct srv_incoming *predecessor; /* whose end frees this one's start */
	struct srv_incoming_successors successors;
	LIST_ENTRY(srv_incoming) successor_link, aggregator_link;
	TAILQ_ENTRY(srv_incoming) open_link, queue_link, touched_link, starved_link;
	uint16_t part_count, steps; /* members; steps of its mean that it makes */
	float scale; /* of one in a federated job's step: what is left of its weights, as it is late; else 1 */
	struct srv_part parts[];
};

/* It is for a replica: nobody but the log decides on it. */
static inline bool srv_incoming_is_copy(const struct srv_incoming *in) {
	return in->job->replica;
}

static inline bool srv_incoming_is_whole(const struct srv_incoming *in) {
	return in->state >= SRV_HELD;
}

/* --- its life: srv_incoming.c ----------------------------------------------------------------- */
struct srv_incoming *srv_incoming_create(
	struct srv_turn *turn,
	struct srv_job *job,
	uint64_t token,
	uint16_t part_count
);
/* The one function that changes its state. */
void srv_incoming_enter(struct srv_incoming *in, enum srv_incoming_state state);
/* Says whose push the part at index is. */
void srv_incoming_part(struct srv_incoming *in, uint16_t index, const struct srv_part *part);
void srv_incoming_destroy(struct hd_server *server, struct srv_incoming *in);
/* Forgets an update, its successors may go. `done` says whether late chunks are answered so. */
void srv_incoming_end(struct srv_turn *turn, struct srv_incoming *in, bool done);
/* The session of whoever sends it; NULL: there is none. */
struct srv_peer *srv_incoming_peer(const struct srv_incoming *in);
/* An event of this transfer: whose it is, which it is. */
struct hd_event srv_incoming_event(const struct srv_incoming *in, enum hd_event_kind kind);
struct srv_tombstone srv_incoming_epitaph(const struct srv_incoming *in, uint64_t token, bool done);
/* Gives it a buffer and a receiver. 0 or -ENOMEM. What a sum's chunks call themselves says the first of them
 * (NULL for all others). */
int srv_incoming_open(
	struct hd_server *server,
	struct srv_incoming *in,
	const struct hd_chunk_header *header
);
/* Has it looked at before the call ends. */
void srv_incoming_touch(struct hd_server *server, struct srv_incoming *in);
/* After all with positions that are not greater. */
void srv_commit_queue(struct srv_incoming *in);
/* `after` has ended: the transfer goes; else it waits for that. */
void srv_incoming_follow(struct srv_turn *turn, struct srv_incoming *in, uint64_t after);
/* Tells the worker of `in` to start, and no longer waits for its predecessor. */
void srv_incoming_go(struct srv_turn *turn, struct srv_incoming *in);
/* What EXPECT says of an update, or of its copy: this part is all of it. */
void srv_incoming_expect(
	struct srv_incoming *in,
	const struct hd_msg_expect *expect,
	const struct srv_part *part
);
/* What MEMBERS says of a sum, besides its parts. */
void srv_sum_expect(struct srv_incoming *in, const struct hd_msg_members *message);
/* The squared norm of one that is held whole. */
double srv_incoming_norm2(struct srv_incoming *in);
/* This session is the one that the sum comes over. */
void srv_sum_bind(struct srv_incoming *in, struct srv_peer *peer);
/* What its values were multiplied by; of a sum, their total. */
float srv_incoming_weight(const struct srv_incoming *in);
/* The same, not rounded. */
double srv_incoming_weights(const struct srv_incoming *in);

/* --- members' pushes: srv_member.c ------------------------------------------------------------ */
/* The member's push of this round that comes, or NULL. */
struct srv_part *srv_member_part(const struct srv_member *member, uint32_t round);
/* Whether a push of it is in its job's step. */
bool srv_member_stepped(const struct srv_member *member);

/* --- what may come: srv_payload.c ------------------------------------------------------------- */
/* Whether an update of this job may come as so many bytes of this type. */
bool srv_payload_fits(const struct srv_job *job, uint8_t dtype, uint64_t bytes);
/* By its MAC, if it is sealed. */
bool srv_chunk_is_true(
	struct srv_turn *turn,
	struct hd_seal *seal,
	const struct hd_chunk_header *header,
	const struct hd_packet *packet
);
/* Whether what MEMBERS says of slots, if anything, is possible. */
bool srv_stream_fits(const struct hd_msg_members *message, uint16_t members);
/* Squared L2 norm of values as they travel; of a sparse update: of one chunk's. */
double
srv_payload_norm2(const struct srv_job *job, uint8_t dtype, const void *values, size_t bytes);

/* --- what may be committed: srv_bound.c ------------------------------------------------------- */
/* HD_REASON_NONE when an update on `base` could still be applied after `ahead` others, else LOST_BASE or LATE. */
enum hd_reason srv_commit_bound(const struct srv_job *job, hd_version base, uint64_t ahead);
/* The same of all parts of a transfer. */
enum hd_reason
srv_commit_bounds(const struct srv_job *job, const struct srv_incoming *in, uint64_t ahead);
/* The delay of this part, if it makes the version with that counter. */
uint32_t srv_commit_delay(const struct srv_part *part, uint64_t counter);
/* Of what is committed with `in`: the updates in all; the next transfer, NULL after the last. */
uint32_t srv_commit_parts(const struct srv_incoming *in);
struct srv_incoming *srv_commit_after(const struct srv_incoming *in);

/* --- what is told: srv_tell.c ----------------------------------------------------------------- */
void srv_commit_outcome(
	struct srv_turn *turn,
	const struct srv_job *job,
	const struct srv_member *member,
	const struct srv_round *round
);
/* The controller's word on how a push ended. */
void srv_commit_report(
	struct srv_turn *turn,
	const struct srv_incoming *in,
	const struct srv_round *round
);
/* A transfer ended, but not its round: told at once, its worker need not find out by waiting. */
void srv_push_withdraw(
	struct srv_turn *turn,
	const struct srv_job *job,
	const struct srv_member *member,
	uint64_t token,
	enum hd_reason reason
);
/* The same to any session; NULL: there is none. */
void srv_peer_withdraw(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct srv_job *job,
	uint64_t token,
	enum hd_reason reason
);
/* Of a credit that is refused, or ends unspent. */
void srv_credit_report(
	struct srv_turn *turn,
	const struct hd_msg_credit *credit,
	enum hd_reason reason
);

/* --- ends: srv_fail.c ------------------------------------------------------------------------- */
uint8_t srv_reason_outcome(enum hd_reason reason);
/* A round ends without being applied; recorded and told unless only its transfer has ended. */
void srv_round_fail(
	struct srv_turn *turn,
	struct srv_job *job,
	struct srv_member *member,
	const struct srv_round *round
);
/* A transfer, no copy, ends without being applied: told, recorded when that is final, counted. Of a sum the reason is
 * that of `cause`, one of its parts (NULL: nobody's); the other parts' workers may ask again. */
void srv_push_fail(
	struct srv_turn *turn,
	struct srv_incoming *in,
	enum hd_reason reason,
	const struct srv_part *cause
);
bool srv_credit_unspent(const struct srv_incoming *in);
/* Nobody spends it any more: its worker is told, the controller when it does not know. */
void srv_credit_end(
	struct srv_turn *turn,
	struct srv_incoming *in,
	enum hd_reason reason,
	bool report
);

#endif
