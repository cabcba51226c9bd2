/* SPDX-License-Identifier: BSD-3-Clause */
/* The local step of FedProx in GPU memory, with the bits of the host's kernels (hd_stages.h). */
#include "hd_stages.h"
#include "heddle_cuda.h"

#include <cerrno>
#include <cmath>
#include <cuda_runtime.h>

static const unsigned threads = 256;
static const size_t blocks_max = 65535;

static __global__ void
prox_apply(float *w, const float *w_t, const float *grad, size_t count, float rate, float mu) {
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
		w[i] = hd_stage_prox(w[i], w_t[i], grad[i], rate, mu);
}

extern "C" int heddle_cuda_prox_apply(
	float *w,
	const float *w_t,
	const float *grad,
	size_t count,
	float rate,
	float mu,
	void *stream
) {
	size_t blocks = (count + threads - 1) / threads;

	if (count > 0 && (!w || !w_t || !grad))
		return -EINVAL;
	if (!std::isfinite(rate) || !std::isfinite(mu) || rate < 0 || mu < 0)
		return -EINVAL;
	if (count == 0)
		return 0;
	if (blocks > blocks_max)
		blocks = blocks_max;
	prox_apply<<<(unsigned)blocks, threads, 0, (cudaStream_t)stream>>>(
		w, w_t, grad, count, rate, mu
	);
	return cudaGetLastError() == cudaSuccess ? 0 : -EIO;
}
