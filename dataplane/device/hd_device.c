/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding a device, and waiting for it. */
#include "hd_device.h"
#include "hd_device_private.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#define NAP_NS 20000

/* writer: a test's main thread before it uses devices, readers: any thread */
static _Atomic(hd_device_find *) used;

void hd_device_use(hd_device_find *find) {
	atomic_store(&used, find);
}

int hd_device_of(const void *memory, size_t bytes, struct hd_device **device) {
	hd_device_find *find = atomic_load(&used);

	return find ? find(memory, bytes, device) : hd_cuda_find(memory, bytes, device);
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
