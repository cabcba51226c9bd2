/* SPDX-License-Identifier: BSD-3-Clause */
/* Seeded pseudo-random numbers (xoshiro256**, seeded by splitmix64; Blackman & Vigna) for tests, the
 * simulator and reproducible initial weights. Not for secrets: those come from struct hd_entropy. */
#ifndef HD_RANDOM_H
#define HD_RANDOM_H

#include "hd_types.h"

struct hd_random {
	uint64_t state[4];
};

void hd_random_init(struct hd_random *random, uint64_t seed);
uint64_t hd_random_u64(struct hd_random *random);
/* Uniform in [0, bound), unbiased; bound > 0. */
uint64_t hd_random_below(struct hd_random *random, uint64_t bound);
/* Uniform in [0, 1). */
double hd_random_unit(struct hd_random *random);
double hd_random_exponential(struct hd_random *random, double mean);
bool hd_random_chance(struct hd_random *random, double probability);

#endif
