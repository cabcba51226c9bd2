/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the server and of its replica share. One file an idea; each says what at its head.
 *
 *   srv_node.c, srv_session.c     node face, endpoint callbacks: who may say what
 *   srv_job.c, srv_end.c          jobs, their members and their ends; srv_told.c: whether they may begin here
 *   srv_roster.c, srv_rounds.c    who takes part; in a federated job's round
 *   srv_push.c, srv_sum.c, srv_credit.c  which updates may come; srv_assembly.c, srv_stream.c: how they come
 *   srv_incoming.c                their life; srv_commit.c, srv_step.c, srv_apply.c: into the model
 *   srv_pull.c, srv_snapshot.c    versions, and sending them
 *   srv_checkpoint.c, srv_report.c  what is kept, and told
 *   srv_memory.c, srv_stats.c, srv_show.c
 *
 * During one receive() or tick(): first whatever arrived changes state, then commits run, and only
 * then does srv_pulls_poll() hand model bytes to the sink, which may read them until the call returns.
 */
#ifndef SRV_INTERNAL_H
#define SRV_INTERNAL_H

#include "hd_endpoint.h"
#include "hd_probe.h"
#include "hd_recv.h"
#include "hd_roster.h"
#include "hd_seal.h"
#include "hd_send.h"
#include "hd_server.h"
#include "hd_timers.h"
#include "srv_keep.h"
#include "srv_rounds.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define uthash_malloc(bytes) malloc(bytes)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define SRV_POLL_PACKETS 32 /* one transfer's turn */
#define SRV_POLL_BUDGET 512 /* packets of one receive() or tick() */
#define SRV_GO_SLACK_US 20000 /* after its start time a pull no longer waits for the one before */
#define SRV_PACKET_OVERHEAD 28 /* IPv4 and UDP headers */

enum srv_timer_kind {
	SRV_TIMER_INCOMING, /* a delayed acknowledgement */
	SRV_TIMER_HOLD,
	SRV_TIMER_CHECKPOINT,
	SRV_TIMER_ROSTER, /* who takes part has changed: it is to be said */
	SRV_TIMER_IDLE, /* nobody has been in a job for long */
	SRV_TIMER_PULL_START,
	SRV_TIMER_PULL_SEND,
	SRV_TIMER_STATE_SEND, /* beside PULL_SEND: of a state for a replica */
	SRV_TIMER_PRIMARY, /* a state is to be sent once there is memory */
	SRV_TIMER_REPLICA /* a replica looks after what it waits for */
};

/* 64-byte aligned memory for one model's values: model, momentum, snapshot or update. */
struct srv_buffer {
	uint32_t refs;
	struct srv_buffer *next; /* in the pool */
	float *data;
};

/* What a token stands for. */
enum srv_handle_kind {
	SRV_HANDLE_INCOMING,
	SRV_HANDLE_PART, /* of a sum: its transfer ends at an aggregator */
	SRV_HANDLE_OUTGOING,
	SRV_HANDLE_STATE_OUT, /* rep_internal.h */
	SRV_HANDLE_STATE_IN,
	SRV_HANDLE_TOMBSTONE
};

struct srv_handle {
	uint64_t token;
	enum srv_handle_kind kind;
	UT_hash_handle hh;
};

struct srv_job;
struct srv_part;
struct srv_incoming;
struct srv_outgoing;
struct rep_primary;
struct rep_job;
struct rep_entry;
LIST_HEAD(srv_peer_sums, srv_incoming);
LIST_HEAD(srv_peer_outgoing, srv_outgoing);

/* One session that somebody opened with us. */
struct srv_peer {
	struct hd_session *session;
	bool aggregates; /* it is an aggregator's: in the server's list of those */
	LIST_ENTRY(srv_peer) aggregator_link;
	struct srv_peer_sums sums; /* that it sends */
	struct srv_peer_outgoing outgoing; /* pulls of its worker, or that it relays to several */
	struct srv_job *job; /* NULL until JOIN */
	struct srv_member *member;
	bool joined; /* JOINED was sent */
	uint32_t waits_for; /* job of its JOIN, which may not begin here yet; 0: none */
	uint64_t roster_told; /* the change that it was told of last */
	hd_ns rank_refused; /* since then its rank is held by another host's process; 0: it is not */
	const char *broken; /* why it is closed at the end of the call; NULL: it is not */
	struct hd_path path; /* of pulls */
	uint32_t round_told; /* srv_rounds.c: that it is drawn for this one */
	TAILQ_ENTRY(srv_peer) link;
};
TAILQ_HEAD(srv_peers, srv_peer);

struct srv_round {
	uint32_t round; /* 0: none */
	uint8_t outcome, reason;
	uint32_t delay;
	hd_version version;
};

LIST_HEAD(srv_member_parts, srv_part);

/* A worker of a job; outlives its sessions. */
struct srv_member {
	uint16_t rank;
	bool left;
	bool done; /* it pushes no more, and waits for the ends of what it has pushed */
	bool observer; /* it only pulls, and is in no roster */
	bool joined; /* in this life of the server */
	struct srv_peer *peer; /* NULL: no session */
	uint32_t newest_round;
	uint32_t first_round; /* the newest before this life */
	struct srv_member_draw draw;
	struct hd_worker_report tally;
	struct srv_round rounds[HD_ROUNDS_KEPT]; /* rounds[round % HD_ROUNDS_KEPT] */
	struct srv_member_parts parts; /* its pushes that come */
};

LIST_HEAD(srv_incoming_successors, srv_incoming);
LIST_HEAD(srv_outgoing_successors, srv_outgoing);
TAILQ_HEAD(srv_incoming_list, srv_incoming);
TAILQ_HEAD(srv_outgoing_list, srv_outgoing);

/* One push of a transfer. */
struct srv_part {
	struct srv_handle handle; /* first; of a sum's: its token at the aggregator */
	struct srv_incoming *in;
	struct srv_member *member;
	uint32_t round;
	uint8_t attempt;
	hd_version base;
	float weight; /* by which its worker multiplied it */
	uint8_t late; /* steps; of one in a federated job's step */
	LIST_ENTRY(srv_part) member_link;
};

/*
 * A transfer that may come, comes, or waits for its commit: one worker's update, or the sum of several that an
 * aggregator sends. The parts of a sum are committed together or not at all; part i is at
 * position + i and makes the i-th version from there.
 */
struct srv_incoming {
	struct srv_handle handle; /* first */
	struct hd_seal seal;
	struct srv_job *job;
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
	struct srv_buffer *buffer; /* NULL: no chunk yet */
	struct hd_recv *recv;
	struct rep_entry *entry; /* of the log, of a copy; NULL: none, or not yet */
	struct srv_peer *source; /* of a copy: who sends it, once a chunk has come */
	struct hd_timer timer;
	struct hd_addr sender; /* of a sum */
	uint16_t
		slot_values; /* it comes from a switch's slots, so many values at a time; 0: it does not */
	uint8_t receiver; /* then: which of the sum's receivers this node is */
	struct srv_peer *aggregator; /* its session; NULL: none with that address */
	struct srv_incoming *predecessor; /* whose end frees this one's start */
	struct srv_incoming_successors successors;
	LIST_ENTRY(srv_incoming) successor_link, aggregator_link;
	TAILQ_ENTRY(srv_incoming) open_link, queue_link, touched_link, starved_link;
	uint16_t part_count, steps; /* members; steps of its mean that it makes */
	float scale; /* of one in a federated job's step: what is left of its weights, as it is late; else 1 */
	struct srv_part parts[];
};

/* A version in 16 bits: the first values of it, so far. */
struct srv_rounded {
	struct srv_buffer *buffer; /* NULL: nobody asked */
	uint64_t done; /* values */
};

struct srv_snapshot {
	uint32_t refs;
	hd_version version;
	struct srv_buffer *buffer;
	struct srv_rounded half[2]; /* fp16, bf16 */
	LIST_ENTRY(srv_snapshot) link;
};

enum srv_outgoing_state {
	SRV_OUTGOING_WAITING, /* for its start */
	SRV_OUTGOING_STARVED, /* for a snapshot */
	SRV_OUTGOING_SENDING,
	SRV_OUTGOING_ENDED /* while sending: freed at the next call, the sink may still read */
};

/* A pull of one worker, or one that an aggregator relays to several. It ends with the session. */
struct srv_outgoing {
	struct srv_handle handle; /* first */
	struct srv_job *job;
	struct srv_peer *peer;
	struct hd_msg_grant grant;
	enum srv_outgoing_state state;
	struct srv_snapshot *snapshot;
	struct hd_send *send;
	bool started; /* SEND_START was reported */
	struct hd_timer start_timer, poll_timer;
	struct srv_outgoing *predecessor;
	struct srv_outgoing_successors successors;
	LIST_ENTRY(srv_outgoing) successor_link, peer_link;
	TAILQ_ENTRY(srv_outgoing) open_link, starved_link;
};

/* An ended push: chunks that still come are answered with `done`, when they were all held. */
struct srv_tombstone {
	struct srv_handle handle; /* first */
	bool used;
	bool done; /* it was held whole: chunks that still come are answered so */
	bool copy;
	uint32_t job;
	uint16_t worker; /* HD_GROUP_WORKER: a sum, of */
	struct hd_addr sender;
	uint32_t chunks;
	uint16_t slot_values; /* as in srv_incoming */
	uint8_t receiver;
	hd_ns answered; /* one answer a call is enough */
};

/* The update, or a step's first one, that is being applied. A big one takes several calls, a step in each, so that
 * packets are taken in between; nobody sees the model meanwhile: who would pin it waits. */
struct srv_apply {
	struct srv_incoming *in; /* NULL: none */
	struct srv_buffer *model,
		*momentum; /* written to: the job's own, or copies while others read */
	uint64_t done; /* values; of a sparse one: copied into the buffers that are written to */
	uint64_t read; /* bytes of a sparse one */
	double momentum2, weights2; /* as the job's, after the step */
	float mean; /* of a synchronous step: its sum is multiplied by this, the step's scale by its weight */
};

/* A synchronous job's next step: complete updates, added up (srv_step.c). */
struct srv_step {
	struct srv_incoming_list members; /* by queue_link, in the order of adding */
	uint32_t count; /* updates in them */
	/* What it goes by, all of one change of the roster (0: none was told): N, the factor on the mean (0: never said). */
	uint64_t change;
	uint32_t most;
	float scale;
	uint32_t late; /* of these: of a federated job's rounds before */
	double weight; /* theirs in all: what the sum is divided by */
	struct srv_buffer *sum; /* kept from step to step; NULL: none yet */
	struct srv_incoming *adding; /* the last member, until all of it is in the sum */
	uint64_t done, read; /* of that: values; bytes of a sparse one */
	/* norm2 is the sum's; N workers were here at once; no memory for the sum; it began; it was said that one waits */
	bool normed, formed, starved;
	hd_ns since, told;
	double norm2;
};

struct srv_job {
	uint32_t id;
	struct hd_jobspec spec;
	uint64_t values, bytes;
	hd_version version;
	hd_version durable; /* workers were told; on the replica, without one in a checkpoint */
	hd_version saved; /* in a checkpoint */
	uint32_t life_count;
	struct hd_life lives[HD_LIVES_MAX];
	struct srv_member **members; /* HD_WORKERS_MAX, by rank */
	uint32_t member_count;
	/* srv_memory.c */
	struct srv_buffer *pool;
	uint32_t buffer_count, buffer_floor; /* allocated; never trimmed below */
	struct srv_buffer *spare[2]; /* for the copy that a commit must make: model, momentum */

	struct srv_buffer *model, *momentum;
	LIST_HEAD(srv_snapshots, srv_snapshot) snapshots;
	uint32_t snapshot_count;

	struct srv_incoming_list open; /* all, in the order in which they were told */
	struct srv_incoming_list queue; /* those with a position, and complete direct ones */
	struct srv_outgoing_list pulls;
	uint32_t open_count, pull_count;
	uint64_t position; /* highest told */
	struct hd_timer hold;
	bool dirty; /* the commit rule is to be looked at */
	struct srv_apply apply;
	struct srv_step step;
	struct srv_rounds rounds;
	struct hd_commit *log; /* HD_COMMITS_KEPT */
	uint64_t log_count;

	/* srv_checkpoint.c */
	bool checkpointing, restoring, checkpoint_asked; /* asked: and not begun yet */
	uint32_t checkpoint_failures; /* in a row, at most HD_CHECKPOINT_BACKOFF_MAX */
	uint64_t commits_since;
	struct hd_checkpoint checkpoint;
	struct srv_buffer *checkpoint_state[2]; /* model, momentum */
	struct hd_timer retry;

	/* rep_internal.h: at most one of them. Norms are kept while a replica follows. */
	struct rep_primary *primary; /* of its replica; NULL: it has none */
	struct rep_job *replica; /* this is a copy of another server's job */
	bool replicated; /* its replica may be promoted: durable is what that has whole, */
	hd_version replicated_to; /* this */
	double momentum2, weights2; /* squared L2 norms */
	uint64_t generation; /* the newest assignment that the controller told of */
	bool retired; /* another node is its server: it goes */
	bool asking, confirmed; /* waits for the controller's answer to its STATE; has had it */

	/* srv_roster.c: who takes part, by the controller's word, or as we say it: */
	struct hd_roster roster;
	uint8_t roster_ranks[HD_ROSTER_BYTES]; /* as was said last */
	uint64_t roster_changes;
	struct hd_timer roster_timer;

	/* srv_end.c */
	hd_ns idle_since; /* nobody has been here: since then */
	bool left; /* whoever went last said so: nobody is expected back */
	bool ending; /* it goes when its last checkpoint is written */
	bool unlisted; /* the controller has forgotten it, and somebody is here */
	struct hd_timer idle;

	/* srv_report.c */
	bool emptied; /* somebody left; if nobody is here, the report is due */
	struct hd_job_report report;
	TAILQ_ENTRY(srv_job) link;
};
TAILQ_HEAD(srv_jobs, srv_job);

/* Nobody may push or pull here (yet): it waits for checkpoint or controller, is a copy, or is another node's by now. */
static inline bool srv_job_away(const struct srv_job *job) {
	return job->restoring || job->asking || job->replica != NULL || job->retired;
}

/* It is for a replica: nobody but the log decides on it. */
static inline bool srv_incoming_is_copy(const struct srv_incoming *in) {
	return in->job->replica != NULL;
}

/* The controller's newest word on who is its server. */
static inline void srv_job_told(struct srv_job *job, uint64_t generation) {
	if (generation > job->generation) {
		job->generation = generation;
	}
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
	struct srv_jobs jobs;
	uint32_t job_count;
	struct srv_peers peers;
	LIST_HEAD(srv_aggregators, srv_peer) aggregators; /* of the peers */
	struct srv_handle *handles; /* uthash by token */
	uint32_t transfer_count;
	struct srv_tombstone *tombstones; /* HD_TOMBSTONES_MAX, a ring */
	uint32_t tombstone_next;
	struct hd_timers timers, sends;
	struct srv_incoming_list touched, starved;
	struct srv_outgoing_list starved_pulls, ended_pulls;
	struct hd_msg_grant relays[HD_RELAYS_WAITING_MAX]; /* for their session; token 0: none */
	uint32_t relay_next;
	bool breaking; /* a peer's session is to be closed at the end of the call */
	bool freed; /* a buffer or snapshot came free: somebody starved may go on */
	uint64_t step_left; /* values that this call may still apply */
	bool unfinished; /* it was not enough: the next tick goes on */
	TAILQ_HEAD(rep_links, rep_link) links; /* sessions that we opened, with replicas */
	TAILQ_HEAD(rep_jobs, rep_job) replicas; /* copies of others' jobs */
	bool retiring; /* a job is to be forgotten at the end of a call: another node's, or one that ends */
	uint32_t told_count; /* jobs of which the controller said whether they may begin here: */
	struct srv_told {
		uint32_t job;
		bool may;
		uint64_t generation;
	} told[HD_JOBS_MAX];
	struct hd_probes probes;
	struct hd_server_stats stats;
};

/* What a handler is called with, in one piece. */
struct srv_turn {
	struct hd_server *server;
	hd_ns now;
	struct hd_sink *sink;
};

/* --- srv_send.c ---------------------------------------------------------------------------- */
struct srv_handle *srv_handle_find(struct hd_server *server, uint64_t token);
/* 0, -EEXIST, -ENOMEM, -ENOBUFS (HD_TRANSFERS_MAX). */
int srv_handle_add(struct hd_server *server, struct srv_handle *handle);
void srv_handle_remove(struct hd_server *server, struct srv_handle *handle);
void srv_peer_free(struct hd_server *server, struct srv_peer *peer);
/* Sends reliably; a session whose queue is full is given up: its worker joins and asks again. */
void srv_peer_send(struct srv_turn *turn, struct srv_peer *peer, const struct hd_message *message);
/* Its session is closed at the end of the call; `why` lives on. */
void srv_peer_break(struct hd_server *server, struct srv_peer *peer, const char *why);
void srv_member_send(
	struct srv_turn *turn,
	const struct srv_member *member,
	const struct hd_message *message
);
void srv_controller_send(struct srv_turn *turn, const struct hd_message *message);
void srv_turn_event(struct srv_turn *turn, struct hd_event *event);

/* --- srv_session.c -------------------------------------------------------------------- */
extern const struct hd_endpoint_ops srv_endpoint_ops;
/* Tells the controller where a job stands, and what is open. */
void srv_announce(struct srv_turn *turn, const struct srv_job *job);
void srv_peer_destroy(struct hd_server *server, struct srv_peer *peer);
/* The session whose packets come from this address; NULL: none. */
struct srv_peer *srv_peer_at(const struct hd_server *server, struct hd_addr addr);

/* --- srv_show.c ----------------------------------------------------------------------- */
void srv_refuse_command(struct srv_turn *turn, struct srv_peer *peer);
void srv_show(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_show *show);

/* --- srv_job.c ------------------------------------------------------------------------ */
struct srv_job *srv_job_find(const struct hd_server *server, uint32_t id);
struct srv_member *srv_job_member(const struct srv_job *job, uint16_t rank);
void srv_job_join(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_join *join);
void srv_job_leave(struct srv_turn *turn, struct srv_peer *peer, uint8_t reason);
/* JOINED to everybody who waited for the restored job. */
void srv_job_joined(struct srv_turn *turn, struct srv_job *job);
void srv_job_destroy(struct hd_server *server, struct srv_job *job);
/* The peer's session is gone, or leaves: what cannot end without it ends. */
void srv_peer_detach(struct srv_turn *turn, struct srv_peer *peer, enum hd_reason reason);
const struct srv_round *srv_member_round(const struct srv_member *member, uint32_t round);
/* True for rounds so old that their outcome is no longer known. */
bool srv_member_forgot(const struct srv_member *member, uint32_t round);
void srv_member_record(struct srv_member *member, const struct srv_round *round);
/* True when `base` is in this job's history. */
bool srv_job_knows(const struct srv_job *job, hd_version base);

/* The worker's place in the job, made if it is new. NULL: no memory. */
struct srv_member *srv_job_enter(struct srv_job *job, uint16_t rank);
/* Fills rows with the newest applied rounds, and the newest of all: at most so many, oldest first; NULL only counts. */
uint32_t
srv_member_applied(const struct srv_member *member, uint32_t most, struct hd_last_round *rows);

/* --- srv_incoming.c ------------------------------------------------------------------- */
struct srv_incoming *srv_incoming_create(
	struct srv_turn *turn,
	struct srv_job *job,
	uint64_t token,
	uint16_t part_count
);
/* Says whose push the part at index is. */
void srv_incoming_part(struct srv_incoming *in, uint16_t index, const struct srv_part *part);
void srv_incoming_destroy(struct hd_server *server, struct srv_incoming *in);
/* The session of whoever sends it; NULL: there is none. */
struct srv_peer *srv_incoming_peer(const struct srv_incoming *in);
/* An event of this transfer: whose it is, which it is. */
struct hd_event srv_incoming_event(const struct srv_incoming *in, enum hd_event_kind kind);
/* Forgets an update, its successors may go. `done` says whether late chunks are answered so. */
void srv_incoming_end(struct srv_turn *turn, struct srv_incoming *in, bool done);
/* A transfer ends without being applied: told, recorded when that is final, counted. Of a sum the reason is that of
 * `cause`, one of its parts (NULL: nobody's); the other parts' workers may ask again. */
/* It is no copy. */
void srv_push_fail(
	struct srv_turn *turn,
	struct srv_incoming *in,
	enum hd_reason reason,
	const struct srv_part *cause
);
uint8_t srv_reason_outcome(enum hd_reason reason);
/* A round ends without being applied; recorded and told unless only its transfer has ended. */
void srv_round_fail(
	struct srv_turn *turn,
	struct srv_job *job,
	struct srv_member *member,
	const struct srv_round *round
);
/* A transfer ended, but not its round: told at once, its worker need not find out by waiting. */
void srv_push_withdraw(
	struct srv_turn *turn,
	const struct srv_job *job,
	const struct srv_member *member,
	uint64_t token,
	enum hd_reason reason
);
/* The same to any session; NULL: there is none. */
void srv_peer_withdraw(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct srv_job *job,
	uint64_t token,
	enum hd_reason reason
);
struct srv_tombstone srv_incoming_epitaph(const struct srv_incoming *in, uint64_t token, bool done);
void srv_tombstone_add(struct hd_server *server, const struct srv_tombstone *like);

/* --- srv_push.c ----------------------------------------------------------------------- */
void srv_push_expect(struct srv_turn *turn, const struct hd_msg_expect *expect);
void srv_push_request(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_request *request
);
void srv_push_void(struct srv_turn *turn, const struct hd_msg_void_ *void_);
void srv_push_cancel(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_cancel *cancel
);
/* Direct updates that waited for memory. */
void srv_push_feed(struct srv_turn *turn);
/* The round has ended already, or an update on `base` cannot be applied any more, `ahead` others first: how, in
 * *round. Ended rounds keep the outcome that they had. */
bool srv_push_is_over(
	const struct srv_job *job,
	const struct srv_member *member,
	hd_version base,
	uint64_t ahead,
	struct srv_round *round
);
/* Answers a push that is over; one that is decided only now is recorded and counted. */
void srv_push_answer(
	struct srv_turn *turn,
	struct srv_job *job,
	struct srv_member *member,
	const struct srv_round *round
);
/* The member's push of this round that comes, or NULL. */
struct srv_part *srv_member_part(const struct srv_member *member, uint32_t round);
/* Whether a new grant of the round takes the place of this one: its attempt is newer, or the same and not under way,
 * and this one is not held whole. */
bool srv_part_gives_way(const struct srv_part *older, uint8_t attempt);
/* It does. */
void srv_part_replace(struct srv_turn *turn, const struct srv_part *older);
/* `after` has ended: the transfer goes; else it waits for that. */
void srv_incoming_follow(struct srv_turn *turn, struct srv_incoming *in, uint64_t after);

/* --- srv_sum.c ------------------------------------------------------------------------ */
void srv_sum_members(struct srv_turn *turn, const struct hd_msg_members *members);
/* An aggregator gives its sum up. */
void srv_sum_void(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_void_ *void_);
/* Its session begins, ends: sums of its address are its own; those that are not held whole have failed. */
void srv_aggregator_attach(struct srv_turn *turn, struct srv_peer *peer);
struct srv_peer *srv_aggregator_find(const struct hd_server *server, struct hd_addr address);

/* --- srv_assembly.c ------------------------------------------------------------------- */
void srv_assembly_chunk(struct srv_turn *turn, const struct hd_packet *packet);
/* Acknowledges, completes and sends go, for everything that the call touched. */
void srv_assembly_settle(struct srv_turn *turn);
void srv_assembly_timer(struct srv_turn *turn, struct srv_incoming *in);
/* Tells the worker of `in` to start, and no longer waits for its predecessor. */
void srv_incoming_go(struct srv_turn *turn, struct srv_incoming *in);
/* Has it looked at before the call ends. */
void srv_incoming_touch(struct hd_server *server, struct srv_incoming *in);
/* Whether an update of this job may come as so many bytes of this type. */
bool srv_payload_fits(const struct srv_job *job, uint8_t dtype, uint64_t bytes);

/* --- srv_commit.c --------------------------------------------------------------------- */
/* HD_REASON_NONE when an update on `base` could still be applied after `ahead` others, else LOST_BASE or LATE. */
enum hd_reason srv_commit_bound(const struct srv_job *job, hd_version base, uint64_t ahead);
/* The same of all parts of a transfer. */
enum hd_reason
srv_commit_bounds(const struct srv_job *job, const struct srv_incoming *in, uint64_t ahead);
void srv_commit_queue(struct srv_incoming *in);
/* The delay of this part, if it makes the version with that counter. */
uint32_t srv_commit_delay(const struct srv_part *part, uint64_t counter);
/* Applies what is due, as far as the call's step reaches. */
void srv_commit_run(struct srv_turn *turn, struct srv_job *job);
void srv_commit_outcome(
	struct srv_turn *turn,
	const struct srv_job *job,
	const struct srv_member *member,
	const struct srv_round *round
);
/* The controller's word on how a push ended. */
void srv_commit_report(
	struct srv_turn *turn,
	const struct srv_incoming *in,
	const struct srv_round *round
);

/* What its values were multiplied by; of a sum, their total. */
float srv_incoming_weight(const struct srv_incoming *in);
/* The same, not rounded. */
double srv_incoming_weights(const struct srv_incoming *in);
/* This session is the one that the sum comes over. */
void srv_sum_bind(struct srv_incoming *in, struct srv_peer *peer);
/* Another node is the job's server: it goes, and its workers' sessions with it. */
void srv_job_retire(struct srv_turn *turn, struct srv_job *job);
/* Job's newest durable version after something changed; tells. */
void srv_durable_update(struct srv_turn *turn, struct srv_job *job);
/* The controller has heard that the job is here, and said that this node is its server. */
void srv_job_confirm(struct srv_turn *turn, struct srv_job *job);
/* It is silent: the job goes on without that word. */
void srv_job_alone(struct srv_turn *turn, struct srv_job *job);
/* The same, of all: who waits for that word joins without it. Nothing is durable before it comes. */
void srv_jobs_alone(struct srv_turn *turn);
/* Ties the session to its worker. A newer session of the same rank takes the older one's place. */
void srv_peer_attach(
	struct srv_turn *turn,
	struct srv_peer *peer,
	struct srv_job *job,
	struct srv_member *member
);
int srv_incoming_open(
	struct hd_server *server,
	struct srv_incoming *in,
	const struct hd_chunk_header *header
);
/* By its MAC, if it is sealed. */
bool srv_chunk_is_true(
	struct srv_turn *turn,
	struct hd_seal *seal,
	const struct hd_chunk_header *header,
	const struct hd_packet *packet
);

#endif
