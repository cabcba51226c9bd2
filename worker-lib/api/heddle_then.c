/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that are called when a ticket has ended, or has come as far as they wait for.
 *
 *   heddle_ticket_then() --> ticket->then --note()--> fabric->due --run()--> function(ticket, argument)
 *
 * note() is called under the lock, often inside of the core; run() between two rounds of the driver, without the lock
 * and outside of the core, so that such a function may call the library. An entry holds a reference to its ticket.
 */
#include "heddle_private.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* The process in which this thread is in such a function; 0: it is not. (A child of a fork in one may wait.) */
static _Thread_local pid_t inside;

int heddle_check_may_wait(void) {
	if (inside != 0 && inside == getpid())
		return heddle_fail(
			-EDEADLK, "a function of heddle_ticket_then() must not wait for other nodes"
		);
	return 0;
}

static void call(heddle_ticket_function function, struct heddle_ticket *ticket, void *argument) {
	const pid_t before = inside;

	inside = getpid();
	function(ticket, argument);
	inside = before;
}

void heddle_then_run(struct heddle *fabric) {
	struct heddle_then *then;

	pthread_mutex_lock(&fabric->lock);
	while ((then = TAILQ_FIRST(&fabric->due))) {
		TAILQ_REMOVE(&fabric->due, then, link);
		pthread_mutex_unlock(&fabric->lock);
		call(then->function, then->ticket, then->argument);
		pthread_mutex_lock(&fabric->lock);
		heddle_ticket_unref(then->ticket);
		free(then);
	}
	pthread_mutex_unlock(&fabric->lock);
}

void heddle_then_kick(struct heddle *fabric) {
	bool undriven;

	pthread_mutex_lock(&fabric->lock);
	undriven = fabric->undriven;
	if (!undriven && !TAILQ_EMPTY(&fabric->due))
		hd_driver_wake(fabric->driver);
	pthread_mutex_unlock(&fabric->lock);
	if (undriven)
		heddle_then_run(fabric);
}

static unsigned count(const struct heddle_then_list *list) {
	const struct heddle_then *then;
	unsigned count = 0;

	TAILQ_FOREACH (then, list, link)
		count++;
	return count;
}

int heddle_ticket_then(
	struct heddle_ticket *ticket,
	enum heddle_wait until,
	heddle_ticket_function function,
	void *argument
) {
	struct heddle_then *then;
	struct heddle *fabric;
	bool now, full;
	int rc = heddle_check_ticket(ticket);

	if (rc < 0)
		return rc;
	if (!function)
		return heddle_fail(-EINVAL, "function: NULL");
	if ((unsigned)until > HEDDLE_WAIT_DURABLE)
		return heddle_fail(-EINVAL, "until: %d is unknown", (int)until);
	then = malloc(sizeof *then);
	if (!then)
		return heddle_fail(-ENOMEM, "no memory");
	*then = (struct heddle_then
	){.ticket = ticket, .until = until, .function = function, .argument = argument};
	fabric = ticket->fabric;
	pthread_mutex_lock(&fabric->lock);
	now = heddle_then_has_come(ticket, until);
	if (now)
		ticket->references++; /* until the function has returned */
	full = !now && count(&ticket->then) == HEDDLE_THEN_MAX;
	if (!now && !full) {
		TAILQ_INSERT_TAIL(&ticket->then, then, link);
		ticket->references++;
		then = NULL;
	}
	pthread_mutex_unlock(&fabric->lock);
	free(then);
	if (full)
		return heddle_fail(
			-ENOSPC,
			"%d functions wait for this ticket (HEDDLE_THEN_MAX)",
			HEDDLE_THEN_MAX
		);
	if (now) {
		call(function, ticket, argument);
		pthread_mutex_lock(&fabric->lock);
		heddle_ticket_unref(ticket);
		heddle_unlock_unref(fabric, 0);
	}
	return 0;
}
