/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker of the survival tests: pulls, computes, pushes an update that follows from its rank and round, and
 * says what it was told, a line for each thing in one write(), so that what it had been told when it was
 * killed is known afterwards. Times are CLOCK_MONOTONIC in ns.
 *
 *     joined TIME VERSION
 *     push TIME ROUND BASE
 *     outcome TIME ROUND STATE REASON VERSION      the first one
 *     durable TIME ROUND VERSION
 *     released TIME ROUND VERSION                  applied, and not watched any longer
 *     lost TIME ROUND STATE REASON                 applied once, and then its history was rolled back
 *     end TIME PUSHED APPLIED DROPPED FAILED
 *
 * usage: survive_worker VALUES COMPUTE_MS LOG   the rest comes from heddle-run's environment; SIGTERM ends it
 */
#include "survive_update.h"

#include <errno.h>
#include <fcntl.h>
#include <heddle.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TICKETS_MAX 1024
#define LOOK_MS 50
#define PATIENCE_MS 500
#define PATIENCE_MOST_MS 16000
#define TAU_MAX 16
#define CLOSE_MS 8000
#define KEEP_BYTES (UINT64_C(64) << 20)

struct kept {
	struct heddle_ticket *ticket;
	uint32_t round;
};

struct worker {
	struct heddle *fabric;
	float *model, *update;
	size_t values;
	long compute_ms;
	int log;
	struct kept kept[TICKETS_MAX]; /* applied, not known to be durable */
	size_t kept_count;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number) {
	stopped = number;
}

static uint64_t now_ns(void) {
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

__attribute__((format(printf, 3, 4))) static void
print_line(const struct worker *worker, const char *what, const char *format, ...) {
	char line[256];
	int bytes = snprintf(line, sizeof line, "%s %" PRIu64 " ", what, now_ns());
	va_list args;

	va_start(args, format);
	bytes += vsnprintf(line + bytes, sizeof line - (size_t)bytes, format, args);
	va_end(args);
	line[bytes++] = '\n';
	if (write(worker->log, line, (size_t)bytes) != bytes)
		_exit(74);
}

/* True when the ticket has nothing more to say. */
static bool look(const struct worker *worker, const struct kept *kept) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	(void)heddle_ticket_test(kept->ticket, &status);
	/* It may be in flight again, after a restart of the server. */
	if (status.state < HEDDLE_STATE_APPLIED
	    || (status.state == HEDDLE_STATE_APPLIED && !status.released))
		return false;
	if (status.state == HEDDLE_STATE_APPLIED)
		print_line(worker, "released", "%u %" PRIu64, kept->round, status.version);
	else if (status.state == HEDDLE_STATE_DURABLE)
		print_line(worker, "durable", "%u %" PRIu64, kept->round, status.version);
	else
		print_line(
			worker,
			"lost",
			"%u %s %s",
			kept->round,
			heddle_state_name(status.state),
			heddle_reason_name(status.reason)
		);
	heddle_ticket_free(kept->ticket);
	return true;
}

static void look_at_all(struct worker *worker) {
	size_t left = 0;

	for (size_t i = 0; i < worker->kept_count; i++)
		if (!look(worker, &worker->kept[i]))
			worker->kept[left++] = worker->kept[i];
	worker->kept_count = left;
}

static uint32_t next_round(const struct worker *worker) {
	struct heddle_stats stats = HEDDLE_STATS_INIT;

	if (heddle_get_stats(worker->fabric, &stats) < 0)
		_exit(70);
	return stats.push_round + 1;
}

/* 0, or when it was told to stop before the outcome: 1. */
static int push(struct worker *worker, uint64_t base) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct kept kept = {.round = next_round(worker)};
	int rc;

	survive_update(
		(uint32_t)heddle_rank(worker->fabric), kept.round, worker->update, worker->values
	);
	print_line(worker, "push", "%u %" PRIu64, kept.round, base);
	if (heddle_push_start(worker->fabric, worker->update, base, NULL, &kept.ticket) < 0)
		_exit(70);
	do {
		rc = heddle_ticket_wait(kept.ticket, HEDDLE_WAIT_OUTCOME, LOOK_MS, &status);
		look_at_all(worker);
	} while (rc == -ETIMEDOUT);
	/* The bytes must be those of the round that they were made for. */
	if (rc < 0 || status.round != kept.round)
		_exit(71);
	print_line(
		worker,
		"outcome",
		"%u %s %s %" PRIu64,
		kept.round,
		heddle_state_name(status.state),
		heddle_reason_name(status.reason),
		status.version
	);
	if (status.state != HEDDLE_STATE_APPLIED && status.state != HEDDLE_STATE_DURABLE)
		heddle_ticket_free(kept.ticket);
	else if (worker->kept_count == TICKETS_MAX)
		_exit(72);
	else
		worker->kept[worker->kept_count++] = kept;
	return 0;
}

/* 0, or why not: -ETIMEDOUT after so long. */
static int pull_within(struct worker *worker, uint64_t *version, int patience_ms) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket;
	int rc = heddle_pull_start(worker->fabric, worker->model, NULL, &ticket);

	if (rc < 0)
		return rc;
	do {
		rc = heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, LOOK_MS, &status);
		look_at_all(worker);
		patience_ms -= LOOK_MS;
	} while (rc == -ETIMEDOUT && patience_ms > 0 && !stopped);
	if (rc == -ETIMEDOUT) {
		while (heddle_ticket_cancel(ticket) == -EAGAIN)
			(void)heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, 1, NULL);
		(void)heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, -1, &status);
	}
	heddle_ticket_free(ticket);
	*version = status.version;
	return status.state == HEDDLE_STATE_APPLIED ? 0 : rc < 0 ? rc : -EIO;
}

/* Gives up now and then, as a program may, but later and later: on a machine that has no time for us each asking
 * would else be given up before it was answered. */
static int pull(struct worker *worker, uint64_t *version) {
	int rc, patience_ms = PATIENCE_MS;

	for (;;) {
		rc = pull_within(worker, version, patience_ms);
		if (rc == 0 || stopped)
			return rc;
		if (rc == -ETIMEDOUT && patience_ms < PATIENCE_MOST_MS)
			patience_ms *= 2;
	}
}

static void work(struct worker *worker) {
	const struct timespec nap = {.tv_nsec = worker->compute_ms * 1000000};
	uint64_t version;

	while (!stopped && pull(worker, &version) == 0) {
		(void)nanosleep(&nap, NULL);
		if (!stopped)
			push(worker, version);
	}
}

static void describe(struct heddle_spec *spec, uint64_t values) {
	heddle_spec_set_sgd(spec, SURVIVE_RATE, SURVIVE_MOMENTUM, SURVIVE_DECAY);
	heddle_spec_set_tau_max(spec, TAU_MAX);
	/* Every commit has a weight of its own, so that a wrong one shows in the model. */
	heddle_spec_set_staleness(spec, HEDDLE_STALENESS_ADADELAY, 1);
	if (heddle_spec_add_tensor(spec, "model", &values, 1, HEDDLE_INIT_ZERO, 0) < 0)
		_exit(70);
}

static void print_log(void *arg, enum heddle_log_level level, const char *text) {
	(void)arg;
	(void)fprintf(stderr, "%d %s\n", (int)level, text);
}

static int run(struct worker *worker) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_stats stats = HEDDLE_STATS_INIT;
	struct heddle_spec *spec;
	uint64_t version = 0;
	int rc;

	if (heddle_spec_create(NULL, "survive", &spec) < 0)
		return 70;
	describe(spec, worker->values);
	options.keep_bytes = KEEP_BYTES;
	options.log = print_log;
	if (heddle_open(spec, &options, &worker->fabric) < 0) {
		(void)fprintf(stderr, "survive_worker: %s\n", heddle_last_error());
		return 69;
	}
	heddle_spec_destroy(spec);
	do
		rc = heddle_wait_joined(worker->fabric, LOOK_MS, &version, NULL);
	while (rc == -ETIMEDOUT && !stopped);
	if (rc == 0) {
		print_line(worker, "joined", "%" PRIu64, version);
		work(worker);
	} else if (!stopped) {
		(void)fprintf(stderr, "survive_worker: join: %s\n", heddle_last_error());
	}
	look_at_all(worker);
	(void)heddle_get_stats(worker->fabric, &stats);
	print_line(
		worker,
		"end",
		"%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
		stats.pushed,
		stats.applied,
		stats.dropped,
		stats.failed
	);
	(void)heddle_close(worker->fabric, CLOSE_MS);
	return rc == 0 || stopped ? 0 : 69;
}

int main(int argc, char **argv) {
	struct worker worker = {0};
	struct sigaction action = {.sa_handler = on_signal};
	int status = 71;

	if (argc != 4)
		return fprintf(stderr, "usage: survive_worker VALUES COMPUTE_MS LOG\n"), 64;
	(void)sigaction(SIGTERM, &action, NULL);
	worker.values = strtoull(argv[1], NULL, 10);
	worker.compute_ms = strtol(argv[2], NULL, 10);
	worker.log = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	worker.model = calloc(worker.values, sizeof(float));
	worker.update = calloc(worker.values, sizeof(float));
	if (worker.log >= 0 && worker.model && worker.update)
		status = run(&worker);
	free(worker.update);
	free(worker.model);
	return status;
}
