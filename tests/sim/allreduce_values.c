/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rounds of a world, and the values that workers give. A result names its members: in a sum rank r gives 1 << r
 * times something small, exact in any order; where a result cannot name them so, the first places do, one for each
 * rank. In strange rounds there are places in which each rank gives 0, NaN or Inf, others with 0 or a power of two of
 * which two overflow, and integers of any bits: the result of those, too, is the same in any order.
 */
#include "allreduce_values.h"
#include "hd_group.h"
#include "hd_stages.h"

#include <math.h>
#include <string.h>

#define HASH_PRIME UINT64_C(0x100000001b3)

bool allreduce_is_integer(const struct kind *kind) {
	return kind->type >= HD_DTYPE_INT8;
}

bool allreduce_is_sum(const struct kind *kind) {
	return kind->op == HD_REDUCE_OP_SUM || kind->op == HD_REDUCE_OP_AVERAGE;
}

/* The first places name the members. */
bool allreduce_has_places(const struct kind *kind) {
	return !allreduce_is_sum(kind)
		|| (allreduce_is_integer(kind) && kind->op == HD_REDUCE_OP_AVERAGE);
}

/* --- what a round is ------------------------------------------------------------------------- */

/* Half of the rounds have another type than fp32, some another operation than a sum. */
static void draw_type(struct hd_random *random, struct kind *kind) {
	static const uint8_t types[]
		= {HD_DTYPE_FP16,
		   HD_DTYPE_BF16,
		   HD_DTYPE_FP64,
		   HD_DTYPE_INT8,
		   HD_DTYPE_UINT8,
		   HD_DTYPE_INT32,
		   HD_DTYPE_INT64};

	if (hd_random_chance(random, 0.5))
		kind->type = kind->dtype = types[hd_random_below(random, sizeof types)];
	if (hd_random_chance(random, 0.4))
		kind->op = (uint8_t)hd_random_below(random, HD_REDUCE_OP_COUNT);
	if (allreduce_has_places(kind) && kind->values < WORKERS_MAX)
		kind->values = WORKERS_MAX;
}

/* 127 times 7 is exact in 11 bits, 127 in 7 and in 8. */
static uint32_t period_of(uint8_t dtype) {
	return dtype == HD_DTYPE_BF16 || hd_dtype_bytes(dtype) == 1 ? 1 : 7;
}

/* Blocks of a gather must fit into one array, and values that are only copied are any bits. */
static void
draw_other(const struct allreduce_world *w, struct hd_random *random, struct kind *kind) {
	const uint16_t root = (uint16_t)hd_random_below(random, w->plan.workers);

	kind->collective = (uint8_t)hd_random_below(random, HD_COLLECTIVE_SEND);
	switch (kind->collective) {
	case HD_COLLECTIVE_ALLREDUCE:
	case HD_COLLECTIVE_REDUCE_SCATTER:
		return;
	case HD_COLLECTIVE_REDUCE:
		kind->root = root;
		return;
	case HD_COLLECTIVE_BARRIER:
		kind->values = 0;
		kind->type = HD_DTYPE_FP32;
		break;
	case HD_COLLECTIVE_ALLGATHER:
	case HD_COLLECTIVE_ALLTOALL:
		break;
	default:
		kind->root = root;
		break;
	}
	if (kind->collective == HD_COLLECTIVE_ALLGATHER || kind->collective == HD_COLLECTIVE_GATHER)
		kind->values = 1 + kind->values / WORKERS_MAX * (WORKERS_MAX - 1) / WORKERS_MAX;
	if (kind->collective == HD_COLLECTIVE_ALLTOALL && kind->values > VALUES_MAX - WORKERS_MAX)
		kind->values = VALUES_MAX - WORKERS_MAX;
	if (kind->collective == HD_COLLECTIVE_BROADCAST && hd_random_chance(random, 0.5))
		kind->has = (unsigned)hd_random_below(random, 1U << WORKERS_MAX) & ~(1U << root);
	kind->dtype = kind->type;
	kind->op = HD_REDUCE_OP_SUM;
	kind->order = HD_GROUP_ARRIVAL;
	kind->bits = true;
}

struct kind allreduce_kind(const struct allreduce_world *w, uint32_t round) {
	static const uint8_t dtypes[]
		= {HD_DTYPE_FP32, HD_DTYPE_FP32, HD_DTYPE_FP16, HD_DTYPE_BF16};
	const bool for_switch = w->plan.with_switch && round % 4 > 0; /* which takes nothing else */
	struct hd_random random;
	struct kind kind = {.type = HD_DTYPE_FP32};

	hd_random_init(&random, w->plan.seed * 1000003 + round);
	kind.values
		= 1 + hd_random_below(&random, hd_random_chance(&random, 0.3) ? 50 : VALUES_MAX);
	kind.dtype = w->plan.ranked ? HD_DTYPE_FP32 : dtypes[hd_random_below(&random, 4)];
	if (w->plan.fp32 || for_switch)
		kind.dtype = HD_DTYPE_FP32;
	kind.order = w->plan.ranked || hd_random_chance(&random, 0.3) ? HD_GROUP_RANKED :
									HD_GROUP_ARRIVAL;
	kind.op = hd_random_chance(&random, 0.3) ? HD_REDUCE_OP_AVERAGE : HD_REDUCE_OP_SUM;
	kind.strange = w->plan.strange && hd_random_chance(&random, 0.4);
	kind.rarity = (uint32_t[]){2, 50, 3000}[hd_random_below(&random, 3)];
	if (w->plan.types && !for_switch)
		draw_type(&random, &kind);
	kind.period = period_of(kind.dtype);
	/* Beside these nothing small is left in a chunk of fixed point. */
	kind.big = !w->plan.with_switch || kind.dtype != HD_DTYPE_FP32;
	/* Without a world, a job begins with the workers that happen to be there. */
	kind.exact = w->plan.strict && w->plan.world > 0 && hd_random_chance(&random, 0.15) ?
		(uint16_t)w->plan.workers :
		0;
	kind.odd = w->plan.strict && hd_random_chance(&random, 0.05) ?
		(unsigned)hd_random_below(&random, w->plan.workers) :
		WORKERS_MAX;
	if (w->plan.mixed && hd_random_chance(&random, 0.7))
		draw_other(w, &random, &kind);
	allreduce_set_wait(w, round, &kind);
	return kind;
}

/* --- what a worker gives --------------------------------------------------------------------- */

uint32_t allreduce_factor(const struct kind *kind, uint32_t round, uint64_t i) {
	return (uint32_t)(1 + (i + round) % kind->period);
}

static uint64_t hash(uint64_t a, uint64_t b, uint64_t c) {
	uint64_t x = (a * HASH_PRIME + b) * HASH_PRIME + c;

	x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ x >> 32;
}

bool allreduce_is_strange(
	const struct allreduce_world *w,
	const struct kind *kind,
	uint32_t round,
	uint64_t i
) {
	return kind->strange && i >= (allreduce_has_places(kind) ? WORKERS_MAX : 1)
		&& hash(w->plan.seed, round, i) % kind->rarity == 0;
}

/* In the place of a rank: what it gives there, or what all others do. */
int allreduce_mark(const struct kind *kind, bool own) {
	switch (kind->op) {
	case HD_REDUCE_OP_MIN:
		return own ? 0 : 1;
	case HD_REDUCE_OP_MAX:
		return own ? 1 : 0;
	case HD_REDUCE_OP_PRODUCT:
		return own ? 2 : 1;
	default:
		return own ? 120 : 0; /* divided by all of them it is not 0 */
	}
}

/* Something ordinary: of a product a power of two. */
static int
usual(const struct allreduce_world *w,
      const struct kind *kind,
      unsigned rank,
      uint32_t round,
      uint64_t i) {
	uint64_t draw;
	int x;

	if (allreduce_has_places(kind) && i < WORKERS_MAX)
		return allreduce_mark(kind, rank == i);
	if (allreduce_is_sum(kind))
		return (int)((1U << rank) * allreduce_factor(kind, round, i));
	draw = hash(w->plan.seed + rank + 1, round, i);
	x = kind->op == HD_REDUCE_OP_PRODUCT ? 1 << draw % 2 : (int)(draw % 100);
	return kind->type != HD_DTYPE_UINT8 && (draw >> 8 & 1) != 0 ? -x : x;
}

/* Of fp16 the second is Inf as soon as it is fp16. */
static double big_value(const struct kind *kind, uint64_t draw) {
	if (draw % 2 == 0)
		return 0;
	if (kind->dtype == HD_DTYPE_FP16)
		return draw >> 8 & 1 ? 0x1p15 : 1e6;
	return kind->dtype == HD_DTYPE_FP64 ? 0x1p1023 : 0x1p127;
}

/* Not both in one place: Inf from an overflow and -Inf are NaN or not, as they come; likewise Inf times 0. */
static double strange_value(const struct kind *kind, uint64_t place, uint64_t draw) {
	static const double odd[] = {(double)NAN, (double)INFINITY, (double)-INFINITY};
	const bool product = kind->op == HD_REDUCE_OP_PRODUCT;

	if (kind->big && !product && place >> 40 & 1)
		return big_value(kind, draw);
	if (draw % 8 < 3)
		return odd[draw % 8];
	return product ? 1 : 0;
}

double allreduce_value(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned rank,
	uint32_t round,
	uint64_t i
) {
	if (allreduce_is_strange(w, kind, round, i))
		return strange_value(
			kind,
			hash(w->plan.seed, round, i),
			hash(w->plan.seed + rank + 1, round, i) >> 8
		);
	if (w->plan.ranked) /* what rounding makes depend on the order of adding */
		return (double
		)((float)(1 + rank) / 3.0F + (float)(i % 97) * 1e-4F * (float)(rank * rank + 1));
	return (double)usual(w, kind, rank, round, i);
}

int64_t allreduce_narrowed(const struct kind *kind, uint64_t x) {
	switch (kind->type) {
	case HD_DTYPE_INT8:
		return (int8_t)x;
	case HD_DTYPE_UINT8:
		return (uint8_t)x;
	case HD_DTYPE_INT32:
		return (int32_t)x;
	default:
		return (int64_t)x;
	}
}

int64_t allreduce_integer(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned rank,
	uint32_t round,
	uint64_t i
) {
	if (allreduce_is_strange(w, kind, round, i))
		return allreduce_narrowed(kind, hash(w->plan.seed + rank + 1, round, i));
	return usual(w, kind, rank, round, i);
}

/* -0 and NaN of any payload among them. */
static uint64_t any_bits(const struct kind *kind, uint64_t draw) {
	const size_t bits = 8 * hd_dtype_bytes(kind->type);

	return (draw % 5 == 0 ? UINT64_C(1) << 63 : draw) >> (64 - bits);
}

uint64_t allreduce_bits(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned rank,
	uint32_t round,
	uint64_t i
) {
	double x;

	if (kind->bits)
		return any_bits(kind, hash(w->plan.seed + rank, round, i));
	if (allreduce_is_integer(kind))
		return (uint64_t)allreduce_integer(w, kind, rank, round, i);
	x = allreduce_value(w, kind, rank, round, i);
	if (kind->type == HD_DTYPE_FP64) {
		uint64_t bits;

		memcpy(&bits, &x, sizeof bits);
		return bits;
	}
	return hd_dtype_is_half(kind->type) ? hd_stage_half(kind->type, (float)x) :
					      hd_stage_bits((float)x);
}

void allreduce_fill(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned rank,
	uint32_t round,
	void *in
) {
	const size_t bytes = hd_dtype_bytes(kind->type);

	for (uint64_t i = 0; i < kind->values; i++) {
		uint64_t bits = allreduce_bits(w, kind, rank, round, i);

		memcpy((uint8_t *)in + i * bytes, &bits, bytes);
	}
}

bool allreduce_changed(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned rank,
	const struct call *call
) {
	const size_t bytes = hd_dtype_bytes(kind->type);

	for (uint64_t i = 0; i < kind->values; i++) {
		uint64_t bits = allreduce_bits(w, kind, rank, call->round, i);

		if (memcmp((const uint8_t *)call->in + i * bytes, &bits, bytes) != 0)
			return true;
	}
	return false;
}
