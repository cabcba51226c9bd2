/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transfers are waited for, and how long: by hand, in milliseconds. */
#include "ctl_requests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS 6
#define NOW (10 * HD_SECOND)
#define TAKES 0.1

struct scene {
	struct hd_controller c; /* only what the question needs */
	struct ctl_job job, other;
	struct ctl_node *by_rank[HD_WORKERS_MAX];
	struct ctl_node node[WORKERS];
	struct ctl_transfer due, open[WORKERS];
};

static struct scene *scene_new(void) {
	struct scene *s = calloc(1, sizeof *s);

	s->c.now = NOW;
	s->c.grouping.aggregator_count = 1;
	s->c.jobs[0] = &s->job;
	s->c.jobs[1] = &s->other;
	s->c.job_count = 2;
	s->job.workers = s->by_rank;
	TAILQ_INIT(&s->c.nodes);
	TAILQ_INIT(&s->c.open);
	for (uint16_t i = 0; i < WORKERS; i++) {
		s->by_rank[i] = &s->node[i];
		s->node[i].job = &s->job;
		s->node[i].worker = i;
		TAILQ_INSERT_TAIL(&s->c.nodes, &s->node[i], entry);
	}
	s->due = (struct ctl_transfer){.job = &s->job, .direction = HD_PUSH};
	s->node[0].tracked = 1; /* the one that is due */
	return s;
}

/* A worker that computes, and will ask for a push in `left_ms`. */
static void computes(struct scene *s, uint16_t worker, int left_ms) {
	s->node[worker].rhythm[HD_PUSH] = (struct ctl_rhythm
	){.since = NOW - (hd_ns)(50 - left_ms) * HD_MS, .pause_s = 0.05, .seen = 9};
}

static void waits_ms(struct scene *s, uint32_t count, double ms) {
	double wait = ctl_group_wait_s(&s->c, &s->due, count, TAKES);

	assert_true(fabs(wait * 1e3 - ms) < 1e-6);
}

static void test_worth_waiting_for(void **state) {
	struct scene *s = scene_new();

	(void)state;
	waits_ms(s, 1, 0); /* no other transfer is expected */
	computes(s, 1, 20);
	waits_ms(s, 5, 0); /* saves 80, costs 100 */
	assert_int_equal(s->due.group_wait_since, 0);
	waits_ms(s, 3, 20);
	assert_int_equal(s->due.group_wait_since, NOW);
	/* 70 for 60 would be a gain; 70 + 60 for 80 is more. */
	computes(s, 1, 30);
	computes(s, 2, 40);
	waits_ms(s, 2, 40);
	/* The third comes so late that it costs more than it saves: 70 + 60 + 51 - 98 > 50 at first, ... */
	computes(s, 3, 49);
	waits_ms(s, 2, 49);
	waits_ms(s, 3, 49); /* 181 - 147 = 34 > 130 - 120 = 10 > 70 - 90 */
	waits_ms(s, 4, 0); /* 181 - 196 */
	free(s);
}

static void test_not_for_ever(void **state) {
	struct scene *s = scene_new();

	(void)state;
	computes(s, 1, 20);
	s->due.group_wait_since = NOW - 70 * HD_MS;
	waits_ms(s, 1, 20);
	s->due.group_wait_since = NOW - 81 * HD_MS; /* it would be more than TAKES in all */
	waits_ms(s, 1, 0);
	s->due.group_wait_since = NOW - 200 * HD_MS;
	waits_ms(s, 1, 0);
	s->due.group_wait_since = 0;
	s->c.now += 21 * HD_MS; /* it has not come in time: who knows */
	waits_ms(s, 1, 0);
	free(s);
}

static void test_not_at_others_cost(void **state) {
	struct scene *s = scene_new();

	(void)state;
	computes(s, 1, 20);
	s->other.pending = 1;
	waits_ms(s, 1, 0);
	s->other.pending = 0;
	s->c.grouping.aggregator_count = 0;
	waits_ms(s, 1, 0);
	free(s);
}

/* Its pull ends in 10 ms, and it computes for 50. */
static void test_in_flight(void **state) {
	struct scene *s = scene_new();
	struct ctl_transfer *pull = &s->open[1];
	struct ctl_rhythm *rhythm = &s->node[1].rhythm[HD_PUSH];

	(void)state;
	*pull = (struct ctl_transfer
	){.state = CTL_GRANTED,
	  .job = &s->job,
	  .worker = 1,
	  .direction = HD_PULL,
	  .finish = NOW + 10 * HD_MS};
	TAILQ_INSERT_TAIL(&s->c.open, pull, entry);
	s->node[1].tracked = 1;
	*rhythm = (struct ctl_rhythm){.pause_s = 0.03, .seen = 9};
	waits_ms(s, 1, 40);
	pull->reserved_count = 1;
	pull->reserved[0].end = NOW + 5 * HD_MS; /* as seen now */
	waits_ms(s, 1, 35);
	pull->state = CTL_HELD;
	waits_ms(s, 1, 30);
	pull->direction = HD_PUSH; /* of the same direction: it has asked already */
	waits_ms(s, 1, 0);
	pull->direction = HD_PULL;
	s->node[1].tracked = 2; /* several at once: no circle */
	waits_ms(s, 1, 0);
	s->node[1].tracked = 1;
	rhythm->spread_s = 0.01; /* later, to be safe */
	waits_ms(s, 1, 40);
	rhythm->spread_s = 0.06; /* too irregular */
	waits_ms(s, 1, 0);
	rhythm->spread_s = 0;
	rhythm->seen = 2;
	waits_ms(s, 1, 0);
	free(s);
}

static void test_rhythm(void **state) {
	struct ctl_node node = {.role = 0};
	const struct ctl_rhythm *push = &node.rhythm[HD_PUSH];
	hd_ns now = HD_SECOND;

	(void)state;
	ctl_rhythm_asked(&node, HD_PUSH, now); /* the first one: after nothing */
	assert_int_equal(push->seen, 0);
	for (int i = 0; i < 30; i++) {
		ctl_rhythm_ended(&node, HD_PULL, now);
		now += 50 * HD_MS;
		ctl_rhythm_asked(&node, HD_PUSH, now);
		assert_int_equal(push->seen, i + 1);
		assert_int_equal(push->since, 0);
	}
	assert_true(fabs(push->pause_s - 0.05) < 1e-9 && push->spread_s < 1e-4);
	assert_int_equal(node.rhythm[HD_PULL].seen, 0);
	ctl_rhythm_ended(&node, HD_PULL, now);
	node.tracked = 1;
	ctl_rhythm_asked(&node, HD_PUSH, now + HD_MS);
	assert_int_equal(push->seen, 0);
	ctl_rhythm_ended(NULL, HD_PULL, now); /* it has left */
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worth_waiting_for),
		cmocka_unit_test(test_not_for_ever),
		cmocka_unit_test(test_not_at_others_cost),
		cmocka_unit_test(test_in_flight),
		cmocka_unit_test(test_rhythm),
	};

	return cmocka_run_group_tests_name("sent_together", tests, NULL, NULL);
}
