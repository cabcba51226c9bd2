/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This worker's progress in learning, for the controller's owner of the worker count: a loss, a step, its time. At most
 * one report is sent every HD_OBSERVE_US; values meanwhile are added up, so that short steps cost no more than long
 * ones. A report that cannot be sent (no controller at the moment) is dropped with the next.
 */
#include "worker_session.h"

#include <errno.h>
#include <math.h>

int hd_worker_observe(struct hd_worker *worker, hd_ns now, const struct hd_worker_observation *o) {
	struct hd_worker_observation *seen = &worker->seen;

	if (o->step == 0 || o->samples == 0 || !isfinite(o->loss_sum)
	    || !isfinite(seen->loss_sum + o->loss_sum) || isnan(o->sent_norm)
	    || isnan(o->held_norm))
		return -EINVAL;
	if (worker->stats.left || worker->refused)
		return -ESHUTDOWN;
	if (seen->samples == 0)
		worker->seen_at = hd_ns_max(now, worker->seen_at);
	seen->step = o->step;
	seen->loss_sum += o->loss_sum;
	seen->samples += o->samples;
	seen->step_took = o->step_took;
	seen->sent_norm = o->sent_norm;
	seen->held_norm = o->held_norm;
	return 0;
}

static bool can_send(const struct hd_worker *worker) {
	return worker->controller && worker_is_registered(worker)
		&& worker->stage < WORKER_LINGERING;
}

void worker_observe_tick(struct hd_worker *worker, const struct worker_context *ctx) {
	struct hd_message message = {.kind = HD_MSG_OBSERVE};

	if (worker->seen.samples == 0 || ctx->now < worker->seen_at)
		return;
	if (can_send(worker)) {
		message.observe = (struct hd_msg_observe){
			.job = worker->job,
			.worker = worker->config.rank,
			.step = worker->seen.step,
			.loss_sum = worker->seen.loss_sum,
			.samples = worker->seen.samples,
			.step_ns = worker->seen.step_took,
			.sent_norm = worker->seen.sent_norm,
			.held_norm = worker->seen.held_norm,
		};
		(void)worker_tell(worker, worker->controller, ctx, &message);
	}
	worker->seen = (struct hd_worker_observation){0};
	worker->seen_at = hd_ns_add(ctx->now, HD_OBSERVE_US * HD_US);
}

hd_ns worker_observe_deadline(const struct hd_worker *worker) {
	return worker->seen.samples ? worker->seen_at : HD_NEVER;
}
