/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * splitmix64 (Steele, Lea, Flood, OOPSLA 2014) for random choices that several programs, ours or not, must make
 * equally: generated data, the workers drawn for a federated round. It uses only 64-bit outputs and arithmetic on them.
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
/* sqrt(-2 ln(1 - u1)) cos(2 pi u2): the other value of the pair is not used. */
double hd_split_normal(struct hd_split *split);
/* Uniform below `count` (at most 2^32). */
uint32_t hd_split_below(struct hd_split *split, uint32_t count);
/* 0 .. count - 1 in an order that depends on `seed` only (Fisher and Yates, from the end). */
void hd_split_permutation(uint32_t *order, uint32_t count, uint64_t seed);

#endif
