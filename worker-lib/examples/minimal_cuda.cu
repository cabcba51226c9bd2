/* SPDX-License-Identifier: BSD-3-Clause */
/* minimal.c with model and gradient in the memory of a GPU: four workers move w towards (0, 1, ... 9). */
#include <cuda_runtime.h>

#include <heddle.h>
#include <stdio.h>

#define TEN 10

/* Of |w - target|^2 / 2. */
static __global__ void gradient(float *g, const float *w) {
	g[threadIdx.x] = w[threadIdx.x] - (float)threadIdx.x;
}

static int train(struct heddle *fabric, float *w, float *g, cudaStream_t stream) {
	struct heddle_pull_options pull = HEDDLE_PULL_OPTIONS_INIT;
	struct heddle_push_options push = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_status status = HEDDLE_STATUS_INIT;
	int rc = 0;

	pull.memory = push.memory = HEDDLE_MEMORY_CUDA;
	pull.stream = push.stream = stream;
	for (int step = 0; step < 500 && rc >= 0; step++) {
		rc = heddle_pull(fabric, w, &pull, -1, &status);
		if (rc < 0)
			break;
		gradient<<<1, TEN, 0, stream>>>(g, w);
		/* It begins when the stream has computed the gradient. 1: dropped, too old to help. */
		rc = heddle_push(fabric, g, status.version, &push, -1, NULL);
	}
	return rc;
}

int main(void) {
	const uint64_t ten = TEN;
	struct heddle_spec *spec;
	struct heddle *fabric;
	cudaStream_t stream;
	float *memory, last;

	if (cudaMalloc(&memory, 2 * TEN * sizeof *memory) != cudaSuccess
	    || cudaStreamCreate(&stream) != cudaSuccess)
		return fprintf(stderr, "%s\n", cudaGetErrorString(cudaGetLastError())), 1;
	if (heddle_spec_create(NULL, NULL, &spec) < 0
	    || heddle_spec_add_tensor(spec, "w", &ten, 1, HEDDLE_INIT_ZERO, 0) < 0
	    || heddle_open(spec, NULL, &fabric) < 0
	    || train(fabric, memory, memory + TEN, stream) < 0)
		return fprintf(stderr, "%s\n", heddle_last_error()), 1;
	if (cudaMemcpy(&last, memory + TEN - 1, sizeof last, cudaMemcpyDeviceToHost) != cudaSuccess)
		return fprintf(stderr, "%s\n", cudaGetErrorString(cudaGetLastError())), 1;
	printf("w[9] = %.3f\n", last);
	heddle_spec_destroy(spec);
	return heddle_close(fabric, 1000) < 0;
}
