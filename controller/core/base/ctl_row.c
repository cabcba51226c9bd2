/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields that rows of several of the shell's tables have. */
#include "ctl_row.h"

#include <math.h>
#include <stdio.h>

double ctl_ms_from(hd_ns from, hd_ns to) {
	return to >= from ? (double)(to - from) / 1e6 : -(double)(from - to) / 1e6;
}

void ctl_row_addr(struct hd_rows *rows, const char *key, struct hd_addr addr) {
	char text[32];

	(void)snprintf(
		text,
		sizeof text,
		"%u.%u.%u.%u:%u",
		addr.ipv4 >> 24,
		addr.ipv4 >> 16 & 255,
		addr.ipv4 >> 8 & 255,
		addr.ipv4 & 255,
		addr.port
	);
	hd_row_text(rows, key, text);
}

void ctl_row_version(struct hd_rows *rows, const char *key, hd_version version) {
	char text[32];

	(void)snprintf(
		text,
		sizeof text,
		"%u.%llu",
		hd_version_incarnation(version),
		(unsigned long long)hd_version_counter(version)
	);
	hd_row_text(rows, key, text);
}

void ctl_row_why(struct hd_rows *rows, const struct ctl_why *why, hd_ns now) {
	double since = ctl_ms_from(why->decided, now);
	char text[64] = "";

	if (why->runner_up_round)
		(void
		)snprintf(text, sizeof text, "w%u/%u", why->runner_up_worker, why->runner_up_round);
	hd_row_text(rows, "rule", why->decided ? hd_plan_rule_name(why->plan.rule) : "");
	hd_row_real(rows, "planned_finish_ms", why->decided ? why->plan.finish * 1e3 - since : NAN);
	hd_row_text(rows, "runner_up", text);
	hd_row_real(
		rows,
		"runner_up_finish_ms",
		why->runner_up_round ? why->plan.runner_up_finish * 1e3 - since : NAN
	);
	hd_row_count(rows, "deadline", why->plan.deadline);
	hd_row_real(rows, "slack", why->plan.slack);
}
