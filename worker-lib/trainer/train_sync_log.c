/* SPDX-License-Identifier: BSD-3-Clause */
/* The step log (--step-log): one JSON line for each step. */
#include "train_sync.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sysexits.h>

int train_sync_log_open(struct train_sync *sync) {
	const char *path = sync->train->options.reduce.step_log;
	char name[4096];

	if (!path)
		return EX_OK;
	if (sync->summary.rank > 0)
		(void)snprintf(name, sizeof name, "%s.%d", path, sync->summary.rank);
	else
		(void)snprintf(name, sizeof name, "%s", path);
	sync->log = fopen(name, "we");
	return sync->log ? EX_OK :
			   train_fail(EX_CANTCREAT, "step-log: %s: %s", name, strerror(errno));
}

/* Unknown where a switch has added: an empty list. */
static void print_members(FILE *file, struct heddle_ticket *ticket) {
	int ranks[HEDDLE_WORKERS_MAX];
	const long count = heddle_ticket_members(ticket, ranks, HEDDLE_WORKERS_MAX);

	(void)fputc('[', file);
	for (long i = 0; i < count; i++)
		(void)fprintf(file, "%s%d", i > 0 ? ", " : "", ranks[i]);
	(void)fputc(']', file);
}

void train_sync_log_step(struct train_sync *sync, double loss) {
	if (!sync->log)
		return;
	(void)fprintf(
		sync->log,
		"{\"at_ns\": %llu, \"node\": \"w%d\", \"event\": \"stepped\", \"step\": %llu, "
		"\"began_ns\": %llu, \"workers\": %u, \"members\": [",
		(unsigned long long)hd_compute_now(),
		sync->summary.rank,
		(unsigned long long)sync->step,
		(unsigned long long)sync->begun,
		sync->train->averaged
	);
	for (uint32_t i = 0; i < sync->buckets.count; i++) {
		(void)fputs(i > 0 ? ", " : "", sync->log);
		print_members(sync->log, sync->ticket[i]);
	}
	(void)fputs("], \"loss\": ", sync->log);
	if (isfinite(loss))
		(void)fprintf(sync->log, "%.9g}\n", loss);
	else
		(void)fputs("null}\n", sync->log);
	(void)fflush(sync->log);
}

int train_sync_log_close(struct train_sync *sync) {
	bool bad;

	if (!sync->log)
		return EX_OK;
	bad = ferror(sync->log) != 0;
	bad = fclose(sync->log) != 0 || bad;
	sync->log = NULL;
	return bad ? train_fail(
		       EX_IOERR,
		       "step-log: %s: cannot be written",
		       sync->train->options.reduce.step_log
	       ) :
		     EX_OK;
}
