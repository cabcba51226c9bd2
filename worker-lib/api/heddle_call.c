/* SPDX-License-Identifier: BSD-3-Clause */
/* The beginning of a collective, of one buffer or of a list: its arguments are checked, and it is started, or made. */
#include "hd_message_codes.h"
#include "heddle_call.h"
#include "heddle_parts.h"

#include <errno.h>

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

/* Of a call whose values are set: how many its result can have. */
static int check_values(
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

/* Sets which values this worker gives and receives, of a call whose collective, root and parts are set. */
static int check_list(
	struct heddle *fabric,
	struct heddle_call *call,
	const struct heddle_collective_options *options
) {
	static char nothing; /* neither read nor written: the parts are */
	const bool is_root = fabric && fabric->rank == call->root;
	const bool gives = call->collective != HD_COLLECTIVE_BROADCAST || is_root;
	const bool receives = call->collective == HD_COLLECTIVE_ALLREDUCE
		|| is_root == (call->collective == HD_COLLECTIVE_REDUCE);
	int rc = heddle_parts_total(call->parts, call->part_count, &call->count);

	if (rc < 0)
		return rc;
	call->in = gives ? &nothing : NULL;
	call->in_count = gives ? call->count : 0;
	call->out = receives ? &nothing : NULL;
	call->out_count = receives ? call->count : 0;
	rc = check_values(fabric, call, options);
	if (rc == 0 && options)
		rc = heddle_check_host(options->memory, options->stream);
	if (rc < 0 || call->count == 0)
		return rc;
	return heddle_parts_check_apart(
		call->parts,
		call->part_count,
		heddle_type_bytes(options ? options->type : HEDDLE_TYPE_FP32)
	);
}

static int
check(struct heddle *fabric,
      struct heddle_call *call,
      const struct heddle_collective_options *options) {
	return call->is_list ? check_list(fabric, call, options) :
			       check_values(fabric, call, options);
}

int heddle_call_start(
	struct heddle *fabric,
	struct heddle_call *call,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	int rc;

	if (call->wrong)
		return heddle_fail(-EINVAL, "%s", call->wrong);
	if (!ticket)
		return heddle_fail(-EINVAL, "ticket: NULL");
	rc = check(fabric, call, options);
	return rc < 0 ? rc : heddle_reduce_start_call(fabric, call, options, ticket);
}

int heddle_call_make(
	struct heddle *fabric,
	struct heddle_call *call,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	int rc;

	if (call->wrong)
		return heddle_fail(-EINVAL, "%s", call->wrong);
	rc = check(fabric, call, options);
	return rc < 0 ? rc : heddle_reduce_make_call(fabric, call, options, timeout_ms, status);
}
