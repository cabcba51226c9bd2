/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds through memory that all members share: those that registered with the same identity of it. Rounds of the same
 * members use one segment, each as its next turn; the members make it (hd_shared.h). When one of its rounds has failed,
 * no other is made there, and the next round has another segment.
 *
 * There a round is complete for all members or for none. So when one member has reported its result, the others have
 * theirs, or will, even if a member is lost.
 */
#include "ctl_base.h"
#include "ctl_reduces.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool ctl_shared_is_possible(const struct ctl_job *job, const struct ctl_reduce *r) {
	uint64_t shared = 0;

	if (r->by_network || ctl_reduce_stays(r) || r->count[CTL_PART_DONE] > 0
	    || r->count[CTL_PART_ASKED] > HD_SHARED_MEMBERS_MAX || ctl_call_lacks_root(r))
		return false;
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (r->part[i] != CTL_PART_ASKED)
			continue;
		if (!job->workers[i] || r->has[i] || job->workers[i]->shared == 0
		    || (shared != 0 && job->workers[i]->shared != shared))
			return false;
		shared = job->workers[i]->shared;
	}
	return shared != 0;
}

void ctl_shared_take(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r) {
	struct hd_roster members = {0};

	assert(!r->begun && r->shared == 0);
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED)
			hd_roster_set(&members, i, true);
	if (job->shared.token == 0 || job->shared.turns == UINT32_MAX
	    || memcmp(members.ranks, job->shared.members.ranks, sizeof members.ranks) != 0)
		job->shared = (struct ctl_shared){hd_entropy_u64(&c->entropy) | 1, 0, members};
	free(r->shards);
	r->shards = NULL;
	r->shard_count = 0;
	r->shared = job->shared.token;
	r->turn = job->shared.turns++;
	c->counters.reduces_shared++;
}

void ctl_shared_leave(struct ctl_job *job, struct ctl_reduce *r) {
	if (r->shared != 0 && r->shared == job->shared.token)
		job->shared.token = 0;
	r->shared = 0;
}

void ctl_shared_end(struct ctl_job *job) {
	job->shared.token = 0;
}
