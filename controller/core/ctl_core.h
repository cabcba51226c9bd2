/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: what the controller core's files share.
 *
 *   hd_controller.c            life of the core, dispatch of messages, timers
 *   ctl_registry.c   nodes and their leases
 *   ctl_jobs.c       tenants, jobs, which server has which job
 *   ctl_request.c    the table of transfers: pending requests and granted ones
 *   ctl_round.c      one planning round: input, planner, what of it is granted now
 *   ctl_fair.c       what tenants are owed
 *   ctl_book.c       the books: what of each link is promised from now on
 *   ctl_grant.c      grants, drops, voids
 *   ctl_notice.c     workers that will be preempted
 *   ctl_roster.c     who takes part in a job, said to all
 *   ctl_elastic*.c   how many workers a job should have
 *   ctl_group.c      groups: sums of updates, relayed models
 *   ctl_group_plan.c which of a plan go over an aggregator
 *   ctl_group_slots.c sums that a switch makes, in slots leased for the grant
 *   ctl_company.c    whether what is due waits for others to go with it
 *   ctl_group_say.c  what aggregators and servers hear of them
 *   ctl_group_show.c what operators see of them
 *   ctl_reduce*.c    all-reduces: who has asked, shards, ends
 *   ctl_form.c       when its workers are together
 *   ctl_shards.c     their values over the aggregators
 *   ctl_lease*.c     leases of a switch's slots, through which they go
 *   ctl_credit.c     small pushes and pulls that need not ask
 *   ctl_report.c     reports into the view; STATE and INFLIGHT after a restart
 *   ctl_replica.c    a job's replica: who keeps it, promotion
 *   ctl_copy.c       copies of updates, to replicas
 *   ctl_sample.c     ended transfers, and what ran beside them, into the view
 *   ctl_load.c       link monitors' messages into the view
 *   ctl_probe.c      packet trains over idle links, and what they measured
 *   ctl_table.c      the shell's tables: filters and pages
 *   ctl_rows.c       their rows: nodes, jobs, links, transfers, drops
 *   ctl_show.c       and: estimates, staleness, plan, settings, counters
 *   ctl_stats.c      counters and gauges, by group
 *   ctl_command.c    what an operator changes: set, pause, drain, evict
 *   ctl_setting.c    what `set` can change
 *   ctl_kept.c       what of it, and of where jobs live, outlives the controller
 *
 *   REQUEST --> pending --(round)--> open (granted) --(REPORT, VOID, lease)--> past
 *                  \--(round)--> DROP
 */
#ifndef CTL_CORE_H
#define CTL_CORE_H

#include "ctl_counters.h"
#include "ctl_elastic.h"
#include "ctl_group.h"
#include "ctl_lease.h"
#include "ctl_probe.h"
#include "ctl_reduce.h"
#include "ctl_types.h"
#include "hd_controller.h"
#include "hd_endpoint.h"
#include "hd_plan.h"
#include "hd_seal.h"
#include "hd_stat_groups.h"
#include "hd_topology.h"
#include "hd_view.h"

/* The planner's input and what belongs to it, kept from round to round. */
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
	uint32_t *link_behind; /* [link_capacity] counts while going backwards through a plan */
	double *capacity; /* [link_capacity] bytes a second */
	double *flow; /* [link_capacity] the same, for one transfer */
	bool *link_gathers; /* [link_capacity] transfers of many hosts pass it */
	struct hd_plan_tenant tenants[HD_JOBS_MAX];
	struct hd_plan_job jobs[HD_JOBS_MAX];
	bool tenant_busy[HD_JOBS_MAX];
	bool tenant_turns[HD_JOBS_MAX]; /* it has pushes under way, and nothing pending */
	uint32_t room[HD_JOBS_MAX]; /* updates that a job's synchronous step may still be sent */
	uint32_t job_last[HD_JOBS_MAX]; /* last entry of a job that is granted */
	struct hd_plan_input input; /* of the latest round */
	hd_ns planned_at;
	double covers_s; /* the latest plan: until all of it is committed */
	/* The latest plan, for the shell; item_transfer is NULL for what has ended since. */
	const struct hd_plan_entry *entries;
	uint32_t entry_count;
	uint64_t round; /* counts the inputs */
};

struct hd_controller {
	struct hd_controller_config config;
	char name[HD_NAME_BYTES_MAX + 1];
	struct hd_endpoint *endpoint;
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
	uint64_t makings; /* of all-reduces */
	hd_ns plan_at, last_plan, check_at, probe_at;
	uint32_t probe_count, probe_turn;
	struct ctl_probe probes[CTL_PROBES_KEPT]; /* a ring */
	const char *plan_error; /* the planner's last refusal */
	uint64_t credit_bytes; /* at most, of a push without asking; 0: all ask */
	bool paused; /* by the operator: nothing is granted */
	struct ctl_kept kept;
	double probe_load; /* share of a link that packet trains may take; 0: none are sent */
	uint32_t drained_count;
	char drained[CTL_DRAINED_MAX][HD_NAME_BYTES_MAX + 1];
	bool aggregation; /* by the operator: transfers may go over aggregators */
	bool switching; /* and all-reduces through switches */
	bool ranked_sums; /* and are added in the order of positions */
	bool spare_server; /* and are grouped so that servers' links carry little, if a tenth later */
	bool groups_failed; /* some have to be settled */
	uint32_t aggregator_count, switch_count; /* registered */
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
	uint64_t sampled; /* of them, handed to the view */
	struct ctl_counters counters;
};

/* --- hd_controller.c ---------------------------------------------------------------------- */
void ctl_event(struct hd_sink *sink, struct hd_event event);
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
/* A round soon (as the interval allows), or at the end of this call. */
static inline bool ctl_transfer_local(const struct ctl_transfer *t) {
	return t->path_count == 1 && t->path[0] == CTL_LINK_LOCAL;
}
void ctl_plan_soon(struct hd_controller *c);
void ctl_plan_now(struct hd_controller *c);
void ctl_check_by(struct hd_controller *c, hd_ns at);
/* Who is silent for this long is gone: a share of the lease, as nodes take it too. */
static inline hd_ns ctl_silence(const struct hd_controller *c) {
	return (uint64_t)c->config.lease_us * HD_SILENCE_US / HD_LEASE_US * HD_US;
}
uint32_t ctl_link_count(const struct hd_controller *c);
const char *ctl_link_name(const struct hd_controller *c, uint32_t link);

/* Hands a record to the journal, if there is one. */
void ctl_record(const struct hd_controller *c, struct hd_record record);

/* --- ctl_registry.c --------------------------------------------------------------- */
/* Another host's living process has the rank that REGISTER asks for: it was refused, for now or for good. */
bool ctl_rank_is_held(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
);
void ctl_register(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *message,
	struct hd_sink *sink
);
/* "up", "down", ...: into the journal. */
void ctl_record_node(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const char *what,
	enum hd_reason reason
);
/* Everything that hangs on a registered node ends; the node itself stays (role NONE). */
void ctl_node_down(
	struct hd_controller *c,
	struct ctl_node *node,
	enum hd_reason reason,
	struct hd_sink *sink
);

/* --- ctl_notice.c ----------------------------------------------------------------- */
void ctl_notice(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_notice *message,
	struct hd_sink *sink
);
/* Seconds until the worker's machine is taken away; INFINITY: no notice of it. */
double ctl_time_left(const struct hd_controller *c, const struct ctl_node *node);
/* How much longer than the ageing bound a push counts as having waited, in s, as its worker's time runs out: the less
 * is left the more. 0: it does not. */
double ctl_urgency(const struct hd_controller *c, const struct ctl_transfer *transfer);
/* What the planner is told that it has waited, in s: what the server waits for goes ahead, and what could not go
 * later. */
double ctl_waited(const struct hd_controller *c, const struct ctl_transfer *transfer);
/* By all rounds of planning. */
uint64_t ctl_drops(const struct hd_controller *c);
/* Planned so, it arrives when its worker is gone. */
bool ctl_too_late(
	const struct hd_controller *c,
	const struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry
);
/* The node goes: it is not warned any more. */
void ctl_notice_over(struct hd_controller *c, struct ctl_node *node);
/* Those whose time is over are gone. Returns when to look again. */
hd_ns ctl_notice_check(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_roster.c ----------------------------------------------------------------- */
void ctl_roster_set(struct hd_controller *c, struct ctl_job *job, uint16_t rank, bool there);
/* Somebody has to be told, though nothing changed. */
void ctl_roster_due(struct hd_controller *c, struct ctl_job *job);
hd_ns ctl_roster_check(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_fair.c ------------------------------------------------------------------- */
/* A granted byte is owed to every busy tenant by its weight; the one that got it has paid. */
void ctl_tenant_charge(struct hd_controller *c, const struct ctl_transfer *t);
/* Which tenants are busy, as something of theirs waits or runs (one that is idle neither saves nor owes), and which
 * will ask when what they have under way is through. */
void ctl_tenants_mark(struct hd_controller *c);
/* Whether it should be granted no sooner than it must: to another tenant more is owed, which has nothing pending but
 * will when what it has under way is through. */
bool ctl_tenant_may_wait(const struct hd_controller *c, const struct ctl_transfer *t);

/* --- ctl_jobs.c ------------------------------------------------------------------- */
/* Finds or makes; NULL at the limit. */
struct ctl_tenant *ctl_tenant_get(struct hd_controller *c, const char *name);
void ctl_tenant_weigh(const struct hd_controller *c, struct ctl_tenant *tenant);
struct ctl_job *ctl_job_find(const struct hd_controller *c, uint32_t id);
/* Finds or makes; at the limit an idle one gives way. NULL: all are living, or no memory. */
struct ctl_job *ctl_job_get(struct hd_controller *c, uint32_t id, struct hd_sink *sink);
/* Out of the table; nobody is told. */
void ctl_job_free(struct hd_controller *c, struct ctl_job *job);
uint32_t ctl_job_index(const struct hd_controller *c, const struct ctl_job *job);
struct ctl_node *ctl_worker(const struct ctl_job *job, uint16_t worker);
/* REGISTERED; of a worker with its job, which has a server. */
void ctl_say_registered(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct ctl_job *job,
	struct hd_sink *sink
);
/* Finds the job a server, if it has none and there is one. */
void ctl_job_place(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* Puts the job on this server, which has it, by the word of this generation (0: a new one). */
void ctl_job_claim(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *server,
	uint64_t generation,
	struct hd_sink *sink
);
void ctl_job_lose_server(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
);
void ctl_job_ready(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* Jobs whose settling time is over; restart grace. Returns when to look again. */
hd_ns ctl_registry_check(struct hd_controller *c, struct hd_sink *sink);
void ctl_registry_fini(struct hd_controller *c);

/* --- ctl_request.c ---------------------------------------------------------------- */
void ctl_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *message,
	struct hd_sink *sink
);
void ctl_cancel(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_cancel *message,
	struct hd_sink *sink
);
struct ctl_transfer *ctl_transfer_find(
	const struct hd_controller *c,
	const struct ctl_job *job,
	uint16_t worker,
	uint8_t direction,
	uint32_t round
);
struct ctl_transfer *ctl_transfer_by_token(const struct hd_controller *c, uint64_t token);
/* A pending transfer, in the table. NULL: limit or memory. */
struct ctl_transfer *ctl_transfer_add(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	uint8_t direction,
	uint32_t round
);
/* The name of a transfer of the job. The chunks of one between hosts are sealed, unless the job's workers want it
 * otherwise; a switch on the path adds chunks up, and has no key. */
uint64_t ctl_token(struct hd_controller *c, const struct ctl_job *job, bool between_hosts);
void ctl_transfer_open(struct hd_controller *c, struct ctl_transfer *transfer, uint64_t token);
/* Links of the planner between two hosts: at least 1 (CTL_LINK_LOCAL), or < 0. [HD_PLAN_PATH_MAX] */
int ctl_path(const struct hd_controller *c, int from, int to, uint32_t *links);
/* Gives it another path. */
void ctl_transfer_reroute(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_way *way
);
/* Whose bytes go where; NULL: not there. */
struct ctl_node *ctl_sender(const struct ctl_transfer *transfer);
struct ctl_node *ctl_receiver(const struct ctl_transfer *transfer);
/* Works out the path once both ends are known; false while they are not. */
bool ctl_transfer_route(struct hd_controller *c, struct ctl_transfer *transfer);
void ctl_transfer_unroute(struct hd_controller *c, struct ctl_transfer *transfer);
/* Out of every table, and freed. */
void ctl_transfer_free(struct hd_controller *c, struct ctl_transfer *transfer);

/* --- ctl_round.c ------------------------------------------------------------------ */
void ctl_round(struct hd_controller *c, struct hd_sink *sink);
int ctl_scratch_links(struct hd_controller *c);
void ctl_scratch_fini(struct ctl_scratch *scratch);
/* The bound that is planned with, and the weight between tenants. */
uint32_t ctl_job_tau(const struct ctl_job *job);
double ctl_job_weight(const struct ctl_job *job);
/* The version counter that everything granted will have made of the job. */
uint64_t ctl_job_v_init(const struct ctl_job *job);
hd_ns ctl_interval(const struct hd_controller *c);

/* --- ctl_sync.c ------------------------------------------------------------------- */
/* Before a round: drops the pushes of synchronous jobs whose step has ended. */
void ctl_sync_round(struct hd_controller *c, struct hd_sink *sink);
/* Whether this transfer is planned in this round; asked once for each, in the order of asking. */
bool ctl_sync_takes(struct hd_controller *c, const struct ctl_transfer *t);

/* --- ctl_book.c ------------------------------------------------------------------- */
/* Brings every open transfer's reservation up to date and fills scratch.busy. 0 or -ENOMEM. */
int ctl_book_project(struct hd_controller *c);
/* It could not begin before `at`, and goes on from there as it was to. */
void ctl_book_begins(struct ctl_transfer *t, hd_ns at);
/* What planning takes a link for: its share at the weight of the transfers that want it now, bytes a second. */
double ctl_estimate_bytes(const struct hd_controller *c, uint32_t link);
/* Bytes that [from, to) holds of the spans. */
double ctl_span_bytes(const struct ctl_span *spans, uint32_t count, hd_ns from, hd_ns to);

/* --- ctl_grant.c ------------------------------------------------------------------ */
/* What a grant is given with besides its entry. */
struct ctl_grant_with {
	uint64_t after; /* token of what it waits for; 0: nothing */
	uint32_t behind; /* transfers of ours that wait for it */
};
/* Why a plan dropped an entry. */
enum hd_reason ctl_drop_reason(const struct hd_plan_entry *entry);
/* Grants one entry of the latest plan. 0, or -errno: then it stays pending. */
int ctl_grant(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry,
	const struct ctl_grant_with *with,
	struct hd_sink *sink
);
/* Opens it and counts it; says nothing. */
void ctl_grant_open(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry,
	const struct ctl_grant_with *with,
	struct hd_sink *sink
);
/* The entry's times into the books. */
void ctl_grant_book(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry
);
/* Why the operator or the job's state keeps it waiting: "paused", "draining", "no-server",
 * "settling"; "" when the planner may have it. */
const char *ctl_waits_for(const struct hd_controller *c, const struct ctl_transfer *transfer);
/* Says EXPECT and GRANT of an open transfer (again). */
int ctl_grant_say(struct hd_controller *c, struct ctl_transfer *transfer, struct hd_sink *sink);
void ctl_drop(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* Answers a request that never came into the table. */
void ctl_drop_request(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *request,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* Gives up an open transfer: tells the server, frees it. */
void ctl_void(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* The same of one of a group, which is told of by the group's other ends. */
void ctl_void_quietly(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	enum hd_reason reason,
	struct hd_sink *sink
);
void ctl_log_drop(struct hd_controller *c, const struct ctl_drop *drop);
/* Open transfers that are hopelessly late. */
void ctl_void_stuck(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_credit.c ------------------------------------------------------------------ */
/* A push of this worker (NULL: gone) was applied: its next one may be granted in advance. */
void ctl_credit_next(
	struct hd_controller *c,
	struct ctl_node *worker,
	uint64_t pushed_bytes,
	struct hd_sink *sink
);
/* A worker that registers may ask the server for its first pull, if the model is small. */
void ctl_credit_joins(struct hd_controller *c, struct ctl_node *worker, struct hd_sink *sink);
/* It pulls: it has joined the job, and its first push may be granted in advance. */
void ctl_credit_begins(struct hd_controller *c, struct ctl_node *worker, struct hd_sink *sink);
/* A report about a credit: what only the server knew is known now. False: it was not spent. */
bool ctl_credit_reported(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_msg_report *message
);
/* It leaves the table. */
void ctl_credit_freed(struct ctl_transfer *t);
/* A pull that the server was asked for on a credit has ended. */
void ctl_credit_pulled(
	struct hd_controller *c,
	struct ctl_node *worker,
	const struct hd_msg_report *message,
	struct hd_sink *sink
);
/* Takes back what would not be given any more, after an operator changed something. */
void ctl_credits_review(struct hd_controller *c, struct hd_sink *sink);
/* Takes back the job's unspent credits, for a request that would be dropped for its bound. False: none. */
bool ctl_credits_make_room(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);

/* --- ctl_sample.c ------------------------------------------------------------------ */
/* Remembers an ended transfer. */
void ctl_sample_add(
	struct hd_controller *c,
	const struct ctl_transfer *t,
	const struct hd_msg_report *message
);
/* The same of a shard of an all-reduce: nothing was granted. `beside`: only for the samples of others. */
void ctl_sample_shard(
	struct hd_controller *c,
	const struct ctl_node *from,
	const struct ctl_node *to,
	const struct hd_msg_report *message,
	bool beside
);
/* Hands the view every sample whose companions have ended too. */
void ctl_samples_take(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_load.c --------------------------------------------- */
void ctl_load(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_load *message,
	struct hd_sink *sink
);
/* The flows that ours stand for on a link: transfers that want it, >= 1. */
double ctl_link_weight(const struct hd_controller *c, uint32_t link);

/* --- ctl_report.c ----------------------------------------------------------------- */
void ctl_report(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *message,
	struct hd_sink *sink
);
/* It is held whole: the network is free again, and what it took is a sample. */
void ctl_report_held(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_msg_report *message,
	struct hd_sink *sink
);
void ctl_state(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_state *message,
	struct hd_sink *sink
);
void ctl_inflight(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_inflight *message,
	struct hd_sink *sink
);

/* --- ctl_command.c ---------------------------------------------------------------- */
void ctl_command(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_command *message,
	struct hd_sink *sink
);
bool ctl_host_drained(const struct hd_controller *c, const char *host);

/* --- ctl_setting.c ---------------------------------------------------------------- */
/* What `set` can change. */
struct ctl_setting {
	const char *name, *unit, *help;
	double least, most;
	bool whole, off, of_a_job;
	bool to_tau_max; /* at most the job's */
	bool on; /* the words on (1) and off (0), no number */
	void (*read)(const struct hd_controller *c, char *text, size_t bytes);
	void (*apply)(struct hd_controller *c, struct ctl_job *job, double value); /* off: 0 */
};
const struct ctl_setting *ctl_setting(uint64_t index); /* NULL past the last */

/* --- ctl_kept.c ------------------------------------------------------------------- */
/* Something of what outlives this controller is different now: at the end of the call ops->keep gets it. */
void ctl_kept_changed(struct hd_controller *c);
/* The same within a second: a job that came or went, of which nobody relies on the newest word. */
void ctl_kept_soon(struct hd_controller *c);
void ctl_keep(struct hd_controller *c);
/* An operator set this one, which is not of a job. */
void ctl_kept_setting(struct hd_controller *c, const struct ctl_setting *setting, double value);

/* --- ctl_stats.c ------------------------------------------------------------------ */
extern const struct hd_stat_group ctl_counter_group, ctl_gauge_group, ctl_ended_group;
extern const struct hd_stat_group ctl_job_group, ctl_lease_group, ctl_link_group;
/* Without jobs, leases and links. */
void ctl_stats_own(const struct hd_controller *c, struct hd_stats *stats);

/* --- ctl_rows.c -------------------------------------------------------------------- */
struct ctl_link_use {
	uint32_t running, queued, pending;
	double reserved_bps;
};
/* What is on each link now, [ctl_link_count(c)], malloc'ed; NULL: no memory. */
struct ctl_link_use *ctl_links_use(const struct hd_controller *c);

/* --- ctl_table.c ------------------------------------------------------------------ */
void ctl_show(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_show *message,
	struct hd_sink *sink
);

#endif
