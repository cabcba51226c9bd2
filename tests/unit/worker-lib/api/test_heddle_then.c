/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle_ticket_then(): when, by which thread and how often functions are called, and what they may do. */
#include "hd_program.h"
#include "hd_server.h"
#include "heddle.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUES 2000
#define PATIENCE_S 10
#define CHAIN 5
#define THREADS 4
#define PUSHES 24

struct fixture {
	struct hd_keyring keys;
	struct hd_driver *driver;
	struct hd_server *server;
	pthread_t thread;
	char key_path[64], address[32];
};

/* The last call of a function. */
struct seen {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned calls;
	struct heddle_status status;
	pthread_t thread;
	struct heddle *fabric;
	uint64_t base;
	struct heddle_ticket *open; /* not ended */
	int rcs[12];
	unsigned rc_count;
	float values[VALUES];
};

static void *serve(void *arg) {
	struct fixture *fixture = arg;
	struct hd_node node = {&hd_server_ops, fixture->server};

	assert_int_equal(hd_driver_run(fixture->driver, node), 0);
	return NULL;
}

static int setup(void **state) {
	struct fixture *fixture = calloc(1, sizeof *fixture);
	struct hd_driver_config driver = {.bind = {.ipv4 = 0x7f000001}};
	struct hd_server_config config = {.name = "s", .host = "ps", .keys = &fixture->keys};
	char error[256];
	int fd;

	(void)snprintf(fixture->key_path, sizeof fixture->key_path, "/tmp/heddle-key-XXXXXX");
	fd = mkstemp(fixture->key_path);
	assert_true(fd >= 0);
	assert_true(dprintf(fd, "1 %064d\n", 7) > 0);
	(void)close(fd);
	assert_int_equal(
		hd_program_read_keys(fixture->key_path, &fixture->keys, error, sizeof error), 0
	);
	config.key_id = fixture->keys.keys[0].id;
	assert_int_equal(hd_program_entropy(config.seed), 0);
	assert_int_equal(hd_driver_open(&driver, &fixture->driver, error, sizeof error), 0);
	config.data = hd_driver_bound(fixture->driver);
	config.receive_window_bytes = hd_driver_receive_window(fixture->driver);
	assert_int_equal(hd_server_create(&config, &fixture->server), 0);
	(void)snprintf(fixture->address, sizeof fixture->address, "127.0.0.1:%u", config.data.port);
	assert_int_equal(pthread_create(&fixture->thread, NULL, serve, fixture), 0);
	*state = fixture;
	return 0;
}

static int teardown(void **state) {
	struct fixture *fixture = *state;

	hd_driver_stop(fixture->driver);
	pthread_join(fixture->thread, NULL);
	hd_server_destroy(fixture->server);
	hd_driver_close(fixture->driver);
	hd_keyring_fini(&fixture->keys);
	unlink(fixture->key_path);
	free(fixture);
	return 0;
}

/* `server` NULL: one that does not answer. */
static struct heddle *
open_job(const struct fixture *fixture, const char *job, const char *server, int manual) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	const uint64_t values = VALUES;
	struct heddle_spec *spec;
	struct heddle *fabric;

	options.server = server ? server : "127.0.0.1:9";
	options.key_file = fixture->key_path;
	options.bind = "127.0.0.1";
	options.rank = 0;
	options.manual = manual;
	assert_int_equal(heddle_spec_create("tests", job, &spec), 0);
	assert_int_equal(heddle_spec_add_tensor(spec, "w", &values, 1, HEDDLE_INIT_ZERO, 0), 0);
	heddle_spec_set_tau_max(spec, 1000);
	assert_int_equal(heddle_open(spec, &options, &fabric), 0);
	heddle_spec_destroy(spec);
	if (server)
		assert_int_equal(heddle_wait_joined(fabric, PATIENCE_S * 1000, NULL, NULL), 0);
	return fabric;
}

static struct heddle_ticket *start_push(struct seen *seen) {
	struct heddle_ticket *ticket = NULL;

	assert_int_equal(
		heddle_push_start(seen->fabric, seen->values, seen->base, NULL, &ticket), 0
	);
	return ticket;
}

static struct seen *make_seen(struct heddle *fabric) {
	struct seen *seen = calloc(1, sizeof *seen);

	assert_int_equal(pthread_mutex_init(&seen->lock, NULL), 0);
	assert_int_equal(pthread_cond_init(&seen->changed, NULL), 0);
	seen->fabric = fabric;
	(void)heddle_wait_joined(fabric, 0, &seen->base, NULL);
	return seen;
}

static void free_seen(struct seen *seen) {
	pthread_cond_destroy(&seen->changed);
	pthread_mutex_destroy(&seen->lock);
	free(seen);
}

static void note(struct heddle_ticket *ticket, void *argument) {
	struct seen *seen = argument;

	pthread_mutex_lock(&seen->lock);
	seen->calls++;
	seen->thread = pthread_self();
	seen->status = (struct heddle_status)HEDDLE_STATUS_INIT;
	assert_true(heddle_ticket_test(ticket, &seen->status) >= 0);
	pthread_cond_broadcast(&seen->changed);
	pthread_mutex_unlock(&seen->lock);
}

/* Waits until it was called this many times. */
static void await(struct seen *seen, unsigned calls) {
	struct timespec until;
	int rc = 0;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&seen->lock);
	while (seen->calls < calls && rc == 0)
		rc = pthread_cond_timedwait(&seen->changed, &seen->lock, &until);
	assert_int_equal(seen->calls, calls);
	pthread_mutex_unlock(&seen->lock);
}

static void test_nonsense(void **state) {
	struct heddle *fabric = open_job(*state, "nonsense", NULL, 0);
	struct seen *seen = make_seen(fabric);
	struct heddle_ticket *ticket = start_push(seen);

	assert_int_equal(heddle_ticket_then(NULL, HEDDLE_WAIT_OUTCOME, note, seen), -EINVAL);
	assert_string_equal(heddle_last_error(), "ticket: NULL");
	assert_int_equal(heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, NULL, seen), -EINVAL);
	assert_string_equal(heddle_last_error(), "function: NULL");
	assert_int_equal(heddle_ticket_then(ticket, (enum heddle_wait)4, note, seen), -EINVAL);
	assert_string_equal(heddle_last_error(), "until: 4 is unknown");
	for (int i = 0; i < HEDDLE_THEN_MAX; i++)
		assert_int_equal(heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, note, seen), 0);
	assert_int_equal(heddle_ticket_then(ticket, HEDDLE_WAIT_HELD, note, seen), -ENOSPC);
	assert_non_null(strstr(heddle_last_error(), "HEDDLE_THEN_MAX"));
	heddle_ticket_free(ticket);
	assert_int_equal(seen->calls, 0);
	assert_int_equal(heddle_close(fabric, 0), -ETIMEDOUT);
	assert_int_equal(seen->calls, HEDDLE_THEN_MAX);
	free_seen(seen);
}

/* The ticket is freed before; it is valid in the function. */
static void test_each(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "each", fixture->address, 0);
	struct seen *seen = make_seen(fabric);

	for (int until = HEDDLE_WAIT_HELD; until <= HEDDLE_WAIT_DURABLE; until++) {
		struct heddle_ticket *ticket = start_push(seen);

		assert_int_equal(
			heddle_ticket_then(ticket, (enum heddle_wait)until, note, seen), 0
		);
		heddle_ticket_free(ticket);
		await(seen, (unsigned)until + 1);
		if (until == HEDDLE_WAIT_HELD)
			assert_true(
				seen->status.state == HEDDLE_STATE_HELD
				|| seen->status.state == HEDDLE_STATE_APPLIED
			);
		else
			assert_int_equal(seen->status.state, HEDDLE_STATE_APPLIED);
		if (until >= HEDDLE_WAIT_RELEASED)
			assert_int_equal(seen->status.released, 1);
	}
	assert_int_equal(heddle_close(fabric, 2000), 0);
	assert_int_equal(seen->calls, 4);
	free_seen(seen);
}

static void test_at_once(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "once", fixture->address, 0);
	struct seen *seen = make_seen(fabric);
	struct heddle_ticket *ticket = start_push(seen);

	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, 5000, NULL), 0);
	for (unsigned until = HEDDLE_WAIT_HELD; until <= HEDDLE_WAIT_DURABLE; until++) {
		assert_int_equal(
			heddle_ticket_then(ticket, (enum heddle_wait)until, note, seen), 0
		);
		assert_int_equal(seen->calls, until + 1);
		assert_true(pthread_equal(seen->thread, pthread_self()));
	}
	assert_int_equal(heddle_close(fabric, 2000), 0);
	assert_int_equal(heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, note, seen), 0);
	assert_int_equal(seen->calls, 5);
	heddle_ticket_free(ticket);
	free_seen(seen);
}

/* Only calls that would wait are refused, and they change nothing. */
static void try_all(struct heddle_ticket *ticket, void *argument) {
	struct seen *seen = argument;
	struct heddle *fabric = seen->fabric;
	const struct heddle_range first = {0, 1};
	const struct heddle_sparse sparse = {&first, 1, seen->values};
	float *x = seen->values;
	const int rcs[] = {
		heddle_push(fabric, x, 0, NULL, 0, NULL),
		heddle_push_sparse(fabric, &sparse, 0, NULL, -1, NULL),
		heddle_pull(fabric, x, NULL, -1, NULL),
		heddle_allreduce(fabric, x, x, 1, NULL, -1, NULL),
		heddle_barrier(fabric, NULL, -1, NULL),
		heddle_agree(fabric, x, 1, -1, NULL),
		heddle_ticket_wait(seen->open, HEDDLE_WAIT_OUTCOME, -1, NULL),
		heddle_progress(fabric, -1),
		heddle_leave(fabric, -1),
		heddle_close(fabric, -1),
	};

	memcpy(seen->rcs, rcs, sizeof rcs);
	seen->rc_count = sizeof rcs / sizeof *rcs;
	assert_non_null(strstr(heddle_last_error(), "heddle_ticket_then()"));
	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, -1, NULL), 0);
	assert_int_equal(heddle_wait_joined(fabric, -1, NULL, NULL), 0);
	note(ticket, argument);
}

static void test_no_waiting(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "waits", fixture->address, 0);
	struct heddle *silent = open_job(fixture, "silent", NULL, 0);
	struct seen *seen = make_seen(fabric);
	struct heddle_stats stats = HEDDLE_STATS_INIT;
	struct heddle_ticket *ticket;

	seen->fabric = silent;
	seen->open = start_push(seen);
	seen->fabric = fabric;
	ticket = start_push(seen);
	assert_int_equal(heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, try_all, seen), 0);
	await(seen, 1);
	for (unsigned i = 0; i < seen->rc_count; i++)
		assert_int_equal(seen->rcs[i], -EDEADLK);
	/* The same where the caller's thread calls it. */
	memset(seen->rcs, 0, sizeof seen->rcs);
	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, 5000, NULL), 0);
	assert_int_equal(heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, try_all, seen), 0);
	for (unsigned i = 0; i < seen->rc_count; i++)
		assert_int_equal(seen->rcs[i], -EDEADLK);
	assert_int_equal(heddle_get_stats(fabric, &stats), 0);
	assert_int_equal(stats.pushed, 1);
	heddle_ticket_free(ticket);
	heddle_ticket_free(seen->open);
	assert_int_equal(heddle_close(fabric, 2000), 0);
	(void)heddle_close(silent, 0);
	free_seen(seen);
}

/* Begins the next push, and frees the one that has ended. */
static void go_on(struct heddle_ticket *ticket, void *argument) {
	struct seen *seen = argument;
	struct heddle_ticket *next;

	if (seen->calls + 1 < CHAIN) {
		next = start_push(seen);
		assert_int_equal(heddle_ticket_then(next, HEDDLE_WAIT_OUTCOME, go_on, seen), 0);
	}
	note(ticket, argument);
	heddle_ticket_free(ticket);
}

static void chain(struct fixture *fixture, const char *job, int manual) {
	struct heddle *fabric = open_job(fixture, job, fixture->address, manual);
	struct seen *seen = make_seen(fabric);
	struct heddle_stats stats = HEDDLE_STATS_INIT;

	assert_int_equal(heddle_ticket_then(start_push(seen), HEDDLE_WAIT_OUTCOME, go_on, seen), 0);
	for (int i = 0; manual && seen->calls < CHAIN && i < PATIENCE_S * 10; i++)
		assert_true(heddle_progress(fabric, 100) >= 0);
	await(seen, CHAIN);
	assert_int_equal(!!manual, !!pthread_equal(seen->thread, pthread_self()));
	assert_int_equal(heddle_get_stats(fabric, &stats), 0);
	assert_int_equal(stats.applied, CHAIN);
	assert_int_equal(heddle_close(fabric, 2000), 0);
	free_seen(seen);
}

static void test_chain(void **state) {
	chain(*state, "chain", 0);
	chain(*state, "manual", 1);
}

static void test_cancel(void **state) {
	struct heddle *fabric = open_job(*state, "cancel", NULL, 0);
	struct seen *seen = make_seen(fabric);
	struct heddle_ticket *ticket = start_push(seen);

	assert_int_equal(heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, note, seen), 0);
	assert_int_equal(heddle_ticket_cancel(ticket), 0);
	await(seen, 1);
	assert_false(pthread_equal(seen->thread, pthread_self()));
	assert_int_equal(seen->status.state, HEDDLE_STATE_FAILED);
	assert_int_equal(seen->status.reason, HEDDLE_REASON_CANCELLED);
	heddle_ticket_free(ticket);
	(void)heddle_close(fabric, 0);
	assert_int_equal(seen->calls, 1);
	free_seen(seen);
}

static void use_closed(struct heddle_ticket *ticket, void *argument) {
	struct seen *seen = argument;
	struct heddle_ticket *none = NULL;

	assert_int_equal(heddle_pull_start(seen->fabric, seen->values, NULL, &none), -ESHUTDOWN);
	assert_int_equal(heddle_fd(seen->fabric), -ESHUTDOWN);
	assert_int_equal(heddle_close(seen->fabric, 0), -EDEADLK);
	assert_int_equal(heddle_ticket_cancel(ticket), -EALREADY);
	note(ticket, argument);
}

static void test_close(void **state) {
	struct heddle *fabric = open_job(*state, "close", NULL, 0);
	struct seen *seen = make_seen(fabric);
	struct heddle_ticket *ticket = start_push(seen);

	assert_int_equal(heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, use_closed, seen), 0);
	heddle_ticket_free(ticket);
	assert_int_equal(heddle_close(fabric, 0), -ETIMEDOUT);
	assert_int_equal(seen->calls, 1);
	assert_int_equal(seen->status.state, HEDDLE_STATE_FAILED);
	assert_int_equal(seen->status.reason, HEDDLE_REASON_CLOSED);
	free_seen(seen);
}

static void test_fork(void **state) {
	struct heddle *fabric = open_job(*state, "fork", NULL, 0);
	struct seen *seen = make_seen(fabric);
	struct heddle_ticket *ticket = start_push(seen);
	pid_t child;
	int end;

	assert_int_equal(heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, note, seen), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		end = heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, note, seen) != -ECHILD;
		_exit(end || heddle_close(fabric, 0) != -ECHILD || seen->calls != 0);
	}
	assert_int_equal(waitpid(child, &end, 0), child);
	assert_int_equal(end, 0);
	heddle_ticket_free(ticket);
	(void)heddle_close(fabric, 0);
	assert_int_equal(seen->calls, 1);
	free_seen(seen);
}

static void *push_many(void *argument) {
	struct seen *seen = argument;

	for (unsigned i = 0; i < PUSHES; i++) {
		struct heddle_ticket *ticket;

		if (heddle_push_start(seen->fabric, seen->values, seen->base, NULL, &ticket) < 0)
			abort();
		if (heddle_ticket_then(ticket, (enum heddle_wait)(i % 4), note, seen) < 0)
			abort();
		if (i % 3 == 0)
			(void)heddle_ticket_cancel(ticket);
		if (i % 2 == 0 && heddle_ticket_wait(ticket, HEDDLE_WAIT_HELD, 20000, NULL) < 0)
			abort();
		if (heddle_ticket_then(ticket, HEDDLE_WAIT_RELEASED, note, seen) < 0)
			abort();
		heddle_ticket_free(ticket);
	}
	return NULL;
}

static void test_threads(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "threads", fixture->address, 0);
	struct seen *seen = make_seen(fabric);
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, push_many, seen), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	(void)heddle_close(fabric, 5000);
	assert_int_equal(seen->calls, THREADS * PUSHES * 2);
	free_seen(seen);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_each),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_no_waiting),
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
