/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long the policies of the worker count take. Targets: a decision for 1,000 workers in 1 ms; the scan over up to
 * 1,024 workers and a million steps in 1 s.
 */
#include "hd_elastic.h"
#include "hd_elastic_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>

static double now_s(void) {
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct hd_elastic_context context;
static struct hd_elastic_price prices[2];
static const char *const price_names[] = {"uniform", "Gaussian"};

static struct hd_elastic_task
task_of(const struct hd_elastic_price *price, double beta, double deadline_s) {
	return (struct hd_elastic_task){
		/* So that the best plans need 600 to 1,000 workers and several hundred thousand steps. */
		.model = {3000, 4000 * (1 - beta), beta},
		.epsilon = 8.0,
		.deadline_s = deadline_s,
		.pace = {.count = 2, .n = {1, 1024}, .step_s = {0.5, 1}},
		.price = price,
		.active = {HD_ACTIVE_BINOMIAL, .q = 0.9},
		.preempt_price = -1,
		.n_max = 1024,
		.iterations_max = 1000000,
	};
}

/* The whole scan of a way, once. */
static void bench_scan(const struct hd_elastic_task *task, const char *name) {
	double all = 0;

	for (int kind = 0; kind < HD_ELASTIC_KINDS; kind++) {
		struct hd_elastic_plan plan;
		double took = now_s();
		int status;

		hd_elastic_context_init(&context, task);
		status = hd_elastic_scan(&context, (enum hd_elastic_kind)kind, &plan);
		took = now_s() - took;
		all += took;
		(void
		)printf("  %-9s %-12s %9.3f ms   n = %4u, J = %7u%s\n",
			name,
			hd_elastic_kind_names[kind],
			took * 1e3,
			plan.n,
			plan.iterations,
			status ? " (infeasible)" : "");
	}
	(void)printf("  %-9s %-12s %9.3f ms   (target 1000)\n", name, "all", all * 1e3);
}

/* Every step from 1 to a million, and for each the least workers that are enough. */
static void bench_every_step(void) {
	const struct hd_elastic_task task = task_of(&prices[0], 0.99999, 1e9);
	struct hd_elastic_plan plan, best = {.fails = HD_ELASTIC_FAILS_ERROR, .allowed = 1};
	double took = now_s();
	uint32_t n = task.n_max;

	hd_elastic_context_init(&context, &task);
	for (uint32_t j = 1; j <= task.iterations_max; j++) {
		while (n > 1
		       && hd_elastic_error(&task.model, context.active_inverse[n - 1], j)
			       <= task.epsilon)
			n--;
		if (hd_elastic_preemptible(&context, n, j, &plan) == 0)
			hd_elastic_keep(&best, &plan);
	}
	took = now_s() - took;
	(void
	)printf("  every (n, J), one by one   %9.3f ms   n = %4u, J = %7u\n",
		took * 1e3,
		best.n,
		best.iterations);
	(void)hd_elastic_scan(&context, HD_ELASTIC_KIND_PREEMPTIBLE, &plan);
	(void
	)printf("  the scan finds                            n = %4u, J = %7u\n",
		plan.n,
		plan.iterations);
}

/* The cost of a decision of the dynamic policy. */
static void bench_decide(const char *name, const char *price) {
	static struct hd_elastic owner;
	char words[HD_ELASTIC_WORDS_BYTES], error[256];
	const int count = 2000;
	bool changed;
	double took;

	hd_elastic_init(&owner);
	(void)snprintf(
		words,
		sizeof words,
		"policy=dynamic a=2.3 b=2 beta=0.995 epsilon=1.5 deadline=3600 step_s=1:0.5,1000:1 every=0.1 "
		"price=%s n_max=1000",
		price
	);
	if (hd_elastic_set(&owner, words, 0, 1000, error, sizeof error)) {
		(void)printf("  %s: %s\n", name, error);
		exit(EX_SOFTWARE);
	}
	took = now_s();
	for (int i = 0; i < count; i++) {
		const struct hd_elastic_observation o = {
			.step = (uint64_t)i / 100 + 1,
			.loss = 1,
			.samples = 32,
			.workers = 1000,
			.price = 0.3,
			.step_s = 1,
			.comm_share = -1,
		};

		if (hd_elastic_observe(&owner, i * 0.1, &o))
			exit(EX_SOFTWARE);
		(void)hd_elastic_decide(&owner, i * 0.1, &changed);
	}
	took = (now_s() - took) / count;
	(void
	)printf("  dynamic, %-9s          %9.4f ms   (target 1)  %s\n",
		name,
		took * 1e3,
		owner.reason);
}

int main(void) {
	static const double shape[] = {0.6, 0.175, 0.2, 1};
	char error[128];

	if (hd_elastic_price_uniform(0.2, 1, &prices[0], error, sizeof error)
	    || hd_elastic_price_gaussian(shape, &prices[1], error, sizeof error))
		return EX_SOFTWARE;
	(void)printf("one decision, 1,000 workers:\n");
	bench_decide("uniform", "uniform:0.2:1");
	bench_decide("Gaussian", "gauss:0.6:0.175:0.2:1");
	(void)printf("plans, up to 1,024 workers and 1,000,000 steps:\n");
	for (int i = 0; i < 2; i++) {
		const struct hd_elastic_task task = task_of(&prices[i], 0.99999, 1e6);

		bench_scan(&task, price_names[i]);
	}
	bench_every_step();
	return 0;
}
