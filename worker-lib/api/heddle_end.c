/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of all tickets of a handle. */
#include "heddle_far.h"
#include "heddle_private.h"

static void empty_ring(struct heddle_ticket_ring *ring) {
	while (ring->count > 0) {
		heddle_ticket_unref(ring->item[ring->head]);
		ring->head = (ring->head + 1) % HEDDLE_COMMANDS_MAX;
		ring->count--;
	}
}

/* Tickets that have not ended fail; those kept for a restart of the server are released. */
void heddle_end_tickets(struct heddle *fabric, enum heddle_reason reason) {
	struct heddle_ticket *ticket;
	hd_ns span = HEDDLE_FAR_SETTLE;

	empty_ring(&fabric->commands);
	empty_ring(&fabric->cancels);
	while ((ticket = TAILQ_FIRST(&fabric->tickets))) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the analyzer does not follow TAILQ_REMOVE */
		if (ticket->far)
			span = heddle_far_settle(ticket, span);
		if (!ticket->ended)
			heddle_ticket_end(ticket, HEDDLE_STATE_FAILED, reason);
		heddle_ticket_let_go(ticket);
	}
	pthread_cond_broadcast(&fabric->changed);
}
