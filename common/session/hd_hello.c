/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How sessions begin.
 *
 *   opener                                            answerer
 *   HELLO(boot, nonce, index, asked) ---------------> no state is kept
 *          <--------------------- COOKIE(nonce, cookie)
 *   HELLO(..., cookie) -----------------------------> candidate: nonce and index of its own, key derived
 *          <--- WELCOME(boot, nonce, index, both of the opener's, seen)
 *   key derived, open; PING ------------------------> first packet under the key: open
 *
 * The cookie proves that the opener receives packets at its address. It is a MAC over that address and the opener's
 * boot and nonce, under a secret of this node, so that an opener without one costs no state. A candidate disturbs
 * nothing, as a HELLO may be a replayed old one. Only a peer that can derive the session's key, which depends on the
 * whole handshake, opens it, and thereby ends the session of an older incarnation of the same peer: same address, or
 * same boot and name.
 *
 * A HELLO that asks for another address than the one at which it arrived was misdirected, and is dropped; so is a
 * WELCOME from another address than the opener asked. Refusals are in hd_refusal.c.
 */
#include "hd_assert.h"
#include "hd_bytes.h"
#include "hd_hello.h"
#include "hd_stream.h"

#include <sodium.h>
#include <string.h>

/* A COOKIE is answered by HELLO at once, but not more often than this, as COOKIEs may be replayed. */
#define COOKIE_ANSWER_NS HD_MS

/* Writes the packet with the key's tag; NULL: not authenticated, the tag is zeros. Returns its bytes. */
static size_t hello_encode(
	struct hd_endpoint *e,
	const struct hd_key *key,
	uint32_t session,
	const struct hd_message *message,
	uint8_t packet[PACKET_BYTES_MAX]
) {
	struct hd_control_header header = {
		.type = HD_PACKET_HELLO,
		.kind = message->kind,
		.key_id = key ? key->id : 0,
		.session = session,
		.sequence = e->hello_sequence++,
	};
	int body = hd_message_encode(
		message, packet + HD_CONTROL_HEADER_BYTES, HD_FRAGMENT_BYTES_MAX
	);
	size_t bytes = HD_CONTROL_HEADER_BYTES + (size_t)body;

	hd_assert(body > 0); /* names were checked on input */
	hd_control_encode(&header, packet);
	if (key)
		hd_auth_sign(key->secret, packet, bytes, packet + bytes);
	else
		memset(packet + bytes, 0, HD_TAG_BYTES);
	e->stats.sent++;
	return bytes + HD_TAG_BYTES;
}

static void hello_send(
	struct hd_endpoint *e,
	struct hd_addr peer,
	const struct hd_key *key,
	uint32_t session,
	const struct hd_message *message,
	struct hd_sink *sink
) {
	uint8_t packet[PACKET_BYTES_MAX];
	size_t bytes = hello_encode(e, key, session, message, packet);

	sink->send(sink, peer, packet, bytes, NULL, 0);
}

void hello_send_stranger(
	struct hd_endpoint *e,
	struct hd_addr peer,
	const struct hd_key *key,
	uint32_t session,
	const struct hd_message *message,
	struct hd_sink *sink
) {
	uint8_t packet[PACKET_BYTES_MAX];
	size_t bytes = hello_encode(e, key, session, message, packet);

	hd_sink_send_stranger(sink, peer, packet, bytes);
}

/* --- the opener's side ------------------------------------------------------------------------ */

void hello_start(struct hd_session *s, hd_ns at) {
	struct hd_endpoint *e = s->endpoint;

	s->state = SESSION_HELLO;
	s->hello_at = at;
	s->hello_wait = HD_HELLO_RETRY_US * HD_US;
	s->reported = s->left = false;
	s->proved_at = 0;
	memset(s->cookie, 0, sizeof s->cookie);
	hd_entropy_bytes(&e->entropy, s->nonce, sizeof s->nonce);
	session_schedule(s);
}

static void hello_offer(struct hd_session *s, struct hd_sink *sink) {
	struct hd_endpoint *e = s->endpoint;
	const struct hd_key *key = hd_keyring_find(e->config.keys, s->key_id);
	struct hd_message hello = {.kind = HD_MSG_HELLO};

	if (!key)
		return;
	hello.hello.boot = e->boot;
	memcpy(hello.hello.nonce, s->nonce, sizeof s->nonce);
	hello.hello.role = e->config.role;
	hello.hello.session = s->id;
	memcpy(hello.hello.name, e->name, sizeof e->name);
	hello.hello.asked_ipv4 = s->peer.ipv4;
	hello.hello.asked_port = s->peer.port;
	memcpy(hello.hello.cookie, s->cookie, sizeof s->cookie);
	hello_send(e, s->peer, key, 0, &hello, sink);
}

void hello_tick(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct hd_entropy *entropy = &s->endpoint->entropy;

	if (now < s->hello_at)
		return;
	/* Up to a quarter more, so that a thousand nodes do not ask at the same time. A peer that has answered without
	 * letting us in is busy. */
	s->hello_at = now + s->hello_wait + hd_entropy_u64(entropy) % (s->hello_wait / 4);
	s->hello_wait = hd_ns_min(
		2 * s->hello_wait, (s->proved_at ? HD_HELLO_BUSY_US : HD_HELLO_RETRY_MAX_US) * HD_US
	);
	hello_offer(s, sink);
}

/* The opening session that this answer is for; NULL: none, or the answer is from another address than asked. */
static struct hd_session *
opening(struct hd_endpoint *e,
	const struct hd_control_header *header,
	const uint8_t nonce[16],
	const struct hd_packet *packet) {
	struct hd_session *s = session_by_id(e, header->session);

	if (!s || !s->ours || s->state != SESSION_HELLO || header->key_id != s->key_id
	    || memcmp(nonce, s->nonce, sizeof s->nonce) != 0) {
		e->stats.drop_replay++;
		return NULL;
	}
	if (!hd_addr_equal(packet->peer, s->peer)) {
		e->stats.drop_address++;
		return NULL;
	}
	return s;
}

static void cookie_receive(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_cookie *cookie,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_session *s = opening(e, header, cookie->peer_nonce, packet);

	if (!s)
		return;
	s->proved_at = sodium_is_zero(s->cookie, sizeof s->cookie) ? now : s->proved_at;
	memcpy(s->cookie, cookie->cookie, sizeof s->cookie);
	if (now < s->cookie_at)
		return;
	s->cookie_at = now + COOKIE_ANSWER_NS;
	hello_offer(s, sink);
}

/* ours, theirs: each side's part of the handshake. */
static void derive(struct hd_session *s, struct hd_addr seen, struct hd_addr asked) {
	const struct hd_endpoint *e = s->endpoint;
	struct hd_hello_side us = {
		.boot = e->boot,
		.role = e->config.role,
		.session = s->id,
		.addr = s->ours ? seen : asked,
		.name = e->name,
	};
	struct hd_hello_side them = {
		.boot = s->boot,
		.role = s->role,
		.session = s->peer_id,
		.addr = s->ours ? asked : seen,
		.name = s->name,
	};

	memcpy(us.nonce, s->nonce, sizeof us.nonce);
	memcpy(them.nonce, s->peer_nonce, sizeof them.nonce);
	hd_session_key(
		hd_keyring_find(e->config.keys, s->key_id),
		s->ours ? &us : &them,
		s->ours ? &them : &us,
		s->key
	);
	s->sequence = 1;
	memset(&s->replay, 0, sizeof s->replay);
}

static void opened(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct hd_endpoint *e = s->endpoint;

	s->state = SESSION_OPEN;
	e->stats.opened++;
	s->moved_at = now;
	liveness_start(s, now);
	/* Ours sends PING at once: that packet also proves the key. */
	liveness_tick(s, now, sink);
	e->config.ops->opened(e->config.owner, s, now, sink);
}

static void welcome_receive(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_welcome *welcome,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_session *s = opening(e, header, welcome->peer_nonce, packet);

	if (!s)
		return;
	if (welcome->peer_boot != e->boot || welcome->role == HD_ROLE_NONE
	    || welcome->role >= HD_ROLE_COUNT || welcome->session == 0) {
		e->stats.drop_role++;
		return;
	}
	s->boot = welcome->boot;
	s->role = welcome->role;
	s->peer_id = welcome->session;
	memcpy(s->peer_nonce, welcome->nonce, sizeof s->peer_nonce);
	memcpy(s->name, welcome->name, sizeof s->name);
	derive(s, (struct hd_addr){welcome->seen_ipv4, welcome->seen_port}, s->peer);
	opened(s, now, sink);
	if (s->state == SESSION_OPEN)
		session_schedule(s);
}

/* --- cookies ---------------------------------------------------------------------------------- */

static void cookie_renew(struct hd_endpoint *e) {
	uint8_t number[8];

	hd_put64(number, ++e->cookie_number);
	memcpy(e->cookie_secret[1], e->cookie_secret[0], sizeof e->cookie_secret[0]);
	crypto_generichash(
		e->cookie_secret[0],
		sizeof e->cookie_secret[0],
		number,
		sizeof number,
		e->cookie_root,
		sizeof e->cookie_root
	);
}

/* The newest secret is [0]; the previous one is still valid. */
static void cookie_age(struct hd_endpoint *e, hd_ns now) {
	hd_ns late;

	if (now < e->cookie_until)
		return;
	late = now - e->cookie_until;
	cookie_renew(e);
	if (late >= HD_COOKIE_US * HD_US)
		cookie_renew(e); /* unused for so long that both are too old */
	e->cookie_until = hd_ns_add(now, HD_COOKIE_US * HD_US);
}

static void cookie_make(
	const uint8_t secret[HD_KEY_BYTES],
	struct hd_addr peer,
	const struct hd_msg_hello *hello,
	uint8_t cookie[16]
) {
	uint8_t input[4 + 2 + 8 + 16];

	hd_put32(input, peer.ipv4);
	hd_put16(input + 4, peer.port);
	hd_put64(input + 6, hello->boot);
	memcpy(input + 14, hello->nonce, 16);
	crypto_generichash(cookie, 16, input, sizeof input, secret, HD_KEY_BYTES);
}

static bool
cookie_valid(const struct hd_endpoint *e, struct hd_addr peer, const struct hd_msg_hello *hello) {
	uint8_t cookie[2][16];

	cookie_make(e->cookie_secret[0], peer, hello, cookie[0]);
	cookie_make(e->cookie_secret[1], peer, hello, cookie[1]);
	return sodium_memcmp(cookie[0], hello->cookie, 16) == 0
		|| sodium_memcmp(cookie[1], hello->cookie, 16) == 0;
}

static void cookie_send(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_hello *hello,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_COOKIE};

	e->stats.cookies++;
	if (!bucket_take(&e->cookies, now))
		return;
	memcpy(message.cookie.peer_nonce, hello->nonce, sizeof hello->nonce);
	cookie_make(e->cookie_secret[0], packet->peer, hello, message.cookie.cookie);
	hello_send_stranger(
		e,
		packet->peer,
		hd_keyring_find(e->config.keys, header->key_id),
		hello->session,
		&message,
		sink
	);
}

/* --- the answerer's side ---------------------------------------------------------------------- */

static void welcome_send(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct hd_endpoint *e = s->endpoint;
	struct hd_message welcome = {.kind = HD_MSG_WELCOME};

	if (now < s->welcome_at || !bucket_take(&e->welcomes, now))
		return;
	s->welcome_at = hd_ns_add(now, HD_WELCOME_AGAIN_US * HD_US);
	welcome.welcome.boot = e->boot;
	memcpy(welcome.welcome.nonce, s->nonce, sizeof s->nonce);
	memcpy(welcome.welcome.peer_nonce, s->peer_nonce, sizeof s->peer_nonce);
	welcome.welcome.role = e->config.role;
	welcome.welcome.session = s->id;
	memcpy(welcome.welcome.name, e->name, sizeof e->name);
	welcome.welcome.peer_boot = s->boot;
	welcome.welcome.seen_ipv4 = s->peer.ipv4;
	welcome.welcome.seen_port = s->peer.port;
	hello_send(
		e, s->peer, hd_keyring_find(e->config.keys, s->key_id), s->peer_id, &welcome, sink
	);
}

/* A session created by this very HELLO, or one with its nonce. */
static struct hd_session *find_same_hello(
	const struct hd_endpoint *e,
	struct hd_addr peer,
	const struct hd_msg_hello *hello
) {
	struct hd_session *s = session_by_address(e, peer);

	for (; s; s = s->address_next)
		if (hd_addr_equal(s->peer, peer) && !s->ours && s->boot == hello->boot
		    && memcmp(s->peer_nonce, hello->nonce, sizeof s->peer_nonce) == 0)
			return s;
	return NULL;
}

static void candidate_create(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_hello *hello,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_session *s;

	if (e->candidate_count == HD_CANDIDATES_MAX) {
		e->stats.drop_candidates++;
		session_release(TAILQ_FIRST(&e->candidates));
	}
	s = session_create(e, packet->peer, false);
	if (!s) {
		e->stats.drop_candidates++;
		return;
	}
	s->state = SESSION_CANDIDATE;
	s->hello_at = hd_ns_add(now, HD_CANDIDATE_US * HD_US);
	s->proved_at = now;
	s->key_id = header->key_id;
	s->boot = hello->boot;
	s->role = hello->role;
	s->peer_id = hello->session;
	memcpy(s->peer_nonce, hello->nonce, sizeof s->peer_nonce);
	memcpy(s->name, hello->name, sizeof s->name);
	hd_entropy_bytes(&e->entropy, s->nonce, sizeof s->nonce);
	derive(s, packet->peer, (struct hd_addr){hello->asked_ipv4, hello->asked_port});
	TAILQ_INSERT_TAIL(&e->candidates, s, candidate);
	e->candidate_count++;
	session_schedule(s);
	welcome_send(s, now, sink);
}

static void hello_accept(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_hello *hello,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_session *s;
	uint32_t slot = 0;

	if (!e->config.accepts || hello->role == HD_ROLE_NONE || hello->role >= HD_ROLE_COUNT
	    || hello->session == 0 || hello->boot == e->boot) {
		e->stats.drop_role++;
		return;
	}
	if (!hello_is_for(packet->local, hello->asked_ipv4, hello->asked_port)) {
		e->stats.drop_address++;
		hello_refuse_address(e, now, packet, sink);
		return;
	}
	cookie_age(e, now);
	if (!cookie_valid(e, packet->peer, hello)) {
		cookie_send(e, header, hello, packet, now, sink);
		return;
	}
	s = find_same_hello(e, packet->peer, hello);
	if (!s && e->open_count >= e->config.sessions_max
	    && !session_older(e, &slot, packet->peer, hello->boot, hello->name))
		hello_refuse_full(e, header, hello, packet, now, sink);
	else if (!s)
		candidate_create(e, header, hello, packet, now, sink);
	else if (s->state == SESSION_CANDIDATE)
		welcome_send(s, now, sink);
	else
		e->stats.drop_replay++;
}

/* Ends the sessions of older incarnations of the peer. */
static void end_older(const struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct hd_session *old;

	for (uint32_t slot = 0;
	     (old = session_older(s->endpoint, &slot, s->home, s->boot, s->name));)
		session_end(old, HD_REASON_DUPLICATE, "the peer has restarted", now, sink);
}

bool hello_promote(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct hd_endpoint *e = s->endpoint;

	end_older(s, now, sink);
	if (e->open_count >= e->config.sessions_max) {
		e->stats.drop_candidates++;
		session_release(s);
		return false;
	}
	TAILQ_REMOVE(&e->candidates, s, candidate);
	e->candidate_count--;
	e->open_count++;
	opened(s, now, sink);
	return s->state == SESSION_OPEN;
}

/* --- all packets of type HELLO ---------------------------------------------------------------- */

static bool verified(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	const struct hd_key *key = hd_keyring_find(e->config.keys, header->key_id);

	if (key && hd_auth_verify(key->secret, packet->data, packet->bytes))
		return true;
	if (key)
		e->stats.drop_tag++;
	else
		e->stats.drop_unknown_key++;
	hello_refuse_key(e, now, packet, header->key_id, key != NULL, sink);
	return false;
}

/* REFUSE and RESET are only hints: their tags are not checked. */
static bool is_hint(uint8_t kind) {
	return kind == HD_MSG_REFUSE || kind == HD_MSG_RESET;
}

void hello_receive(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
) {
	struct hd_control_header header;
	struct hd_message message;
	const uint8_t *body;
	size_t bytes;

	if (hd_control_decode(packet->data, packet->bytes, &header, &body, &bytes) < 0) {
		e->stats.drop_malformed++;
		return;
	}
	if (!is_hint(header.kind) && !verified(e, &header, packet, now, sink))
		return;
	if (hd_message_decode(header.kind, body, bytes, &message) < 0) {
		e->stats.drop_malformed++;
		return;
	}
	switch (header.kind) {
	case HD_MSG_HELLO:
		hello_accept(e, &header, &message.hello, packet, now, sink);
		break;
	case HD_MSG_COOKIE:
		cookie_receive(e, &header, &message.cookie, packet, now, sink);
		break;
	case HD_MSG_WELCOME:
		welcome_receive(e, &header, &message.welcome, packet, now, sink);
		break;
	case HD_MSG_REFUSE:
		refuse_receive(e, &header, &message.refuse, packet, now, sink);
		break;
	case HD_MSG_RESET:
		reset_receive(e, &message.reset, packet, now, sink);
		break;
	case HD_MSG_QUERY:
		query_receive(e, &header, &message.query, packet, now, sink);
		break;
	case HD_MSG_GONE:
		gone_receive(e, &header, &message.gone, packet, now, sink);
		break;
	default:
		e->stats.drop_malformed++;
	}
}
