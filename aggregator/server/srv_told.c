/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs of which the controller said whether they may begin here, and who waits for that word. */
#include "srv_told.h"

void srv_told_by(struct hd_server *server, uint16_t epoch) {
	if (server->told_epoch != epoch)
		server->told_count = 0;
	server->told_epoch = epoch;
}

bool srv_told_may_begin(const struct hd_server *server, uint32_t job) {
	for (uint32_t i = 0; i < server->told_count; i++)
		if (server->told[i].job == job)
			return server->told[i].may;
	return !server->config.replica
		&& (server->alone || hd_addr_is_none(server->config.controller));
}

bool srv_told_waits(const struct hd_server *server, struct srv_peer *peer, uint32_t job) {
	const struct srv_job *found = srv_job_find(server, job);
	bool waits = found ? found->phase != SRV_JOB_OPEN : !srv_told_may_begin(server, job);

	peer->waits_for = waits ? job : 0;
	return waits;
}

uint64_t srv_told_serves(const struct hd_server *server, uint32_t job) {
	return srv_told_may_begin(server, job) ? srv_told_generation(server, job) : 0;
}

uint64_t srv_told_generation(const struct hd_server *server, uint32_t job) {
	for (uint32_t i = 0; i < server->told_count; i++)
		if (server->told[i].job == job)
			return server->told[i].generation;
	return 0;
}

void srv_told_set(struct hd_server *server, uint32_t job, bool may, uint64_t generation) {
	uint32_t i = 0;

	while (i < server->told_count && server->told[i].job != job)
		i++;
	if (i == HD_JOBS_MAX) {
		memmove(server->told, server->told + 1, (HD_JOBS_MAX - 1) * sizeof server->told[0]);
		i--;
	}
	server->told_count = i + 1 > server->told_count ? i + 1 : server->told_count;
	server->told[i] = (struct srv_told){job, may, generation};
}

/* It had no answer, and says it once a session. */
void srv_told_ask_joins(struct hd_server *server, uint32_t job) {
	struct srv_peer *peer;

	TAILQ_FOREACH (peer, &server->peers, link) {
		if (peer->waits_for != 0 && (job == 0 || peer->waits_for == job)) {
			peer->waits_for = 0;
			srv_peer_break(server, peer, "jobs may begin here now");
		}
	}
}

void srv_told_forget(struct hd_server *server, uint32_t job) {
	for (uint32_t i = 0; i < server->told_count; i++) {
		if (server->told[i].job == job) {
			server->told_count--;
			memmove(&server->told[i],
				&server->told[i + 1],
				(server->told_count - i) * sizeof server->told[0]);
			return;
		}
	}
}
