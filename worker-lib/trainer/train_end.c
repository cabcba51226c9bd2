/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of training: signals, enough steps or seconds, errors of the fabric. */
#include "hd_options.h"

#include <errno.h>
#include <signal.h>
#include <sysexits.h>

volatile sig_atomic_t train_stop;

static struct heddle *volatile noticed; /* the handle that gets a notice at SIGTERM */
static volatile double notice_s;

void train_on_signal(int number) {
	struct heddle *fabric = noticed;

	/* Only once: another SIGTERM asks for an immediate end. */
	noticed = NULL;
	if (number == SIGTERM && fabric && heddle_notify_preemption(fabric, notice_s) == 0)
		return;
	/* A second signal ends the program at once, even while it waits. */
	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGINT, SIG_DFL);
	train_stop = number;
}

void train_notice_to(struct heddle *fabric, double grace) {
	notice_s = grace;
	noticed = grace > 0 ? fabric : NULL;
}

int train_heddle_error(const char *what, int code) {
	const char *words = heddle_last_error();

	if (code == -ENOMEM)
		return train_no_memory(what);
	if ((code == -EINVAL || code == -EDESTADDRREQ) && *words) /* they say all of it */
		(void)train_fail(0, "%s: %s", what, words);
	else
		(void)train_fail(
			0, "%s: %s%s%s", what, heddle_strerror(code), *words ? ": " : "", words
		);
	switch (code) {
	case -EINVAL:
	case -EDESTADDRREQ:
		return EX_USAGE;
	case -ENOENT:
		return EX_NOINPUT;
	case -EACCES:
		return EX_NOPERM;
	case -EHOSTUNREACH:
		return EX_NOHOST;
	case -ECONNREFUSED:
		return EX_CONFIG;
	case -ENETUNREACH:
	case -ETIMEDOUT:
	case -ENODATA:
	case -EHOSTDOWN:
		return EX_UNAVAILABLE;
	default:
		return EX_SOFTWARE;
	}
}

bool train_last_step(const struct train *train, uint64_t steps, double step_ms) {
	const struct train_options *options = &train->options;
	double seconds = (double)(hd_compute_now() - train->begun) * 1e-9;

	return train_stop || (options->steps > 0 && steps >= options->steps)
		|| (options->seconds > 0.0 && seconds + step_ms * 1e-3 >= options->seconds);
}

bool train_enough(const struct train *train, uint64_t steps) {
	return train_last_step(train, steps, 0);
}
