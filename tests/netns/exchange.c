/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that exchanges its model with the server for as long as it is told: exchange VALUES. Each line on stdin is
 * "both SECONDS" (pulls and pushes in turns) or "push SECONDS" (pushes only). It ends the last round and prints
 * "PUSHED PULLED FAILED TOOK_NS": updates applied, models delivered, calls that failed, and the time that took.
 */
#include "heddle.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 60000
#define TAU_MAX 1000

struct exchange {
	struct heddle *heddle;
	float *values;
	uint64_t version;
	uint32_t pushed, pulled, failed;
};

static void die(const char *what) {
	(void)fprintf(stderr, "exchange: %s: %s\n", what, heddle_last_error());
	exit(1);
}

static void join(struct exchange *e, uint64_t count) {
	struct heddle_spec *spec;

	if (heddle_spec_create(NULL, NULL, &spec) < 0
	    || heddle_spec_add_tensor(spec, "w", &count, 1, HEDDLE_INIT_ZERO, 0) < 0)
		die("description");
	heddle_spec_set_tau_max(spec, TAU_MAX);
	if (heddle_open(spec, NULL, &e->heddle) < 0
	    || heddle_wait_joined(e->heddle, PATIENCE_MS, &e->version, NULL) < 0)
		die("join");
	heddle_spec_destroy(spec);
}

static uint64_t now_ns(void) {
	struct timespec at;

	(void)clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static void pull(struct exchange *e) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	if (heddle_pull(e->heddle, e->values, NULL, PATIENCE_MS, &status) == 0) {
		e->version = status.version;
		e->pulled++;
	} else {
		e->failed++;
	}
}

static void push(struct exchange *e) {
	const struct heddle_push_options options = {.size = sizeof options, .borrow = 1};
	struct heddle_status status = HEDDLE_STATUS_INIT;

	if (heddle_push(e->heddle, e->values, e->version, &options, PATIENCE_MS, &status) != 0) {
		e->failed++;
		return;
	}
	e->version = status.version;
	e->pushed++;
}

static void run(struct exchange *e, bool both, double seconds) {
	const uint64_t began = now_ns(), until = began + (uint64_t)(seconds * 1e9);

	e->pushed = e->pulled = e->failed = 0;
	do {
		if (both)
			pull(e);
		push(e);
	} while (now_ns() < until);
	(void
	)printf("%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64 "\n",
		e->pushed,
		e->pulled,
		e->failed,
		now_ns() - began);
	(void)fflush(stdout);
}

int main(int argc, char **argv) {
	const uint64_t count = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
	struct exchange e = {.values = count ? calloc(count, sizeof(float)) : NULL};
	char line[64];

	if (!e.values) {
		(void)fprintf(stderr, "usage: exchange VALUES\n");
		return 64;
	}
	join(&e, count);
	(void)printf("joined\n");
	(void)fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		const char *seconds = strchr(line, ' ');

		if (seconds)
			run(&e, line[0] == 'b', strtod(seconds, NULL));
	}
	(void)heddle_close(e.heddle, 2000);
	free(e.values);
	return 0;
}
