/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the controller: jobs that nobody is in, and how they end. */
#ifndef CTL_ENDED_H
#define CTL_ENDED_H

#include "ctl_core.h"

/* Nobody is in it: no worker, and nothing of one that waits or runs. */
bool ctl_job_is_idle(const struct ctl_job *job);
uint32_t ctl_jobs_idle(const struct hd_controller *c);
hd_ns ctl_job_idle_since(const struct hd_controller *c, const struct ctl_job *job);
/* A worker went, or came. */
void ctl_job_left(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_node *worker,
	enum hd_reason reason
);
void ctl_job_entered(struct hd_controller *c, struct ctl_job *job);
/* An operator ends the job, which has no worker any more: its server and its replica are told, and it is forgotten. */
void ctl_job_evict(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* A server says that it has the job no more. False: it did not have it. */
bool ctl_job_gone(
	struct hd_controller *c,
	const struct ctl_node *server,
	const struct hd_msg_leave *leave,
	struct hd_sink *sink
);
/* At the limit: ends the job that can be missed most, if there is one. */
void ctl_jobs_make_room(struct hd_controller *c, struct hd_sink *sink);
/* Why there is no room for another one, in words. */
const char *ctl_jobs_full(const struct hd_controller *c, char *text, size_t bytes);
/* Jobs that nobody has been in for too long. Returns when to look again. */
hd_ns ctl_ended_check(struct hd_controller *c, struct hd_sink *sink);
/* The newest of the ended jobs, without contents but its id; the oldest gives way. */
struct ctl_ended *ctl_ended_add(struct hd_controller *c, uint32_t id);
/* It as it was, in the caller's storage. */
void ctl_ended_job(const struct ctl_ended *ended, struct ctl_job *job);
/* A job of that id begins again. */
void ctl_ended_return(struct hd_controller *c, struct ctl_job *job);
/* Of any tenant, if it is "". False: there is none. */
bool ctl_ended_forget(struct hd_controller *c, const char *tenant, const char *name);

#endif
