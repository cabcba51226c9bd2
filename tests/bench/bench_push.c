/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker that pushes on demand: bench_push VALUES [SECONDS]. For each line on stdin it pushes an update of VALUES
 * fp32 values and prints when it was applied and the version that it made, "ENDED_NS VERSION" (CLOCK_MONOTONIC), or
 * "lost REASON". With SECONDS it pushes for that time after each line, one update after the other and in fixed point,
 * and prints "ENDED_NS VERSION ASKED_NS" of each, then "done".
 */
#include "heddle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_MS 120000
#define TAU_MAX 1000

static void die(const char *what) {
	(void)fprintf(stderr, "bench_push: %s: %s\n", what, heddle_last_error());
	exit(1);
}

static struct heddle *join(uint64_t values, uint64_t *version) {
	struct heddle *heddle = NULL;
	struct heddle_spec *spec;

	if (heddle_spec_create(NULL, NULL, &spec) < 0
	    || heddle_spec_add_tensor(spec, "w", &values, 1, HEDDLE_INIT_ZERO, 0) < 0)
		die("description");
	heddle_spec_set_tau_max(spec, TAU_MAX);
	if (heddle_open(spec, NULL, &heddle) < 0
	    || heddle_wait_joined(heddle, PATIENCE_MS, version, NULL) < 0)
		die("join");
	heddle_spec_destroy(spec);
	return heddle;
}

static void push(struct heddle *heddle, const float *update, double seconds, uint64_t *version) {
	const struct heddle_push_options options = {
		.size = sizeof options,
		.borrow = 1,
		.payload = seconds > 0 ? HEDDLE_PAYLOAD_FIXED32 : HEDDLE_PAYLOAD_FP32,
	};
	struct heddle_status status = HEDDLE_STATUS_INIT;

	if (heddle_push(heddle, update, *version, &options, PATIENCE_MS, &status) < 0) {
		(void)printf("lost %d\n", (int)status.reason);
		return;
	}
	*version = status.version;
	(void)printf("%" PRIu64 " %" PRIu64, status.ended_ns, *version);
	if (seconds > 0)
		(void)printf(" %" PRIu64, status.started_ns);
	(void)printf("\n");
}

static double now(void) {
	struct timespec at;

	(void)clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

int main(int argc, char **argv) {
	const uint64_t values = argc == 2 || argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
	const double seconds = argc == 3 ? strtod(argv[2], NULL) : 0;
	float *update = values ? calloc(values, sizeof *update) : NULL;
	uint64_t version = 0;
	struct heddle *heddle;
	int c;

	if (!update) {
		(void)fprintf(stderr, "usage: bench_push VALUES [SECONDS]\n");
		return 64;
	}
	heddle = join(values, &version);
	for (uint64_t i = 0; i < values; i++)
		update[i] = (float)(i % 8);
	(void)printf("joined\n");
	(void)fflush(stdout);
	while ((c = getchar()) != EOF) {
		const double until = now() + seconds;

		if (c != '\n')
			continue;
		do
			push(heddle, update, seconds, &version);
		while (now() < until);
		if (seconds > 0)
			(void)printf("done\n");
		(void)fflush(stdout);
	}
	(void)heddle_close(heddle, 2000);
	free(update);
	return 0;
}
