/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding a device, the size of its work, and waiting for it. */
#include "hd_device.h"
#include "hd_device_private.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#define NAP_NS 20000

/* writer: a test's main thread before it uses devices, readers: any thread */
static _Atomic(hd_device_find *) used;
static _Atomic(struct hd_device *) offered;

void hd_device_use(hd_device_find *find) {
	atomic_store(&used, find);
}

int hd_device_of(const void *memory, size_t bytes, struct hd_device **device) {
	hd_device_find *find = atomic_load(&used);

	return find ? find(memory, bytes, device) : hd_cuda_find(memory, bytes, device);
}

void hd_device_offer(struct hd_device *device) {
	atomic_store(&offered, device);
}

int hd_device_open(int number, struct hd_device **device) {
	struct hd_device *other = atomic_load(&offered);

	if (!other)
		return hd_device_cuda(number, device);
	*device = other;
	return 0;
}

uint64_t hd_stage_job_blocks(const struct hd_stage_job *job) {
	switch (job->kind) {
	case HD_STAGE_TAKE:
		return hd_stage_blocks(job->take.values);
	case HD_STAGE_PACK:
		return hd_stage_blocks(job->pack.values);
	case HD_STAGE_UNPACK:
		return hd_stage_blocks(job->unpack.values);
	case HD_STAGE_PRODUCT:
		return hd_tiles(job->product.rows) * hd_tiles(job->product.columns);
	case HD_STAGE_SOFTMAX:
		return hd_lane_blocks(job->softmax.rows);
	case HD_STAGE_COLUMNS:
		return hd_lane_blocks(job->columns.columns);
	case HD_STAGE_AXPY:
		return hd_stage_blocks(job->axpy.values);
	case HD_STAGE_SGD:
		return hd_stage_blocks(job->sgd.values);
	case HD_STAGE_KINDS:
		break;
	}
	return 0;
}

#ifndef HD_WITH_CUDA
int hd_cuda_find(const void *memory, size_t bytes, struct hd_device **device) {
	return hd_device_fail(-ENOTSUP, "this build has no CUDA");
}

int hd_device_cuda(int number, struct hd_device **device) {
	return hd_device_fail(-ENOTSUP, "this build has no CUDA");
}
#endif

int hd_device_wait(struct hd_device *device, void *event, hd_ns span) {
	const struct timespec nap = {.tv_nsec = NAP_NS};
	struct timespec now;
	hd_ns until = 0, at;
	int rc;

	for (;;) {
		rc = device->ops->done(device, event);
		if (rc != 0)
			return rc < 0 ? rc : 0;
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		at = (hd_ns)now.tv_sec * HD_SECOND + (hd_ns)now.tv_nsec;
		until = until ? until : hd_ns_add(at, span);
		if (at >= until)
			return hd_device_fail(-ETIMEDOUT, "%s does not finish", device->name);
		(void)nanosleep(&nap, NULL);
	}
}
