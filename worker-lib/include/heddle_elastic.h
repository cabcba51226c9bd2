/* SPDX-License-Identifier: BSD-3-Clause */
/* What the owner of a job's worker count hears of the learning (docs/elastic.md). heddle_members() has what it says. */
#ifndef HEDDLE_ELASTIC_H
#define HEDDLE_ELASTIC_H

#include <heddle.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Tells the controller how the learning goes, once a step: the step's number (from 1, of this worker), the sum of the
 * losses of `samples` samples, and how long the step took, in seconds (0: not known). Policies that set the number of
 * workers go by it; without a policy, or a controller, nobody does. Never waits: the word leaves with the next packets,
 * and reports within 50 ms of each other are added up. With a filter the norms of its last push go along. From any
 * thread; 1 us.
 * -EINVAL (step or samples 0, step above 4,294,967,295, a loss or time that is NaN or infinite, a time below 0),
 * -ECHILD, -ESHUTDOWN (left). heddle_last_error() names the field; nothing of a refused report is kept.
 */
int heddle_report_step(
	struct heddle *fabric,
	uint64_t step,
	double loss_sum,
	uint64_t samples,
	double step_seconds
);

#ifdef __cplusplus
}
#endif

#endif
