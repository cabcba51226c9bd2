/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective on the wire. The controller's REDUCE divides the values into shards. In an all-reduce each is sent to
 * its aggregator and comes back as the sum of all workers' values while the rest is still being sent; in others a
 * worker only gives to some shards, or only receives some (worker_blocks.c):
 *
 *     in  | shard 0 | shard 1 | ...     out_token --> aggregator --> in_token     | shard 0 | shard 1 | ... out
 */
#include "hd_assert.h"
#include "hd_group.h"
#include "hd_kernels.h"
#include "worker_blocks.h"
#include "worker_pull.h"
#include "worker_reduce.h"

#include <errno.h>
#include <stdlib.h>

#define POLL_BUDGET 64 /* packets of one shard in one call */

/* --- on the wire ---------------------------------------------------------------------------- */

static int open_send(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_reduce *r,
	const struct hd_group_shard *given,
	struct worker_shard *shard
) {
	const uint32_t value = (uint32_t)hd_dtype_bytes(r->args.dtype);
	const uint8_t *from = r->half ? (const void *)r->half : r->args.in;
	struct hd_send_config out = {
		.peer = { given->ipv4, given->port },
		.header = {
			.attempt = r->attempt,
			.dtype = r->args.dtype,
			.job = worker->job,
			.epoch = r->epoch,
			.worker = worker->config.rank,
			.round = r->pub.round,
			.token = given->out_token,
		},
		.bytes = given->bytes,
		.chunk_bytes = worker->config.chunk_bytes,
		.cc_weight = given->cc_weight >= 1 ? given->cc_weight : 1,
		.path = &shard->path->cc,
		.keys = worker->config.keys,
		.key_id = worker->config.key_id,
	};
	uint64_t at;

	hd_assert(value > 0);
	out.chunk_bytes -= out.chunk_bytes % (uint32_t)value;
	if (!from || !worker_blocks_given(r, given->first / value, given->bytes / value, &at))
		return -EINVAL;
	out.data = from + at * value;
	return hd_send_create(&out, ctx->now, &shard->send);
}

static int open_recv(
	struct hd_worker *worker,
	const struct worker_reduce *r,
	const struct hd_group_shard *given,
	struct worker_shard *shard
) {
	const size_t value = hd_dtype_bytes(r->args.dtype);
	uint8_t *to = r->half ? (void *)(r->half + r->args.values) : r->args.out;
	struct hd_recv_config in = {
		.token = given->in_token,
		.job = worker->job,
		.round = r->pub.round,
		.worker = worker->config.rank,
		.attempt = r->attempt,
		.dtype = r->args.dtype,
		.bytes = given->bytes,
	};
	uint64_t at;

	hd_assert(value > 0);
	if (!to || !r->args.out
	    || !worker_blocks_taken(worker, r, given->first / value, given->bytes / value, &at))
		return -EINVAL;
	in.data = to + at * value;
	return hd_recv_create(&in, &shard->recv);
}

static int open_shard(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r,
	const struct hd_group_shard *given,
	struct worker_shard *shard
) {
	int rc = 0;

	shard->kind = WORKER_SHARD_BY_AGGREGATOR;
	shard->path
		= worker_path_to(worker, ctx, (struct hd_addr){given->ipv4, given->port}, false);
	if (!shard->path)
		return -ENOBUFS;
	shard->out_token = given->out_token;
	shard->in_token = given->in_token;
	if (given->out_token != 0)
		rc = open_send(worker, ctx, r, given, shard);
	if (rc == 0 && given->in_token != 0) {
		rc = open_recv(worker, r, given, shard);
		r->due += rc == 0;
	}
	return rc;
}

int worker_shards_open(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
) {
	int count = message->shards.bytes == 0 ?
		0 :
		hd_group_count(&message->shards, HD_GROUP_SHARD_BYTES);
	size_t value = hd_dtype_bytes(r->args.dtype);
	uint64_t end = 0, out = 0, in = 0;
	int rc = 0;

	if (count < 0 || value == 0)
		return -EINVAL;
	worker_reduce_drop_shards(worker, r);
	r->shards = calloc(count > 0 ? (size_t)count : 1, sizeof *r->shards);
	if (!r->shards)
		return -ENOMEM;
	r->shard_count = (uint32_t)count;
	for (uint32_t i = 0; rc == 0 && i < r->shard_count; i++) {
		struct hd_group_shard given = hd_group_get_shard(&message->shards, i);

		if (given.bytes == 0 || given.bytes % value != 0 || given.first % value != 0
		    || given.first < end || given.bytes > UINT64_MAX - given.first)
			return -EINVAL;
		rc = open_shard(worker, ctx, r, &given, &r->shards[i]);
		end = given.first + given.bytes;
		out += given.out_token != 0 ? given.bytes : 0;
		in += given.in_token != 0 ? given.bytes : 0;
	}
	if (rc == 0
	    && (out != worker_blocks_to_send(worker, r) * value
		|| in != worker_blocks_due(worker, r) * value))
		return -EINVAL;
	return rc;
}

static void
deliver(struct hd_worker *worker, const struct worker_context *ctx, struct worker_reduce *r) {
	const uint64_t values = r->takes.end - r->takes.first;

	if (r->half)
		hd_half_to_f32(r->args.dtype, r->args.out, r->half + r->args.values, values);
	worker_blocks_copy(worker, r);
	worker_reduce_applied(worker, ctx, r);
}

/* A sum that has come has the receiver's own values, too: they have arrived, even if that is not acknowledged. */
static bool sum_implies_values(const struct worker_reduce *r) {
	return r->args.collective == HD_COLLECTIVE_ALLREDUCE
		|| r->args.collective == HD_COLLECTIVE_REDUCE;
}

bool worker_shard_is_open(const struct worker_reduce *r, const struct worker_shard *shard) {
	if (shard->kind != WORKER_SHARD_BY_AGGREGATOR || shard->recv)
		return true;
	return shard->send && !(sum_implies_values(r) && shard->in_token != 0);
}

static void
consider(struct hd_worker *worker, const struct worker_context *ctx, struct worker_reduce *r) {
	const bool implied = sum_implies_values(r);

	if (r->lone && worker_reduce_waits(r)) {
		worker_reduce_again(worker, ctx, r);
		return;
	}
	if (r->ended || r->due == 0 || r->held < r->due)
		return;
	for (uint32_t i = 0; !implied && i < r->shard_count; i++)
		if (r->shards[i].send)
			return;
	deliver(worker, ctx, r);
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
		consider(worker, ctx, r);
	}
	return true;
}

/* --- sums ----------------------------------------------------------------------------------- */

/* Returns the chunks held without a gap. */
static uint32_t send_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_shard *shard
) {
	struct hd_session *session = worker_path_session(worker, shard->path);
	struct hd_message message = {.kind = HD_MSG_SACK};

	hd_recv_sack(shard->recv, ctx->now, worker->config.receive_window_bytes, &message.sack);
	if (session)
		(void)hd_session_send_once(session, &message, ctx->now, ctx->sink);
	return message.sack.held;
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

	if (r->shard_count > HD_REDUCE_REPORTS_MAX || r->pub.bytes < HD_REDUCE_REPORT_BYTES_MIN
	    || r->args.collective != HD_COLLECTIVE_ALLREDUCE)
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
	if (!worker_path_takes(worker, shard->path, &shard->seal, header, packet))
		return true;
	result = hd_recv_chunk(shard->recv, ctx->now, header, payload, payload_bytes);
	if (result == HD_RECV_MISMATCH) {
		worker->stats.drop_mismatch++;
		return true;
	}
	hd_sink_expect(ctx->sink, hd_recv_whole_at(shard->recv));
	if (result != HD_RECV_DONE)
		return true;
	worker_add_tombstone(
		worker, shard->path->address, header->token, send_sack(worker, ctx, shard)
	);
	report_shard(worker, ctx, r, shard);
	hd_recv_destroy(shard->recv);
	shard->recv = NULL;
	hd_assert(r->held < r->due);
	r->held++;
	consider(worker, ctx, r);
	return true;
}

/* --- time ----------------------------------------------------------------------------------- */

void worker_shard_pump(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_shard *shard
) {
	if (shard->recv && hd_recv_sack_due(shard->recv, ctx->now))
		(void)send_sack(worker, ctx, shard);
	/* The aggregator's answers come in a session. */
	if (!shard->send || !worker_path_session(worker, shard->path))
		return;
	(void)hd_send_poll(shard->send, ctx->now, POLL_BUDGET, ctx->sink);
	if (hd_send_stats(shard->send)->state == HD_SEND_FAILED)
		worker->observe_due = true;
}

hd_ns worker_shard_deadline(const struct hd_worker *worker, const struct worker_shard *shard) {
	hd_ns deadline = HD_NEVER;

	if (shard->recv)
		deadline = hd_recv_deadline(shard->recv);
	if (shard->send && worker_path_session(worker, shard->path))
		deadline = hd_ns_min(deadline, hd_send_deadline(shard->send));
	return deadline;
}
