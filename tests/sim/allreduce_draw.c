/* SPDX-License-Identifier: BSD-3-Clause */
/* The world of an all-reduce, drawn from a seed. */
#include "allreduce_world.h"

void allreduce_host(struct allreduce_plan *plan) {
	plan->hosted = plan->shared = true;
	plan->aggregators = plan->workers;
}

void allreduce_draw(uint64_t seed, struct allreduce_plan *plan) {
	struct hd_random random;

	hd_random_init(&random, seed);
	*plan = (struct allreduce_plan){.seed = seed, .faults = true};
	plan->workers = 1 + (uint32_t)hd_random_below(&random, WORKERS_MAX);
	plan->aggregators = 1 + (uint32_t)hd_random_below(&random, STANDING_MAX);
	plan->depth = hd_random_chance(&random, 0.3) ? 2 : 1;
	plan->world = hd_random_chance(&random, 0.7) ? plan->workers : 0;
	plan->shared = hd_random_chance(&random, 0.5) && plan->aggregators <= plan->workers;
	plan->until = (2 + hd_random_below(&random, 3)) * HD_SECOND;
	plan->with_switch = hd_random_chance(&random, 0.6);
	if (plan->with_switch && hd_random_chance(&random, 0.7))
		plan->aggregators = 1; /* which is slower */
	plan->strange = plan->types = plan->strict = true;
}

void allreduce_draw_mixed(struct allreduce_plan *plan) {
	struct hd_random random;

	hd_random_init(&random, plan->seed ^ 0x717ed);
	plan->mixed = hd_random_chance(&random, 0.6);
}

void allreduce_draw_shared(struct allreduce_plan *plan) {
	struct hd_random random;

	hd_random_init(&random, plan->seed ^ 0x5a5ed);
	plan->one_host = hd_random_chance(&random, 0.3);
	plan->two_hosts = !plan->one_host && hd_random_chance(&random, 0.15);
}

void allreduce_draw_sends(struct allreduce_plan *plan) {
	struct hd_random random;

	hd_random_init(&random, plan->seed ^ 0x5e4d);
	plan->sends = hd_random_chance(&random, 0.5);
}

void allreduce_draw_hosts(struct allreduce_plan *plan) {
	struct hd_random random;

	hd_random_init(&random, plan->seed ^ 0x40575);
	if (hd_random_chance(&random, 0.4))
		allreduce_host(plan);
}

void allreduce_draw_silences(struct allreduce_plan *plan) {
	struct hd_random random;

	hd_random_init(&random, plan->seed ^ 0x511e7);
	plan->silences = hd_random_chance(&random, 0.4);
}
