/* SPDX-License-Identifier: BSD-3-Clause */
/* The bound: which updates may still be committed, and which are committed together. */
#include "srv_incoming.h"
#include "srv_roster.h"

enum hd_reason srv_commit_bound(const struct srv_job *job, hd_version base, uint64_t ahead) {
	uint64_t next = hd_version_counter(job->version) + 1 + ahead;

	if (!srv_job_knows(job, base))
		return HD_REASON_LOST_BASE;
	if (job->spec.sync != HD_SYNC_NONE) {
		/* A step that has ended takes no more updates, unless late ones count; another incarnation of the
		 * server may have begun with that very model. */
		return srv_federated_late(job, base) == UINT32_MAX ? HD_REASON_LATE :
								     HD_REASON_NONE;
	}
	return next - hd_version_counter(base) > srv_job_tau(job) ? HD_REASON_LATE : HD_REASON_NONE;
}

enum hd_reason
srv_commit_bounds(const struct srv_job *job, const struct srv_incoming *in, uint64_t ahead) {
	enum hd_reason reason = HD_REASON_NONE;

	for (uint16_t i = 0; reason == HD_REASON_NONE && i < in->part_count; i++)
		reason = srv_commit_bound(job, in->parts[i].base, ahead + i);
	return reason;
}

/* In a synchronous step no update is late: all were computed from the same model. A federated job may also take updates
 * of earlier models: their delay is counted in steps. */
uint32_t srv_commit_delay(const struct srv_part *part, uint64_t counter) {
	return part->in->state == SRV_STEPPED ?
		part->late :
		(uint32_t)(counter - hd_version_counter(part->base));
}

uint32_t srv_commit_parts(const struct srv_incoming *in) {
	return in->state == SRV_STEPPED ? in->job->step.count : in->part_count;
}

struct srv_incoming *srv_commit_after(const struct srv_incoming *in) {
	return in->state == SRV_STEPPED ? TAILQ_NEXT(in, queue_link) : NULL;
}
