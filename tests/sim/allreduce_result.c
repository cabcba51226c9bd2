/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of all-reduces, by a model that shares no code with the kernels. */
#include "allreduce_values.h"
#include "hd_stages.h"

#include <math.h>
#include <string.h>

#define FP16_INF 65520.0 /* from here on fp16 rounds to Inf */
#define HASH_PRIME UINT64_C(0x100000001b3)

/* To this many bits, ties to even. */
static double rounded(double x, int bits) {
	int exponent;
	double mantissa = frexp(x, &exponent);

	return isfinite(x) ? ldexp(rint(ldexp(mantissa, bits)), exponent - bits) : x;
}

/* As the type on the wire holds it. */
static double as_carried(const struct kind *kind, double x) {
	switch (kind->dtype) {
	case HD_DTYPE_FP16:
		return fabs(x) >= FP16_INF ? copysign((double)INFINITY, x) : rounded(x, 11);
	case HD_DTYPE_BF16:
		return rounded(x, 8);
	default:
		return x;
	}
}

static double step(const struct kind *kind, double a, double b) {
	switch (kind->op) {
	case HD_REDUCE_OP_MIN:
		return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
	case HD_REDUCE_OP_MAX:
		return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
	case HD_REDUCE_OP_PRODUCT:
		return a * b;
	default:
		return a + b;
	}
}

static double combined(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned members,
	uint32_t round,
	uint64_t i
) {
	double result = 0;
	bool any = false;

	if (allreduce_is_sum(kind)
	    && !allreduce_is_strange(w, kind, round, i)) /* exact, in any type */
		return (double)(members * allreduce_factor(kind, round, i));
	for (unsigned rank = 0; members >> rank; rank++) {
		double x;

		if (!(members >> rank & 1))
			continue;
		x = as_carried(kind, allreduce_value(w, kind, rank, round, i));
		result = any ? step(kind, result, x) : x;
		any = true;
	}
	return result;
}

static double result_of(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned members,
	uint32_t round,
	uint64_t i
) {
	const bool average = kind->op == HD_REDUCE_OP_AVERAGE;
	const int count = __builtin_popcount(members);
	double result = combined(w, kind, members, round, i);

	if (kind->type == HD_DTYPE_FP64)
		return average ? result / count : result;
	result = (double)(float)result;
	if (average)
		result = (double)((float)result * (1.0F / (float)count));
	return average || allreduce_is_strange(w, kind, round, i) ? as_carried(kind, result) :
								    result;
}

static int64_t integers_of(
	const struct allreduce_world *w,
	const struct kind *kind,
	unsigned members,
	uint32_t round,
	uint64_t i
) {
	uint64_t result = kind->op == HD_REDUCE_OP_PRODUCT;
	bool any = false;

	for (unsigned rank = 0; members >> rank; rank++) {
		const int64_t x = allreduce_integer(w, kind, rank, round, i);
		const bool less = x < (int64_t)result;

		if (!(members >> rank & 1))
			continue;
		if (allreduce_is_sum(kind))
			result += (uint64_t)x;
		else if (kind->op == HD_REDUCE_OP_PRODUCT)
			result *= (uint64_t)x;
		else if (!any || less == (kind->op == HD_REDUCE_OP_MIN))
			result = (uint64_t)x;
		any = true;
	}
	if (kind->op != HD_REDUCE_OP_AVERAGE)
		return allreduce_narrowed(kind, result);
	return allreduce_narrowed(kind, result) / __builtin_popcount(members);
}

uint64_t allreduce_held(const struct kind *kind, const struct call *call, uint64_t i) {
	const size_t bytes = hd_dtype_bytes(kind->type);
	uint64_t bits = 0;

	memcpy(&bits, (const uint8_t *)call->out + i * bytes, bytes);
	return bits;
}

static double held(const struct kind *kind, const struct call *call, uint64_t i) {
	const uint64_t bits = allreduce_held(kind, call, i);
	double x;

	if (allreduce_is_integer(kind))
		return (double)allreduce_narrowed(kind, bits);
	if (hd_dtype_is_half(kind->type))
		return (double)hd_stage_from_half(kind->type, (uint16_t)bits);
	if (kind->type == HD_DTYPE_FP32)
		return (double)hd_stage_float((uint32_t)bits);
	memcpy(&x, &bits, sizeof x);
	return x;
}

static bool is_same(double x, double y) {
	return isnan(x) ? isnan(y) : x == y;
}

bool allreduce_is_result(
	const struct allreduce_world *w,
	const struct kind *kind,
	const struct call *call,
	unsigned members,
	uint64_t i,
	uint64_t at
) {
	if (allreduce_is_integer(kind))
		return allreduce_narrowed(kind, allreduce_held(kind, call, at))
			== integers_of(w, kind, members, call->round, i);
	return is_same(held(kind, call, at), result_of(w, kind, members, call->round, i));
}

static uint64_t mix(const struct kind *kind, const struct call *call) {
	uint64_t sum = 0;

	for (uint64_t i = 0; i < kind->values; i++)
		sum = (sum ^ allreduce_held(kind, call, i)) * HASH_PRIME;
	return sum;
}

/* Which members the result has, by its first value, or values; 0: it is none. */
static unsigned
members_of(const struct allreduce_world *w, const struct kind *kind, const struct call *call) {
	unsigned members = 0;

	for (unsigned rank = 0; allreduce_has_places(kind) && rank < w->plan.workers; rank++) {
		const double x = held(kind, call, rank);
		const bool own = kind->op == HD_REDUCE_OP_AVERAGE ? x > 0 :
								    x == allreduce_mark(kind, true);

		members |= (unsigned)own << rank;
	}
	for (unsigned m = 1; !allreduce_has_places(kind) && m < 1U << w->plan.workers && !members;
	     m++) {
		const double want = allreduce_is_integer(kind) ?
			(double)integers_of(w, kind, m, call->round, 0) :
			result_of(w, kind, m, call->round, 0);

		if ((unsigned)__builtin_popcount(m) == call->ticket.delay
		    && is_same(held(kind, call, 0), want))
			members = m;
	}
	return (unsigned)__builtin_popcount(members) == call->ticket.delay ? members : 0;
}

static bool check_values(
	struct allreduce_worker *worker,
	const struct kind *kind,
	const struct call *call,
	unsigned members
) {
	struct allreduce_world *w = worker->world;
	bool finite = true;

	for (uint64_t i = 0; i < kind->values; i++) {
		const double want = allreduce_is_integer(kind) ?
			(double)integers_of(w, kind, members, call->round, i) :
			result_of(w, kind, members, call->round, i);

		finite &= isfinite(want) != 0;
		if (allreduce_is_result(w, kind, call, members, i, i))
			continue;
		allreduce_fail(
			w,
			"rank %u, round %u, type %u, operation %u: value %llu is %g, not %g",
			worker->rank,
			call->round,
			kind->type,
			kind->op,
			(unsigned long long)i,
			held(kind, call, i),
			want
		);
		return false;
	}
	w->not_finite += !finite;
	w->kinds[kind->type] |= 1U << kind->op;
	return true;
}

static void
check_sum(struct allreduce_worker *worker, const struct kind *kind, const struct call *call) {
	struct allreduce_world *w = worker->world;
	unsigned members = members_of(w, kind, call);

	if (!members)
		allreduce_fail(
			w,
			"rank %u, round %u, type %u, operation %u: %g is of no %u workers",
			worker->rank,
			call->round,
			kind->type,
			kind->op,
			held(kind, call, 0),
			call->ticket.delay
		);
	else if (!check_values(worker, kind, call, members))
		return;
	else if (!(members >> worker->rank & 1))
		allreduce_fail(
			w, "rank %u, round %u: it is not in its sum", worker->rank, call->round
		);
	else if (kind->exact > 0 && call->ticket.delay != kind->exact)
		allreduce_fail(w, "round %u: not of all workers", call->round);
	else if (members >> kind->odd & 1 && members != 1U << kind->odd)
		allreduce_fail(w, "round %u: a sum of different calls", call->round);
	else if (call->round >= ROUNDS_MAX)
		allreduce_fail(w, "too many rounds");
	else
		w->endings[call->round][worker->rank] = (struct ending
		){.members = (uint8_t)members,
		  .bits = mix(kind, call),
		  .weak = worker->apart || call->weak,
		  .at = hd_sim_now(w->sim)};
}

/* As one processor adds them, in the order of ranks. */
static void
check_ranked(struct allreduce_worker *worker, const struct kind *kind, const struct call *call) {
	struct allreduce_world *w = worker->world;
	bool finite = true;

	for (uint64_t i = 0; i < kind->values; i++) {
		const float got = hd_stage_float((uint32_t)allreduce_held(kind, call, i));
		float sum = (float)allreduce_value(w, kind, 0, call->round, i);

		for (unsigned rank = 1; rank < w->plan.workers; rank++)
			sum += (float)allreduce_value(w, kind, rank, call->round, i);
		if (kind->op == HD_REDUCE_OP_AVERAGE)
			sum *= 1.0F / (float)w->plan.workers;
		finite &= isfinite(sum) != 0;
		if (isnan(sum) ? isnan(got) : hd_stage_bits(sum) == hd_stage_bits(got))
			continue;
		allreduce_fail(w, "rank %u, round %u: not in order", worker->rank, call->round);
		return;
	}
	w->not_finite += !finite;
	w->bits += mix(kind, call); /* in any order of the workers */
}

void allreduce_check(struct allreduce_worker *worker, const struct call *call) {
	struct kind kind = allreduce_kind(worker->world, call->round);

	if (kind.collective != HD_COLLECTIVE_ALLREDUCE)
		allreduce_check_other(worker, &kind, call);
	else if (worker->world->plan.ranked)
		check_ranked(worker, &kind, call);
	else
		check_sum(worker, &kind, call);
}
