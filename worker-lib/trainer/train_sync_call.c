/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits for the collectives of synchronous training, and what follows from how they end. */
#include "train_sync.h"
#include "train_waits.h"

#include <errno.h>
#include <sysexits.h>

#define RECOVERIES_MAX 1000 /* calls without a result between two steps */
#define RECOVERY_S                                                                                 \
	30 /* the same, in time, but for so few calls that each of them may have been a long step: */
#define RECOVERIES_MIN 10
#define LATE_S 5 /* for a round after --seconds */

static enum train_end fail(struct train_sync *sync, int status) {
	sync->status = status;
	return TRAIN_END_FAILED;
}

static double seconds_since(hd_ns then) {
	return (double)(hd_compute_now() - then) * 1e-9;
}

/* Whether this worker waits for a round no longer. */
static enum train_end patience(struct train_sync *sync) {
	const struct train_options *options = &sync->train->options;
	const double waited = seconds_since(sync->train->begun);

	if (train_stop || train_no_time(sync->fabric, 0))
		return TRAIN_END_LEAVE;
	if (!sync->began
	    && (waited * 1e3 > options->join_ms
		|| (options->seconds > 0.0 && waited > options->seconds)))
		return fail(sync, train_heddle_error("joining", -ETIMEDOUT));
	if (options->seconds > 0.0 && waited > options->seconds + LATE_S)
		return fail(
			sync, train_fail(EX_UNAVAILABLE, "all-reduce: it has not ended in time")
		);
	return TRAIN_END_DONE;
}

static enum train_end
recover(struct train_sync *sync, enum train_stage stage, const char *name, const char *words) {
	double seconds;

	sync->stage = stage;
	if (sync->recoveries++ == 0)
		sync->recovering = hd_compute_now();
	seconds = seconds_since(sync->recovering);
	if (sync->recoveries < RECOVERIES_MIN
	    || (sync->recoveries < RECOVERIES_MAX && seconds < RECOVERY_S))
		return TRAIN_END_STAGE;
	return fail(
		sync,
		train_fail(
			EX_UNAVAILABLE,
			"all-reduce: no step in %.0f s, in which %u calls had no result: %s%s%s",
			seconds,
			sync->recoveries,
			name,
			*words ? ": " : "",
			words
		)
	);
}

static enum train_end
ended(struct train_sync *sync, struct heddle_ticket *ticket, const struct heddle_status *status) {
	const char *name = heddle_reason_name(status->reason), *words = heddle_ticket_error(ticket);

	sync->began = true;
	if (status->state == HEDDLE_STATE_APPLIED)
		return TRAIN_END_DONE;
	switch (status->reason) {
	case HEDDLE_REASON_LATE: /* the others have a sum that this worker lacks, and its gradient may be in it */
		sync->sure = sync->has_batch = false;
		return recover(sync, TRAIN_STAGE_ATTENDING, name, words);
	case HEDDLE_REASON_MISMATCH:
	case HEDDLE_REASON_ROOT:
		return recover(sync, TRAIN_STAGE_ROLL, name, words);
	case HEDDLE_REASON_LEFT:
	case HEDDLE_REASON_CLOSED:
	case HEDDLE_REASON_PREEMPTED:
		return TRAIN_END_LEAVE;
	default:
		return fail(
			sync,
			train_fail(
				EX_UNAVAILABLE,
				"all-reduce: %s%s%s",
				name,
				*words ? ": " : "",
				words
			)
		);
	}
}

enum train_end train_sync_wait(
	struct train_sync *sync,
	struct heddle_ticket *ticket,
	struct heddle_status *status
) {
	struct heddle_status own = HEDDLE_STATUS_INIT;
	enum train_end end = TRAIN_END_DONE;
	int rc;

	do {
		rc = heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, SLICE_MS, &own);
		end = rc == -ETIMEDOUT ? patience(sync) : TRAIN_END_DONE;
	} while (rc == -ETIMEDOUT && end == TRAIN_END_DONE);
	if (rc == -ETIMEDOUT)
		return end;
	if (rc < 0)
		return train_sync_refused(sync, rc);
	if (status)
		*status = own;
	return ended(sync, ticket, &own);
}

enum train_end train_sync_refused(struct train_sync *sync, int code) {
	return code == -ESHUTDOWN ? TRAIN_END_LEAVE :
				    fail(sync, train_heddle_error("all-reduce", code));
}
