/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libheddle: functions that wait for a ticket (heddle_then.c). */
#ifndef HEDDLE_THEN_H
#define HEDDLE_THEN_H

#include "heddle.h"

#include <stdbool.h>
#include <sys/queue.h>

struct heddle_then {
	TAILQ_ENTRY(heddle_then) link;
	struct heddle_ticket *ticket;
	enum heddle_wait until;
	heddle_ticket_function function;
	void *argument;
};

TAILQ_HEAD(heddle_then_list, heddle_then);

/* --- heddle_ticket.c: with the lock held --- */
/* Whether heddle_ticket_wait() would return. */
bool heddle_then_has_come(const struct heddle_ticket *ticket, enum heddle_wait until);
/* After the ticket has changed: functions that waited for that become due. */
void heddle_then_note(struct heddle_ticket *ticket);

/* --- heddle_then.c: without the lock --- */
/* Calls those that are due. */
void heddle_then_run(struct heddle *fabric);
/* After a caller's thread has changed tickets: the progress thread calls those that are due, or this one, if there is
 * none any more. */
void heddle_then_kick(struct heddle *fabric);
/* 0, -EDEADLK: this thread is in such a function, and must not wait. */
int heddle_check_may_wait(void);

#endif
