/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_wait.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define TIMER_SLACK_NS 1000
#define EVENTS_MAX 8

hd_ns hd_wait_now(void) {
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (hd_ns)ts.tv_sec * HD_SECOND + (hd_ns)ts.tv_nsec;
}

int hd_wait_watch(struct hd_wait *wait, int fd) {
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(wait->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void hd_wait_unwatch(struct hd_wait *wait, int fd) {
	(void)epoll_ctl(wait->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int hd_wait_init(struct hd_wait *wait) {
	int code;

	*wait = (struct hd_wait){.epoll_fd = -1};
	wait->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wait->event_fd < 0)
		return -errno;
	wait->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	code = wait->epoll_fd < 0 ? -errno : hd_wait_watch(wait, wait->event_fd);
	if (code < 0)
		hd_wait_fini(wait);
	return code;
}

void hd_wait_fini(struct hd_wait *wait) {
	if (wait->epoll_fd >= 0)
		close(wait->epoll_fd);
	close(wait->event_fd);
}

static void poke(struct hd_wait *wait) {
	uint64_t one = 1;
	int saved = errno; /* this runs in signal handlers */

	if (write(wait->event_fd, &one, sizeof one) < 0) {
		/* EAGAIN: the counter is full, so the driver is being woken already. */
	}
	errno = saved;
}

void hd_wait_stop(struct hd_wait *wait) {
	atomic_store(&wait->stop, true);
	poke(wait);
}

bool hd_wait_stopped(const struct hd_wait *wait) {
	return atomic_load(&wait->stop);
}

void hd_wait_wake(struct hd_wait *wait) {
	atomic_store(&wait->wake, true);
	poke(wait);
}

/* If no sleep has consumed the wake-up, the counter is still set and epoll_fd would stay readable. */
bool hd_wait_woken(struct hd_wait *wait) {
	uint64_t count;

	if (!atomic_exchange(&wait->wake, false))
		return false;
	if (read(wait->event_fd, &count, sizeof count) < 0) {
		/* EAGAIN: the sleep has read it. */
	}
	return true;
}

/* The kernel's default slack of 50 us would blur the pacing of packets. */
static void sharpen_timers(struct hd_wait *wait) {
	if (wait->slack_set && pthread_equal(wait->slack_thread, pthread_self()))
		return;
	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
	wait->slack_thread = pthread_self();
	wait->slack_set = true;
}

static int wait_exactly(struct hd_wait *wait, struct epoll_event *events, hd_ns now, hd_ns until) {
	hd_ns span = until > now ? until - now : 0;
	const struct timespec ts = {
		.tv_sec = (time_t)(span / HD_SECOND),
		.tv_nsec = (long)(span % HD_SECOND),
	};
	const struct timespec *limit = until == HD_NEVER ? NULL : &ts;
	struct pollfd all = {.fd = wait->epoll_fd, .events = POLLIN};

	if (!wait->no_pwait2) {
		int n = epoll_pwait2(wait->epoll_fd, events, EVENTS_MAX, limit, NULL);

		if (n >= 0 || errno != ENOSYS)
			return n;
		wait->no_pwait2 = true;
	}
	if (ppoll(&all, 1, limit, NULL) < 0)
		return -1;
	return epoll_wait(wait->epoll_fd, events, EVENTS_MAX, 0);
}

int hd_wait_sleep(struct hd_wait *wait, hd_ns now, hd_ns until, bool *readable) {
	struct epoll_event events[EVENTS_MAX];
	int n;

	sharpen_timers(wait);
	if (atomic_load(&wait->stop) || atomic_load(&wait->wake))
		return 0;
	n = wait_exactly(wait, events, now, until);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		uint64_t count;

		if (events[i].data.fd != wait->event_fd)
			*readable = true;
		else if (read(wait->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
			return -errno;
	}
	return 0;
}

int hd_wait_pause(struct hd_wait *wait, hd_ns now, hd_ns until) {
	struct pollfd woken = {.fd = wait->event_fd, .events = POLLIN};
	const hd_ns span = until > now ? until - now : 0;
	const struct timespec limit = {
		.tv_sec = (time_t)(span / HD_SECOND),
		.tv_nsec = (long)(span % HD_SECOND),
	};
	uint64_t count;

	sharpen_timers(wait);
	if (atomic_load(&wait->stop) || atomic_load(&wait->wake))
		return 0;
	if (ppoll(&woken, 1, &limit, NULL) <= 0)
		return 0;
	if (read(wait->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
		return -errno;
	return 0;
}
