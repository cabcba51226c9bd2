/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HD_CLUSTER_PRIVATE_H
#define HD_CLUSTER_PRIVATE_H

#include "hd_aggregator.h"
#include "hd_cluster.h"
#include "hd_controller.h"
#include "hd_jobspec.h"
#include "hd_keys.h"
#include "hd_message.h"
#include "hd_monitor.h"
#include "hd_random.h"
#include "hd_server.h"
#include "hd_sim_switch.h"
#include "hd_trainer.h"
#include "hd_worker.h"

#include <sys/queue.h>

#define CLUSTER_NAME_BYTES 24
#define CLUSTER_PUSHES_MAX 64 /* kept buffers of one worker */
#define CLUSTER_EVENTS_KEPT 40 /* shown with a violation */

struct hd_cluster;

/* What any role has: a process that can crash and come back. */
struct process {
	struct hd_cluster *cluster;
	char name[CLUSTER_NAME_BYTES];
	char host_name[CLUSTER_NAME_BYTES];
	int host, node;
	uint32_t lives; /* started so far */
	bool runs;
	bool wanted; /* by the scenario: kill and join */
	uint32_t crashes; /* nested outages */
	uint32_t stops; /* nested SIGSTOPs */
	struct hd_check_listener listener; /* of this life */
	uint32_t listens; /* which that is */
};

enum worker_phase {
	WORKER_IDLE, /* nothing to do until joined, or until it retries */
	WORKER_PULLING,
	WORKER_COMPUTING,
	WORKER_PUSHING /* depth reached: waits for an outcome */
};

struct buffer {
	float *data;
	float *packed; /* of a sparse push: the values of its runs */
	struct hd_run runs[HD_CHECK_RUNS_MAX];
	bool used; /* the library reads it */
	bool ended; /* its push has had its first outcome */
};

struct worker_process {
	struct process process;
	struct hd_worker *core;
	uint32_t rank;
	double slowness; /* of the compute time */
	enum worker_phase phase;
	hd_version base; /* of the model held */
	hd_version newest; /* of a synchronous job: that the library knows of */
	struct hd_round_word word; /* of a federated one: the round that it is drawn for */
	struct hd_round_word
		working; /* the one that it computes for: an older one where late updates count */
	bool worked; /* in that: it is done with it */
	uint32_t computing; /* counts the steps that were begun, also those that were given up */
	float *model;
	uint32_t pull_round;
	uint32_t under_way; /* pushes without outcome */
	uint64_t serial; /* invalidates planned steps of former lives and phases */
	struct hd_random
		random; /* compute times: a stream of its own, so that modes meet the same ones */
	struct buffer *ready; /* computed, but not yet taken by the library */
	bool leaving, preempted;
	bool last, flushed; /* it leaves with its next step, which sends all; that was computed */
	struct buffer buffers[CLUSTER_PUSHES_MAX];
	uint64_t granted_bytes, direct_bytes, credited_bytes; /* of former lives */
};

/* One file that is replaced whole, as a rename does. */
struct disk {
	bool present;
	struct hd_checkpoint file; /* deep copy; spec decoded anew from spec_bytes */
	uint8_t *spec;
	int spec_bytes;
	/* A write under way. */
	bool writing;
	const struct hd_checkpoint *source;
	uint64_t source_hash;
	uint64_t serial;
};

struct server_process {
	struct process process;
	struct hd_server *core;
	struct disk disk;
	uint64_t checkpoints;
};

struct controller_process {
	struct process process;
	struct hd_controller *core;
	char *kept; /* its state directory: what outlives it */
};

struct aggregator_process {
	struct process process;
	struct hd_aggregator *core;
	struct hd_aggregator_stats past; /* of former lives */
};

/* The switch on the path, where there is one. */
struct switch_process {
	struct process process;
	struct hd_sim_switch path; /* its core NULL: it is down, or there is none */
};

/* On a host, beside its worker or server; never crashes. */
struct monitor_process {
	struct hd_cluster *cluster;
	int host;
	struct hd_monitor *core;
};

/* A step planned for later: carries what it must still find when it comes. */
struct step {
	LIST_ENTRY(step) link; /* cluster->steps: planned; or spare */
	struct hd_cluster *cluster;
	struct process *process;
	uint64_t serial;
	uint32_t number; /* round, index or direction, by kind */
	bool own; /* the process's own doing: waits while it is stopped */
	void (*call)(struct step *step, hd_ns now);
};

struct kept_event {
	char node[CLUSTER_NAME_BYTES];
	struct hd_event event;
};

LIST_HEAD(step_list, step);

/* What a cluster that trains has besides. One model serves all workers: it is room to compute in. */
struct training {
	struct hd_model *model;
	struct hd_sampler *samplers; /* by worker */
	struct hd_curve curve;
	bool evaluated; /* at least once, last at: */
	hd_version version;
	hd_ns next; /* evaluation */
	bool reached;
	struct filters *filters; /* NULL: everything is pushed */
};

struct hd_cluster {
	struct hd_cluster_config config;
	struct hd_scenario scenario;
	struct hd_sim *sim;
	struct hd_check *check;
	struct hd_random random; /* compute times, cancels */
	struct hd_random seeds; /* entropy of processes */
	struct hd_random draws; /* redrawn rates and speeds */
	struct hd_key key;
	struct hd_keyring keys;
	struct hd_tensor tensors[2 * (HD_LAYERS_MAX + 1)];
	struct hd_jobspec spec;
	struct training *training; /* NULL: contents are the checker's */
	uint32_t job;
	uint64_t values;
	int extra_host;
	struct controller_process controller;
	struct server_process server, replica; /* the replica: only when the scenario has one */
	struct server_process *present; /* of these two, the job's server */
	bool begun_alone; /* one of them began the job without the controller */
	bool revived; /* one of them is coming back with a history that was lost */
	struct hd_addr named; /* as that, by the controller's newest word */
	uint64_t durable; /* newest counter that workers were told */
	uint64_t promotions, followed,
		equal; /* versions of the replica that were compared; with the server's own */
	hd_version seen[2];
	uint64_t
		stepped_from; /* counter before the server's newest step, which may be of several updates; */
	uint16_t step_more; /* that are still to be told of */
	double farthest;
	uint32_t worker_count;
	struct worker_process *workers;
	struct aggregator_process *aggregators; /* scenario.aggregators of them */
	struct switch_process path_switch;
	struct monitor_process *monitors; /* the server's, then one a worker; NULL: none */
	int *flows; /* by tenant, then flow */
	double *link_factor; /* by worker */
	bool stopping; /* no new pushes */
	bool quiet; /* faults have stopped */
	bool planned; /* the controller planned in this step */
	bool *reserved; /* by link: room for looking at the controller's books */
	struct step_list steps, spare;
	uint64_t pushed;
	uint64_t lacked; /* times that a client was told that too few are here for a round */
	uint64_t flushed; /* workers that left with nothing held back */
	uint64_t given_up; /* steps of computing that a synchronous job's model had left behind */
	uint64_t crashes;
	hd_ns stopped_at, settled_at;
	double error_sum;
	uint64_t error_count;
	struct kept_event kept[CLUSTER_EVENTS_KEPT];
	uint64_t kept_count;
};

/* --- hd_cluster.c --- */
bool cluster_failed(const struct hd_cluster *cluster);
/* Calls step.call(copy) at a time; the step is copied. */
void cluster_at(struct hd_cluster *cluster, hd_ns at, struct step step);
static inline hd_ns cluster_ns(double seconds) {
	return (hd_ns)(seconds * 1e9 + 0.5);
}

/* --- hd_cluster_process.c: starting and stopping --- */
void process_start(struct process *process);
void process_stop(struct process *process);
/* Runs the process when it is wanted and no outage holds it down; stops it otherwise. */
void process_settle(struct process *process);
struct process *cluster_process(struct hd_cluster *cluster, struct hd_place place);
int cluster_host(const struct hd_cluster *cluster, struct hd_place place);
int cluster_add_processes(struct hd_cluster *cluster);
void cluster_remove_processes(struct hd_cluster *cluster);

int cluster_add_process(
	struct hd_cluster *cluster,
	struct process *process,
	uint32_t rack,
	double mbps
);
void cluster_draw_seed(struct hd_cluster *cluster, uint8_t seed[32]);
struct hd_addr cluster_controller_address(const struct hd_cluster *cluster);

/* --- hd_cluster_switch.c --- */
int cluster_add_switch(struct hd_cluster *cluster);
/* The switch that this process is, NULL: it is none. */
struct switch_process *as_switch(struct process *process);
struct hd_node start_switch(struct switch_process *s);
void destroy_switch(struct switch_process *s);
void cluster_switch_stats(const struct hd_cluster *cluster, struct hd_cluster_result *result);

/* --- hd_cluster_aggregator.c --- */
int cluster_add_aggregators(struct hd_cluster *cluster);
void cluster_remove_aggregators(struct hd_cluster *cluster);
/* The aggregator that this process is, NULL: none. */
struct aggregator_process *as_aggregator(struct process *process);
struct hd_node start_aggregator(struct aggregator_process *aggregator);
void destroy_aggregator(struct aggregator_process *aggregator);
/* Of all, in all their lives. */
void cluster_aggregator_stats(
	const struct hd_cluster *cluster,
	struct hd_cluster_aggregation *aggregation
);
/* --- hd_cluster_replica.c: two processes that may be the server --- */
struct server_process *as_server(struct process *process); /* NULL: another role */
/* Whether it is the job's server, as far as promotions go. */
bool cluster_is_present(const struct process *process);
/* It begins the job, from its disk or anew: whether it is the server that the controller names. */
bool cluster_may_begin(struct server_process *server);
/* Whether a checkpoint of this version brings a lost history back to the job's server, and nobody else has the present
 * one, or the controller has lost who has: the former one, in whose place it named this. */
bool cluster_revives(
	const struct hd_cluster *cluster,
	const struct server_process *former,
	hd_version version
);
/* Whom the controller calls the job's server; what it said last stands while it is away. */
void cluster_note_server(struct hd_cluster *cluster);
/* The job goes on at this version; NULL and 0: it begins anew. */
void cluster_restored(struct hd_cluster *cluster, const float *model, hd_version version);
void cluster_promoted(struct server_process *server, const struct hd_event *event);
/* COMMITTED, of the job's server. */
void cluster_stepped(struct hd_cluster *cluster, const struct hd_event *event);
/* DURABLE, of either. */
void cluster_durable(struct server_process *server, hd_version version);
void cluster_inspect_replica(struct hd_cluster *cluster);

/* --- hd_cluster_monitor.c --- */
int cluster_add_monitors(struct hd_cluster *cluster);
void cluster_remove_monitors(struct hd_cluster *cluster);

/* --- hd_cluster_network.c: switches, links and what the controller is told of them --- */
struct hd_topology;
int cluster_add_racks(struct hd_cluster *cluster);
/* A host's index in the simulator, or -errno. 0 Mbit/s: not shaped. */
int cluster_add_host(struct hd_cluster *cluster, uint32_t rack, double mbps);
/* Anew, for a controller that frees it; NULL: the check has failed. */
struct hd_topology *cluster_topology(struct hd_cluster *cluster);

/* --- hd_cluster_app.c: what a worker does --- */
extern const struct hd_worker_ops app_ops;
void app_reset(struct worker_process *worker);
void app_leave(struct worker_process *worker);
/* Its machine is taken away after `notice`. */
void app_preempt(struct worker_process *worker, hd_ns notice);

/* --- hd_cluster_buffer.c: what pushes carry --- */
/* The contents of the next push: those of the checker, or the gradient at the model held, which is computed once
 * however often the library has no room yet. NULL: no buffer, or no memory. */
struct buffer *buffer_fill(struct worker_process *worker, uint64_t salt);
/* Makes a push sparse, when the scenario wants it and that is smaller. Returns the bytes that travel. */
uint64_t buffer_pack(
	const struct hd_cluster *cluster,
	struct buffer *buffer,
	uint64_t salt,
	struct hd_push_args *args
);
void buffers_free(struct worker_process *worker);

/* --- hd_cluster_train.c: real training; nothing here takes virtual time --- */
/* Data, model and job description. 0, -EINVAL with what in error, -ENOMEM. */
int training_create(struct hd_cluster *cluster, char *error, size_t error_bytes);
/* The checker, too, learns what training does to the model. */
int training_tell_check(struct hd_cluster *cluster);
void training_destroy(struct hd_cluster *cluster);
/* A new process of a worker draws its minibatches from the first one on, as heddle-train does. */
int training_start_worker(struct worker_process *worker);
/* The gradient of the next minibatch at the model that the worker holds. */
void training_gradient(struct worker_process *worker, float *gradient);
/* Evaluates the server's model when that is due. */
void training_watch(struct hd_cluster *cluster);

/* --- hd_cluster_filter.c: workers that train behind a filter, and what becomes of what they compute --- */
int filters_create(struct hd_cluster *cluster, char *error, size_t error_bytes);
void filters_destroy(struct hd_cluster *cluster);
/* The book is compared with what is held, and the server's model with the book. */
void filters_inspect(struct hd_cluster *cluster);
/* The same in the end, when nothing may be under way any more but what went with a worker or a server. */
void filters_settled(struct hd_cluster *cluster);
void filters_result(const struct hd_cluster *cluster, struct hd_cluster_result *result);
/* The gradient becomes what is to be sent. */
void filter_step(struct worker_process *worker, float *gradient);
void filter_pulled(struct worker_process *worker);
void filter_pushed(struct worker_process *worker, uint32_t round, const float *data);
/* A push that is not in the model. */
void filter_returned(struct worker_process *worker, uint32_t round);
/* What was to be pushed is not: its step has ended. */
void filter_given_up(struct worker_process *worker);
/* Its process has ended. */
void filter_gone(struct worker_process *worker);
/* It leaves, after a step that sends all that its filter holds. */
void filter_leave(struct worker_process *worker);
/* A push of which nobody will know: its machine goes. */
void filter_unknown(struct worker_process *worker, uint32_t round);
void filter_committed(struct hd_cluster *cluster, const struct hd_event *event);
/* An event of a server that is the job's no more. */
void filter_lost(struct hd_cluster *cluster, const struct hd_event *event);
/* The job's server is at another version than it was, perhaps of another history: after the checker has heard of it. */
void filters_restored(struct hd_cluster *cluster);

/* --- hd_cluster_disk.c --- */
extern const struct hd_server_ops disk_ops;
void disk_crash(struct server_process *server);
void disk_free(struct disk *disk);

/* --- hd_cluster_faults.c: what befalls the cluster --- */
int cluster_plan_faults(struct hd_cluster *cluster);
void cluster_stop_faults(struct hd_cluster *cluster);

/* --- hd_cluster_watch.c: events, checks, estimates --- */
void cluster_event(void *owner, int node, const struct hd_event *event);
/* After each step of the simulation. */
void cluster_inspect(struct hd_cluster *cluster);
void cluster_explain(struct hd_cluster *cluster);

#endif
