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

/* A round of a worker that is in the model. A checkpoint has, for each worker, those of its newest HD_ROUNDS_KEPT
 * rounds, ordered by (worker, round), so that a repeated push is recognised exactly, even if a later one was applied
 * before it. A worker's newest round is there too if it ended otherwise (version 0, outcome PENDING): rounds that are
 * HD_ROUNDS_KEPT older may have been applied, but their outcome is no longer known. */
struct hd_last_round {
	uint16_t worker;
	uint8_t outcome;
	uint32_t round;
	uint32_t delay;
	hd_version version; /* after its commit */
};

/* An earlier incarnation of the job's server: updates up to version (incarnation, last) are in this history. */
struct hd_incarnation {
	uint16_t incarnation;
	uint64_t last;
};

/* A job's whole state. Each call says who owns the arrays. */
struct hd_checkpoint {
	uint32_t job;
	hd_version version;
	uint64_t values;
	float *model;
	float *momentum;
	struct hd_jobspec spec;
	uint32_t round_count;
	struct hd_last_round *rounds;
	uint32_t prior_count; /* earlier incarnations, oldest first, at most HD_INCARNATIONS_MAX */
	struct hd_incarnation *prior;
	/* From restore: the newest incarnation that left any trace, even an unreadable one; the restored job takes a
	 * greater one. 0: that of `version`. Not in the file. */
	uint16_t newest_incarnation;
};

/* One worker of a job, in this incarnation of the server. */
struct hd_worker_summary {
	uint16_t worker;
	bool left; /* it sent LEAVE; else it was lost */
	uint32_t rounds; /* begun in this incarnation, as far as the server knows */
	uint64_t applied, dropped, failed;
	uint64_t delay_sum; /* of applied updates */
};

/*
 * Summary of a job in this incarnation of the server. dropped and failed count the server's decisions, by reason; the
 * other rounds ended elsewhere: at the controller, or withdrawn before the server saw them.
 */
struct hd_job_summary {
	uint32_t job;
	const struct hd_jobspec *spec;
	bool resumed; /* from a checkpoint */
	hd_ns begun, ended; /* first JOIN of this incarnation; now */
	hd_version version, durable;
	uint64_t bytes; /* of the model */
	uint64_t rounds, applied;
	uint64_t direct; /* applied without a controller's grant */
	uint64_t dropped[HD_REASON_COUNT], failed[HD_REASON_COUNT];
	uint64_t interrupted[HD_REASON_COUNT]; /* by reason: transfers whose round went on */
	uint64_t delay_sum, delay_squares; /* of applied updates */
	uint32_t delay_max;
	uint64_t pulls, pulls_not_modified; /* delivered; nothing newer */
	uint32_t worker_count;
	const struct hd_worker_summary *workers; /* by rank */
};

struct hd_server_ops {
	/* Adds counters from outside of the core, of ports, queues and cores, to those that shells ask for. May be
	 * NULL. */
	void (*gather)(void *owner, struct hd_stats *stats);
	/* Begins writing. Everything in *checkpoint stays unchanged until hd_server_checkpoint_done(). Returns 0 or
	 * -errno: then no done call follows, and the server retries later and reports it. */
	int (*checkpoint)(void *owner, const struct hd_checkpoint *checkpoint);
	/* A job begins: is there a checkpoint? 0 with malloc'ed arrays, taken over by the server; -ENOENT: none; any
	 * other error refuses the job. A restored job takes the next incarnation, writes a checkpoint under it, and
	 * answers JOIN once that is done: no two incarnations ever give out the same version. */
	int (*restore)(void *owner, uint32_t job, struct hd_checkpoint *checkpoint);
	/* Whether there is any checkpoint, of any job; true also if that cannot be determined. NULL: there is none. */
	bool (*keeps)(void *owner);
	/* Called when all workers have left or were lost and the last checkpoint was tried, or the server ends. The
	 * data that the summary points to are valid during the call. A job may be joined again: then another summary
	 * follows. May be NULL. */
	void (*summary)(void *owner, const struct hd_job_summary *summary);
};

struct hd_server_config {
	const char *name;
	const char *host; /* its name in the topology */
	bool replica; /* keeps replicas of other servers' jobs, and begins no job unasked */
	const struct hd_keyring *keys;
	uint16_t key_id;
	uint8_t seed[32];
	struct hd_addr controller; /* none: no controller, workers ask us directly */
	bool never_alone; /* begins no job unless the controller orders it */
	struct hd_addr data; /* own address, as workers reach it */
	uint64_t memory_bytes; /* for models, snapshots and updates in flight; 0: 1 GiB */
	uint32_t chunk_bytes; /* of pulls; 0: HD_CHUNK_BYTES_DEFAULT */
	uint32_t receive_window_bytes; /* what the driver can buffer; 0: 1 MiB */
	uint32_t hold_us; /* 0: HD_HOLD_US */
	uint64_t job_idle_us; /* a job without workers ends after this; 0: HD_JOB_IDLE_US */
	uint64_t apply_values; /* values of a model that one call changes; 0: HD_APPLY_VALUES */
	uint32_t checkpoint_commits; /* commits between two; 0: never */
	const struct hd_server_ops *ops; /* may be NULL */
	void *owner;
};

int hd_server_create(const struct hd_server_config *config, struct hd_server **server);
void hd_server_destroy(struct hd_server *server);
extern const struct hd_core_ops hd_server_ops;

/* The write that ops->checkpoint began ended with 0 or -errno. */
void hd_server_checkpoint_done(
	struct hd_server *server,
	hd_ns now,
	uint32_t job,
	int status,
	struct hd_sink *sink
);
/* Drains every job and asks for a last checkpoint of each; true when nothing is pending. */
bool hd_server_drain(struct hd_server *server, hd_ns now, struct hd_sink *sink);

/* An entry of the commit log. */
struct hd_commit {
	uint64_t position; /* proposed; 0: granted directly */
	hd_version version; /* after the commit */
	hd_version base;
	uint16_t worker;
	uint32_t round;
	uint32_t delay;
	float weight; /* by which the worker multiplied it */
	uint64_t bytes;
	uint16_t more; /* entries of the same step or sum after this one */
};

/* Counted since creation. A dropped chunk has no effect other than its counter. */
struct hd_server_stats {
	uint64_t chunks, chunk_bytes;
	uint64_t drop_malformed, drop_version, drop_type;
	uint64_t drop_token; /* no such transfer: forged, late, or ahead of its EXPECT */
	uint64_t drop_source; /* not from the address of the sender's session */
	uint64_t drop_mac; /* the MAC does not match the header and values, or the key is unknown */
	uint64_t drop_mismatch; /* the header or the size disagrees with the grant */
	uint64_t drop_memory; /* no free buffer for the update */
	uint64_t duplicates; /* chunks that were held already */
	uint64_t refused_messages; /* wrong role, job, worker or epoch */
	uint64_t joins_delayed; /* answered with a time to come later */
	uint64_t granted, expected; /* pushes */
	uint64_t credits, credits_spent, credits_unspent;
	uint64_t committed, dropped, failed, voided, overtaken, replaced;
	uint64_t sync_steps; /* of synchronous jobs; their updates count as committed */
	uint64_t sums; /* sums that were one step; their parts count as committed */
	uint64_t pulls, pulls_delivered, pulls_not_modified, pulls_failed, pulls_older;
	uint64_t snapshots, copies; /* pinned; copied because a commit changed the model */
	uint64_t steps; /* calls that applied part of a commit; large commits take several */
	uint64_t checkpoints, checkpoint_errors;
	uint64_t states_sent, log_messages; /* sent to replicas */
	uint64_t commits_held; /* delayed until the replica confirmed */
	uint64_t replicated, copies_asked, copies_lost, states_taken; /* as a replica */
	uint64_t promoted, retired, ended, begun_alone; /* jobs */
	uint64_t notices; /* workers without a controller that announced their preemption */
	uint64_t sends_broken; /* sessions closed because their queue was full */
	uint64_t memory_bytes; /* held now */
};
const struct hd_server_stats *hd_server_stats(const struct hd_server *server);
/* Adds these counters, the endpoint's and the state of each job, with their descriptions. */
extern const struct hd_stat_group hd_server_group, hd_server_job_group;
extern const struct hd_stat_group *const hd_server_groups[]; /* NULL after the last */
void hd_server_gather(const struct hd_server *server, struct hd_stats *stats);
/* Answers a shell: the tables models, rounds, ports, queues, cores, counters and histograms in hd_rows.h's format;
 * malloc'ed. NULL with *error set: no such table, bad filter. */
extern const struct hd_row_shape *const hd_server_shapes[]; /* NULL after the last */
char *hd_server_table(
	const struct hd_server *server,
	hd_ns now,
	const char *table,
	const char *filter,
	const char **error
);

/* Copies the newest entries of the commit log, oldest first; returns how many. */
size_t hd_server_log(
	const struct hd_server *server,
	uint32_t job,
	struct hd_commit *commits,
	size_t capacity
);

/* For tests and the simulator. NULL / 0 for an unknown job; no model and no momentum while an update is half
 * applied. */
const float *hd_server_model(const struct hd_server *server, uint32_t job, uint64_t *values);
const float *hd_server_momentum(const struct hd_server *server, uint32_t job);
hd_version hd_server_version(const struct hd_server *server, uint32_t job);
/* Whether the job has a replica that may be promoted. */
bool hd_server_replicated(const struct hd_server *server, uint32_t job);

#endif
