/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces under faults, a world from each seed: test_allreduce [--seeds N] [--first N] [--plain]. Workers that have
 * a sum have the same one, it is exactly that of the members it names, NaN and Inf where they belong, no worker is
 * blocked once faults have ended, and nothing is left when all have left. In ranked order two runs with different
 * delays give the same bits. Plain: rounds are sums and averages of fp32 only.
 */
#include "allreduce_world.h"
#include "silence_checks.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SEEDS_DEFAULT 150
#define SECONDS_DEFAULT 8
#define LEAVING_SEEDS 24
#define ENOUGH 30 /* seeds among which there is something of everything */

static double seconds(void) {
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

struct totals {
	uint64_t seeds, bad, applied, failed, late, torn, crashes, again, in_slots, in_memory,
		hosted, not_finite, mismatches, short_of, rootless, inlined;
	uint64_t others[HD_COLLECTIVE_COUNT];
	struct allreduce_sends_totals sent;
	uint8_t kinds[HD_DTYPE_COUNT];
	uint64_t leases, waits, counters[HD_SWITCH_COUNTER_COUNT];
	hd_ns longest;
};

static void add_sent(struct allreduce_sends_totals *t, const struct allreduce_sends_totals *sent) {
	t->called += sent->called;
	t->sent += sent->sent;
	t->received += sent->received;
	t->mismatches += sent->mismatches;
	t->lost += sent->lost;
	t->withdrawn += sent->withdrawn;
	t->failed += sent->failed;
	t->restarts += sent->restarts;
}

static void run(struct allreduce_world *w, uint64_t seed, bool plain, struct totals *t) {
	struct allreduce_plan plan;
	const char *wrong;

	allreduce_draw(seed, &plan);
	allreduce_draw_hosts(&plan);
	if (!plain)
		allreduce_draw_shared(&plan);
	plan.types = plan.strict = !plain;
	if (!plain) {
		allreduce_draw_mixed(&plan);
		allreduce_draw_sends(&plan);
		allreduce_draw_silences(&plan);
	}
	wrong = allreduce_run(w, &plan);
	t->seeds++;
	t->hosted += plan.hosted ? w->applied - w->in_slots - w->in_memory : 0;
	t->applied += w->applied;
	t->failed += w->failed;
	t->late += w->late;
	t->torn += w->torn;
	t->crashes += w->crashes;
	t->again += w->asked_again;
	t->in_slots += w->in_slots;
	t->in_memory += w->in_memory;
	t->not_finite += w->not_finite;
	t->inlined += w->inlined;
	for (int i = 0; i < HD_DTYPE_COUNT; i++)
		t->kinds[i] |= w->kinds[i];
	t->mismatches += w->mismatches;
	t->short_of += w->short_of;
	t->rootless += w->rootless;
	for (int i = 0; i < HD_COLLECTIVE_COUNT; i++)
		t->others[i] += w->others[i];
	add_sent(&t->sent, &w->sent);
	t->leases += w->switch_on_path.path.leases;
	t->waits += w->switch_on_path.path.waits;
	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
		t->counters[i] += w->switch_on_path.path.counters[i];
	t->longest = hd_ns_max(t->longest, w->longest);
	if (!wrong)
		return;
	t->bad++;
	(void)printf("seed %llu: %s\n", (unsigned long long)seed, wrong);
}

/* Each collective, and the loss of a root. */
static uint64_t check_others(const struct totals *t) {
	static const char *const names[HD_COLLECTIVE_COUNT]
		= {"all-reduces",
		   "barriers",
		   "broadcasts",
		   "reduces",
		   "all-gathers",
		   "reduce-scatters",
		   "gathers",
		   "scatters",
		   "all-to-alls"};
	uint64_t bad = 0;

	(void)printf("results");
	for (int i = 0; i < HD_COLLECTIVE_SEND; i++) {
		(void
		)printf("%s %llu %s", i ? "," : ":", (unsigned long long)t->others[i], names[i]);
		bad += t->others[i] == 0;
	}
	(void)printf("; %llu without their root\n", (unsigned long long)t->rootless);
	if (t->seeds < ENOUGH || (bad == 0 && t->rootless > 0))
		return 0;
	(void)printf("nothing is known of some collectives\n");
	return 1;
}

/* Sends, receives, and what can become of them. */
static uint64_t check_sends(const struct totals *t) {
	const struct allreduce_sends_totals *s = &t->sent;

	(void
	)printf("%llu sends and receives: %llu sent, %llu received, %llu mismatches, %llu whose other end was lost, "
		"%llu withdrawn, %llu restarted\n",
		(unsigned long long)s->called,
		(unsigned long long)s->sent,
		(unsigned long long)s->received,
		(unsigned long long)s->mismatches,
		(unsigned long long)s->lost,
		(unsigned long long)s->withdrawn,
		(unsigned long long)s->restarts);
	if (t->seeds < ENOUGH
	    || (s->sent > 0 && s->received > 0 && s->mismatches > 0 && s->lost > 0
		&& s->withdrawn > 0 && s->restarts > 0))
		return 0;
	(void)printf("nothing is known of some sends\n");
	return 1;
}

/* The switch's counters: its work, and packets that no node here may have sent. */
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
		|| counters[HD_SWITCH_COUNTER_drop_duplicate] == 0
		|| counters[HD_SWITCH_COUNTER_not_finite] == 0)) {
		(void)printf("no sum of a switch was lost or not finite: nothing is known of them\n"
		);
		bad++;
	}
	return bad;
}

/* Every type with every operation. */
static uint64_t check_kinds(const struct totals *t) {
	uint64_t bad = 0;

	for (int type = 0; type < HD_DTYPE_COUNT; type++)
		if (t->seeds >= ENOUGH && hd_dtype_is_element((uint8_t)type)
		    && t->kinds[type] != (1U << HD_REDUCE_OP_COUNT) - 1) {
			(void)printf("type %d: only operations %x\n", type, t->kinds[type]);
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
		plan.with_switch = plan.with_switch && !known[i].no_switch;
		plan.strange = plan.types = plan.strict = false; /* as it was found */
		plan.no_inline = true;
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
		.strange = true,
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

/* NaN and Inf need no aggregator: a switch that adds nothing but fixed point is enough. No worker asks again, though
 * packets are lost and the next round follows at once: it leaves alone what another worker may still miss. */
static uint64_t check_alone(struct allreduce_world *w) {
	struct allreduce_plan plan = {
		.workers = 4,
		.depth = 2,
		.world = 4,
		.with_switch = true,
		.narrow = true,
		.fp32 = true,
		.eager = true,
		.strange = true,
		.no_inline = true,
		.calls = 100,
		.until = 4 * HD_SECOND,
	};
	uint64_t bad = 0;

	for (plan.seed = 1; plan.seed <= 5; plan.seed++) {
		const char *wrong = allreduce_run(w, &plan);

		if (!wrong && w->applied != (uint64_t)plan.workers * plan.calls)
			wrong = "not every call had its sum";
		if (!wrong && (w->asked_again > 0 || w->in_slots != w->applied))
			wrong = "not every sum is the switch's";
		if (!wrong && w->not_finite == 0)
			wrong = "all is finite: nothing is known of what is not";
		if (wrong)
			(void)printf("without an aggregator: %s\n", wrong);
		bad += wrong != NULL;
	}
	return bad;
}

/* Workers that add leave as soon as they have their last sum: the others still get theirs. */
static uint64_t check_leaving(struct allreduce_world *w) {
	uint64_t bad = 0;

	for (uint64_t seed = 1; seed <= LEAVING_SEEDS; seed++) {
		struct allreduce_plan plan = {
			.seed = seed,
			.workers = 5,
			.depth = 1,
			.world = 5,
			.calls = 6,
			.leaves = true,
			.mixed = seed > LEAVING_SEEDS / 2,
			.until = 2 * HD_SECOND,
		};
		const char *wrong;

		allreduce_host(&plan);
		wrong = allreduce_run(w, &plan);
		if (!wrong && w->applied != (uint64_t)plan.workers * plan.calls)
			wrong = "not every call had its sum";
		if (wrong)
			(void)printf("leaving, seed %llu: %s\n", (unsigned long long)seed, wrong);
		bad += wrong != NULL;
	}
	return bad;
}

/* Where all workers share memory, nothing else carries their values; one that has its result may leave at once. */
static uint64_t check_shared(struct allreduce_world *w) {
	uint64_t bad = 0;

	for (uint64_t seed = 1; seed <= LEAVING_SEEDS; seed++) {
		struct allreduce_plan plan = {
			.seed = seed,
			.workers = 1 + seed % 6,
			.depth = 1 + seed % 2,
			.world = 1 + seed % 6,
			.one_host = true,
			.types = true,
			.strange = true,
			.mixed = seed > LEAVING_SEEDS / 3,
			.calls = 12,
			.leaves = true,
			.no_inline = true,
			.until = 2 * HD_SECOND,
		};
		const char *wrong;

		allreduce_host(&plan);
		wrong = allreduce_run(w, &plan);
		if (!wrong && w->applied != (uint64_t)plan.workers * plan.calls)
			wrong = "not every call had its result";
		if (!wrong && w->asked_again > 0)
			wrong = "a round was made twice";
		/* Not where a member of a broadcast has the values. */
		if (!wrong && plan.workers > 1
		    && w->in_memory + w->others[HD_COLLECTIVE_BARRIER]
				    + w->others[HD_COLLECTIVE_BROADCAST]
			    < w->applied)
			wrong = "not every result is of shared memory";
		if (wrong)
			(void)printf("shared, seed %llu: %s\n", (unsigned long long)seed, wrong);
		bad += wrong != NULL;
	}
	return bad;
}

int main(int argc, char **argv) {
	static const struct option options[]
		= {{"seeds", required_argument, NULL, 's'},
		   {"first", required_argument, NULL, 'f'},
		   {"plain", no_argument, NULL, 'p'},
		   {0}};
	static struct allreduce_world world;
	uint64_t count = SEEDS_DEFAULT, first = 1;
	bool limited = true, plain = false;
	struct totals t = {0};
	double start = seconds();
	int option;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return 64;
		limited = limited && option != 's';
		plain = plain || option == 'p';
		if (option != 'p')
			*(option == 's' ? &count : &first) = strtoull(optarg, NULL, 10);
	}
	while (t.seeds < count && !(limited && seconds() - start > SECONDS_DEFAULT))
		run(&world, first + t.seeds, plain, &t);
	(void
	)printf("%llu seeds from %llu, %llu bad: %llu sums (%llu in slots, %llu in memory, %llu by workers), "
		"%llu failed (%llu late), %llu rounds by requests, "
		"%llu not finite, %llu mismatches, %llu without all members, %llu asked again, "
		"%llu torn, %llu crashes, longest after faults %.2f s; "
		"%.1f s\n",
		(unsigned long long)t.seeds,
		(unsigned long long)first,
		(unsigned long long)t.bad,
		(unsigned long long)t.applied,
		(unsigned long long)t.in_slots,
		(unsigned long long)t.in_memory,
		(unsigned long long)t.hosted,
		(unsigned long long)t.failed,
		(unsigned long long)t.late,
		(unsigned long long)t.inlined,
		(unsigned long long)t.not_finite,
		(unsigned long long)t.mismatches,
		(unsigned long long)t.short_of,
		(unsigned long long)t.again,
		(unsigned long long)t.torn,
		(unsigned long long)t.crashes,
		1e-9 * (double)t.longest,
		seconds() - start);
	if (t.seeds >= ENOUGH
	    && (!t.failed || !t.again || !t.hosted || !t.mismatches || !t.short_of || !t.inlined
		|| (!plain && !t.in_memory))) {
		(void
		)printf("no round failed, was asked for again, was added by workers or in memory, or could not be\n"
		);
		t.bad++;
	}
	t.bad += (plain ? 0 : check_kinds(&t) + check_others(&t) + check_sends(&t))
		+ check_switch(&t);
	t.bad += check_known(&world) + check_ranked(&world) + check_alone(&world)
		+ check_leaving(&world) + check_shared(&world) + check_falls_silent(&world)
		+ check_silences(&world);
	return t.bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
