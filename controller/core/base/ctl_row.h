/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: fields that rows of several of the shell's tables have. A room writes the rows of its own
 * table: all of them, whatever the filter and the page; it returns how many there are. */
#ifndef CTL_ROW_H
#define CTL_ROW_H

#include "ctl_core.h"
#include "hd_rows.h"

double ctl_ms_from(hd_ns from, hd_ns to);

/* clang-format off */
#define CTL_WHY_FIELDS(F, row) \
	F(row, rule, TEXT, \
		"why it went: shortest, deadline, aged, tenant, drop-bound, drop-idles; empty: " \
		"not decided") \
	F(row, planned_finish_ms, REAL_OR_NULL, "when it should end, from now") \
	F(row, runner_up, TEXT, "worker/round that would otherwise have gone; empty: none") \
	F(row, runner_up_finish_ms, REAL_OR_NULL, "when that would have ended") \
	F(row, deadline, COUNT, "last position, from the next one (1), at which it meets tau_max") \
	F(row, slack, REAL, "positions that it had to spare")
/* clang-format on */

/* Why a transfer went, or did not: to be put into a row that has these fields. */
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
