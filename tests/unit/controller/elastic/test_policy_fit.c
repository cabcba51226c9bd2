/* SPDX-License-Identifier: BSD-3-Clause */
/* The fit finds again what a log was written with: exactly without noise, nearly with it. */
#include "hd_elastic_fit.h"
#include "hd_random.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_elastic_model truth = {2.3, 0.02, 0.995};
static char *text;
static size_t used;

#define TEXT_BYTES (1 << 20)

static int begin(void **state) {
	text = malloc(TEXT_BYTES);
	return !text;
}

static int end(void **state) {
	free(text);
	return 0;
}

static void near(double value, double wanted, double within) {
	if (!(fabs(value - wanted) <= within))
		fail_msg("%.12g, wanted %.12g within %g", value, wanted, within);
}

static int fit(double best, struct hd_elastic_fit *found, char error[200]) {
	const struct hd_elastic_text in = {"loss.csv", text, used, error, 200};

	return hd_elastic_fit(&in, best, found);
}

/* A run with 4 and with 8 workers in turns (or 8 only); every `each`-th step is logged. */
static void write_log(double best, double noise, uint32_t steps, uint32_t each, bool turns) {
	struct hd_random random;
	double error = truth.a;

	hd_random_init(&random, 3);
	used = (size_t)snprintf(text, TEXT_BYTES, "step,loss,y,seconds\n");
	for (uint32_t j = 0; j < steps; j++) {
		const uint32_t y = turns && j / 100 % 2 == 0 ? 4 : 8;
		const double off = noise * (hd_random_unit(&random) * 2 - 1);

		if (j % each == 0)
			used += (size_t)snprintf(
				text + used,
				TEXT_BYTES - used,
				"%u,%.12g,%u,%.12g\n",
				j,
				best + error + off,
				y,
				y == 4 ? 0.9 : 1 + off
			);
		error = truth.beta * error + truth.b / y;
	}
}

static void test_exact(void **state) {
	struct hd_elastic_fit found;
	char error[200] = "";

	write_log(0.7, 0, 1500, 1, true);
	assert_int_equal(fit(NAN, &found, error), 0);
	near(found.model.a, 2.3, 1e-5);
	near(found.model.b, 0.02, 1e-6);
	near(found.model.beta, 0.995, 1e-7);
	near(found.best, 0.7, 1e-5);
	assert_true(found.best_fitted && found.r2 > 0.999999);
	assert_int_equal(found.rows, 1500);
	assert_int_equal(found.last_step, 1499);
	assert_int_equal(found.count, 2);
	assert_int_equal(found.y[0], 4);
	assert_int_equal(found.y[1], 8);
	near(found.step_s[0], 0.9, 1e-12);
	near(found.step_s[1], 1, 1e-12);
	/* Not every step is in the log: those between had the workers of the line before. */
	write_log(0.7, 0, 1500, 10, true);
	assert_int_equal(fit(NAN, &found, error), 0);
	near(found.model.beta, 0.995, 1e-7);
	near(found.model.b, 0.02, 1e-6);
}

static void test_noise(void **state) {
	struct hd_elastic_fit found;
	char error[200] = "";

	write_log(0.3, 0.05, 3000, 1, true);
	assert_int_equal(fit(NAN, &found, error), 0);
	near(found.model.a, 2.3, 0.05);
	near(found.model.beta, 0.995, 2e-4);
	near(found.model.b, 0.02, 0.002);
	near(found.best, 0.3, 0.1);
	near(found.residual, 0.05 / sqrt(3), 0.003);
	assert_true(found.r2 > 0.98 && found.spread_s[1] > 0.01);
}

static void test_one_count(void **state) {
	struct hd_elastic_fit found;
	char error[200] = "";

	/* y never changes: what is left in the end is noise, unless the best loss is known. */
	write_log(0.3, 0, 3000, 1, false);
	assert_int_equal(fit(0.3, &found, error), 0);
	near(found.model.b, 0.02, 1e-6);
	near(found.model.a, 2.3, 1e-5);
	assert_false(found.best_fitted);
	assert_int_equal(fit(NAN, &found, error), 0);
	near(found.best, 0, 0);
	near(found.model.b / 8 / (1 - found.model.beta), 0.3 + 0.02 / 8 / 0.005, 1e-4);
}

static void refuses(const char *log, const char *words) {
	struct hd_elastic_fit found = {.rows = 77};
	char error[200] = "";

	used = (size_t)snprintf(text, TEXT_BYTES, "%s", log);
	assert_int_equal(fit(NAN, &found, error), -EINVAL);
	if (strncmp(error, words, strlen(words)) != 0)
		fail_msg("'%s', wanted '%s'", error, words);
	assert_int_equal(found.rows, 77);
}

static void test_bad_logs(void **state) {
	refuses("step,loss,y\n1,2,3\n2,nan,3\n", "loss.csv:3: loss: 'nan' (a number from -1e+30");
	refuses("step,loss,y\n1,2,0\n", "loss.csv:2: y: '0' (a whole number from 1 to 4096)");
	refuses("step,loss,y\n1.5,2,1\n", "loss.csv:2: step: '1.5' (a whole number");
	refuses("step,loss,y\n2,2,1\n1,2,1\n", "loss.csv:3: step: 1: not after the line before");
	refuses("step,loss,y\n1,2,1\n2,1,1\n", "loss.csv: 2 rows (at least 8)");
	refuses("step,loss\n1,2\n", "loss.csv:1: y: no such column in the header");
	refuses("1,1,4\n2,2,4\n3,3,4\n4,4,4\n5,5,4\n6,6,4\n7,7,4\n8,8,4\n",
		"loss.csv: loss: does not fall");
	refuses("1,1,4\n2,1,4\n3,1,4\n4,1,4\n5,1,4\n6,1,4\n7,1,4\n8,1,4\n",
		"loss.csv: loss: does not fall");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_one_count),
		cmocka_unit_test(test_bad_logs),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
