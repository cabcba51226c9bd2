/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: fields that rows of several of the shell's tables share. A room writes all rows of its own
 * table, whatever the filter and the page are, and returns their number. */
#ifndef CTL_ROW_H
#define CTL_ROW_H

#include "ctl_core.h"
#include "hd_rows.h"

double ctl_ms_from(hd_ns from, hd_ns to);

/* clang-format off */
#define CTL_WHY_FIELDS(F, row) \
	F(row, rule, TEXT, \
		"rule that selected it: shortest, deadline, aged, tenant, drop-bound or drop-idles; " \
		"empty: not decided") \
	F(row, planned_finish_ms, REAL_OR_NULL, "planned end, in milliseconds from now") \
	F(row, runner_up, TEXT, "WORKER/ROUND of the transfer that would have been selected otherwise; empty: none") \
	F(row, runner_up_finish_ms, REAL_OR_NULL, "planned end of that transfer, in milliseconds from now") \
	F(row, deadline, COUNT, "last position at which it meets tau_max, counted from the next position (1)") \
	F(row, slack, REAL, "positions to spare before the deadline")
/* clang-format on */

/* Why a transfer was granted or not: for rows that have these fields. */
struct ctl_why_row {
	CTL_WHY_FIELDS(HD_ROW_MEMBER, )
	char text[64];
};
void ctl_why_row(const struct ctl_why *why, hd_ns now, struct ctl_why_row *row);
#define CTL_WHY_OF(why)                                                                            \
	.rule = (why).rule, .planned_finish_ms = (why).planned_finish_ms,                          \
	.runner_up = (why).runner_up, .runner_up_finish_ms = (why).runner_up_finish_ms,            \
	.deadline = (why).deadline, .slack = (why).slack

#endif
