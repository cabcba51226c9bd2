/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to the endpoint and shared by its files; with hd_hello.h and hd_stream.h.
 *
 *   hd_endpoint.c  create, demultiplexing, timers
 *   hd_session.c   properties of a session
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
	SESSION_CANDIDATE, /* theirs: WELCOME sent, key not proven */
	SESSION_OPEN,
	SESSION_CLOSING, /* closed() is being called */
	SESSION_DEAD /* out of all tables, freed when the outermost call returns */
};

/* One reliable fragment: queued and in flight at the sender; at the receiver waiting for its turn or for the rest of
 * its message. `packet` has room for header and tag around the body. */
struct fragment {
	struct fragment *next;
	hd_ns sent_at;
	uint64_t sequence; /* of its last transmission */
	uint32_t number;
	uint16_t body_bytes;
	uint8_t size_class;
	uint8_t flags, kind;
	uint8_t passed; /* number of later transmissions that have been acknowledged */
	bool held; /* the peer holds it, though not all before it */
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

/* The sending half of the reliable stream. The list is ordered by number: first the fragments in flight, then from
 * `unsent` on those that were never sent. */
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
	struct fragment_list parts; /* of the message being reassembled */
	uint32_t parts_bytes;
	bool skipping; /* that message is too long: its remaining parts are skipped */
};

struct hd_session {
	struct hd_endpoint *endpoint;
	void *user;
	uint32_t id; /* our index: the peer puts it into its packets */
	uint32_t peer_id;
	uint8_t state; /* enum session_state */
	bool ours; /* we opened it */
	bool reported, left; /* an unauthenticated refusal was reported; the peer sent CLOSE */
	uint8_t role;
	uint16_t key_id;
	struct hd_addr peer;
	struct hd_addr home; /* where the peer has proven that it receives */
	hd_ns moved_at; /* when peer changed last */
	struct hd_session *address_next; /* in its bucket of the address table */
	struct hd_session *graveyard_next;
	TAILQ_ENTRY(hd_session) candidate;
	uint32_t heap_index;
	hd_ns due; /* never later than the session's next deadline */

	uint64_t boot; /* the peer's */
	uint8_t nonce[16], peer_nonce[16];
	uint8_t key[HD_KEY_BYTES];
	uint8_t cookie[16]; /* from the answerer; zeros: none yet */
	uint8_t query_nonce[16]; /* of our newest QUERY */
	char name[HD_NAME_BYTES_MAX + 1];
	hd_ns hello_at; /* HELLO: when to send the next; CANDIDATE: when it expires */
	hd_ns hello_wait;
	hd_ns proved_at; /* first COOKIE came, or first WELCOME was sent; 0: not yet */
	hd_ns slow; /* time from then to its WELCOME, or its first packet */
	hd_ns welcome_at; /* CANDIDATE: no other WELCOME before this */
	hd_ns cookie_at; /* no immediate answer to a COOKIE before this */
	hd_ns query_at; /* no further QUERY for a RESET before this; 0: none was sent */

	uint64_t sequence; /* of the next packet */
	struct replay replay;
	struct outgoing out;
	struct incoming in;

	hd_ns heard, ping_at, pinged_at, rtt_least; /* rtt_least: of all PINGs; 0: none yet */
	hd_ns asked_at; /* first PING since the peer was last heard, HD_NEVER: none */
	uint32_t pongs;
	struct clock_sample sample[CLOCK_SAMPLES];
	struct hd_clock clock;
};

static_assert(sizeof(struct hd_session) <= 1024, "an idle session is small");

/* Fragments are pooled in two sizes, so that steady traffic allocates nothing. */
struct fragment_pool {
	struct fragment *free[2];
	uint32_t count[2];
};

/* A token bucket: this many answers at once, refilled at a rate. */
struct bucket {
	uint32_t per_s;
	hd_ns credit; /* as time: an answer costs 1/per_s seconds, at most one second is saved */
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
	uint64_t boot, hello_sequence;
	hd_ns keepalive, dead;
	struct lateness {
		hd_ns span, at;
	} late, pause; /* our lateness as it counts, and the longest; it halves each LATE_HALF */

	struct slot *slots;
	uint32_t slot_count, slots_max;
	uint32_t free_slot; /* UINT32_MAX: none */
	uint32_t open_count; /* open ones, and ours in any state */
	struct hd_session **addresses; /* buckets, a power of two */
	uint32_t bucket_mask;
	struct hd_session **heap;
	uint32_t heap_count;
	TAILQ_HEAD(, hd_session) candidates; /* oldest first */
	uint32_t candidate_count;
	struct hd_session *graveyard;
	uint32_t depth; /* nesting of calls that may call back */

	struct fragment_pool pool;
	struct bucket cookies, welcomes, refusals, gones;
	uint8_t cookie_root[HD_KEY_BYTES]; /* source of the cookies' secrets */
	uint8_t cookie_secret[2][HD_KEY_BYTES]; /* the valid ones, newest first */
	uint64_t cookie_number; /* number of the newest */
	hd_ns cookie_until; /* it stays the newest until then */
	uint8_t *encode_buffer, *assemble_buffer; /* HD_MESSAGE_BYTES_MAX each */
	struct hd_endpoint_stats stats;
};

/* --- hd_sessions.c --------------------------------------------------------------------------- */
/* Creates a session in the table, without state. NULL: out of memory or slots. */
struct hd_session *session_create(struct hd_endpoint *e, struct hd_addr peer, bool ours);
/* Removes it from every table, and frees it once no caller can be using it. */
void session_release(struct hd_session *s);
struct hd_session *session_by_id(const struct hd_endpoint *e, uint32_t id);
struct hd_session *session_by_address(const struct hd_endpoint *e, struct hd_addr peer);
/* Finds, from *slot on, the next open session of the peer that a new one from `home` replaces; NULL: none. Sessions
 * open rarely, so all slots are searched. */
struct hd_session *session_older(
	const struct hd_endpoint *e,
	uint32_t *slot,
	struct hd_addr home,
	uint64_t boot,
	const char *name
);
void session_move(struct hd_session *s, struct hd_addr peer);
/* Sends. Until the peer has proven a new address, also sends to the previous one; the peer drops duplicates. Not a
 * PING: its answer proves the new address. */
void session_put(
	const struct hd_session *s,
	uint8_t kind,
	const uint8_t *packet,
	size_t bytes,
	struct hd_sink *sink
);
/* Moves the session forward in the heap if its deadline is now earlier. */
void session_schedule(struct hd_session *s);
/* Moves the session to its place in the heap, either way. */
void session_reschedule(struct hd_session *s);
/* Called when the outermost call returns: frees sessions released during it. */
void endpoint_leave(struct hd_endpoint *e);
/* Calls closed(); then frees the session, or starts again if it is ours. */
void session_end(
	struct hd_session *s,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
);

/* --- hd_endpoint.c --------------------------------------------------------------------------- */
/* Numbers, tags and sends the packet whose body is at packet + HD_CONTROL_HEADER_BYTES, with all acknowledgements that
 * are due. */
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
