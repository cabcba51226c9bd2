/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds in shared memory: two workers of this process on one host, beside the real controller and aggregator cores. */
#include "far_nodes.h"
#include "hd_assert.h"
#include "hd_shared.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WORKERS 2
#define VALUES 2000 /* too many for the requests, few enough to be made at once */
#define PATIENCE_MS 20000

static _Thread_local int held; /* mutexes, by this thread */
static atomic_bool fault; /* the next step fails */
static atomic_int held_in_step, held_in_log, errors;

enum hd_shared_next __real_hd_shared_step(struct hd_shared_run *run);
enum hd_shared_next __wrap_hd_shared_step(struct hd_shared_run *run);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
	const int rc = __real_pthread_mutex_lock(mutex);

	held += rc == 0;
	return rc;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
	const int rc = __real_pthread_mutex_unlock(mutex);

	held -= rc == 0;
	return rc;
}

enum hd_shared_next __wrap_hd_shared_step(struct hd_shared_run *run) {
	const bool fails = atomic_exchange(&fault, false);

	if (fails)
		held_in_step = held;
	hd_assert(!fails);
	return __real_hd_shared_step(run);
}

static void heed(const char *text) {
	if (!strstr(text, "internal error"))
		return;
	held_in_log = held;
	errors++;
}

/* Both make one all-reduce. */
static void add(struct heddle *const worker[WORKERS]) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	static float values[WORKERS][VALUES];
	struct heddle_ticket *ticket[WORKERS];

	options.exact = WORKERS;
	for (int rank = 0; rank < WORKERS; rank++) {
		for (int i = 0; i < VALUES; i++)
			values[rank][i] = (float)(i + rank);
		assert_int_equal(
			heddle_allreduce_start(
				worker[rank],
				values[rank],
				values[rank],
				VALUES,
				&options,
				&ticket[rank]
			),
			0
		);
	}
	for (int rank = 0; rank < WORKERS; rank++) {
		struct heddle_status status = HEDDLE_STATUS_INIT;

		assert_int_equal(
			heddle_ticket_wait(ticket[rank], HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status),
			0
		);
		assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
		assert_int_equal(status.workers, WORKERS);
		heddle_ticket_free(ticket[rank]);
		for (int i = 0; i < VALUES; i++)
			assert_true(values[rank][i] == (float)(2 * i + 1));
	}
}

/* A failed assertion in a round that the progress thread makes at once: it is logged when no lock is held, and the
 * round goes by the network. */
static void test_log_without_lock(void **state) {
	struct heddle *worker[WORKERS];
	struct far_nodes *nodes;

	(void)state;
	if (access("/dev/shm", R_OK | W_OK) < 0)
		skip();
	nodes = far_nodes_start();
	far_nodes_on_error(nodes, heed);
	for (int rank = 0; rank < WORKERS; rank++)
		worker[rank] = far_nodes_join(nodes, "short", "one", rank);
	add(worker); /* the segment is mapped */
	assert_int_equal(errors, 0);
	fault = true;
	add(worker);
	assert_int_equal(errors, 1);
	assert_int_equal(held_in_step, 1);
	assert_int_equal(held_in_log, 0);
	add(worker);
	for (int rank = 0; rank < WORKERS; rank++)
		assert_int_equal(heddle_close(worker[rank], PATIENCE_MS), 0);
	far_nodes_stop(nodes);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_log_without_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
