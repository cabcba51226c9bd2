/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups at the controller: what aggregators, server and workers are told, and what an operator sees. */
#include "group_peers.h"
#include "hd_group.h"
#include "hd_reduce.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* GROUP, MEMBERS and the GRANTs agree, field by field. */
static void check_agreement(struct scene *s) {
	const struct hd_msg_group *group = newest_group(s);
	const struct hd_msg_members *members = newest_members(s);
	struct hd_group_output sum;
	double weight = 0;
	int count;

	assert_non_null(group);
	assert_non_null(members);
	count = inputs_of(group);
	assert_true(count >= 2);
	assert_int_equal(hd_group_count(&group->outputs, HD_GROUP_OUTPUT_BYTES), 1);
	assert_int_equal(hd_group_count(&members->members, HD_GROUP_MEMBER_BYTES), count);
	sum = hd_group_get_output(&group->outputs, 0);
	assert_int_equal(sum.token, members->token);
	assert_int_not_equal(sum.token, group->group);
	assert_int_equal(sum.role, HD_ROLE_SERVER);
	assert_int_equal(sum.ipv4, s->server->addr.ipv4);
	assert_int_equal(sum.worker, HD_GROUP_WORKER);
	assert_int_equal(members->peer_ipv4, s->aggregator->addr.ipv4);
	assert_int_equal(members->bytes, MB);
	assert_int_equal(group->bytes, MB);
	assert_int_equal(group->epoch, members->epoch);
	assert_int_equal(group->peer_port, 0);
	for (uint32_t i = 0; i < (uint32_t)count; i++) {
		const struct hd_group_input input = hd_group_get_input(&group->inputs, i);
		const struct hd_group_member member = hd_group_get_member(&members->members, i);
		const struct hd_msg_grant *grant
			= peer_grant(s->workers[input.worker], input.worker, input.round);

		assert_non_null(grant);
		assert_int_equal(grant->token, input.token);
		assert_int_equal(grant->peer_ipv4, s->aggregator->addr.ipv4);
		assert_int_equal(grant->position, members->position + i);
		assert_int_equal(member.token, input.token);
		assert_int_equal(member.worker, input.worker);
		assert_int_equal(member.round, input.round);
		assert_true(fabs((double)(member.weight - grant->weight)) < 1e-6);
		weight += (double)member.weight;
		/* MEMBERS stands for its EXPECT. */
		assert_null(peer_expect(s->server, input.worker, input.round));
	}
	assert_true(fabs((double)members->weight - weight) < 1e-4);
}

static void test_a_group_is_notified(void **state) {
	struct scene s;
	uint32_t direct = 0;

	(void)state;
	open_scene(&s, MEMORY);
	push_all(&s, 1);
	check_agreement(&s);
	assert_true(counters(&s.net)->groups >= 1);
	assert_true(counters(&s.net)->grouped >= 2);
	/* All other granted pushes go to the server. */
	for (uint16_t w = 0; w < WORKERS; w++) {
		const struct hd_msg_grant *grant = peer_grant(s.workers[w], w, 1);

		if (grant && grant->peer_ipv4 == s.server->addr.ipv4) {
			assert_non_null(peer_expect(s.server, w, 1));
			direct++;
		}
	}
	assert_int_equal(direct + counters(&s.net)->grouped, counters(&s.net)->grants);
	net_close(&s.net);
}

/* The direct ones before it, then the sum: versions and delays of each member. */
static void finish_round(struct scene *s, uint64_t *version) {
	const struct hd_msg_group *group = newest_group(s);
	const struct hd_msg_members *members = newest_members(s);
	const uint32_t count = (uint32_t)inputs_of(group);

	for (uint64_t position = 1; position < members->position; position++)
		for (uint16_t w = 0; w < WORKERS; w++) {
			const struct hd_msg_grant *grant = peer_grant(s->workers[w], w, 1);

			if (grant && grant->position == position)
				post(s->server, net_report(grant, ++*version, 80000000));
		}
	for (uint32_t i = 0; i < count; i++) {
		const struct hd_group_input input = hd_group_get_input(&group->inputs, i);

		send_held(s, &input);
	}
	net_run(&s->net, 5 * HD_MS);
	*version += count;
	end_sum(s, members, HD_OUTCOME_APPLIED, *version);
}

static void test_a_sum_is_applied(void **state) {
	const struct ctl_job *job;
	uint64_t version = 0;
	struct scene s;

	(void)state;
	open_scene(&s, MEMORY);
	push_all(&s, 1);
	finish_round(&s, &version);
	net_run(&s.net, HD_MS);
	job = s.net.controller->jobs[0];
	assert_int_equal(counters(&s.net)->sums, 1);
	assert_int_equal(job->applied, version);
	assert_int_equal(job->version, hd_version_make(1, version));
	/* One update for each delay from 1 on: base 0, versions in order. */
	assert_int_equal(job->staleness.count, version);
	for (uint32_t d = 1; d <= version; d++)
		assert_int_equal(job->staleness.delays[d], 1);
	assert_int_equal(job->open_pushes + job->pending, WORKERS - version);
	assert_int_equal(s.net.controller->group_count, counters(&s.net)->groups - 1);
	net_close(&s.net);
}

/* While members come in their ways are reserved, and the sum's; nothing beyond the estimate. */
static void test_reservations(void **state) {
	struct hd_controller *c;
	struct scene s;

	(void)state;
	open_scene(&s, MEMORY);
	push_all(&s, 1);
	c = s.net.controller;
	for (uint32_t l = 1; l < hd_controller_link_count(c); l++)
		for (hd_ns at = s.net.now; at < s.net.now + HD_SECOND; at += 10 * HD_MS)
			assert_true(
				hd_controller_reserved_bps(c, l, at)
				<= hd_controller_planned_bps(c, l) * 1.0001
			);
	/* An input that is held gives its way back. */
	const struct hd_msg_group *group = newest_group(&s);
	const struct hd_group_input input = hd_group_get_input(&group->inputs, 0);
	const struct ctl_transfer *t = ctl_transfer_by_token(c, input.token);
	assert_true(t->reserved_count > 0);
	send_held(&s, &input);
	net_run(&s.net, HD_MS);
	assert_int_equal(t->reserved_count, 0);
	assert_true(t->state == CTL_HELD);
	net_close(&s.net);
}

static void test_no_groups(void **state) {
	const struct hd_reduce_config sum = {
		.order = HD_GROUP_ARRIVAL,
		.bytes = MB,
		.input_count = CTL_GROUP_WINDOW,
	};
	const uint64_t memory = hd_reduce_memory_bytes(&sum);
	struct hd_message m = {.kind = HD_MSG_COMMAND};
	struct scene s;

	(void)state;
	/* Memory for less than one sum, as its aggregator counts it; and for just one. */
	open_scene(&s, memory - 1);
	push_all(&s, 1);
	assert_null(newest_group(&s));
	net_close(&s.net);
	open_scene(&s, memory);
	push_all(&s, 1);
	assert_non_null(newest_group(&s));
	assert_int_equal(s.net.controller->group_count, 1);
	net_close(&s.net);
	/* Its host is drained. */
	open_scene(&s, MEMORY);
	struct peer *shell = net_peer(&s.net, HD_ROLE_SHELL, "x");
	m.command.verb = HD_VERB_DRAIN;
	(void)snprintf(m.command.target, sizeof m.command.target, "a1");
	(void)snprintf(m.command.object, sizeof m.command.object, "host");
	post(shell, m);
	net_run(&s.net, HD_MS);
	push_all(&s, 1);
	assert_null(newest_group(&s));
	net_close(&s.net);
	/* The operator says so, and says otherwise. */
	open_scene(&s, MEMORY);
	shell = net_peer(&s.net, HD_ROLE_SHELL, "x");
	m = (struct hd_message){.kind = HD_MSG_COMMAND};
	m.command.verb = HD_VERB_SET;
	(void)snprintf(m.command.object, sizeof m.command.object, "aggregation");
	(void)snprintf(m.command.value, sizeof m.command.value, "off");
	post(shell, m);
	net_run(&s.net, HD_MS);
	assert_int_equal(peer_last(shell, HD_MSG_DONE)->done.reason, HD_REASON_NONE);
	push_all(&s, 1);
	assert_null(newest_group(&s));
	(void)snprintf(m.command.value, sizeof m.command.value, "on");
	post(shell, m);
	net_run(&s.net, HD_MS);
	assert_int_equal(peer_last(shell, HD_MSG_DONE)->done.reason, HD_REASON_NONE);
	(void)snprintf(m.command.value, sizeof m.command.value, "maybe");
	post(shell, m);
	net_run(&s.net, HD_MS);
	assert_int_equal(peer_last(shell, HD_MSG_DONE)->done.reason, HD_REASON_REFUSED);
	net_close(&s.net);
}

/* --- pulls --- */

static void test_a_model_is_relayed(void **state) {
	struct scene s;
	uint32_t relayed = 0;

	(void)state;
	open_scene(&s, MEMORY);
	for (uint16_t w = 0; w < WORKERS; w++)
		post(s.workers[w], net_pull(s.workers[w], 1));
	net_run(&s.net, 5 * HD_MS);
	const struct hd_msg_group *group = newest_group(&s);
	assert_non_null(group);
	assert_int_equal(inputs_of(group), 1);
	assert_int_equal(group->peer_ipv4, s.server->addr.ipv4);
	const struct hd_group_input copy = hd_group_get_input(&group->inputs, 0);
	const int count = hd_group_count(&group->outputs, HD_GROUP_OUTPUT_BYTES);
	assert_true(count >= 2);
	/* The server sends it to the aggregator. */
	const struct hd_msg_grant *grant = peer_grant(s.server, HD_GROUP_WORKER, copy.round);
	assert_non_null(grant);
	assert_int_equal(grant->token, copy.token);
	assert_int_equal(grant->direction, HD_PULL);
	assert_int_equal(grant->peer_ipv4, s.aggregator->addr.ipv4);
	/* The workers expect it from there. */
	for (uint32_t i = 0; i < (uint32_t)count; i++) {
		const struct hd_group_output out = hd_group_get_output(&group->outputs, i);
		const struct hd_msg_expect *expect
			= peer_expect(s.workers[out.worker], out.worker, out.round);

		assert_int_equal(out.role, HD_ROLE_WORKER);
		assert_int_equal(out.ipv4, s.workers[out.worker]->addr.ipv4);
		assert_non_null(expect);
		assert_int_equal(expect->token, out.token);
		assert_int_equal(expect->peer_ipv4, s.aggregator->addr.ipv4);
		assert_null(peer_grant(s.server, out.worker, out.round));
		relayed++;
	}
	assert_int_equal(counters(&s.net)->relayed, relayed);
	/* The copy is there; then each worker reports its own. */
	struct hd_message m = {.kind = HD_MSG_REPORT};
	m.report.job = net_job(s.workers[0]);
	m.report.worker = HD_GROUP_WORKER;
	m.report.round = copy.round;
	m.report.direction = HD_PULL;
	m.report.token = copy.token;
	m.report.outcome = HD_OUTCOME_APPLIED;
	m.report.bytes = NET_MODEL_BYTES;
	m.report.duration_ns = 400 * HD_MS;
	m.report.rate_bps = 80000000;
	post(s.aggregator, m);
	net_run(&s.net, HD_MS);
	assert_null(ctl_transfer_by_token(s.net.controller, copy.token));
	const struct hd_message sent = *peer_last(s.aggregator, HD_MSG_GROUP);
	for (uint32_t i = 0; i < (uint32_t)count; i++) {
		const struct hd_group_output out = hd_group_get_output(&sent.group.outputs, i);

		m.report.worker = out.worker;
		m.report.round = out.round;
		m.report.attempt = out.attempt;
		m.report.token = out.token;
		m.report.outcome = HD_OUTCOME_APPLIED;
		assert_true(s.net.controller->group_count > 0);
		post(s.workers[out.worker], m);
		net_run(&s.net, HD_MS);
	}
	assert_int_equal(s.net.controller->group_count, counters(&s.net)->groups - 1);
	assert_int_equal(s.net.controller->jobs[0]->pulls_delivered, count);
	net_close(&s.net);
}

/* --- what the shell shows --- */

static const char *show(struct scene *s, struct peer *shell, const char *table) {
	struct hd_message m = {.kind = HD_MSG_SHOW};

	(void)snprintf(m.show.table, sizeof m.show.table, "%s", table);
	post(shell, m);
	net_run(&s->net, HD_MS);
	assert_non_null(shell->json);
	return shell->json;
}

static void test_shown(void **state) {
	struct scene s;
	const char *json;
	char words[64];

	(void)state;
	open_scene(&s, MEMORY);
	struct peer *shell = net_peer(&s.net, HD_ROLE_SHELL, "x");
	const struct made made = make_group(&s);
	json = show(&s, shell, "groups");
	assert_non_null(
		strstr(json, "\"kind\":\"sum\",\"aggregator\":\"a1\",\"state\":\"collecting\"")
	);
	(void)snprintf(words, sizeof words, "\"size\":%u,\"open\":%u", made.count, made.count);
	assert_non_null(strstr(json, words));
	(void)snprintf(words, sizeof words, "w%u/1", made.workers[1]);
	assert_non_null(strstr(json, words));
	json = show(&s, shell, "plan");
	(void
	)snprintf(words, sizeof words, "added to %u others at a1: all there after", made.count - 1);
	assert_non_null(strstr(json, words));
	assert_non_null(strstr(json, "\"aggregator\":\"a1\""));
	json = show(&s, shell, "transfers");
	assert_non_null(strstr(json, "\"direction\":\"sum\""));
	json = show(&s, shell, "settings");
	assert_non_null(strstr(json, "\"setting\":\"aggregation\",\"value\":\"on\""));
	/* All of them are held, and the sum is in flight. */
	for (uint32_t i = 0; i < made.count; i++)
		send_held(&s, &made.inputs[i]);
	net_run(&s.net, HD_MS);
	json = show(&s, shell, "groups");
	assert_null(strstr(json, "collecting"));
	net_close(&s.net);
}

/* An ended group is shown with its plan and its outcome. */
static void test_ended_is_shown(void **state) {
	uint64_t version = 0;
	struct scene s;
	char words[96];

	(void)state;
	open_scene(&s, MEMORY);
	struct peer *shell = net_peer(&s.net, HD_ROLE_SHELL, "x");
	push_all(&s, 1);
	const struct ctl_group *group = TAILQ_FIRST(&s.net.controller->groups);
	const hd_ns made = group->made;
	const double planned = group->finish_s * 1e3;
	const uint32_t number = group->number, count = group->count;
	assert_true(planned > 0);
	finish_round(&s, &version);
	net_run(&s.net, HD_MS);
	const struct ctl_group_past *past = &s.net.controller->grouping.past[0];
	assert_int_equal(s.net.controller->grouping.past_count, 1);
	assert_int_equal(past->number, number);
	assert_int_equal(past->made, made);
	assert_true(past->ended > made);
	const char *json = show(&s, shell, "groups");
	(void)snprintf(words, sizeof words, "\"state\":\"applied\",\"size\":%u,\"open\":0", count);
	assert_non_null(strstr(json, words));
	(void)snprintf(
		words,
		sizeof words,
		"\"finish_ms\":%.3f,\"took_ms\":%.3f",
		planned,
		(double)(past->ended - made) / 1e6
	);
	assert_non_null(strstr(json, words));
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_group_is_notified),
		cmocka_unit_test(test_a_sum_is_applied),
		cmocka_unit_test(test_reservations),
		cmocka_unit_test(test_no_groups),
		cmocka_unit_test(test_a_model_is_relayed),
		cmocka_unit_test(test_shown),
		cmocka_unit_test(test_ended_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
