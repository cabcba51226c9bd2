/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libheddle's computations on arrays in GPU memory (libheddle_cuda.a, which is built when there is nvcc). Updates are
 * sent from host memory: see enum heddle_memory.
 */
#ifndef HEDDLE_CUDA_H
#define HEDDLE_CUDA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* heddle_prox_apply() with w, w_t and grad in the memory of the current device, in the order of `stream` (a
 * cudaStream_t; NULL: the default one): returns when it is queued. The same bits as on the host. 0; -EINVAL as there;
 * -EIO: CUDA refused the launch. */
int heddle_cuda_prox_apply(
	float *w,
	const float *w_t,
	const float *grad,
	size_t count,
	float rate,
	float mu,
	void *stream
);

#ifdef __cplusplus
}
#endif

#endif
