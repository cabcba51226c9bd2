/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller's history in SQLite: processes, jobs, plans, decisions, completions, nodes, commands.
 *
 *   core's thread --hd_journal_add()--> ring (bounded) --once an interval, one transaction--> file
 *                                                         (a thread of the journal's own)
 *
 * No caller waits for the disk: records that cannot be written stay in the ring and are tried again; when the ring is
 * full, new records are lost and counted. Rows and bytes are bounded, the oldest are removed first. The file is in WAL
 * mode: `sqlite3` can read it while the controller runs. docs/operations.md has the tables.
 */
#ifndef HD_JOURNAL_H
#define HD_JOURNAL_H

#include "hd_record.h"
#include "hd_stats.h"

struct hd_journal;

struct hd_journal_config {
	const char *path;
	uint16_t epoch;
	uint64_t rows_max; /* of each table; 0: HD_JOURNAL_ROWS */
	uint64_t bytes_max; /* of the file, without its WAL; 0: HD_JOURNAL_BYTES; at least 1 MiB */
	uint32_t interval_ms; /* 0: 1000 */
	/* Called by the journal's thread (or by open) at the first failure, and when writing succeeds again. */
	void (*report)(void *owner, bool good, const char *text);
	void *owner;
};

#define HD_JOURNAL_ROWS UINT64_C(1000000)
#define HD_JOURNAL_BYTES (UINT64_C(512) << 20)
#define HD_JOURNAL_BYTES_MIN (UINT64_C(1) << 20)

/* Opens or creates the file; one that is damaged is moved to PATH.damaged-<time>, reported, and replaced; without free
 * space it is opened later. 0, or -errno with a text in error: -EACCES and the like, -EPROTO (made by a newer
 * version). */
int hd_journal_open(
	const struct hd_journal_config *config,
	struct hd_journal **journal,
	char *error,
	size_t error_bytes
);
/* The core's thread: copies the record; its only system call wakes the writer. NULL: nothing. */
void hd_journal_add(struct hd_journal *journal, const struct hd_record *record);
/* Writes the remaining records, once, and frees. 0 or -EIO when some were lost at the end. NULL: 0. */
int hd_journal_close(struct hd_journal *journal);

/* Adds the journal's own counters. */
void hd_journal_gather(const struct hd_journal *journal, struct hd_stats *stats);
extern const struct hd_stat_group hd_journal_group;

#endif
