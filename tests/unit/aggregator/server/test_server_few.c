/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds of federated jobs at the server for which too few clients are left, or give anything. */
#include "server_rounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct hd_msg_lack *lack_of(struct rounds *f, uint16_t rank) {
	size_t count = fake_count(f->worker[rank], HD_MSG_LACK);

	return count > 0 ? &fake_wait(f->worker[rank], HD_MSG_LACK, count - 1)->lack : NULL;
}

static void leave(struct rounds *f, uint16_t rank) {
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	message.leave.job = f->worker[rank]->job;
	message.leave.worker = rank;
	fake_send(f->worker[rank], &message);
	net_run(&f->net, 30 * HD_MS);
}

static void assert_row(struct rounds *f, const char *filter, const char *state, double lacks) {
	json_t *row = rounds_row(f, filter);

	assert_string_equal(json_string_value(json_object_get(row, "state")), state);
	assert_true(rounds_number(row, "lacks") == lacks);
	json_decref(row);
}

/* Two of four are lost, a third is needed: the rest is notified once no client has joined for wait_ms, and again. Their
 * updates are kept, and count with the update of one that joins. */
static void test_lack(void **state) {
	struct hd_federated rounds = rounds_of(4, 3, 0);
	struct rounds f;

	(void)state;
	rounds.wait_ms = 10000;
	rounds_open(&f, &rounds, 4);
	for (uint16_t i = 0; i < 2; i++) {
		rounds_lose(&f, 3 - i);
		rounds_give(&f, i, 2, (const float[2]){-1, 0});
	}
	net_run(&f.net, 6 * HD_SECOND); /* until their sessions are given up */
	assert_row(&f, "round=1", "waits", 1);
	assert_null(lack_of(&f, 0));
	net_run(&f.net, 12 * HD_SECOND);
	for (uint16_t i = 0; i < 2; i++) {
		assert_int_equal(fake_count(f.worker[i], HD_MSG_LACK), 1);
		assert_int_equal(lack_of(&f, i)->here, 2);
		assert_int_equal(lack_of(&f, i)->needed, 3);
		assert_int_equal(lack_of(&f, i)->gone, 2);
		assert_int_equal(lack_of(&f, i)->waited_ms, 10000);
	}
	assert_row(&f, "round=1", "lacks", 1);
	net_run(&f.net, 9 * HD_SECOND);
	assert_int_equal(fake_count(f.worker[0], HD_MSG_LACK), 2);
	rounds_moved(&f, 0, 0);
	rounds_join(&f, 4);
	net_run(&f.net, 30 * HD_MS);
	assert_int_equal(rounds_drawn(&f, 4), 1);
	assert_row(&f, "round=1", "open", 0);
	rounds_give(&f, 4, 4, (const float[2]){-4, 0});
	rounds_moved(&f, (2 + 2 + 16) / 8.0, 0);
	assert_row(&f, "round=1", "step", 0);
	rounds_close(&f);
}

/* A client that leaves by itself is not lost; between two rounds it is the next round that lacks it. The last updates
 * are a step once all have left. */
static void test_left(void **state) {
	struct hd_federated rounds = rounds_of(4, 3, 0);
	struct rounds f;

	(void)state;
	rounds.wait_ms = 1000;
	rounds_open(&f, &rounds, 4);
	for (uint16_t i = 0; i < 4; i++)
		rounds_give(&f, i, 1, (const float[2]){-1, 0});
	rounds_moved(&f, 1, 0);
	assert_int_equal(rounds_drawn(&f, 0), 2);
	leave(&f, 3);
	leave(&f, 2);
	rounds_give(&f, 0, 1, (const float[2]){-1, 0});
	net_run(&f.net, 1500 * HD_MS);
	assert_int_equal(lack_of(&f, 1)->here, 2);
	assert_int_equal(lack_of(&f, 1)->gone, 0);
	assert_int_equal(fake_count(f.worker[3], HD_MSG_LACK), 0);
	rounds_moved(&f, 1, 0);
	leave(&f, 0);
	rounds_moved(&f, 1, 0);
	leave(&f, 1);
	rounds_moved(&f, 2, 0);
	assert_int_equal(fake_outcome(f.worker[0], 2)->outcome, HD_OUTCOME_APPLIED);
	rounds_close(&f);
}

/* The first round waits for more than others; before it there is no round to show, but the one that is to come. */
static void test_first_lack(void **state) {
	struct hd_federated rounds = rounds_of(4, 1, 0);
	struct rounds f;

	(void)state;
	rounds.wait_ms = 500;
	rounds_open(&f, &rounds, 2);
	assert_row(&f, "round=1", "waits", 2);
	net_run(&f.net, 600 * HD_MS);
	assert_row(&f, "round=1", "lacks", 2);
	assert_int_equal(lack_of(&f, 1)->round, 1);
	assert_int_equal(lack_of(&f, 1)->needed, 4);
	for (uint16_t i = 2; i < 4; i++)
		rounds_join(&f, i);
	net_run(&f.net, 30 * HD_MS);
	assert_row(&f, "round=1", "open", 0);
	assert_int_equal(rounds_drawn(&f, 0), 1);
	rounds_close(&f);
}

/* All are here, but only one of the two that a round needs gives an update: the others are asked again. Its update is
 * of the same model, and is in that step. */
static void test_all_quit(void **state) {
	const struct hd_federated rounds = rounds_of(4, 2, 0);
	struct rounds f;

	(void)state;
	rounds_open(&f, &rounds, 4);
	rounds_give(&f, 0, 3, (const float[2]){-1, 0});
	for (uint16_t i = 1; i < 4; i++)
		rounds_work(&f, i, 1, 1, false);
	net_run(&f.net, 30 * HD_MS);
	assert_row(&f, "round=1", "empty", 0);
	assert_int_equal(rounds_drawn(&f, 0), 1); /* it has done its part */
	for (uint16_t i = 1; i < 4; i++) {
		assert_int_equal(rounds_drawn(&f, i), 2);
		rounds_work(&f, i, 1, 1, i == 1);
	}
	rounds_give(&f, 1, 1, (const float[2]){-5, 0});
	net_run(&f.net, 30 * HD_MS);
	rounds_moved(&f, 2, 0);
	assert_int_equal(rounds_drawn(&f, 0), 3);
	rounds_close(&f);
}

/* A client that has reported its work, and then that it leaves, is waited for: its update is in flight. */
static void test_done(void **state) {
	const struct hd_federated rounds = rounds_of(4, 1, 0);
	struct rounds f;

	(void)state;
	rounds_open(&f, &rounds, 4);
	rounds_work(&f, 0, 3, 1, true);
	leave(&f, 0);
	leave(&f, 1); /* this one gives nothing */
	for (uint16_t i = 2; i < 4; i++)
		rounds_give(&f, i, 1, (const float[2]){0, 0});
	rounds_moved(&f, 0, 0);
	rounds_give(&f, 0, 3, (const float[2]){-5, 0});
	rounds_moved(&f, 3, 0);
	assert_int_equal(rounds_outcome(&f, 0), HD_OUTCOME_APPLIED);
	rounds_close(&f);
}

/* Three give their updates and leave; the fourth's comes when no round can begin any more, and is a step once it has
 * left, too: a row of its own. */
static void test_late_alone(void **state) {
	struct hd_federated rounds = rounds_of(4, 2, 1000);
	hd_version base;
	struct rounds f;

	(void)state;
	rounds.late = HD_LATE_WEIGHT;
	rounds_open(&f, &rounds, 4);
	base = rounds_sent(&f, 3)->version;
	for (uint16_t i = 0; i < 3; i++) {
		rounds_give(&f, i, 2, (const float[2]){-1, 0});
		leave(&f, i);
	}
	net_run(&f.net, 1100 * HD_MS);
	rounds_moved(&f, 1, 0);
	rounds_give_at(&f, 3, 6, (const float[2]){-3, 0}, base);
	rounds_moved(&f, 1, 0);
	leave(&f, 3);
	rounds_moved(&f, 4, 0);
	for (int i = 0; i < 2; i++) {
		json_t *row = rounds_row(&f, i == 0 ? "round=1" : "round=2");

		assert_true(rounds_number(row, "came") == (i == 0 ? 3 : 1));
		assert_true(rounds_number(row, "late") == i);
		assert_true(rounds_number(row, "weight") == (i == 0 ? 6 : 3));
		assert_true(rounds_number(row, "drawn") == (i == 0 ? 4 : 0));
		json_decref(row);
	}
	rounds_close(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lack),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_first_lack),
		cmocka_unit_test(test_all_quit),
		cmocka_unit_test(test_late_alone),
		cmocka_unit_test(test_done),
	};

	return cmocka_run_group_tests_name("server few", tests, NULL, NULL);
}
