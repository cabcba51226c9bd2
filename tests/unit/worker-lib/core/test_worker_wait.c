/* SPDX-License-Identifier: BSD-3-Clause */
/* A controller, or a server, to which more workers come at once than it admits says when to ask again: it is alive, and
 * no worker falls back to direct transfers. */
#include "worker_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Its first JOIN, or REGISTER, is answered by that; the next one as usual. */
static void put_off(struct world *world, struct peer *busy, uint32_t wait_us) {
	struct hd_message message = {.kind = HD_MSG_WAIT, .wait = {.wait_us = wait_us}};
	const struct hd_message *asked = peer_last(&world->controller, HD_MSG_REGISTER);

	message.wait.job = asked->register_.job;
	message.wait.worker = asked->register_.worker;
	assert_int_equal(peer_send(busy, &message), 0);
	busy->rank_held = false;
}

static struct world *build_busy(bool by_server, uint32_t wait_us) {
	struct hd_worker_config config = {.fallback_us = 400000};
	struct world *world;
	struct peer *busy;

	config.server = hd_sim_address(0, HD_PORT);
	world = build(SCHEDULED, &config);
	busy = by_server ? &world->server : &world->controller;
	busy->rank_held = true; /* so that it admits none */
	run_ms(world, 20);
	put_off(world, busy, wait_us);
	return world;
}

static void waits_as_asked(bool by_server) {
	const uint8_t kind = by_server ? HD_MSG_JOIN : HD_MSG_REGISTER;
	struct world *world = build_busy(by_server, 2000000);
	struct peer *busy = by_server ? &world->server : &world->controller;

	run_ms(world, 1990);
	assert_int_equal(world->joined, 0);
	assert_int_equal(peer_count(busy, kind), 1);
	run_ms(world, 100);
	assert_int_equal(world->joined, 1);
	assert_int_equal(peer_count(busy, kind), 2);
	assert_int_equal(hd_worker_stats(world->worker)->fallbacks, 0);
	assert_int_equal(world->refused, 0);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_true(world->ticket[HD_PUSH][1].granted);
	destroy(world);
}

static void test_notified_to_wait(void **state) {
	waits_as_asked(false);
	waits_as_asked(true);
}

/* It says so, and is gone: that ends with its session. */
static void test_gone_while_waiting(void **state) {
	struct world *world = build_busy(false, 60000000);

	peer_stop(&world->controller);
	run_ms(world, 700);
	assert_int_equal(world->joined, 0);
	run_ms(world, 600);
	assert_int_equal(world->joined, 1);
	assert_int_equal(hd_worker_stats(world->worker)->fallbacks, 1);
	destroy(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_notified_to_wait),
		cmocka_unit_test(test_gone_while_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
