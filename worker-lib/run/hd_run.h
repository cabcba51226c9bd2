/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to heddle-run. */
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
	uint32_t
		least; /* a failure stops none of the others while this number runs; 0: it stops all */
	uint32_t first_rank, world_size; /* world_size: of the job, on all machines */
	uint32_t notice_s; /* SIGTERM comes this long before the end; 0: it is no notice */
	const char *environment[RUN_VARIABLES]; /* NULL: unchanged */
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
	bool signalled; /* to stop, by a signal */
	bool succeeded; /* a process has */
	bool unread; /* since then: output that is not read is dropped */
	int status;
	uint64_t kill_at; /* ms */
};

/* Starts every process. Returns an exit status; processes that have started by then keep running. */
int run_start(struct run *run);

/* --- the end of a run ----------------------------------------------------------------------- */
/* Ends the run: by a signal now, by SIGKILL after the grace time. */
void run_stop(struct run *run, int status);
/* Records ended processes. */
void run_reap(struct run *run);
/* Kills processes that still run after the grace time. */
void run_kill_late(struct run *run);
/* Handles a received signal, and records ended processes. */
void run_take_signals(struct run *run);

/* Of the processes' grace time; -1: the run is not ending. */
int run_left_ms(const struct run *run);

/* --- output: whole lines, behind the rank --------------------------------------------------- */
/* Fills run->poll: the signals first. */
nfds_t run_poll_set(struct run *run);
void run_copy_output(struct run *run, nfds_t count);
/* Prints the remaining output when all have ended; frees the streams. */
void run_drain_output(struct run *run);

#endif
