/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the rows of each shell table, as flat JSON objects. */
#ifndef HD_CONTROLLER_TABLE_H
#define HD_CONTROLLER_TABLE_H

#include "hd_controller_core.h"

#include <jansson.h>

#define CTL_FILTER_TERMS_MAX 16

struct ctl_filter {
	char text[HD_TEXT_BYTES_MAX + 1];
	int count;
	char *term[CTL_FILTER_TERMS_MAX];
	uint64_t page;
};

/* Where rows go: those of one page are kept, the others only counted. */
struct ctl_rows {
	const struct ctl_filter *filter;
	uint64_t first, limit; /* rows [first, first + limit) make the page */
	uint64_t total; /* rows so far for which the filter holds */
	json_t *page;
};

/* True when the next row need not even be made: no filter has to look at it, and it is on another
 * page. It is counted. */
bool ctl_rows_skip(struct ctl_rows *rows);
/* Takes the row over. */
void ctl_rows_add(struct ctl_rows *rows, json_t *row);

void ctl_rows_nodes(const struct hd_controller *c, struct ctl_rows *rows);
void ctl_rows_jobs(const struct hd_controller *c, struct ctl_rows *rows);
void ctl_rows_links(const struct hd_controller *c, struct ctl_rows *rows);
void ctl_rows_transfers(const struct hd_controller *c, struct ctl_rows *rows);
void ctl_rows_drops(const struct hd_controller *c, struct ctl_rows *rows);
void ctl_rows_counters(const struct hd_controller *c, struct ctl_rows *rows);

#endif
