/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the server core's files share. One file an idea:
 *
 *   hd_server.c             node face: packets in, deadlines, life
 *   hd_server_session.c     endpoint callbacks: who may say what; the controller's session
 *   hd_server_job.c         JOIN, LEAVE, admission, restore, members and their rounds
 *   hd_server_roster.c      who takes part in a job; hd_server_rounds.c: in a federated one's round
 *   hd_server_rounds_show.c how those went, as a table
 *   hd_server_stats.c       what is counted; hd_server_show.c: tables
 *   hd_server_memory.c      reference-counted buffers of one model's size, from pools with a budget
 *   hd_server_incoming.c    the life of an update that comes: alone, or as a sum of several
 *   hd_server_push.c        EXPECT, direct REQUEST, VOID, CANCEL: which updates may come
 *   hd_server_sum.c         MEMBERS: which sums may come, and the aggregators that send them
 *   hd_server_stream.c      sums that come from the slots of a switch
 *   hd_server_credit.c      updates that were granted in advance: they come without having been asked for
 *   hd_server_assembly.c    chunks into place, acknowledgements, go to the successor
 *   hd_server_commit.c      the commit rule, hold, outcomes, the log
 *   hd_server_apply.c       steps of the optimizer on the model; hd_server_step.c: what gathers of a synchronous one
 *   hd_server_snapshot.c    pinned versions, in fp32 and 16 bits; hd_server_pull.c: sending them
 *   hd_server_checkpoint.c  durable; hd_server_report.c: how a job went
 *   hd_server_follow.c      a job's replica, more in hd_replica.h; hd_server_link.c: sessions with replicas
 *
 * During one receive() or tick(): first whatever arrived changes state, then commits run, and only
 * then does hd_pulls_poll() hand model bytes to the sink, which may read them until the call returns.
 */
#ifndef HD_SERVER_INTERNAL_H
#define HD_SERVER_INTERNAL_H

#include "hd_endpoint.h"
#include "hd_probe.h"
#include "hd_recv.h"
#include "hd_roster.h"
#include "hd_seal.h"
#include "hd_send.h"
#include "hd_server.h"
#include "hd_server_keep.h"
#include "hd_server_rounds.h"
#include "hd_server_timers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define uthash_malloc(bytes) malloc(bytes)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define HD_POLL_PACKETS 32 /* one transfer's turn */
#define HD_POLL_BUDGET 512 /* packets of one receive() or tick() */
#define HD_GO_SLACK_US 20000 /* after its start time a pull no longer waits for the one before */
#define HD_PACKET_OVERHEAD 28 /* IPv4 and UDP headers */

enum hd_timer_kind {
	HD_TIMER_INCOMING, /* a delayed acknowledgement */
	HD_TIMER_HOLD,
	HD_TIMER_CHECKPOINT,
	HD_TIMER_ROSTER, /* who takes part has changed: it is to be said */
	HD_TIMER_IDLE, /* nobody has been in a job for long */
	HD_TIMER_PULL_START,
	HD_TIMER_PULL_SEND,
	HD_TIMER_SEED_SEND, /* beside PULL_SEND: of a state for a replica */
	HD_TIMER_FOLLOW, /* a state is to be sent once there is memory */
	HD_TIMER_MIRROR /* a replica looks after what it waits for */
};

/* 64-byte aligned memory for one model's values: model, momentum, snapshot or update. */
struct hd_buffer {
	uint32_t refs;
	struct hd_buffer *next; /* in the pool */
	float *data;
};

/* What a token stands for. */
enum hd_handle_kind {
	HD_HANDLE_INCOMING,
	HD_HANDLE_PART, /* of a sum: its transfer ends at an aggregator */
	HD_HANDLE_OUTGOING,
	HD_HANDLE_SEED_OUT, /* hd_replica.h */
	HD_HANDLE_SEED_IN,
	HD_HANDLE_TOMBSTONE
};

struct hd_handle {
	uint64_t token;
	enum hd_handle_kind kind;
	UT_hash_handle hh;
};

struct hd_job;
struct hd_part;
struct hd_incoming;
struct hd_outgoing;
struct hd_follow;
struct hd_mirror;
struct hd_mirror_entry;
LIST_HEAD(hd_peer_sums, hd_incoming);
LIST_HEAD(hd_peer_outgoing, hd_outgoing);

/* One session that somebody opened with us. */
struct hd_peer {
	struct hd_session *session;
	bool aggregates; /* it is an aggregator's: in the server's list of those */
	LIST_ENTRY(hd_peer) aggregator_link;
	struct hd_peer_sums sums; /* that it sends */
	struct hd_peer_outgoing outgoing; /* pulls of its worker, or that it relays to several */
	struct hd_job *job; /* NULL until JOIN */
	struct hd_member *member;
	bool joined; /* JOINED was sent */
	uint32_t waits_for; /* job of its JOIN, which may not begin here yet; 0: none */
	uint64_t roster_told; /* the change that it was told of last */
	hd_ns rank_refused; /* since then its rank is held by another host's process; 0: it is not */
	const char *broken; /* why it is closed at the end of the call; NULL: it is not */
	struct hd_path path; /* of pulls */
	uint32_t round_told; /* hd_server_rounds.c: that it is drawn for this one */
	TAILQ_ENTRY(hd_peer) link;
};
TAILQ_HEAD(hd_peers, hd_peer);

struct hd_round {
	uint32_t round; /* 0: none */
	uint8_t outcome, reason;
	uint32_t delay;
	hd_version version;
};

LIST_HEAD(hd_member_parts, hd_part);

/* A worker of a job; outlives its sessions. */
struct hd_member {
	uint16_t rank;
	bool left;
	bool done; /* it pushes no more, and waits for the ends of what it has pushed */
	bool observer; /* it only pulls, and is in no roster */
	bool joined; /* in this life of the server */
	struct hd_peer *peer; /* NULL: no session */
	uint32_t newest_round;
	uint32_t first_round; /* the newest before this life */
	struct hd_member_draw draw;
	struct hd_worker_report tally;
	struct hd_round rounds[HD_ROUNDS_KEPT]; /* rounds[round % HD_ROUNDS_KEPT] */
	struct hd_member_parts parts; /* its pushes that come */
};

LIST_HEAD(hd_incoming_successors, hd_incoming);
LIST_HEAD(hd_outgoing_successors, hd_outgoing);
TAILQ_HEAD(hd_incoming_list, hd_incoming);
TAILQ_HEAD(hd_outgoing_list, hd_outgoing);

/* One push of a transfer. */
struct hd_part {
	struct hd_handle handle; /* first; of a sum's: its token at the aggregator */
	struct hd_incoming *in;
	struct hd_member *member;
	uint32_t round;
	uint8_t attempt;
	hd_version base;
	float weight; /* by which its worker multiplied it */
	uint8_t late; /* steps; of one in a federated job's step */
	LIST_ENTRY(hd_part) member_link;
};

/*
 * A transfer that may come, comes, or waits for its commit: one worker's update, or the sum of several that an
 * aggregator sends. The parts of a sum are committed together or not at all; part i is at
 * position + i and makes the i-th version from there.
 */
struct hd_incoming {
	struct hd_handle handle; /* first */
	struct hd_seal seal;
	struct hd_job *job;
	bool direct;
	bool sum; /* told by MEMBERS */
	bool started; /* its first chunk was taken */
	bool complete, queued;
	bool stepped; /* a member of its job's step: in that list instead of the queue, its values in the sum */
	bool touched, starved;
	bool broken; /* a chunk of a sparse one that is no runs of this model */
	bool not_finite; /* a NaN or an Inf came where the job allows none */
	bool pending; /* the controller was told that it is held and waits */
	bool went; /* go was said, or would have been if the aggregator had a session */
	bool credit; /* granted in advance: dtype, bytes and base are known from its first chunk on */
	bool normed; /* norm2 counts all that is held */
	bool apart; /* a controller that does not know the sum was told of its parts one by one */
	uint8_t dtype; /* of its values on the wire; the model's are fp32 */
	int16_t exponent; /* of fixed point, granted directly */
	uint64_t bytes; /* that it has on the wire: not more than the model's */
	uint64_t limit; /* of a credit: bytes */
	double norm2; /* squared, of what has come: of a credit, and where a replica follows */
	uint64_t position; /* key in the job's queue; direct: that of the tail when it completed */
	uint32_t packet_bytes; /* biggest payload seen */
	uint32_t chunks; /* set at the end */
	hd_ns active; /* when it last showed that it will come */
	hd_ns completed_at;
	struct hd_buffer *buffer; /* NULL: no chunk yet */
	struct hd_recv *recv;
	struct hd_mirror_entry *entry; /* of the log, of a copy; NULL: none, or not yet */
	struct hd_peer *source; /* of a copy: who sends it, once a chunk has come */
	struct hd_timer timer;
	struct hd_addr sender; /* of a sum */
	uint16_t
		slot_values; /* it comes from a switch's slots, so many values at a time; 0: it does not */
	uint8_t receiver; /* then: which of the sum's receivers this node is */
	struct hd_peer *aggregator; /* its session; NULL: none with that address */
	struct hd_incoming *predecessor; /* whose end frees this one's start */
	struct hd_incoming_successors successors;
	LIST_ENTRY(hd_incoming) successor_link, aggregator_link;
	TAILQ_ENTRY(hd_incoming) open_link, queue_link, touched_link, starved_link;
	uint16_t part_count, steps; /* members; steps of its mean that it makes */
	float scale; /* of one in a federated job's step: what is left of its weights, as it is late; else 1 */
	struct hd_part parts[];
};

/* A version in 16 bits: the first values of it, so far. */
struct hd_rounded {
	struct hd_buffer *buffer; /* NULL: nobody asked */
	uint64_t done; /* values */
};

struct hd_snapshot {
	uint32_t refs;
	hd_version version;
	struct hd_buffer *buffer;
	struct hd_rounded half[2]; /* fp16, bf16 */
	LIST_ENTRY(hd_snapshot) link;
};

enum hd_outgoing_state {
	HD_OUTGOING_WAITING, /* for its start */
	HD_OUTGOING_STARVED, /* for a snapshot */
	HD_OUTGOING_SENDING,
	HD_OUTGOING_ENDED /* while sending: freed at the next call, the sink may still read */
};

/* A pull of one worker, or one that an aggregator relays to several. It ends with the session. */
struct hd_outgoing {
	struct hd_handle handle; /* first */
	struct hd_job *job;
	struct hd_peer *peer;
	struct hd_msg_grant grant;
	enum hd_outgoing_state state;
	struct hd_snapshot *snapshot;
	struct hd_send *send;
	bool started; /* SEND_START was reported */
	struct hd_timer start_timer, poll_timer;
	struct hd_outgoing *predecessor;
	struct hd_outgoing_successors successors;
	LIST_ENTRY(hd_outgoing) successor_link, peer_link;
	TAILQ_ENTRY(hd_outgoing) open_link, starved_link;
};

/* An ended push: chunks that still come are answered with `done`, when they were all held. */
struct hd_tombstone {
	struct hd_handle handle; /* first */
	bool used;
	bool done; /* it was held whole: chunks that still come are answered so */
	bool copy;
	uint32_t job;
	uint16_t worker; /* HD_GROUP_WORKER: a sum, of */
	struct hd_addr sender;
	uint32_t chunks;
	uint16_t slot_values; /* as in hd_incoming */
	uint8_t receiver;
	hd_ns answered; /* one answer a call is enough */
};

/* The update, or a step's first one, that is being applied. A big one takes several calls, a step in each, so that
 * packets are taken in between; nobody sees the model meanwhile: who would pin it waits. */
struct hd_apply {
	struct hd_incoming *in; /* NULL: none */
	struct hd_buffer *model,
		*momentum; /* written to: the job's own, or copies while others read */
	uint64_t done; /* values; of a sparse one: copied into the buffers that are written to */
	uint64_t read; /* bytes of a sparse one */
	double momentum2, weights2; /* as the job's, after the step */
	float mean; /* of a synchronous step: its sum is multiplied by this, the step's scale by its weight */
};

/* A synchronous job's next step: complete updates, added up (hd_server_step.c). */
struct hd_step {
	struct hd_incoming_list members; /* by queue_link, in the order of adding */
	uint32_t count; /* updates in them */
	/* What it goes by, all of one change of the roster (0: none was told): N, the factor on the mean (0: never said). */
	uint64_t change;
	uint32_t most;
	float scale;
	uint32_t late; /* of these: of a federated job's rounds before */
	double weight; /* theirs in all: what the sum is divided by */
	struct hd_buffer *sum; /* kept from step to step; NULL: none yet */
	struct hd_incoming *adding; /* the last member, until all of it is in the sum */
	uint64_t done, read; /* of that: values; bytes of a sparse one */
	/* norm2 is the sum's; N workers were here at once; no memory for the sum; it began; it was said that one waits */
	bool normed, formed, starved;
	hd_ns since, told;
	double norm2;
};

struct hd_job {
	uint32_t id;
	struct hd_jobspec spec;
	uint64_t values, bytes;
	hd_version version;
	hd_version durable; /* workers were told; on the replica, without one in a checkpoint */
	hd_version saved; /* in a checkpoint */
	uint32_t life_count;
	struct hd_life lives[HD_LIVES_MAX];
	struct hd_member **members; /* HD_WORKERS_MAX, by rank */
	uint32_t member_count;
	/* hd_server_memory.c */
	struct hd_buffer *pool;
	uint32_t buffer_count, buffer_floor; /* allocated; never trimmed below */
	struct hd_buffer *spare[2]; /* for the copy that a commit must make: model, momentum */

	struct hd_buffer *model, *momentum;
	LIST_HEAD(hd_snapshots, hd_snapshot) snapshots;
	uint32_t snapshot_count;

	struct hd_incoming_list open; /* all, in the order in which they were told */
	struct hd_incoming_list queue; /* those with a position, and complete direct ones */
	struct hd_outgoing_list pulls;
	uint32_t open_count, pull_count;
	uint64_t position; /* highest told */
	struct hd_timer hold;
	bool dirty; /* the commit rule is to be looked at */
	struct hd_apply apply;
	struct hd_step step;
	struct hd_rounds rounds;
	struct hd_commit *log; /* HD_COMMITS_KEPT */
	uint64_t log_count;

	/* hd_server_checkpoint.c */
	bool checkpointing, restoring, checkpoint_asked; /* asked: and not begun yet */
	uint32_t checkpoint_failures; /* in a row, at most HD_CHECKPOINT_BACKOFF_MAX */
	uint64_t commits_since;
	struct hd_checkpoint checkpoint;
	struct hd_buffer *checkpoint_state[2]; /* model, momentum */
	struct hd_timer retry;

	/* hd_replica.h: at most one of them. Norms are kept while a replica follows. */
	struct hd_follow *follow; /* its replica; NULL: none */
	struct hd_mirror *mirror; /* this is a copy of another server's job */
	double momentum2, weights2; /* squared L2 norms */
	uint64_t generation; /* the newest assignment that the controller told of */
	bool retired; /* another node is its server: it goes */
	bool asking, confirmed; /* waits for the controller's answer to its STATE; has had it */

	/* hd_server_roster.c: who takes part, by the controller's word, or as we say it: */
	struct hd_roster roster;
	uint8_t roster_ranks[HD_ROSTER_BYTES]; /* as was said last */
	uint64_t roster_changes;
	struct hd_timer roster_timer;

	/* hd_server_end.c */
	hd_ns idle_since; /* nobody has been here: since then */
	bool left; /* whoever went last said so: nobody is expected back */
	bool ending; /* it goes when its last checkpoint is written */
	bool unlisted; /* the controller has forgotten it, and somebody is here */
	struct hd_timer idle;

	/* hd_server_report.c */
	bool emptied; /* somebody left; if nobody is here, the report is due */
	struct hd_job_report report;
	TAILQ_ENTRY(hd_job) link;
};
TAILQ_HEAD(hd_jobs, hd_job);

/* Nobody may push or pull here (yet): it waits for checkpoint or controller, is a copy, or is another node's by now. */
static inline bool hd_job_away(const struct hd_job *job) {
	return job->restoring || job->asking || job->mirror != NULL || job->retired;
}

struct hd_server {
	struct hd_server_config config;
	char host[HD_NAME_BYTES_MAX + 1];
	struct hd_endpoint *endpoint;
	struct hd_session *controller;
	bool refused; /* by the controller, for good: workers come directly */
	bool registered, draining;
	bool alone; /* not registered for HD_FALLBACK_US: jobs begin as without a controller; since it was last */
	hd_ns heard; /* (first: looked for) */
	uint16_t epoch; /* newest of a controller that was seen */
	struct hd_entropy entropy;
	struct hd_jobs jobs;
	uint32_t job_count;
	struct hd_peers peers;
	LIST_HEAD(hd_aggregators, hd_peer) aggregators; /* of the peers */
	struct hd_handle *handles; /* uthash by token */
	uint32_t transfer_count;
	struct hd_tombstone *tombstones; /* HD_TOMBSTONES_MAX, a ring */
	uint32_t tombstone_next;
	struct hd_timers timers, sends;
	struct hd_incoming_list touched, starved;
	struct hd_outgoing_list starved_pulls, ended_pulls;
	struct hd_msg_grant relays[HD_RELAYS_WAITING_MAX]; /* for their session; token 0: none */
	uint32_t relay_next;
	bool breaking; /* a peer's session is to be closed at the end of the call */
	bool freed; /* a buffer or snapshot came free: somebody starved may go on */
	uint64_t step_left; /* values that this call may still apply */
	bool unfinished; /* it was not enough: the next tick goes on */
	TAILQ_HEAD(hd_links, hd_link) links; /* sessions that we opened, with replicas */
	TAILQ_HEAD(hd_mirrors, hd_mirror) mirrors; /* copies of others' jobs */
	bool retiring; /* a job is to be forgotten at the end of a call: another node's, or one that ends */
	uint32_t told_count; /* jobs of which the controller said whether they may begin here: */
	struct hd_told {
		uint32_t job;
		bool may;
		uint64_t generation;
	} told[HD_JOBS_MAX];
	struct hd_probes probes;
	struct hd_server_stats stats;
};

/* What a handler is called with, in one piece. */
struct hd_turn {
	struct hd_server *server;
	hd_ns now;
	struct hd_sink *sink;
};

/* --- hd_server.c ---------------------------------------------------------------------------- */
struct hd_handle *hd_handle_find(struct hd_server *server, uint64_t token);
/* 0, -EEXIST, -ENOMEM, -ENOBUFS (HD_TRANSFERS_MAX). */
int hd_handle_add(struct hd_server *server, struct hd_handle *handle);
void hd_handle_remove(struct hd_server *server, struct hd_handle *handle);
/* Sends reliably; a session whose queue is full is given up: its worker joins and asks again. */
void hd_peer_send(struct hd_turn *turn, struct hd_peer *peer, const struct hd_message *message);
/* Its session is closed at the end of the call; `why` lives on. */
void hd_peer_break(struct hd_server *server, struct hd_peer *peer, const char *why);
void hd_member_send(
	struct hd_turn *turn,
	const struct hd_member *member,
	const struct hd_message *message
);
void hd_controller_send(struct hd_turn *turn, const struct hd_message *message);
void hd_turn_event(struct hd_turn *turn, struct hd_event *event);

/* --- hd_server_session.c -------------------------------------------------------------------- */
extern const struct hd_endpoint_ops hd_server_endpoint_ops;
/* Tells the controller where a job stands, and what is open. */
void hd_server_announce(struct hd_turn *turn, const struct hd_job *job);
void hd_peer_destroy(struct hd_server *server, struct hd_peer *peer);
/* The session whose packets come from this address; NULL: none. */
struct hd_peer *hd_peer_at(const struct hd_server *server, struct hd_addr addr);

/* --- hd_server_show.c ----------------------------------------------------------------------- */
void hd_server_refuse_command(struct hd_turn *turn, struct hd_peer *peer);
void hd_server_show(struct hd_turn *turn, struct hd_peer *peer, const struct hd_msg_show *show);

/* --- hd_server_job.c ------------------------------------------------------------------------ */
struct hd_job *hd_job_find(const struct hd_server *server, uint32_t id);
struct hd_member *hd_job_member(const struct hd_job *job, uint16_t rank);
void hd_job_join(struct hd_turn *turn, struct hd_peer *peer, const struct hd_msg_join *join);
void hd_job_leave(struct hd_turn *turn, struct hd_peer *peer, uint8_t reason);
/* JOINED to everybody who waited for the restored job. */
void hd_job_joined(struct hd_turn *turn, struct hd_job *job);
void hd_job_destroy(struct hd_server *server, struct hd_job *job);
/* The peer's session is gone, or leaves: what cannot end without it ends. */
void hd_peer_detach(struct hd_turn *turn, struct hd_peer *peer, enum hd_reason reason);
const struct hd_round *hd_member_round(const struct hd_member *member, uint32_t round);
/* True for rounds so old that their outcome is no longer known. */
bool hd_member_forgot(const struct hd_member *member, uint32_t round);
void hd_member_record(struct hd_member *member, const struct hd_round *round);
/* True when `base` is in this job's history. */
bool hd_job_knows(const struct hd_job *job, hd_version base);

/* The worker's place in the job, made if it is new. NULL: no memory. */
struct hd_member *hd_job_enter(struct hd_job *job, uint16_t rank);
/* A job without contents for a copy of another server's; takes *spec over only on success. NULL: text says why. */
struct hd_job *hd_job_create_mirror(struct hd_turn *turn, struct hd_jobspec *spec, char *text);
/* Fills rows with the newest applied rounds, and the newest of all: at most so many, oldest first; NULL only counts. */
uint32_t
hd_member_applied(const struct hd_member *member, uint32_t most, struct hd_last_round *rows);

/* --- hd_server_incoming.c ------------------------------------------------------------------- */
struct hd_incoming *
hd_incoming_create(struct hd_turn *turn, struct hd_job *job, uint64_t token, uint16_t part_count);
/* Says whose push the part at index is. */
void hd_incoming_part(struct hd_incoming *in, uint16_t index, const struct hd_part *part);
void hd_incoming_destroy(struct hd_server *server, struct hd_incoming *in);
/* The session of whoever sends it; NULL: there is none. */
struct hd_peer *hd_incoming_peer(const struct hd_incoming *in);
/* An event of this transfer: whose it is, which it is. */
struct hd_event hd_incoming_event(const struct hd_incoming *in, enum hd_event_kind kind);
/* Forgets an update, its successors may go. `done` says whether late chunks are answered so. */
void hd_incoming_end(struct hd_turn *turn, struct hd_incoming *in, bool done);
/* A transfer ends without being applied: told, recorded when that is final, counted. Of a sum the reason is that of
 * `cause`, one of its parts (NULL: nobody's); the other parts' workers may ask again. */
void hd_incoming_fail(
	struct hd_turn *turn,
	struct hd_incoming *in,
	enum hd_reason reason,
	const struct hd_part *cause
);
uint8_t hd_reason_outcome(enum hd_reason reason);
/* A round ends without being applied; recorded and told unless only its transfer has ended. */
void hd_round_fail(
	struct hd_turn *turn,
	struct hd_job *job,
	struct hd_member *member,
	const struct hd_round *round
);
/* A transfer ended, but not its round: told at once, its worker need not find out by waiting. */
void hd_push_withdraw(
	struct hd_turn *turn,
	const struct hd_job *job,
	const struct hd_member *member,
	uint64_t token,
	enum hd_reason reason
);
struct hd_tombstone hd_incoming_epitaph(const struct hd_incoming *in, uint64_t token, bool done);
void hd_tombstone_add(struct hd_server *server, const struct hd_tombstone *like);

/* --- hd_server_push.c ----------------------------------------------------------------------- */
void hd_push_expect(struct hd_turn *turn, const struct hd_msg_expect *expect);
void hd_push_request(
	struct hd_turn *turn,
	struct hd_member *member,
	const struct hd_msg_request *request
);
void hd_push_void(struct hd_turn *turn, const struct hd_msg_void_ *void_);
void hd_push_cancel(
	struct hd_turn *turn,
	struct hd_member *member,
	const struct hd_msg_cancel *cancel
);
/* Direct updates that waited for memory. */
void hd_push_feed(struct hd_turn *turn);
/* The round has ended already, or an update on `base` cannot be applied any more, `ahead` others first: how, in
 * *round. Ended rounds keep the outcome that they had. */
bool hd_push_is_over(
	const struct hd_job *job,
	const struct hd_member *member,
	hd_version base,
	uint64_t ahead,
	struct hd_round *round
);
/* Answers a push that is over; one that is decided only now is recorded and counted. */
void hd_push_answer(
	struct hd_turn *turn,
	struct hd_job *job,
	struct hd_member *member,
	const struct hd_round *round
);
/* The member's push of this round that comes, or NULL. */
struct hd_part *hd_member_part(const struct hd_member *member, uint32_t round);
/* Whether a new grant of the round takes the place of this one: its attempt is newer, or the same and not under way,
 * and this one is not held whole. */
bool hd_part_gives_way(const struct hd_part *older, uint8_t attempt);
/* It does. */
void hd_part_replace(struct hd_turn *turn, const struct hd_part *older);
/* `after` has ended: the transfer goes; else it waits for that. */
void hd_incoming_follow(struct hd_turn *turn, struct hd_incoming *in, uint64_t after);

/* --- hd_server_sum.c ------------------------------------------------------------------------ */
void hd_sum_members(struct hd_turn *turn, const struct hd_msg_members *members);
/* An aggregator gives its sum up. */
void hd_sum_void(struct hd_turn *turn, struct hd_peer *peer, const struct hd_msg_void_ *void_);
/* Its session begins, ends: sums of its address are its own; those that are not held whole have failed. */
void hd_aggregator_attach(struct hd_turn *turn, struct hd_peer *peer);
void hd_aggregator_detach(struct hd_turn *turn, struct hd_peer *peer);
struct hd_peer *hd_aggregator_find(const struct hd_server *server, struct hd_addr address);

/* --- hd_server_assembly.c ------------------------------------------------------------------- */
void hd_assembly_chunk(struct hd_turn *turn, const struct hd_packet *packet);
/* Acknowledges, completes and sends go, for everything that the call touched. */
void hd_assembly_settle(struct hd_turn *turn);
void hd_assembly_timer(struct hd_turn *turn, struct hd_incoming *in);
/* Tells the worker of `in` to start, and no longer waits for its predecessor. */
void hd_incoming_go(struct hd_turn *turn, struct hd_incoming *in);
/* Has it looked at before the call ends. */
void hd_incoming_touch(struct hd_server *server, struct hd_incoming *in);
/* Whether an update of this job may come as so many bytes of this type. */
bool hd_payload_fits(const struct hd_job *job, uint8_t dtype, uint64_t bytes);

/* --- hd_server_commit.c --------------------------------------------------------------------- */
/* HD_REASON_NONE when an update on `base` could still be applied after `ahead` others, else LOST_BASE or LATE. */
enum hd_reason hd_commit_bound(const struct hd_job *job, hd_version base, uint64_t ahead);
/* The same of all parts of a transfer. */
enum hd_reason
hd_commit_bounds(const struct hd_job *job, const struct hd_incoming *in, uint64_t ahead);
void hd_commit_queue(struct hd_incoming *in);
/* The delay of this part, if it makes the version with that counter. */
uint32_t hd_commit_delay(const struct hd_part *part, uint64_t counter);
void hd_commit_complete(struct hd_turn *turn, struct hd_incoming *in);
/* Applies what is due, as far as the call's step reaches. */
void hd_commit_run(struct hd_turn *turn, struct hd_job *job);
void hd_commit_outcome(
	struct hd_turn *turn,
	const struct hd_job *job,
	const struct hd_member *member,
	const struct hd_round *round
);
/* The controller's word on how a push ended. */
void hd_commit_report(
	struct hd_turn *turn,
	const struct hd_incoming *in,
	const struct hd_round *round
);

#endif
