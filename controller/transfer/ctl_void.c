/* SPDX-License-Identifier: BSD-3-Clause */
/* Open transfers that are given up: tells both ends, and ends the transfers that depend on them. */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_grouping.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"

#include <assert.h>

void ctl_void(
	struct hd_controller *c,
	struct ctl_transfer *t,
	enum hd_reason reason,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_VOID};
	struct hd_event event = ctl_transfer_event(c, t, HD_EVENT_VOIDED, reason);
	struct ctl_node *server = t->job->server, *worker = ctl_worker(t->job, t->worker);

	assert(ctl_transfer_is_open(t));
	if (t->direction == HD_COPY) {
		ctl_copy_end(c, t, reason, sink);
		return;
	}
	ctl_slots_unsent(c, t, sink);
	message.void_.job = t->job->id;
	message.void_.position = t->position;
	message.void_.token = t->token;
	message.void_.reason = (uint8_t)reason;
	/* A sum cannot do without one of its updates; a relayed model can do without one of its receivers. */
	if (t->group && (t->is_sum || t->direction == HD_PUSH))
		ctl_group_fail(c, t->group, reason);
	if (t->is_sum) {
		ctl_void_quietly(c, t, reason, sink);
		return;
	}
	event.aux = t->state == CTL_CREDITED;
	if (event.aux)
		c->counters.credits_unspent++;
	else
		ctl_void_count(c, t);
	ctl_event(sink, event);
	ctl_record_decision(c, t, &t->why, "voided", reason);
	ctl_transfer_free(c, t);
	/* A pull has no position that others wait for: it goes on, or ends with the worker's session. */
	if (server && message.void_.position)
		ctl_send(c, server, &message, sink);
	/* The EXPECT may be lost with the server's session: the worker is told, and need not wait for a timeout. */
	if (worker && message.void_.position && reason == HD_REASON_NO_SERVER)
		ctl_send(c, worker, &message, sink);
	if (c->pending_count)
		ctl_plan_soon(c);
}

static bool is_stuck(const struct hd_controller *c, const struct ctl_transfer *t) {
	hd_ns planned = t->finish - t->start, patience;

	/* The server ends a credit that is not spent. */
	if (t->credit)
		return c->now > hd_ns_add(t->finish, CTL_STUCK_NS);
	/* Its worker has not registered again since the restart. */
	if (t->restored && !ctl_worker(t->job, t->worker))
		return c->now > hd_ns_add(t->granted, c->config.detection_us * HD_US);
	patience = hd_ns_max(CTL_STUCK_NS, planned * CTL_STUCK_FACTOR);
	return c->now > hd_ns_add(hd_ns_max(t->finish, t->overrun_since), patience);
}

void ctl_void_stuck(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_transfer *t, *next;

	for (t = TAILQ_FIRST(&c->open); t; t = next) {
		next = TAILQ_NEXT(t, entry);
		if (!is_stuck(c, t))
			continue;
		c->counters.stuck++;
		ctl_void(c, t, HD_REASON_TIMEOUT, sink);
	}
}
