/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes with one rank, on two hosts: the first stays, as long as it lives and was not told to leave. */
#include "controller_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DETECTION (HD_DETECTION_US * HD_US)
#define AGAIN (250 * HD_MS) /* a worker asks again */

struct fixture {
	struct net net;
	struct peer *server, *older, *newer;
};

static void open_fixture(struct fixture *f) {
	*f = (struct fixture){0};
	net_open(&f->net, &net_plain);
	f->server = net_server(&f->net, "ps");
	f->older = net_worker(&f->net, "t", "j", 0, 8);
	net_run(&f->net, SETTLED);
}

static uint8_t refusal(const struct peer *peer) {
	const struct hd_message *m = peer_last(peer, HD_MSG_REFUSE);

	return m ? m->refuse.reason : HD_REASON_NONE;
}

static bool has_rank(const struct peer *peer) {
	return peer_count(peer, HD_MSG_REGISTERED) > 0;
}

/* The newcomer asks again until it has an answer that is final; returns after how long. */
static hd_ns insist(struct fixture *f) {
	hd_ns from = f->net.now;

	while (!has_rank(f->newer) && refusal(f->newer) != HD_REASON_REFUSED) {
		assert_true(f->net.now - from < 4 * DETECTION);
		net_run(&f->net, AGAIN);
		post(f->newer, net_register_worker(f->newer, 8, 1));
		net_run(&f->net, HD_MS);
	}
	return f->net.now - from;
}

/* Both are alive, by mistake: the newer one is refused with the reason; the older one goes on. */
static void test_alive(void **state) {
	struct fixture f;

	(void)state;
	open_fixture(&f);
	f.newer = net_worker(&f.net, "t", "j", 0, 8);
	assert_int_equal(refusal(f.newer), HD_REASON_RANK_HELD);
	assert_string_equal(f.newer->refused, "worker: rank 0 of job j is alive on host h1");
	post(f.older, net_push(f.older, 1, MB, 0));
	net_run(&f.net, HD_MS);
	assert_non_null(peer_grant(f.older, 0, 1));
	assert_true(insist(&f) >= 2 * DETECTION);
	assert_int_equal(refusal(f.newer), HD_REASON_REFUSED);
	assert_int_equal(peer_count(f.server, HD_MSG_VOID), 0);
	assert_int_equal(peer_count(f.older, HD_MSG_REFUSE), 0);
	assert_int_equal(f.net.controller->jobs[0]->worker_count, 1);
	assert_int_equal(counters(&f.net)->rank_held, peer_count(f.newer, HD_MSG_REFUSE));
	net_close(&f.net);
}

/* Its host is gone: the rank is the newcomer's when that counts as silent. */
static void test_dead(void **state) {
	struct fixture f;

	(void)state;
	open_fixture(&f);
	f.older->cut = true;
	f.newer = net_worker(&f.net, "t", "j", 0, 8);
	assert_int_equal(refusal(f.newer), HD_REASON_RANK_HELD);
	assert_true(insist(&f) <= DETECTION + 2 * AGAIN);
	assert_true(has_rank(f.newer));
	post(f.newer, net_push(f.newer, 1, MB, 0));
	net_run(&f.net, HD_MS);
	assert_non_null(peer_grant(f.newer, 0, 1));
	/* It comes back: now it is the one that waits, and the newcomer stays. */
	f.older->cut = false;
	net_run(&f.net, DETECTION);
	post(f.older, net_register_worker(f.older, 8, 1));
	net_run(&f.net, HD_MS);
	assert_int_equal(refusal(f.older), HD_REASON_RANK_HELD);
	assert_int_equal(
		peer_count(f.newer, HD_MSG_REFUSE), 1 + (uint32_t)counters(&f.net)->rank_held - 2
	);
	net_close(&f.net);
}

/* It knows that it must leave: its successor need not wait. */
static void test_has_notice(void **state) {
	struct hd_message notice = {.kind = HD_MSG_NOTICE};
	struct fixture f;

	(void)state;
	open_fixture(&f);
	notice.notice.job = net_job(f.older);
	notice.notice.left_us = 2000000;
	post(f.older, notice);
	net_run(&f.net, HD_MS);
	f.newer = net_worker(&f.net, "t", "j", 0, 8);
	assert_true(has_rank(f.newer));
	net_close(&f.net);
}

static void test_has_left(void **state) {
	struct hd_message leave = {.kind = HD_MSG_LEAVE};
	struct fixture f;

	(void)state;
	open_fixture(&f);
	leave.leave.job = net_job(f.older);
	leave.leave.reason = HD_REASON_LEFT;
	post(f.older, leave);
	net_run(&f.net, HD_MS);
	f.newer = net_worker(&f.net, "t", "j", 0, 8);
	assert_true(has_rank(f.newer));
	net_close(&f.net);
}

/* A wait that ended is not counted into the next one. */
static void test_waits_again(void **state) {
	struct fixture f;
	struct peer *third;

	(void)state;
	open_fixture(&f);
	f.older->cut = true;
	f.newer = net_worker(&f.net, "t", "j", 0, 8);
	insist(&f);
	assert_true(has_rank(f.newer));
	third = f.older;
	third->cut = false;
	net_run(&f.net, DETECTION);
	f.newer->cut = true;
	f.older = f.newer;
	f.newer = third;
	peer_forget(third);
	post(third, net_register_worker(third, 8, 1));
	assert_true(insist(&f) <= DETECTION + 2 * AGAIN);
	assert_true(has_rank(third));
	net_close(&f.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alive),
		cmocka_unit_test(test_dead),
		cmocka_unit_test(test_has_notice),
		cmocka_unit_test(test_has_left),
		cmocka_unit_test(test_waits_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
