/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices with memory of their own, on which the stages of common/kernels/hd_stages.h and hd_layers.h run:
 *
 *   hd_device_cuda.c  NVIDIA's, through the driver's library, which is loaded at the first request
 *   hd_device_fake.c  the host as a device: the same stages, with delays and failures, from a seed
 *
 * Streams and events are CUDA's: operations in a stream run in their order; an event that was recorded in a stream is
 * done when the stream has reached it. A caller's stream belongs to its framework (a cudaStream_t).
 *
 * Functions return 0 or more, or -errno, with a text in hd_device_words():
 *   -EINVAL (pointer, stream), -ENOMEM, -ENOTSUP (no driver, no code for this device),
 *   -EIO (the device failed: all its results are lost, and every further call fails likewise).
 * Any thread may call any of them.
 */
#ifndef HD_DEVICE_H
#define HD_DEVICE_H

#include "hd_layers.h"

struct hd_device;

enum hd_stage_kind {
	HD_STAGE_TAKE,
	HD_STAGE_PACK,
	HD_STAGE_UNPACK,
	HD_STAGE_PRODUCT, /* from here on: those of layers */
	HD_STAGE_SOFTMAX,
	HD_STAGE_COLUMNS,
	HD_STAGE_AXPY,
	HD_STAGE_SGD,
	HD_STAGE_KINDS
};

#define HD_STAGE_WIDEST 65535 /* as many groups as a stage has blocks, up to this many */

/* Its memory is the device's, or the host's that the device can address (host_allocate), or both. */
struct hd_stage_job {
	enum hd_stage_kind kind;
	uint32_t
		width; /* groups of threads, each fills a multiprocessor; 0: the device's `width` */
	union {
		struct hd_take take;
		struct hd_pack pack;
		struct hd_unpack unpack;
		struct hd_product product;
		struct hd_softmax softmax;
		struct hd_columns columns;
		struct hd_axpy axpy;
		struct hd_sgd_stage sgd;
	};
};

/* Blocks of its stage. */
uint64_t hd_stage_job_blocks(const struct hd_stage_job *job);

struct hd_device_ops {
	/* Whether a caller's stream can be used: of this device, and not being captured. */
	int (*check_stream)(struct hd_device *device, void *stream);
	int (*allocate)(struct hd_device *device, size_t bytes, void **memory);
	void (*release)(struct hd_device *device, void *memory);
	/* Host memory that the device can address. */
	int (*host_allocate)(struct hd_device *device, size_t bytes, void **memory);
	void (*host_release)(struct hd_device *device, void *memory);
	int (*stream_create)(struct hd_device *device, void **stream);
	void (*stream_destroy)(struct hd_device *device, void *stream);
	int (*event_create)(struct hd_device *device, void **event);
	void (*event_destroy)(struct hd_device *device, void *event);
	int (*record)(struct hd_device *device, void *event, void *stream);
	/* Makes all later operations in the stream wait for the recorded event. */
	int (*after)(struct hd_device *device, void *stream, void *event);
	int (*launch)(struct hd_device *device, void *stream, const struct hd_stage_job *job);
	/* Copies bytes, of any alignment, between its memory and the host's that the device can address, or within its
	 * memory. */
	int (*copy
	)(struct hd_device *device, void *stream, void *to, const void *from, size_t bytes);
	/* 1: the recorded event is done; 0: not yet. */
	int (*done)(struct hd_device *device, void *event);
};

struct hd_device {
	const struct hd_device_ops *ops;
	char name[64];
	uint32_t width; /* groups of threads of a stage: 1/20 of the multiprocessors, at least 1 */
};

/* Finds the device that owns this memory. -EINVAL (a host's, freed, or fewer bytes), -ENOTSUP (no driver, built without
 * CUDA). */
int hd_device_of(const void *memory, size_t bytes, struct hd_device **device);
/* The CUDA device of this number. -ENOTSUP, -EIO. It lives as long as the process. */
int hd_device_cuda(int number, struct hd_device **device);
/* The same, or the one that a test offers. */
int hd_device_open(int number, struct hd_device **device);
typedef int hd_device_find(const void *memory, size_t bytes, struct hd_device **device);
/* Replaces CUDA in hd_device_of(); NULL: CUDA again. For tests. */
void hd_device_use(hd_device_find *find);
/* Makes hd_device_open() return this one for every number; NULL: CUDA's again. For tests. */
void hd_device_offer(struct hd_device *device);
/* Text of this thread's last failing call. Never NULL. */
const char *hd_device_words(void);
/* Sets the text and returns the code. */
__attribute__((format(printf, 2, 3))) int hd_device_fail(int code, const char *format, ...);

/* Waits: 0, -ETIMEDOUT, -EIO. */
int hd_device_wait(struct hd_device *device, void *event, hd_ns span);

#endif
