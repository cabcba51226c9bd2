/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives besides the all-reduce, as the caller sees them: what each gives and receives. */
#include "hd_group.h"
#include "heddle_call.h"
#include "heddle_private.h"

#include <errno.h>

/* --- arguments ------------------------------------------------------------------------------ */

static bool is_sum(uint8_t collective) {
	return collective == HD_COLLECTIVE_ALLREDUCE || collective == HD_COLLECTIVE_REDUCE
		|| collective == HD_COLLECTIVE_REDUCE_SCATTER;
}

static size_t value_bytes(const struct heddle_collective_options *options) {
	return options ? heddle_type_bytes(options->type) : sizeof(float);
}

/* Room for blocks of what `exact` says, or of what the caller says. */
static int set_room(struct heddle_call *call, const struct heddle_collective_options *options) {
	const uint64_t exact = options ? options->exact : 0,
		       said = options ? options->out_count : 0;
	const size_t value = value_bytes(options);
	const bool gathers = call->collective == HD_COLLECTIVE_ALLGATHER
		|| call->collective == HD_COLLECTIVE_GATHER;
	const bool all_to_all = call->collective == HD_COLLECTIVE_ALLTOALL;

	if (!gathers && call->collective != HD_COLLECTIVE_REDUCE_SCATTER
	    && call->collective != HD_COLLECTIVE_SCATTER && !all_to_all)
		return 0;
	call->out_count = 0;
	if (!call->out)
		return 0;
	if (said > HD_MODEL_BYTES_MAX / value)
		return heddle_fail(-EINVAL, "out_count: more than HD_MODEL_BYTES_MAX / %zu", value);
	if (said == 0 && exact == 0)
		return heddle_fail(-EINVAL, "out_count: 0, and exact does not say how many");
	call->out_count = said > 0 ? said :
		gathers            ? call->count * exact :
				     (call->count + exact - 1) / exact * (all_to_all ? exact : 1);
	return 0;
}

int heddle_check_call(
	struct heddle *fabric,
	struct heddle_call *call,
	const struct heddle_collective_options *options
) {
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	if (call->root < 0 || call->root >= HEDDLE_WORKERS_MAX)
		return heddle_fail(
			-EINVAL,
			"root: %d is not within 0 to %d",
			call->root,
			HEDDLE_WORKERS_MAX - 1
		);
	if (options && options->size < sizeof *options)
		return heddle_fail(-EINVAL, "collective options: size");
	if (options && heddle_type_bytes(options->type) == 0)
		return heddle_fail(-EINVAL, "type: %d is unknown", (int)options->type);
	if (call->count > HD_MODEL_BYTES_MAX / value_bytes(options))
		return heddle_fail(
			-EINVAL, "count: more than HD_MODEL_BYTES_MAX / %zu", value_bytes(options)
		);
	if (!options)
		return set_room(call, NULL);
	if (call->collective == HD_COLLECTIVE_BARRIER && options->memory == HEDDLE_MEMORY_CUDA)
		return heddle_check_host(options->memory, options->stream);
	if (!is_sum(call->collective)
	    && (options->payload != HEDDLE_PAYLOAD_FP32
		|| options->reduce_op != HEDDLE_REDUCE_OP_SUM || options->ranked))
		return heddle_fail(
			-EINVAL,
			"payload, reduce_op or ranked: values that are not added stay as they are"
		);
	return set_room(call, options);
}

static int
begin(struct heddle *fabric,
      struct heddle_call *call,
      const struct heddle_collective_options *options,
      struct heddle_ticket **ticket) {
	int rc;

	if (!ticket)
		return heddle_fail(-EINVAL, "ticket: NULL");
	rc = heddle_check_call(fabric, call, options);
	return rc < 0 ? rc : heddle_reduce_start_call(fabric, call, options, ticket);
}

static int
make(struct heddle *fabric,
     struct heddle_call *call,
     const struct heddle_collective_options *options,
     int timeout_ms,
     struct heddle_status *status) {
	int rc = heddle_check_call(fabric, call, options);

	return rc < 0 ? rc : heddle_reduce_make_call(fabric, call, options, timeout_ms, status);
}

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

	return begin(fabric, &call, options, ticket);
}

int heddle_barrier(
	struct heddle *fabric,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call = {.collective = HD_COLLECTIVE_BARRIER};

	return make(fabric, &call, options, timeout_ms, status);
}

/* --- broadcast ------------------------------------------------------------------------------ */

static int broadcast_call(
	struct heddle_call *call,
	const struct heddle *fabric,
	void *data,
	uint64_t count,
	int root
) {
	const bool gives = is_root(fabric, root);

	*call = (struct heddle_call){
		.collective = HD_COLLECTIVE_BROADCAST,
		.root = root,
		.in = gives ? data : NULL,
		.out = gives ? NULL : data,
		.count = count,
		.in_count = gives ? count : 0,
		.out_count = gives ? 0 : count,
	};
	return data ? 0 : heddle_fail(-EINVAL, "data: NULL");
}

int heddle_broadcast_start(
	struct heddle *fabric,
	void *data,
	uint64_t count,
	int root,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call;
	int rc = broadcast_call(&call, fabric, data, count, root);

	return rc < 0 ? rc : begin(fabric, &call, options, ticket);
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
	struct heddle_call call;
	int rc = broadcast_call(&call, fabric, data, count, root);

	return rc < 0 ? rc : make(fabric, &call, options, timeout_ms, status);
}

/* --- for the root: reduce and gather -------------------------------------------------------- */

static int
to_root(struct heddle_call *call,
	const struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count) {
	const bool receives = is_root(fabric, call->root);

	call->in = in;
	call->out = receives ? out : NULL;
	call->count = call->in_count = count;
	call->out_count = receives ? count : 0;
	if (!in)
		return heddle_fail(-EINVAL, "in: NULL");
	return receives && !out ? heddle_fail(-EINVAL, "out: NULL at the root") : 0;
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
	struct heddle_call call = {.collective = HD_COLLECTIVE_REDUCE, .root = root};
	int rc = to_root(&call, fabric, in, out, count);

	return rc < 0 ? rc : begin(fabric, &call, options, ticket);
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
	struct heddle_call call = {.collective = HD_COLLECTIVE_REDUCE, .root = root};
	int rc = to_root(&call, fabric, in, out, count);

	return rc < 0 ? rc : make(fabric, &call, options, timeout_ms, status);
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
	struct heddle_call call = {.collective = HD_COLLECTIVE_GATHER, .root = root};
	int rc = to_root(&call, fabric, in, out, count);

	return rc < 0 ? rc : begin(fabric, &call, options, ticket);
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
	struct heddle_call call = {.collective = HD_COLLECTIVE_GATHER, .root = root};
	int rc = to_root(&call, fabric, in, out, count);

	return rc < 0 ? rc : make(fabric, &call, options, timeout_ms, status);
}

/* --- for all: all-gather, reduce-scatter and all-to-all ------------------------------------- */

static int to_all(struct heddle_call *call, const void *in, void *out, uint64_t count) {
	call->in = in;
	call->out = out;
	call->count = call->in_count = call->out_count = count;
	return in && out ? 0 : heddle_fail(-EINVAL, "in or out: NULL");
}

int heddle_allgather_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = {.collective = HD_COLLECTIVE_ALLGATHER};
	int rc = to_all(&call, in, out, count);

	return rc < 0 ? rc : begin(fabric, &call, options, ticket);
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
	struct heddle_call call = {.collective = HD_COLLECTIVE_ALLGATHER};
	int rc = to_all(&call, in, out, count);

	return rc < 0 ? rc : make(fabric, &call, options, timeout_ms, status);
}

int heddle_reduce_scatter_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = {.collective = HD_COLLECTIVE_REDUCE_SCATTER};
	int rc = to_all(&call, in, out, count);

	return rc < 0 ? rc : begin(fabric, &call, options, ticket);
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
	struct heddle_call call = {.collective = HD_COLLECTIVE_REDUCE_SCATTER};
	int rc = to_all(&call, in, out, count);

	return rc < 0 ? rc : make(fabric, &call, options, timeout_ms, status);
}

int heddle_alltoall_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call = {.collective = HD_COLLECTIVE_ALLTOALL};
	int rc = to_all(&call, in, out, count);

	return rc < 0 ? rc : begin(fabric, &call, options, ticket);
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
	struct heddle_call call = {.collective = HD_COLLECTIVE_ALLTOALL};
	int rc = to_all(&call, in, out, count);

	return rc < 0 ? rc : make(fabric, &call, options, timeout_ms, status);
}

/* --- from the root: scatter ----------------------------------------------------------------- */

static int from_root(
	struct heddle_call *call,
	const struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count
) {
	const bool gives = is_root(fabric, call->root);

	call->in = gives ? in : NULL;
	call->out = out;
	call->count = call->out_count = count;
	call->in_count = gives ? count : 0;
	if (!out)
		return heddle_fail(-EINVAL, "out: NULL");
	return gives && !in ? heddle_fail(-EINVAL, "in: NULL at the root") : 0;
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
	struct heddle_call call = {.collective = HD_COLLECTIVE_SCATTER, .root = root};
	int rc = from_root(&call, fabric, in, out, count);

	return rc < 0 ? rc : begin(fabric, &call, options, ticket);
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
	struct heddle_call call = {.collective = HD_COLLECTIVE_SCATTER, .root = root};
	int rc = from_root(&call, fabric, in, out, count);

	return rc < 0 ? rc : make(fabric, &call, options, timeout_ms, status);
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
