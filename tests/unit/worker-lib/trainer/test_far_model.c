/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients on the fake device: those of the host within rounding, the same bits each time, in the order of backward;
 * whatever fails, nothing is left. */
#include "hd_device_fake.h"
#include "hd_far_model.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BATCH 40
#define LAYERS 3
#define MODEL "mlp:48,33"
#define ROUNDING 2e-6
#define PATIENCE (60 * HD_SECOND)

struct scene {
	struct hd_dataset train, test;
	struct hd_sampler sampler;
	struct hd_model *model;
	uint64_t values;
	float *params, *grad; /* on the host */
	struct hd_device *device;
	void *stream;
};

static void begin(struct scene *scene, const struct hd_fake_config *config) {
	char error[HD_TEXT_BYTES_MAX];

	assert_int_equal(
		hd_dataset_open("digits", &scene->train, &scene->test, error, sizeof error), 0
	);
	assert_int_equal(
		hd_model_create(MODEL, &scene->train, BATCH, &scene->model, error, sizeof error), 0
	);
	assert_int_equal(hd_sampler_init(&scene->sampler, &scene->train, 0, 1, BATCH, 3), 0);
	scene->values = hd_model_values(scene->model);
	scene->params = malloc(scene->values * sizeof(float));
	scene->grad = malloc(scene->values * sizeof(float));
	for (uint64_t i = 0; i < scene->values; i++)
		scene->params[i] = (float)(i * 7919 % 2001) * 2e-4F - 0.2F;
	assert_int_equal(hd_fake_open(config, &scene->device), 0);
	assert_int_equal(scene->device->ops->stream_create(scene->device, &scene->stream), 0);
}

static void end(struct scene *scene) {
	scene->device->ops->stream_destroy(scene->device, scene->stream);
	assert_int_equal(hd_fake_close(scene->device), 0);
	hd_sampler_fini(&scene->sampler);
	hd_model_destroy(scene->model);
	hd_dataset_fini(&scene->train);
	hd_dataset_fini(&scene->test);
	free(scene->params);
	free(scene->grad);
}

/* Copies to or from the device, and waits. 0, or what failed. */
static int move(struct scene *scene, void *to, const void *from) {
	const struct hd_device_ops *ops = scene->device->ops;
	void *event = NULL;
	int rc = ops->event_create(scene->device, &event);

	if (rc == 0)
		rc = ops->copy(
			scene->device, scene->stream, to, from, scene->values * sizeof(float)
		);
	if (rc == 0)
		rc = ops->record(scene->device, event, scene->stream);
	if (rc == 0)
		rc = hd_device_wait(scene->device, event, PATIENCE);
	if (event)
		ops->event_destroy(scene->device, event);
	return rc;
}

/* One gradient of the sampler's batch on the device, into `got`; loss as there. 0, or what failed. */
static int
far_gradient(struct scene *scene, const struct hd_model_watch *watch, float *got, double *loss) {
	const struct hd_device_ops *ops = scene->device->ops;
	struct hd_far_model *model = NULL;
	void *params = NULL, *grad = NULL;
	int rc = ops->allocate(scene->device, scene->values * sizeof(float), &params);

	if (rc == 0)
		rc = ops->allocate(scene->device, scene->values * sizeof(float), &grad);
	if (rc == 0)
		rc = move(scene, params, scene->params);
	if (rc == 0)
		rc = hd_far_model_create(scene->device, scene->stream, scene->model, BATCH, &model);
	if (rc == 0)
		rc = hd_far_model_gradient(model, params, &scene->sampler, grad, watch, loss);
	if (rc == 0)
		rc = move(scene, got, grad);
	hd_far_model_destroy(model);
	if (params)
		ops->release(scene->device, params);
	if (grad)
		ops->release(scene->device, grad);
	return rc;
}

static void test_same_as_on_the_host(void **state) {
	struct scene scene;

	begin(&scene, &(struct hd_fake_config){.seed = 1});
	for (int step = 0; step < 5; step++) {
		float *got[2] = {
			malloc(scene.values * sizeof(float)), malloc(scene.values * sizeof(float))};
		double loss, far_loss[2];

		hd_sampler_next(&scene.sampler);
		loss = hd_model_gradient(
			scene.model,
			scene.params,
			scene.sampler.x,
			scene.sampler.y,
			BATCH,
			scene.grad
		);
		for (int i = 0; i < 2; i++)
			assert_int_equal(
				far_gradient(
					&scene, &(struct hd_model_watch){0}, got[i], &far_loss[i]
				),
				0
			);
		assert_memory_equal(got[0], got[1], scene.values * sizeof(float));
		assert_memory_equal(&far_loss[0], &far_loss[1], sizeof far_loss[0]);
		assert_true(fabs(far_loss[0] - loss) < ROUNDING * loss);
		for (uint64_t i = 0; i < scene.values; i++)
			assert_true(fabs((double)(got[0][i] - scene.grad[i])) < ROUNDING);
		free(got[0]);
		free(got[1]);
	}
	end(&scene);
}

struct seen {
	uint64_t first[LAYERS + 1];
	double loss[LAYERS + 1];
	size_t count;
};

static void on_ready(void *arg, uint64_t first, double loss) {
	struct seen *seen = arg;

	assert_true(seen->count < LAYERS);
	seen->first[seen->count] = first;
	seen->loss[seen->count++] = loss;
}

static void test_layers_become_ready_backwards(void **state) {
	const uint64_t first[LAYERS]
		= {UINT64_C(65) * 48 + UINT64_C(49) * 33, UINT64_C(65) * 48, 0};
	struct seen seen = {.count = 0};
	struct scene scene;
	double loss;

	begin(&scene, &(struct hd_fake_config){.seed = 2, .delay = 1});
	hd_sampler_next(&scene.sampler);
	assert_int_equal(
		far_gradient(&scene, &(struct hd_model_watch){on_ready, &seen}, scene.grad, &loss),
		0
	);
	assert_int_equal(seen.count, LAYERS);
	assert_memory_equal(seen.first, first, sizeof first);
	for (int i = 0; i < LAYERS; i++)
		assert_memory_equal(&seen.loss[i], &loss, sizeof loss);
	end(&scene);
}

/* At each block of the work in turn. */
static void test_a_device_fails(void **state) {
	uint64_t failures = 0;
	int rc = -EIO;

	for (uint64_t at = 1; rc != 0; at++) {
		struct scene scene;
		double loss = -1;

		begin(&scene, &(struct hd_fake_config){.seed = at, .fails_at = at});
		hd_sampler_next(&scene.sampler);
		rc = far_gradient(&scene, &(struct hd_model_watch){0}, scene.grad, &loss);
		assert_true(rc == 0 || rc == -EIO);
		if (rc != 0)
			assert_string_equal(hd_device_words(), "fake device: fell off the bus");
		failures += rc != 0;
		end(&scene);
	}
	assert_true(failures > 20);
}

/* Each allocation in turn. */
static void test_no_memory(void **state) {
	uint64_t failures = 0;
	int rc = -ENOMEM;

	for (uint64_t at = 2; rc != 0; at++) { /* the first is the scene's stream */
		struct scene scene;
		double loss;

		begin(&scene, &(struct hd_fake_config){.seed = at, .refuses = at});
		hd_sampler_next(&scene.sampler);
		rc = far_gradient(&scene, &(struct hd_model_watch){0}, scene.grad, &loss);
		assert_true(rc == 0 || rc == -ENOMEM);
		failures += rc != 0;
		end(&scene);
	}
	assert_true(failures > 10);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_as_on_the_host),
		cmocka_unit_test(test_layers_become_ready_backwards),
		cmocka_unit_test(test_a_device_fails),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
