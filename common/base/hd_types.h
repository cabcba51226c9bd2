/* SPDX-License-Identifier: BSD-3-Clause */
/* Units and small value types that every component shares. */
#ifndef HD_TYPES_H
#define HD_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of one node's own monotonic clock. Two nodes' values are never compared directly:
 * struct hd_clock (hd_endpoint.h) converts between them, with an error bound. */
typedef uint64_t hd_ns;

#define HD_NEVER UINT64_MAX
#define HD_US ((hd_ns)1000)
#define HD_MS ((hd_ns)1000000)
#define HD_SECOND ((hd_ns)1000000000)

/* An IPv4 UDP endpoint, host byte order. {0, 0} means "none". */
struct hd_addr {
	uint32_t ipv4;
	uint16_t port;
};

static inline bool hd_addr_equal(struct hd_addr a, struct hd_addr b) {
	return a.ipv4 == b.ipv4 && a.port == b.port;
}

static inline bool hd_addr_is_none(struct hd_addr a) {
	return a.ipv4 == 0 && a.port == 0;
}

static inline hd_ns hd_ns_min(hd_ns a, hd_ns b) {
	return a < b ? a : b;
}

static inline hd_ns hd_ns_max(hd_ns a, hd_ns b) {
	return a > b ? a : b;
}

/* The sum of a time and a span, saturating at HD_NEVER. */
static inline hd_ns hd_ns_add(hd_ns at, hd_ns span) {
	return span > HD_NEVER - at ? HD_NEVER : at + span;
}

/* Element types, numbered as on the wire. Models are FP32; they and updates travel as FP32, FP16 or BF16, updates also
 * as SPARSE32 and FIXED32. The others are of all-reduces only. */
enum hd_dtype {
	HD_DTYPE_FP32 = 0,
	HD_DTYPE_FP16 = 1,
	HD_DTYPE_BF16 = 2,
	HD_DTYPE_FIXED32 = 3,
	HD_DTYPE_SPARSE32 = 4,
	HD_DTYPE_FP64 = 5,
	HD_DTYPE_INT8 = 6,
	HD_DTYPE_UINT8 = 7,
	HD_DTYPE_INT32 = 8,
	HD_DTYPE_INT64 = 9,
	HD_DTYPE_COUNT
};

/* How an all-reduce combines the values of its members, numbered as on the wire. */
enum hd_reduce_op {
	HD_REDUCE_OP_SUM = 0,
	HD_REDUCE_OP_AVERAGE = 1, /* the sum divided by the number of members */
	HD_REDUCE_OP_MIN = 2,
	HD_REDUCE_OP_MAX = 3,
	HD_REDUCE_OP_PRODUCT = 4,
	HD_REDUCE_OP_COUNT
};

/* The weight of an update by its delay; papers: constant; C/sqrt(tau_max t); AdaDelay C/sqrt(t + tau). */
enum hd_staleness_rule {
	HD_STALENESS_CONSTANT = 0,
	HD_STALENESS_INV_SQRT = 1,
	HD_STALENESS_ADADELAY = 2,
	HD_STALENESS_COUNT
};

/* When the server makes a step of a job (docs/protocol/commit.md, Synchronous steps). */
enum hd_sync {
	HD_SYNC_NONE = 0, /* of each update */
	HD_SYNC_ALL = 1, /* of one update of every worker that is here */
	HD_SYNC_N = 2, /* of the first updates of n different workers */
	HD_SYNC_N_BATCH = 3, /* of the first n updates of any workers */
	HD_SYNC_FEDERATED
		= 4, /* of those of the workers drawn for each round (struct hd_federated) */
	HD_SYNC_COUNT
};

/* A model version: the server's incarnation and the number of updates applied. On the wire incarnation:16, counter:48.
 * A version of an older incarnation whose counter is above the restart point is on a lost history. */
typedef uint64_t hd_version;

#define HD_VERSION_COUNTER_MAX ((UINT64_C(1) << 48) - 1)

static inline hd_version hd_version_make(uint16_t incarnation, uint64_t counter) {
	return ((uint64_t)incarnation << 48) | (counter & HD_VERSION_COUNTER_MAX);
}

static inline uint16_t hd_version_incarnation(hd_version version) {
	return (uint16_t)(version >> 48);
}

static inline uint64_t hd_version_counter(hd_version version) {
	return version & HD_VERSION_COUNTER_MAX;
}

/* True for the 16-bit floats. */
static inline bool hd_dtype_is_half(uint8_t dtype) {
	return dtype == HD_DTYPE_FP16 || dtype == HD_DTYPE_BF16;
}

/* True for the types with one value for each of a model's. */
static inline bool hd_dtype_is_model(uint8_t dtype) {
	return dtype == HD_DTYPE_FP32 || hd_dtype_is_half(dtype);
}

/* True for the types in which an update may have one value for each of the model's. */
static inline bool hd_dtype_is_dense(uint8_t dtype) {
	return hd_dtype_is_model(dtype) || dtype == HD_DTYPE_FIXED32;
}

/* True for the types of updates. */
static inline bool hd_dtype_is_update(uint8_t dtype) {
	return hd_dtype_is_dense(dtype) || dtype == HD_DTYPE_SPARSE32;
}

/* True for the types of all-reduces. */
static inline bool hd_dtype_is_element(uint8_t dtype) {
	return hd_dtype_is_model(dtype) || (dtype >= HD_DTYPE_FP64 && dtype < HD_DTYPE_COUNT);
}

/* Whether updates or all-reduces combine values of this type so (enum hd_reduce_op). */
static inline bool hd_dtype_has_op(uint8_t dtype, uint8_t op) {
	return op == HD_REDUCE_OP_SUM || (op < HD_REDUCE_OP_COUNT && hd_dtype_is_element(dtype));
}

/* Bytes of one value of this type (sparse: of a unit of its runs, hd_runs.h), 0 if unknown. */
static inline size_t hd_dtype_bytes(uint8_t dtype) {
	static const uint8_t bytes[HD_DTYPE_COUNT] = {4, 2, 2, 4, 4, 8, 1, 1, 4, 8};

	return dtype < HD_DTYPE_COUNT ? bytes[dtype] : 0;
}

#endif
