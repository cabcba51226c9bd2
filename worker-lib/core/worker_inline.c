/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short collectives: the values go with the request, and the result comes with REDUCE. The controller says in each
 * REDUCE which rounds are short; it may still send shards, as the values stay here until the round has ended.
 */
#include "hd_kernels.h"
#include "worker_blocks.h"
#include "worker_inline.h"

#include <errno.h>
#include <string.h>

static bool is_gathered(const struct worker_reduce *r) {
	return r->args.collective == HD_COLLECTIVE_ALLGATHER
		|| r->args.collective == HD_COLLECTIVE_GATHER;
}

/* The members are known when the round begins; here they are those of the last one. */
static uint64_t longest_bytes(const struct hd_worker *worker, const struct worker_reduce *r) {
	const uint64_t members = worker->reduce_members > 0 ? worker->reduce_members : 1;

	if (!is_gathered(r) || r->pub.bytes > worker->inline_bytes)
		return r->pub.bytes;
	return r->pub.bytes * members;
}

struct hd_blob worker_inline_given(const struct hd_worker *worker, const struct worker_reduce *r) {
	const bool by_root = r->args.collective == HD_COLLECTIVE_BROADCAST
		|| r->args.collective == HD_COLLECTIVE_SCATTER;
	const uint64_t longest = longest_bytes(worker, r);

	if (!r->args.in || r->args.channel != 0 || r->pub.bytes == 0
	    || longest > worker->inline_bytes || longest > HD_INLINE_BYTES_MAX
	    || (by_root && worker->config.rank != r->args.root))
		return (struct hd_blob){0};
	return (struct hd_blob
	){r->half ? (const void *)r->half : r->args.in, (uint32_t)r->pub.bytes};
}

int worker_inline_begin(
	struct hd_worker *worker,
	struct worker_reduce *r,
	const struct hd_msg_reduce *message
) {
	const uint64_t values = r->takes.end - r->takes.first;

	worker_reduce_drop_shards(worker, r);
	if (message->shards.bytes > 0 || message->slots > 0
	    || message->values.bytes != values * hd_dtype_bytes(r->args.dtype)
	    || (values > 0 && !r->args.out) || (r->half && values > r->args.values))
		return -EINVAL;
	return 0;
}

void worker_inline_deliver(
	const struct hd_worker *worker,
	const struct worker_reduce *r,
	const struct hd_blob *values
) {
	const uint64_t count = r->takes.end - r->takes.first;

	if (r->half) {
		memcpy(r->half + r->args.values, values->data, values->bytes);
		hd_half_to_f32(r->args.dtype, r->args.out, r->half + r->args.values, count);
	} else {
		memcpy(r->args.out, values->data, values->bytes);
	}
	worker_blocks_copy(worker, r);
}
