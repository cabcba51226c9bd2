/* SPDX-License-Identifier: BSD-3-Clause */
/* A job and its members. */
#ifndef SRV_JOB_H
#define SRV_JOB_H

#include "hd_roster.h"
#include "srv_core.h"
#include "srv_federated.h"

struct rep_job;
struct rep_primary;
struct srv_part;
LIST_HEAD(srv_member_parts, srv_part);

struct srv_round {
	uint32_t round; /* 0: none */
	uint8_t outcome, reason;
	uint32_t delay;
	hd_version version;
};

/* A worker of a job; outlives its sessions. */
struct srv_member {
	uint16_t rank;
	bool left;
	bool done; /* pushes no more, and waits for the outcomes of its pushes */
	bool observer; /* only pulls, and is in no roster */
	bool joined; /* in this incarnation of the server */
	struct srv_peer *peer; /* NULL: no session */
	uint32_t newest_round;
	uint32_t first_round; /* the newest before this incarnation */
	struct srv_member_draw draw;
	struct hd_worker_summary tally;
	struct srv_round rounds[HD_ROUNDS_KEPT]; /* rounds[round % HD_ROUNDS_KEPT] */
	struct srv_member_parts parts; /* its incoming pushes */
};

/* The update, or a step's first one, that is being applied. A large one takes several calls, a slice in each, so that
 * packets are handled in between. Until it is complete, the model cannot be pinned. */
struct srv_apply {
	struct srv_incoming *in; /* NULL: none */
	struct srv_buffer *model,
		*momentum; /* written to: the job's own, or copies if others read those */
	uint64_t done; /* values; of a sparse one: copied into the buffers written to */
	uint64_t read; /* bytes of a sparse one */
	double momentum2, weights2; /* as the job's, after the step */
	float mean; /* of a synchronous step: factor on its sum: the step's scale / weight */
};

/* A synchronous job's next step: complete updates, added up (srv_step.c). */
struct srv_step {
	struct srv_incoming_list members; /* by queue_link, in the order of adding */
	uint32_t count; /* updates in them */
	/* From one change of the roster: its number (0: none yet), N, the factor on the mean (0: none yet). */
	uint64_t change;
	uint32_t most;
	float scale;
	uint32_t late; /* of these: from earlier rounds of a federated job */
	double weight; /* total of theirs: the sum is divided by it */
	struct srv_buffer *sum; /* kept from step to step; NULL: none yet */
	struct srv_incoming *adding; /* the last member, until it is added completely */
	uint64_t done, read; /* of that one: values; bytes if it is sparse */
	/* norm2 is the sum's; N workers were here at once; no memory for the sum; it began; the wait was reported */
	bool normed, formed, starved;
	hd_ns since, reported_at;
	double norm2;
};

enum srv_job_phase {
	SRV_JOB_OPEN,
	SRV_JOB_ENDING, /* ends once its last checkpoint is written, unless SERVE comes */
	SRV_JOB_RETIRED /* another node is its server: ends */
};

struct srv_job {
	uint32_t id;
	enum srv_job_phase phase; /* changed by srv_job_enter_phase() only */
	struct hd_jobspec spec;
	uint64_t values, bytes;
	hd_version version;
	hd_version durable; /* last sent to workers: on the replica, or in a checkpoint */
	hd_version saved; /* in a checkpoint */
	uint32_t prior_count;
	struct hd_incarnation prior[HD_INCARNATIONS_MAX];
	struct srv_member **members; /* HD_WORKERS_MAX, by rank */
	uint32_t member_count;
	/* srv_memory.c */
	struct srv_buffer *pool;
	uint32_t buffer_count, buffer_floor; /* allocated; never trimmed below */
	struct srv_buffer *spare[2]; /* for the copy that a commit must make: model, momentum */

	struct srv_buffer *model, *momentum;
	LIST_HEAD(srv_snapshots, srv_snapshot) snapshots;
	uint32_t snapshot_count;

	struct srv_incoming_list open; /* all, in the order of their announcement */
	struct srv_incoming_list queue; /* those with a position, and complete direct ones */
	struct srv_outgoing_list pulls;
	uint32_t open_count, pull_count;
	uint64_t position; /* highest announced */
	struct hd_timer hold;
	bool dirty; /* apply the commit rule */
	struct srv_apply apply;
	struct srv_step step;
	struct srv_federated federated;
	struct hd_commit *log; /* HD_COMMITS_KEPT */
	uint64_t log_count;

	/* srv_checkpoint.c */
	bool checkpointing, restoring, checkpoint_asked; /* asked: and not begun yet */
	uint32_t checkpoint_failures; /* in a row, at most HD_CHECKPOINT_BACKOFF_MAX */
	uint64_t commits_since;
	struct hd_checkpoint checkpoint;
	struct srv_buffer *checkpoint_state[2]; /* model, momentum */
	struct hd_timer retry;

	/* srv_replica.h: at most one of them. Norms are kept while there is a replica. */
	struct rep_primary *primary; /* of its replica; NULL: it has none */
	struct rep_job *replica; /* this job is another node's replica; NULL: it is not */
	bool replicated; /* its replica may be promoted: durable is what that confirmed, */
	hd_version replicated_to; /* up to here */
	double momentum2, weights2; /* squared L2 norms */
	uint64_t generation; /* of the newest assignment from the controller */
	bool asking, confirmed; /* waits for the controller's answer to its STATE; has had it */

	/* srv_roster.c: the members, from the controller or from us: */
	struct hd_roster roster;
	uint8_t roster_ranks[HD_ROSTER_BYTES]; /* as last sent */
	uint64_t roster_changes;
	struct hd_timer roster_timer;

	/* srv_end.c */
	hd_ns idle_since; /* when the last worker left; 0: there is one */
	bool left; /* the last worker sent LEAVE: none is expected back */
	bool unlisted; /* the controller forgot it, and a worker is here */
	struct hd_timer idle;

	/* srv_summary.c */
	bool emptied; /* a worker left; once none is here the summary is due */
	struct hd_job_summary summary;
	TAILQ_ENTRY(srv_job) link;
};

/* No worker may push or pull here (yet): it waits for a checkpoint or the controller, is a replica, or is another
 * node's. */
static inline bool srv_job_away(const struct srv_job *job) {
	return job->restoring || job->asking || job->replica || job->phase == SRV_JOB_RETIRED;
}

/* The newest assignment by the controller. */
static inline void srv_job_saw_generation(struct srv_job *job, uint64_t generation) {
	if (generation > job->generation)
		job->generation = generation;
}

/* --- finding: srv_member.c -------------------------------------------------------------------- */
struct srv_job *srv_job_find(const struct hd_server *server, uint32_t id);
struct srv_member *srv_job_member(const struct srv_job *job, uint16_t rank);
/* The only function that changes a job's phase. */
void srv_job_enter_phase(struct srv_job *job, enum srv_job_phase phase);
/* The worker's record in the job, created if it is new. NULL: no memory. */
struct srv_member *srv_job_enter(struct srv_job *job, uint16_t rank);
/* A worker left, or none has come yet: starts the idle timer. */
void srv_job_idle(struct srv_turn *turn, struct srv_job *job);
/* True when no worker is here. */
bool srv_job_empty(const struct srv_job *job, const struct srv_peers *peers);
/* True when `base` is in this job's history. */
bool srv_job_knows(const struct srv_job *job, hd_version base);
const struct srv_round *srv_member_round(const struct srv_member *member, uint32_t round);
/* True for rounds so old that their outcome is no longer known. */
bool srv_member_forgot(const struct srv_member *member, uint32_t round);
void srv_member_record(struct srv_member *member, const struct srv_round *round);
/* Forgets all its rounds: a state says which are in the model. */
void srv_member_forget(struct srv_member *member);
/* Fills rows with the newest applied rounds, and the newest of all: at most that many, oldest first; NULL only
 * counts. */
uint32_t
srv_member_applied(const struct srv_member *member, uint32_t most, struct hd_last_round *rows);

/* --- messages to others ----------------------------------------------------------------------- */
/* Updates the newest durable version after a change, and tells the workers. */
void srv_durable_update(struct srv_turn *turn, struct srv_job *job);
/* Tells the controller the job's state and its open transfers. */
void srv_announce(struct srv_turn *turn, const struct srv_job *job);

#endif
