/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the journal: hd_journal.c has the ring and the thread, hd_journal_file.c the file. */
#ifndef HD_JOURNAL_PRIVATE_H
#define HD_JOURNAL_PRIVATE_H

#include "hd_journal.h"
#include "hd_limits.h"

#include <sqlite3.h>

/* The file; only the writer's thread touches it once it is open. */
struct journal_file {
	sqlite3 *db;
	sqlite3_stmt *insert[HD_RECORD_KINDS];
	const char *path;
	uint64_t rows_max, bytes_max;
	int64_t run;
	uint64_t pruned; /* rows removed */
};

/* 0 or -errno with a text in error. */
int journal_file_open(
	struct journal_file *file,
	const struct hd_journal_config *config,
	char *error,
	size_t error_bytes
);
void journal_file_close(struct journal_file *file);
/* One transaction: all records or none. offset_s: from the core's clock to calendar time. A sqlite code. */
int journal_file_write(
	struct journal_file *file,
	const struct hd_record *const *records,
	size_t count,
	double offset_s
);
/* Removes the rows beyond rows_max. A sqlite code. */
int journal_file_prune(struct journal_file *file);
uint64_t journal_file_bytes(const struct journal_file *file);

#endif
