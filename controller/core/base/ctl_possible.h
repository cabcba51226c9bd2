/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the controller: plausibility of values that nodes send. */
#ifndef CTL_POSSIBLE_H
#define CTL_POSSIBLE_H

#include "ctl_core.h"

/* The generation of the next assignment of a server: newer than all that were given or accepted. */
uint64_t ctl_generation_next(struct hd_controller *c);
/* A generation that a server sent; 0, and counted, when no controller can have given it. */
uint64_t ctl_generation_believed(struct hd_controller *c, uint64_t generation);
/* The same for one from the state directory. */
uint64_t ctl_generation_kept(const struct hd_controller *c, uint64_t generation);
bool ctl_state_is_possible(const struct hd_msg_state *m);
bool ctl_inflight_is_possible(const struct hd_msg_inflight *m);
/* Whether a worker can have the sum of this all-reduce. */
bool ctl_round_is_possible(
	const struct hd_controller *c,
	const struct ctl_job *job,
	uint32_t round
);
/* NULL, or an error text. job NULL: not known yet. */
const char *ctl_reduce_fields_wrong(
	const struct hd_controller *c,
	const struct ctl_job *job,
	const struct hd_msg_register_ *m
);

#endif
