/* SPDX-License-Identifier: BSD-3-Clause */
/* The inexactness of a client's solution. */
#include "hd_federated.h"

#include <float.h>
#include <math.h>

double hd_inexactness(const struct hd_local_problem *problem) {
	double start = 0, left = 0;

	for (uint64_t i = 0; i < problem->values; i++) {
		double pull = (double)problem->w[i] - (double)problem->w_t[i];
		double h = problem->grad_w[i] + problem->mu * pull;

		start += problem->grad_w_t[i] * problem->grad_w_t[i];
		left += h * h;
	}
	if (!(start > 0) || !(sqrt(left / start) <= (double)FLT_MAX))
		return -1;
	return sqrt(left / start);
}
