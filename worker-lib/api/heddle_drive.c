/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread, or who drives in its place; and waiting for what it does. */
#include "hd_message.h"
#include "hd_thread.h"
#include "heddle_aggregator.h"
#include "heddle_far.h"
#include "heddle_private.h"
#include "heddle_shared.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* With the lock held: what others want to know of the core. */
static void look_at_core(struct heddle *fabric) {
	fabric->stats = *hd_worker_stats(fabric->worker);
	fabric->times[HD_PUSH] = *hd_worker_times(fabric->worker, HD_PUSH);
	fabric->times[HD_PULL] = *hd_worker_times(fabric->worker, HD_PULL);
	fabric->flush_at = hd_worker_flush_at(fabric->worker);
	if (fabric->stats.left)
		fabric->left = true;
	if (!fabric->left || fabric->core == HEDDLE_CORE_ENDED)
		return;
	fabric->core = HEDDLE_CORE_ENDED;
	heddle_end_tickets(
		fabric, fabric->closing ? HEDDLE_REASON_CLOSED : HEDDLE_REASON_PREEMPTED
	);
}

/* With the lock held, and nothing in the driver any more: what the core was to send or receive into is the caller's. */
static void destroy_core(struct heddle *fabric) {
	fabric->core = HEDDLE_CORE_DEAD;
	fabric->error = -EIO;
	heddle_shared_halt(fabric);
	heddle_end_tickets(fabric, HEDDLE_REASON_CLOSED);
	heddle_count_end(fabric);
}

/* With the lock held: nothing moves any more, which wakes those who wait for the descriptor, too. */
static void give_up(struct heddle *fabric, int rc) {
	heddle_shared_halt(fabric); /* buffers are their callers' again */
	heddle_far_halt(fabric);
	fabric->error = rc;
	(void
	)snprintf(fabric->error_text, sizeof fabric->error_text, "socket: %s", heddle_strerror(rc));
	heddle_count_end(fabric);
}

/* One round of the driver, without the lock; then what others want to know. */
static void drive(struct heddle *fabric, hd_ns until) {
	struct hd_node node = {&heddle_core_ops, fabric};
	bool gone;
	int rc = 0;

	/* Tickets that a failed core still knows have been ended here: it must not report on them. */
	if (fabric->core == HEDDLE_CORE_ALIVE)
		rc = hd_driver_poll(fabric->driver, node, until);
	pthread_mutex_lock(&fabric->lock);
	if (fabric->core == HEDDLE_CORE_FAILED)
		destroy_core(fabric);
	else if (fabric->core != HEDDLE_CORE_DEAD)
		look_at_core(fabric);
	if (rc < 0 && fabric->error == 0)
		give_up(fabric, rc);
	if (fabric->error < 0 || fabric->left)
		pthread_cond_broadcast(&fabric->changed);
	gone = fabric->error < 0 || fabric->left || fabric->refused;
	pthread_mutex_unlock(&fabric->lock);
	heddle_then_run(fabric);
	if (gone)
		heddle_aggregator_retire(fabric);
}

static void *run(void *arg) {
	struct heddle *fabric = arg;

	for (;;) {
		bool stop;

		pthread_mutex_lock(&fabric->lock);
		stop = fabric->stopping || fabric->left || fabric->error < 0;
		fabric->undriven = stop;
		pthread_mutex_unlock(&fabric->lock);
		if (stop)
			break;
		drive(fabric, HD_NEVER);
	}
	heddle_then_run(fabric);
	return NULL;
}

int heddle_start_thread(struct heddle *fabric) {
	int rc = hd_thread_start(&fabric->thread, NULL, run, fabric);

	if (rc != 0)
		return heddle_fail(rc, "progress thread: %s", heddle_strerror(rc));
	fabric->has_thread = true;
	(void)pthread_setname_np(fabric->thread, "heddle");
	return 0;
}

static hd_ns deadline_of(int timeout_ms) {
	return timeout_ms < 0 ? HD_NEVER :
				hd_ns_add(hd_driver_now(), (hd_ns)(unsigned)timeout_ms * HD_MS);
}

static bool sleep_until(struct heddle *fabric, hd_ns until) {
	struct timespec when = {
		.tv_sec = (time_t)(until / HD_SECOND),
		.tv_nsec = (long)(until % HD_SECOND),
	};

	if (until == HD_NEVER)
		return pthread_cond_wait(&fabric->changed, &fabric->lock) == 0;
	return pthread_cond_timedwait(&fabric->changed, &fabric->lock, &when) != ETIMEDOUT;
}

int heddle_wait_until(
	struct heddle *fabric,
	bool (*done)(const void *arg),
	const void *arg,
	int timeout_ms
) {
	hd_ns until = deadline_of(timeout_ms);
	bool in_time = true;

	while (!done(arg)) {
		if (heddle_check_may_wait() < 0)
			return -EDEADLK;
		if (fabric->error < 0)
			return heddle_fail(fabric->error, "%s", fabric->error_text);
		/* Nothing comes any more: the core has ended. */
		if (fabric->left)
			return heddle_fail(-ESHUTDOWN, "left the job");
		if (!in_time)
			return heddle_fail(-ETIMEDOUT, "%s", fabric->trouble);
		if (!fabric->manual) {
			in_time = sleep_until(fabric, until);
			continue;
		}
		pthread_mutex_unlock(&fabric->lock);
		drive(fabric, until);
		pthread_mutex_lock(&fabric->lock);
		in_time = hd_driver_now() < until;
	}
	return 0;
}

int heddle_wait_sums(struct heddle *fabric, hd_ns until) {
	bool in_time = true;

	while (heddle_aggregator_runs(fabric)) {
		if (!in_time)
			return heddle_fail(
				-ETIMEDOUT, "others still wait for sums that are made here"
			);
		in_time = sleep_until(fabric, until);
	}
	return 0;
}

static bool something_ended(const void *arg) {
	const struct heddle *fabric = arg;

	return fabric->ends != fabric->ends_seen;
}

int heddle_progress(struct heddle *fabric, int timeout_ms) {
	uint64_t count;
	int rc = heddle_check(fabric);

	if (rc == 0)
		rc = heddle_check_may_wait();
	if (rc < 0)
		return rc;
	if (fabric->manual)
		drive(fabric, 0);
	pthread_mutex_lock(&fabric->lock);
	rc = timeout_ms == 0 ? (something_ended(fabric) ? 0 : -ETIMEDOUT) :
			       heddle_wait_until(fabric, something_ended, fabric, timeout_ms);
	if (rc == 0 && !fabric->manual && read(fabric->ended_fd, &count, sizeof count) < 0)
		count = 0;
	if (fabric->error < 0)
		rc = heddle_fail(fabric->error, "%s", fabric->error_text);
	fabric->ends_seen = fabric->ends;
	pthread_mutex_unlock(&fabric->lock);
	return rc == 0 ? 1 : rc == -ETIMEDOUT ? 0 : rc;
}

int heddle_fd(const struct heddle *fabric) {
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	return fabric->manual ? hd_driver_fd(fabric->driver) : fabric->ended_fd;
}

int heddle_timeout_ms(const struct heddle *fabric) {
	hd_ns deadline, now;
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	if (!fabric->manual)
		return -1;
	deadline = heddle_core_ops.deadline(fabric);
	now = hd_driver_now();
	if (deadline == HD_NEVER)
		return -1;
	if (deadline <= now)
		return 0;
	return (int)hd_ns_min((deadline - now + HD_MS - 1) / HD_MS, INT32_MAX);
}

int heddle_is_superseded(const struct heddle *fabric, uint64_t base) {
	uint64_t newest;

	if (!fabric)
		return 0;
	newest = atomic_load_explicit(&fabric->newest, memory_order_relaxed);
	return newest != 0 && HEDDLE_VERSION_COUNTER(newest) != HEDDLE_VERSION_COUNTER(base);
}
