/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: for which workers a round waits (ctl_wait.c). */
#ifndef CTL_WAIT_H
#define CTL_WAIT_H

#include "ctl_core.h"

/* A worker has registered, and its program has called the rounds up to `called`. */
void ctl_wait_registered(struct hd_controller *c, struct ctl_node *node, uint32_t called);
/* It has called this round. Returns whether rounds up to it, or later ones, began without it as it was silent. */
bool ctl_wait_called(struct hd_controller *c, struct ctl_node *node, uint32_t round);
/* The oldest round in which this worker can still take part, and which waits for it; 0: none. */
uint32_t ctl_wait_open_round(const struct ctl_node *node);
/* Workers that have ended this round already, those that came later, and those that are silent are not waited for. */
void ctl_wait_exclude(const struct ctl_job *job, struct ctl_reduce *r);
/* All that are registered have asked, have the result, or have left the round. */
bool ctl_wait_has_all(const struct ctl_job *job, const struct ctl_reduce *r);
/* The same, or the time of those that have not asked is over. Otherwise the controller checks again when it is. */
bool ctl_wait_is_over(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r);
/* The round begins, or fails: those that have not asked are OUT, and silent until they call if it waited for them. */
void ctl_wait_leave_out(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
);
/* The round is void: those that it left out, and that have not called it since, can still take part. */
void ctl_wait_again(const struct ctl_job *job, struct ctl_reduce *r);

#endif
