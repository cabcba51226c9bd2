/* SPDX-License-Identifier: BSD-3-Clause */
/* When training ends: signals, enough steps or seconds, errors of the fabric. */
#include "hd_options.h"
#include "heddle_elastic.h"

#include <errno.h>
#include <signal.h>
#include <sysexits.h>

volatile sig_atomic_t train_stop;

static struct heddle *volatile noticed; /* who hears of SIGTERM */
static volatile double notice_s;

void train_on_signal(int number) {
	struct heddle *fabric = noticed;

	/* Given once: who says it again wants an end now. */
	noticed = NULL;
	if (number == SIGTERM && fabric && heddle_preempt_notice(fabric, notice_s) == 0)
		return;
	/* A second one ends the program at once, whatever it waits for. */
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
	(void)train_fail(0, "%s: %s%s%s", what, heddle_strerror(code), *words ? ": " : "", words);
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
