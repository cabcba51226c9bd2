/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs whose number of workers changes (docs/elastic.md): what their steps are scaled by, and what the owner of that
 * number hears of the learning. heddle_members() has what it says. */
#ifndef HEDDLE_ELASTIC_H
#define HEDDLE_ELASTIC_H

#include <heddle.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The learning rate is right for steps of `base` workers (1 .. 4096; 0: for any number, as is the default): the server
 * multiplies the mean of a synchronous step by those that take part over base, at most HEDDLE_SCALE_MAX. A part of the
 * job's description, so it is one scale for all updates of a step, that of the same change of members as its N, and a
 * replica that takes over goes on with it; a scale that the owner of the worker count says holds instead. Workers push
 * what they have computed; heddle_members() has it as step_scale. Only with heddle_spec_sync(): heddle_open() says so.
 */
void heddle_spec_scale(struct heddle_spec *spec, uint32_t base);

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
