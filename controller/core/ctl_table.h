/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the rows of each shell table, written as flat JSON objects as they are walked. */
#ifndef CTL_TABLE_H
#define CTL_TABLE_H

#include "ctl_core.h"
#include "hd_rows.h"

/* --- ctl_rows.c, ctl_show.c: each writes its rows and returns how many the table
 * has (all of them, whatever the filter and the page) --- */
uint64_t ctl_rows_nodes(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_jobs(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_links(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_transfers(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_drops(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_estimates(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_staleness(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_plan(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_groups(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_switches(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_leases(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_settings(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_ports(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_queues(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_cores(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_counters(const struct hd_controller *c, struct hd_rows *rows);

/* Shared by the rows' files. */
/* Why these go over an aggregator, as a sentence in text. */
const char *ctl_group_why(
	const struct hd_controller *c,
	const struct hd_plan_group *group,
	char *text,
	size_t bytes
);
double ctl_ms_from(hd_ns from, hd_ns to);
void ctl_row_addr(struct hd_rows *rows, const char *key, struct hd_addr addr);
void ctl_row_version(struct hd_rows *rows, const char *key, hd_version version);
void ctl_row_why(struct hd_rows *rows, const struct ctl_why *why, hd_ns now);

#endif
