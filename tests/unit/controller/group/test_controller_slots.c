/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums that a switch makes, at the controller, by messages: when their leases are over. That is with the sum, or when
 * the replica needs no more of it, HD_SUM_TAIL_US after the sum at the latest. All but the controller are fakes.
 */
#include "ctl_base.h"
#include "group_peers.h"
#include "hd_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SLOTS 4096
#define COUNT 352 /* values of a chunk */
#define TAIL (HD_SUM_TAIL_US * HD_US)
#define MEMBERS (WORKERS - 1) /* the first push goes alone */

struct stage {
	struct scene s; /* its aggregator is the switch */
	struct peer *replica; /* NULL: none */
	uint64_t lease, copy; /* of the newest sum; copy 0: none */
	uint16_t slots;
};

/* --- stage ------------------------------------------------------------------------------------ */

static void add_switch(struct stage *t) {
	struct peer *at = net_peer(&t->s.net, HD_ROLE_SWITCH, "s1");
	struct hd_message m = net_register_server(at);

	m.register_.role = HD_ROLE_SWITCH;
	m.register_.slots = SLOTS;
	m.register_.count_min = 1;
	m.register_.count_max = 2224;
	m.register_.dtypes = 1 << HD_DTYPE_FIXED32;
	post(at, m);
	t->s.aggregator = at;
}

static void add_worker(struct stage *t, uint16_t rank) {
	struct hd_message m;
	struct peer *peer;
	char host[8];

	(void)snprintf(host, sizeof host, "h%u", rank + 1U);
	peer = t->s.workers[rank] = net_peer(&t->s.net, HD_ROLE_WORKER, host);
	peer->worker = rank;
	(void)snprintf(peer->tenant, sizeof peer->tenant, "t");
	(void)snprintf(peer->job, sizeof peer->job, "j");
	m = net_register_worker(peer, 64, 1);
	m.register_.count_max = COUNT;
	m.register_.dtypes = 1 << HD_DTYPE_FIXED32;
	post(peer, m);
}

static void open_stage(struct stage *t, bool replica) {
	struct net_config config = net_plain;

	config.topology
		= "{\"hosts\": [\"ps\", \"rp\", \"h1\", \"h2\", \"h3\", \"h4\", \"h5\", \"h6\"], "
		  "\"switches\": [\"s1\"], \"links\": [[\"ps\", \"s1\"], [\"rp\", \"s1\"], "
		  "[\"h1\", \"s1\"], [\"h2\", \"s1\"], [\"h3\", \"s1\"], [\"h4\", \"s1\"], "
		  "[\"h5\", \"s1\"], [\"h6\", \"s1\"]]}";
	memset(t, 0, sizeof *t);
	net_open(&t->s.net, &config);
	t->s.server = net_server(&t->s.net, "ps");
	add_switch(t);
	if (replica)
		t->replica = add_replica(&t->s);
	for (uint16_t rank = 0; rank < WORKERS; rank++)
		add_worker(t, rank);
	net_run(&t->s.net, HD_SECOND);
	send_begun(&t->s);
	if (replica)
		send_follow(&t->s, t->replica, HD_FOLLOW_CAUGHT_UP);
}

/* The switch's message of the newest lease. */
static const struct hd_msg_slots *leased(const struct stage *t) {
	const struct hd_message *m = peer_last(t->s.aggregator, HD_MSG_SLOTS);

	assert_non_null(m);
	return &m->slots;
}

/* The lease is in force. */
static void grant(struct stage *t) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = leased(t)->job;
	m.report.token = leased(t)->lease;
	m.report.outcome = HD_OUTCOME_APPLIED;
	m.report.base = leased(t)->waits;
	post(t->s.aggregator, m);
	net_run(&t->s.net, HD_MS);
}

/* All workers push. The first goes alone; all others are one sum, for which they were granted their positions. */
static void begin_sum(struct stage *t) {
	const struct hd_blob *receivers;

	for (uint16_t rank = 0; rank < WORKERS; rank++) {
		struct hd_message m = net_push(t->s.workers[rank], 1, MB, 0);

		m.request.dtype = HD_DTYPE_FIXED32;
		m.request.peak = 1;
		post(t->s.workers[rank], m);
	}
	net_run(&t->s.net, 5 * HD_MS);
	assert_non_null(peer_grant(t->s.workers[0], 0, 1));
	post(t->s.server, net_report(peer_grant(t->s.workers[0], 0, 1), 1, 80000000));
	net_run(&t->s.net, 5 * HD_MS);
	assert_int_equal(hd_group_count(&leased(t)->members, HD_GROUP_SEAT_BYTES), MEMBERS);
	receivers = &leased(t)->receivers;
	assert_int_equal(hd_group_count(receivers, HD_GROUP_RECEIVER_BYTES), t->replica ? 2 : 1);
	t->lease = leased(t)->lease;
	t->slots = leased(t)->slots;
	t->copy = t->replica ? hd_group_get_receiver(receivers, 1).token : 0;
	assert_null(peer_grant(t->s.workers[1], 1, 1));
	grant(t);
	for (uint16_t rank = 1; rank < WORKERS; rank++) {
		assert_non_null(peer_grant(t->s.workers[rank], rank, 1));
		assert_int_equal(peer_grant(t->s.workers[rank], rank, 1)->slots, t->slots);
	}
}

/* The server has the sum, and the controller knows. */
static void apply(struct stage *t) {
	end_sum(&t->s, newest_members(&t->s), HD_OUTCOME_APPLIED, 1 + MEMBERS);
	net_run(&t->s.net, NET_LATENCY);
	assert_int_equal(counters(&t->s.net)->sums, 1);
	assert_int_equal(t->s.net.controller->group_count, 0);
}

static void open_sum(struct stage *t, bool replica) {
	open_stage(t, replica);
	begin_sum(t);
	apply(t);
}

/* In force: the switch was notified of no end, and no other job gets its slots; they are still the job's. */
static void expect_kept(struct stage *t) {
	const struct hd_controller *c = t->s.net.controller;
	const struct ctl_slots_over *over = TAILQ_FIRST(&c->slots_over);
	uint8_t reason;

	assert_false(has_void(t->s.aggregator, t->lease, &reason));
	assert_non_null(over);
	assert_int_equal(ctl_slots_leased(c, over->node, NULL), t->slots);
	assert_int_equal(ctl_slots_leased(c, over->node, c->jobs[0]), t->slots);
}

/* Over, as the switch knows within a packet's time. */
static void expect_over(struct stage *t) {
	const struct hd_controller *c = t->s.net.controller;
	uint32_t leases, slots;
	uint8_t reason;

	net_run(&t->s.net, NET_LATENCY);
	assert_true(has_void(t->s.aggregator, t->lease, &reason));
	assert_int_equal(reason, HD_REASON_CLOSED);
	assert_int_equal(peer_count(t->s.aggregator, HD_MSG_VOID), 1);
	assert_true(TAILQ_EMPTY(&c->slots_over));
	ctl_slots_of(c, c->jobs[0], &leases, &slots);
	assert_int_equal(leases, 0);
	assert_int_equal(slots, 0);
}

/* --- the tail --------------------------------------------------------------------------------- */

static void test_without_replica(void **state) {
	struct stage t;

	(void)state;
	open_sum(&t, false);
	expect_over(&t);
	net_close(&t.s.net);
}

/* The replica says nothing: the lease is kept for the whole tail, and not a moment longer, whatever is open. */
static void test_silent(void **state) {
	struct stage t;

	(void)state;
	open_sum(&t, true);
	net_run(&t.s.net, TAIL - 1);
	expect_kept(&t);
	net_run(&t.s.net, 1);
	assert_non_null(ctl_transfer_by_token(t.s.net.controller, t.copy));
	expect_over(&t);
	net_close(&t.s.net);
}

/* It has its copy, or gives it up: the slots are not needed any more. */
static void test_reported(void **state) {
	static const uint8_t outcomes[] = {HD_OUTCOME_APPLIED, HD_OUTCOME_FAILED};
	struct stage t;

	(void)state;
	for (size_t i = 0; i < sizeof outcomes; i++) {
		open_sum(&t, true);
		net_run(&t.s.net, TAIL / 2);
		expect_kept(&t);
		send_copy(&t.s, t.replica, t.copy, outcomes[i]);
		expect_over(&t);
		/* The end of the tail says nothing more. */
		net_run(&t.s.net, TAIL);
		expect_over(&t);
		net_close(&t.s.net);
	}
}

/* It had its copy before the server had the sum. */
static void test_reported_before(void **state) {
	uint8_t reason;
	struct stage t;

	(void)state;
	open_stage(&t, true);
	begin_sum(&t);
	send_copy(&t.s, t.replica, t.copy, HD_OUTCOME_APPLIED);
	assert_false(has_void(t.s.aggregator, t.lease, &reason));
	apply(&t);
	expect_over(&t);
	net_close(&t.s.net);
}

/* The replica is gone, which shows before the tail is over. */
static void test_replica_dies(void **state) {
	struct stage t;
	hd_ns until;

	(void)state;
	open_sum(&t, true);
	until = t.s.net.now + TAIL;
	t.replica->cut = true;
	while (ctl_transfer_by_token(t.s.net.controller, t.copy)) {
		expect_kept(&t);
		net_run(&t.s.net, HD_MS);
	}
	assert_true(t.s.net.now < until);
	expect_over(&t);
	net_close(&t.s.net);
}

/* The switch is gone, and its leases with it: it is not notified when the tail is over. */
static void test_switch_dies(void **state) {
	struct stage t;
	uint8_t reason;

	(void)state;
	open_sum(&t, true);
	t.s.aggregator->cut = true;
	net_run(&t.s.net, 3 * TAIL / 4);
	assert_true(TAILQ_EMPTY(&t.s.net.controller->slots_over));
	assert_non_null(ctl_transfer_by_token(t.s.net.controller, t.copy));
	net_run(&t.s.net, TAIL);
	assert_false(has_void(t.s.aggregator, t.lease, &reason));
	net_close(&t.s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_replica),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_reported),
		cmocka_unit_test(test_reported_before),
		cmocka_unit_test(test_replica_dies),
		cmocka_unit_test(test_switch_dies),
	};

	return cmocka_run_group_tests_name("controller-slots", tests, NULL, NULL);
}
