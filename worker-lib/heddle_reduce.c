/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces, as the caller sees them. */
#include "hd_group.h"
#include "heddle_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int heddle_reduce_begin(
	struct heddle *fabric,
	struct heddle_ticket *ticket,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_reduce_args args = {
		.in = ticket->data,
		.out = ticket->into,
		.values = ticket->values,
		.dtype = ticket->dtype,
		.order = ticket->order,
		.average = ticket->average,
		.user = ticket,
	};

	return hd_worker_reduce(fabric->worker, now, &args, sink, &ticket->round);
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

int heddle_allreduce_start(
	struct heddle *fabric,
	const float *in,
	float *out,
	uint64_t count,
	const struct heddle_allreduce_options *options,
	struct heddle_ticket **ticket_out
) {
	struct heddle_allreduce_options given;
	struct heddle_ticket *ticket;
	bool copies;
	int rc = heddle_check(fabric);

	if (rc != 0)
		return rc;
	rc = check_options(options, &given);
	if (rc != 0)
		return rc;
	if (!in || !out || !ticket_out)
		return heddle_fail(-EINVAL, "in, out or ticket: NULL");
	if (count == 0 || count > HD_MODEL_BYTES_MAX / sizeof(float))
		return heddle_fail(
			-EINVAL,
			"count: %llu is not within 1 to HD_MODEL_BYTES_MAX / 4",
			(unsigned long long)count
		);
	if (hd_worker_is_direct(fabric->worker))
		return heddle_fail(-EDESTADDRREQ, "controller: all-reduces need one");
	ticket = heddle_ticket_new(fabric, HD_REDUCE);
	copies = !given.borrow || in == out;
	if (!ticket || (copies && heddle_ticket_copy(fabric, ticket, count * sizeof(float)) < 0)) {
		free(ticket);
		return heddle_fail(-ENOMEM, "no memory");
	}
	ticket->reduce = true;
	ticket->average = given.operation == HEDDLE_REDUCE_AVERAGE;
	ticket->order = given.ranked ? HD_GROUP_RANKED : HD_GROUP_ARRIVAL;
	ticket->dtype = (uint8_t)given.payload;
	ticket->values = count;
	ticket->status.bytes = count * hd_dtype_bytes(ticket->dtype);
	ticket->into = out;
	ticket->data = ticket->copy ? memcpy(ticket->copy, in, count * sizeof(float)) : in;
	rc = heddle_ticket_enqueue(fabric, ticket);
	if (rc == 0)
		*ticket_out = ticket;
	return rc;
}

int heddle_allreduce(
	struct heddle *fabric,
	float *data,
	uint64_t count,
	const struct heddle_allreduce_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_status own = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket = NULL;
	int rc = heddle_allreduce_start(fabric, data, data, count, options, &ticket);

	if (rc != 0)
		return rc;
	rc = heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, timeout_ms, &own);
	if (rc == -ETIMEDOUT)
		(void)heddle_ticket_cancel(ticket);
	else if (rc == 0 && own.state != HEDDLE_APPLIED)
		rc = heddle_fail(-EIO, "all-reduce: %s", heddle_reason_name(own.reason));
	if (status)
		(void)heddle_ticket_test(ticket, status);
	heddle_ticket_free(ticket);
	return rc;
}
