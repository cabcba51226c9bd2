/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces at the controller when memory is short, nodes die, and workers are cut off. */
#include "hd_reduce.h"
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Memory for one round at a time, as the aggregators count it: the next one waits. More than they have at all is
 * refused, and one that refuses all the same is not asked again at once. */
static void test_memory(void **state) {
	const struct hd_reduce_config shard = {
		.order = HD_GROUP_ARRIVAL,
		.bytes = BYTES / WORKERS,
		.input_count = WORKERS,
	};
	const uint64_t memory = hd_reduce_memory_bytes(&shard);
	struct hd_message m = {.kind = HD_MSG_REPORT};
	struct scene s;

	open_scene_with(&s, memory * 3 / 2);
	for (uint32_t round = 1; round <= 2; round++)
		for (uint16_t i = 0; i < WORKERS; i++)
			ask(&s, i, round, 1);
	net_run(&s.net, 100 * HD_MS);
	assert_int_equal(reduce_sent(&s, 0)->round, 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		done(&s, i, HD_OUTCOME_APPLIED);
	net_run(&s.net, 2 * CTL_REDUCE_WAIT_NS);
	assert_int_equal(reduce_sent(&s, 0)->round, 2);
	m.report.job = reduce_sent(&s, 0)->job;
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.reason = HD_REASON_NO_MEMORY;
	m.report.token = peer_last(s.aggregators[1], HD_MSG_GROUP)->group.group;
	post(s.aggregators[1], m);
	net_run(&s.net, HD_MS);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 2, 2);
	net_run(&s.net, 900 * HD_MS);
	assert_int_equal(reduce_sent(&s, 0)->attempt, 1);
	net_run(&s.net, 200 * HD_MS);
	assert_int_equal(reduce_sent(&s, 0)->attempt, 2);
	net_close(&s.net);
	/* Never enough. */
	open_scene_with(&s, memory - 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	assert_null(reduce_sent(&s, 0));
	assert_int_equal(drops(&s, 0, HD_REASON_NO_SERVER), 1);
	net_close(&s.net);
}

/* An aggregator dies, and a worker before any has asked again: no worker has the sum, so the others make it. */
static void test_host_dies(void **state) {
	struct scene s;

	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	s.aggregators[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(counters(&s.net)->reduces_failed, 1);
	s.workers[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	ask(&s, 0, 1, 2);
	ask(&s, 1, 1, 2);
	assert_int_equal(drops(&s, 0, HD_REASON_LATE), 0);
	assert_int_equal(reduce_sent(&s, 1)->attempt, 2);
	assert_int_equal(reduce_sent(&s, 1)->workers, 2);
	net_close(&s.net);
}

static void that_group_fails(struct scene *s, uint64_t group) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = reduce_sent(s, 0)->job;
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.token = group;
	post(s->aggregators[1], m);
	net_run(&s->net, HD_MS);
}

static uint64_t newest_group(const struct scene *s) {
	return peer_last(s->aggregators[1], HD_MSG_GROUP)->group.group;
}

static void group_fails(struct scene *s) {
	that_group_fails(s, newest_group(s));
}

static void comes_back_with(struct scene *s, uint16_t rank, uint32_t has, uint64_t sum_id) {
	struct hd_message m = registration(s->workers[rank], WORKERS);

	s->workers[rank]->cut = false;
	net_run(&s->net, HD_SECOND);
	m.register_.reduce_round = has;
	m.register_.sum_id = sum_id;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

static void comes_back(struct scene *s, uint16_t rank, uint32_t has) {
	comes_back_with(s, rank, has, 0);
}

/* Cut off from here, it gets its sum from the aggregators, and the others make another one: it hears so, once, and
 * they do not wait for it in the round that it asked for. */
static void test_cut_off_with_a_sum(void **state) {
	/* It is back before the others ask, while they are told, after; it counts as silent before the round ends, or then. */
	for (int each = 0; each < 6; each++) {
		const int when = each % 3;
		struct scene s;

		(void)state;
		open_scene(&s);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask(&s, i, 1, 1);
		s.workers[2]->cut = true;
		if (each >= 3)
			group_fails(&s);
		net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
		if (each < 3)
			group_fails(&s);
		if (when == 0) {
			comes_back(&s, 2, 1);
			assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
			for (uint16_t i = 0; i < 2; i++) {
				ask(&s, i, 1, 2);
				assert_int_equal(drops(&s, i, HD_REASON_LATE), 1);
			}
			for (uint16_t i = 0; i < WORKERS; i++)
				ask_next(&s, i, 2);
			assert_int_equal(
				reduce_sent(&s, 2)->round, 2
			); /* the sum that counts is its */
			assert_int_equal(reduce_sent(&s, 2)->workers, WORKERS);
			net_close(&s.net);
			continue;
		}
		ask(&s, 0, 1, 2);
		ask(&s, 1, 1, 2);
		assert_int_equal(reduce_sent(&s, 0)->workers, 2);
		if (when == 1)
			comes_back(&s, 2, 1);
		done(&s, 0, HD_OUTCOME_APPLIED);
		done(&s, 1, HD_OUTCOME_APPLIED);
		if (when == 2)
			comes_back(&s, 2, 1);
		ask_next(&s, 2, 2);
		assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
		ask_next(&s, 0, 2);
		ask_next(&s, 1, 2);
		assert_int_equal(reduce_sent(&s, 1)->round, 2);
		assert_int_equal(reduce_sent(&s, 1)->workers, 2);
		done(&s, 0, HD_OUTCOME_APPLIED);
		done(&s, 1, HD_OUTCOME_APPLIED);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask_next(&s, i, 3);
		assert_int_equal(reduce_sent(&s, 2)->round, 3);
		assert_int_equal(reduce_sent(&s, 2)->workers, WORKERS);
		assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
		net_close(&s.net);
	}
}

/* All of them have a sum of the round before; the one of rank `odd` is of another attempt. The rank is notified once if
 * that is the older one, else the others are; in any order of arrival. */
static void test_sums_of_two_executions(void **state) {
	for (int each = 0; each < 6; each++) {
		const uint16_t odd = (uint16_t)(each % WORKERS);
		const bool newer = each >= 3;
		struct scene s;

		(void)state;
		open_scene(&s);
		for (uint16_t i = 0; i < WORKERS; i++)
			s.workers[i]->cut = true;
		net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
		for (uint16_t i = 0; i < WORKERS; i++)
			comes_back_with(&s, i, 5, i == odd && newer ? 9 : i == odd ? 7 : 8);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask_next(&s, i, 6);
		for (uint16_t i = 0; i < WORKERS; i++)
			assert_int_equal(drops(&s, i, HD_REASON_LATE), (i == odd) != newer);
		assert_int_equal(reduce_sent(&s, newer ? odd : (odd + 1) % WORKERS)->round, 6);
		done(&s, newer ? odd : (odd + 1) % WORKERS, HD_OUTCOME_APPLIED);
		if (!newer)
			done(&s, (odd + 2) % WORKERS, HD_OUTCOME_APPLIED);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask_next(&s, i, 7);
		for (uint16_t i = 0; i < WORKERS; i++) {
			assert_int_equal(reduce_sent(&s, i)->round, 7);
			assert_int_equal(reduce_sent(&s, i)->workers, WORKERS);
		}
		net_close(&s.net);
	}
}

/* Two were cut off with sums of two attempts, and both come back before the others have made the sum again: one of the
 * two sums counts, and the other's worker is notified that its sum does not. */
static void test_two_cut_off(void **state) {
	for (int first = 1; first <= 2; first++) {
		const uint16_t second = (uint16_t)(3 - first);
		struct scene s;

		(void)state;
		open_scene(&s);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask(&s, i, 1, 1);
		s.workers[2]->cut = true;
		net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
		group_fails(&s);
		ask(&s, 0, 1, 2);
		ask(&s, 1, 1, 2);
		assert_int_equal(reduce_sent(&s, 1)->workers, 2);
		s.workers[1]->cut = true;
		net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
		group_fails(&s);
		comes_back_with(&s, (uint16_t)first, 1, (uint64_t)first == 2 ? 1 : 2);
		comes_back_with(&s, second, 1, second == 2 ? 1 : 2);
		ask(&s, 0, 1, 3);
		assert_int_equal(drops(&s, 0, HD_REASON_LATE), 1);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask_next(&s, i, 2);
		assert_int_equal(drops(&s, 1, HD_REASON_LATE), 0);
		assert_int_equal(drops(&s, 2, HD_REASON_LATE), 1);
		assert_int_equal(reduce_sent(&s, 1)->round, 2);
		assert_int_equal(reduce_sent(&s, 1)->workers, 2);
		net_close(&s.net);
	}
}

static void cut_for_long(struct scene *s, uint16_t rank) {
	s->workers[rank]->cut = true;
	net_run(&s->net, (hd_ns)2 * HD_DETECTION_US * HD_US);
}

static void registers(struct scene *s, uint16_t rank, const struct hd_msg_register_ *has) {
	struct hd_message m = registration(s->workers[rank], WORKERS);

	s->workers[rank]->cut = false;
	net_run(&s->net, HD_SECOND);
	m.register_.reduce_round = has->reduce_round;
	m.register_.reduce_had = has->reduce_had;
	m.register_.reduce_from = has->reduce_from;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* It asked, and withdrew while it was cut off, and asks for nothing more: the others do not wait for it. */
static void test_withdrew_while_cut_off(void **state) {
	const struct hd_msg_register_ withdrew = {.reduce_from = 2};
	struct scene s;

	(void)state;
	open_scene(&s);
	ask(&s, 0, 1, 1);
	ask(&s, 2, 1, 1);
	cut_for_long(&s, 2);
	assert_null(reduce_sent(&s, 0));
	registers(&s, 2, &withdrew);
	ask(&s, 1, 1, 1);
	assert_non_null(reduce_sent(&s, 0));
	assert_int_equal(reduce_sent(&s, 0)->workers, 2);
	net_close(&s.net);
}

/* The second of two rounds was made first; a worker that has its sum and registers again still wants the other, or has
 * it too. */
static void test_later_round_first(void **state) {
	for (int had = 0; had < 2; had++) {
		const struct hd_msg_register_ has = {
			.reduce_round = 2, .reduce_had = (uint64_t)had, .reduce_from = had ? 3 : 1};
		struct scene s;
		uint64_t first;

		(void)state;
		open_scene(&s);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask(&s, i, 1, 1);
		first = newest_group(&s);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask(&s, i, 2, 1);
		for (uint16_t i = 0; i < WORKERS; i++)
			done(&s, i, HD_OUTCOME_APPLIED);
		that_group_fails(&s, first);
		ask(&s, 0, 1, 2);
		cut_for_long(&s, 2);
		registers(&s, 2, &has);
		assert_int_equal(drops(&s, 0, HD_REASON_LATE), had);
		if (!had) {
			ask(&s, 1, 1, 2);
			ask(&s, 2, 1, 2);
			assert_int_equal(reduce_sent(&s, 0)->round, 1);
			assert_int_equal(reduce_sent(&s, 0)->workers, WORKERS);
		}
		net_close(&s.net);
	}
}

/* The same, but it has no sum, or is another incarnation of that worker: it is not notified. */
static void test_cut_off_without_a_sum(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	s.workers[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	group_fails(&s);
	comes_back(&s, 2, 0);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 2);
	assert_int_equal(reduce_sent(&s, 2)->attempt, 2);
	s.workers[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	s.workers[2] = worker(&s.net, 2, WORKERS);
	group_fails(&s);
	ask(&s, 0, 1, 3);
	ask(&s, 1, 1, 3);
	ask_next(&s, 2, 2);
	assert_int_equal(drops(&s, 2, HD_REASON_LATE), 0);
	net_close(&s.net);
}

/* All workers are cut off from here, as when the switch between is away, in the round that is made: it is made again as
 * soon as they are back, unless the last of them has its sum; or all of them have it. */
static void test_all_cut_off(void **state) {
	for (int each = 0; each < 6; each++) {
		const uint32_t has = each & 1 || each > 3;
		const uint16_t first = each > 3 ? 0 : 2; /* that has it */
		struct scene s;

		(void)state;
		open_scene(&s);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask(&s, i, 1, 1);
		for (uint16_t i = 0; i < WORKERS; i++)
			done(&s, i, HD_OUTCOME_APPLIED);
		for (uint16_t i = 0; i < WORKERS; i++)
			ask_next(&s, i, 2);
		for (uint16_t i = 0; i < WORKERS; i++)
			s.workers[i]->cut = true;
		if (each & 2 || each == 5)
			group_fails(&s);
		net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
		assert_int_equal(s.net.controller->jobs[0]->worker_count, 0);
		for (uint16_t i = 0; i < WORKERS; i++)
			s.workers[i]->cut = false;
		net_run(&s.net, HD_SECOND);
		for (uint16_t i = 0; i < WORKERS; i++) {
			struct hd_message m = registration(s.workers[i], WORKERS);

			m.register_.reduce_round = 1 + (i >= first ? has : 0);
			m.register_.reduce_from = m.register_.reduce_round + 1;
			post(s.workers[i], m);
			net_run(&s.net, HD_MS);
			if (i < first)
				ask(&s, i, 2, 2);
		}
		if (!has)
			ask(&s, 2, 2, 2);
		for (uint16_t i = 0; i < 2; i++)
			assert_int_equal(drops(&s, i, HD_REASON_LATE), has && i < first);
		for (uint16_t i = 0; has && i < WORKERS; i++)
			ask_next(&s, i, 3);
		for (uint16_t i = 0; i < WORKERS; i++) {
			assert_int_equal(reduce_sent(&s, i)->round, 2 + has);
			assert_int_equal(reduce_sent(&s, i)->attempt, 2 - has);
			assert_int_equal(reduce_sent(&s, i)->workers, WORKERS);
		}
		net_close(&s.net);
	}
}

/* All processes die in the round that is made, and new ones start one after the other: as in a new job, no round begins
 * before all are there, and the lost round is not made again. */
static void test_all_started_again(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		done(&s, i, HD_OUTCOME_APPLIED);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask_next(&s, i, 2);
	for (uint16_t i = 0; i < WORKERS; i++)
		s.workers[i]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(s.net.controller->jobs[0]->worker_count, 0);
	for (uint16_t i = 0; i < WORKERS; i++) {
		s.workers[i] = worker(&s.net, i, WORKERS);
		net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
		assert_int_equal(
			peer_last(s.workers[i], HD_MSG_REGISTERED)->registered.reduce_round, 2
		);
		ask(&s, i, 3, 1);
		if (i < WORKERS - 1)
			assert_null(reduce_sent(&s, i));
	}
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_int_equal(reduce_sent(&s, i)->round, 3);
		assert_int_equal(reduce_sent(&s, i)->workers, WORKERS);
	}
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_host_dies),
		cmocka_unit_test(test_cut_off_with_a_sum),
		cmocka_unit_test(test_cut_off_without_a_sum),
		cmocka_unit_test(test_sums_of_two_executions),
		cmocka_unit_test(test_two_cut_off),
		cmocka_unit_test(test_withdrew_while_cut_off),
		cmocka_unit_test(test_later_round_first),
		cmocka_unit_test(test_all_cut_off),
		cmocka_unit_test(test_all_started_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
