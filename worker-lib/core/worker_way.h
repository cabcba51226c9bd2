/* SPDX-License-Identifier: BSD-3-Clause */
/* Where chunks go and come from: the server, aggregators, a switch's service address. worker_way.c finds and opens
 * ways, and knows nothing above it; worker_way_end.c ends what goes a way that ends. */
#ifndef WORKER_WAY_H
#define WORKER_WAY_H

#include "hd_cc.h"
#include "hd_endpoint.h"
#include "hd_seal.h"

struct hd_chunk_header;
struct hd_worker;
struct worker_context;

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

/* --- worker_way.c --------------------------------------------------------------------------- */
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
bool worker_way_is_free(const struct worker_way *way);
/* Whether something goes this way: also what an aggregator holds whole, and what goes on for a replica. */
bool worker_way_is_used(const struct hd_worker *worker, const struct worker_way *way);
/* Closes its session. Nothing goes this way any more. */
void worker_way_clear(struct worker_way *way, const struct worker_context *ctx);
/* True for the server's addresses, and for none. */
bool worker_is_server(const struct hd_worker *worker, struct hd_addr address);
/* Its session (NULL: that with the server), if that is open, else NULL. */
struct hd_session *worker_way_session(const struct hd_worker *worker, const struct worker_way *way);
/* Whether the session of this way, or the server's if it is NULL, is open and at this address. */
bool worker_way_is_at(
	const struct hd_worker *worker,
	const struct worker_way *way,
	struct hd_addr address
);
/* The aggregator that this session is with; NULL: none. */
struct worker_way *worker_way_of(struct hd_worker *worker, const struct hd_session *session);
/* The one to this aggregator, if there is one. */
struct worker_way *worker_way_at(struct hd_worker *worker, struct hd_addr address);
/* Says it in the way's session, without repetition. */
void worker_way_say_once(
	const struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_way *way,
	const struct hd_message *message
);
/* Whether a chunk of a transfer comes this way, and is its sender's. Counts it if not. */
bool worker_way_takes(
	struct hd_worker *worker,
	const struct worker_way *way,
	struct hd_seal *seal,
	const struct hd_chunk_header *header,
	const struct hd_packet *packet
);

/* --- worker_way_end.c ----------------------------------------------------------------------- */
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

#endif
