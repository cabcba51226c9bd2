/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of values on a device: copied to memory of the host and from it, in the order of streams. The core reads
 * and writes that memory as any other: so all that it does with values on the host, it does with these. */
#include "heddle_call.h"
#include "heddle_far.h"
#include "heddle_private.h"

#include <assert.h>
#include <errno.h>

/* The one device of both, as far as there are both. */
static int
find(const struct heddle_call *call,
     const uint64_t bytes[2],
     void *stream,
     struct hd_device **device) {
	struct hd_device *other = NULL;
	int rc = call->in ? heddle_far_find(call->in, bytes[0], stream, device) : 0;

	if (rc == 0 && call->out)
		rc = heddle_far_find(call->out, bytes[1], stream, &other);
	if (rc < 0 || !call->out)
		return rc;
	if (call->in && *device != other)
		return hd_device_fail(-EINVAL, "in and out: they are not on one device");
	*device = other;
	return 0;
}

int heddle_far_collective(
	struct heddle *fabric,
	struct heddle_ticket *ticket,
	const struct heddle_call *call,
	void *stream
) {
	const uint64_t value = hd_dtype_bytes(ticket->type);
	const uint64_t bytes[]
		= {call->in ? call->in_count * value : 0, call->out ? call->out_count * value : 0};
	const size_t given = heddle_far_rounded(bytes[0]);
	struct hd_device *device = NULL;
	struct heddle_far *far = NULL;
	int rc = find(call, bytes, stream, &device);

	if (rc == 0)
		rc = heddle_far_prepare(
			fabric, device, given + heddle_far_rounded(bytes[1]), 0, &far
		);
	if (rc < 0)
		return heddle_far_fail(rc);
	assert(device && far); /* a collective of values gives or receives some */
	far->waits = call->in;
	far->to = call->out;
	ticket->far = far;
	ticket->data = call->in ? far->near : NULL;
	ticket->into = call->out ? (char *)far->near + given : NULL;
	if (call->in)
		rc = device->ops->copy(device, stream, far->near, call->in, bytes[0]);
	if (rc == 0)
		rc = heddle_far_record(far, stream);
	return rc < 0 ? heddle_far_fail(rc) : 0;
}

static int unpack(const struct heddle_ticket *ticket) {
	struct heddle_far *far = ticket->far;
	struct hd_stage_job job = {.kind = HD_STAGE_UNPACK};

	job.unpack = (struct hd_unpack){
		.from = far->near,
		.to = far->to,
		.values = ticket->values,
		.dtype = ticket->dtype,
	};
	return far->device->ops->launch(far->device, far->stream, &job);
}

int heddle_far_land(struct heddle_ticket *ticket, uint64_t values) {
	struct heddle_far *far = ticket->far;
	const struct hd_device_ops *ops = far->device->ops;
	int rc = ops->after(far->device, far->stream, far->event);

	if (rc == 0 && ticket->reduce)
		rc = ops->copy(
			far->device,
			far->stream,
			far->to,
			ticket->into,
			values * hd_dtype_bytes(ticket->type)
		);
	else if (rc == 0)
		rc = unpack(ticket);
	if (rc == 0)
		rc = heddle_far_record(far, far->stream);
	return rc;
}
