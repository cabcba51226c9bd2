/* SPDX-License-Identifier: BSD-3-Clause */
/* The replica's side of replication (rep_primary.h has both): the log, states and copies of another server's job. */
#ifndef REP_JOB_H
#define REP_JOB_H

#include "hd_entry.h"
#include "hd_recv.h"
#include "srv_replica.h"

#define REP_ASKED_MAX 32 /* entries that may have a copy in flight at once */
#define REP_QUEUE_MAX 4096 /* entries */
#define REP_LOOK_US 50000
#define REP_AGAIN_US 200000 /* a failed copy is requested again after this */
#define REP_FALLBACK_US 1000000 /* without a controller, states replace copies after this */
#define REP_SILENT_US 5000000 /* a copy or state that makes no progress is given up */
#define REP_ATTEMPTS_MAX 8
#define REP_SUMS_MAX 16 /* sums that the log has not named */
#define REP_UNNAMED_US 10000000 /* such a sum is forgotten after this without progress */
#define REP_SUM_SILENT_US 1000000 /* once the log has named it: the server held all of it then */
#define REP_STAGED_MAX 262144 /* rounds that come with one state */
/* A promoted replica adds a random number of at least REP_SERVE_LEAST to the incarnation. The former server may come
 * back, and each restart adds one to its own: the numbers below are left to it. The random part keeps apart two
 * replicas that are promoted and do not know of each other. */
#define REP_SERVE_LEAST 16
#define REP_SERVE_SPAN 240

/* An entry of the log that is not applied yet. */
struct rep_entry {
	TAILQ_ENTRY(rep_entry) link;
	struct rep_job *replica;
	struct hd_entry head; /* without records */
	struct srv_incoming *copy; /* NULL: not granted yet. A sum's entry without one is lost */
	bool asked;
	bool lost; /* the copy will never come, so the entry cannot be applied */
	uint8_t attempt; /* the newest that was requested */
	hd_ns since; /* when it was logged, or requested last */
	struct hd_entry_member members[]; /* head.member_count */
};
TAILQ_HEAD(rep_entries, rep_entry);

struct rep_state_in {
	struct srv_handle handle; /* first */
	struct hd_seal seal;
	struct rep_job *replica;
	struct srv_buffer *buffer;
	struct hd_recv *recv; /* NULL: complete or none */
	bool whole;
};

struct rep_job {
	struct srv_job *job;
	uint64_t generation;
	struct srv_peer *source; /* the server's session; NULL: it ended */
	bool has_state; /* job->model holds a version */
	bool serve; /* becomes the server as soon as nothing more can be applied */
	uint64_t serve_generation;
	uint32_t every; /* commits between states; 0: the log is followed */
	hd_version reported;
	uint8_t reported_state;
	struct rep_entries entries;
	uint32_t entry_count;
	struct srv_incoming_list sums; /* that the log has not named, oldest first, by queue_link */
	uint32_t sum_count;
	struct hd_timer timer;
	/* A state in transfer. */
	bool receiving;
	hd_version received; /* its version */
	struct rep_state_in part[2];
	uint32_t prior_count;
	struct hd_incarnation prior[HD_INCARNATIONS_MAX];
	uint32_t staged_count, staged_capacity;
	struct hd_last_round *staged;
	bool staged_all;
	TAILQ_ENTRY(rep_job) link;
};

/* --- rep_job.c -------------------------------------------------------------------------------- */
/* Makes the empty job a replica. False: no memory. */
bool rep_job_begin(struct srv_turn *turn, struct srv_job *job);
enum rep_run rep_job_run(struct srv_turn *turn, struct srv_job *job);
enum rep_verdict
rep_job_serve(struct srv_turn *turn, struct srv_job *job, const struct hd_msg_replica *order);
void rep_job_timer(struct hd_timer *timer);
void rep_log_take(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_log *log);
/* The first entry that is neither applied nor added to the current step; NULL: none. */
struct rep_entry *rep_job_first(const struct rep_job *replica);
void rep_job_free(struct hd_server *server, struct srv_job *job);
struct rep_job *rep_job_of(const struct hd_server *server, uint32_t job);
void rep_job_tell(struct srv_turn *turn, struct rep_job *replica, bool always);
/* Tells a controller that has just registered us which states we hold: a job's server may have restarted with less. */
void rep_jobs_announce(struct srv_turn *turn);
/* Answers a server with FOLLOW about a job that is not our replica. */
void rep_job_answer(
	struct srv_turn *turn,
	struct srv_peer *peer,
	uint32_t job,
	uint64_t generation,
	enum hd_follow_state state
);
void rep_event(
	struct srv_turn *turn,
	const struct srv_job *job,
	enum hd_event_kind kind,
	const struct rep_entry *entry
);

/* --- rep_state_in.c --------------------------------------------------------------------------- */
enum rep_verdict
rep_state_offer(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_seed *seed);
void rep_state_packet(
	struct srv_turn *turn,
	struct srv_handle *handle,
	const struct hd_packet *packet,
	const struct hd_chunk_header *header,
	const uint8_t *payload
);
void rep_state_stage(struct rep_job *replica, const struct hd_msg_log *log);
/* Acknowledges; makes a complete state the job's, unless an update is half applied. Once a call. */
void rep_states_settle(struct srv_turn *turn);
void rep_state_drop(struct hd_server *server, struct rep_job *replica);
hd_ns rep_jobs_deadline(const struct hd_server *server);

/* --- rep_copy.c ------------------------------------------------------------------------------- */
void rep_entry_free(struct hd_server *server, struct rep_entry *entry);
/* Requests missing copies from the controller; marks those that will never come as lost. */
void rep_copies_look(struct srv_turn *turn, struct rep_job *replica);
/* A new controller does not know the requests made before it. */
void rep_copies_ask_again(struct srv_turn *turn);
void rep_copy_expect(struct srv_turn *turn, const struct hd_msg_expect *expect);
void rep_copy_drop(struct srv_turn *turn, const struct hd_msg_drop *drop);
/* A copy is held whole. */
void rep_copy_complete(struct srv_turn *turn, struct srv_incoming *in);
/* A copy failed: reports it and, unless it can never come, requests it again. */
void rep_copy_fail(struct srv_turn *turn, struct srv_incoming *in, enum hd_reason reason);
/* Frees a buffer for the copy that is needed first. */
bool rep_copy_make_room(struct srv_turn *turn, struct srv_incoming *in);
/* A state at `version` is held: ends incomplete sums that it contains. */
void rep_copies_overtaken(struct srv_turn *turn, struct rep_job *replica, hd_version version);
/* The session ends: its transfers are no longer acknowledged. */
void rep_copies_detach(struct hd_server *server, const struct srv_peer *peer);

/* --- rep_sum.c; srv_incoming.c and srv_sum.c have what servers need as well ------------------- */
/* MEMBERS of a sum that an aggregator sends here too; count: its members, 0: the list is malformed. */
void rep_sum_members(
	struct srv_turn *turn,
	struct srv_job *job,
	const struct hd_msg_members *message,
	uint16_t count
);
/* Whether the length matches the log's. The length of a merged sum is known at its end; until then it may be larger. */
bool rep_sum_measures(const struct srv_incoming *in, const struct rep_entry *entry);
/* Assigns the entry, which has several members, its sum if MEMBERS announced it. */
void rep_sum_name(struct rep_job *replica, struct rep_entry *entry);
/* Removes a sum from those that the log has not named. */
void rep_sum_unlist(struct rep_job *replica, struct srv_incoming *in);
/* Tells its aggregator that the sum is not needed. */
void rep_sum_withdraw(struct srv_turn *turn, const struct srv_incoming *in, enum hd_reason reason);
/* Ends the newest unnamed sum that has a buffer; false: there is none. */
bool rep_sums_yield(struct srv_turn *turn, struct rep_job *replica);
/* Ends unnamed sums that made no progress for long, or whose members are in the model already (by a state, or as
 * separate updates). */
void rep_sums_look(struct srv_turn *turn, struct rep_job *replica);
/* Ends all unnamed sums: a new controller may reuse their positions. */
void rep_sums_end(struct srv_turn *turn, struct rep_job *replica, enum hd_reason reason);

#endif
