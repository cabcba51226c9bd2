/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of timed collectives: bench_collectives COLLECTIVE,... BYTES:ROUNDS...
 * Rank 0 prints a line for each round: the collective, the bytes, and the seconds of the slowest rank. Bytes are those
 * of the longest buffer, of which each rank has an n-th where it has a block. Each rank checks all its results. Built
 * twice: with libheddle, and by bench_collectives.py with mpicc and -DWITH_MPI.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	ROOT = 0
};

/* `count` values of the longest buffer, `block` of a rank's block: count = size * block. */
struct call {
	float *in, *out;
	uint64_t count, block;
};

static void die(const char *what, const char *why) {
	(void)fprintf(stderr, "bench_collectives: %s: %s\n", what, why);
	exit(1);
}

static int rank, size;

#ifdef WITH_MPI
#include <mpi.h>

static void allreduce(const struct call *c) {
	MPI_Allreduce(c->in, c->out, (int)c->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void broadcast(const struct call *c) {
	MPI_Bcast(c->out, (int)c->count, MPI_FLOAT, ROOT, MPI_COMM_WORLD);
}

static void reduce(const struct call *c) {
	MPI_Reduce(c->in, c->out, (int)c->count, MPI_FLOAT, MPI_SUM, ROOT, MPI_COMM_WORLD);
}

static void allgather(const struct call *c) {
	MPI_Allgather(
		c->in, (int)c->block, MPI_FLOAT, c->out, (int)c->block, MPI_FLOAT, MPI_COMM_WORLD
	);
}

static void reduce_scatter(const struct call *c) {
	MPI_Reduce_scatter_block(c->in, c->out, (int)c->block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void gather(const struct call *c) {
	MPI_Gather(
		c->in,
		(int)c->block,
		MPI_FLOAT,
		c->out,
		(int)c->block,
		MPI_FLOAT,
		ROOT,
		MPI_COMM_WORLD
	);
}

static void scatter(const struct call *c) {
	MPI_Scatter(
		c->in,
		(int)c->block,
		MPI_FLOAT,
		c->out,
		(int)c->block,
		MPI_FLOAT,
		ROOT,
		MPI_COMM_WORLD
	);
}

static void alltoall(const struct call *c) {
	MPI_Alltoall(
		c->in, (int)c->block, MPI_FLOAT, c->out, (int)c->block, MPI_FLOAT, MPI_COMM_WORLD
	);
}

static void barrier(void) {
	MPI_Barrier(MPI_COMM_WORLD);
}

static double greatest(double x) {
	double most = 0;

	MPI_Allreduce(&x, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return most;
}

static void open_fabric(int *argc, char ***argv) {
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static void close_fabric(void) {
	MPI_Finalize();
}
#else
#include "heddle.h"

enum {
	TIMEOUT_MS
		= -1 /* the result is made where the caller wants it: one that may give up gets a copy */
};

static struct heddle *heddle;

static void must(int rc) {
	if (rc < 0)
		die("collective", heddle_last_error());
}

static struct heddle_collective_options exactly_all(void) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;

	options.exact = (unsigned)size;
	options.borrow = 1; /* as MPI and Gloo, which read the caller's buffer */
	return options;
}

static void allreduce(const struct call *c) {
	const struct heddle_collective_options all = exactly_all();

	must(heddle_allreduce(heddle, c->in, c->out, c->count, &all, TIMEOUT_MS, NULL));
}

static void broadcast(const struct call *c) {
	const struct heddle_collective_options all = exactly_all();

	must(heddle_broadcast(heddle, c->out, c->count, ROOT, &all, TIMEOUT_MS, NULL));
}

static void reduce(const struct call *c) {
	const struct heddle_collective_options all = exactly_all();

	must(heddle_reduce(heddle, c->in, c->out, c->count, ROOT, &all, TIMEOUT_MS, NULL));
}

static void allgather(const struct call *c) {
	const struct heddle_collective_options all = exactly_all();

	must(heddle_allgather(heddle, c->in, c->out, c->block, &all, TIMEOUT_MS, NULL));
}

static void reduce_scatter(const struct call *c) {
	const struct heddle_collective_options all = exactly_all();

	must(heddle_reduce_scatter(heddle, c->in, c->out, c->count, &all, TIMEOUT_MS, NULL));
}

static void gather(const struct call *c) {
	const struct heddle_collective_options all = exactly_all();

	must(heddle_gather(heddle, c->in, c->out, c->block, ROOT, &all, TIMEOUT_MS, NULL));
}

static void scatter(const struct call *c) {
	const struct heddle_collective_options all = exactly_all();

	must(heddle_scatter(heddle, c->in, c->out, c->count, ROOT, &all, TIMEOUT_MS, NULL));
}

static void alltoall(const struct call *c) {
	const struct heddle_collective_options all = exactly_all();

	must(heddle_alltoall(heddle, c->in, c->out, c->count, &all, TIMEOUT_MS, NULL));
}

static void barrier(void) {
	const struct heddle_collective_options all = exactly_all();

	must(heddle_barrier(heddle, &all, TIMEOUT_MS, NULL));
}

static double greatest(double x) {
	struct heddle_collective_options all = exactly_all();
	double most = 0;

	all.type = HEDDLE_TYPE_FP64;
	all.reduce_op = HEDDLE_REDUCE_OP_MAX;
	must(heddle_allreduce(heddle, &x, &most, 1, &all, TIMEOUT_MS, NULL));
	return most;
}

static void open_fabric(int *argc, char ***argv) {
	const struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;

	(void)argc;
	(void)argv;
	if (heddle_spec_create(NULL, NULL, &spec) < 0 || heddle_open(spec, &options, &heddle) < 0
	    || heddle_wait_joined(heddle, 20000, NULL, NULL) < 0)
		die("open", heddle_last_error());
	heddle_spec_destroy(spec);
	rank = heddle_rank(heddle);
	size = heddle_world_size(heddle);
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
static float value(int of, uint64_t round, uint64_t i) {
	return (float)((i * 7 + (uint64_t)of * 3 + round) % 64);
}

static float sum(uint64_t round, uint64_t i) {
	float of_all = 0;

	for (int k = 0; k < size; k++)
		of_all += value(k, round, i);
	return of_all;
}

/* The value at index i of a rank's result. */
static float sum_here(const struct call *c, uint64_t round, uint64_t i) {
	(void)c;
	return sum(round, i);
}

static float sum_of_block(const struct call *c, uint64_t round, uint64_t i) {
	return sum(round, (uint64_t)rank * c->block + i);
}

static float of_root(const struct call *c, uint64_t round, uint64_t i) {
	(void)c;
	return value(ROOT, round, i);
}

static float of_root_block(const struct call *c, uint64_t round, uint64_t i) {
	return value(ROOT, round, (uint64_t)rank * c->block + i);
}

static float of_each(const struct call *c, uint64_t round, uint64_t i) {
	return value((int)(i / c->block), round, i % c->block);
}

static float block_of_each(const struct call *c, uint64_t round, uint64_t i) {
	return value((int)(i / c->block), round, (uint64_t)rank * c->block + i % c->block);
}

static void only_barrier(const struct call *c) {
	(void)c;
	barrier();
}

static const struct collective {
	const char *name;
	void (*run)(const struct call *c);
	float (*want)(const struct call *c, uint64_t round, uint64_t i);
	int to_block; /* the result is a block */
	int root_only; /* others have no result */
	int in_place; /* the root's values are in out */
} collectives[] = {
	{"allreduce", allreduce, sum_here, 0, 0, 0},
	{"broadcast", broadcast, of_root, 0, 0, 1},
	{"reduce", reduce, sum_here, 0, 1, 0},
	{"allgather", allgather, of_each, 0, 0, 0},
	{"reduce-scatter", reduce_scatter, sum_of_block, 1, 0, 0},
	{"gather", gather, of_each, 0, 1, 0},
	{"scatter", scatter, of_root_block, 1, 0, 0},
	{"alltoall", alltoall, block_of_each, 0, 0, 0},
	{"barrier", only_barrier, NULL, 0, 0, 0},
};
enum {
	COLLECTIVES = sizeof collectives / sizeof *collectives
};

static void check(const struct collective *what, const struct call *c, uint64_t round) {
	if (!what->want || (what->root_only && rank != ROOT))
		return;
	for (uint64_t i = 0; i < (what->to_block ? c->block : c->count); i++) {
		const float want = what->want(c, round, i);

		if (c->out[i] < want || c->out[i] > want)
			die(what->name, "wrong result");
	}
}

static double one_round(const struct collective *what, const struct call *c, uint64_t round) {
	double began, took;

	for (uint64_t i = 0; i < c->count; i++) {
		c->in[i] = value(rank, round, i);
		c->out[i] = what->in_place && rank == ROOT ? c->in[i] : -1;
	}
	barrier();
	began = now();
	what->run(c);
	took = now() - began;
	check(what, c, round);
	return greatest(took);
}

static void measure(const struct collective *what, uint64_t bytes, uint64_t rounds) {
	struct call c = {.block = bytes / sizeof *c.in / (uint64_t)size};

	c.count = c.block * (uint64_t)size;
	if (c.count == 0)
		die("usage", "less than a value for each rank");
	c.in = malloc(c.count * sizeof *c.in);
	c.out = malloc(c.count * sizeof *c.out);
	if (!c.in || !c.out)
		die("memory", "none left");
	(void)one_round(what, &c, 0); /* opens connections */
	for (uint64_t round = 1; round <= rounds; round++) {
		const double took = one_round(what, &c, round);

		if (rank == ROOT)
			(void)printf("%s %" PRIu64 " %.9f\n", what->name, bytes, took);
	}
	free(c.in);
	free(c.out);
}

static const struct collective *find(const char *name) {
	for (int i = 0; i < COLLECTIVES; i++)
		if (strcmp(collectives[i].name, name) == 0)
			return &collectives[i];
	die(name, "no collective of this name");
	return NULL;
}

int main(int argc, char **argv) {
	char *next, *name;

	open_fabric(&argc, &argv);
	if (argc < 3)
		die("usage", "bench_collectives COLLECTIVE,... BYTES:ROUNDS...");
	/* So that a reader of the pipe knows when a round ended. */
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	for (name = strtok_r(argv[1], ",", &next); name; name = strtok_r(NULL, ",", &next)) {
		for (int i = 2; i < argc; i++) {
			char *colon;
			const uint64_t bytes = strtoull(argv[i], &colon, 10);

			if (*colon != ':')
				die(argv[i], "want BYTES:ROUNDS");
			measure(find(name), bytes, strtoull(colon + 1, NULL, 10));
		}
	}
	close_fabric();
	return 0;
}
