/* SPDX-License-Identifier: BSD-3-Clause */
/* The table that the run-time dispatch chooses among. Private to common/kernels, its tests and bench. */
#ifndef HD_KERNELS_IMPL_H
#define HD_KERNELS_IMPL_H

#include "hd_kernels.h"

struct hd_kernels {
	const char *name;
	double (*sgd_apply
	)(float *w, float *h, const float *g, size_t count, const struct hd_sgd *sgd);
	void (*add_f32)(float *sum, const float *x, size_t count);
	void (*scale_f32)(float *y, const float *x, size_t count, float a);
	double (*norm2_f32)(const float *x, size_t count);
	size_t (*find_not_finite_f32)(const float *x, size_t count);
};

extern const struct hd_kernels hd_kernels_scalar;
#if defined(__x86_64__)
extern const struct hd_kernels hd_kernels_avx2;
extern const struct hd_kernels hd_kernels_avx512;
#endif

/* What this CPU can run, best first, ending with the scalar reference: index 0..2, NULL past it. */
const struct hd_kernels *hd_kernels_supported(size_t index);

#endif
