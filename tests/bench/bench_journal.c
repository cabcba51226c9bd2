/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of the journal: on the core's thread for each record, and on the journal's own for the file. A busy
 * controller of 1,000 updates a second makes about 4,000 records of it: a decision and a completion for each push and
 * pull.
 */
#include "hd_journal.h"
#include "hd_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RECORDS 100000
#define BATCH 4000
#define RATE 4000.0

static double seconds(clockid_t clock) {
	struct timespec at;

	clock_gettime(clock, &at);
	return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void on_report(void *owner, bool good, const char *text) {
	(void)owner;
	(void)good;
	(void)fprintf(stderr, "journal: %s\n", text);
}

static uint64_t written(const struct hd_journal *journal) {
	struct hd_stats *stats = hd_stats_create();
	uint64_t value;

	hd_journal_gather(journal, stats);
	value = hd_stats_row(stats, 0).value[1].u64;
	hd_stats_destroy(stats);
	return value;
}

int main(void) {
	const struct timespec nap = {.tv_nsec = 5000000};
	struct hd_record record = {
		.kind = HD_RECORD_DECISION,
		.what = "granted",
		.reason = "none",
		.rule = "shortest",
		.worker_known = true,
		.finish_s = 0.123,
		.rate_bps = 1e9,
	};
	char folder[] = "/tmp/heddle-bench-XXXXXX", path[64], command[64], error[256];
	struct hd_journal_config config = {.path = path, .interval_ms = 5, .report = on_report};
	struct hd_journal *journal;
	double add = 0, process;

	if (!mkdtemp(folder))
		return 1;
	(void)snprintf(path, sizeof path, "%s/j.db", folder);
	if (hd_journal_open(&config, &journal, error, sizeof error)) {
		(void)fprintf(stderr, "journal: %s\n", error);
		return 1;
	}
	process = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (uint32_t i = 0; i < RECORDS; i += BATCH) {
		double begin = seconds(CLOCK_THREAD_CPUTIME_ID);

		for (uint32_t j = 0; j < BATCH; j++) {
			record.round = i + j;
			hd_journal_add(journal, &record);
		}
		add += seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
		while (written(journal) < i + BATCH)
			nanosleep(&nap, NULL);
	}
	process = seconds(CLOCK_PROCESS_CPUTIME_ID) - process;
	(void
	)printf("journal: %.0f ns a record on the core's thread, %.2f us on its own; at %.0f records a second "
		"%.2f %% and %.2f %% of a core (target 1 %%)\n",
		add / RECORDS * 1e9,
		(process - add) / RECORDS * 1e6,
		RATE,
		add / RECORDS * RATE * 100,
		(process - add) / RECORDS * RATE * 100);
	(void)hd_journal_close(journal);
	(void)snprintf(command, sizeof command, "rm -r '%s'", folder);
	return system(command) != 0;
}
