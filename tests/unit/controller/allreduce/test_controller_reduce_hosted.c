/* SPDX-License-Identifier: BSD-3-Clause */
/* Aggregators that run beside the workers of a job: when the controller gives them shards. */
#include "hd_jobspec.h"
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 60 /* workers: more than a round may have shards */
#define SHARDS_MAX (HD_PATHS_MAX * 3 / 4)

static struct peer *hosted(struct net *net, const char *host, uint32_t job, uint16_t rank) {
	struct peer *peer = net_peer(net, HD_ROLE_AGGREGATOR, host);
	struct hd_message m = net_register_server(peer);

	m.register_.role = HD_ROLE_AGGREGATOR;
	m.register_.memory_bytes = 100 * MB;
	m.register_.job = job;
	m.register_.worker = rank;
	post(peer, m);
	net_run(net, HD_MS);
	return peer;
}

static void open_hosts(struct scene *s) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, &net_plain);
	for (uint16_t i = 0; i < WORKERS; i++) {
		s->workers[i] = worker(&s->net, i, WORKERS);
		s->aggregators[i] = hosted(&s->net, s->workers[i]->host, hd_job_id("t", "j"), i);
		assert_non_null(peer_last(s->aggregators[i], HD_MSG_REGISTERED));
	}
}

static uint32_t groups(const struct peer *peer) {
	return peer_count(peer, HD_MSG_GROUP);
}

static void ask_all(struct scene *s, uint32_t round) {
	for (uint16_t i = 0; i < WORKERS; i++)
		if (s->workers[i])
			ask_next(s, i, round);
}

static void end_all(struct scene *s) {
	for (uint16_t i = 0; i < WORKERS; i++)
		if (s->workers[i])
			done(s, i, HD_OUTCOME_APPLIED);
}

/* Equal links: equal shards. */
static void test_workers_add(void **state) {
	struct scene s;

	(void)state;
	open_hosts(&s);
	ask_all(&s, 1);
	assert_int_equal(
		hd_group_count(&reduce_sent(&s, 0)->shards, HD_GROUP_SHARD_BYTES), WORKERS
	);
	for (uint32_t k = 0; k < WORKERS; k++) {
		const struct hd_message *m = peer_last(s.aggregators[k], HD_MSG_GROUP);

		assert_non_null(m);
		assert_int_equal(m->group.bytes, BYTES / WORKERS);
	}
	/* They are for all-reduces only: no planning pass looks for groups of pushes. */
	assert_false(ctl_groups_possible(s.net.controller));
	assert_int_equal(s.net.controller->hosted_count, WORKERS);
	net_close(&s.net);
}

/* One that stands by itself has all of it, as long as it is there. */
static void test_a_standing_one(void **state) {
	struct peer *standing;
	struct scene s;

	(void)state;
	open_hosts(&s);
	standing = aggregator(&s.net, "h9", 100 * MB);
	ask_all(&s, 1);
	assert_int_equal(groups(standing), 1);
	for (uint32_t k = 0; k < WORKERS; k++)
		assert_int_equal(groups(s.aggregators[k]), 0);
	standing->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 2);
	for (uint32_t k = 0; k < WORKERS; k++)
		assert_int_equal(groups(s.aggregators[k]), 1);
	net_close(&s.net);
}

/* Another job's worker adds nothing for this one; nor does one whose worker is not here, or not any more. */
static void test_whose_it_is(void **state) {
	struct peer *other, *stranger;
	struct hd_message leave = {.kind = HD_MSG_LEAVE};
	struct scene s;

	(void)state;
	open_hosts(&s);
	other = hosted(&s.net, "h7", hd_job_id("t", "another"), 0);
	stranger = hosted(&s.net, "h8", hd_job_id("t", "j"), 77);
	ask_all(&s, 1);
	end_all(&s);
	leave.leave.job = reduce_sent(&s, 0)->job;
	leave.leave.worker = 1;
	leave.leave.reason = HD_REASON_LEFT;
	post(s.workers[1], leave);
	net_run(&s.net, HD_MS);
	s.workers[1] = NULL;
	ask_all(&s, 2);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	assert_int_equal(groups(s.aggregators[0]), 2);
	assert_int_equal(groups(s.aggregators[1]), 1);
	assert_int_equal(groups(other) + groups(stranger), 0);
	net_close(&s.net);
}

/* A worker dies, and its aggregator with it: the others make the round again. */
static void test_one_dies(void **state) {
	struct scene s;

	(void)state;
	open_hosts(&s);
	ask_all(&s, 1);
	s.workers[2]->cut = s.aggregators[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	ask(&s, 0, 1, 2);
	ask(&s, 1, 1, 2);
	assert_int_equal(reduce_sent(&s, 0)->workers, 2);
	assert_int_equal(hd_group_count(&reduce_sent(&s, 0)->shards, HD_GROUP_SHARD_BYTES), 2);
	assert_int_equal(s.net.controller->hosted_count, 2);
	net_close(&s.net);
}

static void leave(struct scene *s, uint16_t rank) {
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	message.leave.job = hd_job_id("t", "j");
	message.leave.worker = rank;
	message.leave.reason = HD_REASON_LEFT;
	post(s->workers[rank], message);
	net_run(&s->net, HD_MS);
}

static void end_aggregator(struct scene *s, uint32_t k) {
	struct net *net = &s->net;

	net->sender = s->aggregators[k]->addr;
	hd_session_close(s->aggregators[k]->session, HD_REASON_CLOSED, "", net->now, &net->sink);
	s->aggregators[k]->session = NULL;
	net_run(net, HD_MS);
}

/* A worker has its sum and leaves; its aggregator has delivered its shard and ends. The others get theirs. */
static void test_one_leaves(void **state) {
	struct scene s;

	(void)state;
	open_hosts(&s);
	ask_all(&s, 1);
	done(&s, 0, HD_OUTCOME_APPLIED);
	leave(&s, 0);
	end_aggregator(&s, 0);
	assert_int_equal(s.net.controller->hosted_count, 2);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	/* Void after all: it is told to those that are left. */
	s.workers[2]->cut = s.aggregators[2]->cut = true;
	s.workers[0] = NULL;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	assert_int_equal(drops(&s, 1, HD_REASON_LATE), 1);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	net_close(&s.net);
}

/* It ends while its worker is here, or before it has received its GROUP: its shard will not come. */
static void test_one_ends_early(void **state) {
	struct scene s;

	(void)state;
	open_hosts(&s);
	ask_all(&s, 1);
	end_aggregator(&s, 0);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	net_close(&s.net);
	open_hosts(&s);
	s.aggregators[0]->cut = true;
	ask_all(&s, 1);
	assert_non_null(reduce_sent(&s, 1));
	done(&s, 0, HD_OUTCOME_APPLIED);
	leave(&s, 0);
	s.aggregators[0]->cut = false;
	end_aggregator(&s, 0);
	assert_int_equal(s.net.controller->hosted_count, 2);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	net_close(&s.net);
}

/* A round has at most SHARDS_MAX shards: a worker has paths to a limited number of aggregators. */
static void test_many(void **state) {
	static struct peer *workers[MANY];
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	for (uint16_t i = 0; i < MANY; i++) {
		workers[i] = worker(&net, i, 1);
		net_run(&net, 100 * HD_MS); /* they are let in one after the other */
	}
	for (uint16_t i = 0; i < MANY; i++)
		(void)hosted(&net, workers[i]->host, hd_job_id("t", "j"), i);
	for (uint16_t i = 0; i < MANY; i++) {
		struct hd_message m = net_push(workers[i], 1, 100 * BYTES, 0);

		m.request.direction = HD_REDUCE;
		m.request.have = 1;
		post(workers[i], m);
		net_run(&net, HD_MS);
	}
	assert_non_null(peer_last(workers[0], HD_MSG_REDUCE));
	assert_int_equal(
		hd_group_count(
			&peer_last(workers[0], HD_MSG_REDUCE)->reduce.shards, HD_GROUP_SHARD_BYTES
		),
		SHARDS_MAX
	);
	net_close(&net);
}

/* A rank that there cannot be. */
static void test_refused(void **state) {
	struct peer *peer;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	peer = hosted(&net, "h1", 5, HD_WORKERS_MAX);
	assert_null(peer_last(peer, HD_MSG_REGISTERED));
	assert_non_null(peer_last(peer, HD_MSG_REFUSE));
	net_close(&net);
}

/* A member dies, and so does the aggregator beside it, which has only its own block: the others miss nothing. */
static void test_own_block(void **state) {
	struct scene s;

	(void)state;
	open_hosts(&s);
	for (uint16_t i = 0; i < WORKERS; i++) {
		struct hd_message m = net_push(s.workers[i], 1, BYTES, 0);

		m.request.direction = HD_REDUCE;
		m.request.attempt = 1;
		m.request.collective = HD_COLLECTIVE_REDUCE_SCATTER;
		post(s.workers[i], m);
	}
	net_run(&s.net, HD_MS);
	assert_int_equal(groups(s.aggregators[2]), 1);
	done(&s, 0, HD_OUTCOME_APPLIED);
	s.workers[2]->cut = s.aggregators[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	assert_null(peer_last(s.workers[1], HD_MSG_VOID));
	done(&s, 1, HD_OUTCOME_APPLIED);
	for (uint16_t i = 0; i < 2; i++)
		assert_null(peer_last(s.workers[i], HD_MSG_DROP));
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	/* An aggregator with the block of another. */
	for (uint16_t i = 0; i < 2; i++)
		ask_next(&s, i, 2);
	s.aggregators[1]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_workers_add),
		cmocka_unit_test(test_a_standing_one),
		cmocka_unit_test(test_whose_it_is),
		cmocka_unit_test(test_one_dies),
		cmocka_unit_test(test_one_leaves),
		cmocka_unit_test(test_one_ends_early),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_own_block),
	};

	return cmocka_run_group_tests_name("controller-reduce-hosted", tests, NULL, NULL);
}
