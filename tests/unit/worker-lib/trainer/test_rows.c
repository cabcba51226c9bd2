/* SPDX-License-Identifier: BSD-3-Clause */
/* Ratings, generated data, and models whose gradient touches few parameters. */
#include "hd_row_model.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char error[HD_TEXT_BYTES_MAX];

static int decode(const char *text, const struct hd_dataset *like, struct hd_dataset *dataset) {
	error[0] = '\0';
	return hd_ratings_decode(text, strlen(text), like, dataset, error, sizeof error);
}

/* Two users (7, 900) and three items (3, 4, 20), whatever separates. */
static void check_format(const char *text) {
	const float target[] = {2.5f, 4, 1, 5};
	const uint32_t index[] = {1, 4, 0, 2, 0, 3, 1, 2};
	struct hd_dataset data;

	assert_int_equal(decode(text, NULL, &data), 0);
	assert_int_equal(data.rows, 4);
	assert_int_equal(data.users, 2);
	assert_int_equal(data.features, 5);
	assert_memory_equal(data.index, index, sizeof index);
	assert_memory_equal(data.target, target, sizeof target);
	assert_float_equal(data.mean, 3.125, 1e-6);
	hd_dataset_fini(&data);
}

static void test_formats(void **state) {
	check_format("900\t20\t2.5\t1\n7\t3\t4\t2\n7\t4\t1\t3\n900\t3\t5\t4\n");
	check_format("900::20::2.5::1\n7::3::4::2\n7::4::1::3\n900::3::5::4");
	check_format(
		"userId,movieId,rating,timestamp\r\n900,20,2.5,1\r\n7,3,4.0,2\r\n\r\n7,4,1,3\r\n900,3,5,4\r\n"
	);
	check_format("900,20,2.5\n7,3,4\n7,4,1\n900,3,5\n");
}

static void test_errors(void **state) {
	static const char *const wrong[][2] = {
		{"", "line 1: user"},
		{"user,item,rating\n", "line 2: user"},
		{"1 2 3\n", "line 1: user: no tab"},
		{"1,2,3\n1::2::3\n", "line 2: user: no separator"},
		{"1,2\n", "line 1: item: no separator"},
		{"1,2,x\n", "line 1: rating: not a number"},
		{"1,2,nan\n", "line 1: rating: not a number"},
		{"1,2,1e7\n", "line 1: rating: not a number in -1e6..1e6"},
		{"1,2,3;\n", "line 1: rating: neither"},
		{"1,2,3\n-1,2,3\n", "line 2: user: not a whole number"},
		{"1,4294967296,3\n", "line 1: item: not a whole number in 0..4294967295"},
	};
	struct hd_dataset data, test;

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		assert_int_equal(decode(wrong[i][0], NULL, &data), -EINVAL);
		assert_non_null(strstr(error, wrong[i][1]));
	}
	/* No row was trained for user 2 and item 9: left out; with nothing else left it is an error. */
	assert_int_equal(decode("1,2,3\n3,4,5\n", NULL, &data), 0);
	assert_int_equal(decode("2,2,1\n1,9,1\n1,4,2\n", &data, &test), 0);
	assert_int_equal(test.rows, 1);
	assert_int_equal(test.index[1], 3);
	assert_float_equal(test.mean, 4, 0);
	hd_dataset_fini(&test);
	assert_int_equal(decode("2,2,1\n", &data, &test), -EINVAL);
	assert_non_null(strstr(error, "trained on"));
	hd_dataset_fini(&data);
}

static struct hd_dataset generate(const char *words) {
	struct hd_dataset data;
	bool ratings;
	size_t bytes;
	char *text;
	int rc;

	assert_int_equal(hd_generate(words, &text, &bytes, &ratings, error, sizeof error), 0);
	rc = ratings ? hd_ratings_decode(text, bytes, NULL, &data, error, sizeof error) :
		       hd_svmlight_decode(text, bytes, NULL, &data, error, sizeof error);
	assert_int_equal(rc, 0);
	free(text);
	return data;
}

static void test_generated(void **state) {
	static const char *const wrong[][2] = {
		{"images", "not logistic or ratings"},
		{"ratings:0", "first number: not in 1..1000000"},
		{"ratings:5,", "second number"},
		{"ratings:5,6,7,8,9", "after the numbers"},
		{"logistic:5,6,1025", "third number: not in 1..1024"},
		{"logistic:5x", "after the numbers"},
	};
	struct hd_dataset data, again;
	size_t bytes;
	bool ratings;
	char *text;

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		assert_int_equal(
			hd_generate(wrong[i][0], &text, &bytes, &ratings, error, sizeof error),
			-EINVAL
		);
		assert_non_null(strstr(error, wrong[i][1]));
	}
	data = generate("ratings:20,30,500,7");
	again = generate("ratings:20,30,500,7");
	assert_int_equal(data.rows, 500);
	assert_int_equal(data.users, 20);
	assert_int_equal(data.features, 50);
	assert_memory_equal(data.target, again.target, 500 * sizeof(float));
	hd_dataset_fini(&again);
	again = generate("ratings:20,30,500,8");
	assert_memory_not_equal(data.target, again.target, 500 * sizeof(float));
	hd_dataset_fini(&again);
	hd_dataset_fini(&data);
	data = generate("logistic:300,100,9,3");
	assert_int_equal(data.rows, 300);
	assert_int_equal(data.classes, 2);
	hd_dataset_fini(&data);
}

/* Central differences of the loss, with the regularization that the gradient has. */
static void check_gradient(const char *text, const struct hd_dataset *data, double regularization) {
	const uint32_t rows[] = {0, 3, 5, 3, 7};
	struct hd_row_model model;
	struct hd_random random;
	float *params, *grad, *other;

	assert_int_equal(hd_row_model_init(&model, text, data, error, sizeof error), 0);
	params = malloc(model.values * sizeof(float));
	grad = malloc(model.values * sizeof(float));
	other = malloc(model.values * sizeof(float));
	hd_random_init(&random, 2);
	for (uint64_t i = 0; i < model.values; i++)
		params[i] = (float)hd_random_unit(&random) - 0.5f;
	(void)hd_row_model_gradient(&model, params, data, rows, 5, grad);
	for (uint64_t i = 0; i < model.values; i++) {
		float at = params[i], h = 0x1p-9f;
		double up, down, slope, times = 0;

		params[i] = at + h;
		up = hd_row_model_gradient(&model, params, data, rows, 5, other);
		params[i] = at - h;
		down = hd_row_model_gradient(&model, params, data, rows, 5, other);
		params[i] = at;
		for (size_t k = 0; model.factors > 0 && k < 5; k++)
			for (int f = 0; f < 2; f++)
				times += data->index[2 * rows[k] + (uint32_t)f]
					== i / model.factors;
		slope = (up - down) / (2 * (double)h) + 2 * regularization * times / 5 * (double)at;
		assert_true(fabs(slope - (double)grad[i]) <= 2e-3 * (1 + fabs(slope)));
	}
	free(params);
	free(grad);
	free(other);
}

static void test_gradients(void **state) {
	struct hd_dataset ratings = generate("ratings:6,5,40,1");
	struct hd_dataset rows = generate("logistic:40,30,6,1");
	struct hd_row_model model;

	check_gradient("pmf:3", &ratings, 0);
	check_gradient("pmf:4,0.3", &ratings, 0.3);
	check_gradient("logistic", &rows, 0);
	assert_int_equal(
		hd_row_model_init(&model, "logistic", &ratings, error, sizeof error), -EINVAL
	);
	assert_int_equal(hd_row_model_init(&model, "pmf:3", &rows, error, sizeof error), -EINVAL);
	assert_int_equal(hd_row_model_init(&model, "pmf", &ratings, error, sizeof error), -EINVAL);
	assert_int_equal(
		hd_row_model_init(&model, "pmf:3,-1", &ratings, error, sizeof error), -EINVAL
	);
	assert_int_equal(
		hd_row_model_init(&model, "pmf:2000", &ratings, error, sizeof error), -EINVAL
	);
	assert_non_null(strstr(error, "1..1024"));
	hd_dataset_fini(&ratings);
	hd_dataset_fini(&rows);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_generated),
		cmocka_unit_test(test_gradients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
