/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server, its sessions and tokens, and how its files send: the bottom of this room.
 *
 *   bottom   srv_send.c, srv_memory.c          tokens, sends, events, buffers
 *            srv_member.c, srv_told.c          jobs and members; whether a job may begin here
 *            srv_incoming.c, srv_payload.c     updates that come; srv_tell.c, srv_fail.c: how they end
 *            srv_federated.c, srv_bound.c      who is drawn; which updates may be committed
 *            srv_step.c, srv_apply.c           into the model; srv_durable.c: what cannot be lost
 *   ../replica (by the table in srv_replica.h) knows nothing but these
 *   rooms    srv_push.c, srv_sum.c, srv_credit.c   which updates may come
 *            srv_assembly.c, srv_stream.c      how they come
 *            srv_commit.c, srv_gather.c        the commit rule
 *            srv_pull.c, srv_snapshot.c        versions, and sending them
 *            srv_peer.c, srv_roster.c, srv_announce.c   who is here, and what others hear of it
 *            srv_checkpoint.c, srv_summary.c   what is kept
 *            srv_job.c, srv_end.c, srv_create.c, srv_join.c   jobs' lives
 *   top      srv_order.c, srv_show.c, srv_session.c, srv_node.c   dispatch and settling
 *
 * During one receive() or tick(): first whatever arrived changes state, then commits run, and only
 * then does srv_pulls_poll() hand model bytes to the sink, which may read them until the call returns.
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
	SRV_HANDLE_STATE_OUT, /* the replica's room */
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
	hd_ns place; /* when it may join; 0: it did not ask yet, or is in */
	hd_ns rank_refused; /* since then its rank is held by another host's process; 0: it is not */
	const char *broken; /* why it is closed at the end of the call; NULL: it is not */
	struct hd_path path; /* of pulls */
	uint32_t round_told; /* srv_federated.c: that it is drawn for this one */
	TAILQ_ENTRY(srv_peer) link;
};
TAILQ_HEAD(srv_peers, srv_peer);

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

struct srv_histograms {
	struct hd_histogram first_chunk; /* of pushes that were granted: from then on */
	struct hd_histogram staleness; /* of applied updates, of jobs that are not synchronous */
	struct hd_histogram pull; /* from the grant to the last acknowledgement */
};

struct hd_server {
	struct hd_server_config config;
	char host[HD_NAME_BYTES_MAX + 1];
	struct hd_endpoint *endpoint;
	struct hd_admission admission; /* of workers */
	struct hd_upstream
		upstream; /* the controller's session; refused for good: workers come directly */
	bool draining;
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
	uint64_t apply_left; /* values that this call may still apply */
	bool unfinished; /* it was not enough: the next tick goes on */
	TAILQ_HEAD(rep_links, rep_link) links; /* sessions that we opened, with replicas */
	TAILQ_HEAD(rep_jobs, rep_job) replicas; /* of other nodes' jobs */
	bool retiring; /* a job is to be forgotten at the end of a call: another node's, or one that ends */
	uint16_t told_epoch; /* the life of the controller that said `told` */
	uint32_t told_count; /* jobs of which the controller said whether they may begin here: */
	struct srv_told {
		uint32_t job;
		bool may;
		uint64_t generation;
	} told[HD_JOBS_MAX];
	struct hd_probes probes;
	struct hd_server_stats stats;
	struct hd_transfer_stats transfers;
	struct srv_histograms histograms;
};

/* What a handler is called with, in one piece. */
struct srv_turn {
	struct hd_server *server;
	hd_ns now;
	struct hd_sink *sink;
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
/* Out of the list; its session has ended or is about to. */
void srv_peer_free(struct hd_server *server, struct srv_peer *peer);
/* Its session is closed at the end of the call; `why` lives on. */
void srv_peer_break(struct hd_server *server, struct srv_peer *peer, const char *why);

/* --- sending ---------------------------------------------------------------------------------- */
/* Sends reliably; a session whose queue is full is given up: its worker joins and asks again. */
void srv_peer_send(struct srv_turn *turn, struct srv_peer *peer, const struct hd_message *message);
void srv_member_send(
	struct srv_turn *turn,
	const struct srv_member *member,
	const struct hd_message *message
);
void srv_controller_send(struct srv_turn *turn, const struct hd_message *message);
void srv_turn_event(struct srv_turn *turn, struct hd_event *event);
/* The same of a job, with its name for the log beside what event->who says of the node. */
void srv_job_event(struct srv_turn *turn, const struct srv_job *job, struct hd_event *event);

#endif
