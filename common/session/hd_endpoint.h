/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sessions of one node: hello, keys, authenticated and replay-protected control packets, reliable in-order
 * messages, liveness, clock offsets. A core embeds one endpoint, passes it the control packets that arrive, and gets
 * whole messages from its callbacks.
 *
 *   client                                        server
 *   connect()  -- HELLO(boot, nonce_c) ---------> no state is kept
 *              <- COOKIE
 *              -- HELLO(..., cookie) -----------> candidate session (does not disturb an older
 *              <- WELCOME(boot, nonce_s, nonce_c)  one with the same peer yet)
 *   opened()   -- first packet under the new key > opened(); the older session is closed(DUPLICATE)
 *
 * The packet that proves a session is the opener's first PING. A packet of a session that the receiver does not know
 * (it restarted) is answered with RESET, which proves nothing: the sender asks under the node key (QUERY), and closes
 * (CLOSED) if the answer is GONE, instead of waiting for its timeout.
 *
 * Reliable fragments are numbered from 1 in each session, delivered in order, acknowledged in every packet that goes
 * back (or soon by an empty one), and retransmitted after a timeout from measured RTT with backoff, or when three later
 * ones are acknowledged. A session whose peer has been silent for `dead_us` although it was asked is closed(TIMEOUT). A
 * client session then starts again with HELLO by itself, and its queue is discarded: the owner sends again in opened().
 *
 * Hostile input: wrong tag, replayed sequence, unknown session, malformed body: one counter each, no other effect. A
 * HELLO takes a candidate slot only with a cookie, which proves its address; candidates are few and the oldest is
 * replaced.
 */
#ifndef HD_ENDPOINT_H
#define HD_ENDPOINT_H

#include "hd_event.h"
#include "hd_keys.h"
#include "hd_message.h"
#include "hd_node.h"
#include "hd_stats.h"

struct hd_endpoint;
struct hd_session;

struct hd_endpoint_ops {
	/* The session can carry messages. Called again after each reconnection. */
	void (*opened)(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink);
	/* A whole message. Its blobs are valid during the call. The owner may send, connect and close from here. */
	void (*message
	)(void *owner,
	  struct hd_session *session,
	  const struct hd_message *message,
	  hd_ns now,
	  struct hd_sink *sink);
	/* The session ended: CLOSED (by the peer, or the peer restarted), TIMEOUT, REFUSED (for good; text says why),
	 * or replaced by a newer incarnation of the same peer (DUPLICATE: same address, or same boot and name). After
	 * it returns, a session that the peer opened is freed, and one that we opened if the reason is REFUSED; else
	 * ours sends HELLO again by itself. For a session of ours that is not open yet it may be called once as a hint,
	 * while HELLO continues: UNKNOWN_KEY or VERSION_MISMATCH (an answer that could not be authenticated: most
	 * likely the key files differ), NO_MEMORY (the peer is full). The owner may call hd_session_close() on this or
	 * any other session from here. */
	void (*closed
	)(void *owner,
	  struct hd_session *session,
	  enum hd_reason reason,
	  const char *text,
	  hd_ns now,
	  struct hd_sink *sink);
};

struct hd_endpoint_config {
	const char *name; /* shown by peers; copied */
	uint8_t role; /* enum hd_role */
	uint16_t key_id; /* for sessions that we open */
	const struct hd_keyring *keys; /* outlives the endpoint */
	uint8_t seed[32]; /* fresh entropy in every process: source of boot id and nonces */
	bool accepts; /* answers HELLO */
	uint32_t sessions_max; /* 0: HD_SESSIONS_MAX */
	uint32_t keepalive_us; /* 0: HD_KEEPALIVE_US; sends PING after this much silence */
	uint32_t dead_us; /* 0: HD_SILENCE_US */
	const struct hd_endpoint_ops *ops;
	void *owner;
};

/* Returns 0, -ENOMEM, -EINVAL (no key with key_id, name too long or not UTF-8, role, sessions_max). */
int hd_endpoint_create(const struct hd_endpoint_config *config, struct hd_endpoint **endpoint);
void hd_endpoint_destroy(struct hd_endpoint *endpoint);

/* Opens a session to a peer; opened() follows. HELLO leaves in the next tick, which is due at once. Returns 0, -EMFILE
 * at the limit of sessions, -ENOMEM. */
int hd_endpoint_connect(
	struct hd_endpoint *endpoint,
	struct hd_addr peer,
	hd_ns now,
	struct hd_session **session
);

/* Queues a reliable message; it leaves during this call if the window allows. Returns 0, -EINVAL, -EMSGSIZE, -ENOTCONN
 * (not open), -ENOBUFS (HD_MESSAGES_UNACKED_MAX fragments wait). */
int hd_session_send(
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
);
/* Sends once, unnumbered, in one packet: for SACK, PING and the like. Same errors except -ENOBUFS. */
int hd_session_send_once(
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
);
/* Sends CLOSE once and forgets the session, even while it is opening; closed() is not called for it. The pointer is
 * invalid afterwards (inside a callback: once that returned). */
void hd_session_close(
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
);

/* Passes one packet of type CONTROL or HELLO. Never fails: invalid packets are counted. */
void hd_endpoint_receive(
	struct hd_endpoint *endpoint,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
);
void hd_endpoint_tick(struct hd_endpoint *endpoint, hd_ns now, struct hd_sink *sink);
hd_ns hd_endpoint_deadline(const struct hd_endpoint *endpoint);
/* How much longer than usual a silence may last, as this machine runs late; 0: not at all. */
hd_ns hd_endpoint_stretch(const struct hd_endpoint *endpoint, hd_ns at);

/* --- properties of a session ------------------------------------------------------------ */
void *hd_session_user(const struct hd_session *session);
void hd_session_set_user(struct hd_session *session, void *user);
bool hd_session_is_open(const struct hd_session *session);
struct hd_addr hd_session_peer(const struct hd_session *session); /* follows NAT rebinding */
const char *hd_session_peer_name(const struct hd_session *session);
uint8_t hd_session_peer_role(const struct hd_session *session);
/* Its name and address, for events. */
static inline struct hd_who hd_session_who(const struct hd_session *session) {
	return (struct hd_who
	){.name = hd_session_peer_name(session), .address = hd_session_peer(session)};
}
uint64_t hd_session_peer_boot(const struct hd_session *session);
bool hd_session_left(const struct hd_session *session); /* in closed(): the peer has sent CLOSE */
hd_ns hd_session_heard(const struct hd_session *session); /* last authenticated packet */
/* The same for an open session, whose peer may be slow too. */
hd_ns hd_session_stretch(const struct hd_session *session);
uint32_t hd_session_queued(const struct hd_session *session); /* unacknowledged fragments */
hd_ns hd_session_rtt(const struct hd_session *session); /* smoothed; 0 = not measured */
hd_ns hd_session_rtt_least(const struct hd_session *session
); /* of small packets; 0 = not measured */
/* For a session that we open: when the peer first answered HELLO, even without letting us in; 0: never. */
hd_ns hd_session_answered(const struct hd_session *session);

/* The peer's clock against ours, from four-timestamp exchanges in PING/PONG (RFC 5905 section 8): peer = ours +
 * offset_ns, within +- error_ns. Of the last 8 exchanges the one with the least error now, which is half its delay plus
 * 100 ppm of its age (and of the time to the next exchange). */
struct hd_clock {
	int64_t offset_ns;
	uint64_t error_ns;
	bool valid;
};
struct hd_clock hd_session_clock(const struct hd_session *session);
/* Converts a time of the peer's clock to ours; `fallback` if the clock is not known yet. */
hd_ns hd_session_from_peer_time(const struct hd_session *session, hd_ns peer_time, hd_ns fallback);

/* Counters of the endpoint since its creation. */
struct hd_endpoint_stats {
	uint64_t received, sent, resent;
	uint64_t opened, closed;
	uint64_t drop_malformed, drop_tag, drop_replay, drop_unknown_session, drop_unknown_key;
	uint64_t drop_version, drop_candidates, drop_out_of_window, drop_role;
	uint64_t drop_address, cookies;
};
const struct hd_endpoint_stats *hd_endpoint_stats(const struct hd_endpoint *endpoint);
extern const struct hd_stat_group hd_endpoint_group; /* their descriptions */

#endif
