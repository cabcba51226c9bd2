/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An all-reduce on the wire. The controller's REDUCE cuts the values into shards; each goes to its aggregator and
 * comes back as the sum of all workers' while the rest is still leaving:
 *
 *     in  | shard 0 | shard 1 | ...     out_token --> aggregator --> in_token     | shard 0 | shard 1 | ... out
 */
#include "hd_assert.h"
#include "hd_group.h"
#include "hd_kernels.h"
#include "worker_pull.h"
#include "worker_reduce.h"

#include <errno.h>
#include <stdlib.h>

#define POLL_BUDGET 64 /* packets of one shard in one call */

/* --- on the wire ---------------------------------------------------------------------------- */

static int open_shard(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_reduce *r,
	const struct hd_group_shard *told,
	uint64_t first,
	struct worker_shard *shard
) {
	const uint8_t *from = r->half ? (const void *)r->half : (const void *)r->args.in;
	uint8_t *to = r->half ? (void *)(r->half + r->args.values) : (void *)r->args.out;
	struct hd_send_config out = {
		.peer = { told->ipv4, told->port },
		.header = {
			.attempt = r->attempt,
			.dtype = r->args.dtype,
			.job = worker->job,
			.epoch = r->epoch,
			.worker = worker->config.rank,
			.round = r->pub.round,
			.token = told->out_token,
		},
		.data = from + first,
		.bytes = told->bytes,
		.chunk_bytes = worker->config.chunk_bytes,
		.cc_weight = told->cc_weight >= 1 ? told->cc_weight : 1,
	};
	struct hd_recv_config in = {
		.token = told->in_token,
		.job = worker->job,
		.round = r->pub.round,
		.worker = worker->config.rank,
		.attempt = r->attempt,
		.dtype = r->args.dtype,
		.bytes = told->bytes,
		.data = to + first,
	};
	int rc;

	shard->kind = WORKER_SHARD_BY_AGGREGATOR;
	shard->way = worker_way_to(worker, ctx, out.peer, false);
	if (!shard->way)
		return -ENOBUFS;
	out.path = &shard->way->path;
	out.keys = worker->config.keys;
	out.key_id = worker->config.key_id;
	shard->out_token = told->out_token;
	shard->in_token = told->in_token;
	rc = hd_send_create(&out, ctx->now, &shard->send);
	return rc < 0 ? rc : hd_recv_create(&in, &shard->recv);
}

int worker_shards_open(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
) {
	int count = hd_group_count(&message->shards, HD_GROUP_SHARD_BYTES);
	size_t value = hd_dtype_bytes(r->args.dtype);
	uint64_t first = 0;
	int rc = 0;

	if (count < 0 || value == 0)
		return -EINVAL;
	hd_assert(!r->shards && r->shard_count == 0 && r->held == 0);
	r->shards = calloc((size_t)count, sizeof *r->shards);
	if (!r->shards)
		return -ENOMEM;
	r->shard_count = (uint32_t)count;
	for (uint32_t i = 0; rc == 0 && i < r->shard_count; i++) {
		struct hd_group_shard told = hd_group_get_shard(&message->shards, i);

		if (told.bytes == 0 || told.bytes > r->pub.bytes - first || told.bytes % value != 0)
			return -EINVAL;
		rc = open_shard(worker, ctx, r, &told, first, &r->shards[i]);
		first += told.bytes;
	}
	return rc == 0 && first != r->pub.bytes ? -EINVAL : rc;
}

bool worker_shards_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_sack *sack
) {
	struct worker_reduce *r;
	struct worker_shard *shard = worker_reduce_find_shard(worker, sack->token, &r);

	if (!shard || sack->token != shard->out_token)
		return false;
	if (!shard->send)
		return true;
	hd_send_sack(shard->send, ctx->now, sack);
	if (hd_send_stats(shard->send)->state == HD_SEND_DONE) {
		hd_send_destroy(shard->send);
		shard->send = NULL;
	}
	return true;
}

/* --- sums ----------------------------------------------------------------------------------- */

/* Returns the chunks held without a gap. */
static uint32_t say_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_shard *shard
) {
	struct hd_session *session = worker_way_session(worker, shard->way);
	struct hd_message message = {.kind = HD_MSG_SACK};

	hd_recv_sack(shard->recv, ctx->now, worker->config.receive_window_bytes, &message.sack);
	if (session)
		(void)hd_session_send_once(session, &message, ctx->now, ctx->sink);
	return message.sack.held;
}

static void
deliver(struct hd_worker *worker, const struct worker_context *ctx, struct worker_reduce *r) {
	float *out = r->args.out;

	if (r->half) {
		hd_half_to_f32(r->args.dtype, out, r->half + r->args.values, r->args.values);
		if (r->args.average)
			hd_scale_f32(out, out, r->args.values, r->scale);
	}
	worker_reduce_applied(worker, ctx, r);
}

/* For the controller's view of the network. */
static void report_shard(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_reduce *r,
	const struct worker_shard *shard
) {
	const struct hd_recv_stats *stats = hd_recv_stats(shard->recv);
	struct hd_message message = {.kind = HD_MSG_REPORT};
	struct hd_msg_report *body = &message.report;

	if (r->shard_count > HD_REDUCE_REPORTS_MAX)
		return;
	body->job = worker->job;
	body->worker = worker->config.rank;
	body->round = r->pub.round;
	body->direction = HD_REDUCE;
	body->attempt = r->attempt;
	body->token = shard->in_token;
	body->outcome = HD_OUTCOME_PENDING;
	body->bytes = stats->bytes_held;
	body->duration_ns = stats->last - stats->first;
	body->rate_bps = (uint64_t)hd_recv_rate_bps(shard->recv);
	body->limited_permille = hd_recv_limited_permille(shard->recv);
	body->position = (uint64_t)(shard - r->shards);
	(void)worker_tell(worker, worker->controller, ctx, &message);
}

bool worker_shards_chunk(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet,
	const struct hd_chunk_header *header,
	const uint8_t *payload
) {
	size_t payload_bytes = packet->bytes - (size_t)(payload - packet->data);
	struct worker_reduce *r;
	struct worker_shard *shard = worker_reduce_find_shard(worker, header->token, &r);
	enum hd_recv_result result;

	if (!shard || header->token != shard->in_token || !shard->recv)
		return false;
	if (!worker_way_takes(worker, shard->way, &shard->seal, header, packet))
		return true;
	result = hd_recv_chunk(shard->recv, ctx->now, header, payload, payload_bytes);
	if (result == HD_RECV_MISMATCH) {
		worker->stats.drop_mismatch++;
		return true;
	}
	/* While it is in the cache. */
	if (result != HD_RECV_DUPLICATE && r->args.average && !r->half) {
		float *values = (float *)hd_recv_chunk_data(shard->recv, header->chunk);

		hd_scale_f32(values, values, payload_bytes / sizeof(float), r->scale);
	}
	if (result != HD_RECV_DONE)
		return true;
	worker_bury(worker, shard->way->address, header->token, say_sack(worker, ctx, shard));
	report_shard(worker, ctx, r, shard);
	hd_recv_destroy(shard->recv);
	shard->recv = NULL;
	hd_assert(r->held < r->shard_count);
	if (++r->held == r->shard_count && !r->ended)
		deliver(worker, ctx, r);
	return true;
}

/* --- time ----------------------------------------------------------------------------------- */

void worker_shard_pump(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_shard *shard
) {
	if (shard->recv && hd_recv_sack_due(shard->recv, ctx->now))
		(void)say_sack(worker, ctx, shard);
	/* The aggregator answers in a session. */
	if (!shard->send || !worker_way_session(worker, shard->way))
		return;
	(void)hd_send_poll(shard->send, ctx->now, POLL_BUDGET, ctx->sink);
	if (hd_send_stats(shard->send)->state == HD_SEND_FAILED)
		worker->observe_due = true;
}

hd_ns worker_shard_deadline(const struct hd_worker *worker, const struct worker_shard *shard) {
	hd_ns deadline = HD_NEVER;

	if (shard->recv)
		deadline = hd_recv_deadline(shard->recv);
	if (shard->send && worker_way_session(worker, shard->way))
		deadline = hd_ns_min(deadline, hd_send_deadline(shard->send));
	return deadline;
}
