/* SPDX-License-Identifier: BSD-3-Clause */
/* Tickets: references, ends, the queue to the progress thread. */
#include "hd_kernels.h"
#include "heddle_private.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- under the lock ------------------------------------------------------------------------- */

void heddle_count_end(struct heddle *fabric) {
	uint64_t one = 1;

	fabric->ends++;
	if (fabric->ended_fd >= 0 && write(fabric->ended_fd, &one, sizeof one) < 0) {
		/* EAGAIN: the counter is full, so the descriptor is readable. */
	}
}

bool heddle_then_has_come(const struct heddle_ticket *ticket, enum heddle_wait until) {
	switch (until) {
	case HEDDLE_WAIT_HELD:
		return ticket->ended || ticket->status.state == HEDDLE_STATE_HELD;
	case HEDDLE_WAIT_OUTCOME:
		return ticket->ended;
	default:
		return ticket->let_go;
	}
}

void heddle_then_note(struct heddle_ticket *ticket) {
	struct heddle_then *then, *next;

	for (then = TAILQ_FIRST(&ticket->then); then; then = next) {
		next = TAILQ_NEXT(then, link);
		if (!heddle_then_has_come(ticket, then->until))
			continue;
		TAILQ_REMOVE(&ticket->then, then, link);
		TAILQ_INSERT_TAIL(&ticket->fabric->due, then, link);
	}
}

void heddle_ticket_end(
	struct heddle_ticket *ticket,
	enum heddle_state state,
	enum heddle_reason reason
) {
	ticket->status.state = state;
	ticket->status.reason = reason;
	if (ticket->ended)
		return;
	ticket->ended = true;
	ticket->fabric->late |= ticket->reduce && reason == HEDDLE_REASON_LATE;
	ticket->status.ended_ns = hd_driver_now();
	heddle_count_end(ticket->fabric);
	heddle_then_note(ticket);
}

void heddle_ticket_unref(struct heddle_ticket *ticket) {
	if (--ticket->references > 0)
		return;
	ticket->fabric->references--;
	free(ticket);
}

/* The next update has the same size, and fresh pages cost more than the copy. */
static void give_back(struct heddle_ticket *ticket) {
	struct heddle *fabric = ticket->fabric;

	if (ticket->copy_bytes > fabric->spare_bytes) {
		free(fabric->spare);
		fabric->spare = ticket->copy;
		fabric->spare_bytes = ticket->copy_bytes;
	} else {
		free(ticket->copy);
	}
	ticket->copy = NULL;
	ticket->copy_bytes = 0;
}

int heddle_ticket_copy(struct heddle *fabric, struct heddle_ticket *ticket, size_t bytes) {
	pthread_mutex_lock(&fabric->lock);
	/* One that is far too big stays for a ticket that needs it. */
	if (fabric->spare_bytes >= bytes && fabric->spare_bytes / 2 <= bytes) {
		ticket->copy = fabric->spare;
		ticket->copy_bytes = fabric->spare_bytes;
		fabric->spare = NULL;
		fabric->spare_bytes = 0;
	}
	pthread_mutex_unlock(&fabric->lock);
	if (ticket->copy)
		return 0;
	ticket->copy = malloc(bytes);
	ticket->copy_bytes = ticket->copy ? bytes : 0;
	return ticket->copy ? 0 : -ENOMEM;
}

void heddle_ticket_let_go(struct heddle_ticket *ticket) {
	if (ticket->let_go)
		return;
	ticket->let_go = true;
	ticket->status.released = 1;
	if (!ticket->keeps)
		give_back(ticket);
	if (ticket->far)
		heddle_far_give_back(ticket->fabric, ticket);
	TAILQ_REMOVE(&ticket->fabric->tickets, ticket, link);
	heddle_then_note(ticket);
	heddle_ticket_unref(ticket);
}

void heddle_ticket_withdraw(struct heddle_ticket *ticket) {
	struct heddle *fabric = ticket->fabric;

	heddle_ticket_end(ticket, HEDDLE_STATE_FAILED, HEDDLE_REASON_CANCELLED);
	if (!ticket->far)
		heddle_ticket_let_go(ticket);
	pthread_cond_broadcast(&fabric->changed);
}

void heddle_ticket_taken(struct heddle_ticket *ticket) {
	ticket->keeps = false;
	if (ticket->let_go)
		give_back(ticket);
}

void heddle_unlock_unref(struct heddle *fabric, unsigned references) {
	bool last;

	fabric->references -= references;
	last = fabric->references == 0;
	pthread_mutex_unlock(&fabric->lock);
	if (!last)
		return;
	pthread_cond_destroy(&fabric->changed);
	pthread_mutex_destroy(&fabric->lock);
	heddle_far_free_spares(fabric);
	free(fabric->spare);
	free(fabric);
}

/* --- beginning ------------------------------------------------------------------------------ */

int heddle_check_memory(enum heddle_memory memory, const void *stream) {
	if (memory != HEDDLE_MEMORY_HOST && memory != HEDDLE_MEMORY_CUDA)
		return heddle_fail(-EINVAL, "memory: kind %d is unknown", (int)memory);
	if (stream && memory == HEDDLE_MEMORY_HOST)
		return heddle_fail(-EINVAL, "stream: host memory has none");
	return 0;
}

int heddle_check_host(enum heddle_memory memory, const void *stream) {
	if (memory == HEDDLE_MEMORY_CUDA)
		return heddle_fail(
			-ENOTSUP,
			"memory: CUDA is for heddle_push(), heddle_pull() and collectives of one buffer"
		);
	return heddle_check_memory(memory, stream);
}

int heddle_check_payload(enum heddle_payload payload) {
	if (payload == HEDDLE_PAYLOAD_FP32 || payload == HEDDLE_PAYLOAD_FP16
	    || payload == HEDDLE_PAYLOAD_BF16)
		return 0;
	return heddle_fail(-EINVAL, "payload: type %d is unknown", (int)payload);
}

int heddle_set_not_finite(const struct heddle *fabric, uint64_t index, const char *what) {
	const struct hd_jobspec *job = &fabric->spec->job;
	uint64_t first = 0;

	for (uint32_t i = 0; i < job->tensor_count; i++) {
		const struct hd_tensor *tensor = &job->tensors[i];
		uint64_t values = 1;

		for (uint32_t d = 0; d < tensor->dimension_count; d++)
			values *= tensor->dimension[d];
		if (index < first + values)
			return heddle_fail(
				-EDOM,
				"tensor %s: value %llu is %s",
				tensor->name,
				(unsigned long long)(index - first),
				what
			);
		first += values;
	}
	return heddle_fail(-EDOM, "value %llu", (unsigned long long)index);
}

/* Of what is sent. */
int heddle_ticket_finite(const struct heddle *fabric, const struct heddle_ticket *ticket) {
	uint64_t at;
	char what[64];
	float value;

	if (fabric->spec->job.allow_not_finite && ticket->dtype != HD_DTYPE_FIXED32)
		return 0;
	at = hd_find_not_finite_as(ticket->dtype, ticket->data, ticket->values);
	if (at == ticket->values)
		return 0;
	value = ticket->data[at];
	for (size_t i = 0; i < ticket->run_count; i++) {
		if (at < ticket->runs[i].count) {
			at += ticket->runs[i].first;
			break;
		}
		at -= ticket->runs[i].count;
	}
	(void)snprintf(
		what,
		sizeof what,
		"%g%s",
		(double)value,
		isfinite(value) ? ": beyond the payload type's range" : ""
	);
	return heddle_set_not_finite(fabric, at, what);
}

struct heddle_ticket *heddle_ticket_new(struct heddle *fabric, enum heddle_direction direction) {
	struct heddle_ticket *ticket = calloc(1, sizeof *ticket);

	if (!ticket)
		return NULL;
	ticket->fabric = fabric;
	TAILQ_INIT(&ticket->then);
	ticket->references = 3; /* the caller's, the library's, the queue's */
	ticket->status.direction = direction;
	ticket->status.bytes = fabric->values * sizeof(float);
	ticket->status.started_ns = hd_driver_now();
	return ticket;
}

void heddle_ticket_discard(struct heddle *fabric, struct heddle_ticket *ticket) {
	if (ticket->far)
		(void)heddle_far_wait(ticket, HEDDLE_FAR_SETTLE);
	if (ticket->far) {
		pthread_mutex_lock(&fabric->lock);
		heddle_far_give_back(fabric, ticket);
		pthread_mutex_unlock(&fabric->lock);
	}
	free(ticket->copy);
	free(ticket);
}

/* Puts it into the queue, or frees it. */
int heddle_ticket_enqueue(struct heddle *fabric, struct heddle_ticket *ticket) {
	struct heddle_ticket_ring *ring = &fabric->commands;
	int rc = 0;

	pthread_mutex_lock(&fabric->lock);
	if (fabric->refused)
		rc = heddle_fail(-ECONNREFUSED, "%s", fabric->refusal);
	else if (fabric->error < 0)
		rc = heddle_fail(fabric->error, "%s", fabric->error_text);
	else if (fabric->closing)
		rc = heddle_fail(-ESHUTDOWN, "heddle_leave() was called");
	else if (fabric->left || hd_driver_now() >= fabric->flush_at)
		rc = heddle_fail(-ESHUTDOWN, "preempted: no time is left for it");
	else if (ring->count == HEDDLE_COMMANDS_MAX)
		rc = heddle_fail(
			-EAGAIN, "%d calls wait (HEDDLE_COMMANDS_MAX)", HEDDLE_COMMANDS_MAX
		);
	if (rc == 0) {
		ring->item[(ring->head + ring->count) % HEDDLE_COMMANDS_MAX] = ticket;
		ring->count++;
		fabric->references++;
		TAILQ_INSERT_TAIL(&fabric->tickets, ticket, link);
	}
	pthread_mutex_unlock(&fabric->lock);
	if (rc < 0) {
		heddle_ticket_discard(fabric, ticket);
		return rc;
	}
	hd_driver_wake(fabric->driver);
	return 0;
}
