/* SPDX-License-Identifier: BSD-3-Clause */
/* A failed assertion in the worker's core ends the job with a message, one in its aggregator's only that; never the
 * process. */
#include "agg_group.h"
#include "hd_assert.h"
#include "heddle.h"
#include "worker_ask.h"
#include "worker_session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUES 64

/* Faults of a programmer, as the core meets them in a call and in a tick. */
static atomic_bool fault_in_ask, fault_in_tick, fault_in_sums;
/* Where the failing tick sends bytes of a ticket to; port 0: nowhere. */
static struct hd_addr witness_addr;
static int witness_fd;
static bool sent_first; /* before the tickets ended */
static float lent[VALUES];

void __real_worker_ask(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
void __wrap_worker_ask(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
void __real_worker_members_tick(struct hd_worker *worker, const struct worker_context *ctx);
void __wrap_worker_members_tick(struct hd_worker *worker, const struct worker_context *ctx);
void __real_agg_outputs_poll(struct agg_turn *turn);
void __wrap_agg_outputs_poll(struct agg_turn *turn);
void __real_heddle_end_tickets(struct heddle *fabric, enum heddle_reason reason);
void __wrap_heddle_end_tickets(struct heddle *fabric, enum heddle_reason reason);

void __wrap_worker_ask(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
) {
	hd_assert(!fault_in_ask);
	__real_worker_ask(worker, ctx, ticket);
}

void __wrap_agg_outputs_poll(struct agg_turn *turn) {
	hd_assert(!fault_in_sums);
	__real_agg_outputs_poll(turn);
}

void __wrap_worker_members_tick(struct hd_worker *worker, const struct worker_context *ctx) {
	if (fault_in_tick && witness_addr.port != 0)
		ctx->sink->send(ctx->sink, witness_addr, "head", 4, lent, sizeof lent);
	hd_assert(!fault_in_tick);
	__real_worker_members_tick(worker, ctx);
}

void __wrap_heddle_end_tickets(struct heddle *fabric, enum heddle_reason reason) {
	char bytes[4 + sizeof lent];

	if (witness_addr.port != 0 && !sent_first)
		sent_first = recv(witness_fd, bytes, sizeof bytes, MSG_DONTWAIT) == sizeof bytes;
	__real_heddle_end_tickets(fabric, reason);
}

struct fixture {
	char key_path[64];
	atomic_int errors;
	char words[512];
};

static void on_log(void *arg, enum heddle_log_level level, const char *text) {
	struct fixture *fixture = arg;

	if (level != HEDDLE_LOG_ERROR)
		return;
	(void)snprintf(fixture->words, sizeof fixture->words, "%s", text);
	fixture->errors++;
}

static int setup(void **state) {
	struct fixture *fixture = calloc(1, sizeof *fixture);
	FILE *file;
	int fd;

	(void)snprintf(fixture->key_path, sizeof fixture->key_path, "/tmp/heddle-key-XXXXXX");
	fd = mkstemp(fixture->key_path);
	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	(void)fputs("1 ", file);
	for (int i = 0; i < 64; i++)
		(void)fputc('a', file);
	(void)fputc('\n', file);
	(void)fclose(file);
	fault_in_ask = fault_in_tick = false;
	*state = fixture;
	return 0;
}

static int teardown(void **state) {
	struct fixture *fixture = *state;

	(void)unlink(fixture->key_path);
	free(fixture);
	return 0;
}

/* Its server never answers: calls wait in the core. */
static struct heddle *open_one(struct fixture *fixture, bool manual) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	uint64_t values = VALUES;
	struct heddle_spec *spec;
	struct heddle *fabric;

	assert_int_equal(heddle_spec_create("tests", "assert", &spec), 0);
	assert_int_equal(heddle_spec_add_tensor(spec, "w", &values, 1, HEDDLE_INIT_ZERO, 0), 0);
	options.server = "127.0.0.1:9";
	options.bind = "127.0.0.1";
	options.key_file = fixture->key_path;
	options.host = "h";
	options.rank = 0;
	options.manual = manual;
	options.log = on_log;
	options.log_arg = fixture;
	assert_int_equal(heddle_open(spec, &options, &fabric), 0);
	heddle_spec_destroy(spec);
	return fabric;
}

static void expect_failed(struct fixture *fixture, struct heddle *fabric, const char *where) {
	struct heddle_ticket *ticket = NULL;
	float data[VALUES];
	int before = heddle_progress(fabric, 0);

	assert_int_equal(before, -EIO);
	assert_non_null(strstr(heddle_last_error(), "internal error"));
	assert_int_equal(heddle_pull_start(fabric, data, NULL, &ticket), -EIO);
	assert_null(ticket);
	assert_non_null(strstr(heddle_last_error(), where));
	assert_int_equal(heddle_wait_joined(fabric, 1000, NULL, NULL), -EIO);
	assert_int_equal(heddle_leave(fabric, 1000), -EIO);
	assert_int_equal(fixture->errors, 1);
	assert_non_null(strstr(fixture->words, where));
	assert_non_null(strstr(fixture->words, "test_heddle_assert.c:"));
	assert_int_equal(heddle_close(fabric, 1000), -EIO);
}

/* An earlier request has failed as well, and its buffer is the caller's; another handle goes on. */
static void test_call(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_one(fixture, false), *other = open_one(fixture, false);
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *first, *second;
	float a[VALUES], b[VALUES];

	assert_int_equal(heddle_pull_start(fabric, a, NULL, &first), 0);
	assert_int_equal(heddle_ticket_wait(first, HEDDLE_WAIT_OUTCOME, 50, NULL), -ETIMEDOUT);
	fault_in_ask = true;
	assert_int_equal(heddle_pull_start(fabric, b, NULL, &second), 0);
	assert_int_equal(heddle_ticket_wait(second, HEDDLE_WAIT_RELEASED, 5000, &status), 0);
	assert_int_equal(status.state, HEDDLE_STATE_FAILED);
	assert_int_equal(heddle_ticket_wait(first, HEDDLE_WAIT_RELEASED, 5000, &status), 0);
	assert_int_equal(status.state, HEDDLE_STATE_FAILED);
	fault_in_ask = false;
	assert_int_equal(heddle_ticket_cancel(first), -EALREADY);
	expect_failed(fixture, fabric, "!fault_in_ask");
	heddle_ticket_free(second);
	heddle_ticket_free(first);
	assert_int_equal(heddle_progress(other, 20), 0);
	assert_int_equal(heddle_close(other, 2000), 0);
}

static void test_manual_tick(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_one(fixture, true);
	struct pollfd wait = {.fd = heddle_fd(fabric), .events = POLLIN};
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket;
	float data[VALUES];

	assert_int_equal(heddle_pull_start(fabric, data, NULL, &ticket), 0);
	assert_int_equal(heddle_progress(fabric, 20), 0);
	fault_in_tick = true;
	for (int i = 0; i < 1000 && heddle_ticket_test(ticket, NULL) == 0; i++) {
		(void)poll(&wait, 1, heddle_timeout_ms(fabric));
		(void)heddle_progress(fabric, 0);
	}
	fault_in_tick = false;
	assert_int_equal(heddle_ticket_test(ticket, &status), 1);
	assert_int_equal(status.state, HEDDLE_STATE_FAILED);
	assert_int_equal(heddle_timeout_ms(fabric), 0); /* due: so that the caller is notified */
	expect_failed(fixture, fabric, "!fault_in_tick");
	heddle_ticket_free(ticket);
}

static void open_witness(void) {
	struct sockaddr_in name
		= {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof name;

	witness_fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_true(witness_fd >= 0);
	assert_int_equal(bind(witness_fd, (struct sockaddr *)&name, bytes), 0);
	assert_int_equal(getsockname(witness_fd, (struct sockaddr *)&name, &bytes), 0);
	witness_addr = (struct hd_addr){INADDR_LOOPBACK, ntohs(name.sin_port)};
}

/* A packet sent before the core failed refers to its ticket's bytes: they are given back when it has left. */
static void test_sent_before(void **state) {
	struct fixture *fixture = *state;
	struct heddle *fabric = open_one(fixture, true);
	struct heddle_ticket *ticket;

	assert_int_equal(heddle_pull_start(fabric, lent, NULL, &ticket), 0);
	assert_int_equal(heddle_progress(fabric, 20), 0);
	open_witness();
	fault_in_tick = true;
	for (int i = 0; i < 1000 && heddle_ticket_test(ticket, NULL) == 0; i++)
		(void)heddle_progress(fabric, 10);
	fault_in_tick = false;
	assert_int_equal(heddle_ticket_test(ticket, NULL), 1);
	assert_true(sent_first);
	heddle_ticket_free(ticket);
	expect_failed(fixture, fabric, "!fault_in_tick");
	witness_addr.port = 0;
	(void)close(witness_fd);
}

/* The aggregator beside the worker ends alone: the handle goes on. */
static void test_aggregator(void **state) {
	struct fixture *fixture = *state;
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	struct heddle *fabric;

	assert_int_equal(heddle_spec_create("tests", "sums", &spec), 0);
	options.controller = "127.0.0.1:9";
	options.bind = "127.0.0.1";
	options.key_file = fixture->key_path;
	options.host = "h";
	options.rank = 0;
	options.log = on_log;
	options.log_arg = fixture;
	fault_in_sums = true;
	assert_int_equal(heddle_open(spec, &options, &fabric), 0);
	heddle_spec_destroy(spec);
	for (int i = 0; i < 1000 && fixture->errors == 0; i++)
		(void)poll(NULL, 0, 5);
	assert_int_equal(fixture->errors, 1);
	assert_non_null(strstr(fixture->words, "!fault_in_sums"));
	assert_null(strstr(fixture->words, "handle has failed"));
	assert_int_equal(heddle_progress(fabric, 20), 0);
	assert_int_equal(heddle_wait_joined(fabric, 20, NULL, NULL), -ETIMEDOUT);
	assert_int_equal(heddle_close(fabric, 2000), 0);
	fault_in_sums = false;
}

/* In a program of ours, and in threads of the user's, it is an assertion as any other. */
static void test_without_hook(void **state) {
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		(void)fclose(stderr);
		(void)signal(SIGABRT, SIG_DFL);
		hd_assert(getpid() == 0);
		_exit(0);
	}
	assert_true(waitpid(child, &status, 0) == child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_call, setup, teardown),
		cmocka_unit_test_setup_teardown(test_manual_tick, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sent_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_aggregator, setup, teardown),
		cmocka_unit_test(test_without_hook),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
