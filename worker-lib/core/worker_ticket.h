/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes and pulls: what there is of each, how it ends exactly once. Knows no message, and nobody above it. */
#ifndef WORKER_TICKET_H
#define WORKER_TICKET_H

#include "hd_recv.h"
#include "hd_send.h"
#include "worker_core.h"

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
	uint8_t asked; /* enum worker_asked */
	uint16_t epoch;
	uint64_t token, position;
	struct worker_way *way; /* of a transfer that is granted; NULL: the server's, of a pull */
	hd_ns requested_at, granted_at; /* newest */
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
	/* Of a push with a packer; else NULL. */
	int (*pack)(void *user, float weight, int16_t exponent, bool whole, const void **payload);
	int64_t (*ready)(void *user);
	const void *packed; /* what it made last */
	bool packing; /* not all of it is there yet */
	int pack_error; /* it never will be; 0: it will */
	hd_ns feed_at; /* when to look for more of it */
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
	bool raw; /* into: as it travels */
	struct hd_recv *recv;
	struct hd_seal seal; /* of what comes */
};

/* --- worker_times.c --- */
/* Its grant, or the word that it comes, is here. */
void worker_time_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* `at`: when its first chunk left, or came. */
void worker_time_first_chunk(
	struct hd_worker *worker,
	const struct worker_ticket *ticket,
	hd_ns at
);
/* It is applied, or delivered: once. */
void worker_time_end(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
);

/* --- worker_ticket.c --- */
struct worker_ticket *
worker_find(const struct hd_worker *worker, uint8_t direction, uint32_t round);
bool worker_by_aggregator(const struct worker_ticket *ticket);
/* Bytes that got through; grows while a transfer lives. */
uint64_t worker_progress(const struct worker_ticket *ticket);
/* `event` has what is particular to it: kind, reason, aux, value, at. */
void worker_emit_ticket(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket,
	struct hd_event event
);
void worker_set_state(
	struct hd_worker *worker,
	struct worker_ticket *ticket,
	enum hd_ticket_state state
);
/* Back to QUEUED, of which the owner hears nothing. */
void worker_to_queue(struct worker_ticket *ticket);
/* Something of it is on the wire. */
void worker_activate(struct hd_worker *worker, struct worker_ticket *ticket);
void worker_off_wire(struct hd_worker *worker, struct worker_ticket *ticket);
void worker_copy_end(struct worker_ticket *ticket);
/* Has stalls looked for while something is under way. */
void worker_watch_stalls(struct hd_worker *worker, const struct worker_context *ctx);
/* An applied push is kept until it is durable. */
void worker_keep(struct hd_worker *worker, const struct worker_ticket *ticket);
/* An applied push that is kept until it is durable no longer counts as such. False: it is none. */
bool worker_unkeep(struct hd_worker *worker, const struct worker_ticket *ticket);
/* Tells and counts the outcome: once, unless a restart of the server turned APPLIED into another. */
void worker_count_outcome(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_ticket_state state
);
/* Forgets the ticket and gives its data back. */
void worker_retire(struct hd_worker *worker, struct worker_ticket *ticket);
/* A push ended: what waited for its step is asked for. */
void worker_step_ended(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_ticket *ticket
);
void worker_end(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_ticket_state state,
	enum hd_reason reason
);
/* Frees what has ended. */
void worker_collect(struct hd_worker *worker);

#endif
