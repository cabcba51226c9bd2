/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server: jobs without workers, and how they end. */
#ifndef SRV_END_H
#define SRV_END_H

#include "srv_job.h"

/* Ends the job if it has been idle for job_idle_us. */
void srv_job_idle_check(struct srv_turn *turn, struct srv_job *job);
/* Another node is the job's server: ends it here with its workers' sessions. */
void srv_job_retire(struct srv_turn *turn, struct srv_job *job);
/* Writes a last checkpoint, then ends the job. Its workers must join again. */
void srv_job_end(struct srv_turn *turn, struct srv_job *job);
/* SERVE: a worker is expected, perhaps while the job was ending. */
void srv_job_goes_on(struct srv_turn *turn, struct srv_job *job);
/* END: the job ends if it has no workers, or (`evict`) in any case. */
void srv_job_end_order(struct srv_turn *turn, uint32_t job, bool evict);
/* Ends the job that has been idle longest and may give way; not `keep`. False: none. */
bool srv_job_make_room(struct srv_turn *turn, const struct srv_job *keep);
/* Called at the end of a call: ends retired and ending jobs. A checkpoint that is being written is completed first. */
void srv_forget(struct srv_turn *turn);

#endif
