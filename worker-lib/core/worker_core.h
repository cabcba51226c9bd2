/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker core. Nothing outside worker-lib/core includes this. A file calls only those before it in this list:
 *
 *   say, state           events, messages; where the worker stands with controller and server
 *   reduces, way         lists: all-reduces; ways to the nodes that chunks go to and come from
 *   times, ticket        pushes and pulls: how long they take; their states and ends
 *   grant, payload, bury what a grant says; what an update is on the wire; what has ended
 *   copy, stream, push   pushes begin: to a replica, into slots, to server or aggregator
 *   credit, step, ask    asking for pushes and pulls, and asking again
 *   reduce_ask, shards, slots, reduce  all-reduces
 *   send, pull, outcome, stall, way_end  what becomes of what was asked for
 *   call, members, observe, round  the owner's calls, and what there is besides
 *   leave, session       the sessions with controller and server
 *   stats                what is counted, and who asks for it
 *   packet, dispatch     packets and messages go to their handlers
 *   node                 the node's face
 *
 * Order within one receive() or tick():
 *   collect (frees what ended in the call before) -> packets, timers (messages, callbacks)
 *   -> observe (what became of sends and receives) -> pump (packets leave, nothing ends)
 * so that data is released only while no packet that refers to it is on its way into the driver.
 */
#ifndef WORKER_CORE_H
#define WORKER_CORE_H

#include "hd_probe.h"
#include "hd_worker.h"
#include "hd_worker_times.h"
#include "worker_way.h"

#include <sys/queue.h>

#define WORKER_EARLY_MAX 64 /* go that came before its grant */
#define WORKER_TOMBSTONES_MAX                                                                      \
	512 /* pulls and sums that are complete, whose sender may not know yet */
#define WORKER_ATTEMPTS_MAX 255
#define WORKER_PACKET_OVERHEAD 28 /* IPv4 and UDP headers */
#define WORKER_RETRY_US 10000 /* a message that did not fit is tried again */
#define WORKER_REGISTER_RETRY_US 250000 /* no server for the job yet */

/* What the controller is to this worker. */
enum worker_link {
	WORKER_UNREGISTERED, /* none is configured, or it has not registered us in this session yet */
	WORKER_SCHEDULED, /* it has, and wants to be asked */
	WORKER_UNSCHEDULED, /* it has, and the server is to be asked */
	WORKER_FALLBACK /* it is silent for too long: the server is asked until it speaks again */
};

/* From the first call to the last, in this order; what is not said is left out (WITHDRAWN without a notice). */
enum worker_life {
	WORKER_MEMBER,
	WORKER_LEAVING, /* nothing new is begun, what is under way ends */
	WORKER_WITHDRAWN, /* the end of the notice is near: what is not held was withdrawn */
	WORKER_LINGERING, /* LEAVE was said */
	WORKER_LEFT
};

enum worker_asked {
	WORKER_ASKED_NOBODY,
	WORKER_ASKED_CONTROLLER,
	WORKER_ASKED_SERVER
};

TAILQ_HEAD(worker_tickets, worker_ticket);
TAILQ_HEAD(worker_reduces, worker_reduce);
struct worker_shard;
#define WORKER_REDUCE_FOUND_MAX 256

struct worker_tombstone {
	uint64_t token;
	struct hd_addr from; /* none: the server */
	uint32_t held; /* chunks */
	uint32_t packet; /* newest that came */
	bool due;
};

/* The server's word on a token whose grant, from the controller, has not come yet. */
struct worker_early {
	uint64_t token; /* 0: none */
	bool ended; /* VOID; else go */
};

/* The server may be asked for one pull of so many bytes. */
struct worker_pull_credit {
	uint64_t bytes; /* 0: none */
	hd_ns until;
};

struct hd_worker {
	char name[HD_NAME_BYTES_MAX + 1], host[HD_NAME_BYTES_MAX + 1];
	struct hd_worker_config config; /* strings and spec point into this struct */
	struct hd_jobspec spec;
	uint8_t *spec_blob;
	uint32_t spec_bytes;
	uint32_t job;
	uint64_t model_bytes;

	struct hd_endpoint *endpoint;
	struct hd_session *controller, *server;
	struct hd_addr server_addr;
	uint64_t server_boot; /* of the life that we joined last; 0 = none */
	uint64_t controller_boot; /* of the life that registered us last */
	hd_ns controller_heard; /* for the fallback */
	hd_ns register_at; /* when to ask for a server, or for a rank, again, or HD_NEVER */
	hd_ns join_at; /* when to ask the server for the rank again, or HD_NEVER */
	hd_ns retry_at; /* when to ask for what is queued again, or HD_NEVER */
	hd_ns stall_at; /* when to look for stalls, or HD_NEVER */
	uint32_t
		silent_stalls; /* one after the other: not one chunk came through, though the peer was heard */
	enum worker_link link; /* worker_set_link() */
	enum worker_life life; /* worker_set_life() */
	bool started;
	bool refused; /* for good; also of one that has left */
	bool joined_once, registered_once;
	hd_ns preempted_at,
		notice_span; /* the machine is taken away then (0: no notice), said so long before */
	hd_ns push_took; /* lately, from the call to its outcome */
	struct hd_roster roster;
	struct hd_worker_observation seen; /* not said yet; samples 0: nothing */
	hd_ns seen_at; /* the next word may go then */
	bool said_done; /* to the server, of a synchronous job: no more pushes */
	hd_ns linger_until;
	bool observe_due;

	struct hd_probes probes;
	struct worker_way ways[HD_WAYS_MAX];
	uint32_t way_count; /* those from here on never were in use */

	struct worker_tickets tickets, active;
	struct worker_ticket *ring[2][HD_TICKETS_MAX]; /* by round */
	uint32_t next_round[2];
	struct worker_reduces reduces;
	/* Shards that packets were for lately, by token: there may be 64 rounds of 64 shards to look through. */
	struct worker_reduce_found {
		uint64_t token; /* 0: none */
		struct worker_reduce *of;
		struct worker_shard *shard;
	} reduce_found[WORKER_REDUCE_FOUND_MAX];
	uint32_t reduce_count, reduce_round; /* not ended; the newest */
	uint32_t reduce_done; /* the newest that ended with its sum, */
	uint16_t reduce_members; /* of so many workers, */
	uint64_t reduce_making; /* in this making */
	uint64_t reduce_had; /* bit i: so did the one 1 + i before it */
	uint64_t kept_bytes;
	hd_version durable;
	hd_version newest; /* of a synchronous job: the newest that we heard of */
	struct hd_round_word
		word; /* of a federated one: the round that we were drawn for; round 0: none */
	struct hd_work work; /* what was said of it last */

	struct hd_msg_credit credit; /* token 0: none */
	hd_ns credit_until;
	struct worker_pull_credit pull_credit;
	struct worker_early early[WORKER_EARLY_MAX];
	uint32_t early_next;
	struct worker_tombstone tombstones[WORKER_TOMBSTONES_MAX];
	bool ends_due; /* one of them is */
	uint32_t tombstone_next;
	struct hd_worker_stats stats;
	struct hd_worker_times times[2]; /* by direction */
	struct hd_transfer_stats transfers;
};

/* What every function of a call carries. */
struct worker_context {
	hd_ns now;
	struct hd_sink *sink;
};

/* --- worker_say.c --------------------------------------------------------------------------- */
void worker_emit(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_event *event
);
/* -ENOTCONN without a session, else as hd_session_send(). */
int worker_tell(
	struct hd_worker *worker,
	struct hd_session *session,
	const struct worker_context *ctx,
	const struct hd_message *message
);

/* --- worker_state.c ------------------------------------------------------------------------- */
void worker_set_link(struct hd_worker *worker, enum worker_link link);
void worker_set_life(struct hd_worker *worker, enum worker_life life);
/* The controller has registered us in this session. */
bool worker_is_registered(const struct hd_worker *worker);
/* A session with the controller that knows us. */
bool worker_has_controller(const struct hd_worker *worker);
/* Where to ask now. */
enum worker_asked worker_whom_to_ask(const struct hd_worker *worker);

#endif
