/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields that rows of several of the shell's tables share. */
#include "ctl_row.h"

#include <math.h>
#include <stdio.h>

double ctl_ms_from(hd_ns from, hd_ns to) {
	return to >= from ? (double)(to - from) / 1e6 : -(double)(from - to) / 1e6;
}

void ctl_why_row(const struct ctl_why *why, hd_ns now, struct ctl_why_row *row) {
	double since = ctl_ms_from(why->decided, now);
	bool beside = why->runner_up_round > 0;

	row->text[0] = '\0';
	if (beside)
		(void)snprintf(
			row->text,
			sizeof row->text,
			"w%u/%u",
			why->runner_up_worker,
			why->runner_up_round
		);
	row->rule = why->decided ? hd_plan_rule_name(why->plan.rule) : "";
	row->planned_finish_ms = why->decided ? why->plan.finish * 1e3 - since : NAN;
	row->runner_up = row->text;
	row->runner_up_finish_ms = beside ? why->plan.runner_up_finish * 1e3 - since : NAN;
	row->deadline = why->plan.deadline;
	row->slack = why->plan.slack;
}
