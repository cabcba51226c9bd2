/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: what the controller core's files share.
 *
 *   hd_controller.c            life of the core, dispatch of messages, timers
 *   hd_controller_registry.c   nodes and their leases
 *   hd_controller_jobs.c       tenants, jobs, which server has which job
 *   hd_controller_request.c    the table of transfers: pending requests and granted ones
 *   hd_controller_round.c      one planning round: input, planner, what of it is granted now
 *   hd_controller_book.c       the books: what of each link is promised from now on
 *   hd_controller_grant.c      grants, drops, voids
 *   hd_controller_report.c     reports into the view; STATE and INFLIGHT after a restart
 *   hd_controller_sample.c     ended transfers, and what ran beside them, into the view
 *   hd_controller_load.c       link monitors' messages into the view
 *   hd_controller_probe.c      packet trains over idle links, and what they measured
 *   hd_controller_table.c      the shell's tables: filters and pages
 *   hd_controller_rows.c       their rows: nodes, jobs, links, transfers, drops
 *   hd_controller_show.c       and: estimates, staleness, plan, settings, counters
 *   hd_controller_stats.c      counters and gauges, by group
 *   hd_controller_command.c    what an operator changes: set, pause, drain, evict
 *
 *   REQUEST --> pending --(round)--> open (granted) --(REPORT, VOID, lease)--> past
 *                  \--(round)--> DROP
 */
#ifndef HD_CONTROLLER_CORE_H
#define HD_CONTROLLER_CORE_H

#include "hd_cc.h"
#include "hd_controller.h"
#include "hd_controller_probe.h"
#include "hd_endpoint.h"
#include "hd_plan.h"
#include "hd_stat_groups.h"
#include "hd_topology.h"
#include "hd_view.h"

#include <sys/queue.h>

/* Limits of this core; each bounds a table or a wait. */
#define CTL_BUCKETS 16384 /* of each hash over transfers; a power of two */
#define CTL_WORKER_PENDING_MAX 256 /* requests of one worker that wait or run */
#define CTL_DROPS_KEPT 256
#define CTL_PAST_KEPT 1024 /* ended transfers remembered for the estimate's "beside" */
#define CTL_SHARE_MIN 0.5 /* least share of a path's capacity to start on: see hd_plan.h */
#define CTL_SAMPLE_GRANTED 0.9 /* of the granted rate: below, the network was the limit ... */
#define CTL_SAMPLE_PACED 1.15 /* ... and above, its own pacing; between, partly */
#define CTL_SAMPLE_PROBE 1.25 /* a sender paces at most at so many times its grant */
#define CTL_SAMPLE_LOWER_NS (2 * HD_MS) /* shorter transfers never lower an estimate */
#define CTL_SAMPLE_WAIT_NS (300 * HD_MS) /* at most, for transfers that overlapped to end */
#define CTL_SETTLE_NS (100 * HD_MS) /* how long a server that registered may take to say STATE */
#define CTL_HORIZON_NS (2 * HD_MS) /* least look-ahead of grants */
#define CTL_REPLAN_MAX_NS (50 * HD_MS) /* the longest time that pending requests go unplanned */
#define CTL_ITEM_NS (4 * HD_US) /* a round's cost for each item, twice over: spaces the rounds */
#define CTL_EAGER_PENDING_MAX 64 /* an idle path plans at once only below this many pending */
#define CTL_STUCK_NS (10 * HD_SECOND) /* a granted transfer is void when it is this late ... */
#define CTL_STUCK_FACTOR 64 /* ... and this many times its planned duration */
#define CTL_CHECK_NS (50 * HD_MS) /* how often slow timers are looked at while any may run */
#define CTL_LINK_LOCAL 0 /* both ends on one host; link l of the topology is l + 1 here */
#define CTL_LOCAL_BYTES_PER_S 1e15 /* what the planner takes it for: nobody waits there */
#define CTL_FIT_STEPS_MAX 256 /* positions that the books try for one transfer */
#define CTL_CC_WEIGHT_MAX 256
/* Of a frame's bytes on a link, what a data chunk of ours carries in their place. */
#define CTL_PAYLOAD_SHARE                                                                          \
	((double)HD_CHUNK_BYTES_DEFAULT / (HD_CHUNK_BYTES_DEFAULT + HD_CHUNK_OVERHEAD_BYTES))
#define CTL_WEIGHT_MAX 1000.0 /* of a job, against 1 */
#define CTL_PROBE_LOAD 0.009 /* of a link at most, in packet trains */
#define CTL_DRAINED_MAX 256 /* hosts drained at once */
#define CTL_DELAYS 1025 /* delays of applied updates that are told apart; the last one: or more */

struct ctl_job;

/* One session's peer. Registered: role and the fields below are set. */
struct ctl_node {
	TAILQ_ENTRY(ctl_node) entry;
	struct hd_session *session;
	uint8_t role; /* enum hd_role; HD_ROLE_NONE until it registers */
	bool doomed; /* its queue overflowed: closed at the end of the call */
	bool draining; /* its host is drained: no new grants to or from it */
	char host[HD_NAME_BYTES_MAX + 1];
	int host_index;
	struct hd_addr data; /* where chunks for it go */
	hd_ns registered;
	/* server */
	uint64_t memory_bytes;
	uint16_t incarnation;
	/* worker */
	struct ctl_job *job;
	uint16_t worker;
	uint32_t tracked; /* its transfers, pending and open */
	uint64_t pushes_decided, pushes_idles; /* the guard: theta drops among its pushes */
	bool last_was_idles;
	struct hd_msg_drop last_drop[2]; /* by direction: repeated for a repeated request */
};
TAILQ_HEAD(ctl_nodes, ctl_node);

struct ctl_tenant {
	char name[HD_NAME_BYTES_MAX + 1];
	uint32_t jobs;
	double weight; /* the greatest of its jobs' */
	double deficit; /* bytes owed; the tenants' sum is 0 while all are busy */
	uint64_t granted_bytes;
};

enum ctl_job_state {
	CTL_JOB_WAITING, /* no server */
	CTL_JOB_SETTLING, /* the server is there; STATE or INFLIGHT may still come */
	CTL_JOB_READY
};

/* Delays of a job's applied updates, as reported. */
struct ctl_staleness {
	uint64_t count;
	double sum, squares;
	uint32_t max;
	uint64_t delays[CTL_DELAYS];
};

struct ctl_job {
	uint32_t id;
	char tenant_name[HD_NAME_BYTES_MAX + 1];
	char name[HD_NAME_BYTES_MAX + 1];
	struct ctl_tenant *tenant; /* NULL until a worker registered: known from STATE only */
	double weight;
	uint64_t model_bytes;
	uint32_t tau_max;
	uint8_t staleness_rule;
	float staleness_c;
	enum ctl_job_state state;
	hd_ns settled_at; /* SETTLING: READY at this time at the latest */
	uint32_t inflight_expected; /* INFLIGHT messages still to come */
	struct ctl_node *server;
	char server_host[HD_NAME_BYTES_MAX + 1]; /* it waits for this host's server; "" = any */
	hd_version version; /* newest commit reported */
	hd_version newest; /* the same, kept while there is no server */
	uint64_t position; /* last one given out */
	uint32_t open_pushes; /* granted, neither reported nor void */
	uint32_t pending, open;
	uint32_t worker_count;
	struct ctl_node **workers; /* [HD_WORKERS_MAX] by rank */
	uint64_t granted, applied, dropped, failed, voided, granted_bytes;
	uint64_t pulls_granted, pulls_delivered;
	uint64_t dropped_for[HD_REASON_COUNT];
	struct ctl_staleness staleness;
	/* the operator's */
	bool paused;
	uint32_t tau_set; /* stricter than tau_max; 0: none */
	double weight_set; /* 0: none */
};

struct ctl_span {
	hd_ns start, end;
	double rate; /* bytes a second */
};

enum ctl_transfer_state {
	CTL_PENDING,
	CTL_OPEN
};

/* A decision and the numbers that it was made with, for the shell and the DROP message. */
struct ctl_why {
	struct hd_plan_why plan;
	hd_ns decided;
	uint32_t runner_up_round;
	uint16_t runner_up_worker;
};

struct ctl_transfer {
	TAILQ_ENTRY(ctl_transfer) entry; /* pending: by arrival; open: by grant */
	LIST_ENTRY(ctl_transfer) by_key, by_token;
	enum ctl_transfer_state state;
	uint64_t id; /* by arrival; ties in the plan go to the older */
	struct ctl_job *job;
	uint16_t worker;
	uint32_t round;
	uint8_t direction, attempt, dtype;
	bool conditional;
	uint64_t bytes;
	float norm;
	hd_version base, have;
	hd_ns asked;
	uint8_t path_count; /* 0: not known yet (no server, or rebuilt before its worker came) */
	uint32_t path[HD_PLAN_PATH_MAX];
	uint32_t item; /* its place in the input of round `item_round` */
	uint64_t item_round;
	/* from the grant on */
	uint64_t token, position, after;
	uint64_t planned; /* version counter that its commit should make */
	float weight, cc_weight;
	hd_ns granted, start, finish; /* as granted */
	struct hd_segs segments; /* relative to `granted` */
	struct ctl_why why;
	bool tracked; /* counted in its worker's node */
	bool restored; /* known from INFLIGHT: granted by an earlier life, or directly */
	bool held; /* every byte has arrived; only the commit is awaited */
	uint8_t book_count;
	struct ctl_span book[HD_SEGMENTS_MAX]; /* what it still takes, as seen now */
	hd_ns overrun_since; /* 0: on time */
};
TAILQ_HEAD(ctl_transfers, ctl_transfer);
LIST_HEAD(ctl_bucket, ctl_transfer);

/* A decision against an update, kept for the shell. */
struct ctl_drop {
	hd_ns at;
	uint32_t job;
	uint16_t worker;
	uint8_t direction, attempt, reason;
	uint32_t round;
	uint64_t bytes;
	hd_version base;
	struct ctl_why why;
};

struct ctl_past {
	hd_ns start, end;
	double rate; /* bytes a second */
	uint64_t token, bytes;
	double limited; /* share of its time that its own pacing was the limit */
	uint8_t path_count;
	uint32_t path[HD_PLAN_PATH_MAX];
};

#define CTL_COUNTERS(C)                                                                            \
	C(registered, "nodes", "registrations accepted")                                           \
	C(register_refused, "messages", "registrations refused, with the reason in words")         \
	C(leases_ended, "nodes", "registered nodes that went silent or closed")                    \
	C(requests, "messages", "requests taken into the table")                                   \
	C(requests_repeated, "messages", "requests already known: ignored or answered again")      \
	C(requests_stale, "messages", "requests of an attempt older than the known one")           \
	C(requests_refused, "messages", "requests refused: size, type, limits")                    \
	C(cancels, "messages", "requests and grants withdrawn by their worker")                    \
	C(grants, "transfers", "transfers granted")                                                \
	C(granted_bytes, "bytes", "bytes of granted transfers")                                    \
	C(drops_bound, "updates", "dropped: their delay would break tau_max")                      \
	C(drops_idles, "updates", "dropped: their place would idle the network (theta)")           \
	C(voids, "transfers", "granted transfers given up")                                        \
	C(stuck, "transfers", "of these: never reported, long after their planned end")            \
	C(reports, "messages", "reports of transfers that were open")                              \
	C(reports_unknown, "messages", "reports of transfers that were not (direct or void)")      \
	C(rolled_back,                                                                             \
	  "commits",                                                                               \
	  "lost by restarts of servers: reported once, not in the checkpoint")                     \
	C(restored, "transfers", "open transfers learnt from servers after a restart")             \
	C(plans, "rounds", "planning rounds")                                                      \
	C(plan_items, "requests", "requests planned, all rounds together")                         \
	C(plan_errors, "rounds", "rounds that the planner refused")                                \
	C(overruns, "transfers", "transfers later than their reservation")                         \
	C(replaced, "reservations", "moved in the books: late, early, or a lower estimate")        \
	C(samples, "samples", "completed transfers fed to the estimate")                           \
	C(probes, "trains", "packet trains asked for")                                             \
	C(probed, "trains", "of these, reported")                                                  \
	C(loads, "messages", "reports of link monitors taken")                                     \
	C(shows, "messages", "tables asked for by shells")                                         \
	C(commands, "messages", "commands of operators: set, pause, drain, evict")                 \
	C(commands_refused, "messages", "of these, wrong: nothing was changed")                    \
	C(hostile_role, "messages", "messages that their sender's role may not send")              \
	C(hostile_owner, "messages", "messages about another's job or transfer")                   \
	C(hostile_value, "messages", "messages with impossible values")                            \
	C(hostile_kind, "messages", "messages that a controller never receives")                   \
	C(queue_overflow, "nodes", "sessions closed because their queue was full")

struct ctl_counters {
#define CTL_COUNTER_FIELD(name, unit, help) uint64_t name;
	CTL_COUNTERS(CTL_COUNTER_FIELD)
#undef CTL_COUNTER_FIELD
};

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
	struct hd_plan_tenant tenants[HD_JOBS_MAX];
	struct hd_plan_job jobs[HD_JOBS_MAX];
	bool tenant_busy[HD_JOBS_MAX];
	uint32_t job_last[HD_JOBS_MAX]; /* last entry of a job that is granted */
	struct hd_plan_input input; /* of the latest round */
	hd_ns planned_at;
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
	uint32_t tenant_count, job_count;
	struct ctl_tenant *tenants[HD_JOBS_MAX];
	struct ctl_job *jobs[HD_JOBS_MAX];
	uint64_t next_id;
	uint32_t pending_count, open_count;
	struct ctl_transfers pending, open;
	struct ctl_bucket *by_key, *by_token; /* [CTL_BUCKETS] */
	uint32_t *link_use; /* pending and open transfers on each link */
	hd_ns plan_at, last_plan, check_at, probe_at;
	uint32_t probe_count, probe_turn;
	struct ctl_probe probes[CTL_PROBES_KEPT]; /* a ring */
	const char *plan_error; /* the planner's last refusal */
	bool paused; /* by the operator: nothing is granted */
	double probe_load; /* share of a link that packet trains may take; 0: none are sent */
	uint32_t drained_count;
	char drained[CTL_DRAINED_MAX][HD_NAME_BYTES_MAX + 1];
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
uint32_t ctl_link_count(const struct hd_controller *c);
const char *ctl_link_name(const struct hd_controller *c, uint32_t link);

/* Hands a record to the journal, if there is one. */
void ctl_record(const struct hd_controller *c, struct hd_record record);

/* --- hd_controller_registry.c --------------------------------------------------------------- */
void ctl_register(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *message,
	struct hd_sink *sink
);
/* Everything that hangs on a registered node ends; the node itself stays (role NONE). */
void ctl_node_down(
	struct hd_controller *c,
	struct ctl_node *node,
	enum hd_reason reason,
	struct hd_sink *sink
);

/* --- hd_controller_jobs.c ------------------------------------------------------------------- */
/* Finds or makes; NULL at the limit. */
struct ctl_tenant *ctl_tenant_get(struct hd_controller *c, const char *name);
void ctl_tenant_weigh(const struct hd_controller *c, struct ctl_tenant *tenant);
struct ctl_job *ctl_job_find(const struct hd_controller *c, uint32_t id);
/* Finds or makes; NULL at the limit. */
struct ctl_job *ctl_job_get(struct hd_controller *c, uint32_t id);
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
/* Puts the job on this server, which said that it has it. */
void ctl_job_claim(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_node *server,
	struct hd_sink *sink
);
void ctl_job_lose_server(
	struct hd_controller *c,
	struct ctl_job *job,
	enum hd_reason reason,
	struct hd_sink *sink
);
void ctl_job_ready(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
void ctl_job_forget(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* Jobs whose settling time is over; restart grace. Returns when to look again. */
hd_ns ctl_registry_check(struct hd_controller *c, struct hd_sink *sink);
void ctl_registry_fini(struct hd_controller *c);

/* --- hd_controller_request.c ---------------------------------------------------------------- */
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
void ctl_transfer_open(struct hd_controller *c, struct ctl_transfer *transfer, uint64_t token);
/* Works out the path once both ends are known; false while they are not. */
bool ctl_transfer_route(struct hd_controller *c, struct ctl_transfer *transfer);
void ctl_transfer_unroute(struct hd_controller *c, struct ctl_transfer *transfer);
/* Out of every table, and freed. */
void ctl_transfer_free(struct hd_controller *c, struct ctl_transfer *transfer);

/* --- hd_controller_round.c ------------------------------------------------------------------ */
void ctl_round(struct hd_controller *c, struct hd_sink *sink);
int ctl_scratch_links(struct hd_controller *c);
void ctl_scratch_fini(struct ctl_scratch *scratch);
/* The bound that is planned with, and the weight between tenants. */
uint32_t ctl_job_tau(const struct ctl_job *job);
double ctl_job_weight(const struct ctl_job *job);
/* The version counter that everything granted will have made of the job. */
uint64_t ctl_job_v_init(const struct ctl_job *job);
hd_ns ctl_interval(const struct hd_controller *c);

/* --- hd_controller_book.c ------------------------------------------------------------------- */
/* Brings every open transfer's reservation up to date and fills scratch.busy. 0 or -ENOMEM. */
int ctl_book_project(struct hd_controller *c);
/* What planning takes a link for: its share at the weight of the transfers that want it now, bytes a second. */
double ctl_estimate_bytes(const struct hd_controller *c, uint32_t link);
/* Bytes that [from, to) holds of the spans. */
double ctl_span_bytes(const struct ctl_span *spans, uint32_t count, hd_ns from, hd_ns to);

/* --- hd_controller_grant.c ------------------------------------------------------------------ */
/* Grants one entry of the latest plan. 0, or -errno: then it stays pending. */
int ctl_grant(
	struct hd_controller *c,
	struct ctl_transfer *transfer,
	const struct hd_plan_entry *entry,
	uint64_t after,
	uint32_t behind,
	struct hd_sink *sink
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
void ctl_log_drop(struct hd_controller *c, const struct ctl_drop *drop);
/* Open transfers that are hopelessly late. */
void ctl_void_stuck(struct hd_controller *c, struct hd_sink *sink);

/* --- hd_controller_sample.c ------------------------------------------------------------------ */
/* Remembers an ended transfer. */
void ctl_sample_add(
	struct hd_controller *c,
	const struct ctl_transfer *t,
	const struct hd_msg_report *message
);
/* Hands the view every sample whose companions have ended too. */
void ctl_samples_take(struct hd_controller *c, struct hd_sink *sink);

/* --- hd_controller_load.c --------------------------------------------- */
void ctl_load(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_load *message,
	struct hd_sink *sink
);
/* The flows that ours stand for on a link: transfers that want it, >= 1. */
double ctl_link_weight(const struct hd_controller *c, uint32_t link);

/* --- hd_controller_report.c ----------------------------------------------------------------- */
void ctl_report(
	struct hd_controller *c,
	struct ctl_node *node,
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

/* --- hd_controller_command.c ---------------------------------------------------------------- */
void ctl_command(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_command *message,
	struct hd_sink *sink
);
bool ctl_host_drained(const struct hd_controller *c, const char *host);

/* What `set` can change. */
struct ctl_setting {
	const char *name, *unit, *help;
	double least, most;
	bool whole, off, of_a_job;
	void (*read)(const struct hd_controller *c, char *text, size_t bytes);
	void (*apply)(struct hd_controller *c, struct ctl_job *job, double value); /* off: 0 */
};
const struct ctl_setting *ctl_setting(uint64_t index); /* NULL past the last */

/* --- hd_controller_stats.c ------------------------------------------------------------------ */
extern const struct hd_stat_group ctl_counter_group, ctl_gauge_group, ctl_ended_group;
extern const struct hd_stat_group ctl_job_group, ctl_link_group;
/* Without jobs and links. */
void ctl_stats_own(const struct hd_controller *c, struct hd_stats *stats);

/* --- hd_controller_rows.c -------------------------------------------------------------------- */
struct ctl_link_use {
	uint32_t running, queued, pending;
	double reserved_bps;
};
/* What is on each link now, [ctl_link_count(c)], malloc'ed; NULL: no memory. */
struct ctl_link_use *ctl_links_use(const struct hd_controller *c);

/* --- hd_controller_table.c ------------------------------------------------------------------ */
void ctl_show(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_show *message,
	struct hd_sink *sink
);

#endif
