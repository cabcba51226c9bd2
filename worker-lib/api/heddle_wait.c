/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking helpers: a call and a wait. */
#include "heddle_private.h"

#include <errno.h>

static int result_of(const struct heddle_status *status) {
	switch (status->state) {
	case HEDDLE_APPLIED:
	case HEDDLE_DURABLE:
		return 0;
	case HEDDLE_DROPPED:
		return 1;
	default:
		return heddle_fail(-EIO, "%s", heddle_reason_name(status->reason));
	}
}

int heddle_push_wait(
	struct heddle *fabric,
	const float *data,
	uint64_t base,
	const struct heddle_push_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_status own = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket = NULL;
	int rc = heddle_push(fabric, data, base, options, &ticket), copied = 0;

	if (rc != 0)
		return rc;
	rc = heddle_ticket_wait(
		ticket,
		options && options->borrow ? HEDDLE_WAIT_RELEASED : HEDDLE_WAIT_OUTCOME,
		timeout_ms,
		&own
	);
	if (status)
		copied = heddle_ticket_test(ticket, status);
	heddle_ticket_free(ticket);
	if (copied < 0)
		return copied;
	return rc < 0 ? rc : result_of(&own);
}

int heddle_pull(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	int timeout_ms,
	uint64_t *version
) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket = NULL;
	int rc = heddle_pull_start(fabric, data, options, &ticket);

	if (rc != 0)
		return rc;
	rc = heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, timeout_ms, &status);
	if (rc == -ETIMEDOUT) {
		/* The buffer is the caller's when this returns. */
		while (heddle_ticket_cancel(ticket) == -EAGAIN)
			(void)heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, 1, NULL);
		(void)heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, -1, &status);
	}
	heddle_ticket_free(ticket);
	if (rc < 0 && status.state != HEDDLE_APPLIED)
		return heddle_fail(rc, "pull: %s", heddle_strerror(rc));
	rc = result_of(&status);
	if (rc == 1 && status.reason != HEDDLE_REASON_NOT_MODIFIED)
		return heddle_fail(-EIO, "%s", heddle_reason_name(status.reason));
	if (rc == 0 && version)
		*version = status.version;
	return rc;
}
