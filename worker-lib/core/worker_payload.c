/* SPDX-License-Identifier: BSD-3-Clause */
/* An update's bytes on the wire: fp32, 16 bits, fixed point, or runs. */
#include "hd_kernels.h"
#include "worker_push.h"

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

	if (args->packer && args->dtype == HD_DTYPE_SPARSE32)
		return -EINVAL;
	if (args->dtype != HD_DTYPE_SPARSE32) {
		*bytes = values * hd_dtype_bytes(args->dtype);
		return hd_dtype_is_dense(args->dtype) && args->values == values && !args->runs ?
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

const void *worker_bytes(const struct worker_ticket *ticket) {
	if (ticket->pack)
		return ticket->packed;
	return ticket->payload ? ticket->payload : ticket->data;
}

double worker_norm(const struct hd_push_args *args) {
	return args->packer ? args->packer->norm : sqrt(hd_norm2_f32(args->data, args->values));
}

float worker_peak(const struct hd_push_args *args) {
	return args->packer ? args->packer->peak : hd_peak_f32(args->data, args->values);
}

int16_t worker_exponent(const struct worker_ticket *ticket, float weight) {
	double peak = fabs((double)ticket->peak * (double)weight);

	if (ticket->dtype != HD_DTYPE_FIXED32 || !isfinite(peak))
		return 0;
	return (int16_t)hd_fixed_exponent(peak, 1);
}

bool worker_is_finite(const struct hd_push_args *args, double norm) {
	if (!isfinite(norm))
		return false;
	return args->packer || !hd_dtype_is_half(args->dtype)
		|| hd_find_not_finite_as(args->dtype, args->data, args->values) == args->values;
}

static int
make_half(const struct hd_worker *worker, const struct worker_ticket *ticket, float weight) {
	uint16_t *half = ticket->payload;

	hd_half_from_f32(ticket->dtype, half, ticket->data, ticket->values, weight);
	if (worker->spec.allow_not_finite)
		return 0;
	return hd_find_not_finite_half(ticket->dtype, half, ticket->values) < ticket->values ?
		-EDOM :
		0;
}

static bool fits_wire(int16_t exponent) {
	return exponent >= HD_FIXED_EXPONENT_MIN && exponent <= HD_FIXED_EXPONENT_MAX;
}

static int make_fixed(const struct worker_ticket *ticket, float weight, int16_t exponent) {
	if (!fits_wire(exponent))
		return -EDOM;
	return hd_fixed_from_f32(ticket->payload, ticket->data, ticket->values, weight, exponent) ?
		-EDOM :
		0;
}

static void made(struct worker_ticket *ticket, float weight, int16_t exponent) {
	ticket->weight = weight;
	ticket->exponent = 0;
	if (ticket->dtype == HD_DTYPE_FIXED32)
		ticket->exponent = exponent;
}

static int make_packed(struct worker_ticket *ticket, float weight, int16_t exponent, bool whole) {
	int rc = -EDOM;

	ticket->recast = ticket->dtype == HD_DTYPE_FIXED32 && ticket->packed;
	if (ticket->dtype != HD_DTYPE_FIXED32 || fits_wire(exponent))
		rc = ticket->pack(ticket->pub.user, weight, exponent, whole, &ticket->packed);
	ticket->packing = rc == 0 && !whole;
	ticket->pack_error = 0;
	ticket->feed_at = 0;
	if (rc == 0)
		made(ticket, weight, exponent);
	return rc;
}

int worker_make_payload(
	const struct hd_worker *worker,
	struct worker_ticket *ticket,
	float weight,
	int16_t exponent,
	bool whole
) {
	bool as_it_is = ticket->dtype == HD_DTYPE_FP32 && weight == 1.0f;
	int rc = 0;

	if (ticket->weight == weight && !(ticket->packing && whole)
	    && (ticket->dtype != HD_DTYPE_FIXED32 || ticket->exponent == exponent))
		return 0;
	worker_copy_end(ticket); /* it reads the bytes that are about to change */
	if (ticket->pack)
		return make_packed(ticket, weight, exponent, whole);
	ticket->recast = ticket->dtype == HD_DTYPE_FIXED32 && ticket->payload;
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
	else if (ticket->dtype == HD_DTYPE_FIXED32)
		rc = make_fixed(ticket, weight, exponent);
	else if (!as_it_is)
		hd_scale_f32(ticket->payload, ticket->data, ticket->values, weight);
	if (rc == 0)
		made(ticket, weight, exponent);
	return rc;
}
