/* SPDX-License-Identifier: BSD-3-Clause */
/* Who takes part in a job: hd_server_roster.c. */
#ifndef HD_SERVER_ROSTER_H
#define HD_SERVER_ROSTER_H

#include "hd_server_internal.h"

/* The bound on delays as of the newest roster: the job's, or a stricter one. */
static inline uint32_t hd_job_tau(const struct hd_job *job) {
	uint32_t tau = job->roster.tau_max;

	return tau > 0 && tau < job->spec.tau_max ? tau : job->spec.tau_max;
}

/* A worker has joined, or is gone. */
void hd_roster_change(struct hd_turn *turn, struct hd_job *job, uint16_t rank, bool there);
void hd_roster_say(struct hd_turn *turn, struct hd_job *job);
/* The controller's word. */
void hd_roster_told(struct hd_turn *turn, const struct hd_msg_roster *message);
/* A worker without a controller will be preempted. */
void hd_roster_notice(
	struct hd_turn *turn,
	const struct hd_member *member,
	const struct hd_msg_notice *notice
);

#endif
