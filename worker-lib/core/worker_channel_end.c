/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the controller that are only about sends and receives. */
#include "worker_channel.h"

static bool is_own(const struct hd_worker *worker, uint32_t channel) {
	const uint16_t from = hd_channel_from(channel), to = hd_channel_to(channel);

	return from < HD_WORKERS_MAX && to < HD_WORKERS_MAX && from != to
		&& (from == worker->config.rank || to == worker->config.rank);
}

void worker_channel_on_question(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_channel *question
) {
	struct hd_message message = {.kind = HD_MSG_CHANNEL};

	if (question->job != worker->job || question->worker != worker->config.rank
	    || !is_own(worker, question->channel)) {
		worker->stats.late_messages++;
		return;
	}
	message.channel.job = worker->job;
	message.channel.worker = worker->config.rank;
	worker_channel_describe(worker, question->channel, &message.channel);
	(void)worker_tell(worker, worker->controller, ctx, &message);
}

static void
end(struct hd_worker *worker,
    const struct worker_context *ctx,
    struct worker_reduce *r,
    const struct hd_msg_drop *drop) {
	r->pub.words = drop->text[0] ? drop->text : NULL;
	worker_reduce_end(
		worker,
		ctx,
		r,
		HD_TICKET_FAILED,
		drop->reason < HD_REASON_COUNT ? drop->reason : HD_REASON_REFUSED
	);
	r->pub.words = NULL;
}

/* `sum_id` is the process of the other end that REQUEST named: a refusal from before the channel was restarted is of
 * another call. */
void worker_channel_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_drop *drop
) {
	struct worker_reduce *r = worker_reduce_find(worker, drop->channel, drop->round), *last;
	const bool restart = drop->deadline != 0;

	if (drop->job != worker->job || drop->worker != worker->config.rank || !r
	    || r->attempt != drop->attempt || drop->sum_id != r->peer_boot) {
		worker->stats.late_messages++;
		return;
	}
	if (!restart) {
		end(worker, ctx, r, drop);
		return;
	}
	/* Callbacks may call again at once. */
	last = TAILQ_LAST(&worker->reduces, worker_reduces);
	worker_channel_restart(worker, drop->channel);
	for (r = TAILQ_FIRST(&worker->reduces);; r = TAILQ_NEXT(r, link)) {
		if (!r->ended && r->args.channel == drop->channel)
			end(worker, ctx, r, drop);
		if (r == last)
			break;
	}
}
