/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: what all rooms use: messages to nodes, lookups, and tables that several rooms read. */
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

/* A node that is silent for this long is lost. The time is a share of the detection time, as it is at nodes. */
static inline hd_ns ctl_silence(const struct hd_controller *c) {
	return (uint64_t)c->config.detection_us * HD_SILENCE_US / HD_DETECTION_US * HD_US;
}

/* The name that shells show; it does not distinguish transfers from and to aggregators. */
static inline const char *ctl_direction_name(uint8_t direction) {
	if (direction == HD_COPY)
		return "replicate";
	return direction == HD_PUSH ? "push" : "pull";
}

/* --- ctl_bus.c --- */
void ctl_event(struct hd_sink *sink, struct hd_event event);
/* The same with the names of a node and of a job (may be NULL) in the text. */
void ctl_event_of(
	const struct ctl_node *node,
	const struct ctl_job *job,
	struct hd_event event,
	struct hd_sink *sink
);
uint32_t ctl_link_count(const struct hd_controller *c);
const char *ctl_link_name(const struct hd_controller *c, uint32_t link);
/* Sends reliably. When the node's queue is full, the node's session is closed. 0 or -errno. */
int ctl_send(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_message *message,
	struct hd_sink *sink
);
/* Answers with an error and a text. */
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
/* Slow timers are checked at this time at the latest. */
void ctl_check_by(struct hd_controller *c, hd_ns at);
/* Writes a change of a node ("up", "down", ...) to the journal. */
void ctl_record_node(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const char *what,
	enum hd_reason reason
);
/* State that outlives this controller has changed: ops->keep gets it at the end of the call. */
void ctl_kept_changed(struct hd_controller *c);
/* The same within a second: for a job that came or went, of which the newest state is not needed at once. */
void ctl_kept_soon(struct hd_controller *c);
/* The roster has to be sent to some node, although it has not changed. */
void ctl_roster_due(struct hd_controller *c, struct ctl_job *job);

/* --- ctl_find.c --- */
struct ctl_job *ctl_job_find(const struct hd_controller *c, uint32_t id);
uint32_t ctl_job_index(const struct hd_controller *c, const struct ctl_job *job);
struct ctl_node *ctl_worker(const struct ctl_job *job, uint16_t worker);
/* Pushes that were granted and have not ended. */
uint32_t ctl_job_running(const struct ctl_job *job);
/* The version counter that the job will have when all granted pushes are committed. */
uint64_t ctl_job_v_init(const struct ctl_job *job);
/* The bound that the planner uses, and the weight between tenants. */
uint32_t ctl_job_tau(const struct ctl_job *job);
double ctl_job_weight(const struct ctl_job *job);
/* The job has no worker and no transfer that waits or runs. */
bool ctl_job_is_idle(const struct ctl_job *job);
uint32_t ctl_jobs_idle(const struct hd_controller *c);
hd_ns ctl_job_idle_since(const struct hd_controller *c, const struct ctl_job *job);
bool ctl_host_drained(const struct hd_controller *c, const char *host);
/* Indices into by_token and by_key. */
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
/* The ends of a transfer; NULL: not registered. */
struct ctl_node *ctl_sender(const struct ctl_transfer *transfer);
struct ctl_node *ctl_receiver(const struct ctl_transfer *transfer);
/* Why the operator or the job's state delays the transfer: "paused", "draining", "no-server", "settling"; "" when it
 * may be planned. */
const char *ctl_waits_for(const struct hd_controller *c, const struct ctl_transfer *transfer);

/* --- ctl_aggregators.c --- */
/* Whether groups may be given to this node. */
bool ctl_may_add(const struct ctl_node *node);
/* The same, and it is no worker's: an aggregator for all jobs, and for groups of every kind. */
bool ctl_stands(const struct ctl_node *node);
bool ctl_any_stands(const struct hd_controller *c);
/* It runs beside a worker of this job, which is registered: it adds all-reduces of the job. */
bool ctl_is_hosted_for(const struct ctl_node *node, const struct ctl_job *job);
/* Bytes that rounds in progress hold at an aggregator. */
uint64_t ctl_reduce_held_bytes(const struct hd_controller *c, const struct ctl_node *aggregator);
/* One that can add an all-reduce of this job, of either kind. */
bool ctl_reduce_any_aggregator(const struct hd_controller *c, const struct ctl_job *job);
/* Groups may go through this node: an aggregator, or a switch. */
bool ctl_may_group(const struct hd_controller *c, const struct ctl_node *node);
/* Whether there are such nodes and the operator permits their use. */
bool ctl_groups_possible(const struct hd_controller *c);
/* Bytes of an aggregator's memory that open groups and all-reduces leave free. */
uint64_t ctl_memory_left(const struct hd_controller *c, const struct ctl_node *aggregator);
/* The aggregator refused or gave up a group: it gets no group of this job for a while. Other jobs have their own shares
 * of its memory. */
void ctl_group_refused(
	struct hd_controller *c,
	struct ctl_node *aggregator,
	const struct ctl_job *job,
	uint8_t reason
);
/* A lease of this switch failed: it gets no groups for a while. */
void ctl_switch_rests(const struct hd_controller *c, struct ctl_node *node);
/* Whether the node gets no groups of the job at this time, for one of these two reasons. */
bool ctl_group_refuses(
	const struct hd_controller *c,
	const struct ctl_node *aggregator,
	const struct ctl_job *job
);

/* Bytes of an aggregator's memory that a group of `count` such updates, or a relayed model, takes (hd_reduce.h). */
uint64_t
ctl_group_memory(const struct hd_controller *c, const struct ctl_transfer *t, uint32_t count);
/* The same for a given number of bytes. */
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
/* The job's leases for groups of pushes at all switches, with those whose end the switch has yet to be told. */
void ctl_slots_of(
	const struct hd_controller *c,
	const struct ctl_job *job,
	uint32_t *leases,
	uint32_t *slots
);
/* A merged sum has arrived: learns how much its members had in common. */
void ctl_group_learn(struct ctl_transfer *sum, const struct hd_msg_report *report);
/* Records the end of a group: as planned (NONE) or with a reason. */
void ctl_group_ended(struct hd_controller *c, const struct ctl_group *group, enum hd_reason reason);
/* The group has ended: the switch is told at the next check. */
void ctl_slots_end(struct hd_controller *c, struct ctl_group *group);
void ctl_group_free(struct hd_controller *c, struct ctl_group *group);
/* Marks the group as failed; ctl_groups_settle() voids its transfers. */
void ctl_group_fail(struct hd_controller *c, struct ctl_group *group, enum hd_reason reason);
/* Makes a transfer a member of the group. */
void ctl_group_attach(struct ctl_group *group, uint32_t slot, struct ctl_transfer *t);
/* Removes a transfer from its group; the group does not change otherwise. */
void ctl_group_part(struct ctl_transfer *t);
/* A transfer of a group ends: the group goes on without it, or ends. */
void ctl_group_detach(struct hd_controller *c, struct ctl_transfer *t);
void ctl_group_aggregator_down(struct hd_controller *c, const struct ctl_node *aggregator);
void ctl_slots_switch_down(struct hd_controller *c, const struct ctl_node *node);
/* The replica does not accept its copy of a sum. */
void ctl_slots_copy_lost(struct hd_controller *c, const struct ctl_transfer *copy);
void ctl_slots_fini(struct hd_controller *c);
void ctl_groups_fini(struct hd_controller *c);

/* --- ctl_notice.c --- */
/* Seconds beyond the ageing bound that a push seems to have waited when its worker will be preempted: the less time the
 * worker has left, the more. 0: no notice. */
double ctl_urgency(const struct hd_controller *c, const struct ctl_transfer *transfer);
/* The waiting time in s that the planner gets. It is above the ageing bound for a transfer that the server waits for,
 * and for one that could not be sent later. */
double ctl_waited(const struct hd_controller *c, const struct ctl_transfer *transfer);
/* Dropped updates in all planning passes. */
uint64_t ctl_drops(const struct hd_controller *c);
/* Seconds until the worker's machine is taken away; INFINITY: no notice of it. */
double ctl_time_left(const struct hd_controller *c, const struct ctl_node *node);
/* Whether the transfer, planned so, arrives after its worker is gone. */
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
/* The node is gone: its notice of preemption ends. */
void ctl_notice_over(struct hd_controller *c, struct ctl_node *node);

#endif
