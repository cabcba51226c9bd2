/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short collectives. Their values come with the requests, the controller combines them, and each REDUCE has what its
 * member receives: one round trip, no aggregator.
 *
 *   worker 0 --REQUEST(values)--\                    /--REDUCE(result)--> worker 0
 *   worker 1 --REQUEST(values)---> values, by rank --+--REDUCE(result)--> worker 1
 *
 * Values are combined in the order of ranks, as those of a ranked sum are, so that a round has the same bits in every
 * run. The result is kept as long as the round: a member whose REDUCE was lost with its session gets it again.
 *
 * Limits: `inline-bytes` for the longest buffer of a member, CTL_INLINE_ROUND_BYTES for all members together, which is
 * what leaves the controller at once, and CTL_INLINE_HELD_BYTES for all rounds. A round beyond one of them goes
 * through aggregators: its members still have their values.
 */
#include "ctl_base.h"
#include "ctl_inline.h"
#include "ctl_reduces.h"
#include "hd_group.h"
#include "hd_kernels.h"
#include "hd_roster.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The values of one member: the call's bytes. */
struct given {
	TAILQ_ENTRY(given) link;
	uint16_t worker;
	uint8_t attempt;
	uint8_t values[];
};

struct ctl_inline {
	TAILQ_HEAD(, given) given; /* by rank */
	uint32_t count;
	struct hd_roster members; /* of the result, */
	uint8_t *result; /* of r->bytes; NULL: there is none */
	uint64_t result_bytes;
};

static bool gives(uint8_t collective, uint16_t root, uint16_t worker) {
	switch (collective) {
	case HD_COLLECTIVE_BARRIER:
		return false;
	case HD_COLLECTIVE_BROADCAST:
	case HD_COLLECTIVE_SCATTER:
		return worker == root;
	default: /* also the root of a gather: its block is in the result */
		return true;
	}
}

bool ctl_inline_is_valid(const struct hd_msg_request *m) {
	return m->values.bytes == 0
		|| (gives(m->collective, m->root, m->worker) && m->values.bytes == m->bytes);
}

/* --- the members' values ---------------------------------------------------------------------- */

static struct given *find(const struct ctl_inline *in, uint16_t worker) {
	struct given *g = NULL;

	if (in)
		TAILQ_FOREACH (g, &in->given, link)
			if (g->worker >= worker)
				break;
	return g && g->worker == worker ? g : NULL;
}

static void forget(struct hd_controller *c, struct ctl_reduce *r, struct given *g) {
	TAILQ_REMOVE(&r->values->given, g, link);
	r->values->count--;
	c->inline_held -= r->call.bytes;
	free(g);
}

static void insert(struct ctl_inline *in, struct given *g) {
	struct given *after;

	TAILQ_FOREACH (after, &in->given, link)
		if (after->worker > g->worker)
			break;
	if (after)
		TAILQ_INSERT_BEFORE(after, g, link);
	else
		TAILQ_INSERT_TAIL(&in->given, g, link);
	in->count++;
}

static bool has_room(const struct hd_controller *c, const struct ctl_reduce *r) {
	const uint64_t bytes = r->call.bytes, count = r->values ? r->values->count : 0;

	return bytes <= c->inline_bytes && (count + 1) * bytes <= CTL_INLINE_ROUND_BYTES
		&& c->inline_held + bytes <= CTL_INLINE_HELD_BYTES;
}

void ctl_inline_take(
	struct hd_controller *c,
	struct ctl_reduce *r,
	const struct hd_msg_request *m
) {
	struct given *g = find(r->values, m->worker);

	if (g && m->values.bytes == r->call.bytes) {
		g->attempt = m->attempt;
		memcpy(g->values, m->values.data, m->values.bytes);
		return;
	}
	if (g) {
		forget(c, r, g);
		return;
	}
	if (m->values.bytes == 0 || m->values.bytes != r->call.bytes || !has_room(c, r))
		return;
	if (!r->values) {
		r->values = calloc(1, sizeof *r->values);
		if (!r->values)
			return;
		TAILQ_INIT(&r->values->given);
	}
	g = malloc(sizeof *g + m->values.bytes);
	if (!g)
		return;
	g->worker = m->worker;
	g->attempt = m->attempt;
	memcpy(g->values, m->values.data, m->values.bytes);
	c->inline_held += m->values.bytes;
	insert(r->values, g);
}

/* Of the member's newest request. */
static bool is_of(const struct ctl_reduce *r, const struct given *g) {
	return r->part[g->worker] == CTL_PART_ASKED && r->attempt[g->worker] == g->attempt;
}

static bool is_gathered(const struct ctl_call *call) {
	return call->collective == HD_COLLECTIVE_ALLGATHER
		|| call->collective == HD_COLLECTIVE_GATHER;
}

bool ctl_inline_can(const struct hd_controller *c, const struct ctl_reduce *r) {
	const uint64_t members = r->count[CTL_PART_ASKED];
	const uint64_t longest = r->call.bytes * (is_gathered(&r->call) ? members : 1);
	const struct given *g;
	uint32_t count = 0, due = 0;

	if (!r->values || r->begun || r->count[CTL_PART_DONE] > 0 || longest > c->inline_bytes
	    || members * longest > CTL_INLINE_ROUND_BYTES)
		return false;
	TAILQ_FOREACH (g, &r->values->given, link)
		count += is_of(r, g);
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] != CTL_PART_ASKED)
			continue;
		if (r->has[i])
			return false;
		due += gives(r->call.collective, r->call.root, i);
	}
	return count == due && due > 0;
}

/* --- the result ------------------------------------------------------------------------------- */

static void put(uint8_t dtype, void *sum, const uint8_t *x, size_t count) {
	if (hd_dtype_is_half(dtype))
		hd_half_to_f32(dtype, sum, (const void *)x, count);
	else
		memcpy(sum, x, count * hd_dtype_bytes(dtype));
}

/* As an aggregator does (hd_reduce.c): 16-bit floats in fp32, rounded once; a single member unchanged. */
static int combine(const struct ctl_reduce *r, uint8_t *result) {
	const size_t value = hd_dtype_bytes(r->dtype), count = value > 0 ? r->bytes / value : 0;
	const bool half = hd_dtype_is_half(r->dtype);
	const struct given *g;
	void *sum = result;
	uint32_t members = 0;

	assert(count > 0);
	if (half)
		sum = malloc(count * sizeof(float));
	if (!sum)
		return -ENOMEM;
	TAILQ_FOREACH (g, &r->values->given, link) {
		if (!is_of(r, g))
			continue;
		if (r->count[CTL_PART_ASKED] == 1)
			memcpy(result, g->values, r->bytes);
		else if (members == 0)
			put(r->dtype, sum, g->values, count);
		else
			hd_combine(r->dtype, r->op, sum, g->values, count);
		members++;
	}
	if (members > 1 && r->op == HD_REDUCE_OP_AVERAGE)
		hd_average(r->dtype, sum, count, members);
	if (members > 1 && half)
		hd_half_from_f32(r->dtype, (void *)result, sum, count, 1);
	if (half)
		free(sum);
	return 0;
}

/* The members' values, one after the other; those of a root alone are all. */
static void copy(const struct ctl_reduce *r, uint8_t *result) {
	const struct given *g;
	uint64_t at = 0;

	TAILQ_FOREACH (g, &r->values->given, link)
		if (is_of(r, g)) {
			memcpy(result + at, g->values, r->call.bytes);
			at += r->call.bytes;
		}
	assert(at == r->bytes);
}

int ctl_inline_make(struct hd_controller *c, struct ctl_reduce *r) {
	struct ctl_inline *in = r->values;

	assert(in && !in->result && !r->inlined);
	in->result = malloc(r->bytes);
	if (!in->result)
		return -ENOMEM;
	in->result_bytes = r->bytes;
	c->inline_held += r->bytes;
	if (ctl_call_is_copy(&r->call)) {
		copy(r, in->result);
	} else if (combine(r, in->result) < 0) {
		ctl_inline_reset(c, r);
		return -ENOMEM;
	}
	in->members = (struct hd_roster){0};
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED)
			hd_roster_set(&in->members, i, true);
	free(r->shards);
	r->shards = NULL;
	r->shard_count = 0;
	r->inlined = true;
	return 0;
}

const struct hd_roster *ctl_inline_members(const struct ctl_reduce *r) {
	assert(r->inlined);
	return &r->values->members;
}

/* --- what each member receives ---------------------------------------------------------------- */

/* Bytes of the member's block in a row of the call's bytes. */
static uint64_t block_of(const struct ctl_reduce *r, uint16_t worker, uint64_t *first) {
	const struct hd_roster *members = &r->values->members;
	const uint64_t value = hd_dtype_bytes(r->dtype);
	uint64_t values;
	uint32_t index = 0;

	assert(value > 0 && hd_roster_has(members, worker));
	values = r->call.bytes / value;
	for (uint16_t i = 0; i < worker; i++)
		index += hd_roster_has(members, i);
	*first = hd_block_first(values, index, members->count) * value;
	return hd_block_first(values, index + 1, members->count) * value - *first;
}

bool ctl_inline_receives(const struct ctl_reduce *r, uint16_t worker) {
	uint64_t first;

	switch (r->call.collective) {
	case HD_COLLECTIVE_BROADCAST:
		return worker != r->call.root;
	case HD_COLLECTIVE_REDUCE:
	case HD_COLLECTIVE_GATHER:
		return worker == r->call.root;
	case HD_COLLECTIVE_SCATTER:
		return worker != r->call.root && block_of(r, worker, &first) > 0;
	case HD_COLLECTIVE_REDUCE_SCATTER:
	case HD_COLLECTIVE_ALLTOALL:
		return block_of(r, worker, &first) > 0;
	default:
		return true;
	}
}

/* Its block of each row. */
static struct hd_blob column(const struct ctl_reduce *r, uint16_t worker, uint8_t *space) {
	struct hd_blob part = {.data = space};
	uint64_t first;
	const uint64_t bytes = block_of(r, worker, &first);

	for (uint64_t row = 0; row < r->bytes; row += r->call.bytes) {
		memcpy(space + part.bytes, r->values->result + row + first, bytes);
		part.bytes += (uint32_t)bytes;
	}
	assert(part.bytes <= HD_MESSAGE_BYTES_MAX);
	return part;
}

struct hd_blob ctl_inline_part(const struct ctl_reduce *r, uint16_t worker, uint8_t *space) {
	struct hd_blob part = {0};
	uint64_t first;

	assert(r->inlined);
	if (!ctl_inline_receives(r, worker))
		return part;
	switch (r->call.collective) {
	case HD_COLLECTIVE_SCATTER:
	case HD_COLLECTIVE_REDUCE_SCATTER:
		part.bytes = (uint32_t)block_of(r, worker, &first);
		part.data = r->values->result + first;
		return part;
	case HD_COLLECTIVE_ALLTOALL:
		return column(r, worker, space);
	default:
		return (struct hd_blob){r->values->result, (uint32_t)r->bytes};
	}
}

void ctl_inline_reset(struct hd_controller *c, struct ctl_reduce *r) {
	r->inlined = false;
	if (!r->values || !r->values->result)
		return;
	c->inline_held -= r->values->result_bytes;
	free(r->values->result);
	r->values->result = NULL;
}

void ctl_inline_fini(struct hd_controller *c, struct ctl_reduce *r) {
	struct given *g, *next;

	ctl_inline_reset(c, r);
	for (g = r->values ? TAILQ_FIRST(&r->values->given) : NULL; g; g = next) {
		next = TAILQ_NEXT(g, link);
		c->inline_held -= r->call.bytes;
		free(g);
	}
	free(r->values);
	r->values = NULL;
}
