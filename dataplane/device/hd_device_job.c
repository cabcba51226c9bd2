/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages as the fake device runs them. */
#include "hd_device_private.h"

void hd_stage_job_block(const struct hd_stage_job *job, uint64_t block) {
	switch (job->kind) {
	case HD_STAGE_TAKE:
		hd_take_block(&job->take, block);
		break;
	case HD_STAGE_PACK:
		hd_pack_block(&job->pack, block);
		break;
	case HD_STAGE_UNPACK:
		hd_unpack_block(&job->unpack, block);
		break;
	case HD_STAGE_PRODUCT:
		hd_product_block(&job->product, block);
		break;
	case HD_STAGE_SOFTMAX:
		hd_softmax_block(&job->softmax, block);
		break;
	case HD_STAGE_COLUMNS:
		hd_columns_block(&job->columns, block);
		break;
	case HD_STAGE_AXPY:
		hd_axpy_block(&job->axpy, block);
		break;
	case HD_STAGE_SGD:
		hd_sgd_block(&job->sgd, block);
		break;
	case HD_STAGE_KINDS:
		break;
	}
}

/* NULL: none. */
struct pointers {
	const void *memory[HD_STAGE_POINTERS];
};

static struct pointers pointers_of(const struct hd_stage_job *job) {
	switch (job->kind) {
	case HD_STAGE_TAKE:
		return (struct pointers){{job->take.from, job->take.copy, job->take.sums}};
	case HD_STAGE_PACK:
		return (struct pointers){{job->pack.from, job->pack.to, job->pack.flags}};
	case HD_STAGE_UNPACK:
		return (struct pointers){{job->unpack.from, job->unpack.to}};
	case HD_STAGE_PRODUCT:
		return (struct pointers
		){{job->product.a,
		   job->product.b,
		   job->product.c,
		   job->product.bias,
		   job->product.where}};
	case HD_STAGE_SOFTMAX:
		return (struct pointers
		){{job->softmax.score,
		   job->softmax.gradient,
		   job->softmax.label,
		   job->softmax.row}};
	case HD_STAGE_COLUMNS:
		return (struct pointers){{job->columns.from, job->columns.sum}};
	case HD_STAGE_AXPY:
		return (struct pointers){{job->axpy.x, job->axpy.y}};
	case HD_STAGE_SGD:
		return (struct pointers){{job->sgd.w, job->sgd.h, job->sgd.g}};
	case HD_STAGE_KINDS:
		break;
	}
	return (struct pointers){{NULL}};
}

void hd_stage_job_memory(const struct hd_stage_job *job, const void *memory[HD_STAGE_POINTERS]) {
	const struct pointers found = pointers_of(job);

	memcpy(memory, found.memory, sizeof found.memory);
}
