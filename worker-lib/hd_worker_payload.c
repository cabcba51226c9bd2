/* SPDX-License-Identifier: BSD-3-Clause */
/* What an update is on the wire: fp32, 16 bits, or runs. */
#include "hd_kernels.h"
#include "hd_worker_core.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int worker_payload_bytes(
	const struct hd_worker *worker,
	const struct hd_push_args *args,
	uint64_t *bytes
) {
	uint64_t values = hd_jobspec_values(&worker->spec), sum;
	uint32_t chunk_bytes = worker->config.chunk_bytes;

	if (args->dtype != HD_DTYPE_SPARSE32) {
		*bytes = values * hd_dtype_bytes(args->dtype);
		return hd_dtype_is_model(args->dtype) && args->values == values && !args->runs ?
			0 :
			-EINVAL;
	}
	if (chunk_bytes < HD_RUN_BYTES_MIN)
		return -EINVAL;
	if (hd_runs_check(args->runs, args->run_count, values, &sum) < 0 || sum != args->values)
		return -EINVAL;
	*bytes = hd_runs_bytes(args->runs, args->run_count, chunk_bytes);
	return *bytes <= worker->model_bytes ? 0 : -E2BIG;
}

bool worker_is_finite(const struct hd_push_args *args, double norm) {
	if (!isfinite(norm))
		return false;
	return !hd_dtype_is_half(args->dtype)
		|| hd_find_not_finite_as(args->dtype, args->data, args->values) == args->values;
}

static int make_half(const struct hd_worker *worker, const struct ticket *ticket, float weight) {
	uint16_t *half = ticket->payload;

	hd_half_from_f32(ticket->dtype, half, ticket->data, ticket->values, weight);
	if (worker->spec.allow_not_finite)
		return 0;
	return hd_find_not_finite_half(ticket->dtype, half, ticket->values) < ticket->values ?
		-EDOM :
		0;
}

int worker_make_payload(const struct hd_worker *worker, struct ticket *ticket, float weight) {
	bool as_it_is = ticket->dtype == HD_DTYPE_FP32 && weight == 1.0f;
	int rc = 0;

	if (ticket->weight == weight)
		return 0;
	if (as_it_is) {
		free(ticket->payload);
		ticket->payload = NULL;
	} else if (!ticket->payload) {
		ticket->payload = malloc(ticket->pub.bytes);
		if (!ticket->payload)
			return -ENOMEM;
	}
	if (ticket->dtype == HD_DTYPE_SPARSE32)
		hd_runs_encode(
			ticket->runs,
			ticket->run_count,
			ticket->data,
			weight,
			worker->config.chunk_bytes,
			ticket->payload
		);
	else if (hd_dtype_is_half(ticket->dtype))
		rc = make_half(worker, ticket, weight);
	else if (!as_it_is)
		hd_scale_f32(ticket->payload, ticket->data, ticket->values, weight);
	if (rc == 0)
		ticket->weight = weight;
	return rc;
}
