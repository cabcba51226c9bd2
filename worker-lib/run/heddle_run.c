/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heddle-run: starts the processes of a job on this machine, each with the environment by which
 * libheddle finds the fabric, prints what they say behind their rank, and leaves nothing behind:
 * every process has a group of its own that is ended with the run.
 */
#include "hd_run.h"

#include <errno.h>
#include <getopt.h>
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

static const char help[]
	= "usage: heddle-run -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	  "Starts N copies of a program that uses libheddle on this machine.\n"
	  "\n"
	  "  -n, --count N           how many, ranks 0..N-1\n"
	  "  --controller ADDR[:PORT], --server ADDR[:PORT]  where the fabric is\n"
	  "  --key-file FILE         the cluster's key\n"
	  "  --job NAME, --tenant NAME  (job: the program's name; tenant: default)\n"
	  "  --host NAME             this machine's name in the topology\n"
	  "  --host-prefix P         instead: rank r is on host P<r+1>\n"
	  "  --bind ADDR             local address of every process\n"
	  "  --events-dir DIR        an event log of each: DIR/w<rank>.jsonl\n"
	  "  --observer              one more, rank N, with HEDDLE_OBSERVER=1; when it succeeds the\n"
	  "                          others are stopped and the run has succeeded\n"
	  "  --no-prefix             prints lines as they come, without [rank]\n"
	  "  --grace-ms N            between SIGTERM and SIGKILL (3000)\n"
	  "  --grace SECONDS         the same, and SIGTERM is a notice of preemption: each process is told by\n"
	  "                          HEDDLE_GRACE how long it has then. Otherwise they are ended by SIGINT\n"
	  "  --help\n"
	  "\n"
	  "The exit status is that of the first process that fails (128 + signal when one killed it); the\n"
	  "others are stopped then.\n";

enum {
	OPT_CONTROLLER = 256,
	OPT_SERVER,
	OPT_KEY,
	OPT_JOB,
	OPT_TENANT,
	OPT_HOST,
	OPT_HOST_PREFIX,
	OPT_BIND,
	OPT_EVENTS,
	OPT_OBSERVER,
	OPT_NO_PREFIX,
	OPT_GRACE,
	OPT_NOTICE,
	OPT_HELP
};

static const struct option names[] = {
	{"count", required_argument, NULL, 'n'},
	{"controller", required_argument, NULL, OPT_CONTROLLER},
	{"server", required_argument, NULL, OPT_SERVER},
	{"key-file", required_argument, NULL, OPT_KEY},
	{"job", required_argument, NULL, OPT_JOB},
	{"tenant", required_argument, NULL, OPT_TENANT},
	{"host", required_argument, NULL, OPT_HOST},
	{"host-prefix", required_argument, NULL, OPT_HOST_PREFIX},
	{"bind", required_argument, NULL, OPT_BIND},
	{"events-dir", required_argument, NULL, OPT_EVENTS},
	{"observer", no_argument, NULL, OPT_OBSERVER},
	{"no-prefix", no_argument, NULL, OPT_NO_PREFIX},
	{"grace-ms", required_argument, NULL, OPT_GRACE},
	{"grace", required_argument, NULL, OPT_NOTICE},
	{"help", no_argument, NULL, OPT_HELP},
	{0},
};

static int number(const char *what, const char *text, long max, uint32_t *value) {
	char *end;
	long parsed;

	errno = 0;
	parsed = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || parsed < 1 || parsed > max) {
		(void)fprintf(
			stderr,
			"heddle-run: %s: '%.32s' is not a whole number in 1..%ld\n",
			what,
			text,
			max
		);
		return -EINVAL;
	}
	*value = (uint32_t)parsed;
	return 0;
}

static int set_notice(struct run_options *options) {
	int rc = number("grace", optarg, HD_NOTICE_US_MAX / 1000000, &options->notice_s);

	options->grace_ms = options->notice_s * 1000;
	return rc;
}

static int set_option(struct run_options *options, int option) {
	switch (option) {
	case OPT_NOTICE:
		return set_notice(options);
	case 'n':
		return number("count", optarg, RUN_PROCESSES_MAX - 1, &options->count);
	case OPT_GRACE:
		return number("grace-ms", optarg, 3600000, &options->grace_ms);
	case OPT_CONTROLLER:
		options->environment[RUN_CONTROLLER] = optarg;
		return 0;
	case OPT_SERVER:
		options->environment[RUN_SERVER] = optarg;
		return 0;
	case OPT_KEY:
		options->environment[RUN_KEY_FILE] = optarg;
		return 0;
	case OPT_JOB:
		options->environment[RUN_JOB] = optarg;
		return 0;
	case OPT_TENANT:
		options->environment[RUN_TENANT] = optarg;
		return 0;
	case OPT_BIND:
		options->environment[RUN_BIND] = optarg;
		return 0;
	case OPT_HOST:
		options->host = optarg;
		return 0;
	case OPT_HOST_PREFIX:
		options->host_prefix = optarg;
		return 0;
	case OPT_EVENTS:
		options->events_dir = optarg;
		return 0;
	case OPT_OBSERVER:
		options->observer = true;
		return 0;
	case OPT_NO_PREFIX:
		options->no_prefix = true;
		return 0;
	default:
		return -EINVAL;
	}
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct run_options *options) {
	const char *slash;
	int option;

	*options = (struct run_options){.grace_ms = 3000};
	while ((option = getopt_long(argc, argv, "+n:", names, NULL)) != -1) {
		if (option == OPT_HELP) {
			(void)fputs(help, stdout);
			return EX_OK;
		}
		if (set_option(options, option) < 0)
			return EX_USAGE;
	}
	if (options->count == 0 || optind >= argc) {
		(void)fputs("heddle-run: -n N and a program are needed (--help)\n", stderr);
		return EX_USAGE;
	}
	if (options->host && options->host_prefix) {
		(void)fputs("heddle-run: host and host-prefix: one or the other\n", stderr);
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
	if (run->stopping) {
		signal_all(run, SIGKILL);
		return;
	}
	/* The children get what we got; the status says which signal it was. */
	signal_all(run, (int)info.ssi_signo);
	run->stopping = true;
	run->status = 128 + (int)info.ssi_signo;
	run->kill_at = now_ms() + run->options.grace_ms;
}

static int poll_timeout(const struct run *run) {
	uint64_t now = now_ms();

	if (!run->stopping)
		return -1;
	return now >= run->kill_at ? 100 : (int)(run->kill_at - now);
}

static void supervise(struct run *run) {
	while (run->alive > 0) {
		nfds_t count = run_poll_set(run);

		if (poll(run->poll, count, poll_timeout(run)) < 0 && errno != EINTR)
			return;
		if (run->poll[0].revents)
			take_signal(run);
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
