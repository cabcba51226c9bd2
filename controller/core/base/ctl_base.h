/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: what every room stands on: words to nodes, lookups, and tables that several rooms read. */
#ifndef CTL_BASE_H
#define CTL_BASE_H

#include "ctl_core.h"

/* Both ends are on one host. */
static inline bool ctl_transfer_local(const struct ctl_transfer *t) {
	return t->path_count == 1 && t->path[0] == CTL_LINK_LOCAL;
}

static inline bool ctl_transfer_is_open(const struct ctl_transfer *t) {
	return t->state != CTL_PENDING;
}

/* Who is silent for this long is gone: a share of the detection time, as nodes take it too. */
static inline hd_ns ctl_silence(const struct hd_controller *c) {
	return (uint64_t)c->config.detection_us * HD_SILENCE_US / HD_DETECTION_US * HD_US;
}

/* As shells say it; what aggregators are sent is told apart elsewhere. */
static inline const char *ctl_direction_name(uint8_t direction) {
	if (direction == HD_COPY)
		return "replicate";
	return direction == HD_PUSH ? "push" : "pull";
}

/* --- ctl_bus.c --- */
void ctl_event(struct hd_sink *sink, struct hd_event event);
/* The same, of a node, and a job (may be NULL): it says in words who they are. */
void ctl_event_of(
	const struct ctl_node *node,
	const struct ctl_job *job,
	struct hd_event event,
	struct hd_sink *sink
);
uint32_t ctl_link_count(const struct hd_controller *c);
const char *ctl_link_name(const struct hd_controller *c, uint32_t link);
/* Sends reliably; a full queue dooms the node. 0 or -errno. */
int ctl_send(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_message *message,
	struct hd_sink *sink
);
/* Answers in words. */
void ctl_refuse(
	struct hd_controller *c,
	struct ctl_node *node,
	uint32_t job,
	const char *text,
	struct hd_sink *sink
);
/* Hands a record to the journal, if there is one. */
void ctl_record(const struct hd_controller *c, struct hd_record record);
hd_ns ctl_interval(const struct hd_controller *c);
/* A planning pass soon (as the interval allows), or at the end of this call. */
void ctl_plan_soon(struct hd_controller *c);
void ctl_plan_now(struct hd_controller *c);
/* Slow timers are looked at no later than this. */
void ctl_check_by(struct hd_controller *c, hd_ns at);
/* "up", "down", ...: into the journal. */
void ctl_record_node(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const char *what,
	enum hd_reason reason
);
/* Something of what outlives this controller is different now: at the end of the call ops->keep gets it. */
void ctl_kept_changed(struct hd_controller *c);
/* The same within a second: a job that came or went, of which nobody relies on the newest word. */
void ctl_kept_soon(struct hd_controller *c);
/* Somebody has to be told, though nothing changed. */
void ctl_roster_due(struct hd_controller *c, struct ctl_job *job);

/* --- ctl_find.c --- */
struct ctl_job *ctl_job_find(const struct hd_controller *c, uint32_t id);
uint32_t ctl_job_index(const struct hd_controller *c, const struct ctl_job *job);
struct ctl_node *ctl_worker(const struct ctl_job *job, uint16_t worker);
/* Pushes that were granted and have not ended. */
uint32_t ctl_job_running(const struct ctl_job *job);
/* The version counter that everything granted will have made of the job. */
uint64_t ctl_job_v_init(const struct ctl_job *job);
/* The bound that is planned with, and the weight between tenants. */
uint32_t ctl_job_tau(const struct ctl_job *job);
double ctl_job_weight(const struct ctl_job *job);
/* Nobody is in it: no worker, and nothing of one that waits or runs. */
bool ctl_job_is_idle(const struct ctl_job *job);
uint32_t ctl_jobs_idle(const struct hd_controller *c);
hd_ns ctl_job_idle_since(const struct hd_controller *c, const struct ctl_job *job);
bool ctl_host_drained(const struct hd_controller *c, const char *host);
/* Where a transfer is in by_token and in by_key. */
uint32_t ctl_token_bucket(uint64_t x);
uint32_t ctl_key_bucket(uint32_t job, uint16_t worker, uint8_t direction, uint32_t round);
struct ctl_transfer *ctl_transfer_find(
	const struct hd_controller *c,
	const struct ctl_job *job,
	uint16_t worker,
	uint8_t direction,
	uint32_t round
);
struct ctl_transfer *ctl_transfer_by_token(const struct hd_controller *c, uint64_t token);
/* Links of the planner between two hosts: at least 1 (CTL_LINK_LOCAL), or < 0. [HD_PLAN_PATH_MAX] */
int ctl_path(const struct hd_controller *c, int from, int to, uint32_t *links);
/* Whose bytes go where; NULL: not there. */
struct ctl_node *ctl_sender(const struct ctl_transfer *transfer);
struct ctl_node *ctl_receiver(const struct ctl_transfer *transfer);
/* Why the operator or the job's state keeps it waiting: "paused", "draining", "no-server",
 * "settling"; "" when the planner may have it. */
const char *ctl_waits_for(const struct hd_controller *c, const struct ctl_transfer *transfer);

/* --- ctl_aggregators.c --- */
/* Whether groups may be given to this node. */
bool ctl_may_add(const struct ctl_node *node);
/* Bytes that rounds under way hold at an aggregator. */
uint64_t ctl_reduce_held_bytes(const struct hd_controller *c, const struct ctl_node *aggregator);
bool ctl_reduce_any_aggregator(const struct hd_controller *c);
/* Groups may go through this node: an aggregator, or a switch. */
bool ctl_may_group(const struct hd_controller *c, const struct ctl_node *node);
/* There are such nodes, and they may be used. */
bool ctl_groups_possible(const struct hd_controller *c);
/* What open groups and all-reduces leave of an aggregator's memory. */
uint64_t ctl_memory_left(const struct hd_controller *c, const struct ctl_node *aggregator);
/* Why it did not make, or keep, a group: it may get none of this job for a while. Others have shares of their own. */
void ctl_group_refused(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct ctl_job *job,
	uint8_t reason
);
/* A lease of this switch failed: it gets no groups for a while. */
void ctl_switch_rests(const struct hd_controller *c, struct ctl_node *node);
/* It is in that while. */
bool ctl_group_refuses(
	const struct hd_controller *c,
	const struct ctl_node *aggregator,
	const struct ctl_job *job
);

/* What a group of so many such updates, or a model relayed, takes of an aggregator's memory (hd_reduce.h). */
uint64_t
ctl_group_memory(const struct hd_controller *c, const struct ctl_transfer *t, uint32_t count);
/* The same of so many bytes. */
uint64_t ctl_group_memory_of(
	const struct hd_controller *c,
	const struct ctl_transfer *t,
	uint64_t bytes,
	uint32_t count
);

/* --- ctl_groups.c --- */
/* Slots leased to groups of the job (NULL: of all). */
uint32_t ctl_slots_leased(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_job *job
);
/* The job's leases for groups of pushes anywhere, with those whose end the switch has yet to be told. */
void ctl_slots_of(
	const struct hd_controller *c,
	const struct ctl_job *job,
	uint32_t *leases,
	uint32_t *slots
);
/* A merged sum is there: learns how much its members had in common. */
void ctl_group_learn(struct ctl_transfer *sum, const struct hd_msg_report *report);
/* It has ended as planned (NONE) or not: remembered, and recorded. */
void ctl_group_ended(struct hd_controller *c, const struct ctl_group *group, enum hd_reason reason);
/* The group is over: the switch is told at the next check. */
void ctl_slots_end(struct hd_controller *c, struct ctl_group *group);
void ctl_group_free(struct hd_controller *c, struct ctl_group *group);
/* It cannot be kept. What is left of it is voided by ctl_groups_settle(). */
void ctl_group_fail(struct hd_controller *c, struct ctl_group *group, enum hd_reason reason);
/* A transfer becomes this member of the group. */
void ctl_group_attach(struct ctl_group *group, uint32_t slot, struct ctl_transfer *t);
/* It is the group's no more, whatever that means for the group. */
void ctl_group_part(struct ctl_transfer *t);
/* A transfer of a group ends: the group is without it, or over. */
void ctl_group_detach(struct hd_controller *c, struct ctl_transfer *t);
void ctl_group_aggregator_down(struct hd_controller *c, const struct ctl_node *aggregator);
void ctl_slots_switch_down(struct hd_controller *c, const struct ctl_node *node);
/* The replica does not take its copy of a sum. */
void ctl_slots_copy_lost(struct hd_controller *c, const struct ctl_transfer *copy);
void ctl_slots_fini(struct hd_controller *c);
void ctl_groups_fini(struct hd_controller *c);

/* --- ctl_notice.c --- */
/* How much longer than the ageing bound a push counts as having waited, in s, as its worker's time runs out: the less
 * is left the more. 0: it does not. */
double ctl_urgency(const struct hd_controller *c, const struct ctl_transfer *transfer);
/* What the planner is told that it has waited, in s: what the server waits for goes ahead, and what could not go
 * later. */
double ctl_waited(const struct hd_controller *c, const struct ctl_transfer *transfer);
/* By all planning passes. */
uint64_t ctl_drops(const struct hd_controller *c);
/* Seconds until the worker's machine is taken away; INFINITY: no notice of it. */
double ctl_time_left(const struct hd_controller *c, const struct ctl_node *node);
/* Planned so, it arrives when its worker is gone. */
bool ctl_too_late(
	const struct hd_controller *c,
	const struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry
);
void ctl_notice(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_notice *message,
	struct hd_sink *sink
);
/* The node goes: it is not warned any more. */
void ctl_notice_over(struct hd_controller *c, struct ctl_node *node);

#endif
