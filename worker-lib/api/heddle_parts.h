/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libheddle: the parts of a list, gathered and spread (heddle_parts.c). */
#ifndef HEDDLE_PARTS_H
#define HEDDLE_PARTS_H

#include "heddle_call.h"

/* Those of a ticket, into which the progress thread puts the result. */
struct heddle_parts {
	size_t value; /* bytes of one */
	size_t count;
	struct heddle_part part[];
};

/* Sets how many values they have, in all. -EINVAL. */
int heddle_parts_total(const struct heddle_part *parts, size_t count, uint64_t *total);
/* No two overlap. Their total must be within the limits. -EINVAL, -ENOMEM. */
int heddle_parts_check_apart(const struct heddle_part *parts, size_t count, size_t value);
/* The caller's thread: gives the ticket of a call of parts memory for what it sends and receives, and gathers what it
 * sends. -ENOMEM. */
int heddle_parts_take(
	struct heddle *fabric,
	struct heddle_ticket *ticket,
	const struct heddle_call *call
);
/* Copies values to the parts, in their order. */
void heddle_parts_spread(
	const struct heddle_part *parts,
	size_t count,
	size_t value,
	const void *values
);
/* The progress thread, without the lock, before the ticket is APPLIED: the caller's memory has the result. */
void heddle_parts_deliver(const struct heddle_ticket *ticket);

#endif
