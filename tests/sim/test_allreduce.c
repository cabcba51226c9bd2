/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces under faults, a world from each seed: test_allreduce [--seeds N] [--first N]. Workers that have a
 * sum have the same one, it is exactly that of the members it names, nobody is blocked once faults have ended,
 * and nothing is left when all have left. In ranked order two runs with different delays give the same bits.
 */
#include "allreduce_world.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SEEDS_DEFAULT 150
#define SECONDS_DEFAULT 8
#define ENOUGH 30 /* seeds among which there is something of everything */

static double seconds(void) {
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

struct totals {
	uint64_t seeds, bad, applied, failed, late, torn, crashes, again, in_slots;
	uint64_t leases, waits, counters[HD_SWITCH_COUNTER_COUNT];
	hd_ns longest;
};

static void run(struct allreduce_world *w, uint64_t seed, struct totals *t) {
	struct allreduce_plan plan;
	const char *wrong;

	allreduce_draw(seed, &plan);
	wrong = allreduce_run(w, &plan);
	t->seeds++;
	t->applied += w->applied;
	t->failed += w->failed;
	t->late += w->late;
	t->torn += w->torn;
	t->crashes += w->crashes;
	t->again += w->asked_again;
	t->in_slots += w->in_slots;
	t->leases += w->way.path.leases;
	t->waits += w->way.path.waits;
	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
		t->counters[i] += w->way.path.counters[i];
	t->longest = hd_ns_max(t->longest, w->longest);
	if (!wrong)
		return;
	t->bad++;
	(void)printf("seed %llu: %s\n", (unsigned long long)seed, wrong);
}

/* Of the switch: what it did, and what nobody here may have sent. */
static uint64_t check_switch(const struct totals *t) {
	static const enum hd_switch_counter strange[] = {
		HD_SWITCH_COUNTER_drop_malformed,
		HD_SWITCH_COUNTER_drop_lease,
		HD_SWITCH_COUNTER_drop_slot,
		HD_SWITCH_COUNTER_drop_exponent,
	};
	const uint64_t *counters = t->counters;
	uint64_t bad = 0;

	(void
	)printf("switch: %llu leases, %llu members taken out",
		(unsigned long long)t->leases,
		(unsigned long long)t->waits);
	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
		if (counters[i] > 0)
			(void
			)printf(", %llu %s",
				(unsigned long long)counters[i],
				hd_switch_counter_name((enum hd_switch_counter)i));
	(void)printf("\n");
	for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++)
		bad += counters[strange[i]] > 0;
	if (bad > 0)
		(void)printf("the switch dropped what no worker should have sent\n");
	if (t->seeds >= ENOUGH
	    && (t->in_slots == 0 || counters[HD_SWITCH_COUNTER_repeated] == 0
		|| counters[HD_SWITCH_COUNTER_drop_duplicate] == 0)) {
		(void)printf("no sum of a switch was lost: nothing is known of them\n");
		bad++;
	}
	return bad;
}

static uint64_t check_known(struct allreduce_world *w) {
	static const struct known {
		uint64_t seed;
		bool no_switch;
	} known[] = {
		/* The sum of a worker that was cut off comes once it is back, while the controller is down; the
		 * others have another. */
		{31817, true},
		/* A sum of the last controller's making is reported to the next one, between the requests of two others
		 * for that round. */
		{92000178, false},
		{95001770, false},
		/* One worker makes a round alone; then the controller restarts, and the other, which was cut off all
		 * the while, registers first and asks for that round. */
		{700024515, false},
		/* The same, with all of that worker's rounds in the last second of the controller. */
		{760017948, false},
	};
	uint64_t bad = 0;

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		struct allreduce_plan plan;
		const char *wrong;

		allreduce_draw(known[i].seed, &plan);
		plan.way = plan.way && !known[i].no_switch;
		wrong = allreduce_run(w, &plan);
		if (wrong)
			(void)printf("known world: %s\n", wrong);
		bad += wrong != NULL;
	}
	return bad;
}

/* Other delays, other losses: the same bits. */
static uint64_t check_ranked(struct allreduce_world *w) {
	struct allreduce_plan plan = {
		.seed = 77,
		.workers = 5,
		.aggregators = 3,
		.depth = 2,
		.world = 5,
		.ranked = true,
		.calls = 12,
		.until = 2 * HD_SECOND,
	};
	uint64_t bits[2], bad = 0;

	for (int k = 0; k < 2; k++) {
		const char *wrong;

		plan.delays = 1000 * (uint64_t)k;
		wrong = allreduce_run(w, &plan);
		bits[k] = w->bits;
		if (!wrong && w->applied != (uint64_t)plan.workers * plan.calls)
			wrong = "not every call had its sum";
		if (wrong)
			(void)printf("ranked, run %d: %s\n", k, wrong);
		bad += wrong != NULL;
	}
	if (bits[0] != bits[1])
		(void)printf("ranked: the bits of two runs differ\n");
	return bad + (bits[0] != bits[1]);
}

int main(int argc, char **argv) {
	static const struct option options[]
		= {{"seeds", required_argument, NULL, 's'},
		   {"first", required_argument, NULL, 'f'},
		   {0}};
	static struct allreduce_world world;
	uint64_t count = SEEDS_DEFAULT, first = 1;
	bool limited = true;
	struct totals t = {0};
	double start = seconds();
	int option;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return 64;
		limited = limited && option != 's';
		*(option == 's' ? &count : &first) = strtoull(optarg, NULL, 10);
	}
	while (t.seeds < count && !(limited && seconds() - start > SECONDS_DEFAULT))
		run(&world, first + t.seeds, &t);
	(void
	)printf("%llu seeds from %llu, %llu bad: %llu sums (%llu in slots), %llu failed (%llu late), "
		"%llu asked again, %llu torn, %llu crashes, longest after faults %.2f s; %.1f s\n",
		(unsigned long long)t.seeds,
		(unsigned long long)first,
		(unsigned long long)t.bad,
		(unsigned long long)t.applied,
		(unsigned long long)t.in_slots,
		(unsigned long long)t.failed,
		(unsigned long long)t.late,
		(unsigned long long)t.again,
		(unsigned long long)t.torn,
		(unsigned long long)t.crashes,
		1e-9 * (double)t.longest,
		seconds() - start);
	if (t.seeds >= ENOUGH && (!t.failed || !t.again)) {
		(void)printf("no round failed or was asked for again: nothing is known of them\n");
		t.bad++;
	}
	t.bad += check_switch(&t);
	t.bad += check_known(&world) + check_ranked(&world);
	return t.bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
