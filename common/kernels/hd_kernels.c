/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dispatch: the best table that the CPU can run, chosen at the first call. HEDDLE_SIMD lowers it
 * ("avx2", "scalar"); results of hd_sgd_apply do not depend on the choice, so this one look at the
 * environment cannot make two runs differ.
 */
#include "hd_kernels_impl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define HD_KERNELS_TABLES 3

/* writer: whoever calls first, always the same value; readers: any thread */
static _Atomic(const struct hd_kernels *) hd_kernels_chosen;

const struct hd_kernels *hd_kernels_supported(size_t index) {
	const struct hd_kernels *found[HD_KERNELS_TABLES + 1] = {NULL};
	size_t count = 0;
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f")) {
		found[count++] = &hd_kernels_avx512;
	}
	if (__builtin_cpu_supports("avx2")) {
		found[count++] = &hd_kernels_avx2;
	}
#endif
	found[count] = &hd_kernels_scalar;
	return index <= count ? found[index] : NULL;
}

static const struct hd_kernels *hd_kernels_choose(void) {
	const char *wanted = getenv("HEDDLE_SIMD");
	const struct hd_kernels *chosen = hd_kernels_supported(0);
	const struct hd_kernels *table;

	for (size_t i = 0; wanted != NULL && (table = hd_kernels_supported(i)) != NULL; i++) {
		if (strcmp(table->name, wanted) == 0) {
			chosen = table;
		}
	}
	atomic_store_explicit(&hd_kernels_chosen, chosen, memory_order_relaxed);
	return chosen;
}

static inline const struct hd_kernels *hd_kernels_get(void) {
	const struct hd_kernels *chosen
		= atomic_load_explicit(&hd_kernels_chosen, memory_order_relaxed);

	return chosen != NULL ? chosen : hd_kernels_choose();
}

double hd_sgd_apply(float *w, float *h, const float *g, size_t count, const struct hd_sgd *sgd) {
	return hd_kernels_get()->sgd_apply(w, h, g, count, sgd);
}

void hd_add_f32(float *sum, const float *x, size_t count) {
	hd_kernels_get()->add_f32(sum, x, count);
}

void hd_scale_f32(float *y, const float *x, size_t count, float a) {
	hd_kernels_get()->scale_f32(y, x, count, a);
}

double hd_norm2_f32(const float *x, size_t count) {
	return hd_kernels_get()->norm2_f32(x, count);
}

size_t hd_find_not_finite_f32(const float *x, size_t count) {
	return hd_kernels_get()->find_not_finite_f32(x, count);
}

const char *hd_kernels_name(void) {
	return hd_kernels_get()->name;
}
