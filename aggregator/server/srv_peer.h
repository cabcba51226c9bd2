/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: their owners, and what begins and ends with them. */
#ifndef SRV_PEER_H
#define SRV_PEER_H

#include "srv_job.h"

/* --- srv_session.c ---------------------------------------------------------------------------- */
extern const struct hd_endpoint_ops srv_endpoint_ops;
bool srv_routes_are_valid(void);

/* --- srv_peer.c ------------------------------------------------------------------------------- */
/* Binds the session to its worker. A newer session of the same rank replaces the older one. */
void srv_peer_attach(
	struct srv_turn *turn,
	struct srv_peer *peer,
	struct srv_job *job,
	struct srv_member *member
);
/* The peer's session has ended, or it leaves: ends the transfers that need it. */
void srv_peer_detach(struct srv_turn *turn, struct srv_peer *peer, enum hd_reason reason);
/* The same, and replication forgets it. */
void srv_peer_destroy(struct hd_server *server, struct srv_peer *peer);
/* An aggregator's session opened: binds the sums from its address. */
void srv_aggregator_attach(struct srv_turn *turn, struct srv_peer *peer);
/* Sends JOINED to the workers that waited for the restored job. */
void srv_job_joined(struct srv_turn *turn, struct srv_job *job);
/* The controller confirmed that this node is the job's server. */
void srv_job_confirm(struct srv_turn *turn, struct srv_job *job);
/* The controller is silent: the job continues without the confirmation. */
void srv_job_alone(struct srv_turn *turn, struct srv_job *job);
/* The same for all jobs: waiting workers join. Nothing is durable before the confirmation. */
void srv_jobs_alone(struct srv_turn *turn);

/* --- srv_join.c ------------------------------------------------------------------------------- */
void srv_job_join(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_join *join);
void srv_job_leave(struct srv_turn *turn, struct srv_peer *peer, uint8_t reason);

/* --- srv_show.c ------------------------------------------------------------------------------- */
void srv_refuse_command(struct srv_turn *turn, struct srv_peer *peer);
void srv_show(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_show *show);
void srv_poll(struct srv_turn *turn, const struct hd_msg_poll *poll); /* from the controller */

#endif
