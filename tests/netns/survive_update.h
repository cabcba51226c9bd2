/* SPDX-License-Identifier: BSD-3-Clause */
/* The updates of the survival tests: their values can be computed from the worker and the time of the push. */
#ifndef SURVIVE_UPDATE_H
#define SURVIVE_UPDATE_H

#include <stddef.h>
#include <stdint.h>

#define SURVIVE_RATE 0.125f
#define SURVIVE_MOMENTUM 0.9f
#define SURVIVE_DECAY 1e-3f

/* In [-1, 1), 24 bits each: a linear congruential generator (Knuth's MMIX constants), seeded by a mix of both
 * numbers so that neighbours share nothing. */
static inline void survive_update(uint32_t worker, uint32_t round, float *values, size_t count) {
	uint64_t state = (((uint64_t)worker << 32) | round) * UINT64_C(0x9e3779b97f4a7c15);

	state ^= state >> 29;
	for (size_t i = 0; i < count; i++) {
		state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		values[i] = (float)((int32_t)(state >> 40) - (1 << 23)) / (float)(1 << 23);
	}
}

#endif
