/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication: a job that has a replica has a rep_primary at its server and a rep_job at the replica's node, which runs
 * the same core (docs/protocol/replica.md).
 *
 *   server                                            replica
 *   rep_primary.c    orders, permits, confirmed       rep_job.c       orders, the log's queue, applying
 *   rep_link.c       the session between the two
 *   rep_state_out.c  -- SEED, chunks, LOG(past) -->   rep_state_in.c  a state being received
 *                    -- LOG ---------------------->   rep_copy.c      copies, from workers
 *                    <------------------- FOLLOW --   rep_sum.c       sums, from aggregators
 */
#ifndef REP_PRIMARY_H
#define REP_PRIMARY_H

#include "hd_divergence.h"
#include "hd_entry.h"
#include "srv_replica.h"

#define REP_LOG_BYTES_MAX 32768 /* of the entries in one LOG */
#define REP_INCARNATION_BYTES 10 /* of one entry of SEED.prior */
#define REP_RETRY_US 100000 /* after a state that found no memory, and between two after holes */
#define REP_LINK_AGAIN_US 1000000 /* after a replica refused the session */
#define REP_TELL_US 100000 /* progress is reported to the controller at most this often */
#define REP_ROUNDS_MANY 512 /* with more workers than this */
#define REP_ROUNDS_FEW 16 /* a state carries only this many rounds a worker */

/* A session with a replica's node, shared by the jobs that have their replica there. */
struct rep_link {
	struct hd_addr addr;
	struct hd_session *session; /* NULL: refused or closed; opened again at again_at */
	hd_ns again_at;
	struct srv_peer *peer; /* NULL: not open */
	uint32_t users;
	TAILQ_ENTRY(rep_link) link;
};

/* The transfer of a model or momentum to the replica. */
struct rep_state_out {
	struct srv_handle handle; /* first */
	struct rep_primary *primary;
	struct hd_send *send; /* NULL: none in flight */
	struct hd_timer timer;
};

struct rep_primary {
	struct srv_job *job;
	struct rep_link *link;
	uint64_t generation, rate_bps;
	double div_set; /* as REPLICA set it; < 0: the job's own */
	uint32_t every;
	uint8_t state; /* enum hd_follow_state, as the replica last reported it */
	bool logs; /* a state was sent or is in flight, so entries are sent */
	bool caught_up; /* the replica has a state: commits stay within div_max of it */
	bool active; /* and has been within div_max: durable means on it, it may be promoted */
	bool due; /* send a state as soon as possible */
	bool held; /* a commit waits for a confirmation */
	hd_version confirmed; /* the newest version that the replica confirmed */
	uint32_t behind;
	/* A state in transfer. */
	bool sending;
	hd_version sent; /* the newest, delivered or not */
	struct srv_buffer *held_state[2];
	struct rep_state_out part[2];
	hd_ns again_at; /* no state before this */
	hd_ns sent_at; /* when the last one began */
	struct hd_timer timer;
	/* The bound of the distance, counted from `origin`. It holds for the replica once it has confirmed `origin`. */
	hd_version origin;
	hd_version versions[HD_REPLICA_LAG_MAX]; /* of divergence.steps */
	struct hd_divergence divergence;
	/* The state last reported to the controller. */
	hd_ns reported_at;
	hd_version reported_version;
	uint8_t reported_state;
	bool reported_held, reported_active;
};

void rep_primary_keep(
	struct srv_turn *turn,
	struct srv_job *job,
	const struct hd_msg_replica *order
);
enum rep_verdict rep_primary_message(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct hd_msg_follow *message
);
void rep_primary_timer(struct srv_turn *turn, struct hd_timer *timer);
void rep_primary_fini(struct srv_turn *turn, struct srv_job *job);
/* For a job that ends when the server is destroyed, without a turn. */
void rep_primary_free(struct hd_server *server, struct srv_job *job);
/* Whether this update may be committed next; notes if one must wait. */
bool rep_primary_permits(struct srv_turn *turn, struct srv_job *job, struct srv_incoming *in);
/* `in` made the job's newest version: logs it for the replica. */
void rep_primary_committed(struct srv_turn *turn, struct srv_job *job, struct srv_incoming *in);
/* Between two commits: sends a state if one is due; reports to the controller. */
void rep_primary_consider(struct srv_turn *turn, struct srv_job *job);
/* Reports everything to a new controller. */
void rep_primary_announce(struct srv_turn *turn, const struct srv_job *job);
double rep_primary_divergence(const struct rep_primary *primary); /* < 0: unknown */

/* --- rep_link.c ------------------------------------------------------------------------------- */
/* The link of this session; NULL: it is no replica's. */
struct rep_link *rep_link_of(const struct hd_server *server, const struct hd_session *session);
struct rep_link *rep_link_get(struct srv_turn *turn, struct hd_addr addr);
void rep_link_put(struct hd_server *server, struct srv_turn *turn, struct rep_link *link);
void rep_link_opened(struct srv_turn *turn, struct srv_peer *peer);
void rep_link_closed(struct srv_turn *turn, const struct srv_peer *peer);
/* The endpoint frees this session, which will not open again by itself. May be any session. */
void rep_link_lost(struct srv_turn *turn, const struct hd_session *session);
/* Opens it again when due. Returns when to call again; HD_NEVER: there is a session. */
hd_ns rep_link_again(struct srv_turn *turn, struct rep_link *link);

/* --- rep_state_out.c -------------------------------------------------------------------------- */
void rep_state_begin(struct srv_turn *turn, struct rep_primary *primary);
void rep_state_end(struct hd_server *server, struct rep_primary *primary);
/* Ends transfers that are complete. */
void rep_state_check(struct srv_turn *turn, struct rep_primary *primary);
/* An acknowledgement of the part with this handle, if it is sent to this peer. */
void rep_state_sack(
	struct srv_turn *turn,
	struct srv_handle *handle,
	const struct srv_peer *peer,
	const struct hd_msg_sack *sack
);
/* One part's turn: returns the number of packets sent. */
size_t rep_state_poll(struct srv_turn *turn, struct hd_timer *timer);
/* Sends the log entries of the newest version, made by `in` (a step's first member). `update`: the norm of its step. */
void rep_log_commit(
	struct srv_turn *turn,
	struct srv_job *job,
	const struct srv_incoming *in,
	double update
);

#endif
