/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting the processes of a run. */
#include "hd_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

static const char *const variables[RUN_VARIABLES] = {
	[RUN_CONTROLLER] = "HEDDLE_CONTROLLER",
	[RUN_SERVER] = "HEDDLE_SERVER",
	[RUN_KEY_FILE] = "HEDDLE_KEY_FILE",
	[RUN_JOB] = "HEDDLE_JOB",
	[RUN_TENANT] = "HEDDLE_TENANT",
	[RUN_BIND] = "HEDDLE_BIND",
};

static void set(const char *name, const char *value) {
	(void)setenv(name, value, 1);
}

static void set_number(const char *name, uint32_t value) {
	char text[16];

	(void)snprintf(text, sizeof text, "%u", value);
	set(name, text);
}

/* By Heddle's names, and by those that PyTorch knows from torchrun. */
static void set_ranks(const struct run_options *options, uint32_t rank) {
	set_number("HEDDLE_RANK", rank);
	set_number("HEDDLE_WORLD_SIZE", options->world_size);
	set_number("RANK", rank);
	set_number("WORLD_SIZE", options->world_size);
	set_number("LOCAL_RANK", rank - options->first_rank);
	set_number("LOCAL_WORLD_SIZE", options->count);
}

static void set_environment(const struct run_options *options, uint32_t rank) {
	char text[4096];

	for (int i = 0; i < RUN_VARIABLES; i++)
		if (options->environment[i])
			set(variables[i], options->environment[i]);
	set_ranks(options, rank);
	if (options->host)
		set("HEDDLE_HOST", options->host);
	if (options->host_prefix) {
		(void)snprintf(text, sizeof text, "%s%u", options->host_prefix, rank + 1);
		set("HEDDLE_HOST", text);
	}
	if (options->events_dir) {
		(void)snprintf(text, sizeof text, "%s/w%u.jsonl", options->events_dir, rank);
		set("HEDDLE_EVENTS", text);
	}
	if (options->notice_s)
		set_number("HEDDLE_GRACE", options->notice_s);
	if (options->observer && rank == options->world_size)
		set("HEDDLE_OBSERVER", "1");
	/* N processes share the cores: additional threads of BLAS only slow them down. */
	(void)setenv("OPENBLAS_NUM_THREADS", "1", 0);
	(void)setenv("OMP_NUM_THREADS", "1", 0);
}

/* In the child. Never returns. */
static void
become(struct run *run, uint32_t rank, pid_t parent, const int out[2], const int err[2]) {
	sigset_t none;

	(void)setpgid(0, 0);
	/* No process stays behind when heddle-run is killed. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EX_OSERR);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(out[1], STDOUT_FILENO) < 0 || dup2(err[1], STDERR_FILENO) < 0)
		_exit(EX_OSERR);
	set_environment(&run->options, rank);
	execvp(run->options.argv[0], run->options.argv);
	(void)fprintf(stderr, "heddle-run: %.256s: %s\n", run->options.argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static int open_stream(struct run_stream *stream, int fd, int to) {
	stream->fd = fd;
	stream->to = to;
	stream->bytes = 0;
	stream->line = malloc(RUN_LINE_BYTES);
	return stream->line ? 0 : -ENOMEM;
}

static void close_pair(const int pair[2]) {
	close(pair[0]);
	close(pair[1]);
}

static int start_one(struct run *run, uint32_t rank) {
	struct run_process *process = &run->process[run->count];
	pid_t parent = getpid();
	int out[2], err[2];

	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(err, O_CLOEXEC) < 0) {
		close_pair(out);
		return -EMFILE;
	}
	if (open_stream(&process->stream[0], out[0], STDOUT_FILENO) < 0
	    || open_stream(&process->stream[1], err[0], STDERR_FILENO) < 0) {
		close_pair(out);
		close_pair(err);
		return -ENOMEM;
	}
	process->pid = fork();
	if (process->pid == 0)
		become(run, rank, parent, out, err);
	close(out[1]);
	close(err[1]);
	if (process->pid < 0) {
		close(out[0]);
		close(err[0]);
		return -EAGAIN;
	}
	/* Both sides set it, as either may be first. */
	(void)setpgid(process->pid, process->pid);
	(void)fcntl(out[0], F_SETFL, O_NONBLOCK);
	(void)fcntl(err[0], F_SETFL, O_NONBLOCK);
	process->rank = rank;
	process->running = true;
	run->count++;
	run->alive++;
	return 0;
}

static int watch_signals(struct run *run) {
	sigset_t set_of;

	sigemptyset(&set_of);
	sigaddset(&set_of, SIGCHLD);
	sigaddset(&set_of, SIGINT);
	sigaddset(&set_of, SIGTERM);
	sigaddset(&set_of, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set_of, NULL) < 0)
		return -errno;
	run->signals = signalfd(-1, &set_of, SFD_NONBLOCK | SFD_CLOEXEC);
	return run->signals < 0 ? -errno : 0;
}

/* The observer is the last process. */
static uint32_t rank_of(const struct run_options *options, uint32_t index) {
	return index < options->count ? options->first_rank + index : options->world_size;
}

int run_start(struct run *run) {
	uint32_t all = run->options.count + run->options.observer;
	int rc = watch_signals(run);

	(void)signal(SIGPIPE, SIG_IGN);
	for (uint32_t i = 0; rc == 0 && i < all; i++)
		rc = start_one(run, rank_of(&run->options, i));
	if (rc == 0)
		return EX_OK;
	(void)fprintf(
		stderr,
		"heddle-run: starting rank %u: %s\n",
		rank_of(&run->options, run->count),
		strerror(-rc)
	);
	return EX_OSERR;
}
