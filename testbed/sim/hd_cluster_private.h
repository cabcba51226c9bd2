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
#define CLUSTER_EVENTS_KEPT 40 /* printed with a violation */

struct hd_cluster;

/* The common part of all roles: a process that can crash and come back. */
struct process {
	struct hd_cluster *cluster;
	char name[CLUSTER_NAME_BYTES];
	char host_name[CLUSTER_NAME_BYTES];
	int host, node;
	uint32_t starts; /* started so far */
	bool runs;
	bool wanted; /* by the scenario: kill and join */
	uint32_t crashes; /* nested outages */
	uint32_t stops; /* nested SIGSTOPs */
	struct hd_check_listener listener; /* of this process */
	uint32_t listens; /* the process that it belongs to */
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
	bool used; /* in use by the library */
	bool ended; /* its push has had its first outcome */
};

struct worker_process {
	struct process process;
	struct hd_worker *core;
	uint32_t rank;
	double slowness; /* of the compute time */
	enum worker_phase phase;
	hd_version base; /* of the present model */
	hd_version newest; /* of a synchronous job: the newest that the library knows */
	struct hd_round_info info; /* of a federated one: the round for which it is drawn */
	struct hd_round_info
		working; /* the round for which it computes: an older one when late updates count */
	bool worked; /* it has finished that round */
	uint32_t computing; /* counts started steps, also those that were given up */
	float *model;
	uint32_t pull_round;
	uint32_t in_flight; /* pushes without an outcome */
	uint64_t serial; /* invalidates planned steps of former processes and phases */
	struct hd_random
		random; /* compute times: a separate stream, so that all modes have the same ones */
	struct buffer *ready; /* computed, but not yet taken by the library */
	bool leaving, preempted;
	bool last, flushed; /* it leaves with its next step, which sends all; that was computed */
	struct buffer buffers[CLUSTER_PUSHES_MAX];
	uint64_t granted_bytes, direct_bytes, credited_bytes; /* of former processes */
};

/* One file that is replaced as a whole, as by a rename. */
struct disk {
	bool present;
	struct hd_checkpoint file; /* deep copy; spec decoded again from spec_bytes */
	uint8_t *spec;
	int spec_bytes;
	/* A write in progress. */
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
	char *kept; /* its state directory: outlives the process */
};

struct aggregator_process {
	struct process process;
	struct hd_aggregator *core;
	struct hd_aggregator_stats past; /* of former processes */
};

/* The switch on the path, if there is one. */
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

/* A step planned for later: has the state that must still be valid when it runs. */
struct step {
	LIST_ENTRY(step) link; /* cluster->steps: planned; or spare */
	struct hd_cluster *cluster;
	struct process *process;
	uint64_t serial;
	uint32_t number; /* round, index or direction, by kind */
	bool own; /* an action of the process itself: waits while it is stopped */
	void (*call)(struct step *step, hd_ns now);
};

struct kept_event {
	char node[CLUSTER_NAME_BYTES];
	struct hd_event event;
};

LIST_HEAD(step_list, step);

/* Additional state of a cluster that trains. One model serves all workers: as memory for computing. */
struct training {
	struct hd_model *model;
	struct hd_sampler *samplers; /* by worker */
	struct hd_curve curve;
	bool evaluated; /* at least once, last at: */
	hd_version version;
	hd_ns next; /* evaluation */
	bool reached;
	struct filters *filters; /* NULL: all values are pushed */
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
	bool revived; /* one of them is coming back with a lost history */
	struct hd_addr named; /* the job's server by the controller's newest message */
	uint64_t durable; /* newest counter that was sent to workers */
	uint64_t promotions, followed,
		equal; /* versions of the replica compared with the expected; with the server's */
	hd_version seen[2];
	uint64_t stepped_from; /* counter before the server's newest step, of several updates; */
	uint16_t step_more; /* of these, the ones still to be reported */
	double farthest;
	uint32_t worker_count;
	struct worker_process *workers;
	struct aggregator_process *aggregators; /* scenario.aggregators of them */
	struct switch_process path_switch;
	struct monitor_process *monitors; /* the server's, then one for each worker; NULL: none */
	int *flows; /* by tenant, then flow */
	double *link_factor; /* by worker */
	bool stopping; /* no new pushes */
	bool quiet; /* faults have stopped */
	bool planned; /* the controller planned in this step */
	bool *reserved; /* by link: scratch for reading the controller's reservations */
	struct step_list steps, spare;
	uint64_t pushed;
	uint64_t lacked; /* times that a client was told that a round has too few clients */
	uint64_t flushed; /* workers that left without held values */
	uint64_t given_up; /* steps given up because a synchronous job's model had moved on */
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
/* Runs the process when the scenario wants it and no outage prevents it; stops it otherwise. */
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
/* The switch of this process, NULL: it is none. */
struct switch_process *as_switch(struct process *process);
struct hd_node start_switch(struct switch_process *s);
void destroy_switch(struct switch_process *s);
void cluster_switch_stats(const struct hd_cluster *cluster, struct hd_cluster_result *result);

/* --- hd_cluster_aggregator.c --- */
int cluster_add_aggregators(struct hd_cluster *cluster);
void cluster_remove_aggregators(struct hd_cluster *cluster);
/* The aggregator of this process, NULL: it is none. */
struct aggregator_process *as_aggregator(struct process *process);
struct hd_node start_aggregator(struct aggregator_process *aggregator);
void destroy_aggregator(struct aggregator_process *aggregator);
/* Of all aggregators, over all their processes. */
void cluster_aggregator_stats(
	const struct hd_cluster *cluster,
	struct hd_cluster_aggregation *aggregation
);
/* --- hd_cluster_replica.c: two processes that may be the server --- */
struct server_process *as_server(struct process *process); /* NULL: another role */
/* Whether it is the job's server, by the promotions so far. */
bool cluster_is_present(const struct process *process);
/* It begins the job, from its disk or from the start: whether it is the server that the controller names. */
bool cluster_may_begin(struct server_process *server);
/* Whether a checkpoint of this version brings a lost history back to the job's server, and no other node has the
 * present one, or the controller does not know which one has: `former` is the server that this one replaced. */
bool cluster_revives(
	const struct hd_cluster *cluster,
	const struct server_process *former,
	hd_version version
);
/* Reads which node the controller calls the job's server; the last one stays while the controller is down. */
void cluster_note_server(struct hd_cluster *cluster);
/* The job continues at this version; NULL and 0: from the start. */
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

/* --- hd_cluster_network.c: switches, links and the controller's topology --- */
struct hd_topology;
int cluster_add_racks(struct hd_cluster *cluster);
/* A host's index in the simulator, or -errno. 0 Mbit/s: not shaped. */
int cluster_add_host(struct hd_cluster *cluster, uint32_t rack, double mbps);
/* A new copy, for a controller that frees it; NULL: the check has failed. */
struct hd_topology *cluster_topology(struct hd_cluster *cluster);

/* --- hd_cluster_app.c: a worker's training process --- */
extern const struct hd_worker_ops app_ops;
void app_reset(struct worker_process *worker);
void app_leave(struct worker_process *worker);
/* Its machine is taken away after `notice`. */
void app_preempt(struct worker_process *worker, hd_ns notice);

/* --- hd_cluster_buffer.c: contents of pushes --- */
/* The contents of the next push: those of the checker, or the gradient at the present model, which is computed once
 * even if the library refuses the push for a while. NULL: no buffer, or no memory. */
struct buffer *buffer_fill(struct worker_process *worker, uint64_t salt);
/* Makes a push sparse, when the scenario wants it and that is smaller. Returns the bytes on the wire. */
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
/* Tells the checker how training changes the model. */
int training_tell_check(struct hd_cluster *cluster);
void training_destroy(struct hd_cluster *cluster);
/* A new process of a worker draws its minibatches from the first one on, as heddle-train does. */
int training_start_worker(struct worker_process *worker);
/* The gradient of the next minibatch at the model that the worker holds. */
void training_gradient(struct worker_process *worker, float *gradient);
/* Evaluates the server's model when that is due. */
void training_watch(struct hd_cluster *cluster);

/* --- hd_cluster_filter.c: workers behind a filter, and the account of their values --- */
int filters_create(struct hd_cluster *cluster, char *error, size_t error_bytes);
void filters_destroy(struct hd_cluster *cluster);
/* Compares the account with the held values, and the server's model with the account. */
void filters_inspect(struct hd_cluster *cluster);
/* The same at the end, when nothing may be in flight except values lost with a worker or a server. */
void filters_settled(struct hd_cluster *cluster);
void filters_result(const struct hd_cluster *cluster, struct hd_cluster_result *result);
/* The gradient becomes the update to send. */
void filter_step(struct worker_process *worker, float *gradient);
void filter_pulled(struct worker_process *worker);
void filter_pushed(struct worker_process *worker, uint32_t round, const float *data);
/* A push that is not in the model. */
void filter_returned(struct worker_process *worker, uint32_t round);
/* A computed update is not pushed: its step has ended. */
void filter_given_up(struct worker_process *worker);
/* Its process has ended. */
void filter_gone(struct worker_process *worker);
/* It leaves after a step that sends all held values. */
void filter_leave(struct worker_process *worker);
/* A push whose outcome stays unknown: its machine is taken away. */
void filter_unknown(struct worker_process *worker, uint32_t round);
void filter_committed(struct hd_cluster *cluster, const struct hd_event *event);
/* An event of a retired server. */
void filter_lost(struct hd_cluster *cluster, const struct hd_event *event);
/* The job's server is at another version, perhaps of another history: after the checker was told. */
void filters_restored(struct hd_cluster *cluster);

/* --- hd_cluster_disk.c --- */
extern const struct hd_server_ops disk_ops;
void disk_crash(struct server_process *server);
void disk_free(struct disk *disk);

/* --- hd_cluster_faults.c: faults of the cluster --- */
int cluster_plan_faults(struct hd_cluster *cluster);
void cluster_stop_faults(struct hd_cluster *cluster);

/* --- hd_cluster_watch.c: events, checks, estimates --- */
void cluster_event(void *owner, int node, const struct hd_event *event);
/* After each step of the simulation. */
void cluster_inspect(struct hd_cluster *cluster);
void cluster_explain(struct hd_cluster *cluster);

#endif
