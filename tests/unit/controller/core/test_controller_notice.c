/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices of preemption and rosters: which worker goes first, which updates are dropped, when the others stop waiting,
 * and which nodes receive a roster. */
#include "controller_net.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS 4

struct stage {
	struct net net;
	struct peer *server, *worker[WORKERS];
};

static void stage_open(struct stage *s, const struct net_config *config) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, config);
	s->server = net_server(&s->net, "ps");
	for (uint16_t i = 0; i < WORKERS; i++)
		s->worker[i] = net_worker(&s->net, "team", "mnist", i, 64);
	net_run(&s->net, 2 * SETTLED);
}

static struct hd_message notice(const struct peer *peer, uint32_t left_us) {
	struct hd_message m = {.kind = HD_MSG_NOTICE};

	m.notice.job = net_job(peer);
	m.notice.worker = peer->worker;
	m.notice.left_us = left_us;
	return m;
}

static const struct ctl_node *node_of(struct stage *s, uint16_t worker) {
	return ctl_worker(ctl_job_find(s->net.controller, net_job(s->worker[0])), worker);
}

static bool had_grant(const struct stage *s, uint16_t worker, uint32_t round) {
	return peer_grant(s->worker[worker], worker, round);
}

/* --- notice --- */

/* Three wait behind a long transfer; the one that was warned goes first, though it is the longest and asked last. */
static void test_goes_first(void **state) {
	struct stage s;

	(void)state;
	for (int warned = 0; warned < 2; warned++) {
		const struct hd_msg_grant *grant;
		uint64_t position[WORKERS] = {0};

		stage_open(&s, &net_plain);
		post(s.worker[0], net_push(s.worker[0], 1, 4 * MB, 0));
		net_run(&s.net, 5 * HD_MS);
		post(s.worker[1], net_push(s.worker[1], 1, MB, 0));
		net_run(&s.net, HD_MS);
		if (warned)
			post(s.worker[3], notice(s.worker[3], 5000000));
		post(s.worker[2], net_push(s.worker[2], 1, MB, 0));
		post(s.worker[3], net_push(s.worker[3], 1, 2 * MB, 0));
		for (int round = 0; round < 4; round++) {
			for (uint16_t w = 0; w < WORKERS; w++) {
				grant = peer_grant(s.worker[w], w, 1);
				if (!grant || position[w])
					continue;
				position[w] = grant->position;
			}
			/* Granted transfers end, one after the other. */
			for (uint16_t w = 0; w < WORKERS; w++)
				if (position[w] == (uint64_t)round + 1)
					post(s.server,
					     net_report(
						     peer_grant(s.worker[w], w, 1),
						     (uint64_t)round + 1,
						     80000000
					     ));
			net_run(&s.net, 20 * HD_MS);
		}
		for (uint16_t w = 0; w < WORKERS; w++)
			assert_true(position[w] > 0);
		assert_int_equal(position[0], 1);
		/* One more may have been granted behind the running one before. */
		if (warned)
			assert_true(position[3] <= 3 && position[3] < position[2]);
		else
			assert_int_equal(position[3], 4);
		net_close(&s.net);
	}
}

/* 4 MB take 400 ms: with 100 ms left they are dropped, with 2 s they go. */
static void test_too_late_is_dropped(void **state) {
	const struct hd_message *drop;
	struct stage s;

	(void)state;
	stage_open(&s, &net_plain);
	post(s.worker[1], notice(s.worker[1], 100000));
	post(s.worker[2], notice(s.worker[2], 2000000));
	net_run(&s.net, 2 * HD_MS);
	post(s.worker[1], net_push(s.worker[1], 1, 4 * MB, 0));
	post(s.worker[2], net_push(s.worker[2], 1, 4 * MB, 0));
	net_run(&s.net, 20 * HD_MS);
	drop = peer_last(s.worker[1], HD_MSG_DROP);
	assert_non_null(drop);
	assert_int_equal(drop->drop.reason, HD_REASON_PREEMPTED);
	assert_true(drop->drop.finish_s > 0.1);
	assert_false(had_grant(&s, 1, 1));
	assert_true(had_grant(&s, 2, 1));
	assert_int_equal(counters(&s.net)->drops_preempted, 1);
	assert_int_equal(node_of(&s, 1)->job->ungranted, 1);
	assert_int_equal(node_of(&s, 1)->job->dropped_for[HD_REASON_PREEMPTED], 1);
	/* Pulls are not held back: what it does with the model is its own. */
	post(s.worker[1], net_pull(s.worker[1], 1));
	net_run(&s.net, 20 * HD_MS);
	assert_int_equal(peer_count(s.worker[1], HD_MSG_DROP), 1);
	net_close(&s.net);
}

/* It is gone when its time is over, not the detection time later; what it had is void, the others go on. */
static void test_time_is_over(void **state) {
	struct stage s;
	hd_ns warned;

	(void)state;
	stage_open(&s, &net_plain);
	post(s.worker[1], net_push(s.worker[1], 1, MB, 0));
	net_run(&s.net, 10 * HD_MS);
	assert_true(had_grant(&s, 1, 1));
	post(s.worker[1], notice(s.worker[1], 300000));
	net_run(&s.net, HD_MS);
	warned = s.net.now;
	s.worker[1]->cut = true; /* killed, without notice */
	net_run(&s.net, 250 * HD_MS);
	assert_non_null(node_of(&s, 1));
	assert_int_equal(peer_count(s.server, HD_MSG_VOID), 0);
	net_run(&s.net, 60 * HD_MS);
	assert_null(node_of(&s, 1));
	assert_true(s.net.now - warned < HD_SILENCE_US * HD_US);
	assert_int_equal(peer_count(s.server, HD_MSG_VOID), 1);
	assert_int_equal(peer_last(s.server, HD_MSG_VOID)->void_.reason, HD_REASON_CLOSED);
	assert_int_equal(counters(&s.net)->preempted, 1);
	assert_int_equal(s.net.controller->noticed, 0);
	net_close(&s.net);
}

/* A worker that leaves in time is a worker that left. The fields of notices are checked: the worker, the time, and
 * repetition. */
static void test_words(void **state) {
	struct hd_message leave = {.kind = HD_MSG_LEAVE}, m;
	struct stage s;

	(void)state;
	stage_open(&s, &net_plain);
	m = notice(s.worker[1], 0);
	post(s.worker[1], m);
	m.notice.left_us = HD_NOTICE_US_MAX + 1;
	post(s.worker[1], m);
	net_run(&s.net, 2 * HD_MS);
	assert_int_equal(counters(&s.net)->hostile_value, 2);
	m = notice(s.worker[1], 1000);
	m.notice.worker = 2;
	post(s.worker[1], m);
	m = notice(s.worker[1], 1000);
	m.notice.job++;
	post(s.worker[1], m);
	net_run(&s.net, 2 * HD_MS);
	assert_int_equal(counters(&s.net)->hostile_owner, 2);
	assert_int_equal(s.net.controller->noticed, 0);
	/* Longer is not believed, shorter is. */
	post(s.worker[1], notice(s.worker[1], 500000));
	post(s.worker[1], notice(s.worker[1], 900000));
	net_run(&s.net, 2 * HD_MS);
	assert_true(node_of(&s, 1)->preempted_at < s.net.now + 500 * HD_MS);
	post(s.worker[1], notice(s.worker[1], 200000));
	net_run(&s.net, 2 * HD_MS);
	assert_true(node_of(&s, 1)->preempted_at < s.net.now + 200 * HD_MS);
	assert_int_equal(counters(&s.net)->notices, 1);
	assert_int_equal(s.net.controller->noticed, 1);
	assert_int_equal(net_count_events(&s.net, HD_EVENT_NOTICE), 2);
	leave.leave.job = net_job(s.worker[1]);
	leave.leave.worker = 1;
	leave.leave.reason = HD_REASON_LEFT;
	post(s.worker[1], leave);
	net_run(&s.net, 2 * HD_MS);
	assert_null(node_of(&s, 1));
	assert_int_equal(s.net.controller->noticed, 0);
	net_run(&s.net, 400 * HD_MS);
	assert_int_equal(counters(&s.net)->preempted, 0);
	net_close(&s.net);
}

static void test_is_shown(void **state) {
	const char *error = NULL;
	json_t *document, *rows;
	struct stage s;
	char *text;
	size_t i, warned = 0;
	json_t *row;

	(void)state;
	stage_open(&s, &net_plain);
	post(s.worker[2], notice(s.worker[2], 30000000));
	net_run(&s.net, 1000 * HD_MS);
	text = hd_controller_table(s.net.controller, "nodes", "", &error);
	document = json_loads(text, 0, NULL);
	rows = json_object_get(document, "rows");
	json_array_foreach(rows, i, row) {
		double left = json_number_value(json_object_get(row, "preempted_in_s"));

		if (json_is_null(json_object_get(row, "preempted_in_s")))
			continue;
		warned++;
		assert_int_equal(json_integer_value(json_object_get(row, "worker")), 2);
		assert_true(left > 28.9 && left < 29.1);
	}
	assert_int_equal(warned, 1);
	json_decref(document);
	free(text);
	text = hd_controller_table(s.net.controller, "jobs", "", &error);
	document = json_loads(text, 0, NULL);
	row = json_array_get(json_object_get(document, "rows"), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "preempted")), 1);
	assert_int_equal(json_integer_value(json_object_get(row, "workers")), WORKERS);
	json_decref(document);
	free(text);
	net_close(&s.net);
}

/* --- roster --- */

static void take_roster(const struct peer *peer, struct hd_roster *roster) {
	const struct hd_message *m = peer_last(peer, HD_MSG_ROSTER);

	assert_non_null(m);
	assert_int_equal(
		hd_roster_read(
			roster, m->roster.count, m->roster.ranks.data, m->roster.ranks.bytes
		),
		0
	);
	roster->change = m->roster.change;
}

/* All connected workers and the server receive the same roster. */
static void agree(struct stage *s, unsigned present, struct hd_roster *roster) {
	take_roster(s->server, roster);
	for (uint16_t w = 0; w < WORKERS; w++) {
		struct hd_roster mine;

		assert_int_equal(hd_roster_has(roster, w), present >> w & 1);
		if (!(present >> w & 1))
			continue;
		take_roster(s->worker[w], &mine);
		assert_int_equal(mine.change, roster->change);
		assert_memory_equal(mine.ranks, roster->ranks, sizeof mine.ranks);
	}
}

static void test_roster_follows(void **state) {
	struct hd_message leave = {.kind = HD_MSG_LEAVE};
	struct hd_roster first, second, third;
	struct stage s;
	uint32_t words;

	(void)state;
	stage_open(&s, &net_plain);
	agree(&s, 0xf, &first);
	assert_int_equal(hd_version_incarnation(first.change), 1);
	/* Nothing changes: nothing is said. */
	words = peer_count(s.worker[0], HD_MSG_ROSTER);
	net_run(&s.net, HD_SECOND);
	assert_int_equal(peer_count(s.worker[0], HD_MSG_ROSTER), words);
	leave.leave.job = net_job(s.worker[1]);
	leave.leave.worker = 1;
	post(s.worker[1], leave);
	net_run(&s.net, 50 * HD_MS);
	agree(&s, 0xd, &second);
	assert_true(second.change > first.change);
	/* Dead: after the detection time. */
	s.worker[3]->cut = true;
	net_run(&s.net, 500 * HD_MS);
	agree(&s, 0xd, &third);
	assert_int_equal(third.change, second.change);
	net_run(&s.net, 500 * HD_MS);
	agree(&s, 0x5, &third);
	assert_true(third.change > second.change);
	net_close(&s.net);
}

/* Words do not pile up for one that is not heard: it is told the newest when it is there again. */
static void test_roster_waits_for_who_is_late(void **state) {
	struct hd_message leave = {.kind = HD_MSG_LEAVE};
	const struct ctl_node *late;
	struct hd_roster roster;
	struct stage s;

	(void)state;
	stage_open(&s, &net_plain);
	leave.leave.job = net_job(s.worker[1]);
	leave.leave.worker = 1;
	late = s.net.controller->jobs[0]->workers[0];
	s.worker[0]->cut = true;
	for (int change = 0; change < 20; change++) {
		post(s.worker[1], change % 2 ? net_register_worker(s.worker[1], 64, 1) : leave);
		net_run(&s.net, 30 * HD_MS);
		assert_in_range(hd_session_queued(late->session), 1, 5);
	}
	s.worker[0]->cut = false;
	net_run(&s.net, 300 * HD_MS);
	agree(&s, 0xf, &roster);
	assert_int_equal(s.net.controller->jobs[0]->roster_changes, 21);
	net_close(&s.net);
}

/* A worker that comes back before any other was notified gets the number that the others have. */
static void test_roster_number_is_of_the_set(void **state) {
	struct hd_roster before, after;
	struct stage s;
	uint32_t words;

	(void)state;
	stage_open(&s, &net_plain);
	agree(&s, 0xf, &before);
	words = peer_count(s.worker[0], HD_MSG_ROSTER);
	peer_restart(s.worker[2]);
	net_run(&s.net, 20 * HD_MS);
	post(s.worker[2], net_register_worker(s.worker[2], 64, 1));
	net_run(&s.net, 100 * HD_MS);
	agree(&s, 0xf, &after);
	if (after.change == before.change)
		assert_int_equal(peer_count(s.worker[0], HD_MSG_ROSTER), words);
	net_close(&s.net);
}

/* A new controller waits until all may be back, and counts on from a higher number. */
static void test_roster_after_a_restart(void **state) {
	struct net_config again = net_plain;
	struct hd_roster before, after;
	struct stage s;

	(void)state;
	stage_open(&s, &net_plain);
	agree(&s, 0xf, &before);
	again.epoch = 2;
	net_restart(&s.net, &again);
	net_run(&s.net, 300 * HD_MS);
	for (uint16_t w = 0; w < WORKERS; w++)
		peer_restart(s.worker[w]);
	peer_restart(s.server);
	net_run(&s.net, 20 * HD_MS);
	post(s.server, net_register_server(s.server));
	post(s.worker[0], net_register_worker(s.worker[0], 64, 1));
	net_run(&s.net, 200 * HD_MS);
	assert_int_equal(net_count_events(&s.net, HD_EVENT_ROSTER) > 0, 1);
	for (uint16_t w = 1; w < WORKERS; w++)
		post(s.worker[w], net_register_worker(s.worker[w], 64, 1));
	net_run(&s.net, HD_SECOND);
	agree(&s, 0xf, &after);
	assert_true(after.change > before.change);
	assert_int_equal(hd_version_counter(after.change), 1); /* one word, of all of them */
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_goes_first),
		cmocka_unit_test(test_too_late_is_dropped),
		cmocka_unit_test(test_time_is_over),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_is_shown),
		cmocka_unit_test(test_roster_follows),
		cmocka_unit_test(test_roster_waits_for_who_is_late),
		cmocka_unit_test(test_roster_number_is_of_the_set),
		cmocka_unit_test(test_roster_after_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
