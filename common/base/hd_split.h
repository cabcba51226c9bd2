/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * splitmix64 (Steele, Lea, Flood, OOPSLA 2014) for what several programs are to draw alike, ours or not: generated
 * data, who takes part in a federated round. Its 64-bit outputs and the arithmetic on them are all there is to it.
 */
#ifndef HD_SPLIT_H
#define HD_SPLIT_H

#include "hd_types.h"

struct hd_split {
	uint64_t state;
};
uint64_t hd_split_next(struct hd_split *split);
/* In [0, 1): the upper 53 bits. */
double hd_split_unit(struct hd_split *split);
/* sqrt(-2 ln(1 - u1)) cos(2 pi u2): one of a pair, the other is not used. */
double hd_split_normal(struct hd_split *split);
/* Below `count` (at most 2^32). */
uint32_t hd_split_below(struct hd_split *split, uint32_t count);
/* 0 .. count - 1 in an order that `seed` alone decides (Fisher and Yates, from the end). */
void hd_split_permutation(uint32_t *order, uint32_t count, uint64_t seed);

#endif
