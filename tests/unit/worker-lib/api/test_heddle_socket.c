/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver fails for good while a ticket is awaited: the handle's descriptor becomes readable, and each call says
 * why. */
#include "heddle.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define DESCRIPTORS_MAX 64
#define PATIENCE_MS 5000
#define VALUES 1000
#define LOOK_US 1000

static char key_path[] = "/tmp/heddle-key-XXXXXX";

static int setup(void **state) {
	int fd = mkstemp(key_path);

	(void)state;
	assert_true(fd >= 0);
	assert_true(dprintf(fd, "1 %064d\n", 7) > 0);
	return close(fd);
}

static int teardown(void **state) {
	(void)state;
	return unlink(key_path);
}

/* Which of this process's descriptors wait for sockets. */
static void find_waits(bool waits[DESCRIPTORS_MAX]) {
	static const char wanted[] = "anon_inode:[eventpoll]";

	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
		char path[32], target[64];
		ssize_t bytes;

		(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		bytes = readlink(path, target, sizeof target);
		waits[fd]
			= bytes == sizeof wanted - 1 && memcmp(target, wanted, (size_t)bytes) == 0;
	}
}

/* Replaces those that are open now and were not before by something that cannot wait. */
static unsigned break_waits(const bool before[DESCRIPTORS_MAX]) {
	bool after[DESCRIPTORS_MAX];
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	unsigned count = 0;

	assert_true(nothing >= 0);
	find_waits(after);
	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
		if (!after[fd] || before[fd])
			continue;
		assert_int_equal(dup3(nothing, fd, O_CLOEXEC), fd);
		count++;
	}
	close(nothing);
	return count;
}

static void count_call(struct heddle_ticket *ticket, void *argument) {
	_Atomic int *calls = argument;

	assert_int_equal(heddle_ticket_test(ticket, NULL), 1);
	++*calls;
}

static void test_descriptor(void **state) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	static float values[VALUES];
	bool before[DESCRIPTORS_MAX];
	struct heddle_spec *spec;
	struct heddle *fabric;
	struct heddle_ticket *ticket, *other, *waking = NULL;
	int error;
	struct pollfd watched = {.events = POLLIN};
	_Atomic int calls = 0;

	(void)state;
	options.key_file = key_path;
	options.controller = "127.0.0.1:9"; /* discards */
	options.host = "h1";
	options.bind = "127.0.0.1";
	options.rank = 0;
	find_waits(before);
	assert_int_equal(heddle_spec_create("tests", "socket", &spec), 0);
	assert_int_equal(heddle_open(spec, &options, &fabric), 0);
	heddle_spec_destroy(spec);
	assert_int_equal(heddle_allreduce_start(fabric, values, values, VALUES, NULL, &ticket), 0);
	assert_int_equal(heddle_allreduce_start(fabric, values, values, VALUES, NULL, &other), 0);
	watched.fd = heddle_fd(fabric);
	assert_int_equal(poll(&watched, 1, 0), 0);
	assert_true(break_waits(before) > 0);
	/* Wakes the thread where it is still in the old one; it may have met the new one already. */
	error = heddle_allreduce_start(fabric, values, values, VALUES, NULL, &waking);
	assert_true(error == 0 || error == -EINVAL);
	assert_int_equal(poll(&watched, 1, PATIENCE_MS), 1);
	assert_int_equal(heddle_progress(fabric, 0), -EINVAL);
	assert_non_null(strstr(heddle_last_error(), "socket: "));
	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, -1, NULL), -EINVAL);
	/* No thread is left that would call it. */
	assert_int_equal(heddle_ticket_then(other, HEDDLE_WAIT_OUTCOME, count_call, &calls), 0);
	assert_int_equal(heddle_ticket_cancel(other), 0);
	for (int i = 0; calls == 0 && i < PATIENCE_MS * 1000 / LOOK_US; i++)
		(void)usleep(LOOK_US);
	assert_int_equal(calls, 1);
	assert_int_equal(heddle_ticket_then(ticket, HEDDLE_WAIT_OUTCOME, count_call, &calls), 0);
	heddle_ticket_free(ticket);
	heddle_ticket_free(other);
	heddle_ticket_free(waking);
	assert_int_equal(calls, 1);
	(void)heddle_close(fabric, 0);
	assert_int_equal(calls, 2);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_descriptor)};

	return cmocka_run_group_tests(tests, setup, teardown);
}
