/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a run: by a signal, by a process that fails, or by itself; by a signal first, by SIGKILL after the grace
 * time. */
#include "hd_run.h"

#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void) {
	struct timespec now = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void signal_all(struct run *run, int number) {
	for (uint32_t i = 0; i < run->count; i++)
		if (run->process[i].running)
			(void)kill(-run->process[i].pid, number);
}

void run_stop(struct run *run, int status) {
	if (run->stopping)
		return;
	run->stopping = true;
	run->status = status;
	run->kill_at = now_ms() + run->options.grace_ms;
	/* The run is over: this must not look like a notice. */
	signal_all(run, run->options.notice_s ? SIGINT : SIGTERM);
}

static void print_failure(const struct run_process *process, int code, int status) {
	(void)fprintf(
		stderr,
		"heddle-run: rank %u: %s %d\n",
		process->rank,
		WIFEXITED(code) ? "exit status" : "killed by signal",
		WIFEXITED(code) ? status : WTERMSIG(code)
	);
}

/* Whether the others go on without one that has failed. When some have succeeded, the job is over, and those that are
 * left end by themselves. */
static bool is_spared(const struct run *run) {
	return run->options.least > 0 && (run->alive >= run->options.least || run->succeeded);
}

static void ended(struct run *run, struct run_process *process, int code) {
	int status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
	bool observer = run->options.observer && process->rank == run->options.world_size;

	process->running = false;
	run->alive--;
	/* Processes that it has started itself. */
	(void)kill(-process->pid, SIGKILL);
	if (run->stopping)
		return;
	if (status != 0)
		print_failure(process, code, status);
	run->succeeded = run->succeeded || status == 0;
	if (observer || (status != 0 && !is_spared(run)))
		run_stop(run, status);
}

void run_reap(struct run *run) {
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
	run->signalled = true;
	if (run->stopping) {
		run->kill_at = now_ms();
		signal_all(run, SIGKILL);
		return;
	}
	/* Passes the signal on to the children; it is in the status. */
	signal_all(run, (int)info.ssi_signo);
	run->stopping = true;
	run->status = 128 + (int)info.ssi_signo;
	run->kill_at = now_ms() + run->options.grace_ms;
}

void run_take_signals(struct run *run) {
	take_signal(run);
	run_reap(run);
}

int run_left_ms(const struct run *run) {
	uint64_t now = now_ms();

	if (!run->stopping)
		return -1;
	return now >= run->kill_at ? 0 : (int)(run->kill_at - now);
}

void run_kill_late(struct run *run) {
	if (run->stopping && now_ms() >= run->kill_at)
		signal_all(run, SIGKILL);
}
