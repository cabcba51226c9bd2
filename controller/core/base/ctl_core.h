/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: the core's tables, all in one place. Rooms, from the top; includes point down.
 *
 *   core/             hd_controller.c: packets and timers in, dispatch, the end of every call; the shell's tables
 *   commands/ state/  operators' commands; state that outlives this controller
 *   core/registry/    nodes, jobs, which server has which job, how jobs end
 *   transfer/         requests, planning passes, credits, reports, how transfers end
 *   allreduce/ group/ all-reduces; transfers that go over an aggregator
 *   slots/ replica/   leases of a switch's slots; copies that go to replicas
 *   allreduce/base/   the table of all-reduces, their shards
 *   transfer/base/    the table of transfers, grants, the reservation table
 *   estimate/ elastic/ capacities of links; the number of workers of a job
 *   dataplane/        packet counters of nodes
 *   core/base/        messages to nodes, lookups, the table of groups
 *
 *   REQUEST --> pending --(pass)---> open (granted) --(REPORT, VOID, gone)--> past
 *                  \--(pass)---> DROP
 */
#ifndef CTL_CORE_H
#define CTL_CORE_H

#include "ctl_counters.h"
#include "ctl_group.h"
#include "ctl_job.h"
#include "ctl_lease.h"
#include "ctl_node.h"
#include "ctl_pair.h"
#include "ctl_probe.h"
#include "ctl_reduce.h"
#include "ctl_transfer.h"
#include "hd_admission.h"
#include "hd_controller.h"
#include "hd_endpoint.h"
#include "hd_histogram.h"
#include "hd_plan.h"
#include "hd_seal.h"
#include "hd_stat_groups.h"
#include "hd_topology.h"
#include "hd_view.h"

/* Settings of operators that belong to no job, and whether the state directory must be written. */
struct ctl_kept {
	bool changed;
	hd_ns due; /* the time to write a less urgent change, with all that come until then */
	uint32_t set; /* bit i: an operator has set setting i */
	double value[CTL_SETTINGS_MAX];
	char log_level[16];
};

/* The planner's input and its tables, kept from pass to pass. */
struct ctl_scratch {
	uint32_t item_capacity, busy_capacity, link_capacity;
	struct hd_plan_item *items;
	struct ctl_transfer **item_transfer;
	struct ctl_link_probe *link_probe; /* [link_capacity] */
	bool *grant; /* [item_capacity] by entry */
	uint32_t *behind; /* [item_capacity] by entry: transfers of ours queued behind it */
	struct hd_plan_busy *busy;
	uint32_t *busy_next; /* [busy_capacity] next one on the same link */
	uint32_t busy_count;
	uint32_t *link_busy; /* [link_capacity] first busy span, HD_PLAN_NONE */
	uint32_t *link_queued; /* [link_capacity] granted, not started */
	uint32_t *link_behind; /* [link_capacity] transfers behind, counted from a plan's end */
	double *capacity; /* [link_capacity] bytes a second */
	double *flow; /* [link_capacity] the same, for one transfer */
	bool *link_gathers; /* [link_capacity] transfers of many hosts pass it */
	struct hd_plan_tenant tenants[HD_JOBS_MAX];
	struct hd_plan_job jobs[HD_JOBS_MAX];
	bool tenant_busy[HD_JOBS_MAX];
	bool tenant_turns[HD_JOBS_MAX]; /* it has pushes in flight, and none pending */
	uint32_t room[HD_JOBS_MAX]; /* updates that a job's synchronous step still takes */
	uint32_t job_last[HD_JOBS_MAX]; /* last entry of a job that is granted */
	struct hd_plan_input input; /* of the latest pass */
	hd_ns planned_at;
	double covers_s; /* of the latest plan: time until all of it is committed */
	/* The latest plan, for the shell; item_transfer is NULL for what has ended since. */
	const struct hd_plan_entry *entries;
	uint32_t entry_count;
	uint64_t pass; /* counts the inputs */
};

struct hd_controller {
	struct hd_controller_config config;
	char name[HD_NAME_BYTES_MAX + 1];
	struct hd_endpoint *endpoint;
	struct hd_admission admission; /* of workers */
	struct hd_entropy entropy;
	struct hd_view *view;
	struct hd_plan *plan;
	hd_ns now, started;
	bool clock_seen;
	struct ctl_nodes nodes;
	uint32_t node_count, doomed_count;
	uint32_t noticed; /* workers that will be preempted */
	uint32_t tenant_count, job_count;
	struct ctl_tenant *tenants[HD_JOBS_MAX];
	struct ctl_job *jobs[HD_JOBS_MAX];
	uint32_t ended_count;
	struct ctl_ended ended[HD_ENDED_MAX]; /* oldest first */
	uint64_t ended_dropped[HD_REASON_COUNT]; /* of jobs that have ended */
	uint64_t next_id;
	uint32_t pending_count, open_count;
	struct ctl_transfers pending, open;
	struct ctl_bucket *by_key, *by_token; /* [CTL_BUCKETS] */
	uint32_t *link_use; /* pending and open transfers on each link */
	uint32_t *link_copies; /* of these, for replicas */
	uint64_t generations; /* of replicas, given out so far */
	uint64_t sum_ids; /* counts attempts of all-reduces */
	hd_ns plan_at, last_plan, check_at, probe_at;
	uint32_t probe_count, probe_turn;
	struct ctl_probe probes[CTL_PROBES_KEPT]; /* a ring */
	const char *plan_error; /* the planner's last refusal */
	uint64_t credit_bytes; /* the largest push that may be sent on a credit; 0: none */
	uint64_t inline_bytes; /* the longest buffer of a short collective; 0: none is short */
	uint64_t inline_held; /* bytes of their values and results, here */
	bool paused; /* by the operator: nothing is granted */
	struct ctl_kept kept;
	double probe_load; /* share of a link that packet trains may take; 0: none are sent */
	uint32_t drained_count;
	char drained[CTL_DRAINED_MAX][HD_NAME_BYTES_MAX + 1];
	bool aggregation; /* set by the operator: transfers may go through aggregators */
	bool switching; /* the same: all-reduces may go through switches */
	bool ranked_sums; /* the same: sums are added in the order of positions */
	bool spare_server; /* the same: groups spare servers' links, if at most a tenth later */
	bool groups_failed; /* some groups have to be settled */
	uint32_t aggregator_count, switch_count; /* registered */
	uint32_t hosted_count; /* of the aggregators: those of workers */
	struct ctl_leases leases; /* of switches' slots */
	struct ctl_slots_overs slots_over; /* of groups that have ended */
	uint32_t group_count, group_number;
	struct ctl_groups groups; /* open */
	struct ctl_grouping grouping;
	struct ctl_scratch scratch;
	struct ctl_drop drops[CTL_DROPS_KEPT];
	uint64_t drop_count;
	struct ctl_past past[CTL_PAST_KEPT];
	uint64_t past_count;
	uint64_t sampled; /* of these, handed to the view */
	struct ctl_counters counters;
	struct hd_histogram grant_wait[CTL_DIRECTIONS]; /* from the request on; by direction */
	struct ctl_dataplane dataplane;
};

#endif
