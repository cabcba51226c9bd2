/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication, shared by the server core's files only. A job that has a replica has a hd_follow at its server and a
 * hd_mirror at the replica, which is the same core (docs/architecture.md, Replica).
 *
 *   server                                       replica
 *   hd_server_follow.c   orders, permits, confirmed      hd_replica.c         orders, the log's queue, applying
 *   hd_server_link.c     the session between the two
 *   hd_server_seed.c     -- SEED, chunks, LOG(past) -->   hd_replica_seed.c    a state in the making
 *                        -- LOG ---------------------->   hd_replica_copy.c    copies, from workers
 *                        <------------------- FOLLOW --       hd_replica_sum.c     sums, from aggregators
 */
#ifndef HD_REPLICA_H
#define HD_REPLICA_H

#include "hd_divergence.h"
#include "hd_entry.h"
#include "hd_server_end.h"

#define HD_LOG_BYTES_MAX 32768 /* of the entries in one LOG */
#define HD_LIFE_BYTES 10 /* of one in SEED.lives */
#define HD_FOLLOW_RETRY_US 100000 /* a state that found no memory; between two after a hole */
#define HD_LINK_AGAIN_US 1000000 /* to a replica that refused the session */
#define HD_FOLLOW_TELL_US 100000 /* the controller hears of progress so often */
#define HD_ROUNDS_SEEDED_MANY 512 /* of more workers than this, */
#define HD_ROUNDS_SEEDED_FEW 16 /* only so many rounds travel with a state */
#define HD_MIRROR_BUFFERS 6 /* model, momentum, both once more on their way, two copies */
#define HD_MIRROR_ASKED_MAX 32 /* entries whose copies are asked for at once */
#define HD_MIRROR_QUEUE_MAX 4096 /* entries */
#define HD_MIRROR_LOOK_US 50000
#define HD_MIRROR_AGAIN_US 200000 /* a copy that ended without its bytes is asked for again */
#define HD_MIRROR_FALLBACK_US 1000000 /* nobody plans: states instead */
#define HD_MIRROR_SILENT_US 5000000 /* one that moves no more, too */
#define HD_MIRROR_ATTEMPTS_MAX 8
#define HD_MIRROR_SUMS_MAX 16 /* that the log has not named; */
#define HD_MIRROR_UNNAMED_US 10000000 /* and that nothing came of for so long, are forgotten */
#define HD_MIRROR_SUM_SILENT_US 1000000 /* one that it has named: the server had all of it then */
#define HD_STAGED_MAX 262144 /* rounds that come with a state */
/* Incarnations from a server's to that of the replica that takes its place. The server itself may come back, and counts
 * its restarts one by one: so many are its own. Of replicas' lives, two that cannot ask each other differ. */
#define HD_SERVE_LEAST 16
#define HD_SERVE_SPAN 240

/* --- the server's side ----------------------------------------------------------------------- */

/* A session with a replica's node, shared by the jobs that it keeps. */
struct hd_link {
	struct hd_addr addr;
	struct hd_session *session; /* NULL: refused, or given up; opened anew at */
	hd_ns again_at;
	struct hd_peer *peer; /* NULL: not open */
	uint32_t users;
	TAILQ_ENTRY(hd_link) link;
};

/* Model or momentum on its way to the replica. */
struct hd_seed_part {
	struct hd_handle handle; /* first */
	struct hd_follow *follow;
	struct hd_send *send; /* NULL: none under way */
	struct hd_timer timer;
};

struct hd_follow {
	struct hd_job *job;
	struct hd_link *link;
	uint64_t generation, rate_bps;
	double div_set; /* as REPLICA says it */
	uint32_t every;
	uint8_t state; /* enum hd_follow_state, as the replica said last */
	bool logs; /* a state is there or on its way: entries are sent */
	bool stepping; /* the replica has a state: commits stay near it */
	bool active; /* and was near enough once: it may be promoted, and durable means there */
	bool due; /* a state is to be sent as soon as that is possible */
	bool held; /* a commit waits for the replica */
	hd_version confirmed; /* the newest that the replica has whole */
	uint32_t behind;
	/* A state under way. */
	bool seeding;
	hd_version seed;
	struct hd_buffer *held_state[2];
	struct hd_seed_part part[2];
	hd_ns again_at; /* not before this */
	hd_ns seed_at; /* the last one began */
	struct hd_timer timer;
	/* The bound of the distance, from `origin` on. It is the replica's once that has come so far. */
	hd_version origin;
	hd_version versions[HD_REPLICA_LAG_MAX]; /* of divergence.steps */
	struct hd_divergence divergence;
	/* What the controller heard. */
	hd_ns told_at;
	hd_version told_version;
	uint8_t told_state;
	bool told_held, told_active;
};

/* Whether the job may begin here, as far as the controller said. */
bool hd_mirror_may_begin(const struct hd_server *server, uint32_t job);
/* Another node is the job's server: it goes, and its workers' sessions with it. */
void hd_job_retire(struct hd_turn *turn, struct hd_job *job);
void hd_follow_order(struct hd_turn *turn, const struct hd_msg_replica *order);
void hd_follow_fini(struct hd_turn *turn, struct hd_job *job);
/* Without a turn, when the job ends with the server. */
void hd_follow_free(struct hd_server *server, struct hd_job *job);
void hd_follow_message(
	struct hd_turn *turn,
	struct hd_peer *peer,
	const struct hd_msg_follow *message
);
/* Whether this update may be committed next; notes that one waits. */
bool hd_follow_permits(struct hd_turn *turn, struct hd_job *job, struct hd_incoming *in);
/* The job's newest version was made by `in`: tells the replica. */
void hd_follow_committed(struct hd_turn *turn, struct hd_job *job, struct hd_incoming *in);
/* Between two commits: sends a state when one is due; tells the controller. */
void hd_follow_consider(struct hd_turn *turn, struct hd_job *job);
/* All that a new controller should know. */
void hd_follow_announce(struct hd_turn *turn, const struct hd_job *job);
/* Job's newest durable version after something changed; tells. */
void hd_durable_update(struct hd_turn *turn, struct hd_job *job);
/* The controller has heard that the job is here, and said that this node is its server. */
void hd_job_confirm(struct hd_turn *turn, struct hd_job *job);
/* It is silent: the job goes on without that word. */
void hd_job_alone(struct hd_turn *turn, struct hd_job *job);
/* The same, of all: who waits for that word joins without it. Nothing is durable before it comes. */
void hd_jobs_alone(struct hd_turn *turn);
double hd_follow_divergence(const struct hd_follow *follow); /* < 0: not known */

/* --- hd_server_link.c --- */
/* The session with this address, opened if there is none; one user more. NULL: no memory. */
struct hd_link *hd_link_get(struct hd_turn *turn, struct hd_addr addr);
void hd_link_put(struct hd_server *server, struct hd_turn *turn, struct hd_link *link);
void hd_link_opened(struct hd_turn *turn, struct hd_peer *peer);
void hd_link_closed(struct hd_turn *turn, const struct hd_peer *peer);
/* This session will not open again by itself: the endpoint frees it. Any session. */
void hd_link_lost(struct hd_turn *turn, const struct hd_session *session);
/* Opens it anew when that is due. Returns when to call again; HD_NEVER: there is a session. */
hd_ns hd_link_again(struct hd_turn *turn, struct hd_link *link);

/* --- hd_server_seed.c --- */
void hd_seed_begin(struct hd_turn *turn, struct hd_follow *follow);
void hd_seed_end(struct hd_server *server, struct hd_follow *follow);
/* Ends what has ended. */
void hd_seed_check(struct hd_turn *turn, struct hd_follow *follow);
void hd_seed_sack(struct hd_turn *turn, struct hd_seed_part *part, const struct hd_msg_sack *sack);
/* One part's turn: returns the packets that it sent. */
size_t hd_seed_poll(struct hd_turn *turn, struct hd_timer *timer);
/* Sends the entries of the job's newest version, which `in` (of a step: its first member) made; `update`: the norm. */
void hd_log_commit(
	struct hd_turn *turn,
	struct hd_job *job,
	const struct hd_incoming *in,
	double update
);

/* --- the replica's side ---------------------------------------------------------------------- */

/* An entry of the log that is not applied yet. */
struct hd_mirror_entry {
	TAILQ_ENTRY(hd_mirror_entry) link;
	struct hd_mirror *mirror;
	struct hd_entry head; /* without records */
	struct hd_incoming
		*copy; /* NULL: not granted yet; an entry of several without one is lost */
	bool asked;
	bool lost; /* its copy will never come: nor will the step that it is in */
	uint8_t attempt; /* newest asked for */
	hd_ns since; /* told of, or asked for last */
	struct hd_entry_member members[]; /* head.member_count */
};
TAILQ_HEAD(hd_mirror_entries, hd_mirror_entry);

struct hd_seed_in {
	struct hd_handle handle; /* first */
	struct hd_seal seal;
	struct hd_mirror *mirror;
	struct hd_buffer *buffer;
	struct hd_recv *recv; /* NULL: none */
	bool whole;
};

struct hd_mirror {
	struct hd_job *job;
	uint64_t generation;
	struct hd_peer *source; /* the server's session; NULL: gone */
	bool seeded; /* job->model is a version */
	bool serve; /* as soon as nothing more can be applied */
	uint64_t serve_generation;
	uint32_t every; /* states only */
	hd_version told;
	uint8_t told_state;
	struct hd_mirror_entries entries;
	uint32_t entry_count;
	struct hd_incoming_list sums; /* by queue_link: that the log has not named, oldest first */
	uint32_t sum_count;
	struct hd_timer timer;
	/* A state on its way. */
	bool seeding;
	hd_version seed;
	struct hd_seed_in part[2];
	uint32_t life_count;
	struct hd_life lives[HD_LIVES_MAX];
	uint32_t staged_count, staged_capacity;
	struct hd_last_round *staged;
	bool staged_all;
	TAILQ_ENTRY(hd_mirror) link;
};

/* --- hd_replica.c --- */
/* So many it needs at least: of steps the sum as well. */
static inline uint32_t hd_mirror_buffers(const struct hd_job *job) {
	return HD_MIRROR_BUFFERS + (job->spec.sync != HD_SYNC_NONE ? 1 : 0);
}
void hd_mirror_log(struct hd_turn *turn, struct hd_peer *peer, const struct hd_msg_log *log);
/* Applies what can be applied. False: the call's step was used up before that. */
bool hd_mirror_run(struct hd_turn *turn, struct hd_job *job);
void hd_mirror_serve(struct hd_turn *turn, const struct hd_msg_replica *order);
/* The first entry that is neither applied nor in the step that is added up; NULL: none. */
struct hd_mirror_entry *hd_mirror_first(const struct hd_mirror *mirror);
/*
 * Whether this peer, who joins a job, must wait: it is not here and may not begin. With a controller it may when that
 * said so, for another node may have it; of its own accord only at a server that cannot hear it.
 */
bool hd_mirror_waits(const struct hd_server *server, struct hd_peer *peer, uint32_t job);
/* The controller's newest word on who is its server. */
static inline void hd_job_told(struct hd_job *job, uint64_t generation) {
	if (generation > job->generation) {
		job->generation = generation;
	}
}
/* Who joined this job (0: any) while it might not begin joins again. */
void hd_mirror_ask_joins(struct hd_server *server, uint32_t job);
void hd_mirror_may(struct hd_server *server, uint32_t job, bool may, uint64_t generation);
/* The word by which this node is to be the server of a job that is not here; 0: none. */
uint64_t hd_mirror_serves(const struct hd_server *server, uint32_t job);
/* Of the newest word about a job that is not here; 0: none. */
uint64_t hd_mirror_generation(const struct hd_server *server, uint32_t job);
void hd_mirror_timer(struct hd_turn *turn, struct hd_mirror *mirror);
void hd_mirror_free(struct hd_server *server, struct hd_job *job);
struct hd_mirror *hd_mirror_of(const struct hd_server *server, uint32_t job);
void hd_mirror_tell(struct hd_turn *turn, struct hd_mirror *mirror, bool always);
/* What is held here, for a controller that has just registered us: the job's server may come back with less. */
void hd_mirrors_announce(struct hd_turn *turn);
/* Says FOLLOW about a job that is no mirror of ours. */
void hd_mirror_answer(
	struct hd_turn *turn,
	struct hd_peer *peer,
	uint32_t job,
	uint64_t generation,
	enum hd_follow_state state
);
void hd_mirror_event(
	struct hd_turn *turn,
	const struct hd_job *job,
	enum hd_event_kind kind,
	const struct hd_mirror_entry *entry
);

/* --- hd_replica_seed.c --- */
void hd_mirror_seed(struct hd_turn *turn, struct hd_peer *peer, const struct hd_msg_seed *seed);
void hd_mirror_stage(struct hd_mirror *mirror, const struct hd_msg_log *log);
/* Whether the server's session, from which this part comes, is at this address. */
bool hd_seed_is_from(const struct hd_seed_in *part, struct hd_addr from);
void hd_mirror_chunk(
	struct hd_turn *turn,
	struct hd_seed_in *part,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t bytes
);
/* Acknowledges; takes a whole state for the job's, unless an update is half applied. Once a call. */
void hd_mirrors_settle(struct hd_turn *turn);
void hd_mirror_seed_drop(struct hd_server *server, struct hd_mirror *mirror);
hd_ns hd_mirrors_deadline(const struct hd_server *server);

/* --- hd_replica_copy.c --- */
void hd_mirror_entry_free(struct hd_server *server, struct hd_mirror_entry *entry);
/* Asks the controller for the copies that are missing; finds those that will never come. */
void hd_copies_look(struct hd_turn *turn, struct hd_mirror *mirror);
/* A new controller knows nothing of what was asked for. */
void hd_copies_ask_again(struct hd_turn *turn);
void hd_copy_expect(struct hd_turn *turn, const struct hd_msg_expect *expect);
void hd_copy_drop(struct hd_turn *turn, const struct hd_msg_drop *drop);
/* One that came whole. */
void hd_copy_complete(struct hd_turn *turn, struct hd_incoming *in);
/* One that ends without having come whole: told and, unless it can never come, asked for again. */
void hd_copy_fail(struct hd_turn *turn, struct hd_incoming *in, enum hd_reason reason);
/* Frees a buffer for the copy that is needed first. */
bool hd_copy_make_room(struct hd_turn *turn, struct hd_incoming *in);
/* No state is waited for in vain: what is incomplete and in it ends. */
void hd_copies_overtaken(struct hd_turn *turn, struct hd_mirror *mirror, hd_version version);
/* A session ends: nobody hears acknowledgements of these any more. */
void hd_copies_detach(struct hd_server *server, const struct hd_peer *peer);

/* --- hd_replica_sum.c; hd_server_incoming.c and hd_server_sum.c have what servers need as well --- */
/* It is for a replica: nobody but the log decides on it. */
static inline bool hd_incoming_is_copy(const struct hd_incoming *in) {
	return in->job->mirror != NULL;
}
/* What its values were multiplied by; of a sum, their total. */
float hd_incoming_weight(const struct hd_incoming *in);
/* The same, not rounded. */
double hd_incoming_weights(const struct hd_incoming *in);
/* This session is the one that the sum comes over. */
void hd_sum_bind(struct hd_incoming *in, struct hd_peer *peer);
/* MEMBERS of a sum that an aggregator sends here as well; count: of its members, 0: the list is malformed. */
void hd_mirror_members(
	struct hd_turn *turn,
	struct hd_mirror *mirror,
	const struct hd_msg_members *message,
	uint16_t count
);
/* As long as the log says; of a merged sum, whose length shows at its end, not shorter. */
bool hd_mirror_measures(const struct hd_incoming *in, const struct hd_mirror_entry *entry);
/* Gives the entry, which is of several, its sum, if that has been told of. */
void hd_mirror_name(struct hd_mirror *mirror, struct hd_mirror_entry *entry);
/* Takes a sum out of those that the log has not named. */
void hd_mirror_unlist(struct hd_mirror *mirror, struct hd_incoming *in);
/* Its aggregator need not send it. */
void hd_mirror_withdraw(struct hd_turn *turn, const struct hd_incoming *in, enum hd_reason reason);
/* Ends one that has a buffer and that the log has not named, the newest first; false: there is none. */
bool hd_mirror_sums_yield(struct hd_turn *turn, struct hd_mirror *mirror);
/* Ends those that nothing comes of: that nothing came of for long, or that the model has already, by a state or by
 * their members alone. */
void hd_mirror_sums_look(struct hd_turn *turn, struct hd_mirror *mirror);
/* All of them: a new controller may give their positions to others. */
void hd_mirror_sums_end(struct hd_turn *turn, struct hd_mirror *mirror, enum hd_reason reason);

#endif
