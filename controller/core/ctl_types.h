/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: what the controller core knows of nodes, tenants, jobs, transfers, and its
 * limits. */
#ifndef CTL_TYPES_H
#define CTL_TYPES_H

#include "ctl_replica.h"
#include "hd_cc.h"
#include "hd_endpoint.h"
#include "hd_plan.h"
#include "hd_roster.h"

#include <sys/queue.h>

/* Limits of this core; each bounds a table or a wait. */
#define CTL_BUCKETS 16384 /* of each hash over transfers; a power of two */
#define CTL_WORKER_PENDING_MAX 256 /* requests of one worker that wait or run */
#define CTL_DROPS_KEPT 256
#define CTL_PASSAGES_KEPT 8 /* rounds of a job through slots, for what others had beside them */
#define CTL_PAST_KEPT 1024 /* ended transfers remembered for the estimate's "beside" */
#define CTL_SHARE_MIN 0.5 /* least share of a path's capacity to start on: see hd_plan.h */
#define CTL_SAMPLE_GRANTED 0.9 /* of the granted rate: below, the network was the limit ... */
#define CTL_SAMPLE_PACED 1.15 /* ... and above, its own pacing; between, partly */
#define CTL_SAMPLE_PROBE 1.25 /* a sender paces at most at so many times its grant */
#define CTL_SAMPLE_FASTEST 1e15 /* bytes/s: as fast as can be */
#define CTL_SAMPLE_LATE 0.04 /* of a transfer's time: reports of others may be so late */
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
#define CTL_CREDIT_TAU 2 /* credits need a bound of so many times the workers */
#define CTL_CREDIT_REST_NS HD_SECOND /* no new ones after they stood in the way of a request */
/* Of a frame's bytes on a link, what a data chunk of ours carries in their place. */
#define CTL_PAYLOAD_SHARE                                                                          \
	((double)HD_CHUNK_BYTES_DEFAULT / (HD_CHUNK_BYTES_DEFAULT + HD_CHUNK_OVERHEAD_BYTES))
#define CTL_WEIGHT_MAX 1000.0 /* of a job, against 1 */
#define CTL_PROBE_LOAD 0.009 /* of a link at most, in packet trains */
#define CTL_WEIGHT_MIN 1e-3
#define CTL_SETTINGS_MAX 16
#define CTL_KEEP_SOON_NS HD_SECOND /* jobs that come and go are told of together */
#define CTL_HOSTS_GONE_MAX 1024 /* of a star: hosts that are remembered though nobody is there */
#define CTL_ENDED_SHOWN 64 /* newest ended jobs in the table of jobs */
#define CTL_DRAINED_MAX 256 /* hosts drained at once */
#define CTL_DELAYS 1025 /* delays of applied updates that are told apart; the last one: or more */

struct ctl_job;

/* Of a worker: how long after the end of a transfer one way it asks for one the other way. */
struct ctl_rhythm {
	hd_ns since; /* that end; 0: none, or it has asked since */
	double pause_s, spread_s; /* mean, and mean deviation */
	uint32_t seen;
};

#define CTL_SUMS_KEPT 64 /* newest all-reduces of a job, by which makings are told apart */
#define CTL_REFUSALS_KEPT                                                                          \
	8 /* jobs whose groups an aggregator refused; of more it is asked again sooner */

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
	/* aggregator */
	struct ctl_refusal {
		uint32_t job;
		hd_ns until; /* it gets no group of that job */
	} refusals[CTL_REFUSALS_KEPT];
	hd_ns no_groups_until; /* switch: it rests, as a lease failed */
	/* switch: slots that can be leased, values of a chunk; of it and of a worker: types of such chunks */
	uint32_t slots;
	uint16_t count_min, count_max, slot_dtypes;
	hd_ns rtt_least; /* the shortest that its session has shown; 0: not known */
	/* worker */
	struct ctl_job *job;
	uint16_t worker;
	uint32_t reduce_from; /* its oldest all-reduce that has not ended, as it said last */
	uint32_t tracked; /* its transfers, pending and open */
	hd_ns rank_refused; /* since then its rank is held by another host's process; 0: it is not */
	hd_ns preempted_at; /* its machine is taken away then; 0: no notice of it */
	uint64_t roster_told; /* the change that it was told of last */
	bool observer; /* it only pulls, and is in no roster */
	uint64_t pushes_decided, pushes_idles; /* the guard: theta drops among its pushes */
	bool last_was_idles;
	uint32_t push_round; /* newest that was asked for, granted in advance or reported */
	hd_ns push_ended; /* 0: none was applied yet */
	struct ctl_transfer *credit; /* its next push, granted in advance; NULL: it asks */
	uint8_t pull_credits; /* pulls that it may report without having asked for them */
	struct hd_msg_drop last_drop[2]; /* by direction: repeated for a repeated request */
	struct ctl_rhythm rhythm[2]; /* by the direction that it asks for */
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

/* What operators set that is not of a job, and whether the next life must be told. */
struct ctl_kept {
	bool changed;
	hd_ns due; /* something less urgent has changed: told then, with what comes until then */
	uint32_t set; /* bit i: setting i, by an operator */
	double value[CTL_SETTINGS_MAX];
	char log_level[16];
};

/* Delays of a job's applied updates, as reported. */
struct ctl_staleness {
	uint64_t count;
	double sum, squares;
	uint32_t max;
	uint64_t delays[CTL_DELAYS];
};

/* What slots of a switch are leased for. */
enum ctl_lease_kind {
	CTL_LEASE_REDUCE, /* a job's all-reduces, from round to round */
	CTL_LEASE_PUSH, /* a group of pushes, for the time of its grant */
	CTL_LEASE_KINDS
};

/* A round that went through slots of a switch. */
struct ctl_passage {
	hd_ns start, end;
	double bytes;
};

struct ctl_job {
	uint32_t id;
	char tenant_name[HD_NAME_BYTES_MAX + 1];
	char name[HD_NAME_BYTES_MAX + 1];
	struct ctl_tenant *tenant; /* NULL until a worker registered: known from STATE only */
	double weight;
	uint64_t model_bytes; /* 0: a job of all-reduces, which needs no server */
	uint32_t tau_max;
	uint8_t staleness_rule;
	float staleness_c;
	uint8_t sync; /* enum hd_sync */
	uint32_t sync_count; /* N; of a federated one: steps that an update may be late */
	bool unsealed; /* its chunks between hosts carry no MAC; while no worker has said so they do */
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
	uint32_t credits; /* open pushes that were granted in advance */
	hd_ns credits_after; /* none before: they stood in the way */
	uint32_t worker_count;
	hd_ns idle_since; /* without a worker: since then */
	bool left; /* its last worker left of its own accord: nobody is expected back */
	struct ctl_node **workers; /* [HD_WORKERS_MAX] by rank */
	uint64_t granted, applied, dropped, failed, voided, granted_bytes;
	uint64_t pulls_granted, pulls_delivered;
	uint64_t dropped_for[HD_REASON_COUNT];
	struct ctl_staleness staleness;
	/* all-reduces: ctl_reduce.c */
	TAILQ_HEAD(ctl_reduces, ctl_reduce) reduces;
	uint32_t reduce_count, reduce_round; /* under way; the newest that has begun */
	struct ctl_lease *lease; /* of slots; NULL: it has none */
	const char *why; /* its newest round did not go through a switch: in a word; NULL: it did */
	uint8_t lease_attempt; /* of the newest lease */
	uint64_t leases_begun[CTL_LEASE_KINDS]; /* put in force */
	/* Its last rounds through slots, for what others had beside them. */
	struct ctl_passage passages[CTL_PASSAGES_KEPT];
	uint32_t passage_count;
	hd_ns slots_short_until; /* a group of its pushes found no slots: others are to have less */
	uint32_t reduce_begun; /* the newest that this life of ours has begun; 0: none */
	uint32_t reduce_kept; /* the same, as the next life will know it, or the last one knew it */
	hd_ns reduce_kept_at;
	uint16_t world; /* workers that it begins with */
	bool formed; /* it had as many at once */
	bool goes_on; /* one of its workers has a sum: it was formed in an earlier life, and those that do not */
	hd_ns gathered_at; /* come again until then are not waited for */
	/* By rank: its newest life, and a round that others made again after it was lost: it may have another sum of
	 * it; 0: none. */
	uint64_t boot[HD_WORKERS_MAX];
	uint32_t doubt[HD_WORKERS_MAX];
	/* The newest sum of each worker, and of the newest rounds that of the newest making (ctl_reduce_table.c). */
	struct ctl_sum {
		uint32_t round;
		uint64_t making;
	} has[HD_WORKERS_MAX], sums[CTL_SUMS_KEPT];
	uint64_t serving; /* the generation of who is, or was last, its server; 0: not known */
	bool begun; /* its server has said STATE */
	bool recalled; /* server_host and serving are from the state directory: no server has said STATE since */
	struct ctl_replica replica;
	struct ctl_elastic *elastic; /* who says how many there should be; NULL: nobody */
	/* who takes part: ctl_roster.c */
	struct hd_roster
		roster; /* now; its change, and all but the ranks, are those of what was said last: */
	uint8_t roster_ranks[HD_ROSTER_BYTES];
	uint64_t roster_changes, server_told;
	bool roster_due;
	hd_ns roster_at, roster_said;
	uint32_t noticed; /* of the workers: will be preempted */
	double apart; /* of what sparse updates could add to a sum, how much they did: hd_plan_item */
	/* the operator's */
	bool paused;
	uint32_t tau_set; /* stricter than tau_max; 0: none */
	double weight_set; /* 0: none */
};

/* A job that has ended. */
struct ctl_ended {
	uint32_t id;
	char tenant[HD_NAME_BYTES_MAX + 1], name[HD_NAME_BYTES_MAX + 1];
	char host[HD_NAME_BYTES_MAX + 1]; /* where a checkpoint of it may be; "": nowhere */
	uint64_t serving; /* the generation of who was its server */
	hd_ns at; /* 0: in an earlier life, and no more is known of it: */
	hd_version version;
	uint64_t position, model_bytes, granted, granted_bytes, applied, dropped, failed, voided;
	uint64_t pulls_granted, pulls_delivered;
	double weight;
	uint32_t tau_max, sync_count;
	uint8_t sync;
	bool unsealed;
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
	float norm, peak;
	hd_version base, have;
	hd_ns asked;
	uint8_t path_count; /* 0: not known yet (no server, or rebuilt before its worker came) */
	uint32_t path[HD_PLAN_PATH_MAX];
	uint32_t item; /* its place in the input of round `item_round` */
	uint64_t item_round;
	/* from the grant on */
	uint64_t token, position, after;
	uint64_t planned; /* version counter that its commit should make */
	float asked_weight; /* by which a federated job's push is to count; 1: any other */
	float weight, cc_weight;
	hd_ns granted, start, finish; /* as granted */
	struct hd_segs segments; /* relative to `granted` */
	struct ctl_why why;
	struct ctl_group *group; /* that it belongs to, NULL: none */
	uint32_t group_slot; /* among its members */
	bool is_sum; /* a group's, or its copy: of no worker */
	bool tracked; /* counted in its worker's node */
	bool restored; /* known from INFLIGHT: granted by an earlier life, or directly */
	bool held; /* every byte has arrived; only the commit is awaited */
	bool credit,
		spent; /* granted in advance; reported since, so that base and bytes are known */
	uint8_t book_count;
	struct ctl_span book[HD_SEGMENTS_MAX]; /* what it still takes, as seen now */
	hd_ns overrun_since; /* 0: on time */
	hd_ns company_since; /* it was due, and has waited for company since; 0: it has not */
	hd_ns company_until;
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
	double most; /* the same, at any moment of it */
	uint64_t token, bytes;
	double limited; /* share of its time that its own pacing was the limit */
	bool beside; /* no sample of its own: it only ran beside others */
	uint8_t path_count;
	uint32_t path[HD_PLAN_PATH_MAX];
};

#endif
