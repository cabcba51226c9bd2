/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: what all its headers share. Include heddle.h. */
#ifndef HEDDLE_BASE_H
#define HEDDLE_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_VERSION_MAJOR 0
#define HEDDLE_VERSION_MINOR 2
#define HEDDLE_VERSION_PATCH 0

struct heddle; /* the membership of one worker in one job */
struct heddle_spec; /* a job's description */
struct heddle_ticket; /* one operation (push, pull or collective), until it is freed */

/* The memory of a buffer. CUDA: on a GPU, accessed in the order of the stream (docs/library.md, "GPU memory"). */
enum heddle_memory {
	HEDDLE_MEMORY_HOST = 0,
	HEDDLE_MEMORY_CUDA = 1
};

/* The kind of an operation. Later versions may add kinds. */
enum heddle_direction {
	HEDDLE_DIRECTION_PUSH = 0,
	HEDDLE_DIRECTION_PULL = 1,
	HEDDLE_DIRECTION_ALLREDUCE = 3
};

/* The type of fp32 values on the wire. The server's model is fp32, as are the caller's buffers, except those of
 * collectives (enum heddle_type). */
enum heddle_payload {
	HEDDLE_PAYLOAD_FP32 = 0,
	HEDDLE_PAYLOAD_FP16 = 1, /* IEEE 754 binary16: 11 bits of precision, up to 65504 */
	HEDDLE_PAYLOAD_BF16 = 2, /* the upper half of fp32: 8 bits of precision, the same range */
	HEDDLE_PAYLOAD_FIXED32 = 3 /* updates only: 32-bit multiples of a power of two */
};

/* Elements first .. first + count - 1: values of the model, counted over all tensors, or rows of a data set. */
struct heddle_range {
	uint64_t first, count;
};

/* The number of updates in a model version (its lower 48 bits). The upper 16 bits are the server's incarnation,
 * which changes when a restart lost updates. Treat a version as opaque otherwise. */
#define HEDDLE_VERSION_COUNTER(version) ((version) & ((UINT64_C(1) << 48) - 1))

/* The message for an errno of this library, negative or positive. Never NULL. */
const char *heddle_strerror(int error);
/* Details of the last error that a call of this thread returned; "" when there are none. */
const char *heddle_last_error(void);
/* "0.2.0" */
const char *heddle_version_text(void);

#ifdef __cplusplus
}
#endif

#endif
