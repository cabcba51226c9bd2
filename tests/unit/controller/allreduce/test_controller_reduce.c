/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces at the controller, by messages: who is waited for, shards, and what a loss ends. */
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The aggregators and the workers receive consistent messages. */
static void check_agreement(const struct scene *s) {
	for (uint32_t k = 0; k < WORKERS; k++) {
		const struct hd_msg_group *group
			= &peer_last(s->aggregators[k], HD_MSG_GROUP)->group;

		assert_int_equal(hd_group_count(&group->inputs, HD_GROUP_INPUT_BYTES), WORKERS);
		assert_int_equal(hd_group_count(&group->outputs, HD_GROUP_OUTPUT_BYTES), WORKERS);
		assert_int_equal(group->bytes, BYTES / WORKERS);
		for (uint16_t i = 0; i < WORKERS; i++) {
			struct hd_group_input in = hd_group_get_input(&group->inputs, i);
			struct hd_group_output out = hd_group_get_output(&group->outputs, i);
			const struct hd_msg_reduce *reduce = reduce_sent(s, i);
			struct hd_group_shard shard;
			int which = -1;

			assert_int_equal(
				hd_group_count(&reduce->shards, HD_GROUP_SHARD_BYTES), WORKERS
			);
			for (uint32_t j = 0; j < WORKERS; j++) {
				shard = hd_group_get_shard(&reduce->shards, j);
				if (shard.out_token != in.token)
					continue;
				which = (int)j;
				assert_int_equal(shard.in_token, out.token);
				assert_int_equal(shard.bytes, group->bytes);
				assert_int_equal(shard.ipv4, s->aggregators[k]->addr.ipv4);
				assert_int_equal(shard.port, s->aggregators[k]->addr.port);
			}
			assert_true(which >= 0);
			assert_int_equal(in.worker, i);
			assert_float_equal(reduce->scale, 1, 0);
			assert_int_equal(in.round, reduce->round);
			assert_int_equal(in.attempt, reduce->attempt);
			assert_int_equal(out.role, HD_ROLE_WORKER);
			assert_int_equal(out.ipv4, s->workers[i]->addr.ipv4);
		}
	}
}

static void test_round(void **state) {
	struct scene s;

	open_scene(&s);
	ask(&s, 0, 1, 1);
	ask(&s, 1, 1, 1);
	assert_null(reduce_sent(&s, 0));
	ask(&s, 2, 1, 1);
	check_agreement(&s);
	assert_int_equal(reduce_sent(&s, 1)->workers, WORKERS);
	/* Asking once more changes nothing; rounds may overlap. */
	ask(&s, 0, 1, 1);
	ask(&s, 0, 2, 1);
	assert_int_equal(peer_count(s.workers[0], HD_MSG_REDUCE), 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		done(&s, i, HD_OUTCOME_APPLIED);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 1);
	ask(&s, 1, 2, 1);
	ask(&s, 2, 2, 1);
	check_agreement(&s);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	assert_int_equal(counters(&s.net)->reduces, 2);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	net_close(&s.net);
}

/* A worker that has not joined yet is waited for once; one that has gone is not. */
static void test_who_is_waited_for(void **state) {
	struct scene s;

	memset(&s, 0, sizeof s);
	net_open(&s.net, &net_plain);
	s.aggregators[0] = aggregator(&s.net, "h9", 100 * MB);
	s.workers[0] = worker(&s.net, 0, 2);
	ask(&s, 0, 1, 1);
	assert_null(reduce_sent(&s, 0));
	s.workers[1] = worker(&s.net, 1, 2);
	assert_int_equal(peer_last(s.workers[1], HD_MSG_REGISTERED)->registered.reduce_round, 0);
	assert_null(reduce_sent(&s, 0));
	ask(&s, 1, 1, 1);
	assert_int_equal(reduce_sent(&s, 0)->workers, 2);
	done(&s, 0, HD_OUTCOME_APPLIED);
	done(&s, 1, HD_OUTCOME_APPLIED);
	ask(&s, 0, 2, 1);
	s.workers[1]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	assert_int_equal(reduce_sent(&s, 0)->workers, 1);
	done(&s, 0, HD_OUTCOME_APPLIED);
	/* A late one goes on from where the job is. */
	s.workers[2] = worker(&s.net, 2, 2);
	assert_int_equal(peer_last(s.workers[2], HD_MSG_REGISTERED)->registered.reduce_round, 2);
	ask(&s, 0, 3, 1);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	ask(&s, 2, 3, 1);
	assert_int_equal(reduce_sent(&s, 0)->round, 3);
	net_close(&s.net);
}

static void test_refused(void **state) {
	struct hd_message m;
	struct scene s;

	open_scene(&s);
	ask(&s, 0, 1, 1);
	m = net_push(s.workers[2], 1, 3, 0);
	m.request.direction = HD_REDUCE;
	post(s.workers[2], m);
	net_run(&s.net, HD_MS);
	assert_int_equal(drops(&s, 2, HD_REASON_REFUSED), 1);
	/* There is no aggregator left. */
	for (uint32_t k = 0; k < WORKERS; k++)
		s.aggregators[k]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	ask(&s, 1, 1, 2);
	ask(&s, 2, 1, 2);
	net_run(&s.net, CTL_REDUCE_PATIENCE_NS / 2);
	assert_int_equal(drops(&s, 0, HD_REASON_NO_SERVER), 0);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 1);
	net_run(&s.net, CTL_REDUCE_PATIENCE_NS / 2 + HD_SECOND);
	assert_int_equal(drops(&s, 0, HD_REASON_NO_SERVER), 1);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	net_close(&s.net);
}

/* A round that all workers have requested starts when an aggregator joins. */
static void test_a_late_aggregator(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint32_t k = 0; k < WORKERS; k++)
		s.aggregators[k]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	net_run(&s.net, HD_SECOND);
	assert_null(reduce_sent(&s, 0));
	struct peer *late = aggregator(&s.net, "late", 100 * MB);
	net_run(&s.net, HD_MS);
	assert_non_null(peer_last(late, HD_MSG_GROUP));
	assert_non_null(reduce_sent(&s, 0));
	assert_int_equal(drops(&s, 0, HD_REASON_NO_SERVER), 0);
	/* Its round is kept for the next incarnation, too. */
	char *text = hd_controller_kept(s.net.controller);
	assert_non_null(strstr(text, "\"allreduce\": 1"));
	net_close(&s.net);
	char error[128];
	net_open(&s.net, &net_plain);
	assert_int_equal(hd_controller_restore(s.net.controller, text, error, sizeof error), 0);
	free(text);
	const struct peer *next = worker(&s.net, 0, WORKERS);
	assert_int_equal(peer_last(next, HD_MSG_REGISTERED)->registered.reduce_round, 1);
	net_close(&s.net);
}

/* The aggregator's word that a group is lost: all ask again. */
static void test_group_lost(void **state) {
	struct hd_message m = {.kind = HD_MSG_REPORT};
	struct scene s;

	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	m.report.job = reduce_sent(&s, 0)->job;
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.reason = HD_REASON_LEASE;
	m.report.token = peer_last(s.aggregators[1], HD_MSG_GROUP)->group.group;
	post(s.aggregators[0], m); /* not its own */
	net_run(&s.net, HD_MS);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	m.report.outcome = HD_OUTCOME_PENDING; /* delivered */
	post(s.aggregators[1], m);
	net_run(&s.net, HD_MS);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	m.report.outcome = HD_OUTCOME_FAILED;
	post(s.aggregators[1], m);
	net_run(&s.net, HD_MS);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	for (uint32_t k = 0; k < WORKERS; k++) {
		assert_int_equal(
			peer_last(s.aggregators[k], HD_MSG_VOID)->void_.token,
			peer_last(s.aggregators[k], HD_MSG_GROUP)->group.group
		);
		assert_non_null(peer_last(s.workers[k], HD_MSG_VOID));
	}
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 2);
	check_agreement(&s);
	assert_int_equal(reduce_sent(&s, 2)->attempt, 2);
	net_close(&s.net);
}

/* An aggregator dies: as above while no worker has the sum. Once a worker has it, the others are notified that it is
 * lost. */
static void test_aggregator_dies(void **state) {
	struct scene s;

	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	s.aggregators[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 2);
	assert_int_equal(
		hd_group_count(&reduce_sent(&s, 0)->shards, HD_GROUP_SHARD_BYTES), WORKERS - 1
	);
	done(&s, 0, HD_OUTCOME_APPLIED);
	done(&s, 1, HD_OUTCOME_FAILED);
	assert_int_equal(drops(&s, 1, 0), 0); /* it gave up itself */
	assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	ask(&s, 2, 1, 3);
	assert_int_equal(drops(&s, 2, HD_REASON_LATE), 2);
	net_close(&s.net);
}

/* A worker that dies in a round: the aggregators report whether they have its values. */
static void test_worker_dies(void **state) {
	struct scene s;

	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	s.workers[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	done(&s, 0, HD_OUTCOME_APPLIED);
	done(&s, 1, HD_OUTCOME_APPLIED);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	ask(&s, 0, 2, 1);
	ask(&s, 1, 2, 1);
	assert_int_equal(reduce_sent(&s, 0)->workers, 2);
	net_close(&s.net);
}

/* A worker that asks again starts the round again; one that withdraws is not waited for. */
static void test_asks_again(void **state) {
	struct hd_message m = {.kind = HD_MSG_CANCEL};
	struct scene s;

	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	ask(&s, 1, 1, 2);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	assert_non_null(peer_last(s.workers[0], HD_MSG_VOID));
	ask(&s, 0, 1, 2);
	m.cancel.job = reduce_sent(&s, 0)->job;
	m.cancel.worker = 0;
	m.cancel.round = 1;
	m.cancel.direction = HD_REDUCE;
	post(s.workers[0], m);
	net_run(&s.net, HD_MS);
	assert_int_equal(reduce_sent(&s, 1)->attempt, 1);
	ask(&s, 2, 1, 2);
	assert_int_equal(reduce_sent(&s, 1)->attempt, 2);
	assert_int_equal(reduce_sent(&s, 1)->workers, 2);
	assert_int_equal(reduce_sent(&s, 0)->attempt, 1);
	net_close(&s.net);
}

/* The message that a round is void and the report that a worker has its sum cross: the round is not repeated without
 * that worker. */
static void test_void_crosses_sum(void **state) {
	struct hd_message m = {.kind = HD_MSG_REPORT};
	struct scene s;

	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	m.report.job = reduce_sent(&s, 0)->job;
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.token = peer_last(s.aggregators[1], HD_MSG_GROUP)->group.group;
	post(s.aggregators[1], m);
	net_run(&s.net, HD_MS);
	ask(&s, 1, 1, 2);
	done(&s, 0, HD_OUTCOME_APPLIED);
	assert_int_equal(drops(&s, 1, HD_REASON_LATE), 1);
	ask(&s, 2, 1, 2);
	assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	/* There they meet again. */
	assert_int_equal(peer_last(s.workers[2], HD_MSG_DROP)->drop.deadline, 1);
	net_close(&s.net);
}

/* A sum of a round that another controller started: it is not made again, whether it is requested before or after the
 * report. */
static void test_sum_of_another_process(void **state) {
	struct hd_message m = {.kind = HD_MSG_REPORT};
	struct scene s;

	open_scene(&s);
	ask(&s, 1, 5, 2);
	m.report.job = s.net.controller->jobs[0]->id;
	m.report.worker = 0;
	m.report.round = 5;
	m.report.direction = HD_REDUCE;
	m.report.attempt = 3;
	m.report.outcome = HD_OUTCOME_APPLIED;
	post(s.workers[0], m);
	net_run(&s.net, HD_MS);
	assert_int_equal(drops(&s, 1, HD_REASON_LATE), 1);
	m.report.round = 6;
	post(s.workers[0], m);
	net_run(&s.net, HD_MS);
	ask(&s, 2, 6, 1);
	assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
	net_close(&s.net);
}

/* One worker has ended as many rounds as a worker may have in progress, the others none of them, and it asks for as
 * many again. */
static void test_ahead(void **state) {
	struct scene s;
	uint32_t round = 0;

	(void)state;
	open_scene(&s);
	while (round < HD_REDUCES_MAX) {
		round++;
		for (uint16_t i = 0; i < WORKERS; i++)
			ask(&s, i, round, 1);
		assert_int_equal(reduce_sent(&s, 0)->round, round);
		done(&s, 0, HD_OUTCOME_APPLIED);
	}
	while (round < 2 * HD_REDUCES_MAX)
		ask(&s, 0, ++round, 1);
	assert_null(peer_last(s.workers[0], HD_MSG_DROP));
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 2 * HD_REDUCES_MAX);
	ask(&s, 0, ++round, 1);
	assert_int_equal(drops(&s, 0, HD_REASON_NO_MEMORY), 1);
	net_close(&s.net);
}

/* A worker that reports the round as over is not waited for, and another incarnation of a rank counts from the
 * start. */
static void test_passed(void **state) {
	struct hd_message m;
	struct scene s;

	open_scene(&s);
	ask(&s, 1, 1, 3);
	m = net_push(s.workers[0], 2, BYTES, 0);
	m.request.direction = HD_REDUCE;
	m.request.attempt = 1;
	m.request.have = 2;
	post(s.workers[0], m);
	s.workers[1]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	ask(&s, 2, 1, 1);
	assert_int_equal(reduce_sent(&s, 2)->workers, 1);
	done(&s, 2, HD_OUTCOME_APPLIED);
	s.workers[1] = worker(&s.net, 1, WORKERS);
	ask(&s, 1, 2, 1);
	ask(&s, 2, 2, 1);
	assert_int_equal(reduce_sent(&s, 1)->round, 2);
	assert_int_equal(reduce_sent(&s, 1)->workers, WORKERS);
	net_close(&s.net);
}

static void test_paused(void **state) {
	struct hd_message m = {.kind = HD_MSG_COMMAND};
	struct scene s;
	struct peer *shell;

	open_scene(&s);
	shell = net_peer(&s.net, HD_ROLE_SHELL, "h1");
	m.command.verb = HD_VERB_PAUSE;
	(void)snprintf(m.command.object, sizeof m.command.object, "all");
	post(shell, m);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	assert_null(reduce_sent(&s, 0));
	m.command.verb = HD_VERB_RESUME;
	post(shell, m);
	net_run(&s.net, HD_MS);
	check_agreement(&s);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_who_is_waited_for),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_a_late_aggregator),
		cmocka_unit_test(test_group_lost),
		cmocka_unit_test(test_aggregator_dies),
		cmocka_unit_test(test_worker_dies),
		cmocka_unit_test(test_asks_again),
		cmocka_unit_test(test_void_crosses_sum),
		cmocka_unit_test(test_sum_of_another_process),
		cmocka_unit_test(test_ahead),
		cmocka_unit_test(test_passed),
		cmocka_unit_test(test_paused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
