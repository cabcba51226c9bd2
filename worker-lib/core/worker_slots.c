/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An all-reduce through the slots of a switch on the path: one shard, of a lease that all its rounds share.
 *
 *     round 7, chunks 0 .. n    lease's stream: first 0        chunks --> service address -->+
 *     round 8, chunks 0 .. m    first n + 1                                                   | the switch adds
 *                                                              sums <-- in_token, turn <------+
 *
 * A round begins when the one before has all its sums: what the switch keeps to repeat is then no longer needed by us,
 * whatever slot comes next. There is no session with the switch: sums are the acknowledgement. NaN and Inf pass its
 * slots (hd_slots.h); what an exponent was too small for is asked for again without it, by all members, as they see it
 * in the same sum.
 */
#include "hd_assert.h"
#include "hd_group.h"
#include "hd_limits.h"
#include "worker_reduce.h"

#include <errno.h>
#include <stdlib.h>

#define POLL_BUDGET 256 /* packets of one round in one call */

static bool is_active(const struct worker_shard *shard) {
	return shard->slots && hd_slots_stats(shard->slots)->state == HD_SLOTS_ACTIVE;
}

bool worker_slots_held(const struct hd_worker *worker, const struct worker_reduce *r) {
	const struct worker_reduce *other;

	if (!worker_reduce_by_slots(r))
		return false;
	TAILQ_FOREACH (other, &worker->reduces, link) {
		if (other->ended || !worker_reduce_by_slots(other) || !is_active(&other->shards[0]))
			continue;
		if (other->shards[0].in_token == r->shards[0].in_token
		    && other->shards[0].turn < r->shards[0].turn)
			return true;
	}
	return false;
}

/* --- time ----------------------------------------------------------------------------------- */

void worker_slots_pump(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_reduce *r,
	struct worker_shard *shard
) {
	if (!is_active(shard) || worker_slots_held(worker, r))
		return;
	(void)hd_slots_poll(shard->slots, ctx->now, POLL_BUDGET, ctx->sink);
	if (hd_slots_stats(shard->slots)->state == HD_SLOTS_FAILED)
		worker->observe_due = true;
}

hd_ns worker_slots_deadline(
	const struct hd_worker *worker,
	const struct worker_reduce *r,
	const struct worker_shard *shard
) {
	if (!is_active(shard) || worker_slots_held(worker, r))
		return HD_NEVER;
	return hd_slots_deadline(shard->slots);
}

/* --- begin ---------------------------------------------------------------------------------- */

/* A rate of values, in bits on the link. */
static uint64_t link_rate(uint64_t rate_bps, uint16_t count) {
	double bytes = (double)count * sizeof(float);

	return (uint64_t)((double)rate_bps * (bytes + HD_CHUNK_OVERHEAD_BYTES) / bytes);
}

int worker_slots_open(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
) {
	int count = hd_group_count(&message->shards, HD_GROUP_SHARD_BYTES);
	struct hd_slots_config config = {
		.job = worker->job,
		.round = message->turn,
		.epoch = message->epoch,
		.worker = worker->config.rank,
		.attempt = message->lease_attempt,
		.dtype = message->dtype,
		.exponent = (int16_t)message->exponent,
		.member = message->member,
		.members = (uint8_t)(message->workers < UINT8_MAX ? message->workers : UINT8_MAX),
		.slots = message->slots,
		.first = message->first,
		.count = message->count,
		.in = r->args.in,
		.out = r->args.out,
		.values = r->args.values,
		.average = r->args.op == HD_REDUCE_OP_AVERAGE,
	};
	struct hd_group_shard given;
	struct worker_shard *shard;

	if (count != 1 || !worker_reduce_may_use_slots(&r->args) || message->count == 0)
		return -EINVAL;
	given = hd_group_get_shard(&message->shards, 0);
	if (given.bytes != r->pub.bytes
	    || message->count > worker->config.chunk_bytes / sizeof(float))
		return -EINVAL;
	hd_assert(!r->shards && r->shard_count == 0);
	shard = r->shards = calloc(1, sizeof *r->shards);
	if (!shard)
		return -ENOMEM;
	r->shard_count = 1;
	shard->kind = WORKER_SHARD_BY_SLOTS;
	shard->out_token = config.token = given.out_token;
	shard->in_token = config.result_token = given.in_token;
	shard->turn = message->turn;
	config.peer = (struct hd_addr){given.ipv4, given.port};
	config.rate_bps = link_rate(message->rate_bps, message->count);
	shard->path = worker_path_plain(worker, ctx, config.peer);
	if (!shard->path)
		return -ENOBUFS;
	config.path = &shard->path->cc;
	return hd_slots_create(&config, ctx->now, &shard->slots);
}

/* --- sums ----------------------------------------------------------------------------------- */

static struct worker_reduce *
find_turn(const struct hd_worker *worker, const struct hd_chunk_header *header) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		if (worker_reduce_by_slots(r) && r->shards[0].in_token == header->token
		    && r->shards[0].turn == header->round)
			return r;
	return NULL;
}

bool worker_slots_result(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
) {
	struct worker_reduce *r = find_turn(worker, header);
	const struct hd_slots_stats *stats;
	enum hd_slots_result result;
	uint32_t members;

	if (!r)
		return false;
	result = hd_slots_take(r->shards[0].slots, ctx->now, header, payload, payload_bytes);
	stats = hd_slots_stats(r->shards[0].slots);
	worker->stats.drop_mismatch += result == HD_SLOTS_MISMATCH;
	if (r->ended || result == HD_SLOTS_MISMATCH || result == HD_SLOTS_DUPLICATE)
		return true;
	if (stats->state == HD_SLOTS_FAILED) {
		if (stats->reason == HD_REASON_NOT_FINITE)
			r->avoid = HD_GROUP_AVOID_VALUES;
		else if (stats->reason == HD_REASON_TIMEOUT && r->avoid == HD_GROUP_AVOID_NOT)
			r->avoid = HD_GROUP_AVOID_STILL;
		worker_reduce_again(worker, ctx, r);
	} else if (stats->state == HD_SLOTS_DONE) {
		members = (uint32_t)__builtin_popcountll(stats->members);
		/* The switch added without a member that was lost, at all others too. */
		if (r->args.exact > 0 && members != r->args.exact) {
			worker_reduce_again(worker, ctx, r);
			return true;
		}
		r->pub.delay = members;
		worker->stats.in_slots++;
		worker_reduce_applied(worker, ctx, r);
	}
	return true;
}
