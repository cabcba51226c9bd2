/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to `heddlectl elastic plan` and `heddlectl elastic fit`. */
#ifndef SHELL_PLAN_H
#define SHELL_PLAN_H

#include "hd_elastic_fit.h"
#include "hd_elastic_plan.h"
#include "heddlectl.h"

/* Results to print. */
struct shell_plan {
	const struct hd_elastic_task *task;
	const struct hd_elastic_plan *plans;
	int count;
	int best; /* < 0: none meets error and deadline */
	const char *price; /* as it was given */
	double price_s; /* bids are shown for this many seconds */
	const struct hd_elastic_closed *closed; /* NULL: infeasible, or not requested */
};

void shell_plan_print(const struct shell_plan *found);
void shell_plan_json(const struct shell_plan *found);
void shell_fit_print(const struct hd_elastic_fit *fit);
void shell_fit_json(const struct hd_elastic_fit *fit);

#endif
