/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of synchronous jobs: every update was computed from the model with which the step begins, no worker has two in
 * one step (except with N-batch), there are never more than the step's size; and the model moves by their mean.
 *
 * The mean is multiplied by one scale. It is the scale of the change of members that the server reports for the step,
 * as first reported by any node; without a change, it follows from their number by the job's description. Updates with
 * different scales would give another model. Changes of one sender come in their order; before the first one the scale
 * is 1, or one that was sent to the server that this one replaced.
 *
 * When late updates count (hd_check_late()), an update was computed from the model of an earlier step, by the number of
 * steps that the server reports, and its weight halves with each.
 */
#include "hd_check_private.h"
#include "hd_roster.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void hd_check_steps(struct hd_check *check, uint8_t sync, uint32_t count, bool exact) {
	check->sync = sync;
	check->sync_count = check->sync_most = count;
	check->sync_blind = check->trains && !exact;
	check->blind = check->blind || check->sync_blind;
}

void hd_check_late(struct hd_check *check, uint32_t most) {
	check->late_most = most;
}

/* A restarted server uses the job's own number until it is told: a lower one is no bound here. */
void hd_check_roster(struct hd_check *check, const struct hd_event *event) {
	check->sync_most = event->round > check->sync_count ? event->round : check->sync_count;
}

void hd_check_scale(struct hd_check *check, uint32_t base) {
	check->scale_base = base;
}

static bool is_scale_of(
	const struct hd_check *check,
	const struct hd_event *event,
	const struct hd_event *change
) {
	const struct hd_roster sent
		= {.scale = (float)change->value, .count = (uint16_t)change->aux};
	double scale = (double)hd_roster_scale(&sent, check->scale_base);

	return !(event->value < scale || event->value > scale);
}

/* Whether the step's scale is that of its change. Before a server has received one, it is 1 or that of some change (a
 * replica continues with the server's last known one). */
static bool scales(const struct hd_check *check, const struct hd_event *event) {
	const struct hd_event *change = hd_check_change(check, event->position);
	bool none = !(event->value < 1 || event->value > 1);

	if (check->sync == HD_SYNC_FEDERATED)
		return none;
	if (event->position != 0)
		return change ? is_scale_of(check, event, change) :
				hd_check_is_forgotten(check, event->position);
	for (uint32_t i = 0; !none && i < HD_CHECK_CHANGES; i++) {
		change = &check->changes[i];
		none = change->version != 0 && is_scale_of(check, event, change);
	}
	return none;
}

void hd_check_stepped(struct hd_check *check, const struct hd_event *event) {
	bool back = event->position < check->step_change
		&& hd_version_incarnation(event->position)
			== hd_version_incarnation(check->step_change)
		&& event->position != 0;

	if (!scales(check, event) || back)
		hd_check_fail(
			check,
			"the step up to %" PRIu64
			" is of scale %g, which is not that of change %" PRIx64 "%s",
			hd_version_counter(event->version),
			event->value,
			event->position,
			back ? ", which is over" : ""
		);
	check->step_scale = (float)event->value;
	check->step_change = event->position;
	check->stats.steps_scaled += event->value < 1 || event->value > 1;
}

static void begin(struct hd_check *check, const struct hd_event *event) {
	struct hd_check_log *log = hd_check_present(check);
	uint32_t size = event->more + 1u;

	check->step_base = log->first + log->count - 1;
	check->step_size = size;
	check->step_weight = 0;
	check->stats.steps++;
	check->bases[check->stats.steps % (HD_LATE_STEPS_MAX + 1)] = check->step_base;
	if (check->sync_count > 0 && size > check->sync_most)
		hd_check_fail(check, "a step of %u updates, not of %u", size, check->sync_most);
	check->stats.steps_short += size < check->sync_count;
}

/* Applied weight = received weight: the server divides by the sum of the workers' weights. */
static void
weigh(struct hd_check *check, const struct hd_event *event, const struct hd_check_record *record) {
	float weight = (float)event->value;

	check->step_weight += event->value;
	check->stats.weight += event->value;
	check->late_scale = 1;
	/* In a sum with a later update it weighs as little as that one. */
	for (uint32_t i = 0; i < check->late_most && weight < record->weight * check->late_scale;
	     i++)
		check->late_scale /= 2;
	if (weight < record->weight * check->late_scale
	    || weight > record->weight * check->late_scale
	    || check->late_scale > ldexpf(1, -(int)event->aux))
		hd_check_fail(
			check,
			"worker %u round %u: applied with weight %g, pushed with %g",
			event->worker,
			event->round,
			event->value,
			(double)record->weight
		);
}

/* The model with which the step begins, or that of an earlier step, by the reported lateness. */
static bool is_base(const struct hd_check *check, const struct hd_event *event) {
	uint64_t base = hd_version_counter(event->base), step = check->stats.steps;

	if (base == check->step_base)
		return event->aux == 0;
	return event->aux <= check->late_most && event->aux < step
		&& check->bases[(step - event->aux) % (HD_LATE_STEPS_MAX + 1)] == base;
}

#define PUSHES_LOOKED_AT 64

/* A client is drawn once for a model, and gives one update: it is not in two steps with it. */
static bool gave_before(
	const struct hd_check *check,
	const struct hd_check_worker *worker,
	const struct hd_event *event
) {
	uint32_t first = worker->count > PUSHES_LOOKED_AT ? worker->count - PUSHES_LOOKED_AT : 0;

	for (uint32_t i = first; check->sync == HD_SYNC_FEDERATED && i < worker->count; i++)
		if (worker->records[i].committed != 0 && worker->records[i].base == event->base)
			return true;
	return false;
}

bool hd_check_step(
	struct hd_check *check,
	const struct hd_event *event,
	const struct hd_check_record *record
) {
	struct hd_check_worker *worker = &check->workers[event->worker];

	if (check->more == 0)
		begin(check, event);
	if (!is_base(check, event))
		hd_check_fail(
			check,
			"worker %u round %u: base %" PRIu64 " (delay %" PRIu64
			") in the step from %" PRIu64,
			event->worker,
			event->round,
			hd_version_counter(event->base),
			event->aux,
			check->step_base
		);
	else if (gave_before(check, worker, event))
		hd_check_fail(
			check,
			"worker %u round %u: a second update with base %" PRIu64,
			event->worker,
			event->round,
			hd_version_counter(event->base)
		);
	else if (check->sync != HD_SYNC_N_BATCH && check->late_most == 0 && worker->step == check->stats.steps)
		hd_check_fail(
			check,
			"worker %u round %u: twice in the step from %" PRIu64,
			event->worker,
			event->round,
			check->step_base
		);
	worker->step = check->stats.steps;
	check->stats.late += event->aux > 0;
	if (check->sync == HD_SYNC_FEDERATED)
		weigh(check, event, record);
	return !check->failed;
}

static void add_runs(struct hd_check *check, const struct hd_check_record *record) {
	struct hd_run runs[HD_CHECK_RUNS_MAX];
	size_t count = hd_check_runs(record->salt, check->values, runs);

	for (size_t i = 0; i < count; i++)
		hd_add_f32(
			check->sum + runs[i].first, check->scratch + runs[i].first, runs[i].count
		);
}

/* scratch has the values as on the wire: in 16 bits when the job trains, else whole numbers, which are exact in
 * these. */
static void add(struct hd_check *check, const struct hd_check_record *record) {
	/* Weights are whole numbers, too, and halved: these products are exact in every type on the wire. */
	if (!check->trains && check->sync == HD_SYNC_FEDERATED)
		hd_scale_f32(
			check->scratch,
			check->scratch,
			check->values,
			record->weight * check->late_scale
		);
	if (record->dtype == HD_DTYPE_SPARSE32)
		add_runs(check, record);
	else if (check->trains && hd_dtype_is_half(record->dtype))
		hd_add_half(record->dtype, check->sum, (void *)check->scratch, check->values);
	else
		hd_add_f32(check->sum, check->scratch, check->values);
}

void hd_check_step_apply(
	struct hd_check *check,
	const struct hd_check_record *record,
	uint16_t more
) {
	float mean;

	if (!check->sum)
		check->sum = calloc(check->values, sizeof(float));
	if (!check->sum) {
		hd_check_fail(check, "out of memory");
		return;
	}
	add(check, record);
	if (more > 0)
		return;
	if (check->sync != HD_SYNC_FEDERATED)
		check->step_weight = check->step_size;
	mean = (check->step_scale > 0 ? check->step_scale : 1) / (float)check->step_weight;
	if (mean < 1 || mean > 1)
		hd_scale_f32(check->sum, check->sum, check->values, mean);
	if (check->trains)
		(void)hd_sgd_apply(
			check->shadow, check->momentum, check->sum, check->values, &check->sgd
		);
	for (uint64_t i = 0; !check->trains && i < check->values; i++)
		check->shadow[i] -= check->sum[i];
	free(check->sum);
	check->sum = NULL;
}
