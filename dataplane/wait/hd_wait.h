/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a driver's thread sleeps: until one of its descriptors is readable, until a time, until another thread wakes or
 * stops it. One thread sleeps; stop() and wake() may come from any thread and from signal handlers.
 */
#ifndef HD_WAIT_H
#define HD_WAIT_H

#include "hd_types.h"

#include <pthread.h>
#include <stdatomic.h>

struct hd_wait {
	int epoll_fd; /* readable when there is something to do: for other loops */
	int event_fd;
	bool no_pwait2; /* the kernel lacks epoll_pwait2 */
	bool slack_set;
	pthread_t slack_thread;
	atomic_bool stop; // writer: any thread, reader: the driver's
	atomic_bool wake; // writer: any thread sets, the driver's clears
};

/* 0 or -errno. */
int hd_wait_init(struct hd_wait *wait);
void hd_wait_fini(struct hd_wait *wait);
/* Adds a descriptor until it is closed. 0 or -errno. */
int hd_wait_watch(struct hd_wait *wait, int fd);
/* Until it is added again. Nothing if it is not watched. */
void hd_wait_unwatch(struct hd_wait *wait, int fd);

void hd_wait_stop(struct hd_wait *wait);
bool hd_wait_stopped(const struct hd_wait *wait);
void hd_wait_wake(struct hd_wait *wait);
/* True once after any number of wake()s since the last call. */
bool hd_wait_woken(struct hd_wait *wait);

/*
 * Sleeps until `until` at the latest, not at all if that is past or after stop() or wake(). Sets *readable if a watched
 * descriptor is readable or in error, else leaves it. 0 or -errno.
 */
int hd_wait_sleep(struct hd_wait *wait, hd_ns now, hd_ns until, bool *readable);
/* The same, and no packet ends it. */
int hd_wait_pause(struct hd_wait *wait, hd_ns now, hd_ns until);

/* CLOCK_MONOTONIC in ns. */
hd_ns hd_wait_now(void);

#endif
