/* SPDX-License-Identifier: BSD-3-Clause */
/* Credits at the worker: what goes without asking, and what asks after all. */
#include "worker_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES (UINT64_C(4) * VALUES)
#define TOKEN 7000

static const struct hd_worker_config plain;

static struct world *joined(void) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	assert_int_equal(world->joined, 1);
	return world;
}

static struct hd_message credit_of(const struct world *world, uint32_t round) {
	struct hd_message m = {.kind = HD_MSG_CREDIT};

	m.credit = (struct hd_msg_credit){
		.job = peer_last(&world->controller, HD_MSG_REGISTER)->register_.job,
		.worker = 3,
		.round = round,
		.attempt = 1,
		.epoch = 1,
		.token = TOKEN + round,
		.position = 40 + round,
		.weight = 1,
		.bytes = BYTES,
		.pull_bytes = BYTES,
		.expires_us = 500000,
	};
	return m;
}

/* To the server, then to the worker. */
static void give(struct world *world, uint32_t round) {
	struct hd_message m = credit_of(world, round);
	struct hd_msg_request request = {
		.job = m.credit.job,
		.worker = 3,
		.round = round,
		.attempt = 1,
		.bytes = BYTES,
	};

	peer_expect(&world->server, m.credit.token, &request);
	assert_true(peer_send(&world->controller, &m) >= 0);
	run_ms(world, 5);
}

static uint32_t asked(const struct world *world) {
	return peer_count(&world->controller, HD_MSG_REQUEST)
		+ peer_count(&world->server, HD_MSG_REQUEST);
}

static void test_goes_at_once(void **state) {
	struct world *world = joined();
	const struct hd_worker_stats *stats = hd_worker_stats(world->worker);

	give(world, 1);
	assert_int_equal(push(world, 0, hd_version_make(1, 9)), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_true(world->ticket[HD_PUSH][1].granted);
	assert_int_equal(asked(world), 0);
	assert_int_equal(world->server.chunk.token, TOKEN + 1);
	assert_int_equal(world->server.chunk.total, BYTES);
	assert_int_equal(world->server.chunk.version, hd_version_make(1, 9));
	assert_int_equal(world->server.chunk.attempt, 1);
	assert_memory_equal(world->server.model, world->data[0], BYTES);
	assert_int_equal(stats->credited_bytes, BYTES);
	assert_int_equal(stats->granted_bytes, BYTES);
	assert_int_equal(stats->direct_bytes, 0);
	/* The next one has none. */
	assert_int_equal(push(world, 1, 1), 2);
	run_ms(world, 100);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 1);
	assert_int_equal(world->server.chunk.total, 0);
	assert_int_equal(stats->credited_bytes, BYTES);
	check_sums(world, 0);
	destroy(world);
}

static void test_one_pull(void **state) {
	struct world *world = joined();
	const struct hd_msg_report *report;

	give(world, 1);
	assert_int_equal(pull(world, 3, 0, false), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
	assert_true(world->ticket[HD_PULL][1].granted);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 1);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 0);
	report = &peer_last(&world->controller, HD_MSG_REPORT)->report;
	assert_int_equal(report->credited, 1);
	assert_int_equal(report->direction, HD_PULL);
	assert_int_equal(report->bytes, BYTES);
	/* One. The push is as it was. */
	assert_int_equal(pull(world, 3, 0, false), 2);
	run_ms(world, 100);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 1);
	assert_int_equal(peer_last(&world->controller, HD_MSG_REPORT)->report.credited, 0);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 1);
	assert_int_equal(hd_worker_stats(world->worker)->credited_bytes, 2 * BYTES);
	destroy(world);
}

/* A credit of a pull alone, before anything is known of pushes. */
static void test_pull_alone(void **state) {
	struct world *world = joined();
	struct hd_message m = credit_of(world, 0);

	m.credit.token = m.credit.position = m.credit.bytes = 0;
	m.credit.attempt = 0;
	m.credit.weight = 0;
	assert_true(peer_send(&world->controller, &m) >= 0);
	run_ms(world, 5);
	assert_int_equal(pull(world, 3, 0, false), 1);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 1);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 1);
	assert_int_equal(hd_worker_stats(world->worker)->late_messages, 0);
	/* And one that takes it back. */
	assert_true(peer_send(&world->controller, &m) >= 0);
	m.credit.pull_bytes = 0;
	assert_true(peer_send(&world->controller, &m) >= 0);
	run_ms(world, 5);
	assert_int_equal(pull(world, 3, 0, false), 2);
	run_ms(world, 100);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 1);
	destroy(world);
}

/* Pushes round 1, whose credit does not help, and says how often it was asked for. */
static uint32_t asks(struct world *world, struct hd_message credit) {
	uint32_t count;

	assert_true(peer_send(&world->controller, &credit) >= 0);
	run_ms(world, 5);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(hd_worker_stats(world->worker)->credited_bytes, 0);
	count = peer_count(&world->controller, HD_MSG_REQUEST);
	destroy(world);
	return count;
}

static void test_asks_after_all(void **state) {
	struct world *world;
	struct hd_message m;

#define ASKS(change)                                                                               \
	do {                                                                                       \
		world = joined();                                                                  \
		m = credit_of(world, 1);                                                           \
		change;                                                                            \
		assert_int_equal(asks(world, m), 1);                                               \
	} while (0)
	ASKS(m.credit.bytes = BYTES - 1);
	ASKS(m.credit.round = 2);
	ASKS(m.credit.job++);
	ASKS(m.credit.worker++);
	ASKS(m.credit.weight = 0);
	ASKS(m.credit.weight = (float)strtod("nan", NULL));
	ASKS(m.credit.expires_us = 1000);
#undef ASKS
}

static void send_void(struct world *world, struct peer *peer, uint64_t token) {
	struct hd_message m = {.kind = HD_MSG_VOID};

	m.void_.job = peer_last(&world->controller, HD_MSG_REGISTER)->register_.job;
	m.void_.token = token;
	m.void_.reason = HD_REASON_EXPIRED;
	assert_true(peer_send(peer, &m) >= 0);
	run_ms(world, 5);
}

static void test_taken_back(void **state) {
	struct world *world = joined();

	give(world, 1);
	send_void(world, &world->server, TOKEN + 1);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 1);
	/* By the controller, which has lost the server. */
	give(world, 2);
	send_void(world, &world->controller, TOKEN + 2);
	assert_int_equal(push(world, 0, 1), 2);
	run_ms(world, 100);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 2);
	/* The server's word is faster than the controller's credit. */
	send_void(world, &world->server, TOKEN + 3);
	give(world, 3);
	assert_int_equal(push(world, 0, 1), 3);
	run_ms(world, 100);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 3);
	assert_int_equal(hd_worker_stats(world->worker)->credited_bytes, 0);
	destroy(world);
}

/* Spent in the last moment: the server has given it up, and says so. The round may be in the model for all that
 * the controller knows, so the server is asked. */
static void test_spent_too_late(void **state) {
	struct world *world = joined();
	struct hd_message m = credit_of(world, 1);

	assert_true(peer_send(&world->controller, &m) >= 0);
	run_ms(world, 5);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 5);
	assert_int_equal(asked(world), 0);
	send_void(world, &world->server, TOKEN + 1);
	run_ms(world, 100);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 0);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 1);
	assert_int_equal(peer_last(&world->server, HD_MSG_REQUEST)->request.attempt, 2);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->server.applied[1], 1);
	assert_int_equal(hd_worker_stats(world->worker)->credited_bytes, 0);
	destroy(world);
}

/* The controller that gave it, or the server that was notified of it, has forgotten it. */
static void test_sessions_end_it(void **state) {
	struct world *world = joined();

	give(world, 1);
	peer_stop(&world->controller);
	peer_start(&world->controller);
	run_ms(world, 300);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_true(asked(world) > 0);
	assert_int_equal(hd_worker_stats(world->worker)->credited_bytes, 0);
	give(world, 2);
	peer_stop(&world->server);
	peer_start(&world->server);
	run_ms(world, 300);
	assert_int_equal(push(world, 0, 1), 2);
	run_ms(world, 300);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	assert_int_equal(hd_worker_stats(world->worker)->credited_bytes, 0);
	check_sums(world, 0);
	destroy(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_goes_at_once),
		cmocka_unit_test(test_one_pull),
		cmocka_unit_test(test_pull_alone),
		cmocka_unit_test(test_asks_after_all),
		cmocka_unit_test(test_taken_back),
		cmocka_unit_test(test_spent_too_late),
		cmocka_unit_test(test_sessions_end_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
