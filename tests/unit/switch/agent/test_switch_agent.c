/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent of a switch: leases from the controller to its executor, and what ends them. */
#include "switch_net.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_lease(void **state) {
	struct world *world = world_open(256);
	struct plan plan = plan_make(1, 3, 64);
	const struct hd_switch_lease *lease = &world->executor.lease[0];

	(void)state;
	assert_int_equal(registration(world)->role, HD_ROLE_SWITCH);
	assert_string_equal(registration(world)->host, "s1");
	assert_int_equal(registration(world)->data_ipv4, SWITCH_IP);
	assert_int_equal(registration(world)->slots, 256);
	assert_int_equal(registration(world)->count_max, 2224);
	assert_int_equal(registration(world)->dtypes, 1 << HD_DTYPE_FIXED32 | 1 << HD_DTYPE_FP32);
	plan.receiver_count = 1;
	plan.receivers[0] = (struct hd_group_receiver){0x5000, MEMBER_IP + 9, 4773};
	plan_send(world, &plan);
	assert_answer(world, 1, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	assert_int_equal(answer_of(world, 1)->base, 7);
	assert_int_equal(world->executor.count, 1);
	assert_int_equal(lease->job, JOB);
	assert_int_equal(lease->epoch, 3);
	assert_int_equal(lease->attempt, 1);
	assert_int_equal(lease->dtype, HD_DTYPE_FIXED32);
	assert_int_equal(lease->count, 352);
	assert_int_equal(lease->slot_count, 64);
	assert_int_equal(lease->member_count, 3);
	assert_int_equal(lease->members[2].token, 0x1002);
	assert_int_equal(lease->members[2].worker, 2);
	assert_int_equal(lease->members[2].copy.token, 0x2002);
	assert_int_equal(lease->members[2].copy.ipv4, MEMBER_IP + 2);
	assert_int_equal(lease->members[2].copy.port, 2);
	assert_int_equal(lease->receiver_count, 1);
	assert_int_equal(lease->receivers[0].port, 9);
	assert_int_equal(stats_of(world)->slots_now, 64);
	/* A member is taken out, and does not come back. */
	plan.message.waits = 5;
	plan_send(world, &plan);
	assert_int_equal(lease->waits, 5);
	assert_int_equal(answer_of(world, 1)->base, 5);
	plan.message.waits = 7;
	plan_send(world, &plan);
	assert_int_equal(lease->waits, 5);
	assert_int_equal(stats_of(world)->refused_messages, 1);
	send_void(world, 2);
	assert_int_equal(world->executor.count, 1);
	send_void(world, 1);
	assert_int_equal(world->executor.count, 0);
	assert_int_equal(stats_of(world)->slots_now, 0);
	world_close(world);
}

/* Slots and ids are given out until there are none; what ends is there again. */
static void test_slots_run_out(void **state) {
	struct world *world = world_open(128);
	struct plan plan;

	(void)state;
	for (uint64_t i = 1; i <= 5; i++) {
		plan = plan_make(i, 2, 32);
		plan_send(world, &plan);
	}
	assert_int_equal(world->executor.count, 4);
	assert_answer(world, 5, HD_OUTCOME_FAILED, HD_REASON_NO_MEMORY);
	send_void(world, 2);
	plan = plan_make(6, 2, 33);
	plan_send(world, &plan);
	assert_answer(world, 6, HD_OUTCOME_FAILED, HD_REASON_NO_MEMORY);
	send_void(world, 3);
	plan = plan_make(7, 2, 33);
	plan_send(world, &plan);
	assert_answer(world, 7, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	assert_int_equal(stats_of(world)->slots_now, 97);
	world_close(world);
	world = world_open(0);
	for (uint64_t i = 1; i <= HD_SWITCH_LEASES_MAX + 1; i++) {
		plan = plan_make(i, 1, 1);
		plan_send(world, &plan);
	}
	assert_int_equal(world->executor.count, HD_SWITCH_LEASES_MAX);
	assert_answer(world, HD_SWITCH_LEASES_MAX + 1, HD_OUTCOME_FAILED, HD_REASON_NO_MEMORY);
	world_close(world);
}

static void refuse(struct world *world, struct plan plan, enum hd_reason reason) {
	plan_send(world, &plan);
	assert_answer(world, plan.message.lease, HD_OUTCOME_FAILED, reason);
	assert_int_equal(world->executor.count, 1);
}

static void test_refused(void **state) {
	struct world *world = world_open(128);
	struct plan plan = plan_make(1, 2, 8);

	(void)state;
	plan_send(world, &plan);
	plan = plan_make(2, 2, 8);
	plan.message.epoch = 2;
	refuse(world, plan, HD_REASON_EPOCH);
	plan = plan_make(3, 2, 129);
	refuse(world, plan, HD_REASON_REFUSED);
	plan = plan_make(4, 2, 0);
	refuse(world, plan, HD_REASON_REFUSED);
	plan = plan_make(5, 2, 8);
	plan.message.dtype = HD_DTYPE_FP16;
	refuse(world, plan, HD_REASON_REFUSED);
	plan.message.dtype = 255;
	refuse(world, plan, HD_REASON_REFUSED);
	plan = plan_make(6, 2, 8);
	plan.message.count = 2225;
	refuse(world, plan, HD_REASON_REFUSED);
	plan.message.count = 0;
	refuse(world, plan, HD_REASON_REFUSED);
	plan = plan_make(7, 2, 8);
	plan.message.waits = 0;
	refuse(world, plan, HD_REASON_REFUSED);
	plan.message.waits = 4;
	refuse(world, plan, HD_REASON_REFUSED);
	plan = plan_make(8, 65, 8);
	refuse(world, plan, HD_REASON_REFUSED);
	plan = plan_make(9, 0, 8);
	plan.message.waits = 1;
	refuse(world, plan, HD_REASON_REFUSED);
	plan = plan_make(10, 2, 8);
	plan.seats[1].token = 0x1001; /* the first lease's */
	refuse(world, plan, HD_REASON_REFUSED);
	plan.seats[1].token = plan.seats[0].token;
	refuse(world, plan, HD_REASON_REFUSED);
	plan.seats[1].token = 0;
	refuse(world, plan, HD_REASON_REFUSED);
	plan = plan_make(11, 2, 8);
	plan.seats[1].worker = 0;
	refuse(world, plan, HD_REASON_REFUSED);
	plan = plan_make(12, 2, 8);
	plan.receiver_count = 5;
	refuse(world, plan, HD_REASON_REFUSED);
	plan.receiver_count = 1;
	refuse(world, plan, HD_REASON_REFUSED); /* token 0 */
	plan.receiver_count = 2;
	plan.receivers[0].token = plan.receivers[1].token = 0x7777;
	refuse(world, plan, HD_REASON_REFUSED);
	assert_int_equal(stats_of(world)->leases_now, 1);
	assert_int_equal(stats_of(world)->leases, 1);
	world_close(world);
}

/* Two updates of one worker go into one sum, by tokens of their own. */
static void test_worker_twice(void **state) {
	struct world *world = world_open(128);
	struct plan plan = plan_make(1, 3, 8);

	(void)state;
	plan.seats[2].worker = 0;
	plan.receiver_count = 1;
	plan.receivers[0] = (struct hd_group_receiver){0x5000, MEMBER_IP + 9, 4773};
	plan_send(world, &plan);
	assert_answer(world, 1, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	assert_int_equal(world->executor.lease[0].members[2].worker, 0);
	assert_int_equal(world->executor.lease[0].members[2].copy.token, 0x2002);
	world_close(world);
}

/* Where a member is may take a while to find out; not for ever. */
static void test_neighbours(void **state) {
	struct world *world = world_open(128);
	struct plan plan = plan_make(1, 3, 8);

	(void)state;
	world->executor.unknown = 4;
	plan_send(world, &plan);
	assert_null(answer_of(world, 1));
	net_run(&world->net, 30 * HD_MS);
	assert_answer(world, 1, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	/* A member is taken out before the lease is in force. */
	plan = plan_make(2, 3, 8);
	world->executor.unknown = 2;
	plan_send(world, &plan);
	plan.message.waits = 3;
	plan_send(world, &plan);
	net_run(&world->net, 30 * HD_MS);
	assert_int_equal(answer_of(world, 2)->base, 3);
	assert_int_equal(world->executor.lease[1].waits, 3);
	/* Void before it is in force: there is no other report of it. */
	plan = plan_make(3, 3, 8);
	world->executor.unknown = 2;
	plan_send(world, &plan);
	send_void(world, 3);
	net_run(&world->net, HD_SECOND);
	assert_null(answer_of(world, 3));
	plan = plan_make(4, 3, 8);
	world->executor.unknown = UINT32_MAX;
	plan_send(world, &plan);
	net_run(&world->net, HD_SECOND);
	assert_answer(world, 4, HD_OUTCOME_FAILED, HD_REASON_TIMEOUT);
	assert_non_null(strstr(hd_switch_agent_error(world->agent), "member 0"));
	world->executor.unknown = 0;
	world->executor.fail_neighbour = -EHOSTUNREACH;
	plan = plan_make(5, 3, 8);
	plan_send(world, &plan);
	assert_answer(world, 5, HD_OUTCOME_FAILED, HD_REASON_CLOSED);
	assert_string_equal(hd_switch_agent_error(world->agent), "neighbour: no way there");
	assert_int_equal(stats_of(world)->leases_now, 2);
	world_close(world);
}

static void test_executor_fails(void **state) {
	struct world *world = world_open(128);
	struct plan plan = plan_make(1, 2, 8);

	(void)state;
	world->executor.fail_set = -ENOMEM;
	plan_send(world, &plan);
	assert_answer(world, 1, HD_OUTCOME_FAILED, HD_REASON_NO_MEMORY);
	world->executor.fail_set = -EIO;
	plan = plan_make(2, 2, 8);
	plan_send(world, &plan);
	assert_answer(world, 2, HD_OUTCOME_FAILED, HD_REASON_CLOSED);
	world->executor.fail_set = 0;
	plan = plan_make(3, 2, 8);
	plan_send(world, &plan);
	assert_answer(world, 3, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	world->executor.fail_waits = -EIO;
	plan.message.waits = 1;
	plan_send(world, &plan);
	assert_answer(world, 3, HD_OUTCOME_FAILED, HD_REASON_CLOSED);
	assert_int_equal(world->executor.count, 0);
	assert_int_equal(stats_of(world)->executor_errors, 3);
	assert_int_equal(stats_of(world)->leases_now, 0);
	world_close(world);
}

/* Without a controller a lease goes on for a while; its slots are not offered to another incarnation of the controller
 * until then. */
static void test_controller_dies(void **state) {
	struct world *world = world_open(128);
	struct plan plan = plan_make(1, 2, 48);

	(void)state;
	plan_send(world, &plan);
	world_lose(world);
	assert_int_equal(world->executor.count, 1);
	world_restart(world, 4);
	assert_int_equal(world->executor.count, 1);
	assert_int_equal(registration(world)->slots, 80);
	plan = plan_make(2, 2, 80);
	plan.message.epoch = 4;
	plan_send(world, &plan);
	assert_answer(world, 2, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	net_run(&world->net, (hd_ns)LEASE_US * HD_US);
	assert_int_equal(world->executor.count, 1);
	assert_int_equal(registration(world)->slots, 128);
	assert_int_equal(stats_of(world)->leases_expired, 1);
	/* It leads again within the time: what it leased stays while it does. */
	net_run(&world->net, (hd_ns)4 * LEASE_US * HD_US);
	assert_int_equal(world->executor.count, 1);
	world_lose(world);
	net_run(&world->net, (hd_ns)LEASE_US * HD_US);
	assert_int_equal(world->executor.count, 0);
	world_close(world);
}

/* A new session with the same incarnation of the controller: that one has given up its leases. */
static void test_session_again(void **state) {
	struct world *world = world_open(128);
	struct plan plan = plan_make(1, 2, 48);

	(void)state;
	plan_send(world, &plan);
	plan = plan_make(2, 2, 8);
	world->executor.unknown = UINT32_MAX;
	plan_send(world, &plan);
	assert_int_equal(stats_of(world)->leases_now, 2);
	world_lose(world);
	assert_int_equal(stats_of(world)->leases_now, 1);
	world->executor.unknown = 0;
	world_restart(world, 3);
	assert_int_equal(world->executor.count, 0);
	assert_int_equal(registration(world)->slots, 128);
	world_close(world);
}

static void test_drain(void **state) {
	struct world *world = world_open(128);
	struct plan plan = plan_make(1, 2, 48);

	(void)state;
	plan_send(world, &plan);
	hd_switch_agent_drain(world->agent, world->net.now, &world->node.sink);
	assert_int_equal(world->executor.count, 0);
	net_run(&world->net, HD_SECOND);
	assert_int_equal(fake_count(world->controller, HD_MSG_REGISTER), 1);
	world_close(world);
}

static void test_tables(void **state) {
	struct world *world = world_open(128);
	struct plan plan = plan_make(1, 2, 48);
	const char *error = NULL;
	char *json;

	(void)state;
	plan_send(world, &plan);
	json = hd_switch_agent_table(world->agent, world->net.now, "slots", NULL, &error);
	assert_non_null(strstr(json, "\"slots\":48"));
	assert_non_null(strstr(json, "\"state\":\"held\""));
	free(json);
	json = hd_switch_agent_table(world->agent, world->net.now, "switch", NULL, &error);
	assert_non_null(strstr(json, "\"switch\":\"s1\""));
	assert_non_null(strstr(json, "\"leased\":48"));
	assert_non_null(strstr(json, "\"completed\":"));
	assert_non_null(strstr(json, "\"drop_token\":"));
	free(json);
	json = hd_switch_agent_table(world->agent, world->net.now, "counters", NULL, &error);
	assert_non_null(strstr(json, "drop_token"));
	assert_non_null(strstr(json, "switch_agent_leases"));
	free(json);
	json = hd_switch_agent_table(world->agent, world->net.now, "models", NULL, &error);
	assert_null(json);
	assert_non_null(strstr(error, "no such table"));
	world_close(world);
}

/* The controller asks what is counted, and is answered in its session: once for each question. */
static void test_polled(void **state) {
	struct world *world = world_open(128);
	const struct fake *controller = world->controller;
	const struct hd_message poll = {.kind = HD_MSG_POLL, .poll = {.mark = 9}};
	const struct hd_message *last;

	(void)state;
	assert_int_equal(fake_count(world->controller, HD_MSG_STATS), 0);
	fake_send(world->controller, &poll);
	net_run(&world->net, 2 * HD_MS);
	assert_int_equal(fake_count(world->controller, HD_MSG_STATS), 1);
	last = &controller->inbox[controller->inbox_count - 1];
	assert_int_equal(last->kind, HD_MSG_STATS);
	assert_int_equal(last->stats.mark, 9);
	assert_true(last->stats.at_ns > 0 && last->stats.values.bytes > 0);
	/* With a part of the counters it would look as if it had restarted. */
	world->executor.fail_counters = -ECANCELED;
	fake_send(world->controller, &poll);
	net_run(&world->net, 2 * HD_MS);
	assert_int_equal(fake_count(world->controller, HD_MSG_STATS), 1);
	world->executor.fail_counters = 0;
	fake_send(world->controller, &poll);
	net_run(&world->net, 2 * HD_MS);
	assert_int_equal(fake_count(world->controller, HD_MSG_STATS), 2);
	assert_int_equal(stats_of(world)->refused_messages, 0);
	world_close(world);
}

static void test_config(void **state) {
	struct world *world = world_open(128);
	struct hd_switch_agent_config config = {
		.name = "switch",
		.host = "s1",
		.keys = &world->net.keys,
		.key_id = 7,
		.count_min = 32,
		.count_max = 32,
		.dtypes = 1 << HD_DTYPE_FIXED32,
	};
	struct hd_switch_agent *agent;

	(void)state;
	assert_int_equal(hd_switch_agent_create(&config, &agent), -EINVAL); /* no ops */
	world_close(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lease),
		cmocka_unit_test(test_slots_run_out),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_worker_twice),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_executor_fails),
		cmocka_unit_test(test_controller_dies),
		cmocka_unit_test(test_session_again),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_polled),
		cmocka_unit_test(test_config),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
