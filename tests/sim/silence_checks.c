/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl_core.h"
#include "silence_checks.h"

#include <stdio.h>

#define ALL 0xf
#define OTHERS 0x7
#define LEASE ((hd_ns)HD_DETECTION_US * HD_US)
#define SEEDS 24

/* From the last call of a member to the end at rank 0. */
static hd_ns took(const struct allreduce_world *w, uint32_t round) {
	hd_ns last = 0;

	for (unsigned k = 0; k < w->plan.workers; k++)
		if (w->endings[round][0].members >> k & 1)
			last = hd_ns_max(last, w->silences.called[round][k]);
	return w->endings[round][0].at - last;
}

static const char *again(const struct allreduce_world *w, uint32_t round) {
	static char words[80];

	(void)snprintf(
		words,
		sizeof words,
		"it did not take part again: round %u has members %x",
		round,
		w->endings[round][0].members
	);
	return words;
}

static const char *story(const struct allreduce_world *w) {
	uint32_t round = 1, without = 0, whole = 0;
	hd_ns paid;

	while (round < ROUNDS_MAX && w->endings[round][0].members != OTHERS)
		round++;
	if (round == ROUNDS_MAX)
		return "no round began without the silent worker";
	paid = w->endings[round][0].at - w->silences.first[round];
	if (paid < LEASE || paid > LEASE + LEASE / 2)
		return "the first round without it did not take the detection time";
	for (round++; w->endings[round][0].members == OTHERS; round++, without++)
		if (took(w, round) > LEASE / 2)
			return "a later round waited for it, too";
	if (without < 10)
		return "few rounds were made without it";
	for (; round < ROUNDS_MAX && w->endings[round][0].members > 0
	     && w->silences.first[round] < w->plan.until;
	     round++) {
		if (w->endings[round][0].members != ALL)
			return again(w, round);
		whole++;
	}
	if (w->late != 1)
		return "it was not told that it is late, or more than once";
	return whole < 10 ? "few rounds were made with it again" : NULL;
}

uint64_t check_falls_silent(struct allreduce_world *w) {
	static const char *const by[] = {"aggregators", "workers", "a switch"};
	uint64_t bad = 0;

	for (unsigned i = 0; i < 3; i++) {
		struct allreduce_plan plan = {
			.seed = 4 + i,
			.workers = 4,
			.aggregators = i == 2 ? 0 : 2,
			.depth = 1,
			.world = 4,
			.fp32 = true,
			.with_switch = i == 2,
			.falls_silent = 20,
			.until = 9 * HD_SECOND,
		};
		const char *wrong;

		if (i == 1)
			allreduce_host(&plan);
		wrong = allreduce_run(w, &plan);
		if (!wrong)
			wrong = story(w);
		if (wrong)
			(void)printf("a silent worker, sums by %s: %s\n", by[i], wrong);
		bad += wrong != NULL;
	}
	return bad;
}

uint64_t check_silences(struct allreduce_world *w) {
	uint64_t bad = 0, late = 0, missing = 0, applied = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct allreduce_plan plan = {
			.seed = seed,
			.workers = 2 + (uint32_t)(seed % 4),
			.aggregators = 2,
			.depth = 1 + (uint32_t)(seed % 3 == 0),
			.world = 2 + (uint32_t)(seed % 4),
			.with_switch = seed % 3 == 1,
			.mixed = seed % 2 == 1,
			.strict = seed % 4 < 2,
			.types = true,
			.silences = true,
			.until = 8 * HD_SECOND,
		};
		const char *wrong;

		if (seed % 5 == 0)
			allreduce_host(&plan);
		wrong = allreduce_run(w, &plan);
		late += w->silences.late;
		missing += w->silences.missing;
		applied += w->applied;
		if (wrong)
			(void)printf("silences, seed %llu: %s\n", (unsigned long long)seed, wrong);
		bad += wrong != NULL;
	}
	(void
	)printf("silences: %llu results, %llu of them missing, %llu late\n",
		(unsigned long long)applied,
		(unsigned long long)missing,
		(unsigned long long)late);
	if (late == 0 || missing == 0)
		(void)printf("no worker was left out: nothing is known of that\n");
	return bad + (late == 0 || missing == 0);
}
