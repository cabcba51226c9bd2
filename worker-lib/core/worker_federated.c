/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Federated jobs (docs/fedprox.md): the rounds for which this worker is drawn, and its reports.
 *
 *   ROUND 7 --> round() ... WORK 7, push | session lost | ROUND 7 again: WORK 7 again, the push by itself
 */
#include "worker_ask.h"
#include "worker_session.h"

#include <errno.h>
#include <math.h>

static int send_work(struct hd_worker *worker, const struct worker_context *ctx) {
	const struct hd_work *work = &worker->work;
	struct hd_message message = {.kind = HD_MSG_WORK};

	message.work = (struct hd_msg_work){
		.job = worker->job,
		.worker = worker->config.rank,
		.round = work->round,
		.epochs = work->epochs,
		.gives = work->gives,
		.weight = work->weight,
		.gamma = work->gamma,
		.loss = work->loss,
	};
	return worker_tell(worker, worker->server, ctx, &message);
}

int hd_worker_work(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_work *work,
	struct hd_sink *sink
) {
	struct worker_context ctx = {now, sink};
	struct hd_work before = worker->work;

	if (worker->spec.sync != HD_SYNC_FEDERATED || work->round == 0 || !(work->weight > 0)
	    || isinf(work->weight) || !isfinite(work->loss))
		return -EINVAL;
	if (worker->refused || worker->stage >= WORKER_LINGERING)
		return -ESHUTDOWN;
	worker->work = *work;
	if (!worker->stats.joined || send_work(worker, &ctx) < 0) {
		worker->work = before;
		return -EAGAIN;
	}
	return 0;
}

void worker_on_round(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_round *message
) {
	const struct hd_round_info info = {
		.round = message->round,
		.version = message->version,
		.place = message->place,
		.clients = message->clients,
		.epochs = message->epochs,
		.drops = message->drops != 0,
		.mu = message->mu,
		.until
		= message->left_ms > 0 ? hd_ns_add(ctx->now, message->left_ms * HD_MS) : HD_NEVER,
	};

	if (message->job != worker->job || worker->spec.sync != HD_SYNC_FEDERATED
	    || message->round == 0 || message->epochs == 0 || !(message->mu >= 0)
	    || isinf(message->mu)) {
		worker->stats.late_messages++;
		return;
	}
	/* A new session, the same round. */
	if (info.round == worker->info.round && info.version == worker->info.version) {
		if (worker->work.round == info.round)
			(void)send_work(worker, ctx);
		return;
	}
	worker->info = info;
	worker_newest(worker, info.version, true);
	if (worker->config.ops && worker->config.ops->round)
		worker->config.ops->round(worker->config.owner, &worker->info);
}

void worker_on_lack(struct hd_worker *worker, const struct hd_msg_lack *message) {
	const struct hd_lack_info info = {
		.round = message->round,
		.here = message->here,
		.needed = message->needed,
		.gone = message->gone,
		.waited_ms = message->waited_ms,
	};

	if (message->job != worker->job || worker->spec.sync != HD_SYNC_FEDERATED
	    || message->here >= message->needed) {
		worker->stats.late_messages++;
		return;
	}
	if (worker->config.ops && worker->config.ops->lacked)
		worker->config.ops->lacked(worker->config.owner, &info);
}
