/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heddle-run: starts the processes of a job on this machine, each with the environment by which
 * libheddle finds the fabric, prints what they say behind their rank, and leaves nothing behind:
 * every process has a group of its own that is ended with the run.
 */
#include "hd_option.h"
#include "hd_run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

static const struct hd_option option_table[] = {
	{
		.kind = HD_OPTION_IS_U32,
		.letter = 'n',
		.name = "count",
		.value = "N",
		.help = "how many, ranks 0..N-1",
		.at = offsetof(struct run_options, count),
		.least = 1,
		.most = RUN_PROCESSES_MAX - 1,
	},
	HD_OPTION_TEXT(
		"controller",
		"ADDR[:PORT]",
		struct run_options,
		environment[RUN_CONTROLLER],
		"where the fabric is"
	),
	HD_OPTION_TEXT(
		"server",
		"ADDR[:PORT]",
		struct run_options,
		environment[RUN_SERVER],
		"the server, without a controller or when it is gone"
	),
	HD_OPTION_TEXT(
		"key-file",
		"FILE",
		struct run_options,
		environment[RUN_KEY_FILE],
		"the cluster's key"
	),
	HD_OPTION_TEXT(
		"job",
		"NAME",
		struct run_options,
		environment[RUN_JOB],
		"(the program's name)"
	),
	HD_OPTION_TEXT("tenant", "NAME", struct run_options, environment[RUN_TENANT], "(default)"),
	HD_OPTION_TEXT(
		"host",
		"NAME",
		struct run_options,
		host,
		"this machine's name in the topology"
	),
	HD_OPTION_TEXT(
		"host-prefix",
		"P",
		struct run_options,
		host_prefix,
		"instead: rank r is on host P<r+1>"
	),
	HD_OPTION_TEXT(
		"bind",
		"ADDR",
		struct run_options,
		environment[RUN_BIND],
		"local address of every process"
	),
	HD_OPTION_TEXT(
		"events-dir",
		"DIR",
		struct run_options,
		events_dir,
		"an event log of each: DIR/w<rank>.jsonl"
	),
	HD_OPTION_FLAG(
		"observer",
		struct run_options,
		observer,
		"one more, rank N, with HEDDLE_OBSERVER=1; when it succeeds the\n"
		"others are stopped and the run has succeeded"
	),
	HD_OPTION_FLAG(
		"no-prefix",
		struct run_options,
		no_prefix,
		"prints lines as they come, without [rank]"
	),
	HD_OPTION_U32(
		"grace-ms",
		"N",
		struct run_options,
		grace_ms,
		1,
		3600000,
		"between SIGTERM and SIGKILL (3000)"
	),
	HD_OPTION_U32(
		"grace",
		"SECONDS",
		struct run_options,
		notice_s,
		1,
		HD_NOTICE_US_MAX / 1000000,
		"the same, and SIGTERM is a notice of preemption: each process is told by\n"
		"HEDDLE_GRACE how long it has then. Otherwise they are ended by SIGINT"
	),
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = "heddle-run",
	.usage = "usage: heddle-run -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
		 "Starts N copies of a program that uses libheddle on this machine.\n"
		 "\n",
	.table = option_table,
	.after
	= "\n"
	  "The exit status is that of the first process that fails (128 + signal when one killed it); the\n"
	  "others are stopped then.\n",
	.column = 26,
	.arguments = true,
	.stops = true,
};

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct run_options *options) {
	const char *slash;
	int status;

	*options = (struct run_options){.grace_ms = 3000};
	status = hd_options_read(&command_line, argc, argv, options, NULL);
	if (status != 0)
		return status < 0 ? EX_OK : status;
	if (options->notice_s > 0)
		options->grace_ms = options->notice_s * 1000;
	if (options->count == 0 || optind >= argc) {
		(void)fputs("heddle-run: -n N and a program are needed (--help)\n", stderr);
		return EX_USAGE;
	}
	if (options->host && options->host_prefix) {
		(void)fputs("heddle-run: --host, --host-prefix: one or the other\n", stderr);
		return EX_USAGE;
	}
	options->argv = argv + optind;
	if (!options->environment[RUN_JOB] && !getenv("HEDDLE_JOB")) {
		slash = strrchr(options->argv[0], '/');
		options->environment[RUN_JOB] = slash ? slash + 1 : options->argv[0];
	}
	return -1;
}

/* --- the run -------------------------------------------------------------------------------- */

static uint64_t now_ms(void) {
	struct timespec now = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void signal_all(struct run *run, int number) {
	for (uint32_t i = 0; i < run->count; i++) {
		if (run->process[i].running)
			(void)kill(-run->process[i].pid, number);
	}
}

/* Ends the run: politely now, by force after the grace. */
static void stop(struct run *run, int status) {
	if (run->stopping)
		return;
	run->stopping = true;
	run->status = status;
	run->kill_at = now_ms() + run->options.grace_ms;
	/* The run is over: that is no notice. */
	signal_all(run, run->options.notice_s ? SIGINT : SIGTERM);
}

static void ended(struct run *run, struct run_process *process, int code) {
	int status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
	bool observer = run->options.observer && process->rank == run->options.count;

	process->running = false;
	run->alive--;
	/* What it may have started itself. */
	(void)kill(-process->pid, SIGKILL);
	if (run->stopping)
		return;
	if (observer || status != 0) {
		if (status != 0)
			(void)fprintf(
				stderr,
				"heddle-run: rank %u: %s %d\n",
				process->rank,
				WIFEXITED(code) ? "exit status" : "killed by signal",
				WIFEXITED(code) ? status : WTERMSIG(code)
			);
		stop(run, status);
	}
}

static void reap(struct run *run) {
	for (uint32_t i = 0; i < run->count; i++) {
		struct run_process *process = &run->process[i];
		int code;

		if (process->running && waitpid(process->pid, &code, WNOHANG) == process->pid)
			ended(run, process, code);
	}
}

static void take_signal(struct run *run) {
	struct signalfd_siginfo info;

	if (read(run->signals, &info, sizeof info) != (ssize_t)sizeof info)
		return;
	if (info.ssi_signo == SIGCHLD)
		return;
	run->told = true;
	if (run->stopping) {
		run->kill_at = now_ms();
		signal_all(run, SIGKILL);
		return;
	}
	/* The children get what we got; the status says which signal it was. */
	signal_all(run, (int)info.ssi_signo);
	run->stopping = true;
	run->status = 128 + (int)info.ssi_signo;
	run->kill_at = now_ms() + run->options.grace_ms;
}

void run_take_signals(struct run *run) {
	take_signal(run);
	reap(run);
}

int run_left_ms(const struct run *run) {
	uint64_t now = now_ms();

	if (!run->stopping)
		return -1;
	return now >= run->kill_at ? 0 : (int)(run->kill_at - now);
}

static int poll_timeout(const struct run *run) {
	int left_ms = run_left_ms(run);

	return left_ms == 0 ? 100 : left_ms;
}

static void supervise(struct run *run) {
	while (run->alive > 0) {
		nfds_t count = run_poll_set(run);

		if (poll(run->poll, count, poll_timeout(run)) < 0 && errno != EINTR)
			return;
		if (run->poll[0].revents)
			run_take_signals(run);
		run_copy_output(run, count);
		reap(run);
		if (run->stopping && now_ms() >= run->kill_at)
			signal_all(run, SIGKILL);
	}
	run_drain_output(run);
}

int main(int argc, char **argv) {
	struct run *run = calloc(1, sizeof *run);
	int status;

	if (!run)
		return EX_OSERR;
	status = parse(argc, argv, &run->options);
	if (status < 0) {
		status = run_start(run);
		if (status != EX_OK)
			stop(run, status);
		supervise(run);
		status = run->status;
	}
	free(run);
	return status;
}
