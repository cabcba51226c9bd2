/* SPDX-License-Identifier: BSD-3-Clause */
/* Big-endian integers at any address. Compilers turn each into one load and a byte swap. */
#ifndef HD_BYTES_H
#define HD_BYTES_H

#include "hd_types.h"

#include <endian.h>
#include <string.h>

static inline uint16_t hd_get16(const uint8_t *data) {
	uint16_t x;

	memcpy(&x, data, sizeof x);
	return be16toh(x);
}

static inline uint32_t hd_get32(const uint8_t *data) {
	uint32_t x;

	memcpy(&x, data, sizeof x);
	return be32toh(x);
}

static inline uint64_t hd_get64(const uint8_t *data) {
	uint64_t x;

	memcpy(&x, data, sizeof x);
	return be64toh(x);
}

static inline void hd_put16(uint8_t *data, uint16_t x) {
	x = htobe16(x);
	memcpy(data, &x, sizeof x);
}

static inline void hd_put32(uint8_t *data, uint32_t x) {
	x = htobe32(x);
	memcpy(data, &x, sizeof x);
}

static inline void hd_put64(uint8_t *data, uint64_t x) {
	x = htobe64(x);
	memcpy(data, &x, sizeof x);
}

#endif
