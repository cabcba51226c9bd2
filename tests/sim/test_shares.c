/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two jobs whose all-reduces go through one switch, on the same links. The links carry a tenth or ten times of the
 * controller's estimate, and no telemetry measures them. The estimate that it learns from the rounds comes near the
 * capacity, and each job has its share by weight of nearly all of it. Then the links change, and it learns that.
 */
#include "hd_group.h"
#include "shares_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOSTS 3
#define RATE 100000000
#define VALUES 65536
#define SLICE (HD_MS / 2)
#define LEARN (12 * HD_SECOND) /* an attempt that failed is repeated within 8 s */
#define MEASURE (8 * HD_SECOND)
#define FULL 0.9 /* of what the links carry at least */
#define OFF_AFTER                                                                                  \
	0.08 /* after links have changed: they may be taken to carry some per cent more than they do */

struct actor {
	struct world *world;
	uint32_t job;
	const struct shares_member *member;
	bool busy;
	float in[VALUES], out[VALUES];
};

struct world {
	struct shares_world base;
	struct actor actors[SHARES_JOBS][HOSTS];
	uint64_t applied[SHARES_JOBS], failed; /* calls that ended */
};

/* --- workers ---------------------------------------------------------------------------------- */

static void on_ticket(void *owner, const struct hd_ticket *ticket) {
	struct actor *actor = owner;

	actor->world->applied[actor->job] += ticket->state == HD_TICKET_APPLIED;
	actor->world->failed += ticket->state == HD_TICKET_FAILED;
	if (ticket->state != HD_TICKET_APPLIED)
		return;
	for (uint32_t i = 0; i < VALUES; i += 1000)
		assert_true(actor->out[i] == HOSTS * (float)(1 + i % 7));
}

static void on_released(void *owner, uint32_t round, void *user) {
	struct actor *actor = owner;

	(void)round;
	(void)user;
	actor->busy = false;
}

static const struct hd_worker_ops ops = {.ticket = on_ticket, .released = on_released};

static void call(struct actor *actor) {
	struct hd_sim *sim = actor->world->base.base.sim;
	const struct hd_reduce_args args = {
		.in = actor->in,
		.out = actor->out,
		.values = VALUES,
		.dtype = HD_DTYPE_FP32,
		.order = HD_GROUP_ARRIVAL,
	};
	uint32_t round;

	if (actor->busy)
		return;
	actor->busy = hd_worker_reduce(
			      actor->member->core,
			      hd_sim_node_now(sim, actor->member->node),
			      &args,
			      hd_sim_node_sink(sim, actor->member->node),
			      &round
		      )
		== 0;
	hd_sim_node_poke(sim, actor->member->node);
}

static struct world *world_open(double believed, float first) {
	struct world *w = calloc(1, sizeof *w);

	assert_non_null(w);
	shares_open(
		&w->base,
		&(struct shares_config){
			.hosts = HOSTS,
			.rate_bps = RATE,
			.believed = believed,
			.weights = {first, 1},
		}
	);
	for (uint32_t job = 0; job < SHARES_JOBS; job++)
		for (uint32_t host = 0; host < HOSTS; host++) {
			struct actor *actor = &w->actors[job][host];

			actor->world = w;
			actor->job = job;
			for (uint32_t i = 0; i < VALUES; i++)
				actor->in[i] = (float)(1 + i % 7);
			actor->member = shares_worker(&w->base, job, host, &ops, actor);
		}
	return w;
}

static void world_close(struct world *w) {
	shares_close(&w->base);
	free(w);
}

/* All call again as soon as they can. */
static void run(struct world *w, hd_ns span) {
	struct hd_sim *sim = w->base.base.sim;
	const hd_ns until = hd_sim_now(sim) + span;

	while (hd_sim_now(sim) < until) {
		for (uint32_t job = 0; job < SHARES_JOBS; job++)
			for (uint32_t host = 0; host < HOSTS; host++)
				call(&w->actors[job][host]);
		hd_sim_run(sim, hd_sim_now(sim) + SLICE);
	}
}

static void expect_shares(struct world *w, double most_off) {
	double bytes[SHARES_JOBS];
	uint64_t before[SHARES_JOBS], failed;

	run(w, LEARN);
	memcpy(before, w->applied, sizeof before);
	failed = w->failed;
	run(w, MEASURE);
	for (uint32_t job = 0; job < SHARES_JOBS; job++)
		bytes[job]
			= (double)(w->applied[job] - before[job]) / HOSTS * VALUES * sizeof(float);
	assert_int_equal(w->failed, failed);
	shares_expect(&w->base, bytes, MEASURE, most_off, FULL);
}

static void shares(double believed, float first) {
	struct world *w = world_open(believed, first);

	expect_shares(w, SHARES_OFF);
	world_close(w);
}

static void test_slower_than_believed(void **state) {
	(void)state;
	shares(10, 1);
	shares(10, 2);
}

static void test_faster_than_believed(void **state) {
	(void)state;
	shares(0.1, 1);
	shares(0.1, 2);
}

/* One that is right stays so. */
static void test_known(void **state) {
	(void)state;
	shares(1, 1);
	shares(1, 3);
}

static void test_links_change(void **state) {
	static const uint64_t rates[] = {RATE / 2, UINT64_C(2) * RATE};
	struct world *w = world_open(10, 2);

	(void)state;
	expect_shares(w, SHARES_OFF);
	for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
		shares_set_rate(&w->base, rates[i]);
		expect_shares(w, OFF_AFTER);
	}
	world_close(w);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slower_than_believed),
		cmocka_unit_test(test_faster_than_believed),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_links_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
