/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of an all-reduce, timed: bench_allreduce COUNT ROUNDS [CHUNK_BYTES [WEIGHT]].
 * Rank 0 prints the seconds of each round (mean over the ranks), a line each; every rank checks every sum. Built twice:
 * with libheddle, and by bench_allreduce.py with mpicc and -DWITH_MPI.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A fabric that is compared. sum: in place, the sum of all ranks' values. */
struct fabric {
	int rank, size;
	void (*sum)(float *x, uint64_t count);
};

static void die(const char *what, const char *why) {
	(void)fprintf(stderr, "bench_allreduce: %s: %s\n", what, why);
	exit(1);
}

#ifdef WITH_MPI
#include <mpi.h>

static void sum_by_mpi(float *x, uint64_t count) {
	MPI_Allreduce(MPI_IN_PLACE, x, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static struct fabric open_fabric(int *argc, char ***argv) {
	struct fabric fabric = {.sum = sum_by_mpi};

	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &fabric.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &fabric.size);
	return fabric;
}

static void close_fabric(void) {
	MPI_Finalize();
}
#else
#include "heddle.h"

static struct heddle *heddle;

static void sum_by_heddle(float *x, uint64_t count) {
	static const struct heddle_collective_options ranked = {.size = sizeof ranked, .ranked = 1};
	int rc = heddle_allreduce(heddle, x, x, count, count == 1 ? NULL : &ranked, 120000, NULL);

	if (rc < 0)
		die("all-reduce", heddle_last_error());
}

static struct fabric open_fabric(int *argc, char ***argv) {
	struct fabric fabric = {.sum = sum_by_heddle};
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;

	if (*argc > 3)
		options.chunk_bytes = (uint32_t)strtoul((*argv)[3], NULL, 10);
	if (*argc > 4)
		options.job_weight = strtof((*argv)[4], NULL);
	if (heddle_spec_create(NULL, NULL, &spec) < 0 || heddle_open(spec, &options, &heddle) < 0
	    || heddle_wait_joined(heddle, 20000, NULL, NULL) < 0)
		die("open", heddle_last_error());
	heddle_spec_destroy(spec);
	fabric.rank = heddle_rank(heddle);
	fabric.size = heddle_world_size(heddle);
	return fabric;
}

static void close_fabric(void) {
	(void)heddle_close(heddle, 2000);
}
#endif

static double now(void) {
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Small whole numbers: every order of adding gives the same sum. */
static float value(int rank, int round, uint64_t i) {
	return (float)((i * 7 + (uint64_t)rank * 3 + (uint64_t)round) % 64);
}

static void check(const struct fabric *fabric, const float *x, uint64_t count, int round) {
	for (uint64_t i = 0; i < count; i++) {
		float want = 0;

		for (int k = 0; k < fabric->size; k++)
			want += value(k, round, i);
		if (x[i] < want || x[i] > want)
			die("sum", "wrong");
	}
}

int main(int argc, char **argv) {
	struct fabric fabric = open_fabric(&argc, &argv);
	uint64_t count = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;
	long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
	float *x = count > 0 ? malloc(count * sizeof *x) : NULL, one;

	if (rounds <= 0 || !x)
		die("usage", "bench_allreduce COUNT ROUNDS [CHUNK_BYTES [WEIGHT]]");
	/* So that a reader of the pipe knows when a round ended. */
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	for (int round = 0; round < (int)rounds; round++) {
		double began, took;

		for (uint64_t i = 0; i < count; i++)
			x[i] = value(fabric.rank, round, i);
		one = 1;
		fabric.sum(&one, 1); /* a barrier */
		began = now();
		fabric.sum(x, count);
		took = now() - began;
		check(&fabric, x, count, round);
		one = (float)took;
		fabric.sum(&one, 1);
		if (fabric.rank == 0)
			(void)printf("%.6f\n", (double)one / fabric.size);
	}
	free(x);
	close_fabric();
	return 0;
}
