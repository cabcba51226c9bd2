/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths that chunks take: to the server, to aggregators, to a switch's service address. worker_path.c finds and opens
 * them, and includes nothing above it; worker_path_end.c ends the transfers of a path that ends. */
#ifndef WORKER_PATH_H
#define WORKER_PATH_H

#include "hd_cc.h"
#include "hd_endpoint.h"
#include "hd_seal.h"

struct hd_chunk_header;
struct hd_worker;
struct worker_context;

/* A path to a node that chunks go to or come from. */
struct worker_path {
	struct hd_addr address; /* none: not in use */
	bool server; /* uses the worker's session with the server; others have one of their own, */
	bool plain; /* or none: a switch's service address */
	struct hd_session *session;
	bool opened;
	hd_ns used_at; /* when it was last known to be needed */
	struct hd_path cc;
};

/* --- worker_path.c -------------------------------------------------------------------------- */
/* The path to this node, opened if it is new; NULL: HD_PATHS_MAX are in use, or no memory. */
struct worker_path *worker_path_to(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address,
	bool server
);
/* The same to a switch's service address: no session. */
struct worker_path *worker_path_plain(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address
);
bool worker_path_is_free(const struct worker_path *path);
/* Whether a transfer uses this path: also one that an aggregator holds completely, or that continues for a replica. */
bool worker_path_is_used(const struct hd_worker *worker, const struct worker_path *path);
/* Closes its session. No transfer uses this path any more. */
void worker_path_clear(struct worker_path *path, const struct worker_context *ctx);
/* True for the server's addresses, and for none. */
bool worker_is_server(const struct hd_worker *worker, struct hd_addr address);
/* The path's session (NULL: that with the server), if it is open, else NULL. */
struct hd_session *
worker_path_session(const struct hd_worker *worker, const struct worker_path *path);
/* Whether the session of this path, or the server's if it is NULL, is open and at this address. */
bool worker_path_is_at(
	const struct hd_worker *worker,
	const struct worker_path *path,
	struct hd_addr address
);
/* The path of the aggregator that this session is with; NULL: none. */
struct worker_path *worker_path_of(struct hd_worker *worker, const struct hd_session *session);
/* The path to this aggregator, if there is one. */
struct worker_path *worker_path_at(struct hd_worker *worker, struct hd_addr address);
/* Sends it in the path's session, without repetition. */
void worker_path_send_once(
	const struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct worker_path *path,
	const struct hd_message *message
);
/* Whether a chunk of a transfer belongs to this path and came from its sender's address. Counts it if not. */
bool worker_path_takes(
	struct hd_worker *worker,
	const struct worker_path *path,
	struct hd_seal *seal,
	const struct hd_chunk_header *header,
	const struct hd_packet *packet
);

/* --- worker_path_end.c ---------------------------------------------------------------------- */
void worker_path_opened(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_path *path
);
void worker_path_closed(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_path *path,
	enum hd_reason reason
);
/* The worker gets another server: ends copies to the former one. No ticket is on the wire. */
void worker_paths_forget_server(struct hd_worker *worker, const struct worker_context *ctx);
/* A node that receives copies becomes the worker's server: the server's session replaces this path. */
void worker_path_drop(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_addr address
);
void worker_paths_close(struct hd_worker *worker, const struct worker_context *ctx);
void worker_path_tick(struct hd_worker *worker, const struct worker_context *ctx);
hd_ns worker_path_deadline(const struct hd_worker *worker);

#endif
