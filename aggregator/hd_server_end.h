/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server: jobs that nobody is in, and how they end. */
#ifndef HD_SERVER_END_H
#define HD_SERVER_END_H

#include "hd_server_internal.h"

/* True when nobody is here. */
bool hd_job_empty(const struct hd_job *job, const struct hd_peers *peers);
/* Somebody went, or nobody has come yet: from now on it may be idle. */
void hd_job_idle(struct hd_turn *turn, struct hd_job *job);
/* It has been, for as long as the timer takes. */
void hd_job_idle_check(struct hd_turn *turn, struct hd_job *job);
/* Its last checkpoint is written, then it goes. Who is in it joins another time. */
void hd_job_end(struct hd_turn *turn, struct hd_job *job);
/* The controller says that somebody is to come, perhaps while it was ending. */
void hd_job_goes_on(struct hd_turn *turn, struct hd_job *job);
/* The controller says that it has ended: as nobody is in it, or (`evict`) whoever is. */
void hd_job_end_order(struct hd_turn *turn, uint32_t job, bool evict);
/* Ends the one that has been idle for the longest and can be missed; not `keep`. False: none. */
bool hd_job_give_way(struct hd_turn *turn, const struct hd_job *keep);
/* At the end of a call: jobs that another node serves, and those that end. What is being written of one is written to
 * its end. */
void hd_server_forget(struct hd_turn *turn);

#endif
