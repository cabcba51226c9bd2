/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking helpers: a call and a wait. */
#include "heddle_private.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define STATUS_BYTES_MAX 4096 /* of a later version, whose caller meets this library */

int heddle_check_status(const struct heddle_status *status) {
	if (status && (status->size < sizeof status->size || status->size > STATUS_BYTES_MAX))
		return heddle_fail(-EINVAL, "status: size");
	return 0;
}

/* Of a status that was checked. */
static void copy_status(const struct heddle_ticket *ticket, struct heddle_status *status) {
	size_t size = status ? status->size : 0;

	if (!status)
		return;
	memset(status, 0, size);
	memcpy(status, &ticket->status, size < sizeof ticket->status ? size : sizeof ticket->status
	);
	status->size = size;
}

int heddle_ticket_test(struct heddle_ticket *ticket, struct heddle_status *status) {
	int rc = heddle_check_ticket(ticket), ended;

	if (rc == 0)
		rc = heddle_check_status(status);
	if (rc < 0)
		return rc;
	assert(ticket);
	pthread_mutex_lock(&ticket->fabric->lock);
	ended = ticket->ended;
	copy_status(ticket, status);
	pthread_mutex_unlock(&ticket->fabric->lock);
	return ended;
}

const char *heddle_ticket_error(struct heddle_ticket *ticket) {
	bool ended;

	if (heddle_check_ticket(ticket) < 0)
		return "";
	pthread_mutex_lock(&ticket->fabric->lock);
	ended = ticket->ended;
	pthread_mutex_unlock(&ticket->fabric->lock);
	return ended ? ticket->words : "";
}

static bool has_members(const struct heddle_ticket *ticket) {
	return ticket->ended && ticket->status.state == HEDDLE_STATE_APPLIED
		&& ticket->members.count > 0;
}

long heddle_ticket_members(struct heddle_ticket *ticket, int *ranks, size_t capacity) {
	long count = heddle_check_ticket(ticket);

	if (count < 0)
		return count;
	if (!ranks && capacity > 0)
		return heddle_fail(-EINVAL, "ranks: NULL");
	pthread_mutex_lock(&ticket->fabric->lock);
	for (uint16_t i = 0; has_members(ticket) && i < HD_WORKERS_MAX; i++) {
		if (!hd_roster_has(&ticket->members, i))
			continue;
		if ((size_t)count < capacity)
			ranks[count] = i;
		count++;
	}
	pthread_mutex_unlock(&ticket->fabric->lock);
	return count > 0 ? count : heddle_fail(-ENODATA, "members: not applied, or not known");
}

static bool is_held(const void *arg) {
	const struct heddle_ticket *ticket = arg;

	return ticket->ended || ticket->status.state == HEDDLE_STATE_HELD;
}

static bool is_ended(const void *arg) {
	const struct heddle_ticket *ticket = arg;

	return ticket->ended;
}

static bool is_released(const void *arg) {
	const struct heddle_ticket *ticket = arg;

	return ticket->let_go;
}

int heddle_ticket_wait(
	struct heddle_ticket *ticket,
	enum heddle_wait until,
	int timeout_ms,
	struct heddle_status *status
) {
	/* A push is released when it is durable, or never will be. */
	bool (*const done[])(const void *arg) = {is_held, is_ended, is_released, is_released};
	int rc = heddle_check_ticket(ticket);

	if (rc == 0)
		rc = heddle_check_status(status);
	if (rc < 0)
		return rc;
	if ((unsigned)until >= sizeof done / sizeof *done)
		return heddle_fail(-EINVAL, "until: %d is unknown", (int)until);
	assert(ticket);
	pthread_mutex_lock(&ticket->fabric->lock);
	rc = heddle_wait_until(ticket->fabric, done[until], ticket, timeout_ms);
	copy_status(ticket, status);
	pthread_mutex_unlock(&ticket->fabric->lock);
	return rc;
}

/* A ticket that is still in the queue ends here; the core withdraws others. */
int heddle_ticket_cancel(struct heddle_ticket *ticket) {
	struct heddle_ticket_ring *ring;
	struct heddle *fabric;
	bool wake = false;
	int rc = heddle_check_ticket(ticket);

	if (rc < 0)
		return rc;
	fabric = ticket->fabric;
	ring = &fabric->cancels;
	pthread_mutex_lock(&fabric->lock);
	if (ticket->ended || ticket->status.state == HEDDLE_STATE_HELD) {
		rc = -EALREADY;
	} else if (!ticket->in_core) {
		heddle_ticket_withdraw(ticket);
	} else if (ring->count == HEDDLE_COMMANDS_MAX) {
		rc = -EAGAIN;
	} else {
		ring->item[(ring->head + ring->count) % HEDDLE_COMMANDS_MAX] = ticket;
		ring->count++;
		ticket->references++;
		wake = true;
	}
	pthread_mutex_unlock(&fabric->lock);
	if (wake)
		hd_driver_wake(fabric->driver);
	else if (rc == 0)
		heddle_then_kick(fabric);
	return rc < 0 ?
		heddle_fail(rc, "cancel: %s", rc == -EAGAIN ? "queue is full" : "too late") :
		0;
}

void heddle_ticket_free(struct heddle_ticket *ticket) {
	struct heddle *fabric;

	if (!ticket || getpid() != ticket->fabric->pid)
		return;
	fabric = ticket->fabric;
	pthread_mutex_lock(&fabric->lock);
	heddle_ticket_unref(ticket);
	heddle_unlock_unref(fabric, 0);
}

static int result_of(const struct heddle_status *status) {
	switch (status->state) {
	case HEDDLE_STATE_APPLIED:
	case HEDDLE_STATE_DURABLE:
		return 0;
	case HEDDLE_STATE_DROPPED:
		return 1;
	default:
		return heddle_fail(-EIO, "%s", heddle_reason_name(status->reason));
	}
}

/* Waits for a push that was started, and frees its ticket. */
static int finish_push(
	struct heddle_ticket *ticket,
	const struct heddle_push_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_status own = HEDDLE_STATUS_INIT;
	int rc = heddle_ticket_wait(
		ticket,
		options && options->borrow ? HEDDLE_WAIT_RELEASED : HEDDLE_WAIT_OUTCOME,
		timeout_ms,
		&own
	);

	if (status)
		(void)heddle_ticket_test(ticket, status);
	heddle_ticket_free(ticket);
	return rc < 0 ? rc : result_of(&own);
}

int heddle_push(
	struct heddle *fabric,
	const float *data,
	uint64_t base,
	const struct heddle_push_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_ticket *ticket = NULL;
	int rc = heddle_check_status(status);

	if (rc == 0)
		rc = heddle_check_may_wait();
	if (rc == 0)
		rc = heddle_push_start(fabric, data, base, options, &ticket);
	return rc < 0 ? rc : finish_push(ticket, options, timeout_ms, status);
}

int heddle_push_sparse(
	struct heddle *fabric,
	const struct heddle_sparse *update,
	uint64_t base,
	const struct heddle_push_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_ticket *ticket = NULL;
	int rc = heddle_check_status(status);

	if (rc == 0)
		rc = heddle_check_may_wait();
	if (rc == 0)
		rc = heddle_push_sparse_start(fabric, update, base, options, &ticket);
	return rc < 0 ? rc : finish_push(ticket, options, timeout_ms, status);
}

int heddle_pull(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_status own = HEDDLE_STATUS_INIT;
	struct heddle_ticket *ticket = NULL;
	int rc = heddle_check_status(status);

	if (rc == 0)
		rc = heddle_check_may_wait();
	if (rc == 0)
		rc = heddle_pull_start(fabric, data, options, &ticket);
	if (rc != 0)
		return rc;
	rc = heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, timeout_ms, &own);
	if (rc == -ETIMEDOUT) {
		/* The buffer is the caller's when this returns. */
		while (heddle_ticket_cancel(ticket) == -EAGAIN)
			(void)heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, 1, NULL);
		(void)heddle_ticket_wait(ticket, HEDDLE_WAIT_RELEASED, -1, &own);
	}
	if (status)
		(void)heddle_ticket_test(ticket, status);
	heddle_ticket_free(ticket);
	if (rc < 0 && own.state != HEDDLE_STATE_APPLIED)
		return heddle_fail(rc, "pull: %s", heddle_strerror(rc));
	rc = result_of(&own);
	/* Dropped for another reason, it has delivered nothing to go on with. */
	if (rc == 1 && own.reason != HEDDLE_REASON_NOT_MODIFIED)
		return heddle_fail(-EIO, "%s", heddle_reason_name(own.reason));
	return rc;
}
