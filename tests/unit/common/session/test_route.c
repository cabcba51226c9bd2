/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes: a message goes to the one handler that takes its kind from its sender's role, or to none. */
#include "hd_route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct turn {
	int asked, reported, leased;
	void *from;
};

static void on_request(void *turn, void *from, const struct hd_message *message) {
	struct turn *t = turn;

	assert_int_equal(message->kind, HD_MSG_REQUEST);
	t->asked++;
	t->from = from;
}

static void on_report(void *turn, void *from, const struct hd_message *message) {
	((struct turn *)turn)->reported++;
}

static void on_switch_report(void *turn, void *from, const struct hd_message *message) {
	((struct turn *)turn)->leased++;
}

static const struct hd_route routes[] = {
	{HD_MSG_REQUEST, HD_FROM_WORKER, on_request},
	{HD_MSG_REPORT, HD_FROM_WORKER | HD_FROM_AGGREGATOR, on_report},
	{HD_MSG_REPORT, HD_FROM_SWITCH, on_switch_report},
};
#define COUNT (sizeof routes / sizeof *routes)

static enum hd_routed route(struct turn *turn, uint8_t kind, uint8_t role) {
	struct hd_message message = {.kind = kind};

	return hd_route_message(routes, COUNT, role, turn, turn, &message);
}

static void test_to_its_handler(void **state) {
	struct turn turn = {0};

	assert_int_equal(route(&turn, HD_MSG_REQUEST, HD_ROLE_WORKER), HD_ROUTED);
	assert_ptr_equal(turn.from, &turn);
	assert_int_equal(route(&turn, HD_MSG_REPORT, HD_ROLE_AGGREGATOR), HD_ROUTED);
	assert_int_equal(route(&turn, HD_MSG_REPORT, HD_ROLE_SWITCH), HD_ROUTED);
	assert_int_equal(turn.asked, 1);
	assert_int_equal(turn.reported, 1);
	assert_int_equal(turn.leased, 1);
}

static void test_to_none(void **state) {
	struct turn turn = {0};

	assert_int_equal(route(&turn, HD_MSG_REQUEST, HD_ROLE_SHELL), HD_ROUTE_NO_ROLE);
	assert_int_equal(route(&turn, HD_MSG_GRANT, HD_ROLE_WORKER), HD_ROUTE_NO_KIND);
	for (int kind = 0; kind < 256; kind++) {
		assert_int_not_equal(route(&turn, (uint8_t)kind, HD_ROLE_NONE), HD_ROUTED);
		for (int role = HD_ROLE_COUNT; role < 256; role++)
			assert_int_not_equal(route(&turn, (uint8_t)kind, (uint8_t)role), HD_ROUTED);
	}
	assert_int_equal(turn.asked + turn.reported + turn.leased, 0);
}

static void test_tables_are_checked(void **state) {
	static const struct hd_route no_handler[] = {{HD_MSG_REQUEST, HD_FROM_WORKER, NULL}};
	static const struct hd_route no_role[] = {{HD_MSG_REQUEST, 0, on_request}};
	static const struct hd_route liar[]
		= {{HD_MSG_REQUEST, HD_FROM_WORKER | HD_FROM_SHELL, on_request}};
	static const struct hd_route unknown[] = {{200, HD_FROM_WORKER, on_request}};

	assert_true(hd_routes_are_valid(routes, COUNT));
	assert_false(hd_routes_are_valid(no_handler, 1));
	assert_false(hd_routes_are_valid(no_role, 1));
	assert_false(hd_routes_are_valid(liar, 1));
	assert_false(hd_routes_are_valid(unknown, 1));
}

/* Each kind that exists has a role that may send it; no node without a role may, and no role may send any other
 * kind. */
static void test_senders(void **state) {
	int kinds = 0;

	for (int kind = 0; kind < 256; kind++) {
		uint32_t from = hd_message_senders((uint8_t)kind);

		assert_int_equal(from & ~HD_FROM_ANY, 0);
		assert_int_equal(from != 0, strcmp(hd_message_name((uint8_t)kind), "unknown") != 0);
		kinds += from != 0;
	}
	/* NOLINTNEXTLINE(bugprone-macro-parentheses): a term, with its sign */
#define ONE(upper, lower, number, from) +1
	assert_int_equal(kinds, 0 HD_MESSAGES(ONE));
#undef ONE
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_to_its_handler),
		cmocka_unit_test(test_to_none),
		cmocka_unit_test(test_tables_are_checked),
		cmocka_unit_test(test_senders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
