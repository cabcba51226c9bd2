/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces, as the caller sees them. */
#include "hd_group.h"
#include "hd_text.h"
#include "heddle_call.h"
#include "heddle_parts.h"
#include "heddle_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int heddle_reduce_begin(struct heddle *fabric, const struct heddle_turn *turn) {
	struct heddle_ticket *ticket = turn->ticket;
	struct hd_reduce_args args = {
		.collective = ticket->collective,
		.root = ticket->root,
		.channel = ticket->channel,
		.room = ticket->room,
		.in = ticket->data,
		.out = ticket->into,
		.values = ticket->values,
		.type = ticket->type,
		.dtype = ticket->dtype,
		.op = ticket->op,
		.order = ticket->order,
		.exact = ticket->exact,
		.state = ticket->state,
		.least = ticket->least,
		.wait_ms = ticket->wait_ms,
		.user = ticket,
	};

	memcpy(args.tag, ticket->tag, sizeof ticket->tag);
	return hd_worker_reduce(fabric->worker, turn->now, &args, turn->sink, &ticket->round);
}

static_assert(
	(int)HD_REDUCE_OP_AVERAGE == (int)HEDDLE_REDUCE_OP_AVERAGE
		&& (int)HD_REDUCE_OP_MIN == (int)HEDDLE_REDUCE_OP_MIN
		&& (int)HD_REDUCE_OP_MAX == (int)HEDDLE_REDUCE_OP_MAX
		&& (int)HD_REDUCE_OP_PRODUCT == (int)HEDDLE_REDUCE_OP_PRODUCT,
	"operations are the wire's"
);

static_assert(HEDDLE_WAIT_FOREVER == HD_REDUCE_WAIT_FOREVER, "the wire's");

/* The wire's number of a type; HD_DTYPE_COUNT: there is no such type. */
static uint8_t wire_type(enum heddle_type type) {
	static const uint8_t types[] = {
		[HEDDLE_TYPE_FP32] = HD_DTYPE_FP32,
		[HEDDLE_TYPE_FP16] = HD_DTYPE_FP16,
		[HEDDLE_TYPE_BF16] = HD_DTYPE_BF16,
		[HEDDLE_TYPE_FP64] = HD_DTYPE_FP64,
		[HEDDLE_TYPE_INT8] = HD_DTYPE_INT8,
		[HEDDLE_TYPE_UINT8] = HD_DTYPE_UINT8,
		[HEDDLE_TYPE_INT32] = HD_DTYPE_INT32,
		[HEDDLE_TYPE_INT64] = HD_DTYPE_INT64,
	};

	return (unsigned)type < sizeof types ? types[(unsigned)type] : (uint8_t)HD_DTYPE_COUNT;
}

size_t heddle_type_bytes(enum heddle_type type) {
	return hd_dtype_bytes(wire_type(type));
}

static int check_type(const struct heddle_collective_options *given) {
	const int rc = heddle_check_payload(given->payload);

	if (rc < 0)
		return rc;
	if (wire_type(given->type) == HD_DTYPE_COUNT)
		return heddle_fail(-EINVAL, "type: %d is unknown", (int)given->type);
	if (given->type == HEDDLE_TYPE_FP32)
		return 0;
	if (given->payload != HEDDLE_PAYLOAD_FP32)
		return heddle_fail(
			-EINVAL, "payload: values that are not fp32 travel in their own type"
		);
	return 0;
}

static int check_options(
	const struct heddle_collective_options *options,
	struct heddle_collective_options *given
) {
	static const struct heddle_collective_options plain = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	int rc;

	if (options && options->size < sizeof plain)
		return heddle_fail(-EINVAL, "allreduce options: size");
	*given = options ? *options : plain;
	if ((unsigned)given->reduce_op >= HD_REDUCE_OP_COUNT)
		return heddle_fail(-EINVAL, "reduce_op: %d is unknown", (int)given->reduce_op);
	if (given->exact > HEDDLE_WORKERS_MAX)
		return heddle_fail(
			-EINVAL,
			"exact: %u, more than %d (HEDDLE_WORKERS_MAX)",
			given->exact,
			HEDDLE_WORKERS_MAX
		);
	if (given->least > HEDDLE_WORKERS_MAX)
		return heddle_fail(
			-EINVAL,
			"least: %u, more than %d (HEDDLE_WORKERS_MAX)",
			given->least,
			HEDDLE_WORKERS_MAX
		);
	if (given->least > 0 && given->exact > 0)
		return heddle_fail(-EINVAL, "least: %u, and exact: %u", given->least, given->exact);
	if (given->tag && strnlen(given->tag, HEDDLE_TAG_BYTES_MAX + 1) > HEDDLE_TAG_BYTES_MAX)
		return heddle_fail(
			-EINVAL, "tag: longer than %d (HEDDLE_TAG_BYTES_MAX)", HEDDLE_TAG_BYTES_MAX
		);
	if (given->tag && !hd_text_valid(given->tag, strlen(given->tag)))
		return heddle_fail(-EINVAL, "tag: not UTF-8, or with control characters");
	rc = heddle_check_memory(given->memory, given->stream);
	return rc < 0 ? rc : check_type(given);
}

static const char *const names[HD_COLLECTIVE_COUNT] = {
	[HD_COLLECTIVE_ALLREDUCE] = "all-reduce",
	[HD_COLLECTIVE_BARRIER] = "barrier",
	[HD_COLLECTIVE_BROADCAST] = "broadcast",
	[HD_COLLECTIVE_REDUCE] = "reduce",
	[HD_COLLECTIVE_ALLGATHER] = "all-gather",
	[HD_COLLECTIVE_REDUCE_SCATTER] = "reduce-scatter",
	[HD_COLLECTIVE_GATHER] = "gather",
	[HD_COLLECTIVE_SCATTER] = "scatter",
	[HD_COLLECTIVE_ALLTOALL] = "all-to-all",
	[HD_COLLECTIVE_SEND] = "send",
};

static const char *name_of(const struct heddle_call *call) {
	return call->channel != 0 && call->out ? "receive" : names[call->collective];
}

static bool overlap(const struct heddle_call *call, size_t value) {
	const char *in = call->in, *out = call->out;

	return in && out && in < out + call->out_count * value && out < in + call->in_count * value;
}

/* The result goes to memory of the library's: behind the copy. */
static int
take(struct heddle *fabric,
     struct heddle_ticket *ticket,
     const struct heddle_call *call,
     bool borrow) {
	const uint64_t in = call->in ? call->in_count : 0, out = call->out ? call->out_count : 0;
	const size_t value = hd_dtype_bytes(ticket->type);
	const uint64_t copied = call->apart || !borrow || overlap(call, value) ? in : 0;
	const uint64_t values = copied + (call->apart ? out : 0);

	if (values > 0 && heddle_ticket_copy(fabric, ticket, values * value) < 0)
		return heddle_fail(-ENOMEM, "no memory");
	ticket->data = copied > 0 ? memcpy(ticket->copy, call->in, copied * value) : call->in;
	ticket->keeps = call->apart && values > 0;
	ticket->into = !call->apart || out == 0 ? call->out : (char *)ticket->copy + copied * value;
	return 0;
}

static void set_call(
	struct heddle_ticket *ticket,
	const struct heddle_call *call,
	const struct heddle_collective_options *given
) {
	ticket->reduce = true;
	ticket->collective = call->collective;
	ticket->root = (uint16_t)call->root;
	ticket->channel = call->channel;
	ticket->room = call->out_count;
	ticket->op = (uint8_t)given->reduce_op;
	ticket->order = given->ranked ? HD_GROUP_RANKED : HD_GROUP_ARRIVAL;
	ticket->type = wire_type(given->type);
	ticket->dtype = given->type == HEDDLE_TYPE_FP32 ? (uint8_t)given->payload : ticket->type;
	ticket->exact = (uint16_t)given->exact;
	ticket->state = call->state;
	ticket->least = (uint16_t)given->least;
	ticket->wait_ms = given->wait_ms;
	ticket->ranks = given->ranks;
	ticket->rank_capacity = given->rank_capacity;
	if (given->tag)
		memcpy(ticket->tag, given->tag, strlen(given->tag));
	ticket->values = call->count;
	ticket->status.bytes = call->count * hd_dtype_bytes(ticket->dtype);
}

int heddle_reduce_start_call(
	struct heddle *fabric,
	const struct heddle_call *call,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket_out
) {
	const uint64_t count = call->count;
	struct heddle_collective_options given;
	size_t value;
	struct heddle_ticket *ticket;
	int rc = heddle_check(fabric);

	if (rc != 0)
		return rc;
	rc = check_options(options, &given);
	if (rc != 0)
		return rc;
	value = hd_dtype_bytes(wire_type(given.type));
	if ((count == 0) != (call->collective == HD_COLLECTIVE_BARRIER) || value == 0
	    || count > HD_MODEL_BYTES_MAX / value)
		return heddle_fail(
			-EINVAL,
			"count: %llu is not within 1 to HD_MODEL_BYTES_MAX / %zu",
			(unsigned long long)count,
			value
		);
	if (hd_worker_is_direct(fabric->worker))
		return heddle_fail(-EDESTADDRREQ, "controller: %ss need one", name_of(call));
	ticket = heddle_ticket_new(fabric, HEDDLE_DIRECTION_ALLREDUCE);
	if (!ticket)
		return heddle_fail(-ENOMEM, "no memory");
	set_call(ticket, call, &given);
	rc = given.memory == HEDDLE_MEMORY_CUDA ?
		heddle_far_collective(fabric, ticket, call, given.stream) :
		call->parts ? heddle_parts_take(fabric, ticket, call) :
			      take(fabric, ticket, call, given.borrow != 0);
	if (rc < 0) {
		heddle_ticket_discard(fabric, ticket);
		return rc;
	}
	rc = heddle_ticket_enqueue(fabric, ticket);
	if (rc == 0)
		*ticket_out = ticket;
	return rc;
}

int heddle_allreduce_start(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
) {
	const struct heddle_call call = {
		.collective = HD_COLLECTIVE_ALLREDUCE,
		.in = in,
		.out = out,
		.count = count,
		.in_count = count,
		.out_count = count,
	};

	if (!in || !out || !ticket)
		return heddle_fail(-EINVAL, "in, out or ticket: NULL");
	return heddle_reduce_start_call(fabric, &call, options, ticket);
}

static void taken(struct heddle_ticket *ticket) {
	pthread_mutex_lock(&ticket->fabric->lock);
	heddle_ticket_taken(ticket);
	pthread_mutex_unlock(&ticket->fabric->lock);
}

/* The caller's memory on a device is his again: 0 if the result is in it, -ETIMEDOUT if it is as it was. */
static int abandon(struct heddle_ticket *ticket, struct heddle_status *status) {
	bool stopped;
	int rc;

	pthread_mutex_lock(&ticket->fabric->lock);
	stopped = !ticket->ended && heddle_far_abandon(ticket);
	pthread_mutex_unlock(&ticket->fabric->lock);
	if (stopped)
		return -ETIMEDOUT;
	rc = heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, -1, status);
	return rc == 0 && status->state != HEDDLE_STATE_APPLIED ? -ETIMEDOUT : rc;
}

/* Where a switch is, but no aggregator, some all-reduces work and others do not. */
static int
fail_words(const struct heddle_ticket *ticket, const char *name, enum heddle_reason reason) {
	const bool by_switch = ticket->collective == HD_COLLECTIVE_ALLREDUCE
		&& ticket->dtype == HD_DTYPE_FP32 && ticket->op <= HD_REDUCE_OP_AVERAGE;

	if (ticket->words[0])
		return heddle_fail(-EIO, "%s: %s", name, ticket->words);
	return heddle_fail(
		-EIO,
		"%s: %s%s",
		name,
		heddle_reason_name(reason),
		reason != HEDDLE_REASON_NO_SERVER || by_switch ?
			"" :
			": no aggregator has room for it, and switches only make sums of fp32"
	);
}

/* The results besides the status. */
static void hand_over(struct heddle_ticket *ticket, const struct heddle_call *call) {
	const size_t value = hd_dtype_bytes(ticket->type);

	if (call->parts && call->out)
		heddle_parts_spread(call->parts, call->part_count, value, ticket->into);
	else if (ticket->keeps && call->out)
		memcpy(call->out, ticket->into, heddle_reduce_result(ticket) * value);
	if (ticket->ranks)
		(void)heddle_ticket_members(ticket, ticket->ranks, ticket->rank_capacity);
}

/* One that has begun goes on without its caller, as others count on it. Where the caller may give up, the result is
 * made in memory of the library's for that reason. */
int heddle_reduce_make_call(
	struct heddle *fabric,
	const struct heddle_call *call,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_status own = HEDDLE_STATUS_INIT;
	const char *name = name_of(call);
	struct heddle_call kept = *call;
	struct heddle_ticket *ticket = NULL;
	int rc = heddle_check_status(status);

	if (rc == 0)
		rc = heddle_check_may_wait();
	if (rc < 0)
		return rc;
	kept.apart = timeout_ms >= 0 || call->parts;
	rc = heddle_reduce_start_call(fabric, &kept, options, &ticket);
	if (rc != 0)
		return rc;
	rc = heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, timeout_ms, &own);
	if (rc == -ETIMEDOUT) {
		(void)heddle_ticket_cancel(ticket);
		rc = abandon(ticket, &own);
	}
	if (rc == -ETIMEDOUT)
		rc = heddle_fail(rc, "%s: %s", name, heddle_strerror(rc));
	else if (rc == 0 && own.state != HEDDLE_STATE_APPLIED)
		rc = fail_words(ticket, name, own.reason);
	else if (rc == 0)
		hand_over(ticket, &kept);
	if (ticket->keeps)
		taken(ticket);
	if (status)
		(void)heddle_ticket_test(ticket, status);
	heddle_ticket_free(ticket);
	return rc;
}

/* NOLINTNEXTLINE(readability-function-size): the arguments of heddle_allreduce_start(), and how long it waits */
int heddle_allreduce(
	struct heddle *fabric,
	const void *in,
	void *out,
	uint64_t count,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	const struct heddle_call call = {
		.collective = HD_COLLECTIVE_ALLREDUCE,
		.in = in,
		.out = out,
		.count = count,
		.in_count = count,
		.out_count = count,
	};

	if (!in || !out)
		return heddle_fail(-EINVAL, "in or out: NULL");
	return heddle_reduce_make_call(fabric, &call, options, timeout_ms, status);
}
