/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a worker's pushes and pulls take: what is counted, and how much of it. */
#include "hd_worker_times.h"
#include "worker_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define BYTES (UINT64_C(4) * VALUES)
#define TOKEN 7000
#define PATHS_MS 2 /* more than the network takes there and back */

static struct world *joined(void) {
	struct world *world = build(SCHEDULED, &(struct hd_worker_config){0});

	run_ms(world, 20);
	assert_int_equal(world->joined, 1);
	return world;
}

/* Expects `count` times, the newest of which made the sum grow from *sum by `ms`. */
static void
expect(const struct hd_histogram *histogram, uint64_t count, uint64_t *sum, uint64_t ms) {
	assert_int_equal(histogram->count, count);
	assert_in_range(histogram->sum - *sum, ms * HD_MS, (ms + PATHS_MS) * HD_MS);
	*sum = histogram->sum;
}

/* The controller answers 30 ms later; the server holds the update up for 10 ms. */
static void push_later(struct world *world, int which, uint64_t token) {
	struct hd_msg_request request;

	world->controller.silent = world->server.no_outcome = true;
	assert_true(push(world, which, hd_version_make(1, 9)) > 0);
	run_ms(world, 30);
	request = peer_last(&world->controller, HD_MSG_REQUEST)->request;
	peer_expect(&world->server, token, &request);
	peer_grant(&world->controller, &request, token);
	run_ms(world, 10);
	peer_outcome(&world->server, request.round, HD_OUTCOME_APPLIED, 0);
	run_ms(world, 5);
	world->controller.silent = world->server.no_outcome = false;
}

static void test_push(void **state) {
	struct world *world = joined();
	const struct hd_worker_times *times = hd_worker_times(world->worker, HD_PUSH);
	uint64_t grant = 0, first = 0, whole = 0;

	(void)state;
	push_later(world, 0, TOKEN);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	expect(&times->grant_wait, 1, &grant, 30);
	expect(&times->first_chunk, 1, &first, 0);
	expect(&times->whole, 1, &whole, 40);
	/* Told to come after another: at least 5 ms for its go, and a second at most. */
	world->controller.after = 99;
	assert_int_equal(push(world, 1, hd_version_make(1, 9)), 2);
	run_ms(world, 1500);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	expect(&times->grant_wait, 2, &grant, 0);
	assert_in_range(times->first_chunk.sum - first, 5 * HD_MS, 1300 * HD_MS);
	assert_int_equal(times->first_chunk.count, 2);
	assert_int_equal(times->whole.count, 2);
	/* For a dropped push only the request is counted. */
	world->controller.after = 0;
	world->controller.drop_reason = HD_REASON_BOUND;
	assert_int_equal(push(world, 2, hd_version_make(1, 9)), 3);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][3].state, HD_TICKET_DROPPED);
	assert_int_equal(times->grant_wait.count, 2);
	assert_int_equal(times->whole.count, 2);
	assert_int_equal(hd_worker_times(world->worker, HD_PULL)->whole.count, 0);
	destroy(world);
}

/* There is no wait for the grant of a push that was granted in advance. */
static void test_credit(void **state) {
	struct world *world = joined();
	const struct hd_worker_times *times = hd_worker_times(world->worker, HD_PUSH);
	struct hd_message m = {.kind = HD_MSG_CREDIT};
	struct hd_msg_request request = {.worker = 3, .round = 1, .attempt = 1, .bytes = BYTES};

	(void)state;
	m.credit = (struct hd_msg_credit){
		.job = peer_last(&world->controller, HD_MSG_REGISTER)->register_.job,
		.worker = 3,
		.round = 1,
		.attempt = 1,
		.epoch = 1,
		.token = TOKEN,
		.position = 41,
		.weight = 1,
		.bytes = BYTES,
		.expires_us = 500000,
	};
	request.job = m.credit.job;
	peer_expect(&world->server, TOKEN, &request);
	assert_int_equal(peer_send(&world->controller, &m), 0);
	run_ms(world, 5);
	assert_int_equal(push(world, 0, hd_version_make(1, 9)), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(times->grant_wait.count, 0);
	assert_int_equal(times->first_chunk.count, 0);
	assert_int_equal(times->whole.count, 1);
	destroy(world);
}

/* The word that it comes, then the server's chunks. One that is not answered for a while counts its wait. */
static void test_pull(void **state) {
	struct world *world = joined();
	const struct hd_worker_times *times = hd_worker_times(world->worker, HD_PULL);
	uint64_t grant = 0, first = 0, whole = 0;
	struct hd_msg_request request;

	(void)state;
	assert_int_equal(pull(world, 0, 0, false), 1);
	run_ms(world, 50);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
	expect(&times->grant_wait, 1, &grant, 0);
	expect(&times->first_chunk, 1, &first, 0);
	assert_int_equal(times->whole.count, 1);
	whole = times->whole.sum;
	world->controller.silent = true;
	assert_int_equal(pull(world, 1, 0, false), 2);
	run_ms(world, 60);
	request = peer_last(&world->controller, HD_MSG_REQUEST)->request;
	peer_serve(&world->server, TOKEN, &request);
	run_ms(world, 50);
	assert_int_equal(world->ticket[HD_PULL][2].state, HD_TICKET_APPLIED);
	expect(&times->grant_wait, 2, &grant, 60);
	expect(&times->first_chunk, 2, &first, 0);
	assert_in_range(times->whole.sum - whole, 60 * HD_MS, 80 * HD_MS);
	/* Nothing newer: it waited for the word, and had nothing. */
	world->controller.silent = false;
	assert_int_equal(pull(world, 1, world->server.version, true), 3);
	run_ms(world, 50);
	assert_int_equal(world->ticket[HD_PULL][3].state, HD_TICKET_DROPPED);
	assert_int_equal(times->whole.count, 2);
	assert_int_equal(hd_worker_times(world->worker, HD_PUSH)->whole.count, 0);
	destroy(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_push),
		cmocka_unit_test(test_credit),
		cmocka_unit_test(test_pull),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
