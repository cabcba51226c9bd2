/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes and pulls begin: what the caller hands over, checked and copied. */
#include "hd_kernels.h"
#include "heddle_private.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A push's arguments, checked. */
struct update {
	const struct hd_run *runs; /* NULL: dense */
	size_t run_count;
	const float *data;
	uint64_t values;
	uint8_t dtype;
	bool borrow;
	float scale;
	const struct heddle_push_options *far; /* data are on a device; NULL: on the host */
};

/* The caller's, as far as he knows them; the others are 0. */
static struct heddle_push_options known(const struct heddle_push_options *options) {
	struct heddle_push_options given = HEDDLE_PUSH_OPTIONS_INIT;

	if (options)
		memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given
		);
	return given;
}

int heddle_check_push_options(const struct heddle_push_options *options) {
	struct heddle_push_options given;
	int rc;

	if (options && options->size < offsetof(struct heddle_push_options, scale))
		return heddle_fail(-EINVAL, "push options: size");
	given = known(options);
	if (!(given.scale >= 0.0f) || isinf(given.scale))
		return heddle_fail(
			-EINVAL, "scale: %g must be finite and above 0 (0: 1)", (double)given.scale
		);
	rc = heddle_check_memory(given.memory, given.stream);
	if (rc < 0 || given.payload == HEDDLE_PAYLOAD_FIXED32)
		return rc;
	return heddle_check_payload(given.payload);
}

int heddle_check_not_federated(const struct heddle *fabric) {
	/* No caller has given its weight. */
	return fabric->spec->job.sync != HD_SYNC_FEDERATED ?
		0 :
		heddle_fail(
			-EINVAL,
			"a federated job's updates go by heddle_round_push_start(), whole and unfiltered"
		);
}

int heddle_check_model(const struct heddle *fabric) {
	return fabric->values > 0 ? 0 : heddle_fail(-EINVAL, "the job has no model");
}

static int check_options(
	const struct heddle_push_options *options,
	struct heddle_push_options *given,
	const float *data,
	struct heddle_ticket **out
) {
	int rc = heddle_check_push_options(options);

	if (rc < 0)
		return rc;
	if (!data || !out)
		return heddle_fail(-EINVAL, "data or ticket: NULL");
	*given = known(options);
	return 0;
}

/* Runs and data in one piece, unless they are borrowed and sent as they are. */
static int take(struct heddle *fabric, struct heddle_ticket *ticket, const struct update *update) {
	size_t runs = update->run_count * sizeof(struct hd_run);
	size_t data = update->values * sizeof(float);
	bool scaled = update->scale < 1.0f || update->scale > 1.0f;
	float *copy;

	ticket->runs = update->runs;
	ticket->run_count = update->run_count;
	ticket->data = update->data;
	ticket->values = update->values;
	ticket->dtype = update->dtype;
	if (update->borrow && !scaled)
		return heddle_ticket_finite(fabric, ticket);
	if (heddle_ticket_copy(fabric, ticket, runs + data) < 0)
		return heddle_fail(-ENOMEM, "no memory");
	if (update->runs)
		ticket->runs = memcpy(ticket->copy, update->runs, runs);
	copy = (float *)(void *)((char *)ticket->copy + runs);
	if (scaled)
		hd_scale_f32(copy, update->data, update->values, update->scale);
	else
		memcpy(copy, update->data, data);
	ticket->data = copy;
	return heddle_ticket_finite(fabric, ticket);
}

/* Whether it is finite is known when the device has looked. */
static int
take_far(struct heddle *fabric, struct heddle_ticket *ticket, const struct update *update) {
	ticket->values = update->values;
	ticket->dtype = update->dtype;
	return heddle_far_push(fabric, ticket, update->data, update->far);
}

static void take_options(struct update *update, const struct heddle_push_options *given) {
	update->borrow = given->borrow != 0;
	update->scale = given->scale > 0.0f ? given->scale : 1.0f;
}

static int
push(struct heddle *fabric, const struct update *update, uint64_t base, struct heddle_ticket **out
) {
	struct heddle_ticket *ticket;
	int rc = heddle_check_not_federated(fabric);

	if (rc == 0)
		rc = heddle_check_model(fabric);
	if (rc < 0)
		return rc;
	ticket = heddle_ticket_new(fabric, HEDDLE_DIRECTION_PUSH);
	if (!ticket)
		return heddle_fail(-ENOMEM, "no memory");
	rc = update->far ? take_far(fabric, ticket, update) : take(fabric, ticket, update);
	if (rc < 0) {
		heddle_ticket_discard(fabric, ticket);
		return rc;
	}
	ticket->status.bytes = fabric->values * hd_dtype_bytes(update->dtype);
	if (update->runs)
		ticket->status.bytes = hd_runs_bytes(
			update->runs, update->run_count, hd_worker_chunk_bytes(fabric->worker)
		);
	ticket->status.base = base;
	rc = heddle_ticket_enqueue(fabric, ticket);
	if (rc == 0)
		*out = ticket;
	return rc;
}

int heddle_push_start(
	struct heddle *fabric,
	const float *data,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **out
) {
	struct update update = {.data = data};
	struct heddle_push_options given;
	int rc = heddle_check(fabric);

	if (rc != 0)
		return rc;
	rc = check_options(options, &given, data, out);
	if (rc != 0)
		return rc;
	update.values = fabric->values;
	update.dtype = (uint8_t)given.payload;
	take_options(&update, &given);
	if (given.memory == HEDDLE_MEMORY_CUDA)
		update.far = &given;
	return push(fabric, &update, base, out);
}

/* The values of the runs, and what they are to be. */
static int check_sparse(struct heddle *fabric, struct update *update) {
	uint32_t chunk_bytes = hd_worker_chunk_bytes(fabric->worker);

	if (!update->runs || chunk_bytes < HD_RUN_BYTES_MIN
	    || hd_runs_check(update->runs, update->run_count, fabric->values, &update->values) < 0)
		return heddle_fail(
			-EINVAL,
			"ranges: they must ascend within the model's %llu values, disjoint, none empty",
			(unsigned long long)fabric->values
		);
	if (hd_runs_bytes(update->runs, update->run_count, chunk_bytes)
	    > fabric->values * sizeof(float))
		return heddle_fail(-E2BIG, "ranges: more bytes than a dense update");
	return 0;
}

int heddle_push_sparse_start(
	struct heddle *fabric,
	const struct heddle_sparse *sparse,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **out
) {
	struct update update = {.dtype = HD_DTYPE_SPARSE32};
	struct heddle_push_options given;
	int rc = heddle_check(fabric);

	if (rc != 0)
		return rc;
	if (!sparse)
		return heddle_fail(-EINVAL, "update: NULL");
	rc = check_options(options, &given, sparse->data, out);
	if (rc != 0)
		return rc;
	if (given.payload != HEDDLE_PAYLOAD_FP32)
		return heddle_fail(-EINVAL, "payload: sparse updates are fp32");
	rc = heddle_check_host(given.memory, given.stream);
	if (rc < 0)
		return rc;
	update.runs = (const struct hd_run *)(const void *)sparse->ranges;
	update.run_count = sparse->range_count;
	update.data = sparse->data;
	take_options(&update, &given);
	rc = check_sparse(fabric, &update);
	return rc < 0 ? rc : push(fabric, &update, base, out);
}

int heddle_pull_start(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	struct heddle_ticket **out
) {
	struct heddle_pull_options given = HEDDLE_PULL_OPTIONS_INIT;
	struct heddle_ticket *ticket;
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	if (options && options->size < sizeof given)
		return heddle_fail(-EINVAL, "pull options: size");
	if (!data || !out)
		return heddle_fail(-EINVAL, "data or ticket: NULL");
	given = options ? *options : given;
	rc = heddle_check_memory(given.memory, given.stream);
	if (rc == 0)
		rc = heddle_check_payload(given.payload);
	if (rc == 0)
		rc = heddle_check_model(fabric);
	if (rc < 0)
		return rc;
	ticket = heddle_ticket_new(fabric, HEDDLE_DIRECTION_PULL);
	if (!ticket)
		return heddle_fail(-ENOMEM, "no memory");
	ticket->dtype = (uint8_t)given.payload;
	ticket->status.bytes = fabric->values * hd_dtype_bytes(ticket->dtype);
	ticket->into = data;
	ticket->have = given.have;
	ticket->conditional = given.conditional != 0;
	ticket->values = fabric->values;
	if (given.memory == HEDDLE_MEMORY_CUDA)
		rc = heddle_far_pull(fabric, ticket, data, given.stream);
	if (rc < 0) {
		heddle_ticket_discard(fabric, ticket);
		return rc;
	}
	rc = heddle_ticket_enqueue(fabric, ticket);
	if (rc == 0)
		*out = ticket;
	return rc;
}
