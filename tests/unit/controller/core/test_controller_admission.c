/* SPDX-License-Identifier: BSD-3-Clause */
/* Many workers that come at one moment: each is told when its turn is, and is in then. */
#include "controller_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define MANY 150
#define LATER (MANY - HD_JOINS_BURST)

struct crowd {
	struct net net;
	struct peer *worker[MANY];
	hd_ns due[MANY]; /* when it asks again; HD_NEVER: it was not told to */
	uint32_t waits[MANY]; /* words that it was told so */
};

static void ask(struct crowd *f, int which) {
	f->due[which] = HD_NEVER;
	post(f->worker[which], net_register_worker(f->worker[which], 8, 1));
}

static void look(struct crowd *f, int which) {
	const struct hd_message *m = peer_last(f->worker[which], HD_MSG_WAIT);
	uint32_t waits = peer_count(f->worker[which], HD_MSG_WAIT);

	if (waits == f->waits[which])
		return;
	f->waits[which] = waits;
	assert_int_equal(m->wait.worker, which);
	assert_int_equal(m->wait.job, net_job(f->worker[which]));
	assert_in_range(m->wait.wait_us, 1, LATER * HD_JOIN_US + 1);
	f->due[which] = f->net.now + m->wait.wait_us * HD_US;
}

static uint32_t registered(const struct crowd *f) {
	uint32_t count = 0;

	for (int i = 0; i < MANY; i++)
		count += peer_count(f->worker[i], HD_MSG_REGISTERED) > 0;
	return count;
}

/* A millisecond: who is due asks again. */
static void turn(struct crowd *f) {
	for (int i = 0; i < MANY; i++)
		if (f->due[i] <= f->net.now)
			ask(f, i);
	net_run(&f->net, HD_MS);
	for (int i = 0; i < MANY; i++)
		look(f, i);
}

/* Their sessions are open; none has registered. */
static void open_crowd(struct crowd *f) {
	char host[16];

	*f = (struct crowd){0};
	net_open(&f->net, &net_plain);
	net_server(&f->net, "ps");
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(host, sizeof host, "h%d", i + 1);
		f->worker[i] = net_peer(&f->net, HD_ROLE_WORKER, host);
		f->worker[i]->worker = (uint16_t)i;
		(void)snprintf(f->worker[i]->job, sizeof f->worker[i]->job, "j");
		(void)snprintf(f->worker[i]->tenant, sizeof f->worker[i]->tenant, "t");
	}
	net_run(&f->net, SETTLED);
}

static void test_all_at_once(void **state) {
	static struct crowd f;

	(void)state;
	open_crowd(&f);
	for (int i = 0; i < MANY; i++)
		ask(&f, i);
	net_run(&f.net, HD_MS / 2);
	for (int i = 0; i < MANY; i++)
		look(&f, i);
	assert_int_equal(registered(&f), HD_JOINS_BURST);
	assert_int_equal(counters(&f.net)->joins_delayed, LATER);
	for (int ms = 0; ms < LATER / 2; ms++)
		turn(&f);
	assert_in_range(registered(&f), HD_JOINS_BURST + LATER / 2 - 3, HD_JOINS_BURST + LATER / 2);
	for (int ms = 0; ms < LATER / 2 + 3; ms++)
		turn(&f);
	assert_int_equal(registered(&f), MANY);
	/* No worker was notified twice. */
	assert_int_equal(counters(&f.net)->joins_delayed, LATER);
	assert_int_equal(f.net.controller->jobs[0]->worker_count, MANY);
	net_close(&f.net);
}

/* A worker that repeats its request too early is told the remaining time; the repeated request of a member is
 * answered. */
static void test_asks_too_early(void **state) {
	static struct crowd f;
	uint32_t first;

	(void)state;
	open_crowd(&f);
	for (int i = 0; i < MANY; i++)
		ask(&f, i);
	net_run(&f.net, HD_MS);
	first = peer_last(f.worker[MANY - 1], HD_MSG_WAIT)->wait.wait_us;
	net_run(&f.net, 20 * HD_MS);
	ask(&f, MANY - 1);
	ask(&f, 0);
	net_run(&f.net, HD_MS);
	assert_int_equal(peer_count(f.worker[0], HD_MSG_REGISTERED), 2);
	assert_int_equal(peer_count(f.worker[0], HD_MSG_WAIT), 0);
	assert_int_equal(peer_count(f.worker[MANY - 1], HD_MSG_WAIT), 2);
	assert_in_range(
		peer_last(f.worker[MANY - 1], HD_MSG_WAIT)->wait.wait_us,
		first - 22000,
		first - 20000
	);
	net_close(&f.net);
}

/* They are not new to a controller that is: it waits for all of them, and says nothing of who takes part before. */
static void test_after_a_restart(void **state) {
	static struct crowd f;
	struct net_config second = net_plain;

	(void)state;
	open_crowd(&f);
	second.epoch = 2;
	net_restart(&f.net, &second);
	for (uint32_t i = 0; i < f.net.peer_count; i++)
		peer_restart(&f.net.peers[i]);
	net_run(&f.net, 100 * HD_MS);
	post(&f.net.peers[0], net_register_server(&f.net.peers[0]));
	for (int i = 0; i < MANY; i++)
		ask(&f, i);
	net_run(&f.net, HD_SECOND);
	assert_int_equal(registered(&f), MANY);
	assert_int_equal(counters(&f.net)->joins_delayed, 0);
	net_close(&f.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_asks_too_early),
		cmocka_unit_test(test_after_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
