/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a library, beside those of the program that uses it. */
#ifndef HD_THREAD_H
#define HD_THREAD_H

#include <pthread.h>

/* Like pthread_create(), but the new thread handles no signals: those are for the caller's threads, and a pipe without
 * a reader is an ordinary error. 0 or -errno, and *thread is undefined. */
int hd_thread_start(
	pthread_t *thread,
	const pthread_attr_t *attributes,
	void *(*run)(void *argument),
	void *argument
);

#endif
