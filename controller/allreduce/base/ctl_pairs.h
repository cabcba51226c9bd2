/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/allreduce: the table of pairs (ctl_pair.h), and their aggregators. */
#ifndef CTL_PAIRS_H
#define CTL_PAIRS_H

#include "ctl_core.h"

struct ctl_pair *ctl_pair_find(const struct ctl_job *job, uint32_t channel, uint32_t number);
/* Of an end's request, whose end asks. NULL: limit or memory. */
struct ctl_pair *
ctl_pair_add(struct ctl_job *job, const struct hd_msg_request *m, enum ctl_end end);
/* Changes the state of an end; of a pair in progress after ctl_pair_occupy(), of one that was after
 * ctl_pair_vacate(). */
void ctl_pair_enter(struct ctl_pair *pair, enum ctl_end end, enum ctl_part part);
/* It is in progress, over this aggregator. */
void ctl_pair_occupy(struct ctl_job *job, struct ctl_pair *pair, struct ctl_node *aggregator);
/* It is not in progress any more. */
void ctl_pair_vacate(struct hd_controller *c, struct ctl_job *job, struct ctl_pair *pair);
/* Its aggregator is gone, and has delivered the values. */
void ctl_pair_forget_aggregator(struct ctl_pair *pair);
void ctl_pair_forget(struct hd_controller *c, struct ctl_job *job, struct ctl_pair *pair);
void ctl_pair_fini(struct hd_controller *c, struct ctl_job *job);
/* Which end of the channel the worker is; CTL_ENDS: none. */
enum ctl_end ctl_pair_end(uint32_t channel, uint16_t worker);
/* Whether the call of the request is another than the pair's: `words` then has both. */
bool ctl_pair_differs(
	const struct ctl_pair *pair,
	const struct hd_msg_request *m,
	char words[HD_TEXT_BYTES_MAX + 1]
);
/* Whether a pair can be of this request. */
bool ctl_pair_is_valid(const struct hd_msg_request *m);
/* The aggregator for the pair: the receiver's own, that on its host, the sender's, another one. NONE; HOLD: none has
 * room now; NO_SERVER: none would have room if it were idle, or (*any false) there is none. */
enum hd_reason ctl_pair_choose(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_pair *pair,
	struct ctl_node **aggregator,
	bool *any
);

#endif
