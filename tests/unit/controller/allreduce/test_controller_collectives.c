/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives besides the all-reduce at the controller: who gives and receives which shard, and when those that receive
 * nothing are told that they may end. */
#include "collective_scene.h"
#include "hd_reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Workers as a set of bits. */
static unsigned inputs_of(const struct hd_msg_group *group) {
	unsigned set = 0;

	for (int i = 0; i < hd_group_count(&group->inputs, HD_GROUP_INPUT_BYTES); i++)
		set |= 1U << hd_group_get_input(&group->inputs, (uint32_t)i).worker;
	return set;
}

static unsigned outputs_of(const struct hd_msg_group *group) {
	unsigned set = 0;

	for (int i = 0; i < hd_group_count(&group->outputs, HD_GROUP_OUTPUT_BYTES); i++)
		set |= 1U << hd_group_get_output(&group->outputs, (uint32_t)i).worker;
	return set;
}

/* The root gives each byte once; it ends when both others have all. */
static void test_broadcast(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_BROADCAST, .root = 1, .bytes = BYTES};
	uint64_t bytes = 0;
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &wish);
	for (uint32_t k = 0; k < WORKERS; k++) {
		const struct hd_message *m = peer_last(s.aggregators[k], HD_MSG_GROUP);

		if (!m)
			continue;
		assert_int_equal(inputs_of(&m->group), 1U << 1);
		assert_int_equal(outputs_of(&m->group), 1U << 0 | 1U << 2);
		bytes += m->group.bytes;
	}
	assert_int_equal(bytes, BYTES);
	check_share(&s, 0, 0, BYTES);
	check_share(&s, 1, BYTES, 0);
	check_share(&s, 2, 0, BYTES);
	finish(&s, 2);
	assert_int_equal(released(&s, 1), 0);
	finish(&s, 0);
	assert_int_equal(released(&s, 1), 1);
	assert_int_equal(
		peer_last(s.workers[1], HD_MSG_REDUCED)->reduced.sum_id, reduce_sent(&s, 1)->sum_id
	);
	assert_int_equal(released(&s, 0) + released(&s, 2), 0);
	assert_int_equal(open_rounds(&s), 0);
	net_close(&s.net);
}

/* One has it, then an aggregator fails: the root gives its values again, to the other. No one is late. */
static void test_broadcast_goes_on(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_BROADCAST, .root = 1, .bytes = BYTES};
	uint64_t sum_id;
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &wish);
	sum_id = reduce_sent(&s, 0)->sum_id;
	finish(&s, 0);
	for (uint32_t k = 0; k < WORKERS; k++)
		if (peer_last(s.aggregators[k], HD_MSG_GROUP)) {
			lose_group(&s, k);
			break;
		}
	assert_non_null(peer_last(s.workers[1], HD_MSG_VOID));
	assert_non_null(peer_last(s.workers[2], HD_MSG_VOID));
	call(&s, 2, 1, 2, &wish);
	call(&s, 1, 1, 2, &wish);
	assert_int_equal(reduce_sent(&s, 2)->attempt, 2);
	assert_int_equal(reduce_sent(&s, 2)->sum_id, sum_id);
	assert_int_equal(reduce_sent(&s, 2)->workers, WORKERS);
	check_share(&s, 1, BYTES, 0);
	assert_int_equal(peer_count(s.workers[0], HD_MSG_REDUCE), 1);
	finish(&s, 2);
	assert_int_equal(released(&s, 1), 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_null(peer_last(s.workers[i], HD_MSG_DROP));
	net_close(&s.net);
}

static void test_reduce(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_REDUCE, .root = 2, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &wish);
	for (uint32_t k = 0; k < WORKERS; k++) {
		const struct hd_message *m = peer_last(s.aggregators[k], HD_MSG_GROUP);

		if (!m)
			continue;
		assert_int_equal(inputs_of(&m->group), 7);
		assert_int_equal(outputs_of(&m->group), 1U << 2);
	}
	check_share(&s, 0, BYTES, 0);
	check_share(&s, 2, BYTES, BYTES);
	net_run(&s.net, 500 * HD_MS);
	assert_int_equal(released(&s, 0) + released(&s, 1), 0);
	finish(&s, 2);
	assert_int_equal(released(&s, 0), 1);
	assert_int_equal(released(&s, 1), 1);
	assert_int_equal(released(&s, 2), 0);
	net_close(&s.net);
}

/* No member has the sum when its root is lost: the others are told so, when they ask again and in the next round. */
static void test_root_dies(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_REDUCE, .root = 2, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &wish);
	s.workers[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	for (uint16_t i = 0; i < 2; i++) {
		assert_int_equal(peer_last(s.workers[i], HD_MSG_VOID)->void_.token != 0, 1);
		call(&s, i, 1, 2, &wish);
		assert_int_equal(drops(&s, i, HD_REASON_ROOT), 1);
		assert_string_equal(
			peer_last(s.workers[i], HD_MSG_DROP)->drop.text,
			"call 1: its root, rank 2, is lost"
		);
	}
	call(&s, 0, 2, 1, &wish);
	assert_int_equal(drops(&s, 0, HD_REASON_ROOT), 2);
	call(&s, 1, 2, 1, &wish);
	assert_int_equal(drops(&s, 1, HD_REASON_ROOT), 2);
	assert_int_equal(open_rounds(&s), 0);
	net_close(&s.net);
}

/* One that only gives says that it has the result, and then the root is lost: the round has no one to go on for. */
static void test_root_dies_after_an_end(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_REDUCE, .root = 2, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &wish);
	finish(&s, 0);
	s.workers[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(open_rounds(&s), 0);
	net_close(&s.net);
}

/* A round that waits for memory has no shards yet, so an aggregator that dies meanwhile does not concern it. */
static void test_aggregator_dies_before_begin(void **state) {
	const struct hd_reduce_config block = {.bytes = BYTES, .input_count = 1};
	const struct wish first = {.collective = HD_COLLECTIVE_GATHER, .bytes = BYTES};
	const struct wish second = {.collective = HD_COLLECTIVE_ALLGATHER, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene_with(&s, hd_reduce_memory_bytes(&block) * 3 / 2);
	call_all(&s, 1, &first); /* in the aggregators of ranks 1 and 2 */
	assert_int_equal(reduce_sent(&s, 0)->round, 1);
	call_all(&s, 2, &second);
	assert_int_equal(reduce_sent(&s, 0)->round, 1);
	s.aggregators[0]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(open_rounds(&s), 1);
	assert_int_equal(
		drops(&s, 0, HD_REASON_NO_SERVER), 1
	); /* two have no room for three blocks */
	net_close(&s.net);
}

/* A block's own host adds it, or passes it on. */
static void check_blocks(uint8_t collective, unsigned inputs[WORKERS], unsigned outputs[WORKERS]) {
	const struct wish wish = {.collective = collective, .root = 0, .bytes = BYTES};
	const bool gathers
		= collective == HD_COLLECTIVE_ALLGATHER || collective == HD_COLLECTIVE_GATHER;
	struct scene s;

	open_scene(&s);
	call_all(&s, 1, &wish);
	for (uint32_t k = 0; k < WORKERS; k++) {
		const struct hd_message *m = peer_last(s.aggregators[k], HD_MSG_GROUP);

		assert_int_equal(m != NULL, inputs[k] != 0);
		if (!m)
			continue;
		assert_int_equal(inputs_of(&m->group), inputs[k]);
		assert_int_equal(outputs_of(&m->group), outputs[k]);
		assert_int_equal(m->group.bytes, gathers ? BYTES : BYTES / WORKERS);
	}
	assert_int_equal(reduce_sent(&s, 1)->bytes, gathers ? WORKERS * BYTES : BYTES);
	net_close(&s.net);
}

static void test_blocks(void **state) {
	(void)state;
	check_blocks(HD_COLLECTIVE_ALLGATHER, (unsigned[]){1, 2, 4}, (unsigned[]){6, 5, 3});
	check_blocks(HD_COLLECTIVE_REDUCE_SCATTER, (unsigned[]){7, 7, 7}, (unsigned[]){1, 2, 4});
	check_blocks(HD_COLLECTIVE_GATHER, (unsigned[]){0, 2, 4}, (unsigned[]){0, 1, 1});
	check_blocks(HD_COLLECTIVE_SCATTER, (unsigned[]){0, 1, 1}, (unsigned[]){0, 2, 4});
}

/* Sets what the links out of and into a worker's host are believed to carry, in units of the others'. */
static void set_links(struct scene *s, uint16_t rank, double out, double in) {
	struct hd_controller *c = s->net.controller;
	uint32_t links[2];

	assert_int_equal(
		hd_topology_links_of(
			c->config.topology,
			c->jobs[0]->workers[rank]->host_index,
			&links[0],
			&links[1]
		),
		0
	);
	for (int i = 0; i < 2; i++) {
		const uint32_t link = links[i] + 1;
		const double alone = 0;
		const struct hd_view_sample sample = {
			.at = s->net.now,
			.started = s->net.now - HD_MS,
			.bytes = MB,
			.rate_bps = (i == 0 ? out : in) * net_plain.initial_bps,
			.path_count = 1,
			.path = &link,
			.beside_bps = &alone,
		};

		for (int k = 0; k < 20; k++)
			hd_view_sample(c->view, &sample);
		assert_float_equal(
			ctl_estimate_bytes(c, link) * 8, sample.rate_bps, 0.02 * sample.rate_bps
		);
	}
}

/* The bytes of an all-gather that leave each host when the links of the first carry this much of the others'. */
static void check_away(double times, const unsigned leave[WORKERS]) {
	const struct wish wish = {.collective = HD_COLLECTIVE_ALLGATHER, .bytes = BYTES};
	struct scene s;

	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		set_links(&s, i, i == 0 ? times : 1, i == 0 ? times : 1);
	call_all(&s, 1, &wish);
	for (uint32_t k = 0; k < WORKERS; k++) {
		unsigned blocks = 0;

		for (uint32_t i = 0; i < s.aggregators[k]->count; i++) {
			const struct hd_message *m = &s.aggregators[k]->log[i];

			if (m->kind == HD_MSG_GROUP)
				blocks += (unsigned
				)__builtin_popcount(outputs_of(&m->group) & ~(1U << k));
		}
		assert_int_equal(blocks, leave[k]);
	}
	net_close(&s.net);
}

/* A block leaves its member's host n - 1 times from there. Another host would carry that beside its own member's block,
 * which takes longer unless the first one's links are far slower. */
static void test_slow_links(void **state) {
	(void)state;
	check_away(0.95, (const unsigned[]){2, 2, 2});
	check_away(0.8, (const unsigned[]){2, 2, 2});
	check_away(
		0.3, (const unsigned[]){0, 3, 2}
	); /* its block leaves it once, for another host's aggregator */
}

/* The aggregator that makes the sums of the first member, whose links carry this much of the others'. */
static void check_home(double out, double in, bool home) {
	const struct wish wish = {.collective = HD_COLLECTIVE_REDUCE_SCATTER, .bytes = BYTES};
	struct scene s;

	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		set_links(&s, i, i == 0 ? out : 1, i == 0 ? in : 1);
	call_all(&s, 1, &wish);
	assert_int_equal(peer_count(s.aggregators[0], HD_MSG_GROUP), home ? 1 : 0);
	net_close(&s.net);
}

/* Elsewhere the first member's own values would leave as well: three thirds instead of two. That takes less time only
 * if the link into its host is slower still. */
static void test_slow_sums(void **state) {
	(void)state;
	check_home(1, 1, true);
	check_home(0.25, 0.25, true);
	check_home(0.25, 0.2, true);
	check_home(0.25, 0.1, false);
}

/* Of a scatter to three members of two values, one gets none. It is released when the other has its own. */
static void test_empty_block(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_SCATTER, .root = 2, .bytes = 8};
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &wish);
	check_share(&s, 0, 0, 0); /* values 0 to 2 / 3 - 1 */
	check_share(&s, 1, 0, 4);
	check_share(&s, 2, 4, 0);
	finish(&s, 1);
	assert_int_equal(released(&s, 0), 1);
	assert_int_equal(released(&s, 2), 1);
	net_close(&s.net);
}

static void test_barrier(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_BARRIER};
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint32_t k = 0; k < WORKERS; k++) /* it needs none */
		s.aggregators[k]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	call(&s, 0, 1, 1, &wish);
	call(&s, 1, 1, 1, &wish);
	assert_null(reduce_sent(&s, 0));
	call(&s, 2, 1, 1, &wish);
	for (uint16_t i = 0; i < WORKERS; i++) {
		check_share(&s, i, 0, 0);
		assert_int_equal(released(&s, i), 1);
	}
	assert_int_equal(open_rounds(&s), 0);
	net_close(&s.net);
}

/* More members than a result has room for. */
static void test_room(void **state) {
	struct wish wish = {.collective = HD_COLLECTIVE_ALLGATHER, .bytes = 400, .room = 1200};
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &wish);
	assert_non_null(reduce_sent(&s, 0));
	for (uint16_t i = 0; i < WORKERS; i++)
		finish(&s, i);
	wish.room = 1196;
	call(&s, 0, 2, 1, &wish);
	wish.room = 0;
	call(&s, 1, 2, 1, &wish);
	call(&s, 2, 2, 1, &wish);
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_int_equal(drops(&s, i, HD_REASON_REFUSED), 1);
		assert_string_equal(
			peer_last(s.workers[i], HD_MSG_DROP)->drop.text,
			"call 2: a result of 1200 bytes of 3 members, and rank 0 has room for 1196"
		);
	}
	assert_int_equal(open_rounds(&s), 0);
	net_close(&s.net);
}

/* A member that only gives was cut off, and asks again: the round goes on, and it is released with the others. */
static void test_giver_returns(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_REDUCE, .root = 2, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &wish);
	s.workers[0]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	s.workers[0]->cut = false;
	net_run(&s.net, 2 * HD_SECOND);
	post(s.workers[0], registration(s.workers[0], WORKERS));
	net_run(&s.net, HD_MS);
	call(&s, 0, 1, 2, &wish);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	assert_null(peer_last(s.workers[0], HD_MSG_DROP));
	finish(&s, 2);
	assert_int_equal(released(&s, 0), 1);
	assert_int_equal(released(&s, 1), 1);
	/* If it asks after that, it is told which attempt the root has. */
	call(&s, 1, 1, 2, &wish);
	assert_int_equal(drops(&s, 1, HD_REASON_LATE), 1);
	assert_int_equal(
		peer_last(s.workers[1], HD_MSG_DROP)->drop.sum_id, reduce_sent(&s, 1)->sum_id
	);
	net_close(&s.net);
}

static void test_giver_returns_in_vain(void **state) {
	const struct wish wish = {.collective = HD_COLLECTIVE_REDUCE, .root = 2, .bytes = BYTES};
	struct scene s;

	(void)state;
	open_scene(&s);
	call_all(&s, 1, &wish);
	s.workers[0]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	s.workers[0]->cut = false;
	net_run(&s.net, 2 * HD_SECOND);
	post(s.workers[0], registration(s.workers[0], WORKERS));
	net_run(&s.net, HD_MS);
	call(&s, 0, 1, 2, &wish);
	lose_group(&s, 0);
	/* It has asked already; the others do. */
	call(&s, 1, 1, 2, &wish);
	call(&s, 2, 1, 2, &wish);
	assert_int_equal(reduce_sent(&s, 0)->attempt, 2);
	assert_int_equal(reduce_sent(&s, 0)->workers, WORKERS);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_broadcast),
		cmocka_unit_test(test_broadcast_goes_on),
		cmocka_unit_test(test_reduce),
		cmocka_unit_test(test_root_dies),
		cmocka_unit_test(test_root_dies_after_an_end),
		cmocka_unit_test(test_aggregator_dies_before_begin),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_slow_links),
		cmocka_unit_test(test_slow_sums),
		cmocka_unit_test(test_empty_block),
		cmocka_unit_test(test_barrier),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_giver_returns),
		cmocka_unit_test(test_giver_returns_in_vain),
	};

	return cmocka_run_group_tests_name("controller_collectives", tests, NULL, NULL);
}
