/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of its room the result of a collective takes. */
#include "hd_group.h"
#include "hd_message_codes.h"
#include "heddle_call.h"
#include "heddle_private.h"

/* Values of this worker's block. */
static uint64_t block_values(const struct heddle_ticket *ticket) {
	const uint32_t workers = ticket->status.workers;
	uint32_t index = 0;

	for (int i = 0; i < ticket->fabric->rank; i++)
		index += hd_roster_has(&ticket->members, (uint16_t)i);
	return hd_block_first(ticket->values, index + 1, workers)
		- hd_block_first(ticket->values, index, workers);
}

uint64_t heddle_reduce_result(const struct heddle_ticket *ticket) {
	const uint32_t workers = ticket->status.workers;

	if (!ticket->into)
		return 0;
	switch (ticket->collective) {
	case HD_COLLECTIVE_ALLGATHER:
	case HD_COLLECTIVE_GATHER:
		return ticket->values * workers;
	case HD_COLLECTIVE_REDUCE_SCATTER:
	case HD_COLLECTIVE_SCATTER:
		return block_values(ticket);
	case HD_COLLECTIVE_ALLTOALL:
		return block_values(ticket) * workers;
	default:
		return ticket->values;
	}
}
