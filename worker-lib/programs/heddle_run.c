/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heddle-run: starts the processes of a job on this machine, each with the environment by which libheddle finds the
 * fabric, prints their output behind their rank, and leaves no process behind: every process has a group of its own
 * that is ended with the run.
 */
#include "hd_option.h"
#include "hd_run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static const struct hd_option option_table[] = {
	{
		.kind = HD_OPTION_IS_U32,
		.letter = 'n',
		.name = "count",
		.value = "N",
		.help = "how many on this machine",
		.at = offsetof(struct run_options, count),
		.least = 1,
		.most = RUN_PROCESSES_MAX - 1,
	},
	HD_OPTION_U32(
		"first-rank",
		"K",
		struct run_options,
		first_rank,
		0,
		RUN_PROCESSES_MAX - 2,
		"rank of the first of them (0)"
	),
	HD_OPTION_U32(
		"world-size",
		"N",
		struct run_options,
		world_size,
		1,
		RUN_PROCESSES_MAX - 1,
		"workers of the job on all machines (K + those here)"
	),
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
		"one more, its rank is the world size, with HEDDLE_OBSERVER=1; when it\n"
		"succeeds the others here are stopped and the run has succeeded"
	),
	HD_OPTION_U32(
		"least",
		"N",
		struct run_options,
		least,
		1,
		RUN_PROCESSES_MAX - 1,
		"a process that fails does not stop the others while N or more run, as in\n"
		"elastic training (any failure stops all)"
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
	.usage
	= "usage: heddle-run -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	  "Starts N copies of a program that uses libheddle on this machine. A job on several\n"
	  "machines has one heddle-run on each, with ranks of its own (--first-rank).\n"
	  "\n",
	.table = option_table,
	.after
	= "\n"
	  "The exit status is that of the first process that fails (128 + signal when one killed it); the\n"
	  "others are stopped then. With --least the status of a run in which any succeeded is 0.\n",
	.column = 26,
	.arguments = true,
	.stops = true,
};

/* An exit status. */
static int complete_ranks(struct run_options *options) {
	uint32_t next = options->first_rank + options->count;
	uint32_t most = options->world_size > 0 ? options->world_size : RUN_PROCESSES_MAX - 1;

	if (options->world_size == 0)
		options->world_size = next;
	if (next <= most)
		return EX_OK;
	(void)fprintf(
		stderr,
		"heddle-run: -n %u, --first-rank %u: the ranks exceed the world size, %u\n",
		options->count,
		options->first_rank,
		most
	);
	return EX_USAGE;
}

/* -1: continue; else the exit status. */
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
	if (options->least > 0 && options->observer) {
		(void)fputs("heddle-run: --least, --observer: one or the other\n", stderr);
		return EX_USAGE;
	}
	if (complete_ranks(options) != EX_OK)
		return EX_USAGE;
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
		run_reap(run);
		run_kill_late(run);
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
			run_stop(run, status);
		supervise(run);
		status = run->status;
	}
	free(run);
	return status;
}
