/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that the controller said may, or may not, begin here, and the workers that wait for it. */
#include "srv_assignment.h"

void srv_assignments_from(struct hd_server *server, uint16_t epoch) {
	if (server->assignment_epoch != epoch)
		server->assignment_count = 0;
	server->assignment_epoch = epoch;
}

bool srv_assignment_may_begin(const struct hd_server *server, uint32_t job) {
	for (uint32_t i = 0; i < server->assignment_count; i++)
		if (server->assignments[i].job == job)
			return server->assignments[i].may;
	return !server->config.replica
		&& (server->alone || hd_addr_is_none(server->config.controller));
}

bool srv_assignment_waits(const struct hd_server *server, struct srv_peer *peer, uint32_t job) {
	const struct srv_job *found = srv_job_find(server, job);
	bool waits = found ? found->phase != SRV_JOB_OPEN : !srv_assignment_may_begin(server, job);

	peer->waits_for = waits ? job : 0;
	return waits;
}

uint64_t srv_assignment_serves(const struct hd_server *server, uint32_t job) {
	return srv_assignment_may_begin(server, job) ? srv_assignment_generation(server, job) : 0;
}

uint64_t srv_assignment_generation(const struct hd_server *server, uint32_t job) {
	for (uint32_t i = 0; i < server->assignment_count; i++)
		if (server->assignments[i].job == job)
			return server->assignments[i].generation;
	return 0;
}

void srv_assignment_set(struct hd_server *server, uint32_t job, bool may, uint64_t generation) {
	uint32_t i = 0;

	while (i < server->assignment_count && server->assignments[i].job != job)
		i++;
	if (i == HD_JOBS_MAX) {
		memmove(server->assignments,
			server->assignments + 1,
			(HD_JOBS_MAX - 1) * sizeof server->assignments[0]);
		i--;
	}
	server->assignment_count
		= i + 1 > server->assignment_count ? i + 1 : server->assignment_count;
	server->assignments[i] = (struct srv_assignment){job, may, generation};
}

/* A waiting worker had no answer, and sends JOIN once a session. */
void srv_assignment_ask_joins(struct hd_server *server, uint32_t job) {
	struct srv_peer *peer;

	TAILQ_FOREACH (peer, &server->peers, link) {
		if (peer->waits_for != 0 && (job == 0 || peer->waits_for == job)) {
			peer->waits_for = 0;
			srv_peer_break(server, peer, "jobs may begin here now");
		}
	}
}

void srv_assignment_forget(struct hd_server *server, uint32_t job) {
	for (uint32_t i = 0; i < server->assignment_count; i++) {
		if (server->assignments[i].job == job) {
			server->assignment_count--;
			memmove(&server->assignments[i],
				&server->assignments[i + 1],
				(server->assignment_count - i) * sizeof server->assignments[0]);
			return;
		}
	}
}
