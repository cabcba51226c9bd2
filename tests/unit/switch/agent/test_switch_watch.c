/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent of a switch whose executor ends, and restarts. */
#include "switch_net.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *state_of(const struct world *world) {
	const char *error = NULL;
	char *json = hd_switch_agent_table(world->agent, world->net.now, "switch", NULL, &error);
	static const char *const states[] = {"led", "alone", "lost", "draining"};
	const char *found = NULL;

	for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
		char words[32];

		(void)snprintf(words, sizeof words, "\"state\":\"%s\"", states[i]);
		found = strstr(json, words) ? states[i] : found;
	}
	free(json);
	return found;
}

/* An executor that restarted within a moment: its leases are over, which the controller sees as a switch that registers
 * again; it is not notified of each end. */
static void test_executor_again(void **state) {
	struct world *world = world_open(128);
	struct plan plan = plan_make(1, 2, 48), finding = plan_make(2, 2, 8);

	(void)state;
	plan_send(world, &plan);
	world->executor.unknown = UINT32_MAX;
	plan_send(world, &finding);
	assert_int_equal(stats_of(world)->leases_now, 2);
	executor_restart(&world->executor);
	world->executor.unknown = 0;
	net_run(&world->net, HD_SECOND / 2);
	assert_int_equal(world->executor.ends, 0);
	assert_int_equal(stats_of(world)->leases_now, 0);
	assert_int_equal(stats_of(world)->leases_lost, 1);
	assert_int_equal(stats_of(world)->executor_losses, 1);
	assert_int_equal(fake_count(world->controller, HD_MSG_REGISTER), 2);
	assert_int_equal(registration(world)->slots, 128);
	assert_string_equal(state_of(world), "led");
	/* As before from here on. */
	plan = plan_make(3, 2, 128);
	plan_send(world, &plan);
	assert_answer(world, 3, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	net_run(&world->net, 10 * HD_SECOND);
	assert_int_equal(stats_of(world)->executor_losses, 1);
	assert_int_equal(world->executor.count, 1);
	world_close(world);
}

/* One that does not answer: no session until it does, whether it has kept what it was told or not. */
static void test_executor_away(void **state) {
	struct world *world = world_open(128);
	struct plan plan = plan_make(1, 2, 48);

	(void)state;
	plan_send(world, &plan);
	world->executor.fail_watch = -EIO;
	net_run(&world->net, HD_SECOND / 2);
	assert_string_equal(state_of(world), "lost");
	assert_string_equal(hd_switch_agent_error(world->agent), "watch: no such process");
	assert_int_equal(stats_of(world)->leases_now, 0);
	net_run(&world->net, 10 * HD_SECOND);
	assert_int_equal(fake_count(world->controller, HD_MSG_REGISTER), 1);
	assert_in_range(world->executor.watched, 40, 48);
	executor_restart(&world->executor);
	world->executor.fail_watch = 0;
	net_run(&world->net, HD_SECOND / 2);
	assert_string_equal(state_of(world), "led");
	assert_int_equal(fake_count(world->controller, HD_MSG_REGISTER), 2);
	assert_int_equal(stats_of(world)->executor_losses, 1);
	world_close(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_executor_again),
		cmocka_unit_test(test_executor_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
