/* SPDX-License-Identifier: BSD-3-Clause */
/* An aggregator that merges sparse updates: the output is the union of them, bit for bit, however packets are lost; and
 * if a member dies, or sends an invalid update, no receiver is left with a part of the sum. */
#include "aggregator_net.h"
#include "hd_random.h"
#include "hd_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 60000
#define RUNS 40
#define GROUP 3
#define SUM_TOKEN 0x77

static struct hd_random dice;

struct member {
	struct hd_run runs[RUNS];
	float x[VALUES];
	uint8_t *wire;
	uint64_t bytes;
};

struct scene {
	struct world *world;
	struct plan plan;
	struct member member[WORLD_WORKERS_MAX];
	uint32_t count;
	float sum[VALUES];
	bool named[VALUES];
	struct end_recv *got, *copy;
};

static bool lose_some(struct net *net, const struct net_packet *packet) {
	return hd_random_chance(&dice, 0.03);
}

static void draw(struct scene *s, struct member *m) {
	float *x = m->x;

	for (uint32_t r = 0; r < RUNS; r++) {
		uint64_t first = (uint64_t)r * (VALUES / RUNS) + hd_random_below(&dice, 700);
		uint64_t count = 1 + hd_random_below(&dice, 800);

		m->runs[r] = (struct hd_run){first, count};
		for (uint64_t i = first; i < first + count; i++) {
			*x = (float)hd_random_unit(&dice) - 0.5F;
			s->sum[i] = s->named[i] ? s->sum[i] + *x : *x;
			s->named[i] = true;
			x++;
		}
	}
	m->bytes = hd_runs_bytes(m->runs, RUNS, HD_CHUNK_BYTES_DEFAULT);
	m->wire = malloc(m->bytes);
	hd_runs_encode(m->runs, RUNS, m->x, 1, HD_CHUNK_BYTES_DEFAULT, m->wire);
}

static void open_scene(struct scene *s, uint32_t workers, uint64_t early_bytes) {
	struct hd_aggregator_config config = {.early_bytes = early_bytes};
	uint64_t all = 0;

	memset(s, 0, sizeof *s);
	s->count = workers;
	s->world = world_open(workers, &config);
	for (uint32_t i = 0; i < workers; i++) {
		draw(s, &s->member[i]);
		all += s->member[i].bytes;
	}
	plan_make(&s->plan, GROUP, workers, hd_runs_merged_bytes(all));
	s->plan.message.dtype = HD_DTYPE_SPARSE32;
	for (uint32_t i = 0; i < workers; i++)
		s->plan.inputs[i].bytes = s->member[i].bytes;
	plan_to(&s->plan, s->world->server, SUM_TOKEN);
	plan_to(&s->plan, s->world->replica, SUM_TOKEN + 1);
	s->got = end_expect(s->world->server, SUM_TOKEN, s->plan.message.bytes);
	s->copy = end_expect(s->world->replica, SUM_TOKEN + 1, s->plan.message.bytes);
	plan_send(s->world, &s->plan);
	assert_int_equal(world_stats(s->world)->groups, 1);
}

static void close_scene(struct scene *s) {
	for (uint32_t i = 0; i < s->count; i++)
		free(s->member[i].wire);
	world_close(s->world);
}

/* The very bytes that one update with these runs would have. */
static void assert_union(const struct scene *s, const struct end_recv *got) {
	struct hd_run *runs = calloc(VALUES, sizeof *runs);
	float *x = malloc(VALUES * sizeof *x);
	size_t count = 0, values = 0;
	uint64_t bytes;
	uint8_t *wire;

	for (uint64_t i = 0; i < VALUES; i++) {
		if (!s->named[i])
			continue;
		if (count > 0 && runs[count - 1].first + runs[count - 1].count == i)
			runs[count - 1].count++;
		else
			runs[count++] = (struct hd_run){i, 1};
		x[values++] = s->sum[i];
	}
	bytes = hd_runs_bytes(runs, count, HD_CHUNK_BYTES_DEFAULT);
	wire = malloc(bytes);
	hd_runs_encode(runs, count, x, 1, HD_CHUNK_BYTES_DEFAULT, wire);
	assert_true(got->done);
	assert_int_equal(hd_recv_stats(got->recv)->bytes_total, bytes);
	assert_true(bytes < s->plan.message.bytes);
	assert_memory_equal(got->data, wire, bytes);
	free(wire);
	free(x);
	free(runs);
}

static void test_any_loss(void **state) {
	static struct scene s;

	(void)state;
	for (uint64_t seed = 0; seed < 12; seed++) {
		hd_random_init(&dice, seed);
		open_scene(&s, 2 + (uint32_t)seed % 5, seed % 3 ? 0 : 40000);
		s.world->net.lose = lose_some;
		for (uint32_t i = 0; i < s.count; i++) {
			plan_push(s.world, &s.plan, i, s.member[i].wire);
			world_run(s.world, hd_random_below(&dice, 3) * HD_MS);
		}
		world_run(s.world, 8 * HD_SECOND);
		assert_union(&s, s.got);
		assert_union(&s, s.copy);
		assert_int_equal(world_stats(s.world)->groups_delivered, 1);
		assert_int_equal(world_stats(s.world)->memory_bytes, 0);
		for (uint32_t i = 0; i < s.count; i++) {
			const struct hd_msg_report *report
				= end_report(s.world->controller, s.plan.inputs[i].token);

			assert_non_null(report);
			assert_int_equal(report->bytes, s.member[i].bytes);
			assert_int_equal(
				hd_send_stats(s.world->worker[i]->sends[0])->state, HD_SEND_DONE
			);
		}
		close_scene(&s);
	}
}

/* Final values leave while the last member is still at its beginning: nothing is stored whole first. */
static void test_streams(void **state) {
	static struct scene s;
	uint64_t before;

	(void)state;
	hd_random_init(&dice, 50);
	open_scene(&s, 3, 30000);
	plan_push(s.world, &s.plan, 0, s.member[0].wire);
	plan_push(s.world, &s.plan, 1, s.member[1].wire);
	world_run(s.world, HD_SECOND / 5);
	assert_null(s.got->recv); /* the third might name the first value */
	assert_true(hd_send_stats(s.world->worker[0]->sends[0])->state == HD_SEND_ACTIVE);
	plan_push(s.world, &s.plan, 2, s.member[2].wire);
	for (before = 0; before == 0;) {
		world_run(s.world, 50 * HD_US);
		before = s.got->recv ? hd_recv_stats(s.got->recv)->bytes_held : 0;
	}
	assert_false(s.got->done);
	assert_int_equal(world_stats(s.world)->inputs_held, 0);
	world_run(s.world, HD_SECOND);
	assert_union(&s, s.got);
	close_scene(&s);
}

static void assert_failed(struct scene *s, uint32_t culprit, enum hd_reason reason) {
	const struct hd_msg_report *report = end_report(s->world->controller, GROUP);

	assert_non_null(report);
	assert_int_equal(report->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(report->reason, reason);
	report = end_report(s->world->controller, s->plan.inputs[culprit].token);
	assert_non_null(report);
	assert_int_equal(report->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(report->reason, reason);
	for (uint32_t i = 0; i < s->count; i++)
		if (i != culprit)
			assert_int_equal(
				end_voids(s->world->worker[i], s->plan.inputs[i].token), 1
			);
	assert_int_equal(end_voids(s->world->server, SUM_TOKEN), 1);
	assert_false(s->got->done);
	assert_int_equal(world_stats(s->world)->groups_open, 0);
	assert_int_equal(world_stats(s->world)->memory_bytes, 0);
}

static void test_a_member_dies(void **state) {
	static struct scene s;

	(void)state;
	hd_random_init(&dice, 60);
	open_scene(&s, 3, 0);
	for (uint32_t i = 0; i < 3; i++)
		plan_push(s.world, &s.plan, i, s.member[i].wire);
	while (!s.got->recv)
		world_run(s.world, 50 * HD_US);
	end_kill(s.world, s.world->worker[1]);
	s.world->worker[1] = NULL;
	world_run(s.world, 3 * HD_SECOND);
	assert_failed(&s, 1, HD_REASON_HOLD);
	close_scene(&s);
}

/* Its runs go back by one value from one chunk to the next. */
static void test_a_broken_member(void **state) {
	static struct scene s;
	uint64_t word;

	(void)state;
	hd_random_init(&dice, 70);
	open_scene(&s, 3, 0);
	memcpy(&word, s.member[2].wire + (size_t)4 * HD_CHUNK_BYTES_DEFAULT, sizeof word);
	word -= word & HD_RUN_FIRST_MAX;
	memcpy(s.member[2].wire + (size_t)4 * HD_CHUNK_BYTES_DEFAULT, &word, sizeof word);
	for (uint32_t i = 0; i < 3; i++)
		plan_push(s.world, &s.plan, i, s.member[i].wire);
	world_run(s.world, HD_SECOND);
	assert_failed(&s, 2, HD_REASON_REFUSED);
	assert_int_equal(world_stats(s.world)->groups_broken, 1);
	close_scene(&s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_loss),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_a_member_dies),
		cmocka_unit_test(test_a_broken_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
