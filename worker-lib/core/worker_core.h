/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker core. Nothing outside worker-lib/core includes this. A file calls only those before it in this list:
 *
 *   say, state           events, messages; the state of controller and server for this worker
 *   reduces, way         lists: all-reduces; paths to the nodes that chunks go to and come from
 *   times, ticket        pushes and pulls: their times; their states and ends
 *   grant, payload, bury fields of a grant; an update's bytes on the wire; ended transfers
 *   copy, stream, push   pushes begin: to a replica, into slots, to server or aggregator
 *   credit, step, ask    requests for pushes and pulls, and their repetition
 *   reduce_ask, shards, slots, shared, reduce  all-reduces
 *   send, pull, outcome, stall, way_end  transfers in progress, and their ends
 *   call, members, observe, round  the owner's calls, and other messages
 *   leave, session       the sessions with controller and server
 *   stats                counters, and the answer to POLL
 *   packet, dispatch     packets and messages go to their handlers
 *   node                 the node's interface
 *
 * Order within one receive() or tick():
 *   collect (frees tickets that ended in the call before) -> packets, timers (messages, callbacks)
 *   -> observe (new states of sends and receives) -> pump (packets are sent, nothing ends)
 * so that data is released only when no packet that refers to it is being passed to the driver.
 */
#ifndef WORKER_CORE_H
#define WORKER_CORE_H

#include "hd_probe.h"
#include "hd_worker.h"
#include "hd_worker_times.h"
#include "worker_path.h"

#include <sys/queue.h>

#define WORKER_EARLY_MAX 64 /* GOs that came before their grant */
#define WORKER_TOMBSTONES_MAX 512 /* complete pulls and sums whose sender may not know that yet */
#define WORKER_ATTEMPTS_MAX 255
#define WORKER_PACKET_OVERHEAD 28 /* IPv4 and UDP headers */
#define WORKER_RETRY_US 10000 /* a message that did not fit is tried again after this */
#define WORKER_REGISTER_RETRY_US 250000 /* while there is no server for the job */

/* The state of the controller for this worker. */
enum worker_link {
	/* None is configured, or it has not registered this worker in this session. */
	WORKER_UNREGISTERED,
	WORKER_SCHEDULED, /* registered; requests go to it */
	WORKER_UNSCHEDULED, /* registered; requests go to the server */
	WORKER_FALLBACK /* silent for too long: requests go to the server until it answers again */
};

/* From the first call to the last, in this order; a stage that does not occur is skipped (WITHDRAWN without a
 * notice). */
enum worker_stage {
	WORKER_MEMBER,
	WORKER_LEAVING, /* no new transfers, those in progress end */
	WORKER_WITHDRAWN, /* the notice ends soon: transfers not held were withdrawn */
	WORKER_LINGERING, /* LEAVE was sent */
	WORKER_LEFT
};

enum worker_asked {
	WORKER_ASKED_NONE,
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
	uint32_t packet; /* the newest received */
	bool due;
};

/* A message of the server about a token whose grant, from the controller, has not arrived yet. */
struct worker_early {
	uint64_t token; /* 0: none */
	bool ended; /* VOID; else GO */
};

/* The server may be asked for one pull of at most this many bytes. */
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
	uint64_t server_boot; /* process of the last JOIN; 0: none */
	uint64_t controller_boot; /* process of the last REGISTERED */
	hd_ns controller_heard; /* for the fallback */
	hd_ns register_at; /* when to ask again for a server, or for a rank, or HD_NEVER */
	hd_ns join_at; /* when to ask the server for the rank again, or HD_NEVER */
	hd_ns retry_at; /* when to ask again for queued tickets, or HD_NEVER */
	hd_ns stall_at; /* when to check for stalls, or HD_NEVER */
	uint32_t silent_stalls; /* in a row: no chunk arrived, though messages of the peer did */
	enum worker_link link; /* worker_set_link() */
	enum worker_stage stage; /* worker_set_stage() */
	bool started;
	bool refused; /* for good; also after leaving */
	bool joined_once, registered_once;
	hd_ns preempted_at,
		notice_span; /* end of the machine (0: no notice), and its notice before that */
	hd_ns push_took; /* recently, from the call to its outcome */
	struct hd_roster roster;
	struct hd_worker_observation seen; /* not reported yet; samples 0: nothing */
	hd_ns seen_at; /* earliest time of the next report */
	bool sent_done; /* to the server, of a synchronous job: no more pushes */
	hd_ns linger_until;
	bool observe_due;

	struct hd_probes probes;
	struct worker_path paths[HD_PATHS_MAX];
	uint32_t path_count; /* later ones were never in use */

	struct worker_tickets tickets, active;
	struct worker_ticket *ring[2][HD_TICKETS_MAX]; /* by round */
	uint32_t next_round[2];
	struct worker_reduces reduces;
	/* Shards of recent packets, by token: there may be 64 rounds of 64 shards to search. */
	struct worker_reduce_found {
		uint64_t token; /* 0: none */
		struct worker_reduce *of;
		struct worker_shard *shard;
	} reduce_found[WORKER_REDUCE_FOUND_MAX];
	uint32_t reduce_count, reduce_round; /* in progress, pairs included; the newest */
	uint32_t pair_count; /* sends and receives in progress */
	bool pairs_due; /* one has ended: others may be requested */
	struct worker_channel *channels; /* worker_channel.c; NULL: none was used */
	uint32_t reduce_done; /* the newest that ended with its sum, */
	uint16_t reduce_members; /* of this many workers, */
	uint64_t reduce_sum_id; /* in this attempt */
	uint64_t reduce_had; /* bit i: so did round reduce_done - 1 - i */
	bool unshared; /* its memory cannot be shared after all */
	uint32_t inline_bytes; /* longest buffer of a round whose request has values; 0: none */
	uint64_t kept_bytes;
	hd_version durable;
	hd_version newest; /* of a synchronous job: the newest known one */
	struct hd_round_info
		info; /* of a federated one: the round it was drawn for; round 0: none */
	struct hd_work work; /* the last report about it */

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

/* Arguments that all functions of a call share. */
struct worker_context {
	hd_ns now;
	struct hd_sink *sink;
};

/* --- worker_report.c ------------------------------------------------------------------------ */
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
void worker_set_stage(struct hd_worker *worker, enum worker_stage stage);
/* The controller has registered this worker in this session. */
bool worker_is_registered(const struct hd_worker *worker);
/* There is a session with a controller that has registered this worker. */
bool worker_has_controller(const struct hd_worker *worker);
/* Where requests go now. */
enum worker_asked worker_ask_target(const struct hd_worker *worker);

#endif
