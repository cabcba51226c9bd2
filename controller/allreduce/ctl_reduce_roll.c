/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Roll calls: all-reduces of workers that need a state from another one, or have one to give. They are matched with
 * each other only. As long as others of the job call something else, these go on without the workers that call the
 * roll, and are told how many there are:
 *
 *     round 7   worker 0: all-reduce   worker 1: all-reduce   worker 2: roll -> late     REDUCE(waiting 1) to 0 and 1
 *     round 8   worker 0: roll         worker 1: roll         worker 2: roll             REDUCE to all three
 */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_inline.h"
#include "ctl_reduces.h"
#include "ctl_wait.h"

#include <assert.h>

/* The round goes on without those that have called the roll in it. */
static void send_away(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
) {
	assert(!r->begun);
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] != CTL_PART_ASKED)
			continue;
		c->counters.requests_refused++;
		ctl_reduce_send_drop(c, job, r, i, HD_REASON_LATE, sink);
		ctl_reduce_part(r, i, CTL_PART_OUT);
		r->waiting++;
	}
}

bool ctl_roll_must_wait(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	const struct hd_msg_request *m,
	struct hd_sink *sink
) {
	const bool roll = m->state == HD_REQUEST_ROLL;

	if (r->call.roll == roll || r->begun)
		return false;
	if (roll) {
		if (r->part[m->worker] != CTL_PART_OUT)
			r->waiting++;
		return true;
	}
	send_away(c, job, r, sink);
	ctl_inline_fini(c, r); /* their values have the size of their call */
	ctl_reduce_set_call(r, m);
	ctl_wait_exclude(job, r);
	r->by_network = r->avoid = r->stood_still = false;
	r->alone_since = 0;
	return false;
}
