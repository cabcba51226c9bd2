/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective through memory that all members share: there are no shards. The driver moves the values
 * (hd_shared.h), and reports the end.
 *
 *     REDUCE(shared) --begin--> driver --done: 0--------------------------> APPLIED, and REPORT
 *     VOID, or no progress --stop--> void: asks again; complete already: the end follows
 */
#include "hd_assert.h"
#include "hd_kernels.h"
#include "worker_blocks.h"
#include "worker_shared.h"

#include <errno.h>

/* The index of a rank among the members; 0 for none. */
static uint32_t index_of(const struct hd_roster *members, uint16_t rank) {
	uint32_t index = 0;

	for (uint16_t i = 0; i < rank; i++)
		index += hd_roster_has(members, i);
	return hd_roster_has(members, rank) ? index : 0;
}

static uint64_t values_of(const struct worker_range *range) {
	return range->end - range->first;
}

static bool lacks_root(const struct worker_reduce *r) {
	switch (r->args.collective) {
	case HD_COLLECTIVE_BROADCAST:
	case HD_COLLECTIVE_REDUCE:
	case HD_COLLECTIVE_GATHER:
	case HD_COLLECTIVE_SCATTER:
		return !hd_roster_has(&r->members, r->args.root);
	default:
		return false;
	}
}

int worker_shared_open(
	struct hd_worker *worker,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
) {
	const struct hd_shared_call call = {
		.token = message->shared,
		.turn = message->turn,
		.collective = r->args.collective,
		.dtype = r->args.dtype,
		.op = r->args.op,
		.index = r->index,
		.members = r->members.count,
		.root = index_of(&r->members, r->args.root),
		.in = r->half ? (const void *)r->half : r->args.in,
		.out = r->half ? (void *)(r->half + r->args.values) : r->args.out,
		.values = r->args.values,
	};

	if (!r->pub.members || message->shards.bytes > 0 || lacks_root(r) || r->args.channel != 0
	    || r->args.state == HD_REQUEST_HAS || r->members.count > HD_SHARED_MEMBERS_MAX
	    || (worker_blocks_to_send(worker, r) > 0 && !call.in)
	    || (worker_blocks_due(worker, r) > 0 && !r->args.out))
		return -EINVAL;
	worker_reduce_drop_shards(worker, r);
	if (!worker->config.shared_ops
	    || worker->config.shared_ops->begin(worker->config.shared_owner, &call) < 0) {
		worker->unshared = true;
		return -EAGAIN;
	}
	r->shared = message->shared;
	r->turn = message->turn;
	r->due = 1; /* the result */
	return 0;
}

static struct worker_reduce *
find(const struct hd_worker *worker, const struct hd_shared_call *call) {
	struct worker_reduce *r;

	TAILQ_FOREACH (r, &worker->reduces, link)
		if (!r->ended && r->shared == call->token && r->turn == call->turn)
			return r;
	return NULL;
}

void hd_worker_shared_done(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_shared_call *call,
	int rc,
	struct hd_sink *sink
) {
	const struct worker_context ctx = {now, sink};
	struct worker_reduce *r = find(worker, call);

	hd_assert(call->token != 0);
	if (!r)
		return;
	r->shared = 0; /* the driver has ended it */
	if (rc == 0) {
		if (r->half && r->args.out)
			hd_half_to_f32(
				r->args.dtype,
				r->args.out,
				r->half + r->args.values,
				values_of(&r->takes)
			);
		worker_blocks_copy(worker, r);
		worker->stats.in_memory++;
		worker_reduce_applied(worker, &ctx, r);
		return;
	}
	if (rc != -ECANCELED)
		worker->unshared = true;
	worker_reduce_again(worker, &ctx, r);
}

void worker_shared_stalls(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_reduce *r
) {
	const uint64_t steps = worker->config.shared_ops->progress(worker->config.shared_owner);

	if (steps != r->progress_bytes) {
		r->progress_bytes = steps;
		r->progress_at = ctx->now;
	} else if (ctx->now >= hd_ns_add(r->progress_at, HD_STALL_US * HD_US)) {
		r->by_network = true;
		worker_reduce_again(worker, ctx, r);
	}
}
