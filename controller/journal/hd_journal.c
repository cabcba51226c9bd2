/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring between the core's thread and the disk's. */
#include "hd_journal_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH_MAX 8192 /* records of one transaction */
#define RETRY_MAX_MS 30000
#define PRUNE_EVERY 16 /* transactions */

/* clang-format off */
#define JOURNAL_STATS(S) \
	S(records, "records", "records passed to the journal", COUNTER) \
	S(written, "records", "records written to the file", COUNTER) \
	S(lost, "records", "records not written: the disk was too slow, or full", COUNTER) \
	S(waiting, "records", "records that wait to be written", GAUGE) \
	S(errors, "transactions", "transactions that failed and were tried again", COUNTER) \
	S(pruned, "rows", "rows deleted to keep the limits", COUNTER) \
	S(file_bytes, "bytes", "size of the journal file", GAUGE)
/* clang-format on */

#define FIELD(name, unit, help, kind) uint64_t name;
struct journal_stats {
	JOURNAL_STATS(FIELD)
};
#define STAT(name, unit, help, kind)                                                               \
	{#name, unit, help, HD_STAT_##kind, HD_STAT_U64, offsetof(struct journal_stats, name)},
static const struct hd_stat journal_stats[] = {JOURNAL_STATS(STAT)};

const struct hd_stat_group hd_journal_group = {
	.name = "journal",
	.help = "journal of the controller",
	.stats = journal_stats,
	.count = sizeof journal_stats / sizeof journal_stats[0],
};

struct hd_journal {
	struct hd_journal_config config;
	struct journal_file file;
	const struct hd_record **batch; /* [BATCH_MAX] the writer's */
	pthread_t thread;
	pthread_mutex_t lock; // guards the following
	pthread_cond_t filled; // to the writer: the first record, or the end
	pthread_cond_t hurry; // to the writer, within an interval: half full, or the end
	struct hd_record *ring; /* [HD_JOURNAL_RECORDS_MAX]; texts are the journal's */
	size_t first, count; // writers: add() at the end, the writer's thread at the beginning
	bool closing;
	struct journal_stats stats;
	/* the writer's thread alone */
	bool bad;
	uint32_t retry_ms;
	unsigned transactions;
};

static struct hd_record *slot(const struct hd_journal *j, size_t index) {
	return &j->ring[(j->first + index) % HD_JOURNAL_RECORDS_MAX];
}

static void free_texts(struct hd_record *record) {
	free((char *)record->text);
	free((char *)record->detail);
	free((char *)record->who);
}

/* --- the core's thread --- */

void hd_journal_add(struct hd_journal *j, const struct hd_record *record) {
	struct hd_record copy = *record;

	if (!j)
		return;
	/* Only jobs, nodes and commands have texts: rare. */
	copy.text = record->text ? strdup(record->text) : NULL;
	copy.detail = record->detail ? strdup(record->detail) : NULL;
	copy.who = record->who ? strdup(record->who) : NULL;
	pthread_mutex_lock(&j->lock);
	j->stats.records++;
	if (j->count == HD_JOURNAL_RECORDS_MAX) {
		j->stats.lost++;
		free_texts(&copy);
	} else {
		*slot(j, j->count++) = copy;
		if (j->count == 1)
			pthread_cond_signal(&j->filled);
		if (j->count == HD_JOURNAL_RECORDS_MAX / 2)
			pthread_cond_signal(&j->hurry);
	}
	pthread_mutex_unlock(&j->lock);
}

void hd_journal_gather(const struct hd_journal *journal, struct hd_stats *stats) {
	struct hd_journal *j = (struct hd_journal *)journal; /* for its lock */
	struct journal_stats copy;

	if (!j)
		return;
	pthread_mutex_lock(&j->lock);
	copy = j->stats;
	copy.waiting = j->count;
	pthread_mutex_unlock(&j->lock);
	hd_stats_add(stats, &hd_journal_group, NULL, &copy);
}

/* --- the writer's thread --- */

static struct timespec after_ms(uint32_t ms) {
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += (long)(ms % 1000) * 1000000L;
	if (at.tv_nsec >= 1000000000L) {
		at.tv_nsec -= 1000000000L;
		at.tv_sec++;
	}
	return at;
}

static double calendar_offset_s(void) {
	struct timespec real, monotonic;

	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	return (double)(real.tv_sec - monotonic.tv_sec)
		+ (double)(real.tv_nsec - monotonic.tv_nsec) / 1e9;
}

/* Reports the first failure and the end of failures, not each one. */
static void tell(struct hd_journal *j, int code) {
	char text[512];

	if (code == SQLITE_OK && !j->bad)
		return;
	if (code != SQLITE_OK && j->bad)
		return;
	j->bad = code != SQLITE_OK;
	if (j->bad)
		(void)snprintf(
			text,
			sizeof text,
			"%s: %s; records wait for it, %d at most",
			j->file.path,
			j->file.db ? sqlite3_errmsg(j->file.db) : sqlite3_errstr(code),
			HD_JOURNAL_RECORDS_MAX
		);
	else
		(void)snprintf(text, sizeof text, "%s: can be written again", j->file.path);
	j->config.report(j->config.owner, !j->bad, text);
}

/* A file that could not be opened on a full disk is opened when there is space for its first records. */
static int ensure_open(struct hd_journal *j) {
	char error[256];

	if (j->file.db || journal_file_open(&j->file, &j->config, error, sizeof error) == 0)
		return SQLITE_OK;
	journal_file_close(&j->file);
	return SQLITE_FULL;
}

/* Writes the oldest records, which stay in the ring until that is done. Called with the lock, which it releases. */
static void write_batch(struct hd_journal *j) {
	size_t count = j->count < BATCH_MAX ? j->count : BATCH_MAX;
	uint64_t bytes;
	int code;

	for (size_t i = 0; i < count; i++)
		j->batch[i] = slot(j, i);
	pthread_mutex_unlock(&j->lock);
	code = ensure_open(j);
	if (code == SQLITE_OK)
		code = journal_file_write(&j->file, j->batch, count, calendar_offset_s());
	if (code == SQLITE_OK && ++j->transactions % PRUNE_EVERY == 0)
		(void)journal_file_prune(&j->file);
	tell(j, code);
	bytes = journal_file_bytes(&j->file);
	pthread_mutex_lock(&j->lock);
	j->stats.pruned = j->file.pruned;
	j->stats.file_bytes = bytes;
	if (code != SQLITE_OK) {
		j->stats.errors++;
		j->retry_ms = j->retry_ms ? j->retry_ms * 2 : j->config.interval_ms;
		j->retry_ms = j->retry_ms < RETRY_MAX_MS ? j->retry_ms : RETRY_MAX_MS;
		return;
	}
	j->retry_ms = 0;
	j->stats.written += count;
	for (size_t i = 0; i < count; i++)
		free_texts(slot(j, i));
	j->first = (j->first + count) % HD_JOURNAL_RECORDS_MAX;
	j->count -= count;
}

/* Waits until the interval is over, or half of the ring is full, or the end. */
static void wait_interval(struct hd_journal *j) {
	struct timespec until = after_ms(j->retry_ms ? j->retry_ms : j->config.interval_ms);

	while (!j->closing && (j->retry_ms || j->count < HD_JOURNAL_RECORDS_MAX / 2))
		if (pthread_cond_timedwait(&j->hurry, &j->lock, &until) == ETIMEDOUT)
			return;
}

static void *run(void *argument) {
	struct hd_journal *j = argument;

	pthread_mutex_lock(&j->lock);
	for (;;) {
		while (!j->closing && j->count == 0)
			pthread_cond_wait(&j->filled, &j->lock);
		wait_interval(j);
		if (j->count == 0)
			break;
		write_batch(j);
		if (j->closing && (j->bad || j->count == 0))
			break;
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

/* --- creation and destruction --- */

static void destroy(struct hd_journal *j) {
	for (size_t i = 0; i < j->count; i++)
		free_texts(slot(j, i));
	journal_file_close(&j->file);
	pthread_cond_destroy(&j->hurry);
	pthread_cond_destroy(&j->filled);
	pthread_mutex_destroy(&j->lock);
	free(j->ring);
	free((void *)j->batch);
	free(j);
}

int hd_journal_open(
	const struct hd_journal_config *config,
	struct hd_journal **journal,
	char *error,
	size_t error_bytes
) {
	struct hd_journal *j = calloc(1, sizeof *j);
	pthread_condattr_t monotonic;
	int code = -ENOMEM;

	(void)snprintf(error, error_bytes, "no memory");
	if (!j)
		return -ENOMEM;
	j->config = *config;
	j->config.interval_ms = config->interval_ms ? config->interval_ms : 1000;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->filled, NULL);
	pthread_cond_init(&j->hurry, &monotonic);
	pthread_condattr_destroy(&monotonic);
	j->ring = calloc(HD_JOURNAL_RECORDS_MAX, sizeof *j->ring);
	j->batch = calloc(BATCH_MAX, sizeof(const struct hd_record *));
	if (j->ring && j->batch)
		code = journal_file_open(&j->file, &j->config, error, error_bytes);
	if (code == -ENOSPC) { /* a full disk does not stop the controller */
		journal_file_close(&j->file);
		tell(j, SQLITE_FULL);
		code = 0;
	}
	if (code == 0) {
		j->stats.file_bytes = journal_file_bytes(&j->file);
		code = -pthread_create(&j->thread, NULL, run, j);
	}
	if (code) {
		destroy(j);
		return code;
	}
	*journal = j;
	return 0;
}

int hd_journal_close(struct hd_journal *j) {
	int code;

	if (!j)
		return 0;
	pthread_mutex_lock(&j->lock);
	j->closing = true;
	pthread_cond_signal(&j->filled);
	pthread_cond_signal(&j->hurry);
	pthread_mutex_unlock(&j->lock);
	pthread_join(j->thread, NULL);
	code = j->count ? -EIO : 0;
	destroy(j);
	return code;
}
