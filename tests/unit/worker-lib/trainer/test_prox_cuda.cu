/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU's step of FedProx has the bits of libheddle's. Exit 77 (skipped) where there is no device. */
#include "heddle.h"
#include "heddle_cuda.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

#define COUNT ((size_t)1000003)
#define SKIP 77

static int fail(const char *what) {
	(void)fprintf(stderr, "test_prox_cuda: %s\n", what);
	return 1;
}

/* Whole range of exponents, both signs. */
static void fill(float *x, unsigned *state) {
	for (size_t i = 0; i < COUNT; i++) {
		*state = *state * 1664525U + 1013904223U;
		x[i] = ldexpf((float)((int)(*state >> 8) - (1 << 23)), (int)(*state >> 4 & 63) - 55);
	}
}

static int compare(float *host[3], float *device[3], float rate, float mu) {
	float *back = (float *)malloc(COUNT * sizeof(float));
	int same;

	if (!back)
		return fail("no memory");
	for (int i = 0; i < 3; i++)
		if (cudaMemcpy(device[i], host[i], COUNT * sizeof(float), cudaMemcpyHostToDevice))
			return fail("copy to the device");
	if (heddle_cuda_prox_apply(device[0], device[1], device[2], COUNT, rate, mu, NULL) != 0)
		return fail("launch");
	if (cudaMemcpy(back, device[0], COUNT * sizeof(float), cudaMemcpyDeviceToHost))
		return fail("copy back");
	if (heddle_prox_apply(host[0], host[1], host[2], COUNT, rate, mu) != 0)
		return fail("heddle_prox_apply");
	same = memcmp(back, host[0], COUNT * sizeof(float)) == 0;
	free(back);
	return same ? 0 : fail("bits differ");
}

int main(void) {
	float *host[3], *device[3];
	unsigned state = 17;
	int devices = 0, bad = 0;

	if (heddle_cuda_prox_apply(NULL, NULL, NULL, 1, 1, 1, NULL) != -EINVAL)
		return fail("NULL is not refused");
	if (heddle_cuda_prox_apply(NULL, NULL, NULL, 0, NAN, 1, NULL) != -EINVAL)
		return fail("NaN is not refused");
	if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
		(void)puts("SKIP: no CUDA device");
		return SKIP;
	}
	for (int i = 0; i < 3; i++) {
		host[i] = (float *)malloc(COUNT * sizeof(float));
		if (!host[i] || cudaMalloc((void **)&device[i], COUNT * sizeof(float)))
			return fail("no memory");
		fill(host[i], &state);
	}
	bad += compare(host, device, 0.01F, 1);
	bad += compare(host, device, 0.3F, 0.001F);
	bad += compare(host, device, 1, 0);
	return bad != 0;
}
