/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the worker core's files share. Nothing outside worker-lib's core includes this.
 *
 *   worker_node.c          the node's face: receive, tick, deadline; create, destroy
 *   worker_session.c  controller and server: register, join, fallback, leave
 *   worker_way.c      where chunks go and come from: the server, aggregators
 *   worker_call.c     the owner's calls: push, pull, cancel
 *   worker_ask.c      asking for them, and asking again
 *   worker_ticket.c   their state and their ends
 *   worker_credit.c   pushes and pulls that need not be asked for
 *   worker_payload.c  what an update is on the wire
 *   worker_send.c     pushes on the wire
 *   worker_pull.c     pulls off the wire
 *   worker_reduce.c   all-reduces; worker_shards.c by aggregators, worker_slots.c by a switch on the path
 *   worker_members.c  who else takes part; the end when the machine is taken away
 *   worker_step.c     synchronous jobs: whether a step has ended; worker_round.c: federated rounds
 *   worker_copy.c     pushes once more, to the server's replica
 *
 * Order within one receive() or tick():
 *   collect (frees what ended in the call before) -> packets, timers (messages, callbacks)
 *   -> observe (what became of sends and receives) -> pump (packets leave, nothing ends)
 * so that data is released only while no packet that refers to it is on its way into the driver.
 */
#ifndef WORKER_CORE_H
#define WORKER_CORE_H

#include "hd_cc.h"
#include "hd_endpoint.h"
#include "hd_probe.h"
#include "hd_recv.h"
#include "hd_seal.h"
#include "hd_send.h"
#include "hd_worker.h"

#include <sys/queue.h>

#define WORKER_EARLY_MAX 64 /* go that came before its grant */
#define WORKER_TOMBSTONES_MAX                                                                      \
	512 /* pulls and sums that are complete, whose sender may not know yet */
#define WORKER_ATTEMPTS_MAX 255
#define WORKER_PACKET_OVERHEAD 28 /* IPv4 and UDP headers */
#define WORKER_RETRY_US 10000 /* a message that did not fit is tried again */
#define WORKER_REGISTER_RETRY_US 250000 /* no server for the job yet */

enum worker_asked {
	WORKER_ASKED_NOBODY,
	WORKER_ASKED_CONTROLLER,
	WORKER_ASKED_SERVER
};

/* To a node that chunks go to or come from. */
struct worker_way {
	struct hd_addr address; /* none: not in use */
	bool server; /* its session is the worker's; others have one of their own, */
	bool plain; /* or none: a switch's service address */
	struct hd_session *session;
	bool opened;
	hd_ns used_at; /* when it was last known to be needed */
	struct hd_path path;
};

struct worker_ticket {
	struct hd_ticket pub;
	TAILQ_ENTRY(worker_ticket) link; /* worker->tickets: all, in the order of asking */
	TAILQ_ENTRY(worker_ticket) active_link; /* worker->active: on the wire */
	bool active;
	bool ended; /* freed at the next collect that finds nothing on the wire */
	bool counted; /* its outcome was told once */
	bool cancelling; /* the server's word is awaited */
	bool credited; /* nobody asked the controller for it */
	uint8_t attempt; /* of the newest request; 0 = not asked yet */
	uint8_t asked; /* where it was asked */
	uint16_t epoch;
	uint64_t token, position;
	struct worker_way *way; /* of a transfer that is granted; NULL: the server's, of a pull */
	hd_ns progress_at;
	uint64_t progress_bytes;
	bool ask_server; /* not the controller: a push that was granted may be in the model, which only the
			  * server knows; or an aggregator could not be reached */
	/* push */
	const float *data;
	uint64_t values;
	uint8_t dtype; /* in which it travels */
	const struct hd_run *runs; /* sparse: which values data are */
	size_t run_count;
	void *payload; /* data times weight in that type; NULL: data itself is what is sent */
	float weight; /* of the first grant; 0 = none yet */
	int16_t exponent; /* that fixed point was made with */
	bool recast; /* fixed point was made anew: what was applied may have been the former */
	float norm, peak; /* peak: of fixed point */
	float share; /* of a federated job's push: by which it is to count */
	struct hd_send *send;
	struct hd_slots *slots; /* instead of send: into slots of a switch */
	uint64_t result_token; /* of what comes back for it */
	hd_ns slots_at; /* when it may begin */
	hd_ns tail_until; /* applied, but its replica may miss some of it yet; 0: no */
	struct hd_send *copy; /* the same bytes, to the replica; NULL: none under way */
	struct worker_way *copy_way;
	uint64_t copy_token;
	uint8_t copy_attempt;
	/* pull */
	float *into;
	hd_version have;
	bool conditional;
	struct hd_recv *recv;
	struct hd_seal seal; /* of what comes */
};

TAILQ_HEAD(worker_tickets, worker_ticket);
TAILQ_HEAD(worker_reduces, worker_reduce);
struct worker_reduce_shard;
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
	bool started, registered, scheduled, fallback, refused;
	bool joined_once, registered_once;
	bool leaving, said_leave, withdrawn;
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
		struct worker_reduce_shard *shard;
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
	uint32_t tombstone_next;
	struct hd_worker_stats stats;
};

/* What every function of a call carries. */
struct worker_context {
	hd_ns now;
	struct hd_sink *sink;
};

/* --- worker_node.c ---------------------------------------------------------------------------- */
void worker_emit(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_event *event
);
void worker_emit_ticket(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket,
	struct hd_event event
);
int worker_tell(
	struct hd_worker *worker,
	struct hd_session *session,
	const struct worker_context *ctx,
	const struct hd_message *message
);

/* --- worker_session.c --------------------------------------------------------------------- */
extern const struct hd_endpoint_ops worker_endpoint_ops;
void worker_start(struct hd_worker *worker, const struct worker_context *ctx);
void worker_session_tick(struct hd_worker *worker, const struct worker_context *ctx);
hd_ns worker_session_deadline(const struct hd_worker *worker);
/* Where to ask now. */
enum worker_asked worker_whom_to_ask(const struct hd_worker *worker);

/* --- worker_way.c ------------------------------------------------------------------------- */
/* The way to this node, opened if it is a new one; NULL: HD_WAYS_MAX are in use, or no memory. */
struct worker_way *worker_way_to(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address,
	bool server
);
/* The same to a switch's service address: no session. */
struct worker_way *worker_way_plain(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address
);
/* True for the server's addresses, and for none. */
bool worker_is_server(const struct hd_worker *worker, struct hd_addr address);
/* Its session (NULL: that with the server), if that is open, else NULL. */
/* Whether a chunk of a transfer comes this way, and is its sender's. Counts it if not. */
bool worker_takes(
	struct hd_worker *worker,
	const struct worker_way *way,
	struct hd_seal *seal,
	const struct hd_chunk_header *header,
	const struct hd_packet *packet
);
/* Whether the session of this way, or the server's if it is NULL, is open and at this address. */
bool worker_way_is_at(
	const struct hd_worker *worker,
	const struct worker_way *way,
	struct hd_addr address
);
struct hd_session *worker_way_session(const struct hd_worker *worker, const struct worker_way *way);
/* The aggregator that this session is with; NULL: none. */
struct worker_way *worker_way_of(struct hd_worker *worker, const struct hd_session *session);
bool worker_by_aggregator(const struct worker_ticket *ticket);
/* The one to this aggregator, if there is one. */
struct worker_way *worker_way_at(struct hd_worker *worker, struct hd_addr address);
/* The aggregator cannot be reached: the controller hears it, and the server is asked. */
void worker_leave_way(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_reason reason
);
void worker_way_opened(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_way *way
);
void worker_way_closed(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_way *way,
	enum hd_reason reason
);
/* Another server is the worker's from now on: copies to the one before end. Of tickets nothing is under way. */
void worker_ways_forget_server(struct hd_worker *worker, const struct worker_context *ctx);
/* Copies' way to a node that becomes the worker's server: that session takes its place. */
void worker_way_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address
);
void worker_ways_close(struct hd_worker *worker, const struct worker_context *ctx);
void worker_way_tick(struct hd_worker *worker, const struct worker_context *ctx);
hd_ns worker_way_deadline(const struct hd_worker *worker);

/* --- worker_ticket.c ---------------------------------------------------------------------- */
struct worker_ticket *
worker_find(const struct hd_worker *worker, uint8_t direction, uint32_t round);
void worker_set_state(
	struct hd_worker *worker,
	struct worker_ticket *ticket,
	enum hd_ticket_state state
);
void worker_end(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_ticket_state state,
	enum hd_reason reason
);
void worker_fail_all(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum hd_reason reason
);
void worker_on_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_drop *drop
);
void worker_on_outcome(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_outcome *outcome
);
void worker_on_durable(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	hd_version durable
);
/* Lets go of applied pushes, oldest first, until at most this much is kept for the server's restart. */
void worker_trim_kept(struct hd_worker *worker, const struct worker_context *ctx, uint64_t bytes);
void worker_activate(struct hd_worker *worker, struct worker_ticket *ticket);
void worker_off_wire(struct hd_worker *worker, struct worker_ticket *ticket);
void worker_collect(struct hd_worker *worker);
/* Forgets the ticket and gives its data back. */
void worker_retire(struct hd_worker *worker, struct worker_ticket *ticket);
/* An applied push that is kept until it is durable no longer counts as such. False: it is none. */
bool worker_unkeep(struct hd_worker *worker, const struct worker_ticket *ticket);

/* --- worker_ask.c -------------------------------------------------------------------------- */
void worker_ask(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
void worker_ask_queued(struct hd_worker *worker, const struct worker_context *ctx);
/* Takes a ticket off the wire and back to QUEUED. */
void worker_requeue(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* A controller session that ends takes its unanswered requests with it. */
void worker_requeue_asked(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum worker_asked asked
);
/* The server's session ended, or another life of it came: nothing on the wire counts any more. */
void worker_requeue_wire(struct hd_worker *worker, const struct worker_context *ctx, bool new_life);
/* What a controller granted that is gone, and of which nothing got through yet: its word to the server may
 * be lost with it. */
void worker_requeue_unproven(struct hd_worker *worker, const struct worker_context *ctx);
/* Has stalls looked for while something is under way. */
void worker_watch_stalls(struct hd_worker *worker, const struct worker_context *ctx);
void worker_stall_tick(struct hd_worker *worker, const struct worker_context *ctx);

/* --- worker_step.c -------------------------------------------------------------------------- */
/* Whether the model that this pull is for is still to be made by a step that a push before it is in. */
bool worker_waits_for_step(const struct hd_worker *worker, const struct worker_ticket *pull);
/* A push ended: what waited for its step is asked for. */
void worker_step_ended(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
);
/* Tells the server, once a session, that we push no more: steps of others need not wait for that. */
void worker_say_done(struct hd_worker *worker, const struct worker_context *ctx);
/* The server's version, as it was told; of a new life it may be less than before. */
void worker_newest(struct hd_worker *worker, hd_version version, bool new_life);

/* --- worker_round.c -------------------------------------------------------------------------- */
void worker_on_round(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_round *message
);
void worker_on_lack(struct hd_worker *worker, const struct hd_msg_lack *message);

/* --- worker_credit.c ----------------------------------------------------------------------- */
void worker_on_credit(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_credit *message
);
/* Whether that was the one that waits to be spent: it is gone. */
bool worker_credit_void(struct hd_worker *worker, uint64_t token);
/* The controller's session has ended: it knows of nothing any more. */
void worker_credit_clear(struct hd_worker *worker);
/* Sends a push on the credit. False: it is to be asked for. */
bool worker_spend(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* Whether this pull may be asked of the server now. */
bool worker_spend_pull(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
);

/* --- worker_payload.c --------------------------------------------------------------------- */
/* Bytes of an update on the wire. -EINVAL (values, dtype, runs), -E2BIG (sparse, but not smaller than the model). */
int worker_payload_bytes(
	const struct hd_worker *worker,
	const struct hd_push_args *args,
	uint64_t *bytes
);
/* Also once it is rounded. */
bool worker_is_finite(const struct hd_push_args *args, double norm);
/* Multiplies by this grant's weight and writes it as it travels, into a copy of our own: the commit log has
 * the weight of the grant that was carried out, and says what was added. -ENOMEM, -EDOM (the weight led
 * beyond the type's range). `exponent`: of fixed point. */
int worker_make_payload(
	const struct hd_worker *worker,
	struct worker_ticket *ticket,
	float weight,
	int16_t exponent
);
/* The largest absolute value. */
float worker_peak(const struct hd_push_args *args);
/* Of fixed point that nobody else adds to; 0 of other types. */
int16_t worker_exponent(const struct worker_ticket *ticket, float weight);

/* --- worker_send.c ------------------------------------------------------------------------ */
void worker_on_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant
);
/* Begins to send what this grant allows. 0 or -errno: then nothing has begun. */
int worker_begin_push(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct hd_msg_grant *grant,
	struct worker_ticket *ticket
);
/* How much later than its start time a transfer begins by itself that waits for go. */
hd_ns worker_go_slack(const struct hd_session *session, const struct hd_segs *segments);
/* Whether the server's go (ended: VOID) for this token came before its grant; forgotten then. */
bool worker_take_early(struct hd_worker *worker, uint64_t token, bool ended);
void worker_on_go(struct hd_worker *worker, const struct worker_context *ctx, uint64_t token);
/* Whoever takes the chunks, or the server, ended this transfer, not its round: it is asked for again. */
void worker_on_void(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_void_ *void_
);
void worker_on_controller_void(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	uint64_t token
);
void worker_on_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_session *session,
	const struct hd_msg_sack *sack
);
/* Sees what became of a send since the last look. */
void worker_observe_send(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
void worker_pump_sends(struct hd_worker *worker, const struct worker_context *ctx);

/* A grant's segments on our clock. */
struct hd_segs worker_segments(
	const struct hd_session *session,
	const struct worker_context *ctx,
	const struct hd_msg_grant *grant
);

/* --- worker_members.c --------------------------------------------------------------------- */
/* Says it, if there is something to say. */
void worker_say_notice(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session
);
void worker_push_took(struct hd_worker *worker, hd_ns took);
void worker_members_tick(struct hd_worker *worker, const struct worker_context *ctx);
/* When it leaves whatever is under way; HD_NEVER without a notice. */
hd_ns worker_leave_at(const struct hd_worker *worker);
hd_ns worker_members_deadline(const struct hd_worker *worker);
void worker_on_roster(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_roster *message
);
/* The controller sends it away. */
void worker_on_notice(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_notice *message
);

/* --- worker_observe.c ------------------------------------------------------------------- */
/* What was reported since the last word goes to the controller, when it is time. */
void worker_observe_tick(struct hd_worker *worker, const struct worker_context *ctx);
hd_ns worker_observe_deadline(const struct hd_worker *worker);

/* --- worker_copy.c ------------------------------------------------------------------------ */
void worker_on_copy_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_grant *grant
);
void worker_copy_end(struct worker_ticket *ticket);
/* Ends one under way and says that its bytes are no more: its replica would wait until it takes them for stuck. */
void worker_copy_gone(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* False: the token is not that of a copy. */
bool worker_copy_void(struct hd_worker *worker, uint64_t token);
bool worker_copy_sack(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_session *session,
	const struct hd_msg_sack *sack
);
void worker_observe_copy(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* The way's session has ended, or it is to be closed. */
void worker_copies_leave(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_way *way
);

/* --- worker_pull.c ------------------------------------------------------------------------ */
void worker_on_expect(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_expect *expect
);
/* `way`: the aggregator that says it; NULL: the server. */
void worker_on_pull_state(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_way *way,
	const struct hd_msg_pull_state *state
);
void worker_on_chunk(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet
);
void worker_on_probe_packet(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet
);
/* The last acknowledgement may be lost: `from` (none: the server) then repeats chunks of what has ended. */
void worker_bury(struct hd_worker *worker, struct hd_addr from, uint64_t token, uint32_t held);
void worker_pump_sacks(struct hd_worker *worker, const struct worker_context *ctx);
/* Tells the controller how a pull that it granted ended. */
void worker_report_pull(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket,
	enum hd_outcome outcome,
	enum hd_reason reason
);

#endif
