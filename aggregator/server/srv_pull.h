/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the server core: pinned versions, and the pulls that send them. */
#ifndef SRV_PULL_H
#define SRV_PULL_H

#include "srv_job.h"

LIST_HEAD(srv_outgoing_successors, srv_outgoing);

/* A version in 16 bits, of which the first `done` values are converted. */
struct srv_rounded {
	struct srv_buffer *buffer; /* NULL: not requested */
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
	SRV_OUTGOING_ENDED /* while sending: freed in the next call, as the sink may still read */
};

/* A pull of one worker, or one that an aggregator relays to several. It ends with the session. */
struct srv_outgoing {
	struct srv_handle handle; /* first */
	struct srv_job *job;
	struct srv_peer *peer;
	struct hd_msg_grant grant;
	hd_ns granted; /* when this server received or made the grant */
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

/* --- srv_snapshot.c --------------------------------------------------------------------------- */
/* Pins the current version, shared with other pulls; if no more can be pinned, the newest pinned one, unless the worker
 * has a newer one. Includes a buffer for the wanted type. NULL: wait. */
struct srv_snapshot *
srv_snapshot_pin(struct hd_server *server, struct srv_job *job, const struct hd_msg_grant *grant);
void srv_snapshot_unpin(
	struct hd_server *server,
	struct srv_job *job,
	struct srv_snapshot *snapshot
);
/* The data to send in this type; in 16 bits only what srv_snapshot_convert() has converted. */
const void *srv_snapshot_data(struct srv_snapshot *snapshot, uint8_t dtype);
/* Converts the first bytes of the version, up to this many, to this type. */
void srv_snapshot_convert(
	const struct srv_job *job,
	struct srv_snapshot *snapshot,
	uint8_t dtype,
	uint64_t bytes
);

/* --- srv_pull.c ------------------------------------------------------------------------------- */
void srv_pull_grant(struct srv_turn *turn, const struct hd_msg_grant *grant);
void srv_pull_request(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_request *request
);
void srv_pull_cancel(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_cancel *cancel
);
void srv_pull_sack(
	struct srv_turn *turn,
	const struct srv_peer *peer,
	const struct hd_msg_sack *sack
);
void srv_pull_start(struct srv_turn *turn, struct srv_outgoing *out);
void srv_pull_feed(struct srv_turn *turn);
/* Begins pulls granted to this aggregator before it had a session. */
void srv_pull_relays(struct srv_turn *turn, const struct srv_peer *peer);
/* Sends what pacing and windows permit, in turns. Comes last in a call. */
void srv_pulls_poll(struct srv_turn *turn);
void srv_pull_end(struct srv_turn *turn, struct srv_outgoing *out, enum hd_reason reason);
void srv_outgoing_destroy(struct hd_server *server, struct srv_outgoing *out);

#endif
