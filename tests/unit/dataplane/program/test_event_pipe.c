/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_program.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void add_events(struct hd_event_log *log, uint32_t first, uint32_t last) {
	for (uint32_t i = first; i <= last; i++)
		hd_event_log_add(
			log,
			&(struct hd_event){.at = i, .kind = HD_EVENT_PUSHED, .job = 1, .round = i}
		);
}

static double seconds(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A pipe without a reader keeps a few lines for a later one; a program goes on when its pipe's reader ends. */
static void test_event_log_reader(void **state) {
	struct hd_event_log *log = NULL;
	struct sigaction other = {.sa_handler = SIG_DFL}, before;
	const char *path = "reader";
	double begin = seconds();
	char line[HD_EVENT_JSON_BYTES + 1];
	char folder[] = "/tmp/heddle-log-XXXXXX";
	int fd;

	(void)sigaction(SIGPIPE, &other, &before);
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	alarm(20); /* where open() waits */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(hd_event_log_open(path, "w1", &log), 0);
	assert_true(seconds() - begin < 1);
	add_events(log, 1, 1);
	assert_int_equal(hd_event_log_sync(log), 0);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(read(fd, line, sizeof line) > 10);
	assert_int_equal(hd_event_log_close(log), 0);
	assert_int_equal(hd_event_log_open(path, "w1", &log), 0);
	close(fd);
	add_events(log, 2, 2);
	assert_int_equal(hd_event_log_sync(log), -ENOSPC);
	assert_int_equal(hd_event_log_lost(log), 1);
	assert_int_equal(hd_event_log_close(log), -EPIPE);
	unlink(path);
	rmdir(folder);
	alarm(0);
	(void)sigaction(SIGPIPE, &before, NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_event_log_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
