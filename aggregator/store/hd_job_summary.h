/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's summary as a file: DIR/<job>.report.json, the newest of each job. docs/operations.md has the fields. */
#ifndef HD_JOB_SUMMARY_H
#define HD_JOB_SUMMARY_H

#include "hd_server.h"

/* Writes the file completely or not at all. 0 or -errno; error says which file and what. */
int hd_job_summary_write(
	const char *directory,
	const struct hd_job_summary *summary,
	char *error,
	size_t error_bytes
);
/* One sentence for a terminal. */
void hd_job_summary_format(const struct hd_job_summary *summary, char *text, size_t text_bytes);

#endif
