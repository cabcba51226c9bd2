/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs whose chunks carry no MAC: the same promises, every invariant of the checker, and not one token of a sealed
 * transfer. */
#include "cluster_run.h"
#include "hd_message.h"
#include "hd_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct tokens {
	struct run run; /* first */
	void (*watch)(void *owner, const char *node, const struct hd_event *event);
	uint64_t plain, sealed; /* events with such a token */
};

static void count(void *owner, const char *node, const struct hd_event *event) {
	struct tokens *t = owner;

	if (event->token != 0)
		*(hd_token_is_sealed(event->token) ? &t->sealed : &t->plain) += 1;
	t->watch(&t->run, node, event);
}

static void prepare_tokens(struct tokens *t, bool unsealed) {
	*t = (struct tokens){.plain = 0};
	prepare(&t->run);
	t->watch = t->run.config.event;
	t->run.config.event = count;
	t->run.config.owner = t;
	t->run.config.unsealed = unsealed;
}

static void expect_tokens(struct tokens *t, uint64_t applied) {
	bool unsealed = t->run.config.unsealed;

	expect(&t->run, applied);
	print_message(
		"%llu applied; tokens without a seal: %llu, with one: %llu\n",
		(unsigned long long)t->run.result.pushes.applied,
		(unsigned long long)t->plain,
		(unsigned long long)t->sealed
	);
	assert_int_equal(unsealed ? t->sealed : t->plain, 0);
	assert_true((unsealed ? t->plain : t->sealed) > applied);
}

/* Directly, unplanned, planned and over an aggregator. */
static void test_all_modes(void **state) {
	(void)state;
	for (int mode = RUN_DIRECT; mode < RUN_MODES; mode++) {
		uint64_t bytes[2];

		for (int unsealed = 0; unsealed < 2; unsealed++) {
			struct tokens t;

			prepare_tokens(&t, unsealed != 0);
			choose_mode(&t.run, (enum run_mode)mode);
			expect_tokens(&t, 60);
			bytes[unsealed]
				= t.run.result.server_link_bytes / t.run.result.pushes.applied;
		}
		print_message(
			"way %d: bytes of an update %llu, without MACs %llu\n",
			mode,
			(unsigned long long)bytes[0],
			(unsigned long long)bytes[1]
		);
	}
}

/* A replica takes the server's place: states, copies and what comes after it, without MACs. The
 * controller dies, too. */
static void test_faults(void **state) {
	struct tokens t;

	(void)state;
	prepare_tokens(&t, true);
	t.run.scenario.replica = true;
	t.run.scenario.loss = 0.01;
	t.run.scenario.crash_count = 2;
	t.run.scenario.crashes[0] = (struct hd_scenario_fault
	){.at_s = 1, .for_s = 2, .node = {.kind = HD_PLACE_SERVER}};
	t.run.scenario.crashes[1] = (struct hd_scenario_fault
	){.at_s = 3, .for_s = 0.3, .node = {.kind = HD_PLACE_CONTROLLER}};
	expect_tokens(&t, 100);
	assert_int_equal(t.run.result.promotions, 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_modes),
		cmocka_unit_test(test_faults),
	};

	return cmocka_run_group_tests_name("integrity", tests, NULL, NULL);
}
