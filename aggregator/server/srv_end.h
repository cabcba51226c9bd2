/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server: jobs that nobody is in, and how they end. */
#ifndef SRV_END_H
#define SRV_END_H

#include "srv_job.h"

/* It has been, for as long as the timer takes. */
void srv_job_idle_check(struct srv_turn *turn, struct srv_job *job);
/* Another node is the job's server: it goes, and its workers' sessions with it. */
void srv_job_retire(struct srv_turn *turn, struct srv_job *job);
/* Its last checkpoint is written, then it goes. Who is in it joins another time. */
void srv_job_end(struct srv_turn *turn, struct srv_job *job);
/* The controller says that somebody is to come, perhaps while it was ending. */
void srv_job_goes_on(struct srv_turn *turn, struct srv_job *job);
/* The controller says that it has ended: as nobody is in it, or (`evict`) whoever is. */
void srv_job_end_order(struct srv_turn *turn, uint32_t job, bool evict);
/* Ends the one that has been idle for the longest and can be missed; not `keep`. False: none. */
bool srv_job_give_way(struct srv_turn *turn, const struct srv_job *keep);
/* At the end of a call: jobs that another node serves, and those that end. What is being written of one is written to
 * its end. */
void srv_forget(struct srv_turn *turn);

#endif
