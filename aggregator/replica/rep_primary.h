/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication: a job that has a replica has a rep_primary at its server and a rep_job at the replica, which is the
 * same core (docs/protocol/replica.md).
 *
 *   server                                            replica
 *   rep_primary.c    orders, permits, confirmed       rep_job.c       orders, the log's queue, applying
 *   rep_link.c       the session between the two
 *   rep_state_out.c  -- SEED, chunks, LOG(past) -->   rep_state_in.c  a state in the making
 *                    -- LOG ---------------------->   rep_copy.c      copies, from workers
 *                    <------------------- FOLLOW --   rep_sum.c       sums, from aggregators
 */
#ifndef REP_PRIMARY_H
#define REP_PRIMARY_H

#include "hd_divergence.h"
#include "hd_entry.h"
#include "srv_replica.h"

#define REP_LOG_BYTES_MAX 32768 /* of the entries in one LOG */
#define REP_LIFE_BYTES 10 /* of one in SEED.lives */
#define REP_RETRY_US 100000 /* a state that found no memory; between two after a hole */
#define REP_LINK_AGAIN_US 1000000 /* to a replica that refused the session */
#define REP_TELL_US 100000 /* the controller hears of progress so often */
#define REP_ROUNDS_MANY 512 /* of more workers than this, */
#define REP_ROUNDS_FEW 16 /* only so many rounds travel with a state */

/* A session with a replica's node, shared by the jobs that it keeps. */
struct rep_link {
	struct hd_addr addr;
	struct hd_session *session; /* NULL: refused, or given up; opened anew at */
	hd_ns again_at;
	struct srv_peer *peer; /* NULL: not open */
	uint32_t users;
	TAILQ_ENTRY(rep_link) link;
};

/* Model or momentum on its way to the replica. */
struct rep_state_out {
	struct srv_handle handle; /* first */
	struct rep_primary *primary;
	struct hd_send *send; /* NULL: none under way */
	struct hd_timer timer;
};

struct rep_primary {
	struct srv_job *job;
	struct rep_link *link;
	uint64_t generation, rate_bps;
	double div_set; /* as REPLICA says it */
	uint32_t every;
	uint8_t state; /* enum hd_follow_state, as the replica said last */
	bool logs; /* a state is there or on its way: entries are sent */
	bool caught_up; /* the replica has a state: commits stay near it */
	bool active; /* and was near enough once: it may be promoted, and durable means there */
	bool due; /* a state is to be sent as soon as that is possible */
	bool held; /* a commit waits for the replica */
	hd_version confirmed; /* the newest that the replica has whole */
	uint32_t behind;
	/* A state under way. */
	bool sending;
	hd_version sent; /* the newest, whole or not */
	struct srv_buffer *held_state[2];
	struct rep_state_out part[2];
	hd_ns again_at; /* not before this */
	hd_ns sent_at; /* the last one began */
	struct hd_timer timer;
	/* The bound of the distance, from `origin` on. It is the replica's once that has come so far. */
	hd_version origin;
	hd_version versions[HD_REPLICA_LAG_MAX]; /* of divergence.steps */
	struct hd_divergence divergence;
	/* What the controller heard. */
	hd_ns told_at;
	hd_version told_version;
	uint8_t told_state;
	bool told_held, told_active;
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
/* Without a turn, when the job ends with the server. */
void rep_primary_free(struct hd_server *server, struct srv_job *job);
/* Whether this update may be committed next; notes that one waits. */
bool rep_primary_permits(struct srv_turn *turn, struct srv_job *job, struct srv_incoming *in);
/* The job's newest version was made by `in`: tells the replica. */
void rep_primary_committed(struct srv_turn *turn, struct srv_job *job, struct srv_incoming *in);
/* Between two commits: sends a state when one is due; tells the controller. */
void rep_primary_consider(struct srv_turn *turn, struct srv_job *job);
/* All that a new controller should know. */
void rep_primary_announce(struct srv_turn *turn, const struct srv_job *job);
double rep_primary_divergence(const struct rep_primary *primary); /* < 0: not known */

/* --- rep_link.c ------------------------------------------------------------------------------- */
/* The session with this address, opened if there is none; one user more. NULL: no memory. */
struct rep_link *rep_link_of(const struct hd_server *server, const struct hd_session *session);
struct rep_link *rep_link_get(struct srv_turn *turn, struct hd_addr addr);
void rep_link_put(struct hd_server *server, struct srv_turn *turn, struct rep_link *link);
void rep_link_opened(struct srv_turn *turn, struct srv_peer *peer);
void rep_link_closed(struct srv_turn *turn, const struct srv_peer *peer);
/* This session will not open again by itself: the endpoint frees it. Any session. */
void rep_link_lost(struct srv_turn *turn, const struct hd_session *session);
/* Opens it anew when that is due. Returns when to call again; HD_NEVER: there is a session. */
hd_ns rep_link_again(struct srv_turn *turn, struct rep_link *link);

/* --- rep_state_out.c -------------------------------------------------------------------------- */
void rep_state_begin(struct srv_turn *turn, struct rep_primary *primary);
void rep_state_end(struct hd_server *server, struct rep_primary *primary);
/* Ends what has ended. */
void rep_state_check(struct srv_turn *turn, struct rep_primary *primary);
/* Of the part with this handle, if it goes to this peer. */
void rep_state_sack(
	struct srv_turn *turn,
	struct srv_handle *handle,
	const struct srv_peer *peer,
	const struct hd_msg_sack *sack
);
/* One part's turn: returns the packets that it sent. */
size_t rep_state_poll(struct srv_turn *turn, struct hd_timer *timer);
/* Sends the entries of the job's newest version, which `in` (of a step: its first member) made; `update`: the norm. */
void rep_log_commit(
	struct srv_turn *turn,
	struct srv_job *job,
	const struct srv_incoming *in,
	double update
);

#endif
