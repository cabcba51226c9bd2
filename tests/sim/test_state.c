/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The newest state from another worker, a world from each seed: test_state [--seeds N] [--first N]. All members of a
 * handover have the newest version that one of them had, bit for bit; those that had it keep theirs; a step has only
 * workers of one version; all members of a step are told alike who waits. Sources and receivers die in the middle.
 */
#include "state_world.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SEEDS_DEFAULT 120
#define SECONDS_DEFAULT 10
#define ENOUGH 25 /* seeds among which there is something of everything */

struct totals {
	uint64_t seeds, bad, made, kept, received, gave, waited, none, again, source_deaths,
		receiver_deaths, deaths;
};

static double seconds(void) {
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static struct state_plan draw(uint64_t seed) {
	struct state_plan plan = {.seed = seed};
	struct hd_random random;

	hd_random_init(&random, seed);
	plan.workers = 1 + (uint32_t)hd_random_below(&random, WORKERS_MAX);
	plan.deaths = hd_random_chance(&random, 0.8);
	plan.part_bytes = (uint32_t[]){PART_MAX, 1001, 301}[hd_random_below(&random, 3)];
	plan.step_ms = 3 + (uint32_t)hd_random_below(&random, 20);
	plan.until = (3 + hd_random_below(&random, 4)) * HD_SECOND;
	return plan;
}

static void run(struct state_world *w, uint64_t seed, struct totals *t) {
	const struct state_plan plan = draw(seed);
	const char *wrong = state_run(w, &plan);

	t->seeds++;
	t->made += w->made;
	t->kept += w->kept;
	t->received += w->received;
	t->gave += w->gave;
	t->waited += w->waited;
	t->none += w->none;
	t->again += w->again;
	t->source_deaths += w->source_deaths;
	t->receiver_deaths += w->receiver_deaths;
	t->deaths += w->deaths;
	if (!wrong)
		return;
	t->bad++;
	(void)printf("seed %llu: %s\n", (unsigned long long)seed, wrong);
}

static void print(const struct totals *t, uint64_t first, double took) {
	(void
	)printf("%llu seeds from %llu, %llu bad: %llu steps; %llu states received, %llu given, "
		"%llu kept, none %llu times; %llu waited, %llu begun again; %llu deaths (%llu of "
		"sources, %llu of receivers); %.1f s\n",
		(unsigned long long)t->seeds,
		(unsigned long long)first,
		(unsigned long long)t->bad,
		(unsigned long long)t->made,
		(unsigned long long)t->received,
		(unsigned long long)t->gave,
		(unsigned long long)t->kept,
		(unsigned long long)t->none,
		(unsigned long long)t->waited,
		(unsigned long long)t->again,
		(unsigned long long)t->deaths,
		(unsigned long long)t->source_deaths,
		(unsigned long long)t->receiver_deaths,
		took);
}

int main(int argc, char **argv) {
	static const struct option options[]
		= {{"seeds", required_argument, NULL, 's'},
		   {"first", required_argument, NULL, 'f'},
		   {0}};
	static struct state_world world;
	uint64_t count = SEEDS_DEFAULT, first = 1;
	const double start = seconds();
	struct totals t = {0};
	bool limited = true;
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
	print(&t, first, seconds() - start);
	if (t.seeds >= ENOUGH
	    && (!t.received || !t.gave || !t.kept || !t.none || !t.waited || !t.again
		|| !t.source_deaths || !t.receiver_deaths)) {
		(void)printf("something did not happen: nothing is known of it\n");
		t.bad++;
	}
	return t.bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
