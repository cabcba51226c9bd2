/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives besides the all-reduce, as the caller sees them: what each gives and receives. */
#include "hd_group.h"
#include "heddle_call.h"
#include "heddle_private.h"

#include <errno.h>

/* The data that this worker gives and receives, of a call with a root, which is given or received at the root only. */
static bool is_root(const struct heddle *fabric, int root) {
	return fabric && fabric->rank == root;
}

/* --- barrier -------------------------------------------------------------------------------- */

int heddle_barrier_start(
	struct heddle *fabric,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = {.collective = HD_COLLECTIVE_BARRIER};

	return heddle_call_start(fabric, &call, options, ticket);
}

int heddle_barrier(
	struct heddle *fabric,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = {.collective = HD_COLLECTIVE_BARRIER};

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
}

/* --- broadcast ------------------------------------------------------------------------------ */

static struct heddle_call
broadcast_call(const struct heddle *fabric, void *data, uint64_t count, int root) {
	const bool gives = is_root(fabric, root);

	return (struct heddle_call){
		.wrong = data ? NULL : "data: NULL",
		.collective = HD_COLLECTIVE_BROADCAST,
		.root = root,
		.in = gives ? data : NULL,
		.out = gives ? NULL : data,
		.count = count,
		.in_count = gives ? count : 0,
		.out_count = gives ? 0 : count,
	};
}

int heddle_broadcast_start(
	struct heddle *fabric,
	void *data,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = broadcast_call(fabric, data, count, root);

	return heddle_call_start(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments of the function above, and how long it waits */
int heddle_broadcast(
	struct heddle *fabric,
	void *data,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = broadcast_call(fabric, data, count, root);

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
}

/* --- for the root: reduce and gather -------------------------------------------------------- */

static struct heddle_call
to_root(uint8_t collective,
	const struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root) {
	const bool receives = is_root(fabric, root);

	return (struct heddle_call){
		.wrong = !in             ? "in: NULL" :
			receives && !out ? "out: NULL at the root" :
					   NULL,
		.collective = collective,
		.root = root,
		.in = in,
		.out = receives ? out : NULL,
		.count = count,
		.in_count = count,
		.out_count = receives ? count : 0,
	};
}

/* NOLINTNEXTLINE(readability-function-size): as in MPI */
int heddle_reduce_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = to_root(HD_COLLECTIVE_REDUCE, fabric, in, out, count, root);

	return heddle_call_start(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the same */
int heddle_reduce(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = to_root(HD_COLLECTIVE_REDUCE, fabric, in, out, count, root);

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
}

/* NOLINTNEXTLINE(readability-function-size): the same */
int heddle_gather_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = to_root(HD_COLLECTIVE_GATHER, fabric, in, out, count, root);

	return heddle_call_start(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the same */
int heddle_gather(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = to_root(HD_COLLECTIVE_GATHER, fabric, in, out, count, root);

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
}

/* --- for all: all-gather, reduce-scatter and all-to-all ------------------------------------- */

static struct heddle_call to_all(uint8_t collective, const void *in, void *out, uint64_t count) {
	return (struct heddle_call){
		.wrong = in && out ? NULL : "in or out: NULL",
		.collective = collective,
		.in = in,
		.out = out,
		.count = count,
		.in_count = count,
		.out_count = count,
	};
}

int heddle_allgather_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = to_all(HD_COLLECTIVE_ALLGATHER, in, out, count);

	return heddle_call_start(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments of the function above, and how long it waits */
int heddle_allgather(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = to_all(HD_COLLECTIVE_ALLGATHER, in, out, count);

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
}

int heddle_reduce_scatter_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = to_all(HD_COLLECTIVE_REDUCE_SCATTER, in, out, count);

	return heddle_call_start(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments of the function above, and how long it waits */
int heddle_reduce_scatter(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = to_all(HD_COLLECTIVE_REDUCE_SCATTER, in, out, count);

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
}

int heddle_alltoall_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = to_all(HD_COLLECTIVE_ALLTOALL, in, out, count);

	return heddle_call_start(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments of the function above, and how long it waits */
int heddle_alltoall(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = to_all(HD_COLLECTIVE_ALLTOALL, in, out, count);

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
}

/* --- from the root: scatter ----------------------------------------------------------------- */

static struct heddle_call
scatter_call(const struct heddle *fabric, const void *in, void *out, uint64_t count, int root) {
	const bool gives = is_root(fabric, root);

	return (struct heddle_call){
		.wrong = !out        ? "out: NULL" :
			gives && !in ? "in: NULL at the root" :
				       NULL,
		.collective = HD_COLLECTIVE_SCATTER,
		.root = root,
		.in = gives ? in : NULL,
		.out = out,
		.count = count,
		.in_count = gives ? count : 0,
		.out_count = count,
	};
}

/* NOLINTNEXTLINE(readability-function-size): as in MPI */
int heddle_scatter_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = scatter_call(fabric, in, out, count, root);

	return heddle_call_start(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the same */
int heddle_scatter(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = scatter_call(fabric, in, out, count, root);

	return heddle_call_make(fabric, &call, options, timeout_ms, status);
}

/* --- blocks --------------------------------------------------------------------------------- */

int heddle_block(
	uint64_t count,
	unsigned index,
	unsigned workers,
	uint64_t *first,
	uint64_t *length
) {
	if (!first || !length)
		return heddle_fail(-EINVAL, "first or length: NULL");
	if (count > HD_MODEL_BYTES_MAX)
		return heddle_fail(-EINVAL, "count: more than HD_MODEL_BYTES_MAX");
	if (workers > HEDDLE_WORKERS_MAX || index >= workers)
		return heddle_fail(-EINVAL, "index: %u is not below %u workers", index, workers);
	*first = hd_block_first(count, index, workers);
	*length = hd_block_first(count, index + 1, workers) - *first;
	return 0;
}
