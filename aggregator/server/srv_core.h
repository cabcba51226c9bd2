/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server, its sessions and tokens, and how its files send: the bottom of this room.
 *
 *   bottom   srv_send.c, srv_memory.c          tokens, sends, events, buffers
 *            srv_member.c, srv_assignment.c    jobs and members; whether a job may begin here
 *            srv_incoming.c, srv_payload.c     updates in transfer; srv_tell.c, srv_fail.c: how they end
 *            srv_federated.c, srv_bound.c      workers drawn for a round; updates that may be committed
 *            srv_step.c, srv_apply.c           into the model; srv_durable.c: what is durable
 *   ../replica (by the table in srv_replica.h) uses these only
 *   rooms    srv_push.c, srv_sum.c, srv_credit.c   updates that are accepted
 *            srv_assembly.c, srv_stream.c      receiving them
 *            srv_commit.c, srv_gather.c        the commit rule
 *            srv_pull.c, srv_snapshot.c        versions, and sending them
 *            srv_peer.c, srv_roster.c, srv_announce.c   sessions, membership, reports to the controller
 *            srv_checkpoint.c, srv_summary.c   checkpoints and job summaries
 *            srv_job.c, srv_end.c, srv_create.c, srv_join.c   creating and ending jobs
 *   top      srv_order.c, srv_show.c, srv_session.c, srv_node.c   dispatch and settling
 *
 * During one receive() or tick(), packets and timers first change state, then commits run, and only then does
 * srv_pulls_poll() hand model bytes to the sink, which may read them until the call returns.
 */
#ifndef SRV_CORE_H
#define SRV_CORE_H

#include "hd_admission.h"
#include "hd_container.h"
#include "hd_endpoint.h"
#include "hd_probe.h"
#include "hd_send.h"
#include "hd_server.h"
#include "hd_timers.h"
#include "hd_upstream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define uthash_malloc(bytes) malloc(bytes)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define SRV_POLL_PACKETS 32 /* of one transfer before the next one's turn */
#define SRV_POLL_BUDGET 512 /* of one receive() or tick() */
#define SRV_GO_SLACK_US 20000 /* after its start time a pull no longer waits for its predecessor */
#define SRV_PACKET_OVERHEAD 28 /* IPv4 and UDP headers */

enum srv_timer_kind {
	SRV_TIMER_INCOMING, /* a delayed acknowledgement */
	SRV_TIMER_HOLD,
	SRV_TIMER_CHECKPOINT,
	SRV_TIMER_ROSTER, /* a change of membership is to be sent */
	SRV_TIMER_IDLE, /* a job has had no worker for long */
	SRV_TIMER_PULL_START,
	SRV_TIMER_PULL_SEND,
	SRV_TIMER_STATE_SEND, /* like PULL_SEND, for a state for a replica */
	SRV_TIMER_PRIMARY, /* send a state once there is memory */
	SRV_TIMER_REPLICA /* a replica checks what it waits for */
};

/* 64-byte aligned memory for one model's values: model, momentum, snapshot or update. */
struct srv_buffer {
	uint32_t refs;
	struct srv_buffer *next; /* in the pool */
	float *data;
};

/* The kinds of things that a token can name. */
enum srv_handle_kind {
	SRV_HANDLE_INCOMING,
	SRV_HANDLE_PART, /* of a sum: it names a transfer to an aggregator */
	SRV_HANDLE_OUTGOING,
	SRV_HANDLE_STATE_OUT, /* in the replica's room */
	SRV_HANDLE_STATE_IN,
	SRV_HANDLE_TOMBSTONE
};

struct srv_handle {
	uint64_t token;
	enum srv_handle_kind kind;
	UT_hash_handle hh;
};

struct srv_incoming;
struct srv_job;
struct srv_member;
struct srv_outgoing;
LIST_HEAD(srv_peer_sums, srv_incoming);
LIST_HEAD(srv_peer_outgoing, srv_outgoing);
TAILQ_HEAD(srv_incoming_list, srv_incoming);
TAILQ_HEAD(srv_outgoing_list, srv_outgoing);
TAILQ_HEAD(srv_jobs, srv_job);

/* One session that a peer opened with us. */
struct srv_peer {
	struct hd_session *session;
	bool aggregates; /* an aggregator: in the server's list of those */
	LIST_ENTRY(srv_peer) aggregator_link;
	struct srv_peer_sums sums; /* sums that it sends */
	struct srv_peer_outgoing outgoing; /* its worker's pulls, or those that it relays */
	struct srv_job *job; /* NULL until JOIN */
	struct srv_member *member;
	bool joined; /* JOINED was sent */
	uint32_t waits_for; /* job of a JOIN that may not begin here yet; 0: none */
	uint64_t roster_sent; /* the newest change that it was sent */
	hd_ns place; /* when it may join; 0: it has not asked, or has joined */
	hd_ns rank_refused; /* a process on another host has held its rank since; 0: none does */
	const char *broken; /* why it is closed at the end of the call; NULL: it stays open */
	struct hd_path path; /* of pulls */
	uint32_t round_sent; /* the round for which it was last told that it is drawn */
	TAILQ_ENTRY(srv_peer) link;
};
TAILQ_HEAD(srv_peers, srv_peer);

/* A push that has ended. Chunks that still arrive are answered with `done` if it was held whole. */
struct srv_tombstone {
	struct srv_handle handle; /* first */
	bool used;
	bool done; /* it was held whole */
	bool copy;
	uint32_t job;
	uint16_t worker; /* HD_GROUP_WORKER: of a sum */
	struct hd_addr sender;
	uint32_t chunks;
	uint16_t slot_values; /* as in srv_incoming */
	uint8_t receiver;
	hd_ns answered; /* when; one answer a call is enough */
};

struct srv_histograms {
	struct hd_histogram first_chunk; /* of granted pushes, since the grant */
	struct hd_histogram staleness; /* of applied updates, not of synchronous jobs */
	struct hd_histogram pull; /* from the grant to the last acknowledgement */
};

struct hd_server {
	struct hd_server_config config;
	char host[HD_NAME_BYTES_MAX + 1];
	struct hd_endpoint *endpoint;
	struct hd_admission admission; /* of workers */
	struct hd_upstream
		upstream; /* the controller's session; refused for good: workers ask us directly */
	bool draining;
	bool alone; /* not registered for HD_FALLBACK_US: jobs begin without a controller */
	hd_ns heard; /* when it was last registered (or first looked for) */
	uint16_t epoch; /* newest controller epoch seen */
	struct hd_entropy entropy;
	struct srv_jobs jobs;
	uint32_t job_count;
	struct srv_peers peers;
	LIST_HEAD(srv_aggregators, srv_peer) aggregators; /* those of the peers */
	struct srv_handle *handles; /* uthash by token */
	uint32_t transfer_count;
	struct srv_tombstone *tombstones; /* HD_TOMBSTONES_MAX, a ring */
	uint32_t tombstone_next;
	struct hd_timers timers, sends;
	struct srv_incoming_list touched, starved;
	struct srv_outgoing_list starved_pulls, ended_pulls;
	struct hd_msg_grant relays[HD_RELAYS_WAITING_MAX]; /* grants that wait for a session */
	uint32_t relay_next;
	bool breaking; /* some peer's `broken` is set */
	bool freed; /* a buffer or snapshot is free: starved transfers may go on */
	uint64_t apply_left; /* values that this call may still apply */
	bool unfinished; /* it was not enough: the next tick continues */
	TAILQ_HEAD(rep_links, rep_link) links; /* sessions that we opened with replicas */
	TAILQ_HEAD(rep_jobs, rep_job) replicas; /* replicas of other nodes' jobs */
	bool retiring; /* a job ends at the end of this call */
	uint16_t assignment_epoch; /* epoch of the controller that sent `assignments` */
	uint32_t assignment_count; /* jobs that the controller said may, or may not, begin here */
	struct srv_assignment {
		uint32_t job;
		bool may;
		uint64_t generation;
	} assignments[HD_JOBS_MAX];
	struct hd_probes probes;
	struct hd_server_stats stats;
	struct hd_transfer_stats transfers;
	struct srv_histograms histograms;
};

/* The arguments that every handler takes. */
struct srv_turn {
	struct hd_server *server;
	hd_ns now;
	struct hd_sink *sink;
	hd_ns call; /* of receive(): its time, where `now` is that of the packet */
};

/* --- tokens ----------------------------------------------------------------------------------- */
struct srv_handle *srv_handle_find(struct hd_server *server, uint64_t token);
/* 0, -EEXIST, -ENOMEM, -ENOBUFS (HD_TRANSFERS_MAX). */
int srv_handle_add(struct hd_server *server, struct srv_handle *handle);
void srv_handle_remove(struct hd_server *server, struct srv_handle *handle);
void srv_tombstone_add(struct hd_server *server, const struct srv_tombstone *like);

/* --- sessions --------------------------------------------------------------------------------- */
/* The session whose packets come from this address; NULL: none. */
struct srv_peer *srv_peer_at(const struct hd_server *server, struct hd_addr addr);
/* The aggregator's session with this address; NULL: none. */
struct srv_peer *srv_aggregator_find(const struct hd_server *server, struct hd_addr address);
/* Removes it from the list; its session has ended or is about to. */
void srv_peer_free(struct hd_server *server, struct srv_peer *peer);
/* Closes its session at the end of the call; `why` must stay valid. */
void srv_peer_break(struct hd_server *server, struct srv_peer *peer, const char *why);

/* --- sending ---------------------------------------------------------------------------------- */
/* Sends reliably; closes a session whose queue is full: its worker joins and asks again. */
void srv_peer_send(struct srv_turn *turn, struct srv_peer *peer, const struct hd_message *message);
void srv_member_send(
	struct srv_turn *turn,
	const struct srv_member *member,
	const struct hd_message *message
);
void srv_controller_send(struct srv_turn *turn, const struct hd_message *message);
void srv_turn_event(struct srv_turn *turn, struct hd_event *event);
/* Reports an event of a job, with the job's name for the log; event->who has the node's names. */
void srv_job_event(struct srv_turn *turn, const struct srv_job *job, struct hd_event *event);

#endif
