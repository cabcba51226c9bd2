/* SPDX-License-Identifier: BSD-3-Clause */
/* SVMlight's text, errors in it, and training on rows that are kept sparse. */
#include "hd_random.h"
#include "hd_trainer.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int
decode(const char *text, const struct hd_dataset *like, struct hd_dataset *dataset, char error[200]
) {
	return hd_svmlight_decode(text, strlen(text), like, dataset, error, 200);
}

static void test_reads(void **state) {
	static const char text[] = "+1 1:0.5 4:-2e-3 # a comment: 9:9\n"
				   "-1\t2:1\r\n"
				   "\n"
				   "# nothing\n"
				   "7 3:0 4:8";
	static const float rows[3][4] = {{0.5F, 0, 0, -2e-3F}, {0, 1, 0, 0}, {0, 0, 0, 8}};
	struct hd_dataset dataset;
	char error[200];
	float x[4];

	assert_int_equal(decode(text, NULL, &dataset, error), 0);
	assert_int_equal(dataset.rows, 3);
	assert_int_equal(dataset.features, 4);
	assert_int_equal(dataset.classes, 3);
	assert_int_equal(dataset.labels[0], -1);
	assert_int_equal(dataset.labels[2], 7);
	assert_int_equal(dataset.y[0], 1);
	assert_int_equal(dataset.y[1], 0);
	assert_int_equal(dataset.y[2], 2);
	assert_int_equal(dataset.start[3], 4); /* zeros are not kept */
	for (uint32_t i = 0; i < 3; i++) {
		hd_dataset_row(&dataset, i, x);
		assert_memory_equal(x, rows[i], sizeof x);
	}
	hd_dataset_fini(&dataset);
}

static void test_test_set_is_like_training(void **state) {
	struct hd_dataset train, test;
	char error[200];

	assert_int_equal(decode("5 1:1 3:1\n9 2:1\n", NULL, &train, error), 0);
	assert_int_equal(decode("9 3:2 4:7\n", &train, &test, error), 0);
	assert_int_equal(test.features, 3);
	assert_int_equal(test.classes, 2);
	assert_int_equal(test.y[0], 1);
	assert_int_equal(test.start[1], 1); /* feature 4 was never trained on */
	hd_dataset_fini(&test);
	assert_int_equal(decode("5 1:1\n6 1:1\n", &train, &test, error), -EINVAL);
	assert_string_equal(error, "row 2: label 6: no training row has it");
	hd_dataset_fini(&train);
}

static void refused(const char *text, const char *words) {
	struct hd_dataset dataset;
	char error[200];

	assert_int_equal(decode(text, NULL, &dataset, error), -EINVAL);
	if (!strstr(error, words))
		fail_msg("'%s' is not in '%s'", words, error);
}

static void test_errors_name_the_place(void **state) {
	static const char index[]
		= "not index:value with an index in 1..1048576 (HD_DATA_FEATURES_MAX)";
	char text[4000];
	size_t at = 0;

	refused("1 1:1\n0 1:2 5\n", "line 2: field 3: not index:value");
	refused("1 0:1\n", index);
	refused("1 1048577:1\n", index);
	refused("1 99999999999999999999:1\n", index);
	refused("1 -1:1\n", index);
	refused("1 qid:3 1:1\n", "line 1: field 2: not index:value");
	refused("1 2:1 2:1\n", "line 1: field 3: the index is not above the one before");
	refused("1 3:1 2:1\n", "field 3: the index is not above");
	refused("1 1:\n", "field 2: not a finite number");
	refused("1 1:nan\n", "not a finite number");
	refused("1 1:inf\n", "not a finite number");
	refused("1 1:0x10\n", "not a finite number");
	refused("1 1:1e99\n", "not a finite number");
	refused("1 1:1.5.5\n", "not a finite number");
	refused("1 1:00000000000000000000000000000000000000000001\n", "limit 40 characters");
	refused("1.5 1:1\n", "line 1: field 1: not a label");
	refused("+ 1:1\n", "not a label");
	refused("1000001 1:1\n", "not a label");
	refused("\n\n x 1:1\n", "line 3: field 1: not a label");
	refused("", "no row with a value");
	refused("# comment\n", "no row with a value");
	refused("1\n2\n", "no row with a value");
	refused("1 1:1\n1 1:1\n", "1 different labels (limit 2..256, HD_DATA_LABELS_MAX)");
	for (int i = 0; i < 257; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%d 1:1\n", i);
	refused(text, "257 different labels");
}

#define TEXT_BYTES ((size_t)1 << 16)

enum {
	ROWS = 41, /* the last one has the last feature */
	FEATURES = 300,
	BATCH = 8
};

static void draw_rows(char *text, size_t bytes) {
	struct hd_random random;
	size_t at = 0;

	hd_random_init(&random, 41);
	for (int row = 0; row < ROWS - 1; row++) {
		uint64_t index = 0;

		at += (size_t)snprintf(text + at, bytes - at, "%d", row % 3);
		while ((index += 1 + hd_random_below(&random, 60)) <= FEATURES) {
			double value = hd_random_unit(&random);

			at += (size_t
			)snprintf(text + at, bytes - at, " %d:%.3f", (int)index, value);
		}
		at += (size_t)snprintf(text + at, bytes - at, "\n");
	}
	(void)snprintf(text + at, bytes - at, "0 300:1\n");
}

/* Rows kept sparse give the gradients and the accuracy of the same rows with all their zeros; and what
 * no row of a batch has leaves its weights' gradient 0. */
static void test_trains_like_dense(void **state) {
	struct hd_dataset sparse, dense;
	struct hd_model *one, *two;
	struct hd_sampler a, b;
	char *text = malloc(TEXT_BYTES), error[200];
	float *params, *grad[2];
	uint64_t zeros = 0, values;
	double accuracy[2], loss[2];

	draw_rows(text, TEXT_BYTES);
	assert_int_equal(decode(text, NULL, &sparse, error), 0);
	assert_int_equal(sparse.features, FEATURES);
	dense = (struct hd_dataset
	){.rows = ROWS, .features = FEATURES, .classes = 3, .y = sparse.y};
	dense.x = malloc((size_t)ROWS * FEATURES * sizeof(float));
	for (uint32_t i = 0; i < ROWS; i++)
		hd_dataset_row(&sparse, i, dense.x + (size_t)i * FEATURES);
	assert_int_equal(hd_model_create("softmax", &sparse, BATCH, &one, error, 200), 0);
	assert_int_equal(hd_model_create("softmax", &dense, BATCH, &two, error, 200), 0);
	assert_int_equal(hd_sampler_init(&a, &sparse, 0, 1, BATCH, 5), 0);
	assert_int_equal(hd_sampler_init(&b, &dense, 0, 1, BATCH, 5), 0);
	values = hd_model_values(one);
	assert_int_equal(values, (FEATURES + 1) * 3);
	params = calloc(values, sizeof(float));
	grad[0] = malloc(values * sizeof(float));
	grad[1] = malloc(values * sizeof(float));
	for (int step = 0; step < 20; step++) {
		hd_sampler_next(&a);
		hd_sampler_next(&b);
		(void)hd_model_gradient(one, params, a.x, a.y, BATCH, grad[0]);
		(void)hd_model_gradient(two, params, b.x, b.y, BATCH, grad[1]);
		for (uint64_t i = 0; i < values; i++) {
			/* BLAS adds in an order that depends on how arrays are aligned. */
			assert_float_equal(grad[0][i], grad[1][i], 1e-6);
			assert_int_equal(grad[0][i] == 0.0f, grad[1][i] == 0.0f);
			zeros += grad[0][i] == 0.0f;
			params[i] -= 0.5F * grad[0][i];
		}
	}
	assert_true(zeros > 20 * values / 3);
	hd_model_evaluate(one, params, &sparse, &accuracy[0], &loss[0]);
	hd_model_evaluate(two, params, &dense, &accuracy[1], &loss[1]);
	assert_true(fabs(accuracy[0] - accuracy[1]) < 0.03);
	assert_true(fabs(loss[0] - loss[1]) < 1e-5);
	assert_true(accuracy[0] > 0.6);
	hd_sampler_fini(&a);
	hd_sampler_fini(&b);
	hd_model_destroy(one);
	hd_model_destroy(two);
	hd_dataset_fini(&sparse);
	free(dense.x);
	free(params);
	free(grad[0]);
	free(grad[1]);
	free(text);
}

static void test_files(void **state) {
	char path[] = "/tmp/heddle-svmlight-XXXXXX", name[100], error[200] = "";
	struct hd_dataset train, test;
	int file = mkstemp(path);
	FILE *out = fdopen(file, "w");

	for (int i = 0; i < 11; i++)
		(void)fprintf(out, "%d %d:1\n", i % 2, 1 + i);
	(void)fclose(out);
	(void)snprintf(name, sizeof name, "svmlight:%s", path);
	assert_int_equal(hd_dataset_open(name, &train, &test, error, sizeof error), 0);
	assert_int_equal(train.rows, 9);
	assert_int_equal(test.rows, 2);
	assert_int_equal(test.index[0], 4); /* the fifth row */
	assert_int_equal(train.index[4], 5);
	hd_dataset_fini(&train);
	hd_dataset_fini(&test);
	(void)snprintf(name, sizeof name, "svmlight:%s,%s", path, path);
	assert_int_equal(hd_dataset_open(name, &train, &test, error, sizeof error), 0);
	assert_int_equal(train.rows, 11);
	assert_int_equal(test.rows, 11);
	hd_dataset_fini(&train);
	hd_dataset_fini(&test);
	out = fopen(path, "a");
	(void)fprintf(out, "1 1:z\n");
	(void)fclose(out);
	assert_int_equal(hd_dataset_open(name, &train, &test, error, sizeof error), -EINVAL);
	assert_non_null(strstr(error, path));
	assert_non_null(strstr(error, ": line 12: field 2: not a finite number"));
	unlink(path);
	assert_int_equal(hd_dataset_open(name, &train, &test, error, sizeof error), -ENOENT);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_test_set_is_like_training),
		cmocka_unit_test(test_errors_name_the_place),
		cmocka_unit_test(test_trains_like_dense),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests_name("svmlight", tests, NULL, NULL);
}
