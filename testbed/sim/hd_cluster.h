/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole cluster in virtual time: the shipped controller, server and worker cores on a simulated star, a disk, the
 * job's workers, and the faults of a scenario, with the invariants checked at each step.
 *
 *   h1 .. hN  workers     ps  server     ctl  controller (unshaped)     x1  other tenants     a1 ..  aggregators
 *
 * Either the job's updates and learning rate are the checker's (hd_check.h): then only bytes, times and bounds matter.
 * Or its workers really train the scenario's model: a step computes the gradient at once and takes `compute_ms` of
 * virtual time. The same scenario, mode and seed give the same events; in training also the same curve, on the same
 * kind of processor (which determines BLAS's kernels).
 */
#ifndef HD_CLUSTER_H
#define HD_CLUSTER_H

#include "hd_check.h"
#include "hd_curve.h"
#include "hd_scenario.h"
#include "hd_sim.h"
#include "hd_switch.h"
#include "hd_trainer.h"

struct hd_cluster;
struct hd_topology;

/* The data for training; they outlive the cluster. Model, batch, SGD and target come from the scenario, the initial
 * weights and minibatches from the seed, as in the demo. */
struct hd_cluster_training {
	const struct hd_dataset *train, *test;
	bool until_target; /* ends as soon as the target accuracy is reached */
	/* v of each worker's significance filter (docs/filter.md), 0: none. FP32, without momentum and decay: computed
	 * values are applied, held, or lost with a worker or a server. */
	float filter;
};

enum hd_cluster_mode {
	HD_CLUSTER_SCHEDULED, /* with the scenario's aggregators, if it has any */
	HD_CLUSTER_UNSCHEDULED, /* a controller that lets all workers send directly */
	HD_CLUSTER_DIRECT, /* no controller at all */
	HD_CLUSTER_ALONE /* scheduled, without the scenario's aggregators */
};

struct hd_cluster_config {
	const struct hd_scenario *scenario; /* copied */
	uint64_t seed;
	enum hd_cluster_mode mode;
	bool explain; /* print the last events before a violation to stderr */
	const struct hd_cluster_training *training; /* outlives the cluster; NULL: synthetic */
	/* A switch on the path with this many slots; 0: none. narrow: chunks as with P4. down: when it fails, for 0.3
	 * s; 0: never. spoils: the share of chunks in which it finds an overflow. replica_loss: of sums to the replica,
	 * and of its answers. */
	uint16_t switch_slots;
	bool switch_narrow;
	double switch_down_s, switch_spoils, switch_replica_loss;
	uint32_t scale_base; /* of the job's description */
	bool unsealed; /* the same: its chunks carry no MAC */
	bool unchecked; /* leaves out the costly comparisons of contents: for speed only */
	/* For tests of the checkers: changes an event before they see it. May be NULL. */
	void (*tamper)(void *owner, struct hd_event *event);
	/* Every event of every node; `at` is simulation time. May be NULL. */
	void (*event)(void *owner, const char *node, const struct hd_event *event);
	void *owner;
};

/* 0, -EINVAL, -ENOMEM with a text in error. */
int hd_cluster_create(
	const struct hd_cluster_config *config,
	struct hd_cluster **cluster,
	char *error,
	size_t error_bytes
);
void hd_cluster_destroy(struct hd_cluster *cluster);
/* Runs to the end: the scenario's time with its faults, then without faults until nothing is pending.
 * Returns 0 or -EILSEQ when an invariant was violated. */
int hd_cluster_run(struct hd_cluster *cluster);
/* The text of the violation, or NULL. */
const char *hd_cluster_failure(const struct hd_cluster *cluster);

/* Counters of all processes of all aggregators. */
struct hd_cluster_aggregation {
	uint64_t groups, delivered, failed, refused, inputs_held, bytes_in;
};

struct hd_cluster_result {
	double duration_s; /* in which workers pushed */
	double settle_s; /* from the end of faults until nothing was pending */
	struct hd_check_stats pushes;
	uint64_t granted_bytes, direct_bytes; /* direct: without a grant */
	uint64_t credited_bytes; /* of the granted: in advance */
	uint64_t server_link_bytes; /* of frames, both directions, other tenants included */
	double estimate_error; /* mean of |estimate - truth| / truth over ESTIMATE events; < 0: none */
	uint64_t crashes, checkpoints;
	uint64_t lacked; /* times that a client was told that a round has too few clients */
	uint64_t promotions,
		followed; /* versions of replicas that were compared with the expected ones */
	uint64_t equal; /* of these, compared with the server's as well */
	double farthest; /* largest distance of a replica, while there was a bound */
	struct hd_sim_stats network;
	struct hd_cluster_aggregation aggregation;
	uint64_t switch_counters[HD_SWITCH_COUNTER_COUNT];
	uint64_t copies_lost; /* that the present replica will never have: it gets states instead */
	uint64_t switch_refused; /* leases that its agent refused */
	/* Of training. */
	double time_to_accuracy_s, final_accuracy; /* < 0: not reached, none */
	uint64_t updates_to_accuracy;
	/* Of its filters: norms of the held values at the end, added up; steps of the last processes; returned pushes;
	 * commits that a server lost; those that came back with its replica, and of these the returned ones; of these,
	 * the ones that came back with a checkpoint of a lost history; workers that sent all before they left. */
	double held_norm;
	uint64_t filtered, returned, undone, regained, doubled, revived, flushed;
};
void hd_cluster_result(const struct hd_cluster *cluster, struct hd_cluster_result *result);

/* Moves the accuracy over time, of training, to *curve; free it with hd_curve_fini(). */
void hd_cluster_take_curve(struct hd_cluster *cluster, struct hd_curve *curve);
/* For tests of estimates: the present rate of a directed link ("h1>s1") for a job of weight 1 beside the other tenants'
 * flows, max-min fair, in bits of payload a second; 0: no such link, or not shaped. And the controller's core (NULL
 * while it is down) with the simulation's time, between calls of hd_cluster_advance(). */
double hd_cluster_truth(const struct hd_cluster *cluster, const char *link);
struct hd_controller *hd_cluster_controller(const struct hd_cluster *cluster);
/* Bytes of frames, of ours and others, that have entered the link so far. */
uint64_t hd_cluster_link_bytes(const struct hd_cluster *cluster, const char *link);
/* Runs the scenario up to a time, as hd_cluster_run() would. False: an invariant was violated. */
bool hd_cluster_advance(struct hd_cluster *cluster, hd_ns until);

/* From this seed on scenarios also stop processes (SIGSTOP) and fail all of them at once. */
#define HD_CLUSTER_HARD (UINT64_C(1) << 40)
/* From this seed on scenarios have aggregators, which crash like other nodes; odd seeds are hard as well. */
#define HD_CLUSTER_GROUPS (UINT64_C(1) << 41)
/* The topology that a scenario's controller gets; the caller destroys it. NULL: a text in error. */
struct hd_topology *
hd_cluster_topology(const struct hd_scenario *scenario, char *error, size_t error_bytes);

/* A scenario drawn from a seed for the fault matrix: few workers, small updates, many faults. */
void hd_cluster_draw(uint64_t seed, struct hd_scenario *scenario, enum hd_cluster_mode *mode);

#endif
