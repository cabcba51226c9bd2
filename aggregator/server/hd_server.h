/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameter server core: jobs, commit log, optimizer, pinned snapshots, checkpoints.
 *
 *   chunks --> assembly (one buffer an update) --> complete --> commit in order --> model, momentum
 *                                                       \--> late, lost-base, void: dropped whole
 *   pull grant --> pin a snapshot --> chunks out
 *
 * The commit log is the order. An update is applied whole or not at all.
 */
#ifndef HD_SERVER_H
#define HD_SERVER_H

#include "hd_event.h"
#include "hd_jobspec.h"
#include "hd_keys.h"
#include "hd_node.h"
#include "hd_stats.h"

struct hd_server;

/* A round of a worker that is in the model. A checkpoint has those of the newest HD_ROUNDS_KEPT rounds
 * of each worker, in the order (worker, round): a round asked for again is recognised exactly, also
 * when a later one was applied before it. The newest round of all is there as well when it ended otherwise (version 0,
 * outcome PENDING): what is HD_ROUNDS_KEPT older may have been applied, and is known no more. */
struct hd_last_round {
	uint16_t worker;
	uint8_t outcome;
	uint32_t round;
	uint32_t delay;
	hd_version version; /* after its commit */
};

/* A former life of the job's server: updates up to version (incarnation, last) are in this history. */
struct hd_life {
	uint16_t incarnation;
	uint64_t last;
};

/* A job's whole state. Arrays are owned by whoever the call says. */
struct hd_checkpoint {
	uint32_t job;
	hd_version version;
	uint64_t values;
	float *model;
	float *momentum;
	struct hd_jobspec spec;
	uint32_t round_count;
	struct hd_last_round *rounds;
	uint32_t life_count; /* lives before `version`'s, oldest first, at most HD_LIVES_MAX */
	struct hd_life *lives;
	/* From restore: the newest incarnation that left any trace, also one that cannot be read
	 * any more; the next life takes a greater one. 0: that of `version`. Not in the file. */
	uint16_t newest_incarnation;
};

/* One worker of a job, in this life of the server. */
struct hd_worker_summary {
	uint16_t worker;
	bool left; /* it said so; else it was lost */
	uint32_t rounds; /* that began in this life, as far as the server heard of them */
	uint64_t applied, dropped, failed;
	uint64_t delay_sum; /* of the applied */
};

/*
 * How a job went in this life of the server. dropped and failed are what the server decided, by reason;
 * the rest of the rounds ended elsewhere: at the controller, or withdrawn before the server saw them.
 */
struct hd_job_summary {
	uint32_t job;
	const struct hd_jobspec *spec;
	bool resumed; /* from a checkpoint */
	hd_ns begun, ended; /* first JOIN of this life; now */
	hd_version version, durable;
	uint64_t bytes; /* of the model */
	uint64_t rounds, applied;
	uint64_t direct; /* of the applied: without a controller's grant */
	uint64_t dropped[HD_REASON_COUNT], failed[HD_REASON_COUNT];
	uint64_t interrupted[HD_REASON_COUNT]; /* transfers that ended without ending their round */
	uint64_t delay_sum, delay_squares; /* of the applied */
	uint32_t delay_max;
	uint64_t pulls, pulls_not_modified; /* delivered; nothing newer */
	uint32_t worker_count;
	const struct hd_worker_summary *workers; /* by rank */
};

struct hd_server_ops {
	/* Adds what the core cannot see to the numbers that shells ask for: ports, queues, cores. May be
	 * NULL. */
	void (*gather)(void *owner, struct hd_stats *stats);
	/* Begin writing. Everything in *checkpoint stays unchanged until hd_server_checkpoint_done().
	 * Returns 0 or -errno: then no done call follows, the server retries later and reports it. */
	int (*checkpoint)(void *owner, const struct hd_checkpoint *checkpoint);
	/* A job begins: is there a checkpoint? 0 with malloc'ed arrays, taken over by the server;
	 * -ENOENT: none; else the job is refused with that error. A restored job takes the next
	 * incarnation, writes a checkpoint under it, and answers JOIN once that is done: no two
	 * lives ever give out the same version. */
	int (*restore)(void *owner, uint32_t job, struct hd_checkpoint *checkpoint);
	/* Is there any checkpoint, of whatever job? True also when that cannot be told. NULL: there is none. */
	bool (*keeps)(void *owner);
	/* Everybody has left or was lost, and the last checkpoint was tried; or the server ends. What the
	 * summary points to is valid during the call. A job may be joined again: then another one follows.
	 * May be NULL. */
	void (*summary)(void *owner, const struct hd_job_summary *summary);
};

struct hd_server_config {
	const char *name;
	const char *host; /* its name in the topology */
	bool replica; /* keeps copies of jobs of other hosts' servers, and begins none by itself */
	const struct hd_keyring *keys;
	uint16_t key_id;
	uint8_t seed[32];
	struct hd_addr controller; /* none: stand-alone, workers go direct */
	bool never_alone; /* begins no job without the controller's word, however long that is silent */
	struct hd_addr data; /* own address, as workers reach it */
	uint64_t memory_bytes; /* for models, snapshots and updates in flight; 0: 1 GiB */
	uint32_t chunk_bytes; /* of pulls; 0: HD_CHUNK_BYTES_DEFAULT */
	uint32_t receive_window_bytes; /* what the driver can buffer; 0: 1 MiB */
	uint32_t hold_us; /* 0: HD_HOLD_US */
	uint64_t job_idle_us; /* nobody in a job for so long: it ends; 0: HD_JOB_IDLE_US */
	uint64_t apply_values; /* of a model that one call changes; 0: HD_APPLY_VALUES */
	uint32_t checkpoint_commits; /* every so many commits; 0: never */
	const struct hd_server_ops *ops; /* may be NULL */
	void *owner;
};

int hd_server_create(const struct hd_server_config *config, struct hd_server **server);
void hd_server_destroy(struct hd_server *server);
extern const struct hd_core_ops hd_server_ops;

/* The write begun by ops->checkpoint ended with 0 or -errno. */
void hd_server_checkpoint_done(
	struct hd_server *server,
	hd_ns now,
	uint32_t job,
	int status,
	struct hd_sink *sink
);
/* Drains every job: a last checkpoint of each is asked for; true when nothing is under way. */
bool hd_server_drain(struct hd_server *server, hd_ns now, struct hd_sink *sink);

/* An entry of the commit log. */
struct hd_commit {
	uint64_t position; /* proposed; 0: granted directly */
	hd_version version; /* after it */
	hd_version base;
	uint16_t worker;
	uint32_t round;
	uint32_t delay;
	float weight; /* that the worker multiplied it by */
	uint64_t bytes;
	uint16_t more; /* of the same step, a sum's, after this one */
};

/* All since creation. A dropped chunk has no other effect than its counter. */
struct hd_server_stats {
	uint64_t chunks, chunk_bytes;
	uint64_t drop_malformed, drop_version, drop_type;
	uint64_t drop_token; /* no such transfer: forged, late, or ahead of its EXPECT */
	uint64_t
		drop_source; /* not from the address that the transfer's sender has its session from */
	uint64_t
		drop_mac; /* its MAC is not that of its header and values, or its key is not here */
	uint64_t drop_mismatch; /* the header or the size disagrees with the grant */
	uint64_t drop_memory; /* no buffer free for the update just now */
	uint64_t duplicates; /* chunks that were held already */
	uint64_t refused_messages; /* out of place: role, job, worker, epoch */
	uint64_t joins_delayed; /* of workers that were told to come later */
	uint64_t granted, expected; /* pushes */
	uint64_t credits, credits_spent, credits_unspent;
	uint64_t committed, dropped, failed, voided, overtaken, replaced;
	uint64_t sync_steps; /* of synchronous jobs; their updates count as committed */
	uint64_t sums; /* steps that were sums; their parts count as committed */
	uint64_t pulls, pulls_delivered, pulls_not_modified, pulls_failed, pulls_older;
	uint64_t snapshots, copies; /* pinned; copied because a commit came */
	uint64_t steps; /* calls' parts of commits; more than commits: some took several */
	uint64_t checkpoints, checkpoint_errors;
	uint64_t states_sent, log_messages; /* to replicas */
	uint64_t commits_held; /* waited for the replica */
	uint64_t replicated, copies_asked, copies_lost, states_taken; /* as a replica */
	uint64_t promoted, retired, ended, begun_alone; /* jobs */
	uint64_t notices; /* workers without a controller that said that they will be preempted */
	uint64_t sends_broken; /* sessions given up because their queue was full */
	uint64_t memory_bytes; /* held now */
};
const struct hd_server_stats *hd_server_stats(const struct hd_server *server);
/* Adds these, the endpoint's and where each job stands, with what each means. */
extern const struct hd_stat_group hd_server_group, hd_server_job_group;
extern const struct hd_stat_group *const hd_server_groups[]; /* NULL after the last */
void hd_server_gather(const struct hd_server *server, struct hd_stats *stats);
/* What a shell gets by message: the tables models, rounds, ports, queues, cores, counters and histograms, as hd_rows.h
 * has them; malloc'ed. NULL with *error set: no such table, bad filter. */
extern const struct hd_row_shape *const hd_server_shapes[]; /* NULL after the last */
char *hd_server_table(
	const struct hd_server *server,
	hd_ns now,
	const char *table,
	const char *filter,
	const char **error
);

/* Copies the newest entries of the commit log, oldest of them first; returns how many. */
size_t hd_server_log(
	const struct hd_server *server,
	uint32_t job,
	struct hd_commit *commits,
	size_t capacity
);

/* What tests and the simulator look at. NULL / 0 for an unknown job; no model and no momentum while an
 * update is half applied. */
const float *hd_server_model(const struct hd_server *server, uint32_t job, uint64_t *values);
const float *hd_server_momentum(const struct hd_server *server, uint32_t job);
hd_version hd_server_version(const struct hd_server *server, uint32_t job);
/* Whether the job has a replica that may be promoted. */
bool hd_server_replicated(const struct hd_server *server, uint32_t job);

#endif
