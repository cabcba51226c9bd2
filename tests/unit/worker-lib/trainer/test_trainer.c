/* SPDX-License-Identifier: BSD-3-Clause */
/* The trainer's mathematics: gradients against finite differences, decoders, minibatches, padding. */
#include "hd_trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

static char error[HD_TEXT_BYTES_MAX];

/* Random rows whose label depends on the features. */
static struct hd_dataset make_data(uint32_t rows, uint32_t features, uint32_t classes) {
	struct hd_dataset data = {.rows = rows, .features = features, .classes = classes};
	struct hd_random random;

	hd_random_init(&random, 7);
	data.x = malloc(sizeof(float) * rows * (size_t)features);
	data.y = malloc(rows);
	for (uint32_t i = 0; i < rows * features; i++)
		data.x[i] = (float)hd_random_unit(&random);
	for (uint32_t i = 0; i < rows; i++)
		data.y[i] = (uint8_t)(data.x[(size_t)i * features] * (float)classes);
	return data;
}

static float *random_params(uint64_t values, uint64_t seed) {
	struct hd_random random;
	float *params = malloc(sizeof(float) * values);

	hd_random_init(&random, seed);
	for (uint64_t i = 0; i < values; i++)
		params[i] = (float)(2.0 * hd_random_unit(&random) - 1.0);
	return params;
}

/* Central differences; a kink of ReLU within +-h would show as a large error, so that the seed is
 * one without. The loss is a double, hence only the step in fp32 limits h. */
static void check_gradient(const char *text) {
	struct hd_dataset data = make_data(9, 6, 4);
	struct hd_model *model;
	float *params, *grad, *other;
	uint64_t values;

	assert_int_equal(hd_model_create(text, &data, 16, &model, error, sizeof error), 0);
	values = hd_model_values(model);
	params = random_params(values, 3);
	grad = malloc(sizeof(float) * values);
	other = malloc(sizeof(float) * values);
	(void)hd_model_gradient(model, params, data.x, data.y, data.rows, grad);
	for (uint64_t i = 0; i < values; i++) {
		float at = params[i], h = 0x1p-9f;
		double up, down, slope;

		params[i] = at + h;
		up = hd_model_gradient(model, params, data.x, data.y, data.rows, other);
		params[i] = at - h;
		down = hd_model_gradient(model, params, data.x, data.y, data.rows, other);
		params[i] = at;
		slope = (up - down) / (2.0 * (double)h);
		if (fabs(slope - (double)grad[i]) > 2e-3 + 2e-3 * fabs(slope))
			fail_msg(
				"%s: value %d: %g, differences say %g",
				text,
				(int)i,
				(double)grad[i],
				slope
			);
	}
	free(params);
	free(grad);
	free(other);
	hd_model_destroy(model);
	hd_dataset_fini(&data);
}

static void test_gradient_softmax(void **state) {
	check_gradient("softmax");
}

static void test_gradient_mlp(void **state) {
	check_gradient("mlp:7");
	check_gradient("mlp:5,8,3");
}

static void test_model_layout(void **state) {
	struct hd_dataset data = make_data(4, 64, 10);
	struct hd_model *model;
	const struct hd_tensor *tensors;
	uint64_t sum = 0;

	assert_int_equal(hd_model_create("mlp:512,512", &data, 32, &model, error, sizeof error), 0);
	assert_int_equal(hd_model_tensor_count(model), 6);
	tensors = hd_model_tensors(model);
	for (uint32_t i = 0; i < 6; i++) {
		uint64_t size = 1;

		for (int d = 0; d < tensors[i].dimension_count; d++)
			size *= tensors[i].dimension[d];
		sum += size;
	}
	assert_int_equal(sum, hd_model_values(model));
	assert_int_equal(sum, 64 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
	assert_string_equal(tensors[2].name, "fc2.weight");
	hd_model_destroy(model);
	hd_dataset_fini(&data);
}

static void test_model_refuses(void **state) {
	static const char *const bad[]
		= {"",
		   "mlp",
		   "mlp:",
		   "mlp:0",
		   "mlp:5,",
		   "mlp:5;6",
		   "mlp:-3",
		   "mlp: 5",
		   "mlp:65537",
		   "mlp:99999999999999999999",
		   "softmax2",
		   "mlp:1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
	struct hd_dataset data = make_data(4, 3, 2);
	struct hd_model *model = (void *)1;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		error[0] = '\0';
		assert_int_equal(
			hd_model_create(bad[i], &data, 8, &model, error, sizeof error), -EINVAL
		);
		assert_true(strncmp(error, "model: ", 7) == 0);
		assert_ptr_equal(model, (void *)1);
	}
	assert_int_equal(
		hd_model_create("softmax", &data, 0, &model, error, sizeof error), -EINVAL
	);
	hd_dataset_fini(&data);
}

/* Plain SGD on the real digits reaches what softmax regression reaches. */
static void test_digits_learn(void **state) {
	struct hd_dataset train, test;
	struct hd_sampler sampler;
	struct hd_model *model;
	float *params, *grad;
	double accuracy, loss;
	uint64_t values;

	if (hd_dataset_open("digits", &train, &test, error, sizeof error) == -ENOENT) {
		print_message("skipped: %s\n", error);
		skip();
	}
	assert_int_equal(train.rows, 1437);
	assert_int_equal(test.rows, 360);
	assert_int_equal(train.features, 64);
	assert_int_equal(hd_model_create("softmax", &train, 64, &model, error, sizeof error), 0);
	assert_int_equal(hd_sampler_init(&sampler, &train, 0, 1, 32, 1), 0);
	values = hd_model_values(model);
	params = calloc(values, sizeof(float));
	grad = malloc(sizeof(float) * values);
	hd_model_evaluate(model, params, &test, &accuracy, &loss);
	assert_float_equal(loss, log(10.0), 1e-6);
	for (int step = 0; step < 1000; step++) {
		hd_sampler_next(&sampler);
		(void)hd_model_gradient(model, params, sampler.x, sampler.y, 32, grad);
		for (uint64_t i = 0; i < values; i++)
			params[i] -= 0.5f * grad[i];
	}
	hd_model_evaluate(model, params, &test, &accuracy, &loss);
	assert_true(accuracy > 0.88 && accuracy < 1.0);
	free(params);
	free(grad);
	hd_sampler_fini(&sampler);
	hd_model_destroy(model);
	hd_dataset_fini(&train);
	hd_dataset_fini(&test);
}

/* A row of 64 times `value` and a label. */
static size_t digits_row(char *text, int value, const char *label) {
	size_t at = 0;

	for (int i = 0; i < 64; i++)
		at += (size_t)snprintf(text + at, 8, "%d,", value);
	return at + (size_t)snprintf(text + at, 8, "%s", label);
}

static void test_digits_decode(void **state) {
	static const char *const bad[] = {"10\n", "x\n", "\n", "3,\n", "3 \n", "-1\n", ""};
	struct hd_dataset data = {0};
	char text[1024];
	size_t bytes = digits_row(text, 16, "3\r\n");

	bytes += digits_row(text + bytes, 8, "9");
	assert_int_equal(hd_digits_decode(text, bytes, &data, error, sizeof error), 0);
	assert_int_equal(data.rows, 2);
	assert_float_equal(data.x[0], 1.0f, 0);
	assert_float_equal(data.x[64], 0.5f, 0);
	assert_int_equal(data.y[0], 3);
	assert_int_equal(data.y[1], 9);
	hd_dataset_fini(&data);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		bytes = digits_row(text, 1, "1\n");
		bytes += digits_row(text + bytes, 1, bad[i]);
		assert_int_equal(
			hd_digits_decode(text, bytes, &data, error, sizeof error), -EINVAL
		);
		assert_true(strncmp(error, "line 2: column 65: ", 19) == 0);
		assert_null(data.x);
	}
	bytes = digits_row(text, 17, "1\n");
	assert_int_equal(hd_digits_decode(text, bytes, &data, error, sizeof error), -EINVAL);
	assert_int_equal(hd_digits_decode(text, 0, &data, error, sizeof error), -EINVAL);
}

static void test_idx_decode(void **state) {
	static const uint8_t good[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
	static const uint8_t huge[]
		= {0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0};
	struct hd_idx idx;
	uint8_t copy[sizeof good];

	assert_int_equal(hd_idx_decode(good, sizeof good, &idx, error, sizeof error), 0);
	assert_int_equal(idx.dimension_count, 2);
	assert_int_equal(idx.dimension[1], 3);
	assert_int_equal(idx.bytes, 6);
	assert_int_equal(idx.data[5], 6);
	for (size_t bytes = 0; bytes < sizeof good; bytes++)
		assert_int_equal(hd_idx_decode(good, bytes, &idx, error, sizeof error), -EINVAL);
	assert_int_equal(hd_idx_decode(huge, sizeof huge, &idx, error, sizeof error), -E2BIG);
	for (size_t at = 0; at < 4; at++) {
		memcpy(copy, good, sizeof copy);
		copy[at] ^= 0x40;
		assert_int_equal(
			hd_idx_decode(copy, sizeof copy, &idx, error, sizeof error), -EINVAL
		);
	}
}

static void write_gz(const char *dir, const char *name, const uint8_t *data, unsigned bytes) {
	char path[256];
	gzFile gz;

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	gz = gzopen(path, "wb");
	assert_non_null(gz);
	assert_int_equal(gzwrite(gz, data, bytes), (int)bytes);
	assert_int_equal(gzclose(gz), Z_OK);
}

static void write_plain(const char *dir, const char *name, const uint8_t *data, size_t bytes) {
	char path[256];
	FILE *file;

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static void remove_all(const char *dir) {
	static const char *const names[]
		= {"train-images-idx3-ubyte",
		   "train-labels-idx1-ubyte.gz",
		   "t10k-images-idx3-ubyte",
		   "t10k-labels-idx1-ubyte"};
	char path[256];

	for (int i = 0; i < 4; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		(void)unlink(path);
	}
	assert_int_equal(rmdir(dir), 0);
}

static void test_idx_directory(void **state) {
	static const uint8_t images[]
		= {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255, 51, 1};
	static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 2};
	static const uint8_t few[] = {0, 0, 8, 1, 0, 0, 0, 1, 4};
	struct hd_dataset train, test;
	char dir[] = "/tmp/heddle-idx-XXXXXX";

	assert_non_null(mkdtemp(dir));
	assert_int_equal(hd_dataset_open(dir, &train, &test, error, sizeof error), -ENOENT);
	write_plain(dir, "train-images-idx3-ubyte", images, sizeof images);
	write_gz(dir, "train-labels-idx1-ubyte.gz", labels, sizeof labels);
	write_plain(dir, "t10k-images-idx3-ubyte", images, sizeof images);
	write_plain(dir, "t10k-labels-idx1-ubyte", few, sizeof few);
	assert_int_equal(hd_dataset_open(dir, &train, &test, error, sizeof error), -EINVAL);
	assert_non_null(strstr(error, "t10k-labels"));
	write_plain(dir, "t10k-labels-idx1-ubyte", labels, sizeof labels);
	assert_int_equal(hd_dataset_open(dir, &train, &test, error, sizeof error), 0);
	assert_int_equal(train.rows, 2);
	assert_int_equal(train.features, 2);
	assert_int_equal(train.classes, 5);
	assert_float_equal(train.x[1], 1.0f, 0);
	assert_float_equal(train.x[2], 0.2f, 1e-7);
	assert_int_equal(train.y[0], 4);
	hd_dataset_fini(&train);
	hd_dataset_fini(&test);
	remove_all(dir);
}

/* The shards of all ranks together are the data, and an epoch visits each row once. */
static void test_sampler_shards(void **state) {
	struct hd_dataset data = make_data(23, 1, 3);
	uint32_t seen[23] = {0};

	for (uint32_t i = 0; i < 23; i++)
		data.x[i] = (float)i;
	for (uint32_t rank = 0; rank < 4; rank++) {
		struct hd_sampler sampler;

		assert_int_equal(hd_sampler_init(&sampler, &data, rank, 4, 1, 5), 0);
		for (uint32_t i = 0; i < 2 * sampler.count; i++) {
			hd_sampler_next(&sampler);
			seen[(uint32_t)sampler.x[0]]++;
			assert_int_equal((uint32_t)sampler.x[0] % 4, rank);
		}
		hd_sampler_fini(&sampler);
	}
	for (uint32_t i = 0; i < 23; i++)
		assert_int_equal(seen[i], 2);
	hd_dataset_fini(&data);
}

static void test_sampler_repeats(void **state) {
	struct hd_dataset data = make_data(50, 2, 3);
	struct hd_sampler a, b, c;
	bool differs = false;

	assert_int_equal(hd_sampler_init(&a, &data, 1, 3, 4, 9), 0);
	assert_int_equal(hd_sampler_init(&b, &data, 4, 3, 4, 9), 0);
	assert_int_equal(hd_sampler_init(&c, &data, 1, 3, 4, 10), 0);
	for (int i = 0; i < 20; i++) {
		hd_sampler_next(&a);
		hd_sampler_next(&b);
		hd_sampler_next(&c);
		assert_memory_equal(a.x, b.x, sizeof(float) * 8);
		differs |= a.x[0] != c.x[0] || a.x[7] != c.x[7];
	}
	assert_true(differs);
	hd_sampler_fini(&a);
	hd_sampler_fini(&b);
	hd_sampler_fini(&c);
	assert_int_equal(hd_sampler_init(&a, &data, 0, 0, 4, 9), -EINVAL);
	assert_int_equal(hd_sampler_init(&a, &data, 50, 60, 4, 9), -EINVAL);
	hd_dataset_fini(&data);
}

static void test_compute_schedule(void **state) {
	char path[] = "/tmp/heddle-schedule-XXXXXX";
	struct hd_compute compute;
	int fd = mkstemp(path);
	hd_ns begun;

	assert_true(fd >= 0);
	assert_true(dprintf(fd, "# a comment\n0 2\n\n0.05 0.5") > 0);
	close(fd);
	assert_int_equal(hd_compute_init(&compute, 20, path, error, sizeof error), 0);
	assert_float_equal(compute.factor, 2.0, 0);
	begun = hd_compute_now();
	assert_int_equal(hd_compute_pad(&compute, begun, error, sizeof error), 0);
	assert_true(hd_compute_now() - begun >= 40 * HD_MS);
	while (hd_compute_now() - compute.started < 55 * HD_MS)
		assert_int_equal(
			hd_compute_pad(&compute, hd_compute_now(), error, sizeof error), 0
		);
	assert_int_equal(hd_compute_pad(&compute, hd_compute_now(), error, sizeof error), 0);
	assert_float_equal(compute.factor, 0.5, 0);
	hd_compute_fini(&compute);
	unlink(path);
}

static void test_compute_schedule_errors(void **state) {
	static const char *const bad[]
		= {"0 1\nx\n",
		   "\n1\n",
		   "\n-1 2\n",
		   "\n1 -2\n",
		   "\n1 2 3\n",
		   "\nnan 1\n",
		   "\n1 inf\n",
		   "\n1x 1\n"};
	char path[] = "/tmp/heddle-schedule-XXXXXX";
	struct hd_compute compute;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_true(pwrite(fd, bad[i], strlen(bad[i]), 0) > 0);
		assert_int_equal(hd_compute_init(&compute, 1, path, error, sizeof error), -EINVAL);
		assert_true(strncmp(error, "schedule: line 2: ", 18) == 0);
	}
	close(fd);
	unlink(path);
	assert_int_equal(hd_compute_init(&compute, 1, path, error, sizeof error), -ENOENT);
	assert_int_equal(hd_compute_init(&compute, -1, NULL, error, sizeof error), -EINVAL);
}

static void test_compute_fifo(void **state) {
	char dir[] = "/tmp/heddle-fifo-XXXXXX", path[64];
	struct hd_compute compute;
	int fd;

	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof path, "%s/f", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(hd_compute_init(&compute, 0, path, error, sizeof error), 0);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_true(write(fd, "0 3\n0 ", 6) == 6);
	assert_int_equal(hd_compute_pad(&compute, hd_compute_now(), error, sizeof error), 0);
	assert_float_equal(compute.factor, 3.0, 0);
	assert_true(write(fd, "1.5\n", 4) == 4);
	assert_int_equal(hd_compute_pad(&compute, hd_compute_now(), error, sizeof error), 0);
	assert_float_equal(compute.factor, 1.5, 0);
	close(fd);
	assert_int_equal(hd_compute_pad(&compute, hd_compute_now(), error, sizeof error), 0);
	hd_compute_fini(&compute);
	unlink(path);
	rmdir(dir);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gradient_softmax),
		cmocka_unit_test(test_gradient_mlp),
		cmocka_unit_test(test_model_layout),
		cmocka_unit_test(test_model_refuses),
		cmocka_unit_test(test_digits_learn),
		cmocka_unit_test(test_digits_decode),
		cmocka_unit_test(test_idx_decode),
		cmocka_unit_test(test_idx_directory),
		cmocka_unit_test(test_sampler_shards),
		cmocka_unit_test(test_sampler_repeats),
		cmocka_unit_test(test_compute_schedule),
		cmocka_unit_test(test_compute_schedule_errors),
		cmocka_unit_test(test_compute_fifo),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
