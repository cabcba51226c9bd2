/* SPDX-License-Identifier: BSD-3-Clause */
/* The membership of a job: srv_roster.c. */
#ifndef SRV_ROSTER_H
#define SRV_ROSTER_H

#include "srv_job.h"

/* The bound on delays by the newest roster: the job's, or a smaller one. */
static inline uint32_t srv_job_tau(const struct srv_job *job) {
	uint32_t tau = job->roster.tau_max;

	return tau > 0 && tau < job->spec.tau_max ? tau : job->spec.tau_max;
}

/* A worker has joined, or is gone. */
void srv_roster_change(struct srv_turn *turn, struct srv_job *job, uint16_t rank, bool present);
void srv_roster_send(struct srv_turn *turn, struct srv_job *job);
/* ROSTER from the controller. */
void srv_roster_receive(struct srv_turn *turn, const struct hd_msg_roster *message);
/* A worker without a controller announces its preemption. */
void srv_roster_notice(
	struct srv_turn *turn,
	const struct srv_peer *peer,
	const struct hd_msg_notice *notice
);

#endif
