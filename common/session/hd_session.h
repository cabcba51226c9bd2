/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of the endpoint, shared by its files and by nobody else; with hd_hello.h and hd_stream.h.
 *
 *   hd_endpoint.c  making, demultiplexing, ticking
 *   hd_session.c   what a session knows
 *   hd_sessions.c  table of sessions, timing heap, ends of sessions
 *   hd_hello.c     HELLO, COOKIE, WELCOME; candidates
 *   hd_refusal.c   REFUSE; RESET, QUERY, GONE
 *   hd_stream.c    fragments: queue, window, acknowledgement, retransmission, reassembly
 *   hd_liveness.c  PING, PONG, clocks, silence
 */
#ifndef HD_SESSION_H
#define HD_SESSION_H

#include "hd_endpoint.h"
#include "hd_wire.h"

#include <assert.h>
#include <sys/queue.h>

#define REPLAY_BITS 1024
#define CLOCK_SAMPLES 8
#define WINDOW HD_FRAGMENTS_INFLIGHT_MAX
#define PACKET_BYTES_MAX (HD_CONTROL_HEADER_BYTES + HD_FRAGMENT_BYTES_MAX + HD_TAG_BYTES)

enum session_state {
	SESSION_HELLO, /* ours: HELLO is repeated until WELCOME */
	SESSION_CANDIDATE, /* theirs: WELCOME said, key not proven */
	SESSION_OPEN,
	SESSION_CLOSING, /* closed() is being called */
	SESSION_DEAD /* out of all tables, freed when the outermost call returns */
};

/* One reliable fragment: queued and in flight at the sender, waiting for its turn or for the rest of
 * its message at the receiver. `packet` has room for header and tag around the body. */
struct fragment {
	struct fragment *next;
	hd_ns sent_at;
	uint64_t sequence; /* of its last transmission */
	uint32_t number;
	uint16_t body_bytes;
	uint8_t size_class;
	uint8_t flags, kind;
	uint8_t passed; /* how many that were sent later have been acknowledged */
	bool held; /* the peer has it, though not all before it */
	bool resent;
	uint8_t packet[];
};

struct fragment_list {
	struct fragment *first, *last;
};

struct replay {
	uint64_t highest;
	uint64_t bits[REPLAY_BITS / 64];
};

struct clock_sample {
	int64_t offset_ns;
	hd_ns delay, at;
};

/* The sending half of the reliable stream. The list is in order of numbers: first what is in flight,
 * then from `unsent` on what has never left. */
struct outgoing {
	struct fragment_list list;
	struct fragment *unsent;
	uint32_t queued;
	uint32_t next_number;
	uint32_t acked; /* the peer holds everything up to here */
	uint8_t backoff;
	hd_ns rto_at;
	hd_ns srtt, rttvar;
};

struct incoming {
	uint32_t ack; /* we hold everything up to here */
	uint32_t mask; /* bit i: ack + 2 + i is in held[] */
	uint32_t unacked; /* fragments taken since our last acknowledgement */
	hd_ns ack_at;
	struct fragment **held; /* WINDOW of them by number, allocated at the first gap */
	struct fragment_list parts; /* of the message that is being put together */
	uint32_t parts_bytes;
	bool skipping; /* that message is too long: its remaining parts are passed over */
};

struct hd_session {
	struct hd_endpoint *endpoint;
	void *user;
	uint32_t id; /* our index: what the peer puts into its packets */
	uint32_t peer_id;
	uint8_t state; /* enum session_state */
	bool ours; /* we opened it */
	bool told, left; /* an unauthenticated refusal has been passed on; the peer said CLOSE */
	uint8_t role;
	uint16_t key_id;
	struct hd_addr peer;
	struct hd_addr home; /* where the peer has shown that it receives */
	hd_ns moved_at; /* when peer changed last */
	struct hd_session *address_next; /* in its bucket of the address table */
	struct hd_session *graveyard_next;
	TAILQ_ENTRY(hd_session) candidate;
	uint32_t heap_index;
	hd_ns due; /* never later than the session's next deadline */

	uint64_t boot; /* the peer's */
	uint8_t nonce[16], peer_nonce[16];
	uint8_t key[HD_KEY_BYTES];
	uint8_t cookie[16]; /* that the answerer gave us; zeros: none yet */
	uint8_t query_nonce[16]; /* of our newest QUERY */
	char name[HD_NAME_BYTES_MAX + 1];
	hd_ns hello_at; /* HELLO: next one; CANDIDATE: when it is given up */
	hd_ns hello_wait;
	hd_ns proved_at; /* when the peer's first COOKIE came, or our WELCOME was said to it; 0: not yet, */
	hd_ns slow; /* and how long its WELCOME, or its first packet, took from then */
	hd_ns welcome_at; /* CANDIDATE: before this no other WELCOME is said */
	hd_ns cookie_at; /* before this no COOKIE is answered at once */
	hd_ns query_at; /* before this no RESET is followed by a QUERY; 0: none was */

	uint64_t sequence; /* of the next packet */
	struct replay replay;
	struct outgoing out;
	struct incoming in;

	hd_ns heard, ping_at, pinged_at;
	hd_ns asked_at; /* first PING since heard, HD_NEVER when none */
	uint32_t pongs;
	struct clock_sample sample[CLOCK_SAMPLES];
	struct hd_clock clock;
};

static_assert(sizeof(struct hd_session) <= 1024, "an idle session is small");

/* Fragments are kept for reuse in two sizes, so that steady traffic allocates nothing. */
struct fragment_pool {
	struct fragment *free[2];
	uint32_t count[2];
};

/* So many answers at once, refilled at a rate. */
struct bucket {
	uint32_t per_s;
	hd_ns credit; /* in time: an answer costs 1/per_s seconds, at most one second is saved */
	hd_ns at;
};

struct slot {
	struct hd_session *session;
	uint32_t generation;
	uint32_t next_free;
};

struct hd_endpoint {
	struct hd_endpoint_config config;
	char name[HD_NAME_BYTES_MAX + 1];
	struct hd_entropy entropy;
	uint64_t boot;
	uint64_t hello_sequence;
	hd_ns keepalive, dead;
	hd_ns late; /* by how much we ran late at late_at: half as much after each LATE_HALF */
	hd_ns late_at;

	struct slot *slots;
	uint32_t slot_count, slots_max;
	uint32_t free_slot; /* UINT32_MAX: none */
	uint32_t open_count; /* open, and ours in any state */
	struct hd_session **addresses; /* buckets, a power of two */
	uint32_t bucket_mask;
	struct hd_session **heap;
	uint32_t heap_count;
	TAILQ_HEAD(, hd_session) candidates; /* oldest first */
	uint32_t candidate_count;
	struct hd_session *graveyard;
	uint32_t depth; /* of calls that may call back */

	struct fragment_pool pool;
	struct bucket cookies, welcomes, refusals, gones;
	uint8_t cookie_root[HD_KEY_BYTES]; /* all secrets of cookies come from it, */
	uint8_t cookie_secret[2][HD_KEY_BYTES]; /* of which these count, the newest first, */
	uint64_t cookie_number; /* this was the newest one's number, */
	hd_ns cookie_until; /* and so long it is the newest */
	uint8_t *encode_buffer, *assemble_buffer; /* HD_MESSAGE_BYTES_MAX each */
	struct hd_endpoint_stats stats;
};

/* --- hd_sessions.c --------------------------------------------------------------------------- */
/* A session in the table, without state. NULL when memory or slots are out. */
struct hd_session *session_create(struct hd_endpoint *e, struct hd_addr peer, bool ours);
/* Out of every table, and freed once nothing can be using it. */
void session_release(struct hd_session *s);
struct hd_session *session_by_id(const struct hd_endpoint *e, uint32_t id);
struct hd_session *session_by_address(const struct hd_endpoint *e, struct hd_addr peer);
/* From *slot on the next open session of the peer that a new one of it, from `home`, ends; NULL: none more. Few
 * sessions open in a node's life, so all slots are looked at. */
struct hd_session *session_older(
	const struct hd_endpoint *e,
	uint32_t *slot,
	struct hd_addr home,
	uint64_t boot,
	const char *name
);
void session_move(struct hd_session *s, struct hd_addr peer);
/* Sends. Until the peer has received something at a new address, also to the one before: it drops what it has seen.
 * Not a PING: its answer shows who is at the new one. */
void session_put(
	const struct hd_session *s,
	uint8_t kind,
	const uint8_t *packet,
	size_t bytes,
	struct hd_sink *sink
);
/* Moves the session forward in the heap when its deadline has come nearer. */
void session_schedule(struct hd_session *s);
/* Puts it where its deadline belongs, either way. */
void session_reschedule(struct hd_session *s);
/* The outermost call returns: frees what was released during it. */
void endpoint_leave(struct hd_endpoint *e);
/* Calls closed(); then frees the session, or begins anew when it is ours. */
void session_end(
	struct hd_session *s,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
);

/* --- hd_endpoint.c --------------------------------------------------------------------------- */
/* Numbers, tags and sends the packet whose body stands at packet + HD_CONTROL_HEADER_BYTES, with all
 * acknowledgements that are due. */
void session_transmit(
	struct hd_session *s,
	uint8_t *packet,
	size_t body_bytes,
	struct hd_control_header *header,
	struct hd_sink *sink
);
/* Acts on one whole message body. */
void session_deliver(
	struct hd_session *s,
	uint8_t kind,
	const uint8_t *body,
	size_t bytes,
	hd_ns now,
	struct hd_sink *sink
);
bool bucket_take(struct bucket *bucket, hd_ns now);

#endif
