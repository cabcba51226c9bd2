/* SPDX-License-Identifier: BSD-3-Clause */
/* The shape of what the significance filter does on sparse models (MLLess, arXiv 2206.05786): bytes are cut by 2.5 and
 * more at v = 0.7 for at most a hundredth of the loss, more threshold sends less, and the same seed gives the same. */
#include "sparse_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 3
#define THRESHOLDS 4

struct shape {
	double cut, loss,
		all; /* bytes; loss; the same had each worker sent all that it held at the end */
};

static struct shape check_shape(const struct sparse_setting *setting, double learned) {
	static const float thresholds[THRESHOLDS] = {0, 0.1f, 0.7f, 2};
	struct sparse_setting flushing = *setting;
	struct shape mean = {0};

	flushing.end = SPARSE_END_ALL;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sparse_result result[THRESHOLDS], again, all;

		for (int i = 0; i < THRESHOLDS; i++)
			sparse_run(setting, seed, thresholds[i], 1, &result[i]);
		assert_true(result[0].loss < learned * result[0].before);
		for (int i = 1; i < THRESHOLDS; i++) {
			assert_true(result[i].values < result[i - 1].values);
			assert_true(result[i].bytes < result[i - 1].bytes);
		}
		mean.cut += (double)result[0].bytes / (double)result[2].bytes / SEEDS;
		mean.loss += (result[2].loss / result[0].loss - 1) / SEEDS;
		sparse_run(&flushing, seed, thresholds[2], 1, &all);
		mean.all += (all.loss / result[0].loss - 1) / SEEDS;
		sparse_run(setting, seed, thresholds[2], 1, &again);
		assert_memory_equal(&again, &result[2], sizeof again);
	}
	print_message(
		"%s: bytes / %.2f, loss %+.2f %%, all at once %+.2f %%\n",
		setting->model,
		mean.cut,
		100 * mean.loss,
		100 * mean.all
	);
	return mean;
}

static void test_logistic(void **state) {
	struct shape mean = check_shape(&sparse_logistic, 0.9);

	assert_true(mean.cut >= 2.5);
	assert_true(mean.loss <= 0.01);
}

/* The loss ends 250 times below its beginning, at the ratings' noise: what four workers hold is mostly noise, and all
 * of it at once four times that of one. */
static void test_ratings(void **state) {
	struct shape mean = check_shape(&sparse_ratings, 0.01);

	assert_true(mean.cut >= 2.5);
	assert_true(mean.loss <= 0.01);
	assert_true(mean.all > 0.05);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_logistic),
		cmocka_unit_test(test_ratings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
