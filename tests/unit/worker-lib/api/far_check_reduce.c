/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of values on a device, beside the real controller and aggregator cores on the loopback interface. */
#include "device_check.h"
#include "far_check_reduce.h"
#include "hd_aggregator.h"
#include "hd_controller.h"
#include "hd_program.h"
#include "hd_topology.h"
#include "heddle.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUES 40000
#define PATIENCE_MS 20000
static const int RANKS[] = {3, 9};

struct node {
	struct hd_driver *driver;
	struct hd_node core;
	pthread_t thread;
	struct hd_addr address;
	uint32_t window;
};

struct scene {
	struct hd_keyring keys;
	char key_path[64], address[32];
	struct node controller, aggregator;
	struct hd_controller *c;
	struct hd_aggregator *a;
	struct hd_device *device;
	struct heddle *worker[2]; /* 0: the device's */
	float *values[2], *sum; /* on the host */
	float *far[2]; /* on the device: in, out */
};

static void *serve(void *arg) {
	const struct node *node = arg;

	assert_int_equal(hd_driver_run(node->driver, node->core), 0);
	return NULL;
}

static void node_open(struct node *node) {
	struct hd_driver_config config = {.bind = {.ipv4 = 0x7f000001}};
	char error[256];

	assert_int_equal(hd_driver_open(&config, &node->driver, error, sizeof error), 0);
	node->address = hd_driver_bound(node->driver);
	node->window = hd_driver_receive_window(node->driver);
}

static void node_start(struct node *node, const struct hd_core_ops *ops, void *core) {
	node->core = (struct hd_node){ops, core};
	assert_int_equal(pthread_create(&node->thread, NULL, serve, node), 0);
}

static void node_stop(struct node *node) {
	hd_driver_stop(node->driver);
	pthread_join(node->thread, NULL);
}

static void start(struct scene *scene) {
	struct hd_controller_config controller = {.name = "c", .keys = &scene->keys, .epoch = 1};
	struct hd_aggregator_config aggregator = {.name = "a", .host = "a", .keys = &scene->keys};
	char error[256];
	FILE *file;
	int fd;

	(void)snprintf(scene->key_path, sizeof scene->key_path, "/tmp/heddle-key-XXXXXX");
	fd = mkstemp(scene->key_path);
	file = fd >= 0 ? fdopen(fd, "w") : NULL;
	assert_non_null(file);
	(void)fprintf(file, "1 %064d\n", 7);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(
		hd_program_read_keys(scene->key_path, &scene->keys, error, sizeof error), 0
	);
	node_open(&scene->controller);
	node_open(&scene->aggregator);
	controller.key_id = aggregator.key_id = scene->keys.keys[0].id;
	assert_int_equal(hd_program_entropy(controller.seed), 0);
	assert_int_equal(hd_program_entropy(aggregator.seed), 0);
	assert_int_equal(hd_topology_create_star(&controller.topology), 0);
	assert_int_equal(hd_controller_create(&controller, &scene->c), 0);
	aggregator.controller = scene->controller.address;
	aggregator.data = scene->aggregator.address;
	aggregator.receive_window_bytes = scene->aggregator.window;
	assert_int_equal(hd_aggregator_create(&aggregator, &scene->a), 0);
	node_start(&scene->controller, &hd_controller_ops, scene->c);
	node_start(&scene->aggregator, &hd_aggregator_ops, scene->a);
	(void)snprintf(
		scene->address,
		sizeof scene->address,
		"127.0.0.1:%u",
		scene->controller.address.port
	);
}

static void stop(struct scene *scene) {
	node_stop(&scene->aggregator);
	node_stop(&scene->controller);
	hd_aggregator_destroy(scene->a);
	hd_controller_destroy(scene->c);
	hd_driver_close(scene->aggregator.driver);
	hd_driver_close(scene->controller.driver);
	hd_keyring_fini(&scene->keys);
	unlink(scene->key_path);
}

static struct heddle *join(const struct scene *scene, int rank) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	struct heddle *fabric;

	assert_int_equal(heddle_spec_create("tests", "reduce", &spec), 0);
	options.controller = scene->address;
	options.key_file = scene->key_path;
	options.host = rank == RANKS[0] ? "h0" : "h1";
	options.bind = "127.0.0.1";
	options.rank = rank;
	assert_int_equal(heddle_open(spec, &options, &fabric), 0);
	heddle_spec_destroy(spec);
	return fabric;
}

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
	start(scene);
	assert_int_equal(setenv("HEDDLE_WORLD_SIZE", "2", 1), 0);
	for (int k = 0; k < 2; k++) {
		scene->worker[k] = join(scene, RANKS[k]);
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
	stop(scene);
	for (int k = 0; k < 2; k++) {
		device->ops->release(device, scene->far[k]);
		free(scene->values[k]);
	}
	free(scene->sum);
	free(scene);
}
