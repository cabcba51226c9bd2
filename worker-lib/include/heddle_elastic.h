/* SPDX-License-Identifier: BSD-3-Clause */
/* Elastic jobs (docs/elastic.md): scaling of steps by the number of workers, and reports to the owner of that
 * number. heddle_get_members() returns the owner's decisions. */
#ifndef HEDDLE_ELASTIC_H
#define HEDDLE_ELASTIC_H

#include "heddle_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Declares that the learning rate was chosen for steps of `base` workers (1 .. 4096; 0, the default: for any
 * number). The server then multiplies the mean of each synchronous step by members / base, at most HEDDLE_SCALE_MAX.
 * The value is a part of the job's description: all updates of a step have one scale, that of the same membership
 * change as its N, and a replica that takes over continues with it. A scale that the owner of the worker count sets
 * overrides it. Workers push their updates unscaled; heddle_get_members() has the scale as step_scale. Only with
 * heddle_spec_set_sync(); heddle_open() checks this. */
void heddle_spec_set_scale_base(struct heddle_spec *spec, uint32_t base);

/* Reports one training step to the controller: step: this worker's step number, from 1; loss_sum: the sum of the
 * losses of `samples` samples; step_seconds: the duration of the step (0: unknown). Policies that set the number of
 * workers use these reports; without a policy or a controller they are ignored. Never waits: the report leaves with the
 * next packets, and reports within 50 ms are added up. With a filter, the norms of its last push are included. Any
 * thread; takes 1 us. 0, -EINVAL (step or samples 0, step above 4,294,967,295, a loss or time that is NaN or infinite,
 * a negative time), -ECHILD, -ESHUTDOWN (left). heddle_last_error() names the field; nothing of a refused report is
 * kept. */
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
