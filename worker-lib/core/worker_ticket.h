/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes and pulls: the state of each, and how it ends exactly once. Includes no message, and no file above it. */
#ifndef WORKER_TICKET_H
#define WORKER_TICKET_H

#include "hd_recv.h"
#include "hd_send.h"
#include "worker_core.h"

struct worker_ticket {
	struct hd_ticket pub;
	TAILQ_ENTRY(worker_ticket) link; /* worker->tickets: all, in the order of requests */
	TAILQ_ENTRY(worker_ticket) active_link; /* worker->active: on the wire */
	bool active;
	bool ended; /* freed at the next collect when nothing of it is on the wire */
	bool counted; /* its outcome was reported once */
	bool cancelling; /* waits for the server's outcome */
	bool credited; /* not requested from the controller */
	uint8_t attempt; /* of the newest request; 0: not requested yet */
	uint8_t asked; /* enum worker_asked */
	uint16_t epoch;
	uint64_t token, position;
	struct worker_path *path; /* of a granted transfer; NULL: the server's, of a pull */
	hd_ns requested_at, granted_at; /* newest */
	hd_ns progress_at;
	uint64_t progress_bytes;
	/* Ask the server, not the controller: a granted push may be in the model, which only the server knows; or an
	 * aggregator could not be reached. */
	bool ask_server;
	/* push */
	const float *data;
	uint64_t values;
	uint8_t dtype; /* on the wire */
	const struct hd_run *runs; /* sparse: the indices of data */
	size_t run_count;
	void *payload; /* data times weight in that type; NULL: data itself is sent */
	/* Of a push with a packer; else NULL. */
	int (*pack)(void *user, float weight, int16_t exponent, bool whole, const void **payload);
	int64_t (*ready)(void *user);
	const void *packed; /* its last output */
	bool packing; /* not complete yet */
	int pack_error; /* it never will be complete; 0: it will */
	hd_ns feed_at; /* when to check its progress */
	float weight; /* of the first grant; 0: none yet */
	int16_t exponent; /* of the present fixed-point values */
	bool recast; /* fixed point was computed again: the former values may have been applied */
	float norm, peak; /* peak: of fixed point */
	float share; /* weight of a federated job's push */
	struct hd_send *send;
	struct hd_slots *slots; /* instead of send: for slots of a switch */
	uint64_t result_token; /* of the results for it */
	hd_ns slots_at; /* when it may begin */
	hd_ns tail_until; /* applied, but its replica may still lack a part; 0: no */
	struct hd_send *copy; /* the same bytes, to the replica; NULL: none in progress */
	struct worker_path *copy_path;
	uint64_t copy_token;
	uint8_t copy_attempt;
	/* pull */
	float *into;
	hd_version have;
	bool conditional;
	bool raw; /* into: of the type on the wire */
	struct hd_recv *recv;
	struct hd_seal seal; /* of the received chunks */
};

/* --- worker_times.c --- */
/* Its grant, or the message that it comes, has arrived. */
void worker_time_grant(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket
);
/* `at`: when its first chunk was sent or received. */
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
/* Acknowledged or received bytes; grows while a transfer lives. */
uint64_t worker_progress(const struct worker_ticket *ticket);
/* `event` has the other fields: kind, reason, aux, value, at. */
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
/* Back to QUEUED, without an event for the owner. */
void worker_to_queue(struct worker_ticket *ticket);
/* The ticket is on the wire from now on. */
void worker_activate(struct hd_worker *worker, struct worker_ticket *ticket);
void worker_off_wire(struct hd_worker *worker, struct worker_ticket *ticket);
void worker_copy_end(struct worker_ticket *ticket);
/* Schedules checks for stalls while transfers are in progress. */
void worker_watch_stalls(struct hd_worker *worker, const struct worker_context *ctx);
/* An applied push is kept until it is durable. */
void worker_keep(struct hd_worker *worker, const struct worker_ticket *ticket);
/* An applied push that is kept until it is durable no longer counts as such. False: it is not kept. */
bool worker_unkeep(struct hd_worker *worker, const struct worker_ticket *ticket);
/* Reports and counts the outcome: once, unless a restart of the server turned APPLIED into another. */
void worker_count_outcome(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_ticket *ticket,
	enum hd_ticket_state state
);
/* Removes the ticket and releases its data. */
void worker_retire(struct hd_worker *worker, struct worker_ticket *ticket);
/* A push ended: pulls that waited for its step are requested. */
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
/* Frees ended tickets. */
void worker_collect(struct hd_worker *worker);

#endif
