/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous jobs at the controller, by messages: who may send, who takes a place that is free again, who never
 * sends. */
#include "controller_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS 4

struct stage {
	struct net net;
	struct peer *server, *worker[WORKERS];
};

static void open_stage(struct stage *s, uint8_t sync, uint32_t count) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, &net_plain);
	s->server = net_server(&s->net, "ps");
	for (uint16_t i = 0; i < WORKERS; i++) {
		struct hd_message message;
		char host[16];

		(void)snprintf(host, sizeof host, "h%u", i + 1u);
		s->worker[i] = net_peer(&s->net, HD_ROLE_WORKER, host);
		s->worker[i]->worker = i;
		(void)snprintf(s->worker[i]->tenant, sizeof s->worker[i]->tenant, "t");
		(void)snprintf(s->worker[i]->job, sizeof s->worker[i]->job, "j");
		net_run(&s->net, HD_MS);
		message = net_register_worker(s->worker[i], 1, 0);
		message.register_.sync = sync;
		message.register_.sync_count = count;
		post(s->worker[i], message);
	}
	net_run(&s->net, SETTLED);
}

static bool granted(const struct stage *s, uint16_t worker, uint32_t round) {
	return peer_grant(s->worker[worker], worker, round);
}

static void ask(struct stage *s, uint16_t worker, uint32_t round, uint64_t base) {
	post(s->worker[worker], net_push(s->worker[worker], round, MB, base));
	net_run(&s->net, HD_MS);
}

/* The server holds the push whole; or it has been applied, which makes that version. */
static void report(struct stage *s, uint16_t worker, uint32_t round, uint64_t version) {
	const struct hd_msg_grant *grant = peer_grant(s->worker[worker], worker, round);
	struct hd_message message = net_report(grant, version, 0);

	if (version == 0)
		message.report.outcome = HD_OUTCOME_PENDING;
	post(s->server, message);
	net_run(&s->net, HD_MS);
}

/* Two of four: the first to ask; the others never send. */
static void test_first_to_ask(void **state) {
	const struct hd_msg_drop *drop;
	struct stage s;

	(void)state;
	open_stage(&s, HD_SYNC_N, 2);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, (uint16_t)(WORKERS - 1 - i), 1, 0);
	net_run(&s.net, HD_SECOND);
	assert_true(granted(&s, 3, 1) && granted(&s, 2, 1));
	assert_false(granted(&s, 1, 1) || granted(&s, 0, 1));
	report(&s, 3, 1, 0);
	net_run(&s.net, HD_SECOND);
	assert_false(granted(&s, 1, 1)); /* held is not void */
	report(&s, 3, 1, 1);
	report(&s, 2, 1, 2);
	for (uint16_t i = 0; i < 2; i++) {
		drop = &peer_last(s.worker[i], HD_MSG_DROP)->drop;
		assert_int_equal(drop->reason, HD_REASON_LATE);
		assert_int_equal(drop->round, 1);
		assert_false(granted(&s, i, 1));
	}
	/* On the new version there is room again. */
	ask(&s, 0, 2, 2);
	assert_true(granted(&s, 0, 2));
	assert_null(peer_last(s.worker[0], HD_MSG_CREDIT));
	net_close(&s.net);
}

/* One that was granted dies: the next takes its place. */
static void test_place_is_taken(void **state) {
	struct stage s;

	(void)state;
	open_stage(&s, HD_SYNC_N_BATCH, 1);
	ask(&s, 0, 1, 0);
	ask(&s, 1, 1, 0);
	net_run(&s.net, HD_SECOND / 2);
	assert_true(granted(&s, 0, 1));
	assert_false(granted(&s, 1, 1));
	s.worker[0]->cut = true;
	net_run(&s.net, HD_DETECTION_US * HD_US);
	assert_true(granted(&s, 1, 1));
	net_close(&s.net);
}

/* A step of all has room for all, whatever tau_max says. */
static void test_all(void **state) {
	struct stage s;

	(void)state;
	open_stage(&s, HD_SYNC_ALL, 0);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 0);
	net_run(&s.net, HD_SECOND);
	for (uint16_t i = 0; i < WORKERS; i++)
		report(&s, i, 1, 0);
	net_run(&s.net, HD_SECOND);
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_true(granted(&s, i, 1));
		assert_int_equal(peer_count(s.worker[i], HD_MSG_DROP), 0);
	}
	net_close(&s.net);
}

/* A worker that describes another kind of job is refused, in words. */
static void test_refused(void **state) {
	struct hd_message message;
	struct stage s;

	(void)state;
	open_stage(&s, HD_SYNC_N, 2);
	peer_restart(s.worker[3]);
	net_run(&s.net, HD_MS);
	message = net_register_worker(s.worker[3], 1, 0);
	message.register_.sync = HD_SYNC_N;
	message.register_.sync_count = 3;
	post(s.worker[3], message);
	net_run(&s.net, HD_MS);
	assert_string_equal(s.worker[3]->refused, "sync: nsync 3, the job has nsync 2");
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_to_ask),
		cmocka_unit_test(test_place_is_taken),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
