/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_split.h"

#include <math.h>

#define TWO_PI 6.283185307179586

uint64_t hd_split_next(struct hd_split *split) {
	uint64_t z = split->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

double hd_split_unit(struct hd_split *split) {
	return (double)(hd_split_next(split) >> 11) * 0x1p-53;
}

double hd_split_normal(struct hd_split *split) {
	double u1 = 1.0 - hd_split_unit(split), u2 = hd_split_unit(split);

	return sqrt(-2.0 * log(u1)) * cos(TWO_PI * u2);
}

uint32_t hd_split_below(struct hd_split *split, uint32_t count) {
	return (uint32_t)(hd_split_unit(split) * (double)count);
}

void hd_split_permutation(uint32_t *order, uint32_t count, uint64_t seed) {
	struct hd_split split = {seed};

	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	for (uint32_t i = count; i-- > 1;) {
		uint32_t j = hd_split_below(&split, i + 1), other = order[j];

		order[j] = order[i];
		order[i] = other;
	}
}
