/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way a round goes, and how many slots jobs get that share a switch. */
#include "ctl_slots.h"
#include "hd_kernels.h"
#include "lease_scene.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_why(struct scene *s, uint32_t round, const char *why) {
	uint32_t before = s->at ? peer_count(s->at, HD_MSG_SLOTS) : 0;

	ask_all(s, round, 1);
	assert_string_equal(job_of(s)->why, why);
	assert_int_equal(reduce_sent(s, 0)->round, round);
	assert_shards(s);
	assert_int_equal(s->at ? peer_count(s->at, HD_MSG_SLOTS) : 0, before);
	done_all(s);
}

static void command(struct scene *s, struct peer *shell, const char *object, const char *value) {
	struct hd_message m = {.kind = HD_MSG_COMMAND};

	m.command.verb = HD_VERB_SET;
	(void)snprintf(m.command.object, sizeof m.command.object, "%s", object);
	(void)snprintf(m.command.value, sizeof m.command.value, "%s", value);
	post(shell, m);
	net_run(&s->net, HD_MS);
	assert_int_equal(peer_last(shell, HD_MSG_DONE)->done.reason, HD_REASON_NONE);
}

/* On a machine that is busy for a second all workers report that a round stalled. Where there is no other aggregator,
 * the round goes through the switch again, up to a limit. */
static void test_stands_still(void **state) {
	const uint32_t most = CTL_LEASE_STILL_ALONE;
	struct scene s;

	(void)state;
	open_with(&s, &net_plain);
	add_switch(&s, 4096);
	ask_all(&s, 1, 1);
	s.avoid = HD_GROUP_AVOID_STILL;
	for (uint32_t attempt = 1; attempt <= most; attempt++) {
		assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), attempt);
		grant(&s);
		check_agreement(&s, WORKERS);
		ask_all(&s, 1, (uint8_t)(attempt + 1));
	}
	net_run(&s.net, CTL_REDUCE_PATIENCE_NS + HD_SECOND);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), most);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(
			peer_last(s.workers[i], HD_MSG_DROP)->drop.reason, HD_REASON_NO_SERVER
		);
	add_aggregators(&s);
	expect_why(&s, 2, "avoided");
	net_close(&s.net);
}

/* Why a round does not go through the switch. */
static void test_reasons(void **state) {
	struct peer *shell;
	struct scene s;

	(void)state;
	open_with(&s, &net_plain);
	add_aggregators(&s);
	expect_why(&s, 1, "no-switch");
	add_switch(&s, 4096);
	s.avoid = HD_GROUP_AVOID_VALUES;
	expect_why(&s, 2, "avoided");
	s.avoid = HD_GROUP_AVOID_NOT;
	s.order = HD_GROUP_RANKED;
	s.peak = INFINITY;
	expect_why(&s, 3, "values");
	s.order = HD_GROUP_ARRIVAL;
	s.workers[3] = join(&s, "j", 3, "h3", COUNT); /* another one on the third host */
	ask(&s, 3, 4, 1);
	expect_why(&s, 4, "path");
	done(&s, 3);
	s.workers[3]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	shell = net_peer(&s.net, HD_ROLE_SHELL, "h1");
	command(&s, shell, "switch", "off");
	expect_why(&s, 5, "off");
	command(&s, shell, "switch", "on");
	ask_all(&s, 6, 1);
	grant(&s);
	check_agreement(&s, WORKERS);
	/* A round in flight goes on; an unused lease ends. */
	command(&s, shell, "switch", "off");
	assert_null(peer_last(s.at, HD_MSG_VOID));
	done_all(&s);
	net_run(&s.net, CTL_LEASE_IDLE_NS + HD_SECOND);
	assert_int_equal(peer_count(s.at, HD_MSG_VOID), 1);
	net_close(&s.net);
	open_with(&s, &net_plain);
	add_aggregators(&s);
	add_switch(&s, 4096);
	s.workers[3] = join(&s, "j", 3, "h4", 0); /* it knows no slots */
	ask(&s, 3, 1, 1);
	expect_why(&s, 1, "unable");
	net_close(&s.net);
}

/* Small chunks: their headers take the links longer than aggregators do, unless there are many workers. */
static void test_small_chunks(void **state) {
	struct hd_message m;
	struct scene s;

	(void)state;
	open_with(&s, &net_plain);
	s.at = net_peer(&s.net, HD_ROLE_SWITCH, "s1");
	m = registration(s.at, 4096);
	m.register_.count_min = m.register_.count_max = 32;
	m.register_.dtypes = 1 << HD_DTYPE_FIXED32;
	post(s.at, m);
	net_run(&s.net, HD_MS);
	s.peak = 3;
	ask_all(&s, 1, 1);
	assert_int_equal(leased(&s)->count, 32);
	assert_int_equal(leased(&s)->dtype, HD_DTYPE_FIXED32);
	grant(&s);
	check_agreement(&s, WORKERS);
	assert_int_equal((int16_t)reduce_sent(&s, 0)->exponent, hd_fixed_exponent(9, 3));
	done_all(&s);
	/* The lease stays as long as it is used. */
	add_aggregators(&s);
	ask_all(&s, 2, 1);
	check_agreement(&s, WORKERS);
	done_all(&s);
	net_run(&s.net, CTL_LEASE_IDLE_NS + HD_SECOND);
	assert_int_equal(peer_count(s.at, HD_MSG_VOID), 1);
	expect_why(&s, 3, "slower");
	net_close(&s.net);
}

static void two_jobs(struct scene *s, uint32_t slots) {
	static const struct net_config fast = {.epoch = 1, .initial_bps = 80e9};

	open_with(s, &fast);
	add_aggregators(s);
	add_switch(s, slots);
	for (uint16_t i = 0; i < WORKERS; i++) {
		char host[8];

		(void)snprintf(host, sizeof host, "h%u", i + 1);
		s->others[i] = join(s, "k", i, host, COUNT);
	}
}

static void others_ask(struct scene *s, uint32_t round) {
	for (uint16_t i = 0; i < WORKERS; i++)
		ask_of(s, s->others[i], round, 1);
}

static void others_done(struct scene *s) {
	for (uint16_t i = 0; i < WORKERS; i++)
		done_by(s, s->others[i]);
}

/* Two jobs: each has half, in any order of arrival. */
static void test_two_jobs(void **state) {
	struct scene s;

	(void)state;
	two_jobs(&s, 256);
	ask_all(&s, 1, 1);
	assert_int_equal(leased(&s)->slots, 256);
	grant(&s);
	others_ask(&s, 1);
	/* All of it is in use: over aggregators. */
	assert_int_equal(reduce_sent_to(s.others[0])->slots, 0);
	assert_string_equal(s.net.controller->jobs[1]->why, ctl_why_slots);
	done_all(&s);
	ask_all(&s, 2, 1);
	assert_int_equal(leased(&s)->slots, 128);
	grant(&s);
	assert_int_equal(reduce_sent(&s, 0)->slots, 128);
	assert_int_equal(reduce_sent(&s, 0)->rate_bps, 0);
	others_done(&s);
	others_ask(&s, 2);
	assert_int_equal(leased(&s)->slots, 128);
	assert_int_equal(leased(&s)->job, s.net.controller->jobs[1]->id);
	grant(&s);
	assert_int_equal(reduce_sent_to(s.others[0])->slots, 128);
	/* Both are busy: each is told its half of the links. */
	assert_true(reduce_sent_to(s.others[0])->rate_bps > 0.45 * 80e9);
	assert_true(reduce_sent_to(s.others[0])->rate_bps < 0.55 * 80e9);
	assert_int_equal(
		ctl_lease_slots(s.net.controller, TAILQ_FIRST(&s.net.controller->leases)->node), 256
	);
	/* The other one leaves the switch to this one. */
	others_done(&s);
	done_all(&s);
	net_run(&s.net, CTL_LEASE_IDLE_NS / 2);
	ask_all(&s, 3, 1);
	done_all(&s);
	net_run(&s.net, CTL_LEASE_IDLE_NS * 3 / 4);
	ask_all(&s, 4, 1);
	grant(&s);
	assert_int_equal(reduce_sent(&s, 0)->round, 4);
	assert_int_equal(reduce_sent(&s, 0)->slots, 256);
	net_close(&s.net);
}

/* Between two rounds a job computes: the other's next round is told its half all the same, but not after a pause. */
static void test_between_rounds(void **state) {
	struct scene s;

	(void)state;
	two_jobs(&s, 4096);
	ask_all(&s, 1, 1);
	grant(&s);
	assert_int_equal(reduce_sent(&s, 0)->rate_bps, 0);
	others_ask(&s, 1);
	grant(&s);
	assert_true(reduce_sent_to(s.others[0])->rate_bps < 0.55 * 80e9);
	done_all(&s);
	others_done(&s);
	net_run(&s.net, CTL_LEASE_PAUSE_NS / 2);
	ask_all(&s, 2, 1);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	assert_true(reduce_sent(&s, 0)->rate_bps > 0.45 * 80e9);
	assert_true(reduce_sent(&s, 0)->rate_bps < 0.55 * 80e9);
	done_all(&s);
	net_run(&s.net, CTL_LEASE_PAUSE_NS);
	ask_all(&s, 3, 1);
	assert_int_equal(reduce_sent(&s, 0)->round, 3);
	assert_int_equal(reduce_sent(&s, 0)->rate_bps, 0);
	net_close(&s.net);
}

/* A job whose rounds overlap all the time gives way as well. */
static void test_no_pause(void **state) {
	struct scene s;

	(void)state;
	two_jobs(&s, 256);
	s.have = 1;
	ask_all(&s, 1, 1);
	grant(&s);
	ask_all(&s, 2, 1);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	others_ask(&s, 1);
	assert_int_equal(reduce_sent_to(s.others[0])->slots, 0);
	ask_all(&s, 3, 1);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	for (uint16_t i = 0; i < WORKERS; i++) {
		done(&s, i);
		done_round(&s, s.workers[i], 1);
	}
	net_run(&s.net, 2 * CTL_LEASE_BUSY_NS);
	assert_int_equal(leased(&s)->slots, 128);
	grant(&s);
	assert_int_equal(reduce_sent(&s, 0)->round, 3);
	others_done(&s);
	others_ask(&s, 2);
	assert_int_equal(leased(&s)->job, s.net.controller->jobs[1]->id);
	grant(&s);
	assert_int_equal(reduce_sent_to(s.others[0])->slots, 128);
	/* With a share each, no job gives way any more. */
	ask_all(&s, 4, 1);
	assert_int_equal(reduce_sent(&s, 0)->round, 4);
	assert_int_equal(reduce_sent(&s, 0)->slots, 128);
	net_close(&s.net);
}

/* Fewer slots than jobs need: they take turns between rounds. */
static void test_turns(void **state) {
	struct scene s;

	(void)state;
	two_jobs(&s, 16);
	for (uint32_t round = 1; round < 4; round++) {
		ask_all(&s, round, 1);
		assert_int_equal(leased(&s)->job, s.net.controller->jobs[0]->id);
		assert_int_equal(leased(&s)->slots, 16);
		grant(&s);
		check_agreement(&s, WORKERS);
		done_all(&s);
		others_ask(&s, round);
		assert_int_equal(leased(&s)->job, s.net.controller->jobs[1]->id);
		grant(&s);
		assert_int_equal(reduce_sent_to(s.others[0])->slots, 16);
		others_done(&s);
	}
	assert_int_equal(counters(&s.net)->leases_taken, 5);
	net_close(&s.net);
}

/* All links are believed to carry so much from now on, and some time passes. */
static uint16_t slots_at(struct scene *s, double bps, uint32_t round) {
	struct hd_controller *c = s->net.controller;
	uint32_t before;

	hd_view_destroy(c->view);
	assert_int_equal(hd_view_create(bps, &c->view), 0);
	net_run(&s->net, CTL_LEASE_REST_NS);
	before = peer_count(s->at, HD_MSG_SLOTS);
	ask_all(s, round, 1);
	if (peer_count(s->at, HD_MSG_SLOTS) > before)
		grant(s);
	check_agreement(s, WORKERS);
	assert_int_equal(reduce_sent(s, 0)->round, round);
	done_all(s);
	return reduce_sent(s, 0)->slots;
}

/* Slots follow what links turn out to carry. */
static void test_review(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	assert_int_equal(slots_at(&s, 80e6, 1), CTL_LEASE_SLOTS_FLOOR);
	assert_int_equal(slots_at(&s, 80e9, 2), CTL_LEASE_SLOTS_MOST);
	assert_int_equal(slots_at(&s, 20e9, 3), CTL_LEASE_SLOTS_MOST);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 2);
	assert_int_equal(
		slots_at(&s, 2e9, 4), CTL_LEASE_SLOTS_MOST
	); /* half would do: not worth it */
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 2);
	assert_int_equal(slots_at(&s, 80e6, 5), CTL_LEASE_SLOTS_FLOOR);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 3);
	net_close(&s.net);
}

/* A ranked round needs fixed point; what has it serves rounds in any order, too. */
static void test_orders(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_all(&s, 1, 1);
	grant(&s);
	assert_int_equal(reduce_sent(&s, 0)->dtype, HD_DTYPE_FP32);
	assert_int_equal(reduce_sent(&s, 0)->exponent, 0);
	s.order = HD_GROUP_RANKED;
	ask_all(&s, 2, 1);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 1); /* the other one is in use */
	done_all(&s);
	net_run(&s.net, 2 * CTL_LEASE_BUSY_NS);
	grant(&s);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	assert_int_equal(reduce_sent(&s, 0)->dtype, HD_DTYPE_FIXED32);
	assert_int_equal((int16_t)reduce_sent(&s, 0)->exponent, hd_fixed_exponent(3, 3));
	done_all(&s);
	s.order = HD_GROUP_ARRIVAL;
	s.peak = 1e20F;
	ask_all(&s, 3, 1);
	assert_int_equal(peer_count(s.at, HD_MSG_SLOTS), 2);
	check_agreement(&s, WORKERS);
	assert_int_equal((int16_t)reduce_sent(&s, 0)->exponent, hd_fixed_exponent(3 * 1e20, 3));
	net_close(&s.net);
}

/* As many members as a lease can have, and one more. */
static void test_most_members(void **state) {
	struct peer *peers[HD_SWITCH_MEMBERS_MAX + 1];
	struct scene s;

	(void)state;
	memset(&s, 0, sizeof s);
	s.peak = 1;
	net_open(&s.net, &net_plain);
	add_switch(&s, 4096);
	for (uint16_t i = 0; i < HD_SWITCH_MEMBERS_MAX; i++) {
		char host[8];

		(void)snprintf(host, sizeof host, "m%u", i);
		peers[i] = join(&s, "j", i, host, COUNT);
	}
	for (uint16_t i = 0; i < HD_SWITCH_MEMBERS_MAX; i++)
		ask_of(&s, peers[i], 1, 1);
	assert_true(leased(&s)->waits == UINT64_MAX);
	assert_int_equal(
		hd_group_count(&leased(&s)->members, HD_GROUP_SEAT_BYTES), HD_SWITCH_MEMBERS_MAX
	);
	grant(&s);
	for (uint16_t i = 0; i < HD_SWITCH_MEMBERS_MAX; i++) {
		assert_int_equal(reduce_sent_to(peers[i])->member, i);
		done_by(&s, peers[i]);
	}
	peers[HD_SWITCH_MEMBERS_MAX] = join(&s, "j", HD_SWITCH_MEMBERS_MAX, "more", COUNT);
	(void)net_aggregator(&s.net, "m0", 100 * MB);
	for (uint16_t i = 0; i <= HD_SWITCH_MEMBERS_MAX; i++)
		ask_of(&s, peers[i], 2, 1);
	assert_string_equal(job_of(&s)->why, "workers");
	assert_int_equal(reduce_sent_to(peers[0])->round, 2);
	assert_int_equal(reduce_sent_to(peers[0])->slots, 0);
	net_close(&s.net);
}

static void test_tables(void **state) {
	const char *error = NULL;
	struct scene s;
	char *json;

	(void)state;
	open_scene(&s);
	ask_all(&s, 1, 1);
	json = hd_controller_table(s.net.controller, "leases", "state=asked", &error);
	assert_non_null(strstr(json, "\"switch\":\"s1\""));
	free(json);
	grant(&s);
	json = hd_controller_table(s.net.controller, "leases", "state=busy", &error);
	assert_non_null(strstr(json, "\"members\":3"));
	free(json);
	json = hd_controller_table(s.net.controller, "switches", NULL, &error);
	assert_non_null(strstr(json, "\"slots\":4096,\"leased\":64,\"leases\":1"));
	free(json);
	s.avoid = 1;
	done_all(&s);
	ask_all(&s, 2, 1);
	json = hd_controller_table(s.net.controller, "leases", "why=avoided", &error);
	assert_non_null(strstr(json, "\"state\":\"idle\""));
	free(json);
	net_close(&s.net);
}

/* A switch's report about itself must make sense. */
static void test_hostile(void **state) {
	struct hd_message m;
	struct scene s;

	(void)state;
	open_scene(&s);
	s.at = net_peer(&s.net, HD_ROLE_SWITCH, "s2");
	m = registration(s.at, 4097);
	post(s.at, m);
	net_run(&s.net, HD_MS);
	assert_non_null(strstr(s.at->refused, "HD_SWITCH_SLOTS"));
	m = registration(s.at, 64);
	m.register_.count_min = 33;
	m.register_.count_max = 32;
	post(s.at, m);
	net_run(&s.net, HD_MS);
	assert_non_null(strstr(s.at->refused, "count_min"));
	m = registration(s.at, 64);
	m.register_.dtypes = 1 << HD_DTYPE_FP16;
	post(s.at, m);
	net_run(&s.net, HD_MS);
	assert_non_null(strstr(s.at->refused, "dtypes"));
	assert_int_equal(counters(&s.net)->register_refused, 3);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stands_still),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_small_chunks),
		cmocka_unit_test(test_two_jobs),
		cmocka_unit_test(test_between_rounds),
		cmocka_unit_test(test_no_pause),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_review),
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_most_members),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
