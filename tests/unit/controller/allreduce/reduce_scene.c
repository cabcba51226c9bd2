/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct hd_message registration(const struct peer *worker, uint16_t world) {
	struct hd_message m = net_register_worker(worker, 8, 1);

	m.register_.model_bytes = 0;
	m.register_.world = world;
	return m;
}

struct peer *aggregator(struct net *net, const char *host, uint64_t memory) {
	struct peer *peer = net_peer(net, HD_ROLE_AGGREGATOR, host);
	struct hd_message m = net_register_server(peer);

	m.register_.role = HD_ROLE_AGGREGATOR;
	m.register_.memory_bytes = memory;
	post(peer, m);
	net_run(net, HD_MS);
	assert_non_null(peer_last(peer, HD_MSG_REGISTERED));
	return peer;
}

struct peer *worker(struct net *net, uint16_t rank, uint16_t world) {
	char host[8];
	struct peer *peer;

	(void)snprintf(host, sizeof host, "h%u", rank + 1);
	peer = net_peer(net, HD_ROLE_WORKER, host);
	peer->worker = rank;
	(void)snprintf(peer->tenant, sizeof peer->tenant, "t");
	(void)snprintf(peer->job, sizeof peer->job, "j");
	post(peer, registration(peer, world));
	net_run(net, HD_MS);
	return peer;
}

/* Workers and aggregators on the same hosts, no server. */
void open_scene_with(struct scene *s, uint64_t memory) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, &net_plain);
	for (uint16_t i = 0; i < WORKERS; i++) {
		char host[8];

		s->workers[i] = worker(&s->net, i, WORKERS);
		assert_non_null(peer_last(s->workers[i], HD_MSG_REGISTERED));
		(void)snprintf(host, sizeof host, "h%u", i + 1);
		s->aggregators[i] = aggregator(&s->net, host, memory);
	}
}

void open_scene(struct scene *s) {
	open_scene_with(s, 100 * MB);
}

void ask(struct scene *s, uint16_t rank, uint32_t round, uint8_t attempt) {
	struct hd_message m = net_push(s->workers[rank], round, BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = attempt;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

const struct hd_msg_reduce *reduce_sent(const struct scene *s, uint16_t rank) {
	const struct hd_message *m = peer_last(s->workers[rank], HD_MSG_REDUCE);

	return m ? &m->reduce : NULL;
}

void done(struct scene *s, uint16_t rank, uint8_t outcome) {
	const struct hd_msg_reduce *reduce = reduce_sent(s, rank);
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = reduce->job;
	m.report.worker = rank;
	m.report.round = reduce->round;
	m.report.direction = HD_REDUCE;
	m.report.attempt = reduce->attempt;
	m.report.outcome = outcome;
	m.report.reason = outcome == HD_OUTCOME_APPLIED ? HD_REASON_NONE : HD_REASON_TIMEOUT;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

uint32_t drops(const struct scene *s, uint16_t rank, uint8_t reason) {
	const struct hd_message *m = peer_last(s->workers[rank], HD_MSG_DROP);

	return m && m->drop.reason == reason && m->drop.direction == HD_REDUCE ?
		peer_count(s->workers[rank], HD_MSG_DROP) :
		0;
}

/* Asks, and has ended all rounds before. */
void ask_next(struct scene *s, uint16_t rank, uint32_t round) {
	struct hd_message m = net_push(s->workers[rank], round, BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = 1;
	m.request.have = round;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}
