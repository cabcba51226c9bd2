/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libheddle: the call of a collective, between its public functions and its ticket (heddle_reduce.c). */
#ifndef HEDDLE_CALL_H
#define HEDDLE_CALL_H

#include "heddle_private.h"

/* Inside of heddle_enter(): hands a collective to the core. */
int heddle_reduce_begin(struct heddle *fabric, const struct heddle_turn *turn);
/* The arguments of a collective. */
struct heddle_call {
	const char *wrong; /* with an argument that is not an option; NULL: nothing */
	uint8_t collective; /* enum hd_collective */
	int root; /* of a receive too: its sender */
	uint32_t channel; /* hd_channel(); 0: of the job */
	const void *in; /* NULL: this worker gives nothing */
	void *out; /* NULL: it receives nothing */
	uint64_t count;
	uint64_t in_count, out_count; /* values that in has, and that out has room for */
	uint8_t state; /* enum hd_request_state */
	bool apart; /* the caller's memory is not used until heddle_ticket_taken(): the result goes behind the copy */
	bool is_list;
	/* Of a list: its memory. in and out only say whether this worker gives and receives. NULL: one buffer. */
	const struct heddle_part *parts;
	size_t part_count;
};
/* With the lock held, or after its end. Values of the result of a collective that is applied; 0: there is none. */
uint64_t heddle_reduce_result(const struct heddle_ticket *ticket);
/* Bytes of a value; 0: there is no such type. */
size_t heddle_type_bytes(enum heddle_type type);
/* Without the lock. Checks options and begins. */
int heddle_reduce_start_call(
	struct heddle *fabric,
	const struct heddle_call *call,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
/* The same, and waits. */
int heddle_reduce_make_call(
	struct heddle *fabric,
	const struct heddle_call *call,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);
/* These two also check the arguments, of a call other than an all-reduce of one buffer, a send or a receive. -EINVAL,
 * -ENOTSUP, -ECHILD. */
int heddle_call_start(
	struct heddle *fabric,
	struct heddle_call *call,
	const struct heddle_collective_options *options,
	struct heddle_ticket **ticket
);
int heddle_call_make(
	struct heddle *fabric,
	struct heddle_call *call,
	const struct heddle_collective_options *options,
	int timeout_ms,
	struct heddle_status *status
);

#endif
