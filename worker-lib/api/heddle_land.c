/* SPDX-License-Identifier: BSD-3-Clause */
/* Models and results that the core has, until a device has them. */
#include "hd_message.h"
#include "heddle_call.h"
#include "heddle_far.h"
#include "heddle_private.h"

#include <errno.h>

/* A result is queued when the caller's stream has come to the call, and not before: a copy that waits there could not
 * be taken back. */
static int begin(struct heddle_ticket *ticket) {
	struct heddle_far *far = ticket->far;
	const int ready = ticket->reduce ? far->device->ops->done(far->device, far->event) : 1;

	far->held = ready == 0;
	if (ready <= 0)
		return ready;
	return heddle_far_land(ticket, ticket->reduce ? heddle_reduce_result(ticket) : 0);
}

bool heddle_far_lands(struct heddle_ticket *ticket, const struct hd_ticket *info) {
	struct heddle_far *far = ticket->far;

	if (!far || !far->to || far->abandoned || info->state != HD_TICKET_APPLIED)
		return false;
	far->since = 0;
	far->landing = begin(ticket) == 0;
	if (far->landing)
		return true;
	heddle_far_log(ticket->fabric);
	heddle_ticket_end(ticket, HEDDLE_STATE_FAILED, HEDDLE_REASON_DEVICE);
	if (info->direction == HD_PULL)
		heddle_ticket_let_go(ticket);
	return true;
}

static void end_landing(struct heddle_ticket *ticket, int rc) {
	ticket->far->landing = ticket->far->held = false;
	if (rc < 0)
		heddle_far_log(ticket->fabric);
	if (!ticket->ended)
		heddle_ticket_end(
			ticket,
			rc < 0 ? HEDDLE_STATE_FAILED : HEDDLE_STATE_APPLIED,
			rc < 0 ? HEDDLE_REASON_DEVICE : HEDDLE_REASON_NONE
		);
}

/* One that landed, or was released. When to look again, or HD_NEVER. */
static hd_ns look(struct heddle *fabric, struct heddle_ticket *ticket, hd_ns now) {
	struct heddle_far *far = ticket->far;
	const bool landed = far->landing;
	int rc = far->device->ops->done(far->device, far->event);

	if (rc > 0 && far->held) {
		rc = begin(ticket);
		far->since = 0;
	}
	if (rc == 0)
		return heddle_far_next(far, now);
	if (landed)
		end_landing(ticket, rc);
	if ((landed && !ticket->reduce) || far->released)
		heddle_ticket_let_go(ticket);
	pthread_cond_broadcast(&fabric->changed);
	return HD_NEVER;
}

hd_ns heddle_far_end_landed(struct heddle *fabric, hd_ns now) {
	struct heddle_ticket *ticket, *next;
	hd_ns at = HD_NEVER;

	for (ticket = TAILQ_FIRST(&fabric->tickets); ticket; ticket = next) {
		const struct heddle_far *far = ticket->far;

		next = TAILQ_NEXT(ticket, link);
		if (far && (far->landing || far->released))
			at = hd_ns_min(at, look(fabric, ticket, now));
	}
	return at;
}

bool heddle_far_abandon(struct heddle_ticket *ticket) {
	struct heddle_far *far = ticket->far;

	if (far && far->landing && !far->held)
		return false;
	if (!far)
		return true;
	far->abandoned = true;
	if (!far->held)
		return true;
	far->landing = far->held = false;
	heddle_ticket_withdraw(ticket);
	if (far->released)
		heddle_ticket_let_go(ticket);
	return true;
}

/* Waits for the caller's stream first where a result waits for it. */
static int wait_for(struct heddle_ticket *ticket, hd_ns span) {
	struct heddle_far *far = ticket->far;
	int rc;

	if (far->held) {
		rc = hd_device_wait(far->device, far->event, span);
		if (rc == 0)
			rc = begin(ticket);
		if (rc < 0) {
			far->landing = far->held = false;
			return rc;
		}
	}
	return heddle_far_wait(ticket, span);
}

hd_ns heddle_far_settle(struct heddle_ticket *ticket, hd_ns span) {
	const bool landing = ticket->far->landing;
	int rc = wait_for(ticket, span);

	if (rc < 0)
		heddle_far_log(ticket->fabric);
	if (landing && rc == 0 && !ticket->ended)
		heddle_ticket_end(ticket, HEDDLE_STATE_APPLIED, HEDDLE_REASON_NONE);
	else if (rc < 0 && rc != -ETIMEDOUT && !ticket->ended)
		heddle_ticket_end(ticket, HEDDLE_STATE_FAILED, HEDDLE_REASON_DEVICE);
	return rc == -ETIMEDOUT ? 0 : span;
}

void heddle_far_halt(struct heddle *fabric) {
	struct heddle_ticket *ticket;
	hd_ns span = HEDDLE_FAR_SETTLE;

	TAILQ_FOREACH (ticket, &fabric->tickets, link) {
		if (!ticket->far || !ticket->far->landing)
			continue;
		if (!ticket->far->held)
			span = heddle_far_settle(ticket, span);
		if (ticket->far)
			ticket->far->landing = ticket->far->held = false;
	}
}
