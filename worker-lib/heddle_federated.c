/* SPDX-License-Identifier: BSD-3-Clause */
/* What a federated client computes with: see docs/fedprox.md. */
#include "hd_kernels.h"
#include "heddle_federated.h"

#include <errno.h>
#include <math.h>

int heddle_prox_apply(
	float *w,
	const float *w_t,
	const float *grad,
	size_t count,
	float rate,
	float mu
) {
	if (count > 0 && (!w || !w_t || !grad))
		return -EINVAL;
	if (!isfinite(rate) || !isfinite(mu) || rate < 0 || mu < 0)
		return -EINVAL;
	hd_prox_apply(w, w_t, grad, count, rate, mu);
	return 0;
}
