/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls from the server's top to replication: for a job that has a replica (srv_job.primary), or is one
 * (srv_job.replica). The replica's room calls the server's bottom only: sends, buffers, members, updates, steps.
 */
#ifndef SRV_REPLICA_H
#define SRV_REPLICA_H

#include "srv_incoming.h"

/* The caller's next action. */
enum rep_verdict {
	REP_DONE,
	REP_NEW, /* create the job, then call again */
	REP_RETIRE /* another node is its server: end it */
};

enum rep_run {
	REP_RUN_UNFINISHED, /* the call's budget was used up */
	REP_RUN_DONE,
	REP_RUN_SERVES /* it was promoted and is no replica any more */
};

struct rep_ops {
	/* Of both. The generation of the newest assignment. */
	uint64_t (*generation)(const struct srv_job *job);
	/* The job is destroyed. */
	void (*forget)(struct hd_server *server, struct srv_job *job);
	/* Their timers: SRV_TIMER_PRIMARY, SRV_TIMER_REPLICA. */
	void (*timer)(struct srv_turn *turn, struct hd_timer *timer);

	/* --- a job that has a replica; nothing happens for others --- */
	void (*keep
	)(struct srv_turn *turn, struct srv_job *job, const struct hd_msg_replica *order);
	void (*leave)(struct srv_turn *turn, struct srv_job *job);
	enum rep_verdict (*heard
	)(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_follow *message);
	/* Whether this update may be committed next; notes if one must wait. */
	bool (*permits)(struct srv_turn *turn, struct srv_job *job, struct srv_incoming *in);
	/* `in` made the job's newest version: logs it for the replica. */
	void (*committed)(struct srv_turn *turn, struct srv_job *job, struct srv_incoming *in);
	/* Between two commits: sends a state if one is due; reports to the controller. */
	void (*consider)(struct srv_turn *turn, struct srv_job *job);
	/* Reports everything to a new controller. */
	void (*announce)(struct srv_turn *turn, const struct srv_job *job);
	void (*link_opened)(struct srv_turn *turn, struct srv_peer *peer);
	void (*link_closed)(struct srv_turn *turn, const struct srv_peer *peer);
	/* The endpoint frees this session, which will not open again by itself. May be any session. */
	void (*link_lost)(struct srv_turn *turn, const struct hd_session *session);
	/* A state in transfer: an acknowledgement; one part's turn, which returns the number of packets sent. */
	void (*state_sack
	)(struct srv_turn *turn,
	  struct srv_handle *handle,
	  const struct srv_peer *peer,
	  const struct hd_msg_sack *sack);
	size_t (*state_poll)(struct srv_turn *turn, struct hd_timer *timer);

	/* --- a job that is a replica --- */
	/* SEED. After REP_NEW the job is created, `begin` is called, then this again. */
	enum rep_verdict (*offer
	)(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_seed *seed);
	/* Makes the empty job a replica. False: no memory. */
	bool (*begin)(struct srv_turn *turn, struct srv_job *job);
	void (*log)(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_log *log);
	/* Makes it the server as soon as nothing more can be applied. */
	enum rep_verdict (*serve
	)(struct srv_turn *turn, struct srv_job *job, const struct hd_msg_replica *order);
	/* Applies as much of the log as possible. */
	enum rep_run (*run)(struct srv_turn *turn, struct srv_job *job);
	/* Copies of updates: EXPECT, DROP, MEMBERS (count: 0, the list is malformed). */
	void (*expect)(struct srv_turn *turn, const struct hd_msg_expect *expect);
	void (*drop)(struct srv_turn *turn, const struct hd_msg_drop *drop);
	void (*members
	)(struct srv_turn *turn,
	  struct srv_job *job,
	  const struct hd_msg_members *message,
	  uint16_t count);
	/* A copy is complete, or failed. */
	void (*complete)(struct srv_turn *turn, struct srv_incoming *in);
	void (*fail)(struct srv_turn *turn, struct srv_incoming *in, enum hd_reason reason);
	/* Frees a buffer for the copy that is needed first. */
	bool (*make_room)(struct srv_turn *turn, struct srv_incoming *in);
	void (*state_packet
	)(struct srv_turn *turn,
	  struct srv_handle *handle,
	  const struct hd_packet *packet,
	  const struct hd_chunk_header *header,
	  const uint8_t *payload);
	/* A session ends. */
	void (*detach)(struct hd_server *server, const struct srv_peer *peer);
	/* A new controller: tells it which states we hold; it does not know our earlier requests. */
	void (*announce_replicas)(struct srv_turn *turn);
	void (*ask_again)(struct srv_turn *turn);
	/* Once a call: acknowledges; makes a complete state the job's, unless an update is half applied. */
	void (*settle)(struct srv_turn *turn);
	hd_ns (*deadline)(const struct hd_server *server);
};

extern const struct rep_ops rep_ops;

/* Any transfer ends without being applied: the replica decides what follows for a copy. */
static inline void srv_incoming_fail(
	struct srv_turn *turn,
	struct srv_incoming *in,
	enum hd_reason reason,
	const struct srv_part *cause
) {
	if (srv_incoming_is_copy(in))
		rep_ops.fail(turn, in, reason);
	else
		srv_push_fail(turn, in, reason, cause);
}

#endif
