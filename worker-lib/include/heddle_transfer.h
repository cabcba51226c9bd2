/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: pushes and pulls. Include heddle.h. */
#ifndef HEDDLE_TRANSFER_H
#define HEDDLE_TRANSFER_H

#include "heddle_ticket.h"

#ifdef __cplusplus
extern "C" {
#endif

struct heddle_push_options {
	size_t size;
	enum heddle_memory memory;
	void *stream; /* of the memory's kind; NULL for HOST */
	int borrow; /* no copy: the caller must not touch data until status.released */
	/* FP16 and BF16 halve the bytes on the network. The library multiplies by the granted staleness weight in
	 * fp32 and then rounds to nearest, ties to even; the server applies the update in fp32. FIXED32 rounds to a
	 * multiple of the smallest power of two with which no sum that contains this update overflows: the sum has the
	 * same bits in whatever order aggregators and switches add. */
	enum heddle_payload payload;
	/* Factor on the values, applied in fp32 before everything else (the check for NaN and Inf, the staleness
	 * weight, the rounding to the payload type). The caller's buffer does not change; with `borrow` a factor other
	 * than 1 costs a copy. 0: 1. Negative, NaN or Inf: -EINVAL. See heddle_members_scale(). */
	float scale;
};
struct heddle_pull_options {
	size_t size;
	enum heddle_memory memory;
	void *stream;
	int conditional; /* deliver only a version newer than `have` */
	uint64_t have;
	/* FP16 and BF16: the server rounds its fp32 model (to nearest, ties to even); data receives the rounded
	 * values as fp32. Values beyond the range of FP16 are delivered as Inf. */
	enum heddle_payload payload;
};
#ifdef __cplusplus
#define HEDDLE_PUSH_OPTIONS_INIT                                                                   \
	{ sizeof(struct heddle_push_options), HEDDLE_MEMORY_HOST, 0, 0, HEDDLE_PAYLOAD_FP32, 0 }
#define HEDDLE_PULL_OPTIONS_INIT                                                                   \
	{ sizeof(struct heddle_pull_options), HEDDLE_MEMORY_HOST, 0, 0, 0, HEDDLE_PAYLOAD_FP32 }
#else
#define HEDDLE_PUSH_OPTIONS_INIT                                                                   \
	{ .size = sizeof(struct heddle_push_options) }
#define HEDDLE_PULL_OPTIONS_INIT                                                                   \
	{ .size = sizeof(struct heddle_pull_options) }
#endif

#define HEDDLE_COMMANDS_MAX 4096

/*
 * Starts a push of one update. data: the whole model's values, tensor after tensor; base: the version that they were
 * computed from; options: may be NULL (host memory, copied, fp32). Returns at once and sets *ticket, which reports
 * progress and must be freed. 0, -EDOM (NaN, Inf or a value beyond the payload type's range; heddle_last_error() says
 * where. A staleness weight above 1 can still exceed the range: the push then fails as not-finite), -EAGAIN
 * (HEDDLE_COMMANDS_MAX calls are queued), -ENOTSUP, -EIO (GPU), -ESHUTDOWN (no time is left after
 * heddle_notify_preemption()), -EINVAL (also: the job has no model), -ENOMEM, -ECONNREFUSED, -ECHILD.
 */
int heddle_push_start(
	struct heddle *fabric,
	const float *data,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
);
/* The same, and waits for the outcome (with borrowed data: until it is released). -ETIMEDOUT: the push continues, and
 * borrowed data must stay unchanged. Results: heddle.h, "Operations". */
int heddle_push(
	struct heddle *fabric,
	const float *data,
	uint64_t base,
	const struct heddle_push_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* An update of some values: ascending, disjoint ranges; data has the values of one range after another. */
struct heddle_sparse {
	const struct heddle_range *ranges;
	size_t range_count;
	const float *data;
};

/* Starts a push of a sparse update. The server changes only the named values: the momentum and the weights of all
 * others neither move nor decay. Borrowed data and ranges must stay unchanged until status.released. Errors of
 * heddle_push_start(), and -EINVAL (ranges; a payload other than FP32), -E2BIG (larger than a dense update: push
 * that). */
int heddle_push_sparse_start(
	struct heddle *fabric,
	const struct heddle_sparse *update,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
);
/* The same, and waits, like heddle_push(). */
int heddle_push_sparse(
	struct heddle *fabric,
	const struct heddle_sparse *update,
	uint64_t base,
	const struct heddle_push_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Starts a pull of exactly one version of the model. data: heddle_spec_value_count() elements, undefined until the
 * ticket has ended. With HEDDLE_SYNC_ALL or HEDDLE_SYNC_N it first waits for this worker's earlier pushes, which end
 * with their step. Errors: as heddle_push_start(), without -EDOM. */
int heddle_pull_start(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	struct heddle_ticket **ticket
);
/* The same, and waits. status.version is the version that was delivered. 1: no newer version (options.conditional).
 * -ETIMEDOUT: the pull was withdrawn, data is undefined and belongs to the caller. Results: heddle.h, "Operations". */
int heddle_pull(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* Returns 1 in a synchronous job when a version newer than `base` is known here: the server would drop an update
 * that is still being computed from base, so stop computing it. Otherwise 0, also for NULL. Costs one load. */
int heddle_is_superseded(const struct heddle *fabric, uint64_t base);

#ifdef __cplusplus
}
#endif

#endif
