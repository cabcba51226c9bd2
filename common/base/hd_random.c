/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_assert.h"
#include "hd_random.h"

#include <math.h>

static uint64_t splitmix64(uint64_t *state) {
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int k) {
	return (x << k) | (x >> (64 - k));
}

void hd_random_init(struct hd_random *random, uint64_t seed) {
	for (size_t i = 0; i < 4; i++)
		random->state[i] = splitmix64(&seed);
}

uint64_t hd_random_u64(struct hd_random *random) {
	uint64_t *s = random->state;
	uint64_t result = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

uint64_t hd_random_below(struct hd_random *random, uint64_t bound) {
	uint64_t limit, x;

	hd_assert(bound > 0);
	limit = UINT64_MAX - UINT64_MAX % bound;
	do {
		x = hd_random_u64(random);
	} while (x >= limit);
	return x % bound;
}

double hd_random_unit(struct hd_random *random) {
	return (double)(hd_random_u64(random) >> 11) * 0x1.0p-53;
}

double hd_random_exponential(struct hd_random *random, double mean) {
	return -mean * log1p(-hd_random_unit(random));
}

bool hd_random_chance(struct hd_random *random, double probability) {
	return hd_random_unit(random) < probability;
}
