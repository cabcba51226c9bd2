/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups at the controller: how they end when a node fails, leaves, or lies. */
#include "group_peers.h"
#include "hd_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Void everywhere: the server, the aggregator; nothing stays open, and a worker that asks again is granted again. */
static void expect_void(struct scene *s, uint64_t group, uint64_t sum, uint32_t before) {
	uint8_t reason;

	net_run(&s->net, 5 * HD_MS);
	assert_true(has_void(s->server, sum, &reason));
	assert_int_equal(reason, HD_REASON_CLOSED);
	if (s->aggregator->open)
		assert_true(has_void(s->aggregator, group, &reason));
	assert_int_equal(counters(&s->net)->groups_voided, 1);
	assert_true(open_count(s) < before);
}

static void ask_again(struct scene *s, const uint16_t *workers, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		struct hd_message m = net_push(s->workers[workers[i]], 1, MB, 0);

		m.request.attempt = 2;
		post(s->workers[workers[i]], m);
	}
	net_run(&s->net, 300 * HD_MS);
	for (uint32_t i = 0; i < count; i++) {
		const struct ctl_transfer *t = ctl_transfer_find(
			s->net.controller, s->net.controller->jobs[0], workers[i], HD_PUSH, 1
		);

		assert_non_null(t);
		assert_int_equal(t->attempt, 2);
	}
}

static void test_the_aggregator_gives_up(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s, MEMORY);
	const struct made made = make_group(&s);
	send_group_failed(&s, newest_group(&s));
	expect_void(&s, made.group, made.sum, made.open);
	ask_again(&s, made.workers, made.count);
	net_close(&s.net);
}

static uint32_t groups_of(const struct scene *s, const struct peer *worker) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < s->aggregator->count; i++)
		count += s->aggregator->log[i].kind == HD_MSG_GROUP
			&& s->aggregator->log[i].group.job == net_job(worker);
	return count;
}

/* A job that got no memory of an aggregator gets none of it for a second; another job does at once. */
static void test_a_refusal_is_of_one_job(void **state) {
	struct peer *others[WORKERS];
	struct scene s;

	(void)state;
	open_scene(&s, MEMORY);
	for (uint16_t w = 0; w < WORKERS; w++)
		others[w] = net_worker(&s.net, "t", "other", w, 64);
	(void)make_group(&s);
	assert_int_equal(groups_of(&s, s.workers[0]), 1);
	send_group_failed(&s, newest_group(&s));
	net_run(&s.net, 5 * HD_MS);
	for (uint16_t w = 0; w < WORKERS; w++) {
		struct hd_message m = net_push(s.workers[w], 1, MB, 0);

		m.request.attempt = 2;
		post(s.workers[w], m);
		post(others[w], net_push(others[w], 1, MB, 0));
	}
	net_run(&s.net, 300 * HD_MS);
	assert_int_equal(groups_of(&s, s.workers[0]), 1);
	assert_true(groups_of(&s, others[0]) > 0);
	net_close(&s.net);
}

static void test_a_member_is_cancelled(void **state) {
	struct hd_message m = {.kind = HD_MSG_CANCEL};
	struct scene s;
	uint8_t reason;

	(void)state;
	open_scene(&s, MEMORY);
	const struct made made = make_group(&s);
	m.cancel.job = net_job(s.workers[0]);
	m.cancel.worker = made.workers[1];
	m.cancel.round = 1;
	m.cancel.direction = HD_PUSH;
	m.cancel.attempt = 1;
	post(s.workers[made.workers[1]], m);
	expect_void(&s, made.group, made.sum, made.open);
	/* Whose push ends with it, and whose does not: the server hears it by the member's token. */
	assert_true(has_void(s.server, made.inputs[1].token, &reason));
	assert_int_equal(reason, HD_REASON_CANCELLED);
	assert_false(has_void(s.server, made.inputs[0].token, &reason));
	ask_again(&s, made.workers, 1);
	net_close(&s.net);
}

static void test_a_member_leaves(void **state) {
	struct hd_message m = {.kind = HD_MSG_LEAVE};
	struct scene s;

	(void)state;
	open_scene(&s, MEMORY);
	const struct made made = make_group(&s);
	m.leave.job = net_job(s.workers[0]);
	m.leave.worker = made.workers[0];
	post(s.workers[made.workers[0]], m);
	expect_void(&s, made.group, made.sum, made.open);
	ask_again(&s, made.workers + 1, made.count - 1);
	net_close(&s.net);
}

static void test_the_aggregator_dies(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s, MEMORY);
	const struct made made = make_group(&s);
	s.aggregator->cut = true;
	s.aggregator->open = false;
	net_run(&s.net, 2 * HD_SECOND);
	expect_void(&s, made.group, made.sum, made.open);
	assert_int_equal(s.net.controller->aggregator_count, 0);
	assert_int_equal(s.net.controller->group_count, 0);
	ask_again(&s, made.workers, made.count);
	assert_int_equal(counters(&s.net)->groups, 1);
	net_close(&s.net);
}

static void test_the_server_dies(void **state) {
	struct scene s;
	uint8_t reason;

	(void)state;
	open_scene(&s, MEMORY);
	const struct made made = make_group(&s);
	s.server->cut = true;
	net_run(&s.net, 2 * HD_SECOND);
	assert_true(has_void(s.aggregator, made.group, &reason));
	for (uint32_t i = 0; i < made.count; i++)
		assert_true(has_void(s.workers[made.workers[i]], made.inputs[i].token, &reason));
	assert_int_equal(open_count(&s), 0);
	assert_int_equal(s.net.controller->group_count, 0);
	assert_int_equal(s.net.controller->jobs[0]->open_pushes, 0);
	net_close(&s.net);
}

static void test_the_server_refuses_the_sum(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s, MEMORY);
	const struct made made = make_group(&s);
	end_sum(&s, newest_members(&s), HD_OUTCOME_DROPPED, 0);
	net_run(&s.net, HD_MS);
	assert_int_equal(s.net.controller->jobs[0]->dropped_for[HD_REASON_LATE], made.count);
	assert_int_equal(counters(&s.net)->sums, 0);
	for (uint32_t i = 0; i < made.count; i++)
		assert_null(ctl_transfer_by_token(s.net.controller, made.inputs[i].token));
	net_close(&s.net);
}

/* A new controller learns of a sum part by part, and of its end too. */
static void test_a_new_controller(void **state) {
	struct net_config second = net_plain;
	struct hd_message m = {.kind = HD_MSG_STATE};
	struct scene s;

	(void)state;
	open_scene(&s, MEMORY);
	const struct made made = make_group(&s);
	const uint64_t position = newest_members(&s)->position;
	second.epoch = 2;
	net_restart(&s.net, &second);
	for (uint32_t i = 0; i < s.net.peer_count; i++)
		peer_restart(&s.net.peers[i]);
	net_run(&s.net, 100 * HD_MS);
	post(s.server, net_register_server(s.server));
	post(s.aggregator, net_register_aggregator(s.aggregator, MEMORY));
	for (uint16_t w = 0; w < WORKERS; w++)
		post(s.workers[w], net_register_worker(s.workers[w], 64, 0));
	net_run(&s.net, HD_MS);
	m.state.job = net_job(s.workers[0]);
	m.state.position = position + made.count - 1;
	m.state.tau_max = 64;
	m.state.model_bytes = NET_MODEL_BYTES;
	m.state.inflight = made.count;
	post(s.server, m);
	for (uint32_t i = 0; i < made.count; i++) {
		struct hd_message part = {.kind = HD_MSG_INFLIGHT};

		part.inflight.job = m.state.job;
		part.inflight.worker = made.workers[i];
		part.inflight.round = 1;
		part.inflight.attempt = 1;
		part.inflight.token = made.inputs[i].token;
		part.inflight.position = position + i;
		part.inflight.bytes = MB;
		post(s.server, part);
	}
	net_run(&s.net, SETTLED);
	assert_int_equal(open_count(&s), made.count);
	assert_int_equal(counters(&s.net)->restored, made.count);
	/* A part that is void takes the sum along at the server; here each ends by its own report. */
	for (uint32_t i = 0; i < made.count; i++) {
		struct hd_message report = {.kind = HD_MSG_REPORT};

		report.report.job = m.state.job;
		report.report.worker = made.workers[i];
		report.report.round = 1;
		report.report.attempt = 1;
		report.report.token = made.inputs[i].token;
		report.report.outcome = HD_OUTCOME_APPLIED;
		report.report.bytes = MB;
		report.report.version = hd_version_make(1, made.count);
		post(s.server, report);
	}
	net_run(&s.net, HD_MS);
	assert_int_equal(open_count(&s), 0);
	/* And groups go on. */
	push_all(&s, 2);
	assert_non_null(newest_group(&s));
	net_close(&s.net);
}

/* A node may report only its own transfers. */
static void test_hostile(void **state) {
	struct scene s;
	struct hd_message m = {.kind = HD_MSG_REPORT};

	(void)state;
	open_scene(&s, MEMORY);
	struct peer *other = net_aggregator(&s.net, "a2", 0);
	const struct made made = make_group(&s);
	m.report.job = net_job(s.workers[0]);
	m.report.token = made.group;
	m.report.outcome = HD_OUTCOME_FAILED;
	post(other, m);
	m.report.token = made.inputs[0].token;
	post(other, m);
	m.report.token = made.sum;
	m.report.worker = HD_GROUP_WORKER;
	post(s.workers[0], m);
	m.report.token = 77;
	post(s.aggregator, m);
	net_run(&s.net, HD_MS);
	assert_int_equal(counters(&s.net)->groups_voided, 0);
	assert_int_equal(counters(&s.net)->reports_unknown, 3);
	assert_int_equal(counters(&s.net)->hostile_owner, 1);
	assert_int_equal(open_count(&s), made.open);
	net_close(&s.net);
}

/* One reader less does not matter; without an aggregator all ask again. */
static void test_readers_go(void **state) {
	struct hd_message m = {.kind = HD_MSG_CANCEL};
	struct scene s;

	(void)state;
	open_scene(&s, MEMORY);
	for (uint16_t w = 0; w < WORKERS; w++)
		post(s.workers[w], net_pull(s.workers[w], 1));
	net_run(&s.net, 5 * HD_MS);
	const struct hd_msg_group *group = newest_group(&s);
	assert_non_null(group);
	m.cancel.job = group->job;
	m.cancel.worker = hd_group_get_output(&group->outputs, 0).worker;
	m.cancel.round = 1;
	m.cancel.direction = HD_PULL;
	m.cancel.attempt = 1;
	post(s.workers[m.cancel.worker], m);
	net_run(&s.net, HD_MS);
	assert_int_equal(counters(&s.net)->groups_voided, 0);
	assert_true(s.net.controller->group_count > 0);
	s.aggregator->cut = true;
	net_run(&s.net, 2 * HD_SECOND);
	assert_int_equal(s.net.controller->group_count, 0);
	assert_true(counters(&s.net)->groups_voided > 0);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_aggregator_gives_up),
		cmocka_unit_test(test_a_member_is_cancelled),
		cmocka_unit_test(test_a_member_leaves),
		cmocka_unit_test(test_the_aggregator_dies),
		cmocka_unit_test(test_the_server_dies),
		cmocka_unit_test(test_a_refusal_is_of_one_job),
		cmocka_unit_test(test_the_server_refuses_the_sum),
		cmocka_unit_test(test_a_new_controller),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_readers_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
