/* SPDX-License-Identifier: BSD-3-Clause */
/* Who takes part in the job, and notices of preemption. */
#include "heddle_private.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static_assert(HEDDLE_WORKERS_MAX == HD_WORKERS_MAX, "ranks are the core's");
static_assert((int)HEDDLE_SCALE_MAX == HD_SCALE_MAX, "both limits are the same");

/* The ranks of the roster, as far as there is room; this worker's place among them, or -1. */
static int list_ranks(const struct heddle *fabric, int *ranks, size_t capacity) {
	uint32_t count = 0;
	int mine = -1;

	for (int rank = 0; rank < HEDDLE_WORKERS_MAX && count < fabric->roster.count; rank++) {
		if (!hd_roster_has(&fabric->roster, (uint16_t)rank))
			continue;
		if (count < capacity)
			ranks[count] = rank;
		if (rank == fabric->rank)
			mine = (int)count;
		count++;
	}
	return mine;
}

int heddle_get_members(
	struct heddle *fabric,
	struct heddle_members *members,
	int *ranks,
	size_t capacity
) {
	int rc = heddle_check(fabric);
	bool stepped;

	if (rc < 0)
		return rc;
	if (!members || members->size != sizeof *members)
		return heddle_fail(-EINVAL, "members: NULL, or size");
	/* Rounds of a federated job have weights instead. */
	stepped = fabric->spec->job.sync != HD_SYNC_NONE
		&& fabric->spec->job.sync != HD_SYNC_FEDERATED;
	pthread_mutex_lock(&fabric->lock);
	members->change = fabric->roster.change;
	members->count = fabric->roster.count;
	members->index = list_ranks(fabric, ranks, ranks ? capacity : 0);
	members->target = fabric->roster.target;
	members->sync_count = fabric->roster.sync_count;
	members->tau_max = fabric->roster.tau_max;
	members->scale = stepped ? 1.0f : hd_roster_scale(&fabric->roster, 0);
	members->step_scale
		= stepped ? hd_roster_scale(&fabric->roster, fabric->spec->job.scale_base) : 1.0f;
	pthread_mutex_unlock(&fabric->lock);
	return 0;
}

uint64_t heddle_members_change(struct heddle *fabric) {
	uint64_t change;

	if (heddle_check(fabric) < 0)
		return 0;
	pthread_mutex_lock(&fabric->lock);
	change = fabric->roster.change;
	pthread_mutex_unlock(&fabric->lock);
	return change;
}

float heddle_members_scale(const struct heddle_members *members, uint32_t base, float max) {
	if (!members || members->count == 0 || base == 0)
		return 1.0f;
	return fminf((float)members->count / (float)base, max > 0.0f ? max : HEDDLE_SCALE_MAX);
}

/* More workers than the bound makes a closed loop of them drop updates: said once each time that it comes to that. */
static void log_tau(struct heddle *fabric, uint32_t count, uint32_t tau_max) {
	char text[HD_TEXT_BYTES_MAX];

	if (!fabric->log || tau_max == 0 || count <= tau_max)
		return;
	(void)snprintf(
		text,
		sizeof text,
		"tau_max is below the number of workers (%u, %u): updates will be dropped",
		tau_max,
		count
	);
	fabric->log(fabric->log_arg, HEDDLE_LOG_WARNING, text);
}

void heddle_on_members(void *owner, const struct hd_roster *roster) {
	struct heddle *fabric = owner;
	uint32_t before, tau_max;

	pthread_mutex_lock(&fabric->lock);
	before = fabric->roster.count;
	tau_max = fabric->spec->job.tau_max;
	fabric->roster = *roster;
	heddle_count_end(fabric);
	pthread_cond_broadcast(&fabric->changed);
	pthread_mutex_unlock(&fabric->lock);
	if (before <= tau_max)
		log_tau(fabric, roster->count, tau_max);
}

/* --- what is reported ------------------------------------------------------------------------- */

int heddle_report_step(
	struct heddle *fabric,
	uint64_t step,
	double loss_sum,
	uint64_t samples,
	double step_seconds
) {
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	if (step == 0 || step > UINT32_MAX)
		return heddle_fail(-EINVAL, "step: from 1 to 4294967295");
	if (!isfinite(loss_sum))
		return heddle_fail(-EINVAL, "loss_sum: NaN or infinite, at step %" PRIu64, step);
	if (samples == 0)
		return heddle_fail(-EINVAL, "samples: 0");
	if (!(step_seconds >= 0) || step_seconds > 1e9)
		return heddle_fail(-EINVAL, "step_seconds: from 0 to 1e9");
	pthread_mutex_lock(&fabric->lock);
	if (fabric->left || fabric->closing)
		rc = -ESHUTDOWN;
	if (rc == 0) {
		fabric->seen = (struct hd_worker_observation){
			.step = (uint32_t)step,
			.loss_sum = fabric->seen.loss_sum + loss_sum,
			.samples = fabric->seen.samples + samples,
			.step_took = (hd_ns)(step_seconds * 1e9),
			.sent_norm = fabric->sent_norm,
			.held_norm = fabric->held_norm,
		};
		fabric->sent_norm = fabric->held_norm = -1;
	}
	pthread_mutex_unlock(&fabric->lock);
	if (rc == 0)
		hd_driver_wake(fabric->driver);
	return rc;
}

void heddle_report_norms(struct heddle *fabric, double sent, double held) {
	pthread_mutex_lock(&fabric->lock);
	fabric->sent_norm = isfinite(sent) ? (float)sent : -1;
	fabric->held_norm = isfinite(held) ? (float)held : -1;
	pthread_mutex_unlock(&fabric->lock);
}

static int in_observe(struct heddle *fabric, const struct heddle_turn *turn) {
	return hd_worker_observe(fabric->worker, turn->now, turn->arg);
}

void heddle_take_report(struct heddle *fabric, hd_ns now) {
	struct hd_worker_observation seen;
	const struct heddle_turn turn = {.now = now, .arg = &seen};

	pthread_mutex_lock(&fabric->lock);
	seen = fabric->seen;
	fabric->seen = (struct hd_worker_observation){0};
	pthread_mutex_unlock(&fabric->lock);
	if (seen.samples > 0)
		(void)heddle_enter(fabric, in_observe, &turn);
}

/* --- preemption ----------------------------------------------------------------------------- */

/* Also from a signal handler: no lock, and nothing but an atomic word, the clock and a write(). */
int heddle_notify_preemption(struct heddle *fabric, double seconds) {
	int before = errno;

	if (!fabric || !(seconds > 0) || seconds > HD_NOTICE_US_MAX * 1e-6)
		return -EINVAL;
	if (getpid() != fabric->pid)
		return -ECHILD;
	atomic_store(&fabric->preempted_at, hd_driver_now() + (hd_ns)(seconds * 1e9));
	hd_driver_wake(fabric->driver);
	errno = before;
	return 0;
}

static int in_notice(struct heddle *fabric, const struct heddle_turn *turn) {
	const hd_ns *left = turn->arg;
	hd_ns flush_at;

	(void)hd_worker_notice(fabric->worker, turn->now, *left, turn->sink);
	flush_at = hd_worker_flush_at(fabric->worker);
	pthread_mutex_lock(&fabric->lock);
	fabric->flush_at = flush_at;
	pthread_mutex_unlock(&fabric->lock);
	return 0;
}

void heddle_take_notice(struct heddle *fabric, hd_ns now, struct hd_sink *sink) {
	hd_ns at = atomic_load(&fabric->preempted_at), left = at > now ? at - now : 1;
	const struct heddle_turn turn = {.now = now, .sink = sink, .arg = &left};

	if (at == 0 || at == fabric->notice_taken)
		return;
	fabric->notice_taken = at;
	(void)heddle_enter(fabric, in_notice, &turn);
}

void heddle_on_noticed(void *owner, hd_ns preempted_at) {
	struct heddle *fabric = owner;

	if (fabric->log)
		fabric->log(
			fabric->log_arg,
			HEDDLE_LOG_INFO,
			"the job has more workers than it should: this one leaves"
		);
	fabric->notice_taken = preempted_at;
	atomic_store(&fabric->preempted_at, preempted_at);
	pthread_mutex_lock(&fabric->lock);
	fabric->flush_at = hd_worker_flush_at(fabric->worker);
	fabric->sent_away = true;
	heddle_count_end(fabric);
	pthread_cond_broadcast(&fabric->changed);
	pthread_mutex_unlock(&fabric->lock);
}

int heddle_time_left_ms(struct heddle *fabric) {
	hd_ns at, now = hd_driver_now();

	if (heddle_check(fabric) < 0 || atomic_load(&fabric->preempted_at) == 0)
		return -1;
	pthread_mutex_lock(&fabric->lock);
	/* The others wait for a worker that the job has no need of, for as long as it begins something. */
	at = fabric->sent_away ? now : fabric->flush_at;
	pthread_mutex_unlock(&fabric->lock);
	/* Said just now, and not taken up yet. */
	if (at == HD_NEVER)
		at = atomic_load(&fabric->preempted_at);
	return at > now ? (int)((at - now) / HD_MS) : 0;
}
