/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives through shared memory, step by step: the members of one process take turns in every order. Results are
 * those of a plain model; a member that stops at any step leaves a round that is complete for all others or for none.
 */
#include "hd_group.h"
#include "hd_random.h"
#include "hd_shared.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS_MAX 5
#define VALUES_MAX 6000 /* of a member's call: more than each adds for itself */
#define PIECE_BYTES 4096
#define TOKEN 77
#define STEPS_MAX 100000

struct member {
	struct hd_shared_map map;
	struct hd_shared_call call;
	struct hd_shared_run run;
	enum hd_shared_next end; /* MOVED: not yet */
	int32_t in[MEMBERS_MAX * VALUES_MAX], out[MEMBERS_MAX * VALUES_MAX];
};

struct round {
	void *memory;
	uint32_t members;
	struct member member[MEMBERS_MAX];
	struct hd_random random;
};

static void open_round(struct round *t, uint32_t members, uint64_t seed) {
	const size_t bytes = hd_shared_bytes(members, PIECE_BYTES);

	memset(t, 0, sizeof *t);
	hd_random_init(&t->random, seed);
	t->members = members;
	t->memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	assert_non_null(t->memory);
	memset(t->memory, 0, bytes);
	hd_shared_init(t->memory, TOKEN, members, PIECE_BYTES);
	for (uint32_t i = 0; i < members; i++)
		assert_int_equal(
			hd_shared_attach(&t->member[i].map, t->memory, TOKEN, members, PIECE_BYTES),
			0
		);
}

static void close_round(struct round *t) {
	free(t->memory);
}

static void begin(struct round *t, uint8_t collective, uint64_t values, uint32_t root) {
	for (uint32_t i = 0; i < t->members; i++) {
		struct member *m = &t->member[i];

		m->call = (struct hd_shared_call
		){.token = TOKEN,
		  .turn = m->map.turn,
		  .collective = collective,
		  .dtype = HD_DTYPE_INT32,
		  .op = HD_REDUCE_OP_SUM,
		  .index = i,
		  .members = t->members,
		  .root = root,
		  .in = m->in,
		  .out = m->out,
		  .values = values};
		for (uint64_t k = 0; k < values; k++)
			m->in[k] = (int32_t)(((uint64_t)i + 1) * 100003 + k * 7);
		memset(m->out, 0xff, sizeof m->out);
		m->end = HD_SHARED_MOVED;
		assert_int_equal(hd_shared_begin(&m->run, &m->map, &m->call), 0);
		assert_false(m->run.streams);
		m->run.streams = hd_random_below(&t->random, 2) == 1; /* as of a large result */
	}
}

/* One step of this member, if it has not ended. */
static void step(struct member *m) {
	enum hd_shared_next next;

	if (m->end != HD_SHARED_MOVED)
		return;
	next = hd_shared_step(&m->run);
	if (next != HD_SHARED_MOVED && next != HD_SHARED_WAIT)
		m->end = next;
}

static bool all_ended(const struct round *t, uint32_t except) {
	for (uint32_t i = 0; i < t->members; i++)
		if (i != except && t->member[i].end == HD_SHARED_MOVED)
			return false;
	return true;
}

static void play(struct round *t) {
	for (int k = 0; k < STEPS_MAX && !all_ended(t, MEMBERS_MAX); k++)
		step(&t->member[hd_random_below(&t->random, t->members)]);
	for (uint32_t i = 0; i < t->members; i++)
		assert_int_equal(t->member[i].end, HD_SHARED_DONE);
}

static int32_t given(uint32_t member, uint64_t k) {
	return (int32_t)(((uint64_t)member + 1) * 100003 + k * 7);
}

static int32_t sum_at(const struct round *t, uint64_t k) {
	int32_t sum = 0;

	for (uint32_t i = 0; i < t->members; i++)
		sum += given(i, k);
	return sum;
}

static void check_values(const int32_t *out, const struct round *t, uint64_t first, uint64_t end) {
	for (uint64_t k = first; k < end; k++)
		assert_int_equal(out[k - first], sum_at(t, k));
}

static void check_copies(const int32_t *out, uint32_t giver, uint64_t first, uint64_t end) {
	for (uint64_t k = first; k < end; k++)
		assert_int_equal(out[k - first], given(giver, k));
}

/* The result of each member; its own blocks are the core's. */
static void check(const struct round *t, uint8_t collective, uint64_t values, uint32_t root) {
	for (uint32_t i = 0; i < t->members; i++) {
		const int32_t *out = t->member[i].out;
		const uint64_t first = hd_block_first(values, i, t->members);
		const uint64_t end = hd_block_first(values, i + 1, t->members);

		if (collective == HD_COLLECTIVE_ALLREDUCE
		    || (collective == HD_COLLECTIVE_REDUCE && i == root))
			check_values(out, t, 0, values);
		else if (collective == HD_COLLECTIVE_REDUCE_SCATTER)
			check_values(out, t, first, end);
		else if (collective == HD_COLLECTIVE_BROADCAST && i != root)
			check_copies(out, root, 0, values);
		else if (collective == HD_COLLECTIVE_SCATTER && i != root)
			check_copies(out, root, first, end);
		else
			for (uint32_t k = 0; k < t->members && k != i; k++)
				if (collective == HD_COLLECTIVE_ALLTOALL)
					check_copies(out + k * (end - first), k, first, end);
				else if (collective == HD_COLLECTIVE_ALLGATHER || (collective == HD_COLLECTIVE_GATHER && i == root))
					check_copies(out + k * values, k, 0, values);
				else
					assert_int_equal(out[0], -1); /* receives nothing */
	}
}

/* Every collective, of one value and of many pieces, one after the other in the same segment. */
static void test_results(void **state) {
	static const uint64_t sizes[] = {1, 129, 1024, 1025, 4096, VALUES_MAX};
	static struct round t;

	(void)state;
	for (uint32_t members = 1; members <= MEMBERS_MAX; members++) {
		open_round(&t, members, members);
		for (int c = HD_COLLECTIVE_ALLREDUCE; c < HD_COLLECTIVE_SEND; c++)
			for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
				if (c == HD_COLLECTIVE_BARRIER)
					continue;
				begin(&t, (uint8_t)c, sizes[s], members - 1);
				play(&t);
				check(&t, (uint8_t)c, sizes[s], members - 1);
			}
		close_round(&t);
	}
}

/* The steps that a member has made in its round. */
static uint32_t moves(const struct member *m) {
	return m->run.ins + m->run.mids + m->run.outs + m->run.given;
}

/* The others go as far as they can without member 1. */
static void play_others(struct round *t) {
	for (int k = 0; k < 1000; k++)
		step(&t->member[k % 2 ? 2 : 0]);
}

/* Member 1 dies after `at` steps. Returns false when it has no more. */
static bool die_at(struct round *t, uint64_t values, uint32_t at, bool *killed) {
	open_round(t, 3, at);
	begin(t, HD_COLLECTIVE_ALLREDUCE, values, 0);
	for (int k = 0; k < STEPS_MAX && moves(&t->member[1]) < at; k++)
		step(&t->member[hd_random_below(&t->random, 3)]);
	if (moves(&t->member[1]) < at)
		return false;
	play_others(t);
	*killed = hd_shared_kill(&t->member[at % 2 ? 2 : 0].map, 0);
	assert_int_equal(hd_shared_kill(&t->member[2].map, 0), *killed);
	play_others(t);
	for (uint32_t i = 0; i < 3; i += 2) {
		assert_int_equal(t->member[i].end, *killed ? HD_SHARED_VOID : HD_SHARED_DONE);
		if (!*killed)
			check_values(t->member[i].out, t, 0, values);
	}
	return true;
}

/* After any of its steps: the others complete the round, all of them, or it is void for all. */
static void test_deaths(void **state) {
	static const uint64_t sizes[] = {1000, VALUES_MAX};
	static struct round t;

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
		uint32_t ends[2] = {0, 0}, at = 0;
		bool more = true;

		while (more) {
			bool killed = false;

			more = die_at(&t, sizes[s], at++, &killed);
			ends[killed] += more;
			close_round(&t);
		}
		assert_true(ends[false] > 0);
		assert_true(ends[true] > 0);
		assert_true(at > 3);
	}
}

/* A killed segment has no later rounds; a complete round is not undone. */
static void test_fate(void **state) {
	static struct round t;

	(void)state;
	open_round(&t, 2, 1);
	begin(&t, HD_COLLECTIVE_BROADCAST, 10, 0);
	play(&t);
	assert_false(hd_shared_kill(&t.member[0].map, 0));
	begin(&t, HD_COLLECTIVE_BROADCAST, 10, 0);
	assert_true(hd_shared_kill(&t.member[1].map, 1));
	step(&t.member[0]);
	assert_int_equal(t.member[0].end, HD_SHARED_VOID);
	assert_false(hd_shared_kill(&t.member[0].map, 0));
	close_round(&t);
}

/* Another segment, a call that is not the next one, and words that no member writes: errors. */
static void test_strangers(void **state) {
	struct hd_shared_run run;
	struct hd_shared_map map;
	struct hd_shared_call call;
	static struct round t;

	(void)state;
	open_round(&t, 2, 1);
	assert_int_equal(hd_shared_attach(&map, t.memory, TOKEN + 1, 2, PIECE_BYTES), -EPROTO);
	assert_int_equal(hd_shared_attach(&map, t.memory, TOKEN, 3, PIECE_BYTES), -EPROTO);
	assert_int_equal(hd_shared_attach(&map, t.memory, TOKEN, 2, PIECE_BYTES * 2), -EPROTO);
	begin(&t, HD_COLLECTIVE_ALLREDUCE, 10, 0);
	call = t.member[0].call;
	call.turn = 1;
	assert_int_equal(hd_shared_begin(&run, &t.member[0].map, &call), -EINVAL);
	call = t.member[0].call;
	call.members = 3;
	assert_int_equal(hd_shared_begin(&run, &t.member[0].map, &call), -EINVAL);
	call = t.member[0].call;
	call.root = 2;
	assert_int_equal(hd_shared_begin(&run, &t.member[0].map, &call), -EINVAL);
	atomic_store(&t.member[0].map.head->fate, 5);
	step(&t.member[0]);
	assert_int_equal(t.member[0].end, HD_SHARED_BROKEN);
	close_round(&t);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_fate),
		cmocka_unit_test(test_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
