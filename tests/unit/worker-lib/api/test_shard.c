/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle_shard(): every row is one worker's, shares are near each other, and little moves. */
#include "heddle.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANGES 65536
#define NO_RANK UINT16_MAX

static struct heddle_range ranges[RANGES];

struct group {
	uint32_t count;
	int rank[HEDDLE_WORKERS_MAX];
};

static struct group first(uint32_t count) {
	struct group members = {.count = count};

	for (uint32_t i = 0; i < count; i++)
		members.rank[i] = (int)i;
	return members;
}

static void leave(struct group *members, uint32_t index) {
	memmove(&members->rank[index],
		&members->rank[index + 1],
		(members->count - index - 1) * sizeof members->rank[0]);
	members->count--;
}

/* Whose each row is; fails when one is no worker's or two workers'. Returns the largest share. */
static uint64_t deal(const struct group *members, uint64_t rows, uint16_t *owner) {
	uint64_t most = 0, all = 0;

	memset(owner, 0xff, rows * sizeof owner[0]);
	for (uint32_t i = 0; i < members->count; i++) {
		long count = heddle_shard(
			members->rank, members->count, rows, members->rank[i], ranges, RANGES
		);
		uint64_t mine = 0, end = 0;

		assert_in_range(count, 0, RANGES);
		for (long k = 0; k < count; k++) {
			/* Ascending, and neighbours are one range. */
			assert_true(k == 0 || ranges[k].first > end);
			assert_true(ranges[k].count > 0);
			end = ranges[k].first + ranges[k].count;
			assert_true(end <= rows);
			for (uint64_t row = ranges[k].first; row < end; row++) {
				assert_int_equal(owner[row], NO_RANK);
				owner[row] = (uint16_t)members->rank[i];
			}
			mine += ranges[k].count;
		}
		most = mine > most ? mine : most;
		all += mine;
	}
	assert_int_equal(all, rows);
	return most;
}

static uint64_t bound(uint64_t rows, uint32_t workers) {
	uint64_t blocks = rows < 65536 ? rows : 65536;
	double mean = (double)blocks / workers;
	uint64_t room = (uint64_t)(mean + fmax(mean / 4, 4 * sqrt(mean))) + 1;

	return blocks == 0 ? 0 : room * ((rows + blocks - 1) / blocks);
}

static uint64_t
moved(const uint16_t *before, const uint16_t *after, uint64_t rows, uint16_t who, uint64_t *others
) {
	uint64_t count = 0;

	*others = 0;
	for (uint64_t row = 0; row < rows; row++) {
		count += before[row] != after[row];
		*others += before[row] != after[row] && before[row] != who && after[row] != who;
	}
	return count;
}

/* One leaves and comes back, of each size of data set and job. */
static void test_one_goes_and_comes(void **state) {
	static const uint64_t sizes[] = {0, 1, 7, 360, 1437, 60000, 65537, 200000};
	static const uint32_t jobs[] = {2, 3, 8, 17, 64};
	uint16_t *before = malloc(200000 * sizeof *before), *after = malloc(200000 * sizeof *after);

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
		for (size_t j = 0; j < sizeof jobs / sizeof jobs[0]; j++) {
			uint64_t rows = sizes[s], all = 0, others_all = 0;
			uint32_t n = jobs[j], tries = n < 4 ? n : 4;

			if (rows > 20000 && n > 8)
				continue; /* n times 65,536 weights of n workers each: long */

			for (uint32_t gone = 0; gone < tries; gone++) {
				struct group members = first(n);
				uint16_t who = (uint16_t)(gone * n / tries);
				uint64_t others;

				assert_true(deal(&members, rows, before) <= bound(rows, n));
				leave(&members, who);
				assert_true(deal(&members, rows, after) <= bound(rows, n - 1));
				all += moved(before, after, rows, who, &others);
				others_all += others;
			}
			/* Beyond the rows of the one who left hardly anything moves: a hundredth of its rows. */
			if (rows >= 1437) {
				double share = (double)all / (double)(tries * rows);

				assert_true(share < 1.25 / n + 0.001);
				assert_true((double)others_all <= 0.01 * (double)all + 2);
			}
		}
	free(before);
	free(after);
}

/* The usual case, in figures: 60,000 rows and 8 workers, whose shares differ by a few hundredths. */
static void test_shares_are_even(void **state) {
	uint16_t *owner = malloc(60000 * sizeof *owner);
	struct group members = first(8);
	uint64_t count[8] = {0};

	(void)state;
	(void)deal(&members, 60000, owner);
	for (uint64_t row = 0; row < 60000; row++)
		count[owner[row]]++;
	for (int i = 0; i < 8; i++)
		assert_in_range(count[i], 7200, 7800);
	free(owner);
}

/* Ranks with holes, far apart; the same for each caller, also with too little room, which only counts. */
static void test_ranks_and_room(void **state) {
	struct group members = {0};
	uint16_t *owner = malloc(5000 * sizeof *owner);
	struct heddle_range some[3];
	long count;

	(void)state;
	members.count = 3;
	members.rank[0] = 5;
	members.rank[1] = 77;
	members.rank[2] = HEDDLE_WORKERS_MAX - 1;
	(void)deal(&members, 5000, owner);
	count = heddle_shard(members.rank, members.count, 5000, 77, ranges, RANGES);
	assert_true(count > 3);
	assert_int_equal(heddle_shard(members.rank, members.count, 5000, 77, NULL, 0), count);
	assert_int_equal(heddle_shard(members.rank, members.count, 5000, 77, some, 3), count);
	assert_memory_equal(some, ranges, sizeof some);
	/* Alone: everything, in one range. */
	members.count = 1;
	assert_int_equal(heddle_shard(members.rank, members.count, 5000, 5, some, 3), 1);
	assert_int_equal(some[0].first, 0);
	assert_int_equal(some[0].count, 5000);
	assert_int_equal(
		heddle_shard(members.rank, members.count, UINT64_C(1) << 47, 5, some, 3), 1
	);
	assert_int_equal(some[0].count, UINT64_C(1) << 47);
	free(owner);
}

/* All workers must compute this, in every build and on every machine. */
static void test_is_the_same_everywhere(void **state) {
	struct group members = first(4);
	uint64_t sum = 0;

	(void)state;
	for (int rank = 0; rank < 4; rank++) {
		long count = heddle_shard(members.rank, members.count, 1797, rank, ranges, RANGES);

		for (long k = 0; k < count; k++)
			sum = sum * UINT64_C(6364136223846793005) + ranges[k].first * 4096
				+ ranges[k].count + (uint64_t)rank;
	}
	assert_true(sum == UINT64_C(0xaa0dbe876d1cda8e));
}

static void test_scale(void **state) {
	struct heddle_members members = HEDDLE_MEMBERS_INIT;

	(void)state;
	members.count = 6;
	assert_float_equal(heddle_members_scale(&members, 4, 0), 1.5, 0);
	assert_float_equal(heddle_members_scale(&members, 12, 0), 0.5, 0);
	assert_float_equal(heddle_members_scale(&members, 4000, 0), 6.0f / 4000.0f, 0);
	assert_float_equal(heddle_members_scale(&members, 4, 1.25f), 1.25, 0);
	assert_float_equal(heddle_members_scale(&members, 4, NAN), 1.5, 0);
	members.count = 5;
	assert_float_equal(heddle_members_scale(&members, 4, 0), 1.25, 0);
	members.count = 40;
	assert_float_equal(heddle_members_scale(&members, 2, 0), HEDDLE_SCALE_MAX, 0);
	assert_float_equal(heddle_members_scale(&members, 2, 100), 20, 0);
	/* Nothing to go by. */
	assert_float_equal(heddle_members_scale(&members, 0, 0), 1, 0);
	assert_float_equal(heddle_members_scale(NULL, 2, 0), 1, 0);
	members.count = 0;
	assert_float_equal(heddle_members_scale(&members, 2, 0), 1, 0);
}

static void test_errors(void **state) {
	struct group members = first(4);

	(void)state;
	assert_int_equal(heddle_shard(NULL, 1, 10, 0, NULL, 0), -EINVAL);
	assert_int_equal(heddle_shard(members.rank, members.count, 10, 4, NULL, 0), -ENOENT);
	assert_int_equal(heddle_shard(members.rank, members.count, 10, -1, NULL, 0), -ENOENT);
	assert_int_equal(
		heddle_shard(members.rank, members.count, (UINT64_C(1) << 47) + 1, 0, NULL, 0),
		-E2BIG
	);
	members.rank[2] = 1;
	assert_int_equal(heddle_shard(members.rank, members.count, 10, 0, NULL, 0), -EINVAL);
	members = first(4);
	assert_int_equal(
		heddle_shard(members.rank, HEDDLE_WORKERS_MAX + 1, 10, 0, NULL, 0), -EINVAL
	);
	members = first(0);
	assert_int_equal(heddle_shard(members.rank, members.count, 10, 0, NULL, 0), -ENOENT);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_goes_and_comes),
		cmocka_unit_test(test_shares_are_even),
		cmocka_unit_test(test_ranks_and_room),
		cmocka_unit_test(test_is_the_same_everywhere),
		cmocka_unit_test(test_scale),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
