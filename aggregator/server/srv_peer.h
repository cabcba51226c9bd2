/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: who they are, and what begins and ends with them. */
#ifndef SRV_PEER_H
#define SRV_PEER_H

#include "srv_job.h"

/* --- srv_session.c ---------------------------------------------------------------------------- */
extern const struct hd_endpoint_ops srv_endpoint_ops;
bool srv_routes_are_valid(void);

/* --- srv_peer.c ------------------------------------------------------------------------------- */
/* Ties the session to its worker. A newer session of the same rank takes the older one's place. */
void srv_peer_attach(
	struct srv_turn *turn,
	struct srv_peer *peer,
	struct srv_job *job,
	struct srv_member *member
);
/* The peer's session is gone, or leaves: what cannot end without it ends. */
void srv_peer_detach(struct srv_turn *turn, struct srv_peer *peer, enum hd_reason reason);
/* The same, and what replication knows of it is forgotten. */
void srv_peer_destroy(struct hd_server *server, struct srv_peer *peer);
/* Its session begins: sums of its address are its own. */
void srv_aggregator_attach(struct srv_turn *turn, struct srv_peer *peer);
/* JOINED to everybody who waited for the restored job. */
void srv_job_joined(struct srv_turn *turn, struct srv_job *job);
/* The controller has heard that the job is here, and said that this node is its server. */
void srv_job_confirm(struct srv_turn *turn, struct srv_job *job);
/* It is silent: the job goes on without that word. */
void srv_job_alone(struct srv_turn *turn, struct srv_job *job);
/* The same, of all: who waits for that word joins without it. Nothing is durable before it comes. */
void srv_jobs_alone(struct srv_turn *turn);

/* --- srv_join.c ------------------------------------------------------------------------------- */
void srv_job_join(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_join *join);
void srv_job_leave(struct srv_turn *turn, struct srv_peer *peer, uint8_t reason);

/* --- srv_show.c ------------------------------------------------------------------------------- */
void srv_refuse_command(struct srv_turn *turn, struct srv_peer *peer);
void srv_show(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_show *show);
void srv_poll(struct srv_turn *turn, const struct hd_msg_poll *poll); /* of the controller */

#endif
