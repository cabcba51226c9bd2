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
	double weight; /* the largest weight of its jobs */
	double deficit; /* in bytes; the sum over all tenants is 0 while all are busy */
	double deficit_most; /* the largest value, or change, since it was set to 0 */
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

/* Uses of a lease of a switch's slots. */
enum ctl_lease_kind {
	CTL_LEASE_REDUCE, /* a job's all-reduces, kept from round to round */
	CTL_LEASE_PUSH, /* a group of pushes, during its grant */
	CTL_LEASE_KINDS
};

/* A round that went through a switch's slots. */
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
	uint32_t sync_count; /* N; of a federated job: steps by which an update may be late */
	bool unsealed; /* its chunks between hosts carry no MAC; false until a worker says so */
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
	uint32_t unspent; /* of these, the ones not reported yet: not counted as granted */
	hd_ns credits_after; /* no credits before this time: they delayed a request */
	uint32_t worker_count;
	hd_ns idle_since; /* without a worker since then */
	bool left; /* its last worker sent LEAVE: none is expected back */
	struct ctl_node **workers; /* [HD_WORKERS_MAX] by rank */
	/* Pushes. granted = applied + dropped + failed + voided + running (ctl_job_running()) */
	uint64_t granted, applied, dropped, failed, voided, granted_bytes;
	uint64_t ungranted; /* pushes dropped without a grant */
	uint64_t pulls_granted, pulls_delivered,
		pulls_failed; /* pulls_granted = these two + open_pulls */
	uint64_t dropped_for[HD_REASON_COUNT];
	struct ctl_staleness staleness;
	/* sends and receives: ctl_pair.h */
	TAILQ_HEAD(ctl_pairs, ctl_pair) pairs;
	LIST_HEAD(ctl_pair_bucket, ctl_pair) pair_buckets[CTL_PAIR_BUCKETS]; /* by channel */
	uint32_t pair_count;
	uint16_t pairs_of[HD_WORKERS_MAX]; /* by rank: in progress */
	bool pairs_held; /* some wait for the end of others */
	/* all-reduces: ctl_reduce.c */
	TAILQ_HEAD(ctl_reduces, ctl_reduce) reduces;
	uint32_t reduce_count, reduce_round; /* in progress; the newest that has begun */
	struct ctl_shared {
		uint64_t
			token; /* of the segment that the next round of these members uses; 0: none */
		uint32_t turns; /* rounds that have begun there */
		struct hd_roster members;
	} shared; /* memory: ctl_shared.c */
	struct ctl_lease *lease; /* of slots; NULL: it has none */
	const char *why; /* a word why its newest round did not go through a switch; NULL: it did */
	uint8_t lease_attempt; /* of the newest lease */
	uint64_t leases_begun[CTL_LEASE_KINDS]; /* put in force */
	/* Its last rounds through slots, to subtract their bytes from samples of others. */
	struct ctl_passage passages[CTL_PASSAGES_KEPT];
	uint32_t passage_count;
	hd_ns slots_short_until; /* a group of its pushes found no slots: others are to have less */
	uint32_t reduce_begun; /* the newest that this process has begun; 0: none */
	uint32_t reduce_had; /* the newest of which a worker has, or had, the sum */
	uint32_t reduce_lost; /* the newest begun when the controller lost all workers */
	uint32_t reduce_known; /* the same, as the previous process kept it; 0: it did not */
	uint32_t
		reduce_kept; /* the same, as the next process will know it, or the last one knew it */
	hd_ns reduce_kept_at; /* 0: that is due now */
	bool reduces_in[HD_WORKERS_MAX]; /* by rank: a member of the round that began last */
	uint16_t world; /* workers that it begins with */
	uint32_t most_workers; /* that it had at once, since it had none */
	bool none_comes; /* a round has waited for members that are not here, and the job has no more since */
	bool formed; /* it once had this many */
	bool goes_on; /* a worker has a sum of an earlier process: the job was formed then */
	hd_ns gathered_at; /* until then workers that took part in that sum are waited for */
	/* By rank: its newest process; a lost round that others repeated, of which it may have another sum, 0: none. */
	uint64_t boot[HD_WORKERS_MAX];
	uint32_t unconfirmed[HD_WORKERS_MAX];
	/* The newest sum of each worker, and for the newest rounds the sum of the newest attempt
	 * (ctl_reduce_table.c). */
	struct ctl_sum {
		uint32_t round;
		uint64_t sum_id;
	} has[HD_WORKERS_MAX], sums[CTL_SUMS_KEPT];
	uint64_t serving; /* the generation of its server, or of the last one; 0: unknown */
	bool begun; /* its server has sent STATE */
	bool recalled; /* server_host and serving are saved ones: no server has sent STATE since */
	struct ctl_replica replica;
	struct ctl_elastic *elastic; /* sets its target number of workers; NULL: none */
	/* the workers that take part: ctl_roster.c */
	struct hd_roster
		roster; /* now; the change and all fields but the ranks are those sent last: */
	uint8_t roster_ranks[HD_ROSTER_BYTES];
	uint64_t roster_changes, server_roster_sent;
	bool roster_due;
	hd_ns roster_at, roster_sent_at;
	uint32_t noticed; /* workers that will be preempted */
	double apart; /* how much sparse updates differ, 0 .. 1: hd_plan_item */
	/* set by the operator */
	bool paused;
	uint32_t tau_set; /* stricter than tau_max; 0: none */
	double weight_set; /* 0: none */
};

/* A job that has ended. */
struct ctl_ended {
	uint32_t id;
	char tenant[HD_NAME_BYTES_MAX + 1], name[HD_NAME_BYTES_MAX + 1];
	char host[HD_NAME_BYTES_MAX + 1]; /* host that may have a checkpoint of it; "": none */
	uint64_t serving; /* the generation of its server */
	hd_ns at; /* 0: under an earlier controller process, and only these are known: */
	hd_version version;
	uint64_t position, model_bytes, granted, granted_bytes, applied, dropped, failed, voided;
	uint64_t ungranted, pulls_granted, pulls_delivered, pulls_failed;
	double weight;
	uint32_t tau_max, sync_count;
	uint8_t sync;
	bool unsealed;
};

#endif
