/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces, as the caller sees them. */
#include "hd_group.h"
#include "heddle_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int heddle_reduce_begin(struct heddle *fabric, const struct heddle_turn *turn) {
	struct heddle_ticket *ticket = turn->ticket;
	struct hd_reduce_args args = {
		.in = ticket->data,
		.out = ticket->into,
		.values = ticket->values,
		.dtype = ticket->dtype,
		.order = ticket->order,
		.average = ticket->average,
		.user = ticket,
	};

	return hd_worker_reduce(fabric->worker, turn->now, &args, turn->sink, &ticket->round);
}

static int check_options(
	const struct heddle_allreduce_options *options,
	struct heddle_allreduce_options *given
) {
	static const struct heddle_allreduce_options plain = HEDDLE_ALLREDUCE_OPTIONS_INIT;
	int rc;

	if (options && options->size < sizeof plain)
		return heddle_fail(-EINVAL, "allreduce options: size");
	*given = options ? *options : plain;
	if (given->operation != HEDDLE_REDUCE_SUM && given->operation != HEDDLE_REDUCE_AVERAGE)
		return heddle_fail(-EINVAL, "operation: %d is unknown", (int)given->operation);
	rc = heddle_check_memory(given->memory, given->stream);
	return rc < 0 ? rc : heddle_check_payload(given->payload);
}

/* in: NULL: out's values; the sum goes behind the copy of them, which stays until heddle_ticket_taken(). */
static int
take(struct heddle *fabric, struct heddle_ticket *ticket, const float *in, float *out, bool borrow
) {
	const uint64_t count = ticket->values;
	const size_t copied = borrow && in && in != out ? 0 : in ? count : 2 * count;

	if (copied > 0 && heddle_ticket_copy(fabric, ticket, copied * sizeof(float)) < 0)
		return heddle_fail(-ENOMEM, "no memory");
	ticket->data
		= ticket->copy ? memcpy(ticket->copy, in ? in : out, count * sizeof(float)) : in;
	ticket->keeps = !in;
	ticket->into = in ? out : (float *)ticket->copy + count;
	return 0;
}

/* in: NULL: in place, apart from the caller's memory until it has ended. */
static int
start(struct heddle *fabric,
      const float *in,
      float *out,
      uint64_t count,
      const struct heddle_allreduce_options *options,
      struct heddle_ticket **ticket_out) {
	struct heddle_allreduce_options given;
	struct heddle_ticket *ticket;
	int rc = heddle_check(fabric);

	if (rc != 0)
		return rc;
	rc = check_options(options, &given);
	if (rc != 0)
		return rc;
	if (count == 0 || count > HD_MODEL_BYTES_MAX / sizeof(float))
		return heddle_fail(
			-EINVAL,
			"count: %llu is not within 1 to HD_MODEL_BYTES_MAX / 4",
			(unsigned long long)count
		);
	if (hd_worker_is_direct(fabric->worker))
		return heddle_fail(-EDESTADDRREQ, "controller: all-reduces need one");
	ticket = heddle_ticket_new(fabric, HD_REDUCE);
	if (!ticket)
		return heddle_fail(-ENOMEM, "no memory");
	ticket->reduce = true;
	ticket->average = given.operation == HEDDLE_REDUCE_AVERAGE;
	ticket->order = given.ranked ? HD_GROUP_RANKED : HD_GROUP_ARRIVAL;
	ticket->dtype = (uint8_t)given.payload;
	ticket->values = count;
	ticket->status.bytes = count * hd_dtype_bytes(ticket->dtype);
	rc = given.memory == HEDDLE_MEMORY_CUDA ?
		heddle_far_reduce(fabric, ticket, in ? in : out, out, given.stream) :
		take(fabric, ticket, in, out, given.borrow != 0);
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
	const float *in,
	float *out,
	uint64_t count,
	const struct heddle_allreduce_options *options,
	struct heddle_ticket **ticket
) {
	if (!in || !out || !ticket)
		return heddle_fail(-EINVAL, "in, out or ticket: NULL");
	return start(fabric, in, out, count, options, ticket);
}

static void taken(struct heddle_ticket *ticket) {
	pthread_mutex_lock(&ticket->fabric->lock);
	heddle_ticket_taken(ticket);
	pthread_mutex_unlock(&ticket->fabric->lock);
}

/* The caller's memory on a device is his again. */
static void abandon(struct heddle_ticket *ticket) {
	bool landing;

	pthread_mutex_lock(&ticket->fabric->lock);
	landing = ticket->far && ticket->far->landing;
	if (ticket->far)
		ticket->far->abandoned = true;
	pthread_mutex_unlock(&ticket->fabric->lock);
	if (landing)
		(void)heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, -1, NULL);
}

/* One that has begun goes on without its caller, as others count on it. Where the caller may give up, the sum is made
 * in memory of the library's for that reason. */
int heddle_allreduce(
	struct heddle *fabric,
	float *data,
	uint64_t count,
	const struct heddle_allreduce_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_status own = HEDDLE_STATUS_INIT;
	bool apart = timeout_ms >= 0;
	struct heddle_ticket *ticket = NULL;
	int rc;

	if (!data)
		return heddle_fail(-EINVAL, "data: NULL");
	rc = heddle_check_status(status);
	if (rc < 0)
		return rc;
	rc = start(fabric, apart ? NULL : data, data, count, options, &ticket);
	if (rc != 0)
		return rc;
	rc = heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, timeout_ms, &own);
	if (rc == -ETIMEDOUT) {
		(void)heddle_ticket_cancel(ticket);
		abandon(ticket);
		rc = heddle_fail(rc, "all-reduce: %s", heddle_strerror(rc));
	} else if (rc == 0 && own.state != HEDDLE_APPLIED) {
		rc = heddle_fail(-EIO, "all-reduce: %s", heddle_reason_name(own.reason));
	} else if (rc == 0 && apart && ticket->copy) {
		memcpy(data, ticket->into, count * sizeof(float));
	}
	if (ticket->keeps)
		taken(ticket);
	if (status)
		(void)heddle_ticket_test(ticket, status);
	heddle_ticket_free(ticket);
	return rc;
}
