/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of lists: two workers of this process, beside the real controller core on the loopback interface. */
#include "hd_controller.h"
#include "hd_program.h"
#include "hd_topology.h"
#include "heddle.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WORKERS 2
#define PARTS 7
#define SHORT 100 /* values that go with the request */
#define LONG 60000
#define MANY 2000000 /* values of a round that takes some ms */
#define ROOM (MANY + PARTS)
#define GUARD 77.0f
#define PATIENCE_MS 20000

struct scene {
	struct hd_keyring keys;
	char key_path[64], address[32];
	struct hd_driver *driver;
	struct hd_controller *controller;
	pthread_t thread;
	struct heddle *worker[WORKERS];
	float memory[WORKERS][ROOM];
};

static void *serve(void *arg) {
	struct scene *scene = arg;
	struct hd_node node = {&hd_controller_ops, scene->controller};

	assert_int_equal(hd_driver_run(scene->driver, node), 0);
	return NULL;
}

static struct heddle *join(const struct scene *scene, int rank, const char *host) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	struct heddle *fabric;

	assert_int_equal(heddle_spec_create("tests", "lists", &spec), 0);
	options.controller = scene->address;
	options.key_file = scene->key_path;
	options.host = host;
	options.bind = "127.0.0.1";
	options.rank = rank;
	options.world_size = WORKERS;
	assert_int_equal(heddle_open(spec, &options, &fabric), 0);
	heddle_spec_destroy(spec);
	return fabric;
}

static void make_controller(struct scene *scene) {
	struct hd_driver_config driver = {.bind = {.ipv4 = 0x7f000001}};
	struct hd_controller_config config = {.name = "c", .keys = &scene->keys, .epoch = 1};
	char error[256];
	int fd;

	(void)snprintf(scene->key_path, sizeof scene->key_path, "/tmp/heddle-key-XXXXXX");
	fd = mkstemp(scene->key_path);
	assert_true(fd >= 0 && dprintf(fd, "1 %064d\n", 7) > 0);
	(void)close(fd);
	assert_int_equal(
		hd_program_read_keys(scene->key_path, &scene->keys, error, sizeof error), 0
	);
	assert_int_equal(hd_driver_open(&driver, &scene->driver, error, sizeof error), 0);
	(void)snprintf(
		scene->address,
		sizeof scene->address,
		"127.0.0.1:%u",
		hd_driver_bound(scene->driver).port
	);
	config.key_id = scene->keys.keys[0].id;
	assert_int_equal(hd_program_entropy(config.seed), 0);
	assert_int_equal(hd_topology_create_star(&config.topology), 0);
	assert_int_equal(hd_controller_create(&config, &scene->controller), 0);
	assert_int_equal(pthread_create(&scene->thread, NULL, serve, scene), 0);
}

/* host NULL: each has a host of its own. */
static int setup_on(void **state, const char *host) {
	struct scene *scene = calloc(1, sizeof *scene);
	const char *const own[WORKERS] = {"h0", "h1"};

	make_controller(scene);
	for (int rank = 0; rank < WORKERS; rank++)
		scene->worker[rank] = join(scene, rank, host ? host : own[rank]);
	*state = scene;
	return 0;
}

static int setup_network(void **state) {
	return setup_on(state, NULL);
}

static int setup_memory(void **state) {
	return setup_on(state, "one");
}

static int teardown(void **state) {
	struct scene *scene = *state;

	for (int rank = 0; rank < WORKERS; rank++)
		(void)heddle_close(scene->worker[rank], PATIENCE_MS);
	hd_driver_stop(scene->driver);
	pthread_join(scene->thread, NULL);
	hd_controller_destroy(scene->controller);
	hd_driver_close(scene->driver);
	hd_keyring_fini(&scene->keys);
	unlink(scene->key_path);
	free(scene);
	return 0;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* What the worker gives as value i of all. */
static float given(int rank, uint64_t i) {
	return (float)((int)(i % 97) * (rank + 3) - 150);
}

/* `count` values in parts of many sizes, two of them empty, from the end of the worker's memory to its beginning, with
 * a guard before each. The workers divide them differently. */
static void cut(struct scene *scene, int rank, uint64_t count, struct heddle_part parts[PARTS]) {
	float *memory = scene->memory[rank];
	uint64_t at = count + PARTS, done = 0;

	for (unsigned k = 0; k < PARTS; k++) {
		uint64_t size = k % 4 == 0 ? 0 : (count - done) / (unsigned)(2 + (int)k % 2 + rank);

		if (k == PARTS - 1)
			size = count - done;
		at -= size;
		parts[k] = (struct heddle_part){size > 0 ? memory + at : NULL, size};
		for (uint64_t i = 0; i < size; i++)
			memory[at + i] = given(rank, done + i);
		memory[--at] = GUARD;
		done += size;
	}
	assert_int_equal(at, 0);
}

/* Guards are as they were, and value i of all is value(arg, i). */
static void
check(const struct heddle_part parts[PARTS], float (*value)(int arg, uint64_t i), int arg) {
	uint64_t done = 0;

	for (unsigned k = 0; k < PARTS; k++) {
		const float *data = parts[k].data;

		for (uint64_t i = 0; i < parts[k].count; i++)
			assert_true(data[i] == value(arg, done + i));
		if (data)
			assert_true(data[-1] == GUARD);
		done += parts[k].count;
	}
}

static float sum(int factor, uint64_t i) {
	return (float)factor * (given(0, i) + given(1, i));
}

/* Of both workers, however long one of them takes. */
static struct heddle_collective_options both(void) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;

	options.exact = WORKERS;
	return options;
}

static struct heddle_ticket *start(struct scene *scene, int rank, const struct heddle_part *parts) {
	const struct heddle_collective_options options = both();
	struct heddle_ticket *ticket = NULL;

	assert_int_equal(
		heddle_allreduce_list_start(scene->worker[rank], parts, PARTS, &options, &ticket), 0
	);
	return ticket;
}

static enum heddle_reason end_of(struct heddle_ticket *ticket) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status), 0);
	if (status.state == HEDDLE_STATE_APPLIED)
		assert_int_equal(status.workers, WORKERS);
	heddle_ticket_free(ticket);
	return status.state == HEDDLE_STATE_APPLIED ? HEDDLE_REASON_NONE : status.reason;
}

/* Both make one all-reduce. */
static void add(struct scene *scene, uint64_t count) {
	struct heddle_part parts[WORKERS][PARTS], copy[PARTS];
	struct heddle_ticket *ticket[WORKERS];

	for (int rank = 0; rank < WORKERS; rank++) {
		cut(scene, rank, count, parts[rank]);
		memcpy(copy, parts[rank], sizeof copy);
		ticket[rank] = start(scene, rank, copy);
		memset(copy, 0, sizeof copy); /* the array is copied */
	}
	for (int rank = 0; rank < WORKERS; rank++) {
		assert_int_equal(end_of(ticket[rank]), HEDDLE_REASON_NONE);
		check(parts[rank], sum, 1);
	}
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_sums(void **state) {
	const uint64_t counts[] = {1, 2, SHORT, LONG, SHORT, LONG};

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		add(*state, counts[i]);
}

/* Types and payloads: the copies are of bytes. */
static void test_types(void **state) {
	struct scene *scene = *state;
	uint8_t ours[] = {250, 1, 2}, others[] = {10, 20};
	double halves[2][2] = {{0.5, 4}, {1.5, -1}};
	struct heddle_collective_options options = both();
	const struct heddle_part bytes[] = {{ours + 2, 1}, {ours, 1}}, pair[] = {{others, 2}};
	const struct heddle_part apart[] = {{&halves[0][1], 1}, {&halves[0][0], 1}};
	struct heddle_ticket *ticket;

	options.type = HEDDLE_TYPE_UINT8; /* wraps */
	assert_int_equal(
		heddle_allreduce_list_start(scene->worker[0], bytes, 2, &options, &ticket), 0
	);
	assert_int_equal(
		heddle_allreduce_list(scene->worker[1], pair, 1, &options, PATIENCE_MS, NULL), 0
	);
	assert_int_equal(end_of(ticket), HEDDLE_REASON_NONE);
	assert_memory_equal(ours, ((uint8_t[]){14, 1, 12}), 3);
	assert_memory_equal(others, ((uint8_t[]){12, 14}), 2);
	options.type = HEDDLE_TYPE_FP64;
	options.reduce_op = HEDDLE_REDUCE_OP_AVERAGE;
	assert_int_equal(
		heddle_allreduce_list_start(scene->worker[0], apart, 2, &options, &ticket), 0
	);
	assert_int_equal(/* of one buffer, at the other worker */
			 heddle_allreduce(
				 scene->worker[1],
				 halves[1],
				 halves[1],
				 2,
				 &options,
				 PATIENCE_MS,
				 NULL
			 ),
			 0
	);
	assert_int_equal(end_of(ticket), HEDDLE_REASON_NONE);
	assert_true(halves[0][1] == 2.75 && halves[0][0] == -0.25);
	assert_true(halves[1][0] == 2.75 && halves[1][1] == -0.25);
}

static void be_called(struct heddle_ticket *ticket, void *argument) {
	_Atomic bool *called = argument;

	(void)ticket;
	*called = true;
}

/* A function that waits for the end finds the result: it is there before the ticket has ended. */
static void test_then(void **state) {
	struct scene *scene = *state;
	const struct heddle_collective_options options = both();
	struct heddle_part parts[WORKERS][PARTS];
	struct heddle_ticket *ticket;
	_Atomic bool called = false;

	for (int rank = 0; rank < WORKERS; rank++)
		cut(scene, rank, LONG, parts[rank]);
	ticket = start(scene, 0, parts[0]);
	assert_int_equal(
		heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, be_called, (void *)&called), 0
	);
	assert_int_equal(
		heddle_allreduce_list(scene->worker[1], parts[1], PARTS, &options, -1, NULL), 0
	);
	check(parts[1], sum, 1);
	for (int i = 0; i < PATIENCE_MS && !called; i++)
		(void)usleep(1000);
	assert_true(called);
	check(parts[0], sum, 1);
	heddle_ticket_free(ticket);
}

/* Of another total at each: the values are as they were, and the next call is good. */
static void test_failures(void **state) {
	struct scene *scene = *state;
	struct heddle_part parts[WORKERS][PARTS];
	struct heddle_ticket *ticket[WORKERS];

	add(scene, SHORT); /* both are there */
	for (int rank = 0; rank < WORKERS; rank++) {
		cut(scene, rank, LONG - (uint64_t)rank, parts[rank]);
		ticket[rank] = start(scene, rank, parts[rank]);
	}
	for (int rank = 0; rank < WORKERS; rank++) {
		assert_int_equal(end_of(ticket[rank]), HEDDLE_REASON_MISMATCH);
		check(parts[rank], given, rank);
	}
	add(scene, LONG);
}

/* The other worker does not call: one call is withdrawn, and one ends with the handle. */
static void test_alone(void **state) {
	struct scene *scene = *state;
	struct heddle_part parts[PARTS];
	struct heddle_ticket *ticket;

	add(scene, SHORT);
	cut(scene, 0, LONG, parts);
	ticket = start(scene, 0, parts);
	assert_int_equal(heddle_ticket_cancel(ticket), 0);
	assert_int_equal(end_of(ticket), HEDDLE_REASON_CANCELLED);
	check(parts, given, 0);
	ticket = start(scene, 0, parts);
	assert_int_equal(heddle_close(scene->worker[0], 0), -ETIMEDOUT);
	scene->worker[0] = NULL;
	assert_int_equal(end_of(ticket), HEDDLE_REASON_CLOSED);
	check(parts, given, 0);
}

/* Rank 0 gives up after *ms, in a round for which rank 1 has called; then both make a barrier. True: the round had
 * begun, and ended with rank 0's values. A call that is withdrawn before it has a place in the order leaves it to the
 * barrier, which is a mismatch then. */
static bool gives_up(struct scene *scene, struct heddle_part (*parts)[PARTS], int *ms) {
	struct heddle_collective_options exact = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	struct heddle_ticket *ticket, *barrier;
	enum heddle_reason reason;
	int rc;

	exact.exact = WORKERS;
	for (int rank = 0; rank < WORKERS; rank++)
		cut(scene, rank, MANY, parts[rank]);
	ticket = start(scene, 1, parts[1]);
	rc = heddle_allreduce_list(scene->worker[0], parts[0], PARTS, &exact, *ms, NULL);
	*ms = rc == 0 ? *ms * 3 / 4 : *ms + 1 + *ms / 4;
	assert_int_equal(heddle_barrier_start(scene->worker[0], NULL, &barrier), 0);
	reason = end_of(ticket);
	if (reason != HEDDLE_REASON_MISMATCH)
		(void)heddle_barrier(scene->worker[1], NULL, PATIENCE_MS, NULL);
	(void)end_of(barrier);
	check(parts[0], rc == 0 ? sum : given, rc == 0 ? 1 : 0);
	return rc == -ETIMEDOUT && reason == HEDDLE_REASON_NONE;
}

/* The parts are the caller's when a wait has ended, although the round goes on with its values. */
static void test_timeout(void **state) {
	struct scene *scene = *state;
	struct heddle_part parts[WORKERS][PARTS];
	int ms = 0;

	add(scene, SHORT);
	for (int i = 0; !gives_up(scene, parts, &ms); i++)
		assert_true(i < 1000);
	check(parts[1], sum, 1);
	assert_int_equal(heddle_close(scene->worker[0], PATIENCE_MS), 0);
	scene->worker[0] = NULL; /* whose thread has ended */
	check(parts[0], given, 0);
}

static void test_root(void **state) {
	struct scene *scene = *state;
	const struct heddle_collective_options options = both();
	struct heddle_part parts[WORKERS][PARTS];
	struct heddle_ticket *ticket;

	for (int root = 0; root < WORKERS; root++)
		for (uint64_t count = SHORT; count <= LONG; count += LONG - SHORT) {
			for (int rank = 0; rank < WORKERS; rank++)
				cut(scene, rank, count, parts[rank]);
			assert_int_equal(
				heddle_reduce_list_start(
					scene->worker[0], parts[0], PARTS, root, &options, &ticket
				),
				0
			);
			assert_int_equal(
				heddle_reduce_list(
					scene->worker[1], parts[1], PARTS, root, &options, -1, NULL
				),
				0
			);
			assert_int_equal(end_of(ticket), HEDDLE_REASON_NONE);
			check(parts[root], sum, 1);
			check(parts[1 - root], given, 1 - root);
			assert_int_equal(
				heddle_broadcast_list_start(
					scene->worker[0], parts[0], PARTS, root, &options, &ticket
				),
				0
			);
			assert_int_equal(
				heddle_broadcast_list(
					scene->worker[1], parts[1], PARTS, root, &options, -1, NULL
				),
				0
			);
			assert_int_equal(end_of(ticket), HEDDLE_REASON_NONE);
			for (int rank = 0; rank < WORKERS; rank++)
				check(parts[rank], sum, 1);
		}
}

#define IN(where, test)                                                                            \
	{ #test ", " #where, test, setup_##where, teardown, NULL }

int main(void) {
	const struct CMUnitTest tests[] = {
		IN(network, test_sums),
		IN(memory, test_sums),
		IN(network, test_types),
		IN(network, test_then),
		IN(memory, test_then),
		IN(network, test_failures),
		IN(memory, test_failures),
		IN(network, test_alone),
		IN(network, test_timeout),
		IN(network, test_root),
		IN(memory, test_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
