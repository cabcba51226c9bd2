/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker of a job of all-reduces: reduce_worker COUNT ROUNDS. Says `joined`, then `round N` after each one,
 * and at the end how many rounds it was in, how many sums it has had, how many it came too late for, and its longest
 * wait, as JSON. Every value of every sum is checked, NaN and Inf among them: a sum may have fewer workers than the
 * job, never other values than theirs.
 *
 * Rounds 0: until SIGTERM. The worker that receives it sets one more value of the sum, so that all end after the same
 * round.
 */
#include "heddle.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 15000
#define PAUSE_US 5000

static volatile sig_atomic_t must_end;

static void on_term(int number) {
	(void)number;
	must_end = 1;
}

static void die(const char *what, const char *why) {
	(void)fprintf(stderr, "reduce_worker: %s: %s\n", what, why);
	exit(1);
}

static double now(void) {
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Rank r gives 1 << r times this: whole numbers, so that a sum says who is in it. */
static float factor(long round, uint64_t i) {
	return (float)(1 + (i + (uint64_t)round) % 7);
}

/* In every fifth round some of the values are not finite. */
static float value(int rank, long round, uint64_t i) {
	static const float odd[][3]
		= {{NAN, 0, 0}, {0, INFINITY, INFINITY}, {-INFINITY, INFINITY, 1}};
	uint64_t which = (i + (uint64_t)round) % 1000;

	if (round % 5 == 4 && i > 0 && which < 3)
		return odd[which][rank % 3];
	return (float)(1U << rank) * factor(round, i);
}

/* Exact in any order. */
static float sum_of(unsigned members, long round, uint64_t i) {
	float sum = 0;

	for (int rank = 0; members >> rank; rank++)
		if (members >> rank & 1)
			sum += value(rank, round, i);
	return sum;
}

static void check(const float *x, uint64_t count, long round, int rank, uint32_t workers) {
	unsigned members = (unsigned)(x[0] / factor(round, 0));

	if (!(members >> rank & 1) || (unsigned)__builtin_popcount(members) != workers)
		die("sum", "not of the workers that it names");
	for (uint64_t i = 0; i < count; i++) {
		float want = sum_of(members, round, i);

		if (isnan(want) != isnan(x[i]) || x[i] < want || x[i] > want)
			die("sum", "wrong");
	}
}

int main(int argc, char **argv) {
	uint64_t count = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;
	long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : -1, sums = 0, late = 0, all = 0;
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	long round = 0;
	bool ends = false;
	struct heddle *fabric;
	struct heddle_spec *spec;
	float *x = malloc((count + 1) * sizeof *x);
	double longest = 0;
	int rank;

	if (!count || rounds < 0 || !x)
		die("usage", "reduce_worker COUNT ROUNDS");
	if (heddle_spec_create(NULL, NULL, &spec) < 0 || heddle_open(spec, NULL, &fabric) < 0
	    || heddle_wait_joined(fabric, TIMEOUT_MS, NULL, NULL) < 0)
		die("open", heddle_last_error());
	heddle_spec_destroy(spec);
	rank = heddle_rank(fabric);
	(void)signal(SIGTERM, on_term);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	(void)printf("joined\n");
	options.wait_ms
		= HEDDLE_WAIT_FOREVER; /* one that is slow on a busy machine is in the sums */
	for (; rounds == 0 ? !ends : round < rounds; round++) {
		struct heddle_status status = HEDDLE_STATUS_INIT;
		double began = now(), took;
		int rc;

		for (uint64_t i = 0; i < count; i++)
			x[i] = value(rank, round, i);
		x[count] = must_end ? 1 : 0;
		rc = heddle_allreduce(fabric, x, x, count + 1, &options, TIMEOUT_MS, &status);
		took = now() - began;
		longest = took > longest ? took : longest;
		if (rc == -EIO && status.reason == HEDDLE_REASON_LATE)
			late++;
		else if (rc < 0)
			die("all-reduce", heddle_last_error());
		else
			check(x, count, round, rank, status.workers);
		ends = rc == 0 && x[count] > 0;
		sums += rc == 0;
		all += rc == 0 && status.workers == (uint32_t)heddle_world_size(fabric);
		(void)printf("round %ld\n", round + 1);
		(void)usleep(PAUSE_US);
	}
	(void
	)printf("{\"rounds\": %ld, \"sums\": %ld, \"all\": %ld, \"late\": %ld, \"longest_s\": %.3f}\n",
		round,
		sums,
		all,
		late,
		longest);
	free(x);
	(void)heddle_close(fabric, 2000);
	return 0;
}
