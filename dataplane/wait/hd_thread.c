/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_thread.h"

#include <signal.h>

int hd_thread_start(
	pthread_t *thread,
	const pthread_attr_t *attributes,
	void *(*run)(void *argument),
	void *argument
) {
	sigset_t all, before;
	int code;

	/* A thread inherits the signal mask of its creator. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(thread, attributes, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -code;
}
