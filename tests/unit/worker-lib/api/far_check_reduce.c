/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of values on a device, beside the real controller and aggregator cores on the loopback interface. */
#include "device_check.h"
#include "far_check_reduce.h"
#include "far_nodes.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUES 40000
#define PATIENCE_MS 20000
static const int RANKS[] = {3, 9};

struct scene {
	struct far_nodes *nodes;
	struct hd_device *device;
	struct heddle *worker[2]; /* 0: the device's */
	float *values[2], *sum; /* on the host */
	float *far[2]; /* on the device: in, out */
};

/* Both of one round. */
static void both(struct scene *scene, struct heddle_collective_options options, bool in_place) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket[2];
	float *ours = malloc(VALUES * sizeof *ours);
	float *to = scene->far[in_place ? 0 : 1];

	options.memory = HEDDLE_MEMORY_CUDA;
	assert_int_equal(
		heddle_allreduce_start(
			scene->worker[0], scene->far[0], to, VALUES, &options, &ticket[0]
		),
		0
	);
	options.memory = HEDDLE_MEMORY_HOST;
	assert_int_equal(
		heddle_allreduce_start(
			scene->worker[1], scene->values[1], scene->sum, VALUES, &options, &ticket[1]
		),
		0
	);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			heddle_ticket_wait(ticket[i], HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status), 0
		);
		assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
		assert_int_equal(status.workers, 2);
		assert_int_equal(status.direction, HEDDLE_DIRECTION_ALLREDUCE);
		heddle_ticket_free(ticket[i]);
	}
	device_fetch(scene->device, to, ours, VALUES);
	assert_memory_equal(ours, scene->sum, VALUES * sizeof *ours);
	/* Small whole numbers: exact in every payload. */
	for (int i = 0; i < VALUES; i++) {
		float sum = scene->values[0][i] + scene->values[1][i];

		sum = options.reduce_op == HEDDLE_REDUCE_OP_AVERAGE ? sum / 2 : sum;
		assert_true(isnan(sum) ? isnan(ours[i]) : ours[i] == sum);
	}
	free(ours);
}

static void refill(struct scene *scene) {
	scene->device->ops->release(scene->device, scene->far[0]);
	scene->far[0] = device_filled(scene->device, scene->values[0], VALUES);
}

/* No other worker has called: the values stay as they are, and what comes later does not change them either. */
static void check_timeout(struct scene *scene) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	float *ours = malloc(VALUES * sizeof *ours);
	int rc;

	refill(scene);
	options.memory = HEDDLE_MEMORY_CUDA;
	assert_int_equal(
		heddle_allreduce(
			scene->worker[0], scene->far[0], scene->far[0], VALUES, &options, 100, NULL
		),
		-ETIMEDOUT
	);
	options.memory = HEDDLE_MEMORY_HOST;
	rc = heddle_allreduce(
		scene->worker[1], scene->values[1], scene->values[1], VALUES, &options, 200, NULL
	);
	assert_true(rc == 0 || rc == -ETIMEDOUT || rc == -EIO);
	device_fetch(scene->device, scene->far[0], ours, VALUES);
	assert_memory_equal(ours, scene->values[0], VALUES * sizeof *ours);
	free(ours);
}

/* From one buffer into another, which a timeout would have left as it was: the first stays as it is. */
static void check_apart(struct scene *scene) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	float *in = malloc(VALUES * sizeof *in), *out = calloc(VALUES, sizeof *out);
	struct heddle_ticket *ticket;

	memcpy(in, scene->values[1], VALUES * sizeof *in);
	assert_int_equal(
		heddle_allreduce_start(
			scene->worker[0], scene->values[0], scene->sum, VALUES, NULL, &ticket
		),
		0
	);
	assert_int_equal(
		heddle_allreduce(scene->worker[1], in, out, VALUES, NULL, PATIENCE_MS, &status), 0
	);
	assert_int_equal(status.workers, 2);
	assert_int_equal(status.delay, 0);
	assert_memory_equal(in, scene->values[1], VALUES * sizeof *in);
	for (int i = 0; i < VALUES; i++) {
		float sum = scene->values[0][i] + in[i];

		assert_true(isnan(sum) ? isnan(out[i]) : out[i] == sum);
	}
	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, NULL), 0);
	assert_memory_equal(out, scene->sum, VALUES * sizeof *out);
	heddle_ticket_free(ticket);
	free(in);
	free(out);
}

/* Both are members, by their ranks and in their order; where there is no room for a rank it is only counted. */
static void check_members(const struct scene *scene) {
	for (int k = 0; k < 2; k++) {
		struct heddle_members members = HEDDLE_MEMBERS_INIT;
		int ranks[3] = {-1, -1, -1};

		for (int i = 0; i < PATIENCE_MS && members.count < 2; i++) {
			assert_int_equal(
				heddle_get_members(scene->worker[k], &members, ranks, 1), 0
			);
			(void)usleep(1000);
		}
		assert_int_equal(members.count, 2);
		assert_int_equal(members.index, k);
		assert_int_equal(ranks[0], RANKS[0]);
		assert_int_equal(ranks[1], -1);
		assert_int_equal(heddle_get_members(scene->worker[k], &members, ranks, 3), 0);
		assert_int_equal(ranks[1], RANKS[1]);
		assert_int_equal(ranks[2], -1);
	}
}

void far_check_reduce(struct hd_device *device) {
	struct scene *scene = calloc(1, sizeof *scene);

	scene->device = device;
	scene->nodes = far_nodes_start();
	assert_int_equal(setenv("HEDDLE_WORLD_SIZE", "2", 1), 0);
	for (int k = 0; k < 2; k++) {
		scene->worker[k]
			= far_nodes_join(scene->nodes, "reduce", k == 0 ? "h0" : "h1", RANKS[k]);
		scene->values[k] = malloc(VALUES * sizeof(float));
		for (int i = 0; i < VALUES; i++)
			scene->values[k][i] = (float)((i * (k + 3) % 61) - 30);
		scene->values[k][7 + k] = k ? NAN : -INFINITY;
		scene->values[k][VALUES - 1] = k ? INFINITY : -INFINITY;
		scene->far[k] = device_filled(device, scene->values[0], VALUES);
	}
	scene->sum = malloc(VALUES * sizeof(float));
	for (int i = 0; i < 3 * 2 * 2 * 2; i++) {
		struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;

		options.payload = (enum heddle_payload)(i % 3);
		options.reduce_op = (enum heddle_reduce_op)(i / 3 % 2);
		options.borrow = i / 6 % 2;
		both(scene, options, i / 12 % 2);
		if (i / 12 % 2)
			refill(scene);
	}
	check_apart(scene);
	check_members(scene);
	check_timeout(scene);
	assert_int_equal(unsetenv("HEDDLE_WORLD_SIZE"), 0);
	for (int k = 0; k < 2; k++)
		(void)heddle_close(scene->worker[k], PATIENCE_MS);
	far_nodes_stop(scene->nodes);
	for (int k = 0; k < 2; k++) {
		device->ops->release(device, scene->far[k]);
		free(scene->values[k]);
	}
	free(scene->sum);
	free(scene);
}
