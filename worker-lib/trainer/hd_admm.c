/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_admm.h"
#include "hd_kernels.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int hd_admm_init(struct hd_admm *admm, uint64_t values, float rate, float rho) {
	struct hd_admm made = {.values = values, .rate = rate, .rho = rho};

	if (values == 0 || values > PTRDIFF_MAX / sizeof(float) || !isfinite(rate) || !isfinite(rho)
	    || rate <= 0.0f || rho <= 0.0f || rate * rho > 1.0f)
		return -EINVAL;
	made.x = calloc(values, sizeof(float));
	made.u = calloc(values, sizeof(float));
	made.centre = calloc(values, sizeof(float));
	if (!made.x || !made.u || !made.centre) {
		hd_admm_fini(&made);
		return -ENOMEM;
	}
	*admm = made;
	return 0;
}

void hd_admm_fini(struct hd_admm *admm) {
	free(admm->x);
	free(admm->u);
	free(admm->centre);
	*admm = (struct hd_admm){0};
}

void hd_admm_begin(struct hd_admm *admm, const float *z, bool applied) {
	if (!admm->begun)
		memcpy(admm->x, z, admm->values * sizeof(float));
	for (uint64_t i = 0; i < admm->values; i++) {
		if (admm->begun && applied)
			admm->u[i] += admm->x[i] - z[i];
		admm->centre[i] = z[i] - admm->u[i];
	}
	admm->begun = true;
}

void hd_admm_step(struct hd_admm *admm, const float *grad) {
	hd_prox_apply(admm->x, admm->centre, grad, admm->values, admm->rate, admm->rho);
}

void hd_admm_update(const struct hd_admm *admm, float *update) {
	for (uint64_t i = 0; i < admm->values; i++)
		update[i] = (admm->centre[i] - admm->x[i]) / admm->rate;
}
