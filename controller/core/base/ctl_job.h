/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: tenants, jobs, and jobs that have ended. */
#ifndef CTL_JOB_H
#define CTL_JOB_H

#include "ctl_limits.h"
#include "ctl_replica.h"
#include "hd_histogram.h"
#include "hd_roster.h"

#include <sys/queue.h>

struct ctl_node;

struct ctl_tenant {
	char name[HD_NAME_BYTES_MAX + 1];
	uint32_t jobs;
	double weight; /* the greatest of its jobs' */
	double deficit; /* bytes owed; the tenants' sum is 0 while all are busy */
	double deficit_most; /* the greatest that it was, or changed by, since it was set to 0 */
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
	struct hd_histogram histogram;
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
	uint32_t open_pulls; /* the same */
	uint32_t pending, open;
	uint32_t credits; /* open pushes that were granted in advance */
	uint32_t unspent; /* of these, those that have not come yet: not counted as granted */
	hd_ns credits_after; /* none before: they stood in the way */
	uint32_t worker_count;
	hd_ns idle_since; /* without a worker: since then */
	bool left; /* its last worker left of its own accord: nobody is expected back */
	struct ctl_node **workers; /* [HD_WORKERS_MAX] by rank */
	/* Pushes. granted = applied + dropped + failed + voided + running (ctl_job_running()) */
	uint64_t granted, applied, dropped, failed, voided, granted_bytes;
	uint64_t ungranted; /* pushes dropped without a grant */
	uint64_t pulls_granted, pulls_delivered,
		pulls_failed; /* the first = the others + open_pulls */
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
	uint32_t reduce_known; /* the same, as the last life kept it; 0: it did not */
	uint32_t reduce_kept; /* the same, as the next life will know it, or the last one knew it */
	hd_ns reduce_kept_at; /* 0: that is due now */
	bool reduces_in[HD_WORKERS_MAX]; /* by rank: a member of the round that began last */
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
	uint64_t ungranted, pulls_granted, pulls_delivered, pulls_failed;
	double weight;
	uint32_t tau_max, sync_count;
	uint8_t sync;
	bool unsealed;
};

#endif
