/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that stops takes its time: a second signal ends it at once. */
#include "hd_program.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HANG_S 20 /* a program that does not end */

struct program {
	pid_t pid;
	int words; /* a byte each time it is told to stop, after one when it is ready */
	int end; /* it goes on until this is closed */
};

static void tell(void *owner) {
	const int *fd = owner;

	if (write(*fd, "s", 1) != 1)
		_exit(2);
}

/* Stops for as long as its standard input is open; `with` 0: ends with no other process. */
static void run(int input, int output, pid_t with) {
	char byte;

	if (hd_program_stop_by(tell, &output) < 0 || (with && hd_program_end_with(with) < 0))
		_exit(3);
	tell(&output);
	while (read(input, &byte, 1) < 0)
		if (errno != EINTR)
			_exit(4);
	_exit(0);
}

static struct program start(pid_t with) {
	struct program program = {0};
	int input[2], output[2];

	assert_int_equal(pipe(input), 0);
	assert_int_equal(pipe(output), 0);
	program.pid = fork();
	assert_true(program.pid >= 0);
	if (program.pid == 0) {
		(void)close(input[1]);
		(void)close(output[0]);
		run(input[0], output[1], with);
	}
	(void)close(input[0]);
	(void)close(output[1]);
	program.end = input[1];
	program.words = output[0];
	return program;
}

static void hear(const struct program *program) {
	char byte;

	assert_int_equal(read(program->words, &byte, 1), 1);
}

/* Its status when it has ended; `lets` it end in order first. */
static int ended(struct program *program, bool lets) {
	int status;

	if (lets)
		(void)close(program->end);
	assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
	if (!lets)
		(void)close(program->end);
	(void)close(program->words);
	return status;
}

static void test_second_signal(void **state) {
	const int kinds[][2]
		= {{SIGTERM, SIGTERM}, {SIGTERM, SIGINT}, {SIGINT, SIGTERM}, {SIGINT, SIGINT}};

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct program program = start(0);
		int status;

		hear(&program);
		assert_int_equal(kill(program.pid, kinds[i][0]), 0);
		hear(&program);
		assert_int_equal(kill(program.pid, kinds[i][1]), 0);
		status = ended(&program, false);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), kinds[i][1]);
	}
}

static void test_first_signal(void **state) {
	const int kinds[] = {SIGTERM, SIGINT};

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct program program = start(0);

		hear(&program);
		assert_int_equal(kill(program.pid, kinds[i]), 0);
		hear(&program);
		assert_int_equal(ended(&program, true), 0);
	}
}

static pid_t sleeper(void) {
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		for (;;)
			(void)pause();
	return pid;
}

static void end(pid_t pid) {
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static unsigned count_threads(pid_t pid) {
	char path[64];
	const struct dirent *entry;
	unsigned count = 0;
	DIR *folder;

	(void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	folder = opendir(path);
	assert_non_null(folder);
	while ((entry = readdir(folder)))
		count += entry->d_name[0] != '.';
	(void)closedir(folder);
	return count;
}

/* A signal from a terminal or a supervisor ends the other process, too: the program ends in order. */
static void test_with_another(void **state) {
	const int kinds[] = {SIGINT, SIGTERM};

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const pid_t other = sleeper();
		struct program program = start(other);
		unsigned threads;

		hear(&program);
		threads = count_threads(program.pid);
		assert_int_equal(kill(program.pid, kinds[i]), 0);
		hear(&program);
		end(other);
		/* The thread that waited for it has done its part. */
		while (count_threads(program.pid) == threads)
			(void)usleep(1000);
		assert_int_equal(ended(&program, true), 0);
	}
}

/* The same in the other order; then one more is the second. */
static void test_after_another(void **state) {
	const pid_t other = sleeper();
	struct program program = start(other);
	int status;

	(void)state;
	hear(&program);
	end(other);
	hear(&program);
	/* In this order, also where both come at once. */
	assert_int_equal(kill(program.pid, SIGINT), 0);
	assert_int_equal(kill(program.pid, SIGTERM), 0);
	status = ended(&program, false);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_second_signal),
		cmocka_unit_test(test_first_signal),
		cmocka_unit_test(test_with_another),
		cmocka_unit_test(test_after_another),
	};

	(void)alarm(HANG_S);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
