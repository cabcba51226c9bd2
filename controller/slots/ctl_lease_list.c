/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of leases, and how a lease ends. */
#include "ctl_base.h"
#include "ctl_slots.h"

#include <assert.h>
#include <stdlib.h>

struct ctl_lease *
ctl_lease_find(const struct hd_controller *c, const struct ctl_node *node, uint64_t name) {
	struct ctl_lease *lease;

	TAILQ_FOREACH (lease, &c->leases, entry)
		if (lease->name == name && lease->node == node)
			return lease;
	return NULL;
}

uint32_t ctl_lease_slots(const struct hd_controller *c, const struct ctl_node *node) {
	const struct ctl_lease *lease;
	uint32_t slots = 0;

	TAILQ_FOREACH (lease, &c->leases, entry)
		slots += lease->node == node ? lease->slots : 0;
	return slots + ctl_slots_leased(c, node, NULL);
}

bool ctl_lease_is_busy(const struct ctl_lease *lease) {
	const struct ctl_reduce *r;

	if (!lease->job)
		return false;
	TAILQ_FOREACH (r, &lease->job->reduces, entry)
		if (r->lease == lease)
			return true;
	return false;
}

void ctl_lease_forget(struct hd_controller *c, struct ctl_lease *lease) {
	assert(!lease->job || lease->job->lease == lease);
	TAILQ_REMOVE(&c->leases, lease, entry);
	if (lease->job)
		lease->job->lease = NULL;
	free(lease);
}

void ctl_lease_record(
	const struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_lease *lease,
	const char *what,
	const char *reason
) {
	ctl_record(
		c,
		(struct hd_record){
			.kind = HD_RECORD_DECISION,
			.what = what,
			.reason = reason,
			.rule = "lease",
			.text = lease ? lease->node->host : "",
			.job = job ? job->id : 0,
			.direction = HD_REDUCE,
			.round = lease ? lease->turn : 0,
			.attempt = lease ? lease->attempt : 0,
			.bytes = lease ? (uint64_t)lease->slots * lease->count * sizeof(float) : 0,
			.position = lease ? lease->slots : 0,
			.rate_bps = lease ? lease->rate * 8 : 0,
		}
	);
}

void ctl_lease_end(
	struct hd_controller *c,
	struct ctl_lease *lease,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	assert(!ctl_lease_is_busy(lease));
	message.void_.job = lease->job_id;
	message.void_.token = lease->name;
	message.void_.reason = (uint8_t)reason;
	if (lease->node->role == HD_ROLE_SWITCH)
		(void)ctl_send(c, lease->node, &message, sink);
	ctl_lease_record(c, lease->job, lease, "ended", hd_reason_name(reason));
	ctl_lease_forget(c, lease);
	/* Another job may wait for its slots. */
	ctl_check_by(c, c->now);
}

void ctl_lease_orphan(struct hd_controller *c, struct ctl_job *job) {
	if (job->lease)
		job->lease->job = NULL;
	job->lease = NULL;
	ctl_check_by(c, c->now);
}

void ctl_lease_fini(struct hd_controller *c) {
	struct ctl_lease *lease;

	while ((lease = TAILQ_FIRST(&c->leases)))
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the analyzer does not follow TAILQ_REMOVE */
		ctl_lease_forget(c, lease);
}
