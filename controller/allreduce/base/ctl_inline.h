/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/allreduce: short collectives, whose values come with the requests (ctl_inline.c). */
#ifndef CTL_INLINE_H
#define CTL_INLINE_H

#include "ctl_core.h"

/* Whether a request's values, if it has any, are all that its worker gives. */
bool ctl_inline_is_valid(const struct hd_msg_request *m);
/* Keeps the values of a request in place of the worker's older ones, if there is room; otherwise it has none. */
void ctl_inline_take(struct hd_controller *c, struct ctl_reduce *r, const struct hd_msg_request *m);
/* Whether the members that have asked have given all values, and these are few enough. */
bool ctl_inline_can(const struct hd_controller *c, const struct ctl_reduce *r);
/* Makes the result of those that have asked; r->bytes is set: sets r->inlined. 0, -ENOMEM. */
int ctl_inline_make(struct hd_controller *c, struct ctl_reduce *r);
/* Whether this member of a round that is inlined receives something. */
bool ctl_inline_receives(const struct ctl_reduce *r, uint16_t worker);
/* The bytes that it receives; `space`: HD_MESSAGE_BYTES_MAX, which may be used. */
struct hd_blob ctl_inline_part(const struct ctl_reduce *r, uint16_t worker, uint8_t *space);
/* The members of the result. */
const struct hd_roster *ctl_inline_members(const struct ctl_reduce *r);
/* The attempt has ended: it has no result any more. The values stay. */
void ctl_inline_reset(struct hd_controller *c, struct ctl_reduce *r);
void ctl_inline_fini(struct hd_controller *c, struct ctl_reduce *r);

#endif
