/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Very many workers of one job, a process each, that join at the same moment. The rest comes from heddle-run's
 * environment. A line on standard output for each: its rank, what heddle_wait_joined() returned, after how many ms;
 * and HOLD_MS later once more: its rank, whether it is joined and registered, how often it was without a controller.
 *
 * usage: crowd WORKERS JOIN_MS HOLD_MS
 */
#include <errno.h>
#include <heddle.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VALUES 1000

static int64_t now_ms(void) {
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* One write a line, so that lines of many processes stay whole. */
static void print_line(const char *what, int rank, int first, int64_t second) {
	char line[96];
	int bytes
		= snprintf(line, sizeof line, "%s %d %d %" PRId64 "\n", what, rank, first, second);

	if (write(STDOUT_FILENO, line, (size_t)bytes) != bytes)
		_exit(74);
}

static struct heddle *join(int rank) {
	const uint64_t values = VALUES;
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	struct heddle *fabric;

	options.rank = rank;
	if (heddle_spec_create(NULL, NULL, &spec) < 0
	    || heddle_spec_add_tensor(spec, "w", &values, 1, HEDDLE_INIT_ZERO, 0) < 0
	    || heddle_open(spec, &options, &fabric) < 0) {
		(void)fprintf(stderr, "worker %d: %s\n", rank, heddle_last_error());
		_exit(70);
	}
	return fabric;
}

static int work(int rank, int gate, int join_ms, int hold_ms) {
	struct heddle_stats stats = HEDDLE_STATS_INIT;
	struct heddle *fabric;
	int64_t begun;
	char byte;
	int rc;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(gate, &byte, 1) != 0) /* all begin when its other end is closed */
		return 70;
	begun = now_ms();
	fabric = join(rank);
	rc = heddle_wait_joined(fabric, join_ms, NULL, NULL);
	print_line("joined", rank, rc, now_ms() - begun);
	if (rc == 0)
		(void)usleep((useconds_t)hold_ms * 1000);
	(void)heddle_get_stats(fabric, &stats);
	print_line("held", rank, stats.joined && !stats.direct, (int64_t)stats.fallbacks);
	(void)heddle_close(fabric, 10000);
	return 0;
}

int main(int argc, char **argv) {
	int workers, join_ms, hold_ms, gate[2], failed = 0, status;

	if (argc != 4)
		return fprintf(stderr, "usage: crowd WORKERS JOIN_MS HOLD_MS\n"), 64;
	workers = (int)strtol(argv[1], NULL, 10);
	join_ms = (int)strtol(argv[2], NULL, 10);
	hold_ms = (int)strtol(argv[3], NULL, 10);
	if (pipe(gate) < 0)
		return 71;
	for (int rank = 0; rank < workers; rank++) {
		pid_t child = fork();

		if (child < 0)
			return 71;
		if (child == 0) {
			close(gate[1]);
			_exit(work(rank, gate[0], join_ms, hold_ms));
		}
	}
	close(gate[1]);
	while (wait(&status) > 0)
		failed += status != 0;
	return failed ? 1 : 0;
}
