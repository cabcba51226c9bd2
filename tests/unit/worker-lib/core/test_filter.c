/* SPDX-License-Identifier: BSD-3-Clause */
/* The significance filter: known values, nothing is lost, no threshold changes no bit, and every kernel the same. */
#include "hd_filter.h"
#include "hd_kernels_impl.h"
#include "hd_random.h"
#include "heddle.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOTHING HEDDLE_FILTER_RESULT_NOTHING
#define SPARSE HEDDLE_FILTER_RESULT_SPARSE
#define VALUES 1003
#define STEPS 200
#define KNOWN 4
#define ROOM 32 /* with zeros behind them, runs are shorter than the dense update */

/* --- known values (ISP by hand, four weights) ----------------------------------------------- */

struct known {
	float v;
	size_t counts[6]; /* of values sent in each step */
	struct {
		int step;
		uint64_t index;
		float value;
	} sent[9];
	float held[KNOWN];
};

static void check_known(const struct known *known) {
	const float update[2][KNOWN]
		= {{0.1f, -0.01f, 0.001f, 0.5f}, {0.1f, -0.01f, 0.001f, -0.5f}};
	const float last[KNOWN] = {1.6f, 0.94f, 1.006f, 0};
	struct heddle_filter_options options = HEDDLE_FILTER_OPTIONS_INIT;
	float x[ROOM] = {1, 1, 1, 0}, u[ROOM] = {0};
	struct heddle_filter *filter;
	struct heddle_sparse sparse;
	size_t next = 0;

	options.v = known->v;
	assert_int_equal(heddle_filter_create(ROOM, &options, &filter), 0);
	for (int step = 1; step <= 6; step++) {
		size_t at = 0;

		memset(u, 0, sizeof u);
		memcpy(u, update[step == 1 ? 0 : 1], sizeof update[0]);
		u[3] = step > 2 ? 0 : u[3];
		assert_int_equal(
			heddle_filter_apply(filter, x, u, (uint64_t)step, &sparse),
			known->counts[step - 1] == 0 ? NOTHING : SPARSE
		);
		for (size_t i = 0; i < sparse.range_count; i++)
			for (uint64_t k = 0; k < sparse.ranges[i].count; k++, next++, at++) {
				assert_int_equal(known->sent[next].step, step);
				assert_int_equal(
					known->sent[next].index, sparse.ranges[i].first + k
				);
				assert_float_equal(sparse.data[at], known->sent[next].value, 1e-6);
				assert_float_equal(u[known->sent[next].index], sparse.data[at], 0);
			}
		assert_int_equal(at, known->counts[step - 1]);
	}
	for (size_t i = 0; i < KNOWN; i++) {
		assert_float_equal(x[i], last[i], 1e-6);
		assert_float_equal(heddle_filter_held(filter)[i], known->held[i], 1e-6);
	}
	heddle_filter_destroy(filter);
}

static void test_known_values(void **state) {
	check_known(&(struct known){
		0.1f,
		{1, 2, 1, 1, 2, 1},
		{{1, 3, 0.5f},
		 {2, 0, 0.2f},
		 {2, 3, -0.5f},
		 {3, 0, 0.1f},
		 {4, 0, 0.1f},
		 {5, 0, 0.1f},
		 {5, 1, -0.05f},
		 {6, 0, 0.1f}},
		{0, -0.01f, 0.006f, 0},
	});
	check_known(&(struct known){
		0.7f,
		{1, 1, 0, 0, 1, 0},
		{{1, 3, 0.5f}, {2, 3, -0.5f}, {5, 0, 0.5f}},
		{0.1f, -0.06f, 0.006f, 0},
	});
}

static void test_thresholds(void **state) {
	const struct hd_filter_settings settings = {.v = 0.7f, .factor = 1, .block = 1};
	const double expected[] = {0.7, 0.494975, 0.404145, 0.35, 0.313050, 0.285774};
	struct hd_significance filter;

	assert_int_equal(hd_filter_init(&filter, 4, &settings), 0);
	for (uint64_t t = 1; t <= 6; t++)
		assert_float_equal(hd_filter_threshold(&filter, t), expected[t - 1], 1e-6);
	filter.settings.constant = true;
	assert_float_equal(hd_filter_threshold(&filter, 50), 0.7, 1e-7);
	hd_filter_fini(&filter);
}

/* --- nothing is lost ------------------------------------------------------------------------ */

static float draw(struct hd_random *random) {
	double u = hd_random_unit(random);

	/* Most values are small, some are 0, few are large: as gradients are. */
	return u < 0.3 ? 0.0f : (float)((hd_random_unit(random) - 0.5) * exp(8 * u - 8));
}

struct ledger {
	double computed[VALUES], sent[VALUES], most[VALUES];
};

static void note_sparse(struct ledger *ledger, const struct hd_significance *filter) {
	const float *x = filter->data;

	for (size_t i = 0; i < filter->run_count; i++)
		for (uint64_t k = 0; k < filter->runs[i].count; k++)
			ledger->sent[filter->runs[i].first + k] += (double)*x++;
}

/* sent + held = computed: each step rounds the sum once. */
static void assert_balanced(const struct ledger *ledger, const struct hd_significance *filter) {
	for (size_t i = 0; i < VALUES; i++) {
		double both = ledger->sent[i] + (double)filter->held[i];

		assert_true(fabs(both - ledger->computed[i]) <= ledger->most[i] * STEPS * 0x1p-23);
	}
}

static void check_balance(const struct hd_filter_settings *settings, uint64_t seed) {
	struct ledger *ledger = calloc(1, sizeof *ledger);
	float x[VALUES], u[VALUES], again[VALUES];
	struct hd_significance filter;
	struct hd_random random;
	size_t silent = 0, sparse = 0;

	hd_random_init(&random, seed);
	assert_int_equal(hd_filter_init(&filter, VALUES, settings), 0);
	for (size_t i = 0; i < VALUES; i++)
		x[i] = draw(&random);
	for (uint64_t step = 1; step <= STEPS; step++) {
		enum hd_filter_result result;

		for (size_t i = 0; i < VALUES; i++) {
			u[i] = draw(&random) * (step % 7 == 0 ? 0.0f : 0.1f);
			ledger->computed[i] += (double)u[i];
			ledger->most[i] += fabs((double)u[i]);
		}
		result = hd_filter_step(&filter, x, u, step, step == STEPS / 2);
		memcpy(again, u, sizeof u);
		if (result == HD_FILTER_SPARSE && hd_random_chance(&random, 0.1))
			hd_filter_put_back(&filter, u); /* dropped in the network */
		else if (result == HD_FILTER_SPARSE)
			note_sparse(ledger, &filter);
		else
			for (size_t i = 0; i < VALUES; i++)
				ledger->sent[i] += (double)u[i];
		silent += result == HD_FILTER_NOTHING;
		sparse += result == HD_FILTER_SPARSE;
		assert_memory_equal(again, u, sizeof u);
		assert_balanced(ledger, &filter);
		assert_true(
			fabs(filter.held2 - hd_norm2_f32(filter.held, VALUES))
			<= 1e-6 * (filter.held2 + 1e-9)
		);
	}
	assert_true(sparse > 0);
	assert_true(settings->always ? silent == 0 : true);
	if (hd_filter_flush(&filter) == HD_FILTER_SPARSE)
		note_sparse(ledger, &filter);
	else
		for (size_t i = 0; i < VALUES; i++)
			ledger->sent[i] += (double)filter.held[i];
	hd_filter_clear(&filter);
	assert_balanced(ledger, &filter);
	assert_int_equal(hd_filter_flush(&filter), HD_FILTER_NOTHING);
	hd_filter_fini(&filter);
	free(ledger);
}

static void test_nothing_is_lost(void **state) {
	const struct hd_filter_settings settings[] = {
		{.v = 0.7f, .factor = -0.5f, .block = 1},
		{.v = 0.7f, .factor = -0.5f, .block = 1, .bridge = 2},
		{.v = 3, .factor = 1, .block = 1, .constant = true, .always = true},
		{.v = 0.7f, .factor = -0.5f, .block = 64},
		{.v = 5, .factor = -0.5f, .block = 17, .constant = true, .always = true},
		{.v = 1e6f, .factor = 1, .block = 16, .constant = true, .always = true},
		{.v = 1e-6f, .factor = 1, .block = 1},
	};

	for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
		for (uint64_t seed = 1; seed <= 5; seed++)
			check_balance(&settings[i], seed);
}

/* x_local = x_server + factor a: a fresh model and what is held make the model that was had before. */
static void test_reapply(void **state) {
	const struct hd_filter_settings settings = {.v = 0.5f, .factor = -0.25f, .block = 1};
	float server[VALUES], local[VALUES], u[VALUES];
	struct hd_significance filter;
	struct hd_random random;

	hd_random_init(&random, 3);
	assert_int_equal(hd_filter_init(&filter, VALUES, &settings), 0);
	for (size_t i = 0; i < VALUES; i++)
		server[i] = local[i] = (float)hd_random_unit(&random) + 0.5f;
	for (uint64_t step = 1; step <= 50; step++) {
		for (size_t i = 0; i < VALUES; i++)
			u[i] = draw(&random);
		(void)hd_filter_step(&filter, local, u, step, false);
		for (size_t i = 0; i < VALUES; i++)
			server[i] += settings.factor * u[i]; /* what the server does with it */
		memcpy(u, server, sizeof u);
		hd_filter_reapply(&filter, u);
		for (size_t i = 0; i < VALUES; i++)
			assert_float_equal(u[i], local[i], 1e-5);
	}
	assert_true(filter.held2 > 0);
	hd_filter_fini(&filter);
}

/* --- no threshold --------------------------------------------------------------------------- */

static void test_no_threshold_changes_no_bit(void **state) {
	for (uint32_t block = 1; block <= 64; block += 63) {
		const struct hd_filter_settings settings
			= {.v = 0, .factor = -0.1f, .block = block};
		float x[VALUES], before[VALUES], u[VALUES], sent[VALUES] = {0};
		struct hd_significance filter;
		struct hd_random random;
		size_t at = 0;

		hd_random_init(&random, 9);
		assert_int_equal(hd_filter_init(&filter, VALUES, &settings), 0);
		for (size_t i = 0; i < VALUES; i++) {
			x[i] = draw(&random);
			u[i] = hd_random_chance(&random, 0.2) ? draw(&random) : -0.0f;
		}
		memcpy(before, u, sizeof u);
		assert_int_equal(hd_filter_step(&filter, x, u, 1, false), HD_FILTER_SPARSE);
		assert_memory_equal(before, u, sizeof u); /* -0 included */
		for (size_t i = 0; i < filter.run_count; i++)
			for (uint64_t k = 0; k < filter.runs[i].count; k++)
				sent[filter.runs[i].first + k] = filter.data[at++];
		for (size_t i = 0; i < VALUES; i++) {
			assert_true(sent[i] == u[i]);
			assert_true(filter.held[i] == 0);
		}
		assert_int_equal(at, filter.sent);
		hd_filter_put_back(&filter, u);
		assert_int_equal(hd_filter_flush(&filter), HD_FILTER_NOTHING);
		hd_filter_fini(&filter);
	}
}

/* --- details -------------------------------------------------------------------------------- */

static void test_zero_weight_and_nan(void **state) {
	const struct hd_filter_settings settings
		= {.v = 1e6f, .factor = 1, .block = 1, .constant = true};
	float x[4] = {-1e-30f, 5, 0, 1}, u[4] = {1e-30f, NAN, 0, INFINITY};
	struct hd_significance filter;

	assert_int_equal(hd_filter_init(&filter, 4, &settings), 0);
	/* The first ends at 0 and goes, NaN and Inf go (and are refused further on), nothing at 0 stays. */
	(void)hd_filter_step(&filter, x, u, 1, false);
	assert_int_equal(filter.sent, 3);
	assert_int_equal(filter.mask[0], 11);
	hd_filter_put_back(&filter, u);
	assert_true(filter.held[0] > 0 && filter.held[1] == 0 && filter.held[3] == 0);
	hd_filter_fini(&filter);
}

static void test_blocks_go_whole(void **state) {
	const struct hd_filter_settings settings = {.v = 0.5f, .factor = 1, .block = 4};
	float x[10] = {1, 1, 1, 1, 1, 1, 1, 1, 3, 4}, u[10] = {0, 2, 0, 0, 0.1f, 0, 0, 0, 2, 2.5f};
	struct hd_significance filter;

	assert_int_equal(hd_filter_init(&filter, 10, &settings), 0);
	/* |a| / |x| of the blocks: 2 / sqrt(12), 0.1 / sqrt(4.21), sqrt(10.25) / sqrt(67.25) */
	assert_int_equal(hd_filter_step(&filter, x, u, 1, false), HD_FILTER_SPARSE);
	assert_int_equal(filter.run_count, 1);
	assert_int_equal(filter.runs[0].first, 0);
	assert_int_equal(filter.runs[0].count, 4);
	assert_float_equal(filter.held2, 0.01 + 10.25, 1e-6);
	/* v_2 = 0.35: the last block, of two values, goes now. */
	memset(u, 0, sizeof u);
	assert_int_equal(hd_filter_step(&filter, x, u, 2, false), HD_FILTER_SPARSE);
	assert_int_equal(filter.runs[0].first, 8);
	assert_int_equal(filter.runs[0].count, 2);
	assert_float_equal(filter.data[1], 2.5, 0);
	hd_filter_fini(&filter);
}

static void test_gaps_go_along(void **state) {
	const struct hd_filter_settings settings
		= {.v = 0.5f, .factor = 1, .block = 1, .bridge = 2};
	float x[9] = {0, 1, 1, 0, 1, 1, 1, 0, 1}, u[9] = {1, 0.1f, 0, 1, 0.1f, 0.1f, 0.1f, 1, 0.1f};
	struct hd_significance filter;

	assert_int_equal(hd_filter_init(&filter, 9, &settings), 0);
	assert_int_equal(hd_filter_step(&filter, x, u, 1, false), HD_FILTER_SPARSE);
	assert_int_equal(filter.run_count, 2);
	assert_int_equal(filter.runs[0].count, 4);
	assert_int_equal(filter.runs[1].first, 7);
	assert_float_equal(filter.data[1], 0.1, 1e-7);
	assert_float_equal(filter.held[1], 0, 0);
	assert_float_equal(filter.held[8], 0.1, 1e-7);
	assert_float_equal(filter.held2, 4 * 0.01, 1e-6);
	hd_filter_fini(&filter);
}

/* --- kernels -------------------------------------------------------------------------------- */

static void fill(struct hd_random *random, float *x, size_t count) {
	for (size_t i = 0; i < count; i++) {
		uint64_t pick = hd_random_below(random, 40);

		x[i] = pick == 0  ? -0.0f :
			pick == 1 ? 1e-41f :
			pick == 2 ? 3e38f :
			pick == 3 ? NAN :
			pick == 4 ? -INFINITY :
				    draw(random);
	}
}

static void assert_near(double a, double b) {
	assert_int_equal(isfinite(a), isfinite(b));
	assert_true(!isfinite(a) || fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b)));
}

static void test_kernels_agree(void **state) {
	static float one[3][300], two[3][300];
	uint8_t mask_one[64], mask_two[64];
	const struct hd_kernels *table;
	struct hd_random random;

	hd_random_init(&random, 5);
	for (size_t t = 0; (table = hd_kernels_supported(t)); t++) {
		for (size_t count = 0; count < 290; count++) {
			const struct hd_filter_step how
				= {count % 2 ? -0.5f : 1.0f, (float)(count % 5) * 0.2f};
			struct hd_filter_arrays a
				= {one[0] + count % 4, one[1], one[2] + 1, mask_one};
			struct hd_filter_arrays b
				= {two[0] + count % 4, two[1], two[2] + 1, mask_two};
			struct hd_filter_sums sums_one = {0}, sums_two = {0};

			for (int k = 0; k < 3; k++) {
				fill(&random, one[k], 300);
				memcpy(two[k], one[k], sizeof one[k]);
			}
			memset(mask_one, 0x5a, sizeof mask_one);
			memset(mask_two, 0x5a, sizeof mask_two);
			hd_filter_scalar(&a, count, &how, &sums_one);
			table->filter(&b, count, &how, &sums_two);
			for (size_t k = 0; k < 3; k++)
				for (size_t i = 0; i < 300; i++)
					if (!isnan(one[k][i]) || !isnan(two[k][i]))
						assert_memory_equal(&one[k][i], &two[k][i], 4);
			assert_memory_equal(mask_one, mask_two, sizeof mask_one);
			assert_int_equal(sums_one.sent, sums_two.sent);
			assert_near(sums_one.sent2, sums_two.sent2);
			assert_true(fabs(sums_one.held2 - sums_two.held2) <= 1e-6 * sums_one.held2);
		}
	}
}

/* --- the public calls ----------------------------------------------------------------------- */

static void test_bad_input(void **state) {
	struct heddle_filter_options options = HEDDLE_FILTER_OPTIONS_INIT, wrong;
	struct heddle_filter_stats stats = HEDDLE_FILTER_STATS_INIT;
	struct heddle_filter *filter = NULL;
	struct heddle_sparse sparse;
	float x[8] = {0}, u[8] = {0};

	assert_int_equal(heddle_filter_create(0, &options, &filter), -EINVAL);
	assert_int_equal(heddle_filter_create(8, NULL, &filter), -EINVAL);
	wrong = options;
	wrong.v = -1;
	assert_int_equal(heddle_filter_create(8, &wrong, &filter), -EINVAL);
	assert_non_null(strstr(heddle_last_error(), "v: -1"));
	wrong.v = NAN;
	assert_int_equal(heddle_filter_create(8, &wrong, &filter), -EINVAL);
	wrong = options;
	wrong.factor = 0;
	assert_int_equal(heddle_filter_create(8, &wrong, &filter), -EINVAL);
	assert_non_null(strstr(heddle_last_error(), "factor"));
	wrong = options;
	wrong.block = HEDDLE_FILTER_BLOCK_MAX + 1;
	assert_int_equal(heddle_filter_create(8, &wrong, &filter), -EINVAL);
	assert_non_null(strstr(heddle_last_error(), "block"));
	assert_null(filter);
	options.v = 0.7f;
	assert_int_equal(heddle_filter_create(8, &options, &filter), 0);
	assert_int_equal(heddle_filter_apply(filter, x, u, 0, &sparse), -EINVAL);
	assert_int_equal(heddle_filter_set_factor(filter, 0), -EINVAL);
	assert_int_equal(heddle_filter_apply(filter, x, u, 1, &sparse), NOTHING);
	assert_int_equal(heddle_filter_get_stats(filter, &stats), 0);
	assert_int_equal(stats.silent, 1);
	assert_float_equal(stats.threshold, 0.7, 1e-7);
	stats.size = 1;
	assert_int_equal(heddle_filter_get_stats(filter, &stats), -EINVAL);
	heddle_filter_destroy(filter);
	heddle_filter_destroy(NULL);
}

static void test_stats_tell_both_norms(void **state) {
	struct heddle_filter_options options = HEDDLE_FILTER_OPTIONS_INIT;
	struct heddle_filter_stats stats = HEDDLE_FILTER_STATS_INIT;
	float x[4] = {0, 0, 10, 10}, u[4] = {3, 4, 0.6f, 0.8f};
	struct heddle_filter *filter;
	struct heddle_sparse sparse;

	options.v = 0.7f;
	assert_int_equal(heddle_filter_create(4, &options, &filter), 0);
	assert_int_equal(heddle_filter_apply(filter, x, u, 1, &sparse), SPARSE);
	assert_int_equal(heddle_filter_get_stats(filter, &stats), 0);
	assert_float_equal(stats.sent_norm, 5, 1e-6);
	assert_float_equal(stats.held_norm, 1, 1e-6);
	assert_int_equal(stats.sent_values, 2);
	assert_int_equal(heddle_filter_return(filter, u), 0);
	assert_int_equal(heddle_filter_get_stats(filter, &stats), 0);
	assert_float_equal(stats.held_norm, sqrt(26), 1e-6);
	heddle_filter_destroy(filter);
}

/* A rate or a count of workers changes: what is held still moves the model by as much as when it was computed. */
static void test_another_factor(void **state) {
	struct heddle_filter_options options = HEDDLE_FILTER_OPTIONS_INIT;
	struct heddle_filter_stats stats = HEDDLE_FILTER_STATS_INIT;
	float x[4] = {10, 10, 10, 10}, u[4] = {0.5f, -1, 2, 0}, view[4],
	      pulled[4] = {10, 10, 10, 10};
	struct heddle_filter *filter;
	struct heddle_sparse sparse;

	options.v = 0.7f;
	options.factor = -0.25f; /* one of four workers */
	assert_int_equal(heddle_filter_create(4, &options, &filter), 0);
	assert_int_equal(heddle_filter_apply(filter, x, u, 1, &sparse), NOTHING);
	memcpy(view, x, sizeof view);
	assert_int_equal(heddle_filter_set_factor(filter, -1), 0); /* alone */
	assert_int_equal(heddle_filter_reapply(filter, pulled), 0);
	for (int i = 0; i < 4; i++)
		assert_float_equal(pulled[i], view[i], 1e-6);
	assert_float_equal(heddle_filter_held(filter)[2], 0.5, 1e-7);
	assert_int_equal(heddle_filter_get_stats(filter, &stats), 0);
	assert_float_equal(stats.held_norm, sqrt(5.25) / 4, 1e-6);
	assert_int_equal(heddle_filter_set_factor(filter, 1e-39f), -EINVAL);
	assert_non_null(strstr(heddle_last_error(), "finite"));
	assert_float_equal(heddle_filter_held(filter)[2], 0.5, 1e-7);
	heddle_filter_destroy(filter);
}

/* Workers that end together: the model becomes the mean of theirs. */
static void test_the_mean_of_models(void **state) {
	enum {
		WORKERS = 4
	};
	struct heddle_filter_options options = HEDDLE_FILTER_OPTIONS_INIT;
	struct heddle_filter_stats stats = HEDDLE_FILTER_STATS_INIT;
	float server[2] = {10, -10}, mean[2] = {0}, u[WORKERS][2];
	struct heddle_filter *filter[WORKERS];
	struct heddle_sparse sparse;

	options.v = 0.7f;
	options.factor = 1.0f / WORKERS;
	for (int k = 0; k < WORKERS; k++) {
		float x[2] = {10, -10};

		u[k][0] = (float)(k + 1);
		u[k][1] = (float)(k * k) / 4;
		assert_int_equal(heddle_filter_create(2, &options, &filter[k]), 0);
		assert_int_equal(heddle_filter_apply(filter[k], x, u[k], 1, &sparse), NOTHING);
		mean[0] += x[0] / WORKERS;
		mean[1] += x[1] / WORKERS;
	}
	for (int k = 0; k < WORKERS; k++) {
		assert_int_equal(heddle_filter_keep(filter[k], 1.0f / WORKERS), 0);
		assert_int_not_equal(heddle_filter_take(filter[k], u[k], &sparse), NOTHING);
		server[0] += u[k][0] / WORKERS;
		server[1] += u[k][1] / WORKERS;
	}
	assert_float_equal(server[0], mean[0], 1e-5);
	assert_float_equal(server[1], mean[1], 1e-5);
	assert_int_equal(heddle_filter_get_stats(filter[1], &stats), 0);
	assert_float_equal(stats.given_up_norm, 0.75 * sqrt(4 + 1.0 / 16), 1e-5);
	assert_int_equal(heddle_filter_keep(filter[0], -0.5f), -EINVAL);
	assert_int_equal(heddle_filter_keep(filter[0], 1.5f), -EINVAL);
	assert_int_equal(heddle_filter_keep(filter[0], NAN), -EINVAL);
	assert_non_null(strstr(heddle_last_error(), "0..1"));
	for (int k = 0; k < WORKERS; k++)
		heddle_filter_destroy(filter[k]);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_thresholds),
		cmocka_unit_test(test_nothing_is_lost),
		cmocka_unit_test(test_reapply),
		cmocka_unit_test(test_no_threshold_changes_no_bit),
		cmocka_unit_test(test_zero_weight_and_nan),
		cmocka_unit_test(test_blocks_go_whole),
		cmocka_unit_test(test_gaps_go_along),
		cmocka_unit_test(test_kernels_agree),
		cmocka_unit_test(test_bad_input),
		cmocka_unit_test(test_stats_tell_both_norms),
		cmocka_unit_test(test_another_factor),
		cmocka_unit_test(test_the_mean_of_models),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
