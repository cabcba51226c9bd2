/* SPDX-License-Identifier: BSD-3-Clause */
#include "lease_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct peer *
join(struct scene *s, const char *job, uint16_t rank, const char *host, uint16_t count) {
	struct peer *peer = net_peer(&s->net, HD_ROLE_WORKER, host);
	struct hd_message m;

	peer->worker = rank;
	(void)snprintf(peer->tenant, sizeof peer->tenant, "t");
	(void)snprintf(peer->job, sizeof peer->job, "%s", job);
	m = net_register_worker(peer, 8, 1);
	m.register_.model_bytes = 0;
	m.register_.count_max = count;
	m.register_.dtypes = count ? BOTH : 0;
	post(peer, m);
	net_run(&s->net, HD_MS);
	assert_non_null(peer_last(peer, HD_MSG_REGISTERED));
	return peer;
}

struct hd_message registration(const struct peer *peer, uint32_t slots) {
	struct hd_message m = net_register_server(peer);

	m.register_.role = HD_ROLE_SWITCH;
	m.register_.slots = slots;
	m.register_.count_min = 1;
	m.register_.count_max = 2224;
	m.register_.dtypes = BOTH;
	return m;
}

void add_switch(struct scene *s, uint32_t slots) {
	s->at = net_peer(&s->net, HD_ROLE_SWITCH, "s1");
	post(s->at, registration(s->at, slots));
	net_run(&s->net, HD_MS);
	assert_non_null(peer_last(s->at, HD_MSG_REGISTERED));
}

void add_aggregators(struct scene *s) {
	for (uint32_t i = 0; i < WORKERS; i++) {
		char host[8];

		(void)snprintf(host, sizeof host, "h%u", i + 1);
		s->aggregators[i] = net_aggregator(&s->net, host, 100 * MB);
	}
}

void open_with(struct scene *s, const struct net_config *config) {
	memset(s, 0, sizeof *s);
	s->peak = 1;
	net_open(&s->net, config);
	for (uint16_t i = 0; i < WORKERS; i++) {
		char host[8];

		(void)snprintf(host, sizeof host, "h%u", i + 1);
		s->workers[i] = join(s, "j", i, host, COUNT);
	}
}

void open_scene(struct scene *s) {
	open_with(s, &net_plain);
	add_aggregators(s);
	add_switch(s, 4096);
}

void ask_of(struct scene *s, struct peer *worker, uint32_t round, uint8_t attempt) {
	struct hd_message m = net_push(worker, round, BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = attempt;
	m.request.have = s->have ? s->have : round;
	m.request.peak = s->peak;
	m.request.order = s->order;
	m.request.avoid = s->avoid;
	m.request.dtype = s->dtype;
	m.request.op = s->op;
	post(worker, m);
	net_run(&s->net, HD_MS);
}

void ask(struct scene *s, uint16_t rank, uint32_t round, uint8_t attempt) {
	ask_of(s, s->workers[rank], round, attempt);
}

void ask_all(struct scene *s, uint32_t round, uint8_t attempt) {
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(s, i, round, attempt);
}

const struct hd_msg_slots *leased(const struct scene *s) {
	const struct hd_message *m = peer_last(s->at, HD_MSG_SLOTS);

	return m ? &m->slots : NULL;
}

void answer(struct scene *s, uint8_t outcome, uint8_t reason) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = leased(s)->job;
	m.report.token = leased(s)->lease;
	m.report.direction = HD_REDUCE;
	m.report.outcome = outcome;
	m.report.reason = reason;
	m.report.base = leased(s)->waits;
	post(s->at, m);
	net_run(&s->net, HD_MS);
}

void grant(struct scene *s) {
	answer(s, HD_OUTCOME_APPLIED, HD_REASON_NONE);
}

const struct hd_msg_reduce *reduce_sent_to(const struct peer *worker) {
	const struct hd_message *m = peer_last(worker, HD_MSG_REDUCE);

	return m ? &m->reduce : NULL;
}

const struct hd_msg_reduce *reduce_sent(const struct scene *s, uint16_t rank) {
	return reduce_sent_to(s->workers[rank]);
}

void done_round(struct scene *s, struct peer *worker, uint32_t round) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = reduce_sent_to(worker)->job;
	m.report.worker = worker->worker;
	m.report.round = round;
	m.report.direction = HD_REDUCE;
	m.report.attempt = reduce_sent_to(worker)->attempt;
	m.report.outcome = HD_OUTCOME_APPLIED;
	post(worker, m);
	net_run(&s->net, HD_MS);
}

void done_by(struct scene *s, struct peer *worker) {
	done_round(s, worker, reduce_sent_to(worker)->round);
}

void done(struct scene *s, uint16_t rank) {
	done_by(s, s->workers[rank]);
}

void done_all(struct scene *s) {
	for (uint16_t i = 0; i < WORKERS; i++)
		done(s, i);
}

const struct ctl_job *job_of(const struct scene *s) {
	return s->net.controller->jobs[0];
}

/* The messages of a round to the switch and to each worker are consistent. */
void check_agreement(const struct scene *s, uint32_t members) {
	const struct hd_msg_slots *lease = leased(s);

	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct hd_msg_reduce *m = reduce_sent(s, i);
		struct hd_group_shard shard;
		struct hd_group_seat seat;

		assert_non_null(m);
		assert_int_equal(hd_group_count(&m->shards, HD_GROUP_SHARD_BYTES), 1);
		shard = hd_group_get_shard(&m->shards, 0);
		seat = hd_group_get_seat(&lease->members, m->member);
		assert_int_equal(seat.worker, i);
		assert_int_equal(seat.token, shard.out_token);
		assert_int_equal(seat.result_token, shard.in_token);
		assert_int_equal(seat.ipv4, s->workers[i]->addr.ipv4);
		assert_int_equal(seat.port, s->workers[i]->addr.port);
		assert_int_equal(shard.bytes, BYTES);
		assert_int_equal(shard.ipv4, s->at->addr.ipv4);
		assert_int_equal(m->bytes, BYTES);
		assert_int_equal(m->slots, lease->slots);
		assert_int_equal(m->count, lease->count);
		assert_int_equal(m->dtype, lease->dtype);
		assert_int_equal(m->epoch, lease->epoch);
		assert_int_equal(m->lease_attempt, lease->attempt);
		assert_int_equal(m->workers, members);
		assert_int_equal(m->first, reduce_sent(s, 0)->first);
		assert_int_equal(m->turn, reduce_sent(s, 0)->turn);
	}
}

void assert_shards(const struct scene *s) {
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_non_null(reduce_sent(s, i));
		assert_int_equal(reduce_sent(s, i)->slots, 0);
	}
}
