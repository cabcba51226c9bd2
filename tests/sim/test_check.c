/* SPDX-License-Identifier: BSD-3-Clause */
/* The checkers can fail: each test tells a true story, then the same one with a lie in it. */
#include "check_story.h"
#include "hd_jobspec.h"
#include "hd_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Pulls in 16 bits deliver the model rounded; the model itself is then another. */
static void test_rounded_pulls(void **state) {
	struct story story;
	uint16_t half[VALUES];
	float rounded[VALUES];

	begin(&story);
	hd_check_pulls_as(story.check, HD_DTYPE_BF16);
	for (uint32_t i = 0; i < 200; i++) /* sums that 8 bits do not hold */
		whole(&story, i % 3);
	hd_half_from_f32(HD_DTYPE_BF16, half, story.model, VALUES, 1);
	hd_half_to_f32(HD_DTYPE_BF16, rounded, half, VALUES);
	hd_check_pull(story.check, 1, rounded, version_of(&story));
	expect(&story, NULL);
	begin(&story);
	hd_check_pulls_as(story.check, HD_DTYPE_BF16);
	for (uint32_t i = 0; i < 200; i++)
		whole(&story, i % 3);
	hd_check_pull(story.check, 1, story.model, version_of(&story));
	expect(&story, "pulled something else");
}

/* A sparse update that the server took for a dense one. */
static void test_sparse_taken_for_dense(void **state) {
	struct story story;
	hd_version base;

	begin(&story);
	base = version_of(&story);
	hd_check_push(
		story.check,
		&(struct hd_check_pushed){
			.worker = 0,
			.round = 1,
			.salt = 1,
			.base = base,
			.dtype = HD_DTYPE_SPARSE32,
			.bytes = VALUES * sizeof(float),
		}
	);
	story.round[0] = 1;
	commit(&story, 0, 1, base);
	expect(&story, "is not the sum of its updates");
}

static void test_truth_passes(void **state) {
	struct story story;

	begin(&story);
	for (uint32_t i = 0; i < 30; i++)
		whole(&story, i % 3);
	hd_check_pull(story.check, 1, story.model, version_of(&story));
	push(&story, 0);
	outcome(&story, 0, HD_OUTCOME_DROPPED, 0);
	push(&story, 1);
	assert_int_equal(hd_check_pending(story.check), 1);
	hd_check_worker_gone(story.check, 1);
	hd_check_settled(story.check);
	assert_int_equal(hd_check_stats(story.check)->pushed, 32);
	assert_int_equal(hd_check_stats(story.check)->applied, 30);
	assert_int_equal(hd_check_stats(story.check)->dropped, 1);
	assert_int_equal(hd_check_stats(story.check)->failed, 1);
	expect(&story, NULL);
}

/* A server that started again gives its replica the first version before any other node has seen one. */
static void test_first_seen_by_the_replica(void **state) {
	struct story story;

	begin(&story);
	whole(&story, 0);
	hd_check_restore(story.check, NULL, 0);
	memset(story.model, 0, sizeof story.model);
	story.incarnation++;
	story.counter = 0;
	assert_true(hd_check_is(story.check, story.model, version_of(&story)));
	whole(&story, 1);
	assert_true(hd_check_is(story.check, story.model, version_of(&story)));
	expect(&story, NULL);
	/* It has something else. */
	begin(&story);
	whole(&story, 0);
	hd_check_restore(story.check, NULL, 0);
	story.incarnation++;
	story.counter = 0;
	assert_false(hd_check_is(story.check, story.model, version_of(&story)));
	expect(&story, NULL);
	/* It claims a life that is over. */
	begin(&story);
	whole(&story, 0);
	hd_check_restore(story.check, NULL, 0);
	assert_false(hd_check_is(story.check, story.model, version_of(&story)));
	expect(&story, "came back with incarnation");
}

static void test_applied_twice(void **state) {
	struct story story;

	begin(&story);
	whole(&story, 0);
	feed(&story, commit_event(&story, 0, 1, hd_version_make(1, 0)));
	expect(&story, "applied twice");
}

static void test_never_pushed(void **state) {
	struct story story;

	begin(&story);
	whole(&story, 0);
	feed(&story, commit_event(&story, 0, 2, version_of(&story)));
	expect(&story, "never pushed");
}

static void test_applied_in_part(void **state) {
	struct story story;

	begin(&story);
	whole(&story, 0);
	push(&story, 1);
	feed(&story, commit_event(&story, 1, 1, hd_version_make(1, 1)));
	apply(&story, story.salt);
	story.model[VALUES - 1] += story.update[VALUES - 1]; /* the last value stayed out */
	look(&story);
	expect(&story, "value 99");
}

static void test_silent_change(void **state) {
	struct story story;

	begin(&story);
	whole(&story, 0);
	story.model[3] += 1;
	look(&story);
	expect(&story, "not the sum");
}

static void test_commit_without_word(void **state) {
	struct story story;

	begin(&story);
	whole(&story, 0);
	story.counter++;
	look(&story);
	expect(&story, "the server says version");
}

static void test_gap_in_versions(void **state) {
	struct story story;

	begin(&story);
	push(&story, 0);
	story.counter++;
	feed(&story, commit_event(&story, 0, 1, hd_version_make(1, 0)));
	expect(&story, "was next");
}

static void test_delay_beyond_bound(void **state) {
	struct story story;

	begin(&story);
	push(&story, 7); /* base 0 */
	for (uint32_t i = 0; i < TAU - 1; i++)
		whole(&story, 0);
	feed(&story, commit_event(&story, 7, 1, hd_version_make(1, 0)));
	assert_null(hd_check_failure(story.check)); /* exactly the bound */
	hd_check_destroy(story.check);

	begin(&story);
	push(&story, 7);
	for (uint32_t i = 0; i < TAU; i++)
		whole(&story, 0);
	feed(&story, commit_event(&story, 7, 1, hd_version_make(1, 0)));
	expect(&story, "with bound 4");
}

static void test_delay_misreported(void **state) {
	struct story story;
	struct hd_event event;

	begin(&story);
	whole(&story, 0);
	push(&story, 1);
	event = commit_event(&story, 1, 1, hd_version_make(1, 1));
	event.aux = 2;
	feed(&story, event);
	expect(&story, "said 2");
}

static void test_base_exchanged(void **state) {
	struct story story;

	begin(&story);
	push(&story, 1);
	whole(&story, 0);
	feed(&story, commit_event(&story, 1, 1, hd_version_make(1, 1)));
	expect(&story, "at the push");
}

static void test_size_wrong(void **state) {
	struct story story;
	struct hd_event event;

	begin(&story);
	push(&story, 1);
	event = commit_event(&story, 1, 1, hd_version_make(1, 0));
	event.bytes -= 4;
	feed(&story, event);
	expect(&story, "bytes committed");
}

static void test_two_outcomes(void **state) {
	struct story story;

	begin(&story);
	whole(&story, 0);
	outcome(&story, 0, HD_OUTCOME_APPLIED, version_of(&story));
	expect(&story, "two outcomes");
}

static void test_outcome_of_nothing(void **state) {
	struct story story;

	begin(&story);
	story.round[2] = 9;
	outcome(&story, 2, HD_OUTCOME_FAILED, 0);
	expect(&story, "outcome of no push");
}

static void test_dropped_but_applied(void **state) {
	struct story story;
	uint64_t salt;

	begin(&story);
	salt = push(&story, 0);
	commit(&story, 0, salt, hd_version_make(1, 0));
	outcome(&story, 0, HD_OUTCOME_DROPPED, 0);
	expect(&story, "it is in the model");
}

static void test_applied_after_dropped(void **state) {
	struct story story;

	begin(&story);
	push(&story, 0);
	outcome(&story, 0, HD_OUTCOME_DROPPED, 0);
	feed(&story, commit_event(&story, 0, 1, hd_version_make(1, 0)));
	expect(&story, "after its outcome dropped");
}

static void test_applied_but_not(void **state) {
	struct story story;

	begin(&story);
	push(&story, 0);
	outcome(&story, 0, HD_OUTCOME_APPLIED, hd_version_make(1, 1));
	expect(&story, "committed at 0/0");
}

static void test_pull_of_two_versions(void **state) {
	struct story story;
	float mixed[VALUES];

	begin(&story);
	whole(&story, 0);
	memcpy(mixed, story.model, sizeof mixed);
	whole(&story, 0);
	hd_check_pull(story.check, 1, mixed, hd_version_make(1, 1));
	hd_check_pull(story.check, 1, story.model, hd_version_make(1, 2));
	assert_null(hd_check_failure(story.check));
	memcpy(mixed, story.model, sizeof mixed / 2); /* half of one, half of the other */
	hd_check_pull(story.check, 1, mixed, hd_version_make(1, 2));
	expect(&story, "something else than version 1/2");
}

static void test_pull_of_no_version(void **state) {
	struct story story;

	begin(&story);
	whole(&story, 0);
	hd_check_pull(story.check, 1, story.model, hd_version_make(1, 2));
	expect(&story, "never was");
}

static void test_pending_at_the_end(void **state) {
	struct story story;

	begin(&story);
	whole(&story, 0);
	push(&story, 3);
	hd_check_settled(story.check);
	expect(&story, "worker 3 round 1");
}

static void test_hash_sees_every_bit(void **state) {
	float data[VALUES];
	uint64_t hash;

	hd_check_fill(1, data, VALUES);
	hash = hd_check_hash(data, VALUES);
	for (size_t i = 0; i < sizeof data * 8; i++) {
		((uint8_t *)data)[i / 8] ^= (uint8_t)(1u << i % 8);
		assert_true(hd_check_hash(data, VALUES) != hash);
		((uint8_t *)data)[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	for (size_t i = 8; i < VALUES; i++) { /* equal lanes exchanged */
		float kept = data[i];

		data[i] = data[i - 8];
		data[i - 8] = kept;
		assert_true((hd_check_hash(data, VALUES) == hash) == (data[i] == kept));
		data[i - 8] = data[i];
		data[i] = kept;
	}
	assert_true(hd_check_hash(data, VALUES) == hash);
}

static void test_another_weight(void **state) {
	struct story story;
	struct hd_event event;
	hd_version base;

	begin(&story);
	base = version_of(&story);
	(void)push(&story, 0);
	event = commit_event(&story, 0, story.round[0], base);
	event.value = 0.5;
	feed(&story, event);
	expect(&story, "applied with weight 0.5, pushed with 1");
}

/* Changes of membership: all nodes receive the same change, and versions only grow. */
static void test_changes_of_members(void **state) {
	static const struct {
		uint64_t first, second, count;
		const char *says;
	} lies[] = {
		{5, 6, 3, NULL},
		{5, 5, 2, NULL},
		{5, 5, 3, "is two different ones"},
		{6, 5, 2, "w1 goes back"},
		{5, 6, 5, "5 members, and there are 4 ranks"},
		{0x2000000000006, 0x1000000000007, 2, NULL},
	};

	for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
		struct hd_check_listener one = {.name = "w1"}, other = {.name = "w2"};
		struct hd_event event = {.kind = HD_EVENT_ROSTER, .aux = 2, .value = 1};
		struct story story;

		begin(&story);
		hd_check_ranks(story.check, 4);
		event.version = lies[i].first;
		hd_check_members(story.check, &one, &event);
		hd_check_members(story.check, &other, &event);
		event.version = lies[i].second;
		event.aux = lies[i].count;
		hd_check_members(story.check, &one, &event);
		expect(&story, lies[i].says);
	}
}

/* A step of three updates, of which the worker of rank 2 multiplied its own by `theirs`; the server the mean by
 * `steps`, and says that it is of a change. */
struct scaling {
	float theirs, steps;
	uint64_t change;
	double said;
	const char *says;
};

static void tell_step(struct story *story, const struct scaling *how) {
	hd_version base = version_of(story);
	float sum[VALUES] = {0}, mean = how->steps / 3;
	uint64_t salt[3];

	for (uint32_t w = 0; w < 3; w++)
		salt[w] = push(story, w);
	feed(story,
	     (struct hd_event){
		     .kind = HD_EVENT_STEPPED,
		     .version = base + 3,
		     .aux = 3,
		     .position = how->change,
		     .value = how->said,
	     });
	for (uint32_t w = 0; w < 3; w++) {
		struct hd_event event = commit_event(story, w, story->round[w], base);

		event.aux = 0;
		event.more = (uint16_t)(2 - w);
		feed(story, event);
		hd_check_fill(salt[w], story->update, VALUES);
		for (int i = 0; i < VALUES; i++)
			sum[i] += story->update[i] * (w == 2 ? how->theirs : 1);
	}
	for (int i = 0; i < VALUES; i++)
		story->model[i] -= sum[i] * mean;
	look(story);
}

/* A step is of one scale, that of its change. The third is what workers that scale by themselves make of it: one had
 * heard of the change, and two had not. */
static void test_scales_of_a_step(void **state) {
	static const struct scaling tales[] = {
		{1, 0.5F, 6, 0.5, NULL},
		{1, 1, 5, 1, NULL},
		{0.5F, 1, 5, 1, "is not the sum of its updates"},
		{2, 0.5F, 6, 0.5, "is not the sum of its updates"},
		{1, 0.5F, 5, 0.5, "which is not that of change 5"},
		{1, 0.5F, 7, 0.5, "which is not that of change 7"},
		{1, 0.5F, 0, 0.5, NULL}, /* a replica that goes on as the server did */
		{1, 0.25F, 0, 0.25, "which is not that of change 0"},
		{1,
		 1.5F,
		 8,
		 1.5,
		 NULL}, /* no scale is reported: the job's, three updates at a rate for two */
		{1.5F, 1.5F, 8, 1.5, "is not the sum of its updates"},
		{1, 1, 8, 1, "which is not that of change 8"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof tales / sizeof tales[0]; i++) {
		struct hd_check_listener one = {.name = "w1"};
		struct hd_event event
			= {.kind = HD_EVENT_ROSTER, .version = 5, .aux = 3, .value = 1};
		struct story story;

		begin(&story);
		hd_check_ranks(story.check, 4);
		hd_check_steps(story.check, HD_SYNC_N, 3, false);
		hd_check_members(story.check, &one, &event);
		event.version = 6;
		event.value = 0.5;
		hd_check_members(story.check, &one, &event);
		hd_check_scale(story.check, 2);
		event.version = 8;
		event.value = 0;
		hd_check_members(story.check, &one, &event);
		tell_step(&story, &tales[i]);
		expect(&story, tales[i].says);
	}
}

/* No node goes back to an earlier change. */
static void test_scales_in_order(void **state) {
	struct hd_check_listener one = {.name = "w1"};
	struct hd_event event = {.kind = HD_EVENT_ROSTER, .version = 5, .aux = 3, .value = 1};
	struct story story;

	(void)state;
	begin(&story);
	hd_check_ranks(story.check, 4);
	hd_check_steps(story.check, HD_SYNC_N, 3, false);
	hd_check_members(story.check, &one, &event);
	event.version = 6;
	hd_check_members(story.check, &one, &event);
	tell_step(&story, &(struct scaling){1, 1, 6, 1, NULL});
	tell_step(&story, &(struct scaling){1, 1, 5, 1, NULL});
	expect(&story, "which is over");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounded_pulls),
		cmocka_unit_test(test_sparse_taken_for_dense),
		cmocka_unit_test(test_truth_passes),
		cmocka_unit_test(test_first_seen_by_the_replica),
		cmocka_unit_test(test_applied_twice),
		cmocka_unit_test(test_never_pushed),
		cmocka_unit_test(test_applied_in_part),
		cmocka_unit_test(test_silent_change),
		cmocka_unit_test(test_commit_without_word),
		cmocka_unit_test(test_gap_in_versions),
		cmocka_unit_test(test_delay_beyond_bound),
		cmocka_unit_test(test_delay_misreported),
		cmocka_unit_test(test_base_exchanged),
		cmocka_unit_test(test_size_wrong),
		cmocka_unit_test(test_two_outcomes),
		cmocka_unit_test(test_outcome_of_nothing),
		cmocka_unit_test(test_dropped_but_applied),
		cmocka_unit_test(test_applied_after_dropped),
		cmocka_unit_test(test_applied_but_not),
		cmocka_unit_test(test_pull_of_two_versions),
		cmocka_unit_test(test_pull_of_no_version),
		cmocka_unit_test(test_pending_at_the_end),
		cmocka_unit_test(test_scales_of_a_step),
		cmocka_unit_test(test_scales_in_order),
		cmocka_unit_test(test_hash_sees_every_bit),
		cmocka_unit_test(test_another_weight),
		cmocka_unit_test(test_changes_of_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
