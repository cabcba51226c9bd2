/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two workers of a job of all-reduces in one process: reduce_late PID, of the only aggregator. The aggregator is
 * stopped when a round has begun, one worker's call times out, and the aggregator goes on: the call's data stay as they
 * were. Exit 0, 77 when no round had begun in time, else a sentence.
 */
#include "heddle.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

#define VALUES 300000
#define PATIENCE_MS 15000
#define TIMEOUT_MS 300
#define ATTEMPTS 5
#define SKIPPED 77

struct late {
	struct heddle *fabric;
	float data[VALUES];
	int rc;
};

static void need(bool good, const char *what) {
	if (good)
		return;
	(void)fprintf(stderr, "reduce_late: %s: %s\n", what, heddle_last_error());
	exit(1);
}

static struct heddle *join(const char *job, int rank) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	struct heddle *fabric;

	options.rank = rank;
	need(heddle_spec_create(NULL, job, &spec) == 0, "spec");
	need(heddle_open(spec, &options, &fabric) == 0, "open");
	heddle_spec_destroy(spec);
	need(heddle_wait_joined(fabric, PATIENCE_MS, NULL, NULL) == 0, "join");
	return fabric;
}

static void fill(float *data, float value) {
	for (int i = 0; i < VALUES; i++)
		data[i] = value;
}

static bool is(const float *data, float value) {
	for (int i = 0; i < VALUES; i++)
		if (data[i] < value || data[i] > value)
			return false;
	return true;
}

static void *call(void *arg) {
	struct late *late = arg;

	late->rc = heddle_allreduce(
		late->fabric, late->data, late->data, VALUES, NULL, TIMEOUT_MS, NULL
	);
	return NULL;
}

static struct heddle_ticket *begin(struct heddle *fabric, const float *in, float *out) {
	struct heddle_ticket *ticket;

	need(heddle_allreduce_start(fabric, in, out, VALUES, NULL, &ticket) == 0, "start");
	return ticket;
}

/* A round of both that ends: what was before it has ended, too. */
static void round_of_both(struct heddle *a, struct heddle *b) {
	static float x[VALUES], y[VALUES];
	struct heddle_ticket *first = begin(a, x, x), *second = begin(b, y, y);

	need(heddle_ticket_wait(first, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, NULL) == 0
		     && heddle_ticket_wait(second, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, NULL) == 0,
	     "a round of both");
	heddle_ticket_free(first);
	heddle_ticket_free(second);
}

/* Whether the round had begun when the call timed out. */
static bool attempt(struct late *late, const char *job, pid_t aggregator) {
	static float in[VALUES], out[VALUES];
	struct heddle_status status = HEDDLE_STATUS_INIT;
	const struct timespec moment = {.tv_nsec = 1000000};
	struct heddle *other = join(job, 1);
	struct heddle_ticket *ticket;
	bool begun = false;
	pthread_t thread;

	late->fabric = join(job, 0);
	round_of_both(late->fabric, other);
	need(kill(aggregator, SIGSTOP) == 0, "stop");
	fill(late->data, 1);
	ticket = begin(other, in, out);
	need(pthread_create(&thread, NULL, call, late) == 0, "thread");
	for (int i = 0; i < TIMEOUT_MS && !begun; i++) {
		(void)heddle_ticket_test(ticket, &status);
		begun = status.state == HEDDLE_STATE_SENDING;
		(void)nanosleep(&moment, NULL);
	}
	(void)pthread_join(thread, NULL);
	need(late->rc == -ETIMEDOUT, "the call times out");
	need(is(late->data, 1), "data are as they were when the call returns");
	fill(late->data, 42);
	need(kill(aggregator, SIGCONT) == 0, "continue");
	if (begun) {
		need(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status) == 0,
		     "the other worker's call ends");
		round_of_both(late->fabric, other);
	}
	need(is(late->data, 42), "data are not written later");
	heddle_ticket_free(ticket);
	(void)heddle_close(late->fabric, begun ? 1000 : 0);
	(void)heddle_close(other, begun ? 1000 : 0);
	return begun;
}

int main(int argc, char **argv) {
	pid_t aggregator = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
	struct late *late = calloc(1, sizeof *late);

	need(aggregator > 0 && late, "usage: reduce_late PID");
	for (int i = 0; i < ATTEMPTS; i++) {
		char job[16];

		(void)snprintf(job, sizeof job, "late%d", i);
		if (attempt(late, job, aggregator)) {
			free(late);
			return 0;
		}
	}
	return SKIPPED;
}
