/* SPDX-License-Identifier: BSD-3-Clause */
#include "train_waits.h"

#include <errno.h>
#include <sysexits.h>

static hd_ns end_of(int timeout_ms) {
	return hd_ns_add(hd_compute_now(), (hd_ns)timeout_ms * HD_MS);
}

/* The length of the next slice; *end moves when a signal has come. */
static int slice_ms(hd_ns *end, bool *stopping) {
	hd_ns now = hd_compute_now();
	hd_ns left;

	if (train_stop && !*stopping) {
		*stopping = true;
		*end = hd_ns_min(*end, now + STOP_MS * HD_MS);
	}
	left = now < *end ? *end - now : 0;
	return (int)((hd_ns_min(left, SLICE_MS * HD_MS) + HD_MS - 1) / HD_MS);
}

int train_join(const struct train *train, struct heddle *fabric) {
	const struct train_options *options = &train->options;
	hd_ns end = end_of((int)options->join_ms);
	int rc;

	if (options->seconds > 0.0)
		end = hd_ns_min(end, train->begun + (hd_ns)(options->seconds * 1e9));
	do {
		hd_ns now = hd_compute_now();
		hd_ns left = now < end ? end - now : 0;

		rc = heddle_wait_joined(
			fabric, (int)(hd_ns_min(left, SLICE_MS * HD_MS) / HD_MS), NULL, NULL
		);
	} while (rc == -ETIMEDOUT && !train_stop && hd_compute_now() < end);
	if (rc == 0 || train_stop || rc == -ESHUTDOWN)
		return EX_OK;
	return train_heddle_error("joining", rc);
}

int train_wait(
	struct heddle_ticket *ticket,
	enum heddle_wait until,
	hd_ns *end,
	struct heddle_status *status
) {
	bool stopping = false;
	int rc, left;

	do {
		left = slice_ms(end, &stopping);
		rc = heddle_ticket_wait(ticket, until, left, status);
	} while (rc == -ETIMEDOUT && left > 0);
	return rc;
}

int train_pull(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	int timeout_ms,
	uint64_t *version
) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket = NULL;
	hd_ns end = end_of(timeout_ms);
	int rc = heddle_pull_start(fabric, data, options, &ticket);

	if (rc != 0)
		return rc;
	rc = train_wait(ticket, HEDDLE_WAIT_OUTCOME, &end, &status);
	if (rc == -ETIMEDOUT) {
		while (heddle_ticket_cancel(ticket) == -EAGAIN)
			(void)heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, 1, NULL);
		(void)heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, -1, &status);
	}
	heddle_ticket_free(ticket);
	if (status.state == HEDDLE_STATE_APPLIED) {
		if (version)
			*version = status.version;
		return 0;
	}
	if (rc < 0)
		return rc;
	return status.state == HEDDLE_STATE_DROPPED && status.reason == HEDDLE_REASON_NOT_MODIFIED ?
		1 :
		-EIO;
}

int train_close(struct heddle *fabric, int timeout_ms) {
	hd_ns end = end_of(timeout_ms);
	bool stopping = false;
	int rc, left;

	if (!fabric)
		return 0;
	do {
		left = slice_ms(&end, &stopping);
		rc = heddle_leave(fabric, left);
	} while (rc == -ETIMEDOUT && left > 0);
	(void)heddle_close(fabric, 0);
	return rc;
}
