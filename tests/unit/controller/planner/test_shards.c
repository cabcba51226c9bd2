/* SPDX-License-Identifier: BSD-3-Clause */
/* Shards of an all-reduce: by hand, and against a search over all cuts of small ones. */
#include "hd_random.h"
#include "hd_shards.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOSTS_MAX 4
#define PARTS 24 /* of the bytes that the search cuts in */

static struct hd_shards_host host(double capacity, uint32_t workers, bool aggregator) {
	return (struct hd_shards_host){
		.out = capacity,
		.in = capacity,
		.workers = workers,
		.aggregator = aggregator,
		.room = INFINITY,
	};
}

/* Each transfer that crosses a link, one by one: of each worker that gives a shard, and of each that receives it. */
static double slowest(const struct hd_shards_host *hosts, uint32_t count, double bytes) {
	double most = 0;

	for (uint32_t h = 0; h < count; h++) {
		double out = 0, in = 0;

		for (uint32_t at = 0; at < count; at++)
			for (uint32_t of = 0; of < count; of++) {
				const double gives = hosts[of].workers - hosts[of].not_giving;
				const double takes = hosts[of].workers - hosts[of].not_receiving;
				const double shard = (double)hosts[at].bytes;

				if (at == of || (h != at && h != of))
					continue;
				out += shard * (h == of ? gives : takes);
				in += shard * (h == of ? takes : gives);
			}
		most = fmax(most, fmax(out / hosts[h].out, in / hosts[h].in));
	}
	(void)bytes;
	return most;
}

/* Equal links: as a ring. */
static void test_equal(void **state) {
	for (uint32_t n = 2; n <= 8; n *= 2) {
		struct hd_shards_host hosts[8];
		double seconds;

		for (uint32_t i = 0; i < n; i++)
			hosts[i] = host(100, 1, true);
		assert_int_equal(hd_shards_cut(hosts, n, 8000, 4, &seconds), 0);
		assert_float_equal(seconds, 2.0 * (n - 1) / n * 80, 1e-4);
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(hosts[i].bytes, 8000 / n);
	}
}

/* One link has a fifth: it gets no shard, and is crossed once each way. */
static void test_loaded(void **state) {
	struct hd_shards_host hosts[4];
	double seconds;

	for (uint32_t i = 0; i < 4; i++)
		hosts[i] = host(i == 1 ? 20 : 100, 1, true);
	assert_int_equal(hd_shards_cut(hosts, 4, 900, 4, &seconds), 0);
	assert_float_equal(seconds, 45, 1e-4); /* a ring: 67.5 */
	assert_int_equal(hosts[1].bytes, 0);
	assert_int_equal(hosts[0].bytes, 300);
}

/* One root, all others receive: its link is left once, and each other passes on a part. A reduce is the reverse. */
static void test_root(void **state) {
	for (int reduce = 0; reduce < 2; reduce++)
		for (uint32_t n = 2; n <= 8; n *= 2) {
			struct hd_shards_host hosts[8];
			double seconds;

			for (uint32_t i = 0; i < n; i++) {
				hosts[i] = host(100, 1, true);
				*(reduce ? &hosts[i].not_receiving : &hosts[i].not_giving) = i != 1;
				*(reduce ? &hosts[i].not_giving : &hosts[i].not_receiving)
					= !reduce && i == 1;
			}
			assert_int_equal(hd_shards_cut(hosts, n, 84000, 4, &seconds), 0);
			assert_float_equal(seconds, 840, 1e-3);
			assert_float_equal(slowest(hosts, n, 84000), 840, 1e-3);
			for (uint32_t i = 0; n > 2 && i < n; i++)
				assert_int_equal(hosts[i].bytes, i == 1 ? 0 : 84000 / (n - 1));
		}
}

/* Aggregators apart from the workers, of which one has little memory. */
static void test_apart(void **state) {
	struct hd_shards_host hosts[4] = {
		host(100, 1, false), host(100, 1, false), host(100, 0, true), host(300, 0, true)};
	double seconds;

	assert_int_equal(hd_shards_cut(hosts, 4, 1000, 4, &seconds), 0);
	assert_float_equal(seconds, 10, 1e-4);
	hosts[3].room = 400;
	assert_int_equal(hd_shards_cut(hosts, 4, 1000, 4, &seconds), 0);
	assert_int_equal(hosts[3].bytes, 400);
	assert_float_equal(seconds, 12, 1e-4);
	hosts[2].room = 500;
	assert_int_equal(hd_shards_cut(hosts, 4, 1000, 4, &seconds), -ENOSPC);
}

/* All workers on one host: nothing crosses its link. */
static void test_one_host(void **state) {
	struct hd_shards_host hosts[2] = {host(1, 4, true), host(100, 0, true)};
	double seconds;

	assert_int_equal(hd_shards_cut(hosts, 2, 1000, 4, &seconds), 0);
	assert_int_equal(hosts[0].bytes, 1000);
	assert_true(seconds < 1e-3);
}

/* Less than a grain: one shard. */
static void test_small(void **state) {
	struct hd_shards_host hosts[3]
		= {host(100, 1, true), host(100, 1, true), host(100, 1, true)};
	double seconds;
	int shards = 0;

	assert_int_equal(hd_shards_cut(hosts, 3, 12, 10000, &seconds), 0);
	for (int i = 0; i < 3; i++) {
		assert_true(hosts[i].bytes == 0 || hosts[i].bytes == 12);
		shards += hosts[i].bytes > 0;
	}
	assert_int_equal(shards, 1);
}

static void test_refused(void **state) {
	struct hd_shards_host hosts[2] = {host(1, 1, true), host(0, 1, true)};
	double seconds;

	assert_int_equal(hd_shards_cut(hosts, 2, 1000, 4, &seconds), -EINVAL);
	hosts[1] = host(1, 1, true);
	assert_int_equal(hd_shards_cut(hosts, 2, 0, 4, &seconds), -EINVAL);
	assert_int_equal(hd_shards_cut(hosts, 2, 1000, 0, &seconds), -EINVAL);
	hosts[0].workers = hosts[1].workers = 0;
	assert_int_equal(hd_shards_cut(hosts, 2, 1000, 4, &seconds), -EINVAL);
	hosts[0] = host(1, 1, false);
	hosts[1] = host(1, 1, false);
	assert_int_equal(hd_shards_cut(hosts, 2, 1000, 4, &seconds), -ENOSPC);
}

/* The best of all ways to cut into PARTS. */
static double search(const struct hd_shards_host *like, uint32_t count, uint64_t bytes) {
	struct hd_shards_host hosts[HOSTS_MAX];
	uint32_t parts[HOSTS_MAX];
	double best = INFINITY;

	for (uint32_t code = 0; code < 1u << 20; code++) {
		uint32_t left = PARTS, rest = code;
		bool may = true;

		memcpy(hosts, like, count * sizeof *hosts);
		for (uint32_t i = 0; i + 1 < count; i++, rest /= PARTS + 1) {
			parts[i] = rest % (PARTS + 1);
			may = may && parts[i] <= left;
			left -= may ? parts[i] : 0;
		}
		if (rest != 0)
			break;
		parts[count - 1] = left;
		for (uint32_t i = 0; may && i < count; i++) {
			hosts[i].bytes = bytes / PARTS * parts[i];
			may = parts[i] == 0
				|| (hosts[i].aggregator && (double)hosts[i].bytes <= hosts[i].room);
		}
		if (may)
			best = fmin(best, slowest(hosts, count, (double)bytes));
	}
	return best;
}

static void test_no_cut_is_better(void **state) {
	struct hd_random random;

	hd_random_init(&random, 5);
	for (int round = 0; round < 300; round++) {
		uint32_t count = 1 + (uint32_t)hd_random_below(&random, HOSTS_MAX);
		uint64_t bytes = UINT64_C(4800) * PARTS, sum = 0;
		struct hd_shards_host hosts[HOSTS_MAX];
		double seconds, best;
		int error;

		for (uint32_t i = 0; i < count; i++) {
			hosts[i]
				= host(1 + (double)hd_random_below(&random, 9),
				       (uint32_t)hd_random_below(&random, 4),
				       hd_random_below(&random, 3) > 0);
			if (round % 3 == 1) /* some of them do not give, or do not receive */
				hosts[i].not_giving
					= (uint32_t)hd_random_below(&random, hosts[i].workers + 1);
			if (round % 3 > 0)
				hosts[i].not_receiving
					= (uint32_t)hd_random_below(&random, hosts[i].workers + 1);
			hosts[i].in += round % 3 ? (double)hd_random_below(&random, 5) : 0;
			if (hd_random_below(&random, 4) == 0)
				hosts[i].room = (double
				)(UINT64_C(4800) * hd_random_below(&random, PARTS));
		}
		error = hd_shards_cut(hosts, count, bytes, 4, &seconds);
		best = search(hosts, count, bytes);
		if (error != 0) {
			assert_true(error == -EINVAL || isinf(best));
			continue;
		}
		for (uint32_t i = 0; i < count; i++) {
			assert_true((double)hosts[i].bytes <= hosts[i].room + 4);
			assert_true(hosts[i].aggregator || hosts[i].bytes == 0);
			sum += hosts[i].bytes;
		}
		assert_int_equal(sum, bytes);
		assert_true(seconds <= best * (1 + 1e-6) + 1e-3);
		/* Whole grains: a few bytes more. */
		assert_true(slowest(hosts, count, (double)bytes) <= seconds + 64);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_loaded),
		cmocka_unit_test(test_root),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_one_host),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_no_cut_is_better),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
