/* SPDX-License-Identifier: BSD-3-Clause */
/* What heddle-run's parts share. */
#ifndef HD_RUN_H
#define HD_RUN_H

#include "hd_limits.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_PROCESSES_MAX HD_WORKERS_MAX
#define RUN_LINE_BYTES 4096 /* of one stream; a longer line is printed in pieces */

enum run_variable {
	RUN_CONTROLLER,
	RUN_SERVER,
	RUN_KEY_FILE,
	RUN_JOB,
	RUN_TENANT,
	RUN_BIND,
	RUN_VARIABLES
};

struct run_options {
	uint32_t count, grace_ms;
	uint32_t notice_s; /* SIGTERM comes so long before the end; 0: it is no notice */
	const char *environment[RUN_VARIABLES]; /* NULL: as it is */
	const char *host, *host_prefix, *events_dir;
	bool observer, no_prefix;
	char **argv;
};

struct run_stream {
	int fd; /* -1: closed */
	int to; /* 1 or 2 */
	uint32_t bytes;
	char *line;
};

struct run_process {
	pid_t pid;
	uint32_t rank;
	bool running;
	struct run_stream stream[2];
};

struct run {
	struct run_options options;
	struct run_process process[RUN_PROCESSES_MAX];
	uint32_t count, alive;
	struct pollfd poll[1 + 2 * RUN_PROCESSES_MAX];
	struct run_stream *polled[1 + 2 * RUN_PROCESSES_MAX];
	uint32_t polled_rank[1 + 2 * RUN_PROCESSES_MAX];
	int signals; /* signalfd */
	bool stopping;
	bool told; /* to stop, by a signal */
	bool unread; /* since then: what nobody reads is not printed */
	int status;
	uint64_t kill_at; /* ms */
};

/* Starts every process. Returns an exit status; what had started by then runs. */
int run_start(struct run *run);

/* --- its end -------------------------------------------------------------------------------- */
/* Ends the run: politely now, by force after the grace. */
void run_stop(struct run *run, int status);
/* Notes which processes have ended. */
void run_reap(struct run *run);
/* Kills what still runs after the grace. */
void run_kill_late(struct run *run);
/* Takes a signal that has come, and notes which processes have ended. */
void run_take_signals(struct run *run);

/* Of the processes' grace; -1: nothing has said that the run is to end. */
int run_left_ms(const struct run *run);

/* --- output: whole lines, behind their rank ------------------------------------------------- */
/* Fills run->poll: the signals first. */
nfds_t run_poll_set(struct run *run);
void run_copy_output(struct run *run, nfds_t count);
/* What is left when all have ended; frees the streams. */
void run_drain_output(struct run *run);

#endif
