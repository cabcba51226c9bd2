/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole clusters whose updates are added by a switch on the path, which sends the sums to the server, and to its
 * replica: the shipped cores, the switch's among them. Applied updates are checked as everywhere (hd_check.h): each
 * round once, a sum with each of its members, the replica bit for bit as its server.
 */
#include "cluster_run.h"
#include "hd_message.h"
#include "hd_random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEEDS 30
#define COUNTER(name) HD_SWITCH_COUNTER_##name

/* Seeds that failed once: the server ends or refuses a sum before its switch takes the lease, and members that had not
 * received their grants yet waited for ever; a worker's machine disappears while its chunks are in slots. */
static const uint64_t known_seeds[] = {1073, 2110, 2513, 3590, 3670};
#define KNOWN (sizeof(known_seeds) / sizeof(known_seeds[0]))

static const struct hd_place server = {.kind = HD_PLACE_SERVER};
static const struct hd_place replica = {.kind = HD_PLACE_REPLICA};
static const struct hd_place controller = {.kind = HD_PLACE_CONTROLLER};
static const struct hd_place worker1 = {.kind = HD_PLACE_WORKER, .worker = 1};

static void prepare_switch(struct run *run) {
	prepare(run);
	run->scenario.workers = 8;
	run->scenario.link_mbps = 400;
	run->scenario.server_link_mbps = 100;
	run->scenario.job.update_bytes = 131072;
	run->scenario.job.tau_max = 64;
	run->scenario.job.payload = HD_DTYPE_FIXED32;
	run->scenario.sim.credit_kb = 0;
	run->scenario.sim.depth = 4;
	/* The server's link is short of room for updates, not for models. */
	run->scenario.job.pull_payload = HD_DTYPE_BF16;
	run->config.switch_slots = 4096;
}

static void crash(struct run *run, struct hd_place node, double at_s, double for_s) {
	run->scenario.crashes[run->scenario.crash_count++]
		= (struct hd_scenario_fault){.at_s = at_s, .for_s = for_s, .node = node};
}

static void show(const char *what, const struct run *run) {
	print_message(
		"%s: %" PRIu64 " applied, %" PRIu64 " of them in %" PRIu64 " sums; switch: %" PRIu64
		" sums, %" PRIu64 " repeated, %" PRIu64 " answered\n",
		what,
		run->result.pushes.applied,
		run->parts,
		run->sums,
		run->result.switch_counters[COUNTER(completed)],
		run->result.switch_counters[COUNTER(repeated)],
		run->result.switch_counters[COUNTER(answered)]
	);
}

static void test_sums(void **state) {
	struct run alone, by_switch;

	(void)state;
	prepare_switch(&alone);
	alone.config.switch_slots = 0;
	expect(&alone, 200);
	show("direct", &alone);
	prepare_switch(&by_switch);
	expect(&by_switch, alone.result.pushes.applied + 20);
	show("by the switch", &by_switch);
	assert_int_equal(alone.parts, 0);
	assert_true(by_switch.sums > 50);
	assert_int_equal(by_switch.result.switch_refused, 0);
}

/* Few workers with several updates in flight each: some sums have two of one worker. */
static void test_few_workers(void **state) {
	struct run run;

	(void)state;
	prepare_switch(&run);
	run.scenario.workers = 4;
	run.scenario.sim.depth = 8;
	run.scenario.server_link_mbps = 50;
	expect(&run, 100);
	show("few workers", &run);
	assert_true(run.sums > 20);
	assert_int_equal(run.result.switch_refused, 0);
}

/* A synchronous job's updates come together. */
static void test_steps(void **state) {
	struct run run;

	(void)state;
	prepare_switch(&run);
	run.scenario.job.sync = HD_SYNC_ALL;
	run.scenario.sim.depth = 1;
	expect(&run, 100);
	show("steps", &run);
	assert_true(run.sums > 10);
}

static void prepare_rounds(struct run *run, uint32_t clients, uint32_t least) {
	prepare_switch(run);
	run->scenario.sim.depth = 1;
	run->scenario.job.sync = HD_SYNC_FEDERATED;
	run->scenario.job.federated = (struct hd_federated){
		.clients = clients,
		.clients_least = least,
		.available = run->scenario.workers,
		.epochs = 1,
		.seed = 7,
	};
}

static void show_rounds(const char *what, const struct run *run) {
	show(what, run);
	print_message(
		"%" PRIu64 " rounds, %" PRIu64 " of fewer, weight %.0f\n",
		run->result.pushes.steps,
		run->result.pushes.steps_short,
		run->result.pushes.weight
	);
}

/* Weighted sums: sum of n_k delta_k by the switch, divided by the sum of the n_k that are in it. */
static void test_rounds(void **state) {
	struct run run;

	(void)state;
	for (int narrow = 0; narrow < 2; narrow++) {
		prepare_rounds(&run, 6, 1);
		run.config.switch_narrow = narrow;
		expect(&run, 150);
		show_rounds(narrow ? "rounds, 32 lanes" : "rounds", &run);
		assert_true(run.result.switch_counters[COUNTER(completed)] > 4000);
		assert_true(run.result.pushes.weight > (double)run.result.pushes.applied);
		assert_int_equal(run.result.switch_refused, 0);
	}
}

/* An update that is dropped, late, dies or overflows takes its weight with it, whatever faults the network has. */
static void test_rounds_lose(void **state) {
	struct run run;

	(void)state;
	for (int what = 0; what < 6; what++) {
		static const struct {
			const char *name;
			uint64_t sums;
		} cases[] = {
			{"rounds, loss", 4000},
			{"rounds, deadline", 300}, /* most come by themselves */
			{"rounds, worker dies", 4000},
			{"rounds, switch dies", 4000},
			{"rounds, saturation", 300}, /* each keeps it off for 1 s */
			{"rounds, replica", 2000},
		};

		prepare_rounds(&run, 6, 2);
		run.scenario.loss = what == 0 || what == 5 ? 0.005 : 0;
		run.scenario.duplicate = what == 0 ? 0.02 : 0;
		run.scenario.replica = what == 5;
		if (what == 1) {
			run.scenario.job.federated.deadline_ms = 150;
			run.scenario.compute = (struct hd_variation
			){.kind = HD_VARIATION_REDRAW, .low = 1, .high = 6, .every_s = 0.2};
		} else if (what == 2) {
			crash(&run, worker1, 1.501, 0.3);
			crash(&run, worker1, 2.707, 0.3);
		}
		run.config.switch_down_s = what == 3 ? 1.501 : 0;
		run.config.switch_spoils = what == 4 ? 0.001 : 0;
		expect(&run, 60);
		show_rounds(cases[what].name, &run);
		assert_true(run.result.switch_counters[COUNTER(completed)] > cases[what].sums);
		assert_true(what != 1 || run.result.pushes.reasons[HD_REASON_LATE] > 0);
	}
}

/* Chunks of 32 lanes, as P4 has them; many are lost, doubled and late on all links. */
static void test_loss(void **state) {
	struct run run;

	(void)state;
	for (int narrow = 0; narrow < 2; narrow++) {
		prepare_switch(&run);
		run.config.switch_narrow = narrow;
		run.scenario.loss = 0.01;
		run.scenario.reorder = 0.02;
		run.scenario.duplicate = 0.02;
		expect(&run, 80);
		show(narrow ? "loss, 32 lanes" : "loss", &run);
		assert_true(run.sums > 5);
		assert_true(run.result.switch_counters[COUNTER(repeated)] > 100);
	}
}

/* Two jobs' worth of slots and fewer: an aggregator takes what the switch has no slots for. */
static void test_no_slots(void **state) {
	struct run run;

	(void)state;
	prepare_switch(&run);
	run.scenario.aggregators = 1;
	run.scenario.aggregator_link_mbps = 1600;
	run.config.switch_slots = 8; /* less than the least */
	expect(&run, 200);
	show("no slots", &run);
	assert_int_equal(run.result.switch_counters[COUNTER(completed)], 0);
	prepare_switch(&run);
	run.config.switch_slots = 40;
	expect(&run, 200);
	show("few slots", &run);
	assert_true(run.result.switch_counters[COUNTER(completed)] > 0);
}

/* A sum that overflows is sent again on another path. */
static void test_saturation(void **state) {
	struct run run;

	(void)state;
	prepare_switch(&run);
	run.config.switch_spoils = 0.001;
	expect(&run, 150);
	show("saturation", &run);
	assert_true(run.result.switch_counters[COUNTER(not_finite)] > 0);
	assert_int_equal(run.result.pushes.failed, 0);
}

static void test_deaths(void **state) {
	static const struct {
		const char *what;
		const struct hd_place *place; /* NULL: the switch */
	} dies[] = {
		{"worker dies", &worker1},
		{"controller dies", &controller},
		{"server dies", &server},
		{"switch dies", NULL},
	};
	struct run run;

	(void)state;
	for (size_t i = 0; i < sizeof dies / sizeof dies[0]; i++) {
		prepare_switch(&run);
		run.scenario.sim.checkpoint_commits = 8;
		if (dies[i].place) {
			crash(&run, *dies[i].place, 1.501, 0.3);
			crash(&run, *dies[i].place, 2.707, 0.3);
		} else {
			run.config.switch_down_s = 1.501;
		}
		expect(&run, 80);
		show(dies[i].what, &run);
		assert_true(run.sums > 5);
	}
}

/* Sums reach the replica from the switch: it need not be sent states. */
static void test_replica(void **state) {
	struct run run;

	(void)state;
	prepare_switch(&run);
	run.scenario.replica = 1;
	expect(&run, 150);
	show("replica", &run);
	print_message(
		"followed %" PRIu64 ", states %u\n",
		run.result.followed,
		(unsigned)run.kinds[HD_EVENT_SEEDED]
	);
	assert_true(run.sums > 5);
	for (int place = 0; place < 2; place++) {
		prepare_switch(&run);
		run.scenario.replica = 1;
		run.scenario.loss = 0.002;
		crash(&run, place ? server : replica, 1.5, 0.4);
		expect(&run, 40);
		show(place ? "server dies, replica takes over" : "replica dies", &run);
	}
}

/* A packet that only the replica misses, or only its answers, is retransmitted, in the last window of a sum as well: no
 * more states than without loss, which are the first one and one for the grants before that. */
static void test_replica_loss(void **state) {
	static const double losses[] = {0, 0.01, 0.05};
	uint64_t repeated[] = {0, 0, 0}, states;
	struct run run;

	(void)state;
	for (uint64_t k = 0; k < 4; k++)
		for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
			prepare_switch(&run);
			run.config.seed = 1 + k / 2;
			run.scenario.replica = 1;
			run.scenario.job.sync = k % 2 == 1 ? HD_SYNC_ALL : HD_SYNC_NONE;
			run.config.switch_replica_loss = losses[i];
			expect(&run, 100);
			show(k % 2 == 1 ? "steps, replica misses" : "replica misses", &run);
			states = i == 0 ? run.kinds[HD_EVENT_SEEDED] : states;
			assert_true(run.kinds[HD_EVENT_SEEDED] <= states && states <= 3);
			/* Of steps some that were there before the replica. */
			assert_true(run.result.copies_lost <= (k % 2 == 1 ? 4 : 0));
			assert_true(run.sums > 20);
			repeated[i] += run.result.switch_counters[COUNTER(repeated)];
		}
	assert_true(repeated[2] > 1000);
}

static void draw_rounds(struct run *run, struct hd_random *random) {
	struct hd_federated *f = &run->scenario.job.federated;

	run->scenario.job.sync = HD_SYNC_FEDERATED;
	*f = (struct hd_federated){.epochs = 1, .seed = hd_random_u64(random)};
	f->clients = 1 + (uint32_t)hd_random_below(random, run->scenario.workers);
	f->clients_least = 1 + (uint32_t)hd_random_below(random, f->clients);
	f->deadline_ms
		= hd_random_chance(random, 0.5) ? 20 + (uint32_t)hd_random_below(random, 400) : 0;
	f->drops = hd_random_chance(random, 0.5);
}

/* Everything at once, drawn from seeds; HEDDLE_SIM_SEEDS of them from HEDDLE_SIM_FIRST on. */
static void test_seeds(void **state) {
	uint64_t seeds = run_seeds(SEEDS), first = run_first_seed(), sums = 0;
	enum hd_cluster_mode mode;
	struct run run;

	(void)state;
	for (uint64_t k = run_only_seeds() ? KNOWN : 0; k < seeds + KNOWN; k++) {
		uint64_t seed = k < KNOWN ? known_seeds[k] : first + k - KNOWN;
		struct hd_random random;

		prepare(&run);
		hd_random_init(&random, seed);
		hd_cluster_draw(HD_CLUSTER_GROUPS + seed, &run.scenario, &mode);
		run.config.seed = seed;
		run.config.mode = HD_CLUSTER_SCHEDULED;
		run.scenario.job.payload = HD_DTYPE_FIXED32;
		run.scenario.sim.credit_kb = 0;
		if (hd_random_chance(&random, 0.4))
			draw_rounds(&run, &random);
		run.config.switch_slots = hd_random_chance(&random, 0.3) ? 48 : 4096;
		run.config.switch_narrow = hd_random_chance(&random, 0.3);
		run.config.switch_down_s = hd_random_chance(&random, 0.5) ? 1.3 : 0;
		run.config.switch_spoils = hd_random_chance(&random, 0.2) ? 0.001 : 0;
		go(&run);
		if (run.violated)
			fail_msg(
				"seed %" PRIu64 " (%s, %u slots): %s",
				seed,
				hd_sync_name(run.scenario.job.sync),
				run.config.switch_slots,
				run.failure
			);
		sums += run.result.switch_counters[COUNTER(completed)];
	}
	print_message("%" PRIu64 " seeds: %" PRIu64 " sums of chunks\n", seeds, sums);
	assert_true(sums > 0 || run_only_seeds());
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_few_workers),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_rounds_lose),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_no_slots),
		cmocka_unit_test(test_saturation),
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_replica),
		cmocka_unit_test(test_replica_loss),
		cmocka_unit_test(test_seeds),
	};

	if (run_only_seeds())
		cmocka_set_test_filter("test_seeds");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
