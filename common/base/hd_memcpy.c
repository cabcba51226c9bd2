/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every x86-64 has these stores, so nothing is dispatched. A cached store first reads the line that it overwrites. Over
 * veth a receiver of 8 MiB updates needs a sixth less time with these stores, and its sender, whose packets then stay
 * in the third-level cache, a tenth less (docs/benchmarks/transfers.md).
 */
#include "hd_memcpy.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

#define LINE 64

/* `to` is at the start of a cache line. */
static void stream_line(uint8_t *to, const uint8_t *from) {
	const __m128i *source = (const void *)from;
	__m128i *target = (void *)to;
	__m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
	__m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);

	_mm_stream_si128(target, a);
	_mm_stream_si128(target + 1, b);
	_mm_stream_si128(target + 2, c);
	_mm_stream_si128(target + 3, d);
}

void hd_memcpy_stream(void *to, const void *from, size_t bytes) {
	uint8_t *target = to;
	const uint8_t *source = from;
	size_t at = (size_t)(-(uintptr_t)to % LINE);

	if (at > bytes)
		at = bytes;
	memcpy(target, source, at);
	for (; at + LINE <= bytes; at += LINE)
		stream_line(target + at, source + at);
	memcpy(target + at, source + at, bytes - at);
}

void hd_memcpy_stream_end(void) {
	_mm_sfence();
}
#else
void hd_memcpy_stream(void *to, const void *from, size_t bytes) {
	memcpy(to, from, bytes);
}

void hd_memcpy_stream_end(void) {}
#endif
