/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle from outside, with the real server core on the loopback interface. */
#include "hd_program.h"
#include "hd_server.h"
#include "heddle.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUES 70000
#define THREADS 4
#define PUSHES 12

struct fixture {
	struct hd_keyring keys;
	struct hd_driver *driver;
	struct hd_server *server;
	pthread_t thread;
	char key_path[64], address[32];
	float *a, *b;
};

static void *serve(void *arg) {
	struct fixture *fixture = arg;
	struct hd_node node = {&hd_server_ops, fixture->server};

	assert_int_equal(hd_driver_run(fixture->driver, node), 0);
	return NULL;
}

static void write_key(struct fixture *fixture) {
	int fd;

	(void)snprintf(fixture->key_path, sizeof fixture->key_path, "/tmp/heddle-key-XXXXXX");
	fd = mkstemp(fixture->key_path);
	assert_true(fd >= 0);
	for (int i = 0; i < 66; i++)
		assert_int_equal(write(fd, i == 0 ? "1" : i == 1 ? " " : "a", 1), 1);
	assert_int_equal(write(fd, "\n", 1), 1);
	close(fd);
}

static int setup(void **state) {
	struct fixture *fixture = calloc(1, sizeof *fixture);
	struct hd_driver_config driver = {.bind = {.ipv4 = 0x7f000001}};
	struct hd_server_config config = {.name = "s", .host = "ps", .keys = &fixture->keys};
	char error[256];

	write_key(fixture);
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
	fixture->a = malloc(VALUES * sizeof(float));
	fixture->b = malloc(VALUES * sizeof(float));
	for (int i = 0; i < VALUES; i++)
		fixture->a[i] = (float)(i % 1000) * 0x1p-10f;
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
	free(fixture->a);
	free(fixture->b);
	free(fixture);
	return 0;
}

static struct heddle_spec *make_spec(const char *job, uint64_t values) {
	struct heddle_spec *spec;

	assert_int_equal(heddle_spec_create("tests", job, &spec), 0);
	assert_int_equal(
		heddle_spec_add_tensor(spec, "w", &values, 1, HEDDLE_INIT_UNIFORM, 0.5f), 0
	);
	heddle_spec_set_sgd(spec, 0.5f, 0.0f, 0.0f);
	heddle_spec_set_tau_max(spec, 100);
	heddle_spec_set_seed(spec, 11);
	return spec;
}

static struct heddle_options options_of(const struct fixture *fixture) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;

	options.server = fixture->address;
	options.key_file = fixture->key_path;
	options.host = "h1";
	options.bind = "127.0.0.1";
	options.rank = 0;
	return options;
}

static struct heddle *open_job(const struct fixture *fixture, const char *job, int manual) {
	struct heddle_options options = options_of(fixture);
	struct heddle_spec *spec = make_spec(job, VALUES);
	struct heddle *fabric;

	options.manual = manual;
	assert_int_equal(heddle_open(spec, &options, &fabric), 0);
	heddle_spec_destroy(spec);
	assert_int_equal(heddle_wait_joined(fabric, 5000, NULL, NULL), 0);
	return fabric;
}

/* Returns the version of the model in `into`. */
static uint64_t pull(struct heddle *fabric, float *into) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	assert_int_equal(heddle_pull(fabric, into, NULL, 5000, &status), 0);
	assert_int_equal(status.direction, HEDDLE_DIRECTION_PULL);
	return status.version;
}

/* w <- w - 0.5 g, with the initial weights that the description says. */
static void train_once(void **state, const char *job, int manual) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, job, manual);
	struct heddle_spec *spec = make_spec(job, VALUES);
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_pull_options newer = HEDDLE_PULL_OPTIONS_INIT;
	struct heddle_push_options borrow = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_stats stats = HEDDLE_STATS_INIT;
	float *start = malloc(VALUES * sizeof(float));
	uint64_t version = 0;

	assert_int_equal(heddle_spec_initialize_model(spec, start), 0);
	heddle_spec_destroy(spec);
	version = pull(fabric, fixture->b);
	assert_int_equal(HEDDLE_VERSION_COUNTER(version), 0);
	assert_memory_equal(fixture->b, start, VALUES * sizeof(float));
	borrow.borrow = 1;
	assert_int_equal(heddle_push(fabric, fixture->a, version, &borrow, 5000, &status), 0);
	assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
	assert_int_equal(status.direction, HEDDLE_DIRECTION_PUSH);
	assert_int_equal(status.delay, 1);
	assert_int_equal(status.workers, 0);
	assert_int_equal(status.released, 1);
	assert_int_equal(HEDDLE_VERSION_COUNTER(status.version), 1);
	version = pull(fabric, fixture->b);
	assert_true(version == status.version);
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(fixture->b[i], start[i] - 0.5f * fixture->a[i], 1e-6);
	newer.conditional = 1;
	newer.have = version;
	assert_int_equal(heddle_pull(fabric, fixture->b, &newer, 5000, &status), 1);
	assert_int_equal(status.reason, HEDDLE_REASON_NOT_MODIFIED);
	assert_int_equal(heddle_get_stats(fabric, &stats), 0);
	assert_int_equal(stats.pushed, 1);
	assert_int_equal(stats.applied, 1);
	assert_int_equal(stats.direct, 1);
	assert_int_equal(stats.direct_bytes, 3 * sizeof(float) * VALUES);
	free(start);
	assert_int_equal(heddle_close(fabric, 2000), 0);
}

static void test_train_once(void **state) {
	train_once(state, "once", 0);
}

static void test_train_once_manually(void **state) {
	train_once(state, "manual", 1);
}

struct pusher {
	struct heddle *fabric;
	const float *data;
	uint64_t base;
	unsigned applied, dropped, failed;
};

static void *push_many(void *arg) {
	struct pusher *pusher = arg;
	struct heddle_push_options borrow = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_ticket *tickets[PUSHES];

	for (int i = 0; i < PUSHES; i++) {
		borrow.borrow = i % 2;
		if (heddle_push_start(
			    pusher->fabric, pusher->data, pusher->base, &borrow, &tickets[i]
		    )
		    < 0)
			abort();
	}
	for (int i = 0; i < PUSHES; i++) {
		struct heddle_status status = HEDDLE_STATUS_INIT;

		if (i % 5 == 4)
			(void)heddle_ticket_cancel(tickets[i]);
		if (heddle_ticket_wait(tickets[i], HEDDLE_WAIT_RELEASED, 20000, &status) < 0)
			abort();
		pusher->applied += status.state == HEDDLE_STATE_APPLIED;
		pusher->dropped += status.state == HEDDLE_STATE_DROPPED;
		pusher->failed += status.state == HEDDLE_STATE_FAILED;
		heddle_ticket_free(tickets[i]);
	}
	return NULL;
}

/* Several threads on one handle; the model is the sum of what was applied. */
static void test_threads(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "threads", 0);
	struct pusher pushers[THREADS];
	pthread_t threads[THREADS];
	struct heddle_stats stats = HEDDLE_STATS_INIT;
	unsigned applied = 0, all = 0;
	uint64_t version;
	float before;

	version = pull(fabric, fixture->b);
	before = fixture->b[999];
	for (int i = 0; i < THREADS; i++) {
		pushers[i] = (struct pusher){.fabric = fabric, .data = fixture->a, .base = version};
		assert_int_equal(pthread_create(&threads[i], NULL, push_many, &pushers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		applied += pushers[i].applied;
		all += pushers[i].applied + pushers[i].dropped + pushers[i].failed;
	}
	assert_int_equal(all, THREADS * PUSHES);
	assert_true(applied > 0);
	version = pull(fabric, fixture->b);
	assert_int_equal(HEDDLE_VERSION_COUNTER(version), applied);
	assert_float_equal(fixture->b[999], before - 0.5f * (float)applied * fixture->a[999], 1e-3);
	assert_int_equal(heddle_get_stats(fabric, &stats), 0);
	assert_int_equal(stats.pushed, stats.applied + stats.dropped + stats.failed);
	assert_int_equal(stats.applied, applied);
	assert_int_equal(heddle_close(fabric, 2000), 0);
}

static void test_descriptor(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "descriptor", 0);
	struct pollfd wait = {.fd = heddle_fd(fabric), .events = POLLIN};
	struct heddle_ticket *ticket;

	assert_int_equal(poll(&wait, 1, 5000), 1); /* the membership follows the join */
	assert_int_equal(heddle_progress(fabric, 0), 1);
	assert_int_equal(heddle_push_start(fabric, fixture->a, 0, NULL, &ticket), 0);
	assert_int_equal(poll(&wait, 1, 5000), 1);
	assert_int_equal(heddle_progress(fabric, 0), 1);
	assert_int_equal(poll(&wait, 1, 0), 0);
	assert_int_equal(heddle_ticket_test(ticket, NULL), 1);
	assert_int_equal(heddle_ticket_cancel(ticket), -EALREADY);
	heddle_ticket_free(ticket);
	assert_int_equal(heddle_close(fabric, 2000), 0);
}

/* The loop of a program that has an epoll of its own. */
static void test_manual_descriptor(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "loop", 1);
	struct pollfd wait = {.fd = heddle_fd(fabric), .events = POLLIN};
	struct heddle_ticket *ticket;
	int rounds = 0;

	assert_int_equal(heddle_push_start(fabric, fixture->a, 0, NULL, &ticket), 0);
	while (heddle_ticket_test(ticket, NULL) == 0 && rounds++ < 100000) {
		(void)poll(&wait, 1, heddle_timeout_ms(fabric));
		assert_true(heddle_progress(fabric, 0) >= 0);
	}
	assert_int_equal(heddle_ticket_test(ticket, NULL), 1);
	/* Idle: it sleeps. */
	rounds = 0;
	while (rounds < 1000 && poll(&wait, 1, 20) > 0) {
		(void)heddle_progress(fabric, 0);
		rounds++;
	}
	assert_true(rounds < 100);
	heddle_ticket_free(ticket);
	assert_int_equal(heddle_close(fabric, 2000), 0);
}

static void test_not_finite(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "finite", 0);
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_ticket *ticket = NULL;
	float kept = fixture->a[123];

	fixture->a[123] = NAN;
	assert_int_equal(heddle_push_start(fabric, fixture->a, 0, NULL, &ticket), -EDOM);
	fixture->a[123] = kept;
	assert_null(ticket);
	assert_string_equal(heddle_last_error(), "tensor w: value 123 is nan");
	options.payload = HEDDLE_PAYLOAD_FP16;
	fixture->a[123] = -65520;
	assert_int_equal(heddle_push_start(fabric, fixture->a, 0, &options, &ticket), -EDOM);
	fixture->a[123] = kept;
	assert_string_equal(
		heddle_last_error(),
		"tensor w: value 123 is -65520: beyond the payload type's range"
	);
	options.scale = 67200; /* the greatest is 999 / 1024 */
	assert_int_equal(heddle_push_start(fabric, fixture->a, 0, &options, &ticket), -EDOM);
	assert_non_null(strstr(heddle_last_error(), "tensor w: value 999 is 65559.4"));
	options.size
		= offsetof(struct heddle_push_options, scale); /* a caller that knows no scale */
	assert_int_equal(heddle_push_start(fabric, fixture->a, 0, &options, &ticket), 0);
	heddle_ticket_free(ticket);
	options.payload = (enum heddle_payload)(HEDDLE_PAYLOAD_FIXED32 + 1);
	assert_int_equal(heddle_push_start(fabric, fixture->a, 0, &options, &ticket), -EINVAL);
	assert_int_equal(heddle_close(fabric, 2000), 0);
}

static void test_sparse(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "sparse", 0);
	const struct heddle_range runs[] = {{1, 2}, {VALUES - 1, 1}}, wrong[] = {{1, 2}, {2, 1}};
	float data[] = {1, 2, 4};
	struct heddle_sparse update = {runs, 2, data};
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket = NULL;
	uint64_t version;

	version = pull(fabric, fixture->a);
	options.scale = 4;
	assert_int_equal(heddle_push_sparse_start(fabric, &update, version, &options, &ticket), 0);
	data[0] = 99; /* it was copied */
	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, 5000, &status), 0);
	assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
	assert_int_equal(status.bytes, 2 * 8 + 3 * 4);
	heddle_ticket_free(ticket);
	version = pull(fabric, fixture->b);
	for (uint64_t i = 0; i < VALUES; i++) {
		bool touched = i == 1 || i == 2 || i == VALUES - 1;

		assert_int_equal(fixture->a[i] != fixture->b[i], touched);
	}
	assert_float_equal(fixture->a[1] - fixture->b[1], 0.5 * 4 * 1, 1e-5);
	assert_float_equal(fixture->a[2] - fixture->b[2], 0.5 * 4 * 2, 1e-5);
	assert_int_equal(heddle_push_sparse(fabric, &update, version, NULL, 5000, &status), 0);
	assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
	assert_int_equal(status.base, version);
	update.ranges = wrong;
	assert_int_equal(
		heddle_push_sparse_start(fabric, &update, version, NULL, &ticket), -EINVAL
	);
	update.ranges = runs;
	data[2] = NAN;
	assert_int_equal(heddle_push_sparse_start(fabric, &update, version, NULL, &ticket), -EDOM);
	assert_non_null(strstr(heddle_last_error(), "is nan"));
	options.payload = HEDDLE_PAYLOAD_BF16;
	assert_int_equal(
		heddle_push_sparse_start(fabric, &update, version, &options, &ticket), -EINVAL
	);
	assert_int_equal(heddle_close(fabric, 2000), 0);
}

/* Borrowed: what the server takes off the model is 0.5 x scale x a, and a stays as it is. */
static void push_scaled(struct fixture *fixture, struct heddle_push_options *options, float near) {
	struct heddle *fabric = open_job(fixture, "scale", 0);
	float *before = malloc(VALUES * sizeof(float));
	uint64_t version;

	options->borrow = 1;
	version = pull(fabric, before);
	assert_int_equal(heddle_push(fabric, fixture->a, version, options, 5000, NULL), 0);
	version = pull(fabric, fixture->b);
	for (int i = 0; i < VALUES; i++) {
		float one = (float)(i % 1000) * 0x1p-10f;

		assert_float_equal(fixture->a[i], one, 0);
		assert_float_equal(before[i] - fixture->b[i], 0.5f * options->scale * one, near);
	}
	free(before);
	assert_int_equal(heddle_close(fabric, 2000), 0);
}

static void test_scale(void **state) {
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;

	options.scale = 0.75f;
	push_scaled(*state, &options, 1e-6f);
	/* The power of two is that of the scaled values, or they did not fit. */
	options.payload = HEDDLE_PAYLOAD_FIXED32;
	options.scale = 1024;
	push_scaled(*state, &options, 2e-4f);
}

static void test_bad_options(void **state) {
	struct fixture *fixture = *state;
	struct heddle_options options = options_of(fixture);
	struct heddle_spec *spec = make_spec("bad", VALUES);
	struct heddle *fabric = (void *)1;

	options.key_file = "/nonexistent/key";
	assert_int_equal(heddle_open(spec, &options, &fabric), -ENOENT);
	assert_non_null(strstr(heddle_last_error(), "/nonexistent/key"));
	options = options_of(fixture);
	options.server = NULL;
	assert_int_equal(heddle_open(spec, &options, &fabric), -EDESTADDRREQ);
	options = options_of(fixture);
	options.rank = 4096;
	assert_int_equal(heddle_open(spec, &options, &fabric), -EINVAL);
	options = options_of(fixture);
	options.chunk_bytes = 1001;
	assert_int_equal(heddle_open(spec, &options, &fabric), -EINVAL);
	options = options_of(fixture);
	options.size--;
	assert_int_equal(heddle_open(spec, &options, &fabric), -EINVAL);
	options = options_of(fixture);
	options.rank = -1;
	assert_int_equal(setenv("HEDDLE_RANK", "3x", 1), 0);
	assert_int_equal(heddle_open(spec, &options, &fabric), -EINVAL);
	assert_string_equal(
		heddle_last_error(), "HEDDLE_RANK: '3x' is not a whole number in 0..4095"
	);
	assert_int_equal(unsetenv("HEDDLE_RANK"), 0);
	heddle_spec_set_tau_max(spec, 0);
	options = options_of(fixture);
	assert_int_equal(heddle_open(spec, &options, &fabric), -EINVAL);
	heddle_spec_set_tau_max(spec, 16);
	heddle_spec_set_div_max(spec, -1.0f);
	assert_int_equal(heddle_open(spec, &options, &fabric), -EINVAL);
	heddle_spec_set_div_max(spec, 2.0f);
	options = options_of(fixture);
	assert_int_equal(setenv("HEDDLE_KEEP_MB", "much", 1), 0);
	assert_int_equal(heddle_open(spec, &options, &fabric), -EINVAL);
	assert_string_equal(
		heddle_last_error(), "HEDDLE_KEEP_MB: 'much' is not a whole number in 0..16777216"
	);
	assert_int_equal(unsetenv("HEDDLE_KEEP_MB"), 0);
	assert_ptr_equal(fabric, (void *)1);
	heddle_spec_destroy(spec);
}

static void test_bad_calls(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "calls", 0);
	struct heddle_push_options push = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket = NULL;
	uint64_t version;

	push.memory = HEDDLE_MEMORY_CUDA; /* of a GPU, if there is one, this is not */
	assert_true(heddle_push_start(fabric, fixture->a, 0, &push, &ticket) < 0);
	push.memory = HEDDLE_MEMORY_HOST;
	push.stream = &push;
	assert_int_equal(heddle_push_start(fabric, fixture->a, 0, &push, &ticket), -EINVAL);
	push.stream = NULL;
	push.size = 3;
	assert_int_equal(heddle_push_start(fabric, fixture->a, 0, &push, &ticket), -EINVAL);
	push.size = sizeof push;
	for (int i = 0; i < 3; i++) {
		push.scale = (const float[]){-1, NAN, INFINITY}[i];
		assert_int_equal(heddle_push_start(fabric, fixture->a, 0, &push, &ticket), -EINVAL);
	}
	assert_int_equal(heddle_push_start(fabric, NULL, 0, NULL, &ticket), -EINVAL);
	assert_null(ticket);
	assert_int_equal(heddle_wait_joined(fabric, 0, &version, NULL), 0);
	assert_int_equal(heddle_push_start(fabric, fixture->a, version, NULL, &ticket), 0);
	assert_int_equal(heddle_ticket_wait(ticket, (enum heddle_wait)9, 0, NULL), -EINVAL);
	status.size = 2;
	assert_int_equal(heddle_ticket_test(ticket, &status), -EINVAL);
	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, 5000, NULL), 0);
	assert_int_equal(heddle_close(fabric, 2000), 0);
	/* A ticket outlives its handle. */
	status.size = sizeof status;
	assert_int_equal(heddle_ticket_test(ticket, &status), 1);
	assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
	heddle_ticket_free(ticket);
}

static void test_description_differs(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "differs", 0);
	struct heddle_options options = options_of(fixture);
	struct heddle_spec *spec = make_spec("differs", VALUES - 1);
	struct heddle_ticket *ticket;
	struct heddle *second;

	options.rank = 1;
	assert_int_equal(heddle_open(spec, &options, &second), 0);
	assert_int_equal(heddle_wait_joined(second, 5000, NULL, NULL), -ECONNREFUSED);
	assert_non_null(strstr(heddle_last_error(), "tensor 0"));
	assert_int_equal(heddle_pull_start(second, fixture->b, NULL, &ticket), -ECONNREFUSED);
	assert_int_equal(heddle_close(second, 2000), 0);
	heddle_spec_destroy(spec);
	assert_int_equal(heddle_close(fabric, 2000), 0);
}

/* No node answers: waits end in time, and closing gives the buffers back. */
static void test_no_server(void **state) {
	struct fixture *fixture = *state;
	struct heddle_options options = options_of(fixture);
	struct heddle_spec *spec = make_spec("alone", VALUES);
	struct heddle_push_options borrow = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *push, *pull;
	struct heddle *fabric;

	options.server = "127.0.0.1:9";
	assert_int_equal(heddle_open(spec, &options, &fabric), 0);
	heddle_spec_destroy(spec);
	assert_int_equal(heddle_wait_joined(fabric, 50, NULL, NULL), -ETIMEDOUT);
	borrow.borrow = 1;
	assert_int_equal(heddle_push_start(fabric, fixture->a, 0, &borrow, &push), 0);
	assert_int_equal(heddle_pull_start(fabric, fixture->b, NULL, &pull), 0);
	assert_int_equal(heddle_ticket_wait(push, HEDDLE_WAIT_OUTCOME, 50, &status), -ETIMEDOUT);
	assert_int_equal(status.state, HEDDLE_STATE_QUEUED);
	assert_int_equal(heddle_ticket_cancel(pull), 0);
	assert_int_equal(heddle_ticket_wait(pull, HEDDLE_WAIT_RELEASED, 1000, &status), 0);
	assert_int_equal(status.reason, HEDDLE_REASON_CANCELLED);
	assert_int_equal(heddle_pull(fabric, fixture->b, NULL, 20, NULL), -ETIMEDOUT);
	assert_int_equal(heddle_close(fabric, 50), -ETIMEDOUT);
	assert_int_equal(heddle_ticket_test(push, &status), 1);
	assert_int_equal(status.reason, HEDDLE_REASON_CLOSED);
	assert_int_equal(status.released, 1);
	heddle_ticket_free(push);
	heddle_ticket_free(pull);
}

static void test_fork(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_job(fixture, "fork", 0);
	struct heddle_ticket *ticket;
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		bool right = heddle_push_start(fabric, fixture->a, 0, NULL, &ticket) == -ECHILD
			&& heddle_progress(fabric, 0) == -ECHILD
			&& heddle_close(fabric, 1000) == -ECHILD;

		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	(void)pull(fabric, fixture->b);
	assert_int_equal(heddle_close(fabric, 2000), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_train_once),
		cmocka_unit_test(test_train_once_manually),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_descriptor),
		cmocka_unit_test(test_manual_descriptor),
		cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_scale),
		cmocka_unit_test(test_sparse),
		cmocka_unit_test(test_bad_options),
		cmocka_unit_test(test_bad_calls),
		cmocka_unit_test(test_description_differs),
		cmocka_unit_test(test_no_server),
		cmocka_unit_test(test_fork),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
