/* SPDX-License-Identifier: BSD-3-Clause */
/* What heddle-sim prints: a table, and records with the fields of the demo's. */
#ifndef HD_REPORT_H
#define HD_REPORT_H

#include "hd_cluster.h"

#include <stdio.h>

struct hd_report_run {
	const char *scenario;
	enum hd_cluster_mode mode;
	uint64_t seed;
	uint32_t tau_max;
	double wall_s;
	struct hd_cluster_result result;
};

const char *hd_report_mode(enum hd_cluster_mode mode);
void hd_report_head(FILE *out);
void hd_report_row(FILE *out, const struct hd_report_run *run);
/* A JSON list. 0 or -errno. */
int hd_report_json(const char *path, const struct hd_report_run *runs, size_t count);
/* Compares two modes over paired seeds: runs come as scheduled, unscheduled, scheduled, ... */
void hd_report_pairs(FILE *out, const struct hd_report_run *runs, size_t count);

#endif
