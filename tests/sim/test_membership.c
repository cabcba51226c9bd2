/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that come, leave, die and are preempted, in clusters without other faults. The invariant: a living worker
 * never waits longer for a commit than the detection time and the time of its own rounds.
 *
 *   living    |--commit--commit---------(another one dies)------------commit--|
 *                               |<------- at most DETECTION + ROUND ------>|
 */
#include "cluster_run.h"
#include "hd_message.h"
#include "hd_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS_MAX 8
#define DETECTION (HD_DETECTION_US * HD_US)
#define ROUND                                                                                      \
	(400 * HD_MS                                                                               \
	) /* computing, pulling, pushing, waiting for others' transfers; 60 ms without */
#define SEEDS 120

struct process {
	hd_ns since; /* when it was last seen to get on; 0: it does not live */
	hd_ns longest; /* that it waited */
	uint32_t starts, left, applied, failed;
	bool noticed; /* that it will be preempted */
};

struct watch {
	struct run run;
	struct process worker[WORKERS_MAX];
	uint32_t notices, preempted, rosters, drops;
};

static void got_on(struct watch *watch, uint32_t rank, hd_ns now) {
	struct process *process = &watch->worker[rank];

	if (process->since && now - process->since > process->longest)
		process->longest = now - process->since;
	process->since = now;
}

/* Events carry the time of the simulation. */
static void on_event(void *owner, const char *node, const struct hd_event *event) {
	struct watch *watch = owner;
	uint32_t rank = node[0] == 'w' ? (uint32_t)strtoul(node + 1, NULL, 10) : WORKERS_MAX;
	bool controller = strcmp(node, "controller") == 0;

	watch->rosters += controller && event->kind == HD_EVENT_ROSTER;
	watch->preempted += controller && event->kind == HD_EVENT_NODE_DOWN
		&& event->reason == HD_REASON_PREEMPTED;
	watch->drops += controller && event->kind == HD_EVENT_DROPPED
		&& event->reason == HD_REASON_PREEMPTED;
	if (rank == WORKERS_MAX && event->kind == HD_EVENT_NODE_DOWN
	    && event->aux == HD_ROLE_WORKER) {
		watch->worker[event->worker].since = 0;
		watch->worker[event->worker].left += controller && event->reason == HD_REASON_LEFT;
	}
	if (rank >= WORKERS_MAX)
		return;
	if (event->kind == HD_EVENT_NOTICE) {
		watch->notices++;
		watch->worker[rank].noticed = true;
	}
	/* It has joined; from here on it must get on, until its own machine is to go. */
	if (event->kind == HD_EVENT_PULLED && !watch->worker[rank].since) {
		watch->worker[rank].since = event->at;
		watch->worker[rank].noticed = false;
		watch->worker[rank].starts++;
	}
	if (event->kind != HD_EVENT_OUTCOME || event->direction != HD_PUSH)
		return;
	watch->worker[rank].applied += event->aux == HD_OUTCOME_APPLIED;
	watch->worker[rank].failed += event->aux == HD_OUTCOME_FAILED;
	if (event->aux != HD_OUTCOME_FAILED)
		got_on(watch, rank, event->at);
}

static void prepare_watch(struct watch *watch) {
	memset(watch, 0, sizeof *watch);
	prepare(&watch->run);
	watch->run.config.event = on_event;
	watch->run.config.owner = watch;
	watch->run.scenario.job.tau_max = 64;
}

static void
event_at(struct watch *watch, double at_s, uint32_t worker, uint8_t what, double notice_s) {
	struct hd_scenario *scenario = &watch->run.scenario;

	scenario->events[scenario->event_count++] = (struct hd_scenario_event
	){.at_s = at_s, .worker = worker, .what = what, .notice_s = notice_s};
}

static void none_waited(const struct watch *watch, uint64_t seed) {
	for (uint32_t w = 0; w < WORKERS_MAX; w++)
		if (watch->worker[w].longest > DETECTION + ROUND)
			fail_msg(
				"seed %llu: worker %u was without an outcome for %.3f s",
				(unsigned long long)seed,
				w,
				(double)watch->worker[w].longest * 1e-9
			);
}

/* In time: nothing is lost, other workers see it only in the roster, and it does not count as a death. */
static void test_notice_in_time(void **state) {
	for (int mode = 0; mode < 2; mode++) {
		struct watch watch;

		prepare_watch(&watch);
		watch.run.config.mode = mode == 0 ? HD_CLUSTER_SCHEDULED : HD_CLUSTER_DIRECT;
		event_at(&watch, 1, 1, HD_DO_PREEMPT, 1);
		event_at(&watch, 3, 1, HD_DO_JOIN, 0);
		go(&watch.run);
		assert_false(watch.run.violated);
		assert_int_equal(watch.notices, 1);
		assert_int_equal(watch.preempted, 0);
		assert_int_equal(watch.worker[1].failed, 0);
		assert_int_equal(watch.run.result.pushes.failed, 0);
		assert_true(watch.worker[1].applied > 40);
		/* The worker that was away for a second does not count. */
		for (uint32_t w = 0; w < 4; w++)
			assert_true(w == 1 || watch.worker[w].longest < ROUND);
		if (mode == 0) {
			assert_int_equal(watch.worker[1].left, 1);
			assert_int_equal(watch.worker[1].starts, 2);
		}
	}
}

/* Too short for the transfers in flight: the cost is that of a sudden death, mostly less, as there is no detection
 * time. */
static void test_notice_too_short(void **state) {
	struct watch watch;

	prepare_watch(&watch);
	watch.run.scenario.job.update_bytes = 1000000; /* 40 ms alone */
	event_at(&watch, 2, 1, HD_DO_PREEMPT, 0.02);
	event_at(&watch, 3, 2, HD_DO_PREEMPT, 0.05);
	go(&watch.run);
	assert_false(watch.run.violated);
	assert_int_equal(watch.notices, 2);
	none_waited(&watch, 0);
	for (uint32_t w = 0; w < 4; w += 3)
		assert_true(watch.worker[w].longest < DETECTION);
}

/* A worker that is stopped cannot leave in time: the controller does not wait for it any longer than it said. */
static void test_stopped_when_its_time_is_over(void **state) {
	struct watch watch;

	prepare_watch(&watch);
	event_at(&watch, 1, 1, HD_DO_PREEMPT, 0.3);
	watch.run.scenario.stops[watch.run.scenario.stop_count++] = (struct hd_scenario_fault
	){.at_s = 1.05, .for_s = 1, .node = {.kind = HD_PLACE_WORKER, .worker = 1}};
	go(&watch.run);
	assert_false(watch.run.violated);
	assert_int_equal(watch.preempted, 1);
	none_waited(&watch, 0);
}

static void draw(struct watch *watch, uint64_t seed) {
	struct hd_scenario *scenario = &watch->run.scenario;
	struct hd_random random;
	uint32_t count;

	hd_random_init(&random, seed);
	scenario->workers = 3 + (uint32_t)hd_random_below(&random, WORKERS_MAX - 2);
	scenario->job.update_bytes = 4096u << hd_random_below(&random, 6);
	scenario->job.compute_ms = 5 + (double)hd_random_below(&random, 20);
	scenario->sim.depth = 1 + (uint32_t)hd_random_below(&random, 2);
	if (hd_random_chance(&random, 0.3)) {
		scenario->aggregators = 1;
		scenario->aggregator_link_mbps = 8 * scenario->link_mbps;
	}
	count = 2 + (uint32_t)hd_random_below(&random, 8);
	for (uint32_t i = 0; i < count; i++)
		event_at(
			watch,
			0.3 + 3.2 * hd_random_unit(&random),
			(uint32_t)hd_random_below(&random, scenario->workers),
			(uint8_t)hd_random_below(&random, 4),
			0.01 + hd_random_unit(&random)
		);
	watch->run.config.seed = seed;
}

static void test_the_living_go_on(void **state) {
	uint64_t count = run_seeds(SEEDS), first = run_first_seed();
	uint32_t notices = 0, rosters = 0, left = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct watch watch;

		prepare_watch(&watch);
		draw(&watch, first + i);
		go(&watch.run);
		if (watch.run.violated)
			fail_msg(
				"seed %llu: %s", (unsigned long long)(first + i), watch.run.failure
			);
		none_waited(&watch, first + i);
		notices += watch.notices;
		rosters += watch.rosters;
		for (uint32_t w = 0; w < WORKERS_MAX; w++)
			left += watch.worker[w].left;
	}
	print_message("%u notices, %u left, %u rosters\n", notices, left, rosters);
	assert_true(notices > count / 4 && left > count / 4 && rosters > count);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_notice_in_time),
		cmocka_unit_test(test_notice_too_short),
		cmocka_unit_test(test_stopped_when_its_time_is_over),
		cmocka_unit_test(test_the_living_go_on),
	};
	const struct CMUnitTest seeds[] = {cmocka_unit_test(test_the_living_go_on)};

	if (run_only_seeds())
		return cmocka_run_group_tests(seeds, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
