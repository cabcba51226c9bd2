/* SPDX-License-Identifier: BSD-3-Clause */
/* The requirements on any device. Each function asserts. */
#ifndef DEVICE_CHECK_H
#define DEVICE_CHECK_H

#include "hd_device.h"

/* Every stage has the bits of its twin on the host: types, weights, alignments, sizes. */
void device_check_stages(struct hd_device *device);
/* When a block's flag is seen its bytes are there, while the stage goes on. Returns the blocks seen before the end. */
uint64_t device_check_flags(struct hd_device *device, uint32_t generation);
/* Many streams, each in its own order, some waiting for others. */
void device_check_order(struct hd_device *device, uint64_t seed);
/* Memory that is none of the device's is refused with words. */
void device_check_memory(struct hd_device *device);

/* Copies of any length and alignment, and no byte beside them; in the order of their stream. */
void device_check_copies(struct hd_device *device);

/* Every stage of layers has the bits of its twin on the host. */
void device_check_layers(struct hd_device *device);

/* Host memory, or the device's filled from it. */
float *device_host(struct hd_device *device, size_t bytes);
float *device_filled(struct hd_device *device, const float *values, size_t count);
/* Copies from `far` in device memory to `host`. */
void device_fetch(struct hd_device *device, const float *far, float *host, size_t count);
/* The same of any bytes, in either direction. */
void device_copy(
	struct hd_device *device,
	void *to,
	const void *from,
	size_t bytes,
	bool to_device
);
void device_run(struct hd_device *device, const struct hd_stage_job *job);

#endif
