/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives, as the caller sees them. */
#include "hd_limits.h"
#include "hd_message_codes.h"
#include "heddle_call.h"
#include "heddle_private.h"

#include <assert.h>
#include <errno.h>

static_assert(HEDDLE_PAIRS_MAX == HD_PAIRS_MAX, "the limit is the core's");

/* The options that heddle_reduce_start_call() does not check. */
static int check_options(const struct heddle_collective_options *options) {
	if (!options)
		return 0;
	if (options->size < sizeof *options)
		return heddle_fail(-EINVAL, "collective options: size");
	if (options->payload != HEDDLE_PAYLOAD_FP32 || options->reduce_op != HEDDLE_REDUCE_OP_SUM
	    || options->ranked)
		return heddle_fail(
			-EINVAL,
			"payload, reduce_op or ranked: values that are sent stay as they are"
		);
	if (options->exact != 0)
		return heddle_fail(-EINVAL, "exact: a send and its receive have two workers");
	if (options->out_count != 0)
		return heddle_fail(-EINVAL, "out_count: count says it");
	return 0;
}

static int
check(const struct heddle *fabric,
      const void *data,
      int peer,
      const char *name,
      const struct heddle_collective_options *options) {
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	if (!data)
		return heddle_fail(-EINVAL, "data: NULL");
	if (peer < 0 || peer >= HEDDLE_WORKERS_MAX)
		return heddle_fail(
			-EINVAL, "%s: %d is not within 0 to %d", name, peer, HEDDLE_WORKERS_MAX - 1
		);
	if (peer == fabric->rank)
		return heddle_fail(-EINVAL, "%s: %d is the worker's own rank", name, peer);
	return check_options(options);
}

static int send_call(
	struct heddle_call *call,
	const struct heddle *fabric,
	const void *data,
	uint64_t count,
	int to,
	const struct heddle_collective_options *options
) {
	int rc = check(fabric, data, to, "to", options);

	if (rc < 0)
		return rc;
	*call = (struct heddle_call){
		.collective = HD_COLLECTIVE_SEND,
		.root = fabric->rank,
		.channel = hd_channel((uint16_t)fabric->rank, (uint16_t)to),
		.in = data,
		.count = count,
		.in_count = count,
	};
	return 0;
}

static int recv_call(
	struct heddle_call *call,
	const struct heddle *fabric,
	void *data,
	uint64_t count,
	int from,
	const struct heddle_collective_options *options
) {
	int rc = check(fabric, data, from, "from", options);

	if (rc < 0)
		return rc;
	*call = (struct heddle_call){
		.collective = HD_COLLECTIVE_SEND,
		.root = from,
		.channel = hd_channel((uint16_t)from, (uint16_t)fabric->rank),
		.out = data,
		.count = count,
		.out_count = count,
	};
	return 0;
}

int heddle_send_start(
	struct heddle *fabric,
	const void *data,
	uint64_t count,
	int to,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call;
	int rc = ticket ? send_call(&call, fabric, data, count, to, options) :
			  heddle_fail(-EINVAL, "ticket: NULL");

	return rc < 0 ? rc : heddle_reduce_start_call(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments of the function above, and how long it waits */
int heddle_send(
	struct heddle *fabric,
	const void *data,
	uint64_t count,
	int to,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call;
	int rc = send_call(&call, fabric, data, count, to, options);

	return rc < 0 ? rc : heddle_reduce_make_call(fabric, &call, options, timeout_ms, status);
}

int heddle_recv_start(
	struct heddle *fabric,
	void *data,
	uint64_t count,
	int from,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	struct heddle_call call;
	int rc = ticket ? recv_call(&call, fabric, data, count, from, options) :
			  heddle_fail(-EINVAL, "ticket: NULL");

	return rc < 0 ? rc : heddle_reduce_start_call(fabric, &call, options, ticket);
}

/* NOLINTNEXTLINE(readability-function-size): the same */
int heddle_recv(
	struct heddle *fabric,
	void *data,
	uint64_t count,
	int from,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_call call;
	int rc = recv_call(&call, fabric, data, count, from, options);

	return rc < 0 ? rc : heddle_reduce_make_call(fabric, &call, options, timeout_ms, status);
}
