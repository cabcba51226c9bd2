/* SPDX-License-Identifier: BSD-3-Clause */
/* The rounds and values of allreduce_values.c, for the model of their results. */
#ifndef ALLREDUCE_VALUES_H
#define ALLREDUCE_VALUES_H

#include "allreduce_world.h"

bool allreduce_is_integer(const struct kind *kind);
bool allreduce_is_sum(const struct kind *kind);
/* The first places name the members, one each. */
bool allreduce_has_places(const struct kind *kind);
/* In the place of a rank: its own value there, or that of all others. */
int allreduce_mark(const struct kind *kind, bool own);
/* In an ordinary place of a sum, rank r gives 1 << r times this. */
uint32_t allreduce_factor(const struct kind *kind, uint32_t round, uint64_t i);
/* A place with NaN, Inf, values that overflow, or integers of any bits. */
bool allreduce_is_strange(
	const struct allreduce_world *w,
	const struct kind *kind,
	uint32_t round,
	uint64_t i
);
/* The value of a rank: of a float type, of an integer type. */
double allreduce_value(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned rank,
	uint32_t round,
	uint64_t i
);
int64_t allreduce_integer(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned rank,
	uint32_t round,
	uint64_t i
);
/* The bits in the caller's memory: of any type, the lower ones. */
uint64_t allreduce_bits(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned rank,
	uint32_t round,
	uint64_t i
);
/* The bits as an integer of the round's type. */
int64_t allreduce_narrowed(const struct kind *kind, uint64_t x);

/* allreduce_result.c: bits `at` of the result in memory, and whether these are what the members give for value i */
uint64_t allreduce_held(const struct kind *kind, const struct call *call, uint64_t at);
bool allreduce_is_result(
	const struct allreduce_world *w,
	const struct kind *kind,
	const struct call *call,
	unsigned members,
	uint64_t i,
	uint64_t at
);

#endif
