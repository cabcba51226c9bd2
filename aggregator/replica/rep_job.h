/* SPDX-License-Identifier: BSD-3-Clause */
/* The replica's side (rep_primary.h has both): another server's job, its log, its states and copies. */
#ifndef REP_JOB_H
#define REP_JOB_H

#include "hd_entry.h"
#include "hd_recv.h"
#include "srv_replica.h"

#define REP_ASKED_MAX 32 /* entries whose copies are asked for at once */
#define REP_QUEUE_MAX 4096 /* entries */
#define REP_LOOK_US 50000
#define REP_AGAIN_US 200000 /* a copy that ended without its bytes is asked for again */
#define REP_FALLBACK_US 1000000 /* nobody plans: states instead */
#define REP_SILENT_US 5000000 /* one that moves no more, too */
#define REP_ATTEMPTS_MAX 8
#define REP_SUMS_MAX 16 /* that the log has not named; */
#define REP_UNNAMED_US 10000000 /* and that nothing came of for so long, are forgotten */
#define REP_SUM_SILENT_US 1000000 /* one that it has named: the server had all of it then */
#define REP_STAGED_MAX 262144 /* rounds that come with a state */
/* Incarnations from a server's to that of the replica that takes its place. The server itself may come back, and counts
 * its restarts one by one: so many are its own. Of replicas' lives, two that cannot ask each other differ. */
#define REP_SERVE_LEAST 16
#define REP_SERVE_SPAN 240

/* An entry of the log that is not applied yet. */
struct rep_entry {
	TAILQ_ENTRY(rep_entry) link;
	struct rep_job *replica;
	struct hd_entry head; /* without records */
	struct srv_incoming
		*copy; /* NULL: not granted yet; an entry of several without one is lost */
	bool asked;
	bool lost; /* its copy will never come: nor will the step that it is in */
	uint8_t attempt; /* newest asked for */
	hd_ns since; /* told of, or asked for last */
	struct hd_entry_member members[]; /* head.member_count */
};
TAILQ_HEAD(rep_entries, rep_entry);

struct rep_state_in {
	struct srv_handle handle; /* first */
	struct hd_seal seal;
	struct rep_job *replica;
	struct srv_buffer *buffer;
	struct hd_recv *recv; /* NULL: none */
	bool whole;
};

struct rep_job {
	struct srv_job *job;
	uint64_t generation;
	struct srv_peer *source; /* the server's session; NULL: gone */
	bool has_state; /* job->model is a version */
	bool serve; /* as soon as nothing more can be applied */
	uint64_t serve_generation;
	uint32_t every; /* states only */
	hd_version told;
	uint8_t told_state;
	struct rep_entries entries;
	uint32_t entry_count;
	struct srv_incoming_list sums; /* by queue_link: that the log has not named, oldest first */
	uint32_t sum_count;
	struct hd_timer timer;
	/* A state on its way. */
	bool receiving;
	hd_version received; /* its version */
	struct rep_state_in part[2];
	uint32_t life_count;
	struct hd_life lives[HD_LIVES_MAX];
	uint32_t staged_count, staged_capacity;
	struct hd_last_round *staged;
	bool staged_all;
	TAILQ_ENTRY(rep_job) link;
};

/* --- rep_job.c -------------------------------------------------------------------------------- */
/* The job, which is empty, is a replica from here on. False: no memory. */
bool rep_job_begin(struct srv_turn *turn, struct srv_job *job);
enum rep_run rep_job_run(struct srv_turn *turn, struct srv_job *job);
enum rep_verdict
rep_job_serve(struct srv_turn *turn, struct srv_job *job, const struct hd_msg_replica *order);
void rep_job_timer(struct hd_timer *timer);
void rep_log_take(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_log *log);
/* The first entry that is neither applied nor in the step that is added up; NULL: none. */
struct rep_entry *rep_job_first(const struct rep_job *replica);
void rep_job_free(struct hd_server *server, struct srv_job *job);
struct rep_job *rep_job_of(const struct hd_server *server, uint32_t job);
void rep_job_tell(struct srv_turn *turn, struct rep_job *replica, bool always);
/* What is held here, for a controller that has just registered us: the job's server may come back with less. */
void rep_jobs_announce(struct srv_turn *turn);
/* Says FOLLOW about a job that is no replica of ours. */
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
/* Acknowledges; takes a whole state for the job's, unless an update is half applied. Once a call. */
void rep_states_settle(struct srv_turn *turn);
void rep_state_drop(struct hd_server *server, struct rep_job *replica);
hd_ns rep_jobs_deadline(const struct hd_server *server);

/* --- rep_copy.c ------------------------------------------------------------------------------- */
void rep_entry_free(struct hd_server *server, struct rep_entry *entry);
/* Asks the controller for the copies that are missing; finds those that will never come. */
void rep_copies_look(struct srv_turn *turn, struct rep_job *replica);
/* A new controller knows nothing of what was asked for. */
void rep_copies_ask_again(struct srv_turn *turn);
void rep_copy_expect(struct srv_turn *turn, const struct hd_msg_expect *expect);
void rep_copy_drop(struct srv_turn *turn, const struct hd_msg_drop *drop);
/* One that came whole. */
void rep_copy_complete(struct srv_turn *turn, struct srv_incoming *in);
/* One that ends without having come whole: told and, unless it can never come, asked for again. */
void rep_copy_fail(struct srv_turn *turn, struct srv_incoming *in, enum hd_reason reason);
/* Frees a buffer for the copy that is needed first. */
bool rep_copy_make_room(struct srv_turn *turn, struct srv_incoming *in);
/* No state is waited for in vain: what is incomplete and in it ends. */
void rep_copies_overtaken(struct srv_turn *turn, struct rep_job *replica, hd_version version);
/* A session ends: nobody hears acknowledgements of these any more. */
void rep_copies_detach(struct hd_server *server, const struct srv_peer *peer);

/* --- rep_sum.c; srv_incoming.c and srv_sum.c have what servers need as well ------------------- */
/* MEMBERS of a sum that an aggregator sends here as well; count: of its members, 0: the list is malformed. */
void rep_sum_members(
	struct srv_turn *turn,
	struct srv_job *job,
	const struct hd_msg_members *message,
	uint16_t count
);
/* As long as the log says; of a merged sum, whose length shows at its end, not shorter. */
bool rep_sum_measures(const struct srv_incoming *in, const struct rep_entry *entry);
/* Gives the entry, which is of several, its sum, if that has been told of. */
void rep_sum_name(struct rep_job *replica, struct rep_entry *entry);
/* Takes a sum out of those that the log has not named. */
void rep_sum_unlist(struct rep_job *replica, struct srv_incoming *in);
/* Its aggregator need not send it. */
void rep_sum_withdraw(struct srv_turn *turn, const struct srv_incoming *in, enum hd_reason reason);
/* Ends one that has a buffer and that the log has not named, the newest first; false: there is none. */
bool rep_sums_yield(struct srv_turn *turn, struct rep_job *replica);
/* Ends those that nothing comes of: that nothing came of for long, or that the model has already, by a state or by
 * their members alone. */
void rep_sums_look(struct srv_turn *turn, struct rep_job *replica);
/* All of them: a new controller may give their positions to others. */
void rep_sums_end(struct srv_turn *turn, struct rep_job *replica, enum hd_reason reason);

#endif
