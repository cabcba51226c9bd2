/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the rows of the shell's tables, written as flat JSON objects one by one. */
#ifndef CTL_TABLE_H
#define CTL_TABLE_H

#include "ctl_core.h"
#include "hd_rows.h"

extern const struct hd_row_shape ctl_nodes_row_shape, ctl_jobs_row_shape, ctl_links_row_shape,
	ctl_transfers_row_shape, ctl_drops_row_shape, ctl_estimates_row_shape,
	ctl_staleness_row_shape, ctl_plan_row_shape, ctl_settings_row_shape;

/* --- ctl_rows.c, ctl_rows_transfers.c, ctl_show.c: each writes its rows and returns how many the table
 * has (all of them, whatever the filter and the page) --- */
uint64_t ctl_rows_nodes(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_jobs(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_links(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_transfers(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_drops(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_estimates(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_staleness(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_plan(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_settings(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_group(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_counters(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_histograms(const struct hd_controller *c, struct hd_rows *rows);

extern const struct hd_stat_group ctl_counter_group, ctl_gauge_group, ctl_ended_group;

extern const struct hd_stat_group ctl_job_group, ctl_lease_group, ctl_link_group;

#define CTL_ID_BYTES 9 /* 8 digits as in logs, and the NUL */

struct ctl_link_use {
	uint32_t running, queued, pending;
	double reserved_bps;
};
/* The label `job` of metrics: the job's name, or its id while only its server has reported it and it has no name
 * yet. */
const char *ctl_job_label(const struct ctl_job *job, char id[CTL_ID_BYTES]);
void ctl_histograms(const struct hd_controller *c, struct hd_stats *stats);
/* Without histograms, jobs, leases and links. */
void ctl_stats_own(const struct hd_controller *c, struct hd_stats *stats);
/* The use of each link now, [ctl_link_count(c)], malloc'ed; NULL: no memory. */
struct ctl_link_use *ctl_links_use(const struct hd_controller *c);
void ctl_show(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_show *message,
	struct hd_sink *sink
);

#endif
