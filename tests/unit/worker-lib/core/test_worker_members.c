/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker core: rosters that it is told, and leaving in time when its machine is taken away. */
#include "worker_world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_worker_config plain;

static int notice(struct world *world, hd_ns left) {
	int rc = hd_worker_notice(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		left,
		hd_sim_node_sink(world->sim, world->node)
	);

	hd_sim_node_poke(world->sim, world->node);
	return rc;
}

static const struct hd_worker_stats *stats(const struct world *world) {
	return hd_worker_stats(world->worker);
}

/* A push in flight at the notice ends, and so does one that starts later. Then the worker leaves by itself, in time,
 * and both the sender of the notice and the server get LEAVE. */
static void test_flushes_and_leaves(void **state) {
	for (int direct = 0; direct < 2; direct++) {
		struct world *world = build(direct ? DIRECT : SCHEDULED, &plain);
		struct peer *notified = direct ? &world->server : &world->controller;

		run_ms(world, 20);
		assert_int_equal(push(world, 0, 1), 1);
		assert_int_equal(notice(world, 2 * HD_SECOND), 0);
		run_ms(world, 2);
		assert_int_equal(peer_count(notified, HD_MSG_NOTICE), 1);
		assert_in_range(
			peer_last(notified, HD_MSG_NOTICE)->notice.left_us, 1990000, 2000000
		);
		assert_int_equal(peer_last(notified, HD_MSG_NOTICE)->notice.worker, 3);
		assert_true(logged(world, HD_EVENT_NOTICE));
		run_ms(world, 1000);
		assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
		assert_int_equal(push(world, 1, 1), 2);
		assert_false(stats(world)->left);
		/* 2 s - 120 ms - 100 ms: that is the flush. */
		run_ms(world, 785);
		assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
		assert_int_equal(push(world, 2, 1), -ESHUTDOWN);
		run_ms(world, 180);
		assert_true(stats(world)->left);
		assert_int_equal(peer_count(&world->server, HD_MSG_LEAVE), 1);
		if (!direct)
			assert_int_equal(peer_count(&world->controller, HD_MSG_LEAVE), 1);
		assert_int_equal(world->server.applied[1] + world->server.applied[2], 2);
		check_sums(world, 0);
		assert_int_equal(stats(world)->failed, 0);
		destroy(world);
	}
}

/* Transfers that do not end in time fail before the end, and the worker leaves nevertheless. */
static void test_gives_up_in_time(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	world->controller.silent = true;
	assert_int_equal(push(world, 0, 1), 1);
	assert_int_equal(notice(world, HD_SECOND), 0);
	run_ms(world, 870);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_REQUESTED);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_FAILED);
	assert_int_equal(world->ticket[HD_PUSH][1].reason, HD_REASON_CANCELLED);
	run_ms(world, 70);
	assert_true(stats(world)->left);
	assert_int_equal(peer_count(&world->controller, HD_MSG_LEAVE), 1);
	check_sums(world, 0);
	destroy(world);
}

/* One that the server holds cannot be withdrawn, and its word does not come: nothing is known of it, and it leaves. */
static void test_leaves_without_an_answer(void **state) {
	struct world *world = build(DIRECT, &plain);

	run_ms(world, 20);
	world->server.no_outcome = true;
	assert_int_equal(push(world, 0, 1), 1);
	assert_int_equal(notice(world, HD_SECOND), 0);
	run_ms(world, 945);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_HELD);
	assert_int_equal(peer_count(&world->server, HD_MSG_LEAVE), 0);
	run_ms(world, 50);
	assert_true(stats(world)->left);
	assert_int_equal(peer_count(&world->server, HD_MSG_LEAVE), 1);
	assert_int_equal(world->ends[HD_PUSH][1], 0);
	check_sums(world, 1);
	destroy(world);
}

/* Slow pushes get a longer flush: twice what they took. */
static void test_flush_is_as_long_as_pushes_take(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	hd_ns now, left;

	run_ms(world, 20);
	world->server.no_outcome = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 400);
	peer_outcome(&world->server, 1, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	run_ms(world, 5);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(notice(world, 10 * HD_SECOND), 0);
	now = hd_sim_node_now(world->sim, world->node);
	left = hd_worker_flush_at(world->worker) - now;
	assert_in_range(left, 9000 * HD_MS, 9120 * HD_MS);
	destroy(world);
}

/* Shorter counts, longer does not; impossible ones are refused, also after the end. */
static void test_words(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	hd_ns at;

	run_ms(world, 20);
	assert_true(hd_worker_flush_at(world->worker) == HD_NEVER);
	assert_int_equal(notice(world, 0), -EINVAL);
	assert_int_equal(notice(world, HD_NOTICE_US_MAX * HD_US + 1), -EINVAL);
	assert_int_equal(notice(world, 3 * HD_SECOND), 0);
	at = hd_worker_flush_at(world->worker);
	assert_int_equal(notice(world, 5 * HD_SECOND), 0);
	assert_true(hd_worker_flush_at(world->worker) == at);
	assert_int_equal(notice(world, HD_SECOND), 0);
	assert_true(hd_worker_flush_at(world->worker) < at);
	run_ms(world, 1000);
	assert_true(stats(world)->left);
	assert_int_equal(notice(world, HD_SECOND), -ESHUTDOWN);
	destroy(world);
}

/* A new controller is notified too. */
static void test_said_again(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	assert_int_equal(notice(world, 10 * HD_SECOND), 0);
	run_ms(world, 5);
	peer_stop(&world->controller);
	run_ms(world, 300);
	peer_start(&world->controller);
	run_ms(world, 1500);
	assert_int_equal(peer_count(&world->controller, HD_MSG_NOTICE), 2);
	assert_in_range(
		peer_last(&world->controller, HD_MSG_NOTICE)->notice.left_us, 8000000, 9900000
	);
	destroy(world);
}

/* A notice of a time that is over nearly: it leaves at once. */
static void test_no_time(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	assert_int_equal(notice(world, 1), 0);
	run_ms(world, 30);
	assert_true(stats(world)->left);
	check_sums(world, 0);
	destroy(world);
}

/* --- rosters --- */

static void send_roster(struct peer *peer, uint64_t change, uint16_t count, const char *ranks) {
	struct hd_message message = {.kind = HD_MSG_ROSTER};

	message.roster.job = hd_job_id("t", "job");
	message.roster.change = change;
	message.roster.count = count;
	message.roster.scale = 1;
	message.roster.ranks = (struct hd_blob){(const uint8_t *)ranks, (uint32_t)strlen(ranks)};
	assert_int_equal(peer_send(peer, &message), 0);
}

static void test_roster(void **state) {
	for (int direct = 0; direct < 2; direct++) {
		struct world *world = build(direct ? DIRECT : SCHEDULED, &plain);
		struct peer *says = direct ? &world->server : &world->controller;
		const struct hd_roster *roster = hd_worker_roster(world->worker);
		uint64_t late;

		run_ms(world, 20);
		assert_int_equal(roster->change, 0);
		send_roster(says, 7, 2, "\x09");
		run_ms(world, 5);
		assert_int_equal(roster->change, 7);
		assert_int_equal(roster->count, 2);
		assert_true(hd_roster_has(roster, 0) && hd_roster_has(roster, 3));
		assert_int_equal(world->rosters, 1);
		send_roster(says, 7, 2, "\x09");
		run_ms(world, 5);
		assert_int_equal(world->rosters, 1);
		/* An invalid roster changes nothing. */
		late = stats(world)->late_messages;
		send_roster(says, 8, 3, "\x09");
		send_roster(says, 0, 2, "\x09");
		run_ms(world, 5);
		assert_int_equal(stats(world)->late_messages, late + 2);
		/* With a controller the server has no say. */
		if (!direct)
			send_roster(&world->server, 9, 1, "\x08");
		run_ms(world, 5);
		assert_int_equal(roster->change, 7);
		assert_int_equal(roster->count, 2);
		send_roster(says, 9, 1, "\x08");
		run_ms(world, 5);
		assert_int_equal(roster->change, 9);
		assert_int_equal(world->rosters, 2);
		destroy(world);
	}
}

/* Whether it observes, and whether its job's chunks carry a MAC, is said to the controller; also of a job without a
 * model, and to the server where there is one. */
static void test_registers(void **state) {
	(void)state;
	for (unsigned flags = 0; flags < 8; flags++) {
		const struct hd_jobspec spec = {.unsealed = (flags & HD_REGISTER_UNSEALED) != 0};
		const struct hd_worker_config config = {
			.spec = &spec,
			.observes = (flags & HD_REGISTER_OBSERVER) != 0,
		};
		struct world *world = build(flags & 4 ? REDUCES : SCHEDULED, &config);

		run_ms(world, 20);
		assert_int_equal(
			peer_last(&world->controller, HD_MSG_REGISTER)->register_.flags, flags & 3
		);
		if (!(flags & 4))
			assert_int_equal(
				peer_last(&world->server, HD_MSG_JOIN)->join.observer,
				config.observes
			);
		destroy(world);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flushes_and_leaves),
		cmocka_unit_test(test_gives_up_in_time),
		cmocka_unit_test(test_leaves_without_an_answer),
		cmocka_unit_test(test_flush_is_as_long_as_pushes_take),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_said_again),
		cmocka_unit_test(test_no_time),
		cmocka_unit_test(test_roster),
		cmocka_unit_test(test_registers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
