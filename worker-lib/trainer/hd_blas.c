/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of the BLAS. */
#include "hd_trainer.h"

#include <cblas.h>
#include <errno.h>
#include <sys/mman.h>

#define BUFFERS_SIDE 128 /* from this size on BLAS uses its buffers */
/* The memory that OpenBLAS maps at its first product, with a margin. If it gets none, it tries for ever. */
#define BLAS_BYTES ((size_t)129 << 20)

int hd_model_take_buffers(void) {
	static float a[BUFFERS_SIDE * BUFFERS_SIDE], b[BUFFERS_SIDE * BUFFERS_SIDE];
	static bool taken;
	void *there;

	if (taken)
		return 0;
	there = mmap(NULL, BLAS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (there == MAP_FAILED)
		return -ENOMEM;
	(void)munmap(there, BLAS_BYTES);
	/* Threads of BLAS would take the cores from the other workers of this machine. */
	openblas_set_num_threads(1);
	cblas_sgemm(
		CblasRowMajor,
		CblasNoTrans,
		CblasNoTrans,
		BUFFERS_SIDE,
		BUFFERS_SIDE,
		BUFFERS_SIDE,
		1.0f,
		a,
		BUFFERS_SIDE,
		a,
		BUFFERS_SIDE,
		0.0f,
		b,
		BUFFERS_SIDE
	);
	taken = true;
	return 0;
}
