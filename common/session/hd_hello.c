/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How sessions begin, and how a node says that there is none.
 *
 *   ours                                   theirs
 *   HELLO(boot, nonce, our index) -------> candidate: nonce and index of its own, key derived
 *          <------- WELCOME(boot, nonce, our nonce, its index)
 *   key derived, open; PING -------------> first packet under the key: open
 *
 * A candidate disturbs nothing: HELLO may be an old one that somebody plays again. Only who can make
 * the key (which holds fresh nonces of both) opens it, and thereby ends an older life of the same peer:
 * same address, or same boot and name.
 *
 * REFUSE answers in words, echoing 16 bytes of the question: the nonce of a HELLO; for a packet of a
 * session that is not known here (we restarted), the packet's tag, and its session index in `job`, so
 * that nobody gets a REFUSE for a session that is known by changing its index. It carries a node key's tag. One
 * that the asker cannot verify, as keys differ, is passed on once as a hint and ends nothing.
 */
#include "hd_bytes.h"
#include "hd_session.h"
#include "hd_text.h"

#include <stdio.h>
#include <string.h>

/* Places in a HELLO packet that keep their meaning in every version. */
#define HELLO_NONCE_AT (HD_CONTROL_HEADER_BYTES + 8)
#define HELLO_SESSION_AT (HELLO_NONCE_AT + 17)

/* Tags with the node key and sends. packet has the body in its place. */
static void hello_send(
	struct hd_endpoint *e,
	struct hd_addr peer,
	const struct hd_key *key,
	uint32_t session,
	const struct hd_message *message,
	struct hd_sink *sink
) {
	uint8_t packet[PACKET_BYTES_MAX];
	struct hd_control_header header = {
		.type = HD_PACKET_HELLO,
		.kind = message->kind,
		.key_id = key->id,
		.session = session,
		.sequence = e->hello_sequence++,
	};
	int body = hd_message_encode(
		message, packet + HD_CONTROL_HEADER_BYTES, HD_FRAGMENT_BYTES_MAX
	);
	size_t bytes = HD_CONTROL_HEADER_BYTES + (size_t)body;

	assert(body > 0); /* names were checked when they came in */
	hd_control_encode(&header, packet);
	hd_auth_sign(key->secret, packet, bytes, packet + bytes);
	e->stats.sent++;
	sink->send(sink, peer, packet, bytes + HD_TAG_BYTES, NULL, 0);
}

/* --- our side -------------------------------------------------------------------------------- */

void hello_start(struct hd_session *s, hd_ns at) {
	struct hd_endpoint *e = s->endpoint;

	s->state = SESSION_HELLO;
	s->hello_at = at;
	s->hello_wait = HD_HELLO_RETRY_US * HD_US;
	s->told = false;
	hd_entropy_bytes(&e->entropy, s->nonce, sizeof(s->nonce));
	session_schedule(s);
}

void hello_tick(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct hd_endpoint *e = s->endpoint;
	const struct hd_key *key = hd_keyring_find(e->config.keys, s->key_id);
	struct hd_message hello = {.kind = HD_MSG_HELLO};
	hd_ns jitter;

	if (now < s->hello_at)
		return;
	/* Up to a quarter more, so that a thousand nodes do not ask in step. */
	jitter = hd_entropy_u64(&e->entropy) % (s->hello_wait / 4);
	s->hello_at = hd_ns_add(now, s->hello_wait + jitter);
	s->hello_wait = hd_ns_min(2 * s->hello_wait, HD_HELLO_RETRY_MAX_US * HD_US);
	if (!key)
		return;
	hello.hello.boot = e->boot;
	memcpy(hello.hello.nonce, s->nonce, sizeof(s->nonce));
	hello.hello.role = e->config.role;
	hello.hello.session = s->id;
	memcpy(hello.hello.name, e->name, sizeof(e->name));
	hello_send(e, s->peer, key, 0, &hello, sink);
}

static void derive(struct hd_session *s, const struct hd_key *key) {
	struct hd_hello_side us = {.boot = s->endpoint->boot}, them = {.boot = s->boot};

	memcpy(us.nonce, s->nonce, sizeof(us.nonce));
	memcpy(them.nonce, s->peer_nonce, sizeof(them.nonce));
	hd_session_key(key, s->ours ? &us : &them, s->ours ? &them : &us, s->key);
	s->sequence = 1;
	memset(&s->replay, 0, sizeof(s->replay));
}

static void opened(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct hd_endpoint *e = s->endpoint;

	s->state = SESSION_OPEN;
	e->stats.opened++;
	liveness_start(s, now);
	/* Ours asks at once: that is also the packet that proves the key. */
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
	struct hd_session *s = session_by_id(e, header->session);

	if (!s || !s->ours || s->state != SESSION_HELLO || header->key_id != s->key_id
	    || memcmp(welcome->peer_nonce, s->nonce, sizeof(s->nonce)) != 0) {
		e->stats.drop_replay++;
		return;
	}
	if (welcome->role == HD_ROLE_NONE || welcome->role >= HD_ROLE_COUNT
	    || welcome->session == 0) {
		e->stats.drop_role++;
		return;
	}
	s->boot = welcome->boot;
	s->role = welcome->role;
	s->peer_id = welcome->session;
	memcpy(s->peer_nonce, welcome->nonce, sizeof(s->peer_nonce));
	memcpy(s->name, welcome->name, sizeof(s->name));
	derive(s, hd_keyring_find(e->config.keys, s->key_id));
	session_move(s, packet->peer);
	opened(s, now, sink);
	if (s->state == SESSION_OPEN)
		session_schedule(s);
}

/* --- their side ------------------------------------------------------------------------------ */

static void welcome_send(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct hd_endpoint *e = s->endpoint;
	struct hd_message welcome = {.kind = HD_MSG_WELCOME};

	if (!bucket_take(&e->welcomes, now))
		return;
	welcome.welcome.boot = e->boot;
	memcpy(welcome.welcome.nonce, s->nonce, sizeof(s->nonce));
	memcpy(welcome.welcome.peer_nonce, s->peer_nonce, sizeof(s->peer_nonce));
	welcome.welcome.role = e->config.role;
	welcome.welcome.session = s->id;
	memcpy(welcome.welcome.name, e->name, sizeof(e->name));
	hello_send(
		e, s->peer, hd_keyring_find(e->config.keys, s->key_id), s->peer_id, &welcome, sink
	);
}

/* A session that this very HELLO (or one with its nonce) has made before. */
static struct hd_session *find_same_hello(
	const struct hd_endpoint *e,
	struct hd_addr peer,
	const struct hd_msg_hello *hello
) {
	struct hd_session *s = session_by_address(e, peer);

	for (; s; s = s->address_next)
		if (hd_addr_equal(s->peer, peer) && !s->ours && s->boot == hello->boot
		    && memcmp(s->peer_nonce, hello->nonce, sizeof(s->peer_nonce)) == 0)
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
	s->key_id = header->key_id;
	s->boot = hello->boot;
	s->role = hello->role;
	s->peer_id = hello->session;
	memcpy(s->peer_nonce, hello->nonce, sizeof(s->peer_nonce));
	memcpy(s->name, hello->name, sizeof(s->name));
	hd_entropy_bytes(&e->entropy, s->nonce, sizeof(s->nonce));
	derive(s, hd_keyring_find(e->config.keys, s->key_id));
	TAILQ_INSERT_TAIL(&e->candidates, s, candidate);
	e->candidate_count++;
	session_schedule(s);
	welcome_send(s, now, sink);
}

static void
refuse(struct hd_endpoint *e,
       const struct hd_packet *packet,
       const struct hd_key *key,
       uint32_t session,
       const struct hd_msg_refuse *words,
       struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_REFUSE, .refuse = *words};

	message.refuse.wire_version = HD_WIRE_VERSION;
	hello_send(e, packet->peer, key, session, &message, sink);
}

static bool has_open(const struct hd_endpoint *e, struct hd_addr peer) {
	const struct hd_session *s = session_by_address(e, peer);

	while (s && (s->state != SESSION_OPEN || !hd_addr_equal(s->peer, peer)))
		s = s->address_next;
	return s != NULL;
}

static void refuse_full(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_hello *hello,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_msg_refuse words = {.reason = HD_REASON_NO_MEMORY};

	e->stats.drop_candidates++;
	if (!bucket_take(&e->refusals, now))
		return;
	memcpy(words.peer_nonce, hello->nonce, sizeof(words.peer_nonce));
	(void)snprintf(
		words.text,
		sizeof(words.text),
		"no room for another session (%u of HD_SESSIONS_MAX)",
		e->config.sessions_max
	);
	refuse(e,
	       packet,
	       hd_keyring_find(e->config.keys, header->key_id),
	       hello->session,
	       &words,
	       sink);
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

	if (!e->config.accepts || hello->role == HD_ROLE_NONE || hello->role >= HD_ROLE_COUNT
	    || hello->session == 0 || hello->boot == e->boot) {
		e->stats.drop_role++;
		return;
	}
	s = find_same_hello(e, packet->peer, hello);
	if (!s && e->open_count >= e->config.sessions_max && !has_open(e, packet->peer))
		refuse_full(e, header, hello, packet, now, sink);
	else if (!s)
		candidate_create(e, header, hello, packet, now, sink);
	else if (s->state == SESSION_CANDIDATE)
		welcome_send(s, now, sink);
	else
		e->stats.drop_replay++;
}

static bool same_peer(const struct hd_session *a, const struct hd_session *b) {
	return hd_addr_equal(a->peer, b->peer)
		|| (a->boot == b->boot && strcmp(a->name, b->name) == 0);
}

/* Ends the older lives of the peer. Few sessions open in a node's life: all slots are looked at. */
static void end_older(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct hd_endpoint *e = s->endpoint;

	for (uint32_t i = 0; i < e->slot_count; i++) {
		struct hd_session *old = e->slots[i].session;

		if (old && old != s && !old->ours && old->state == SESSION_OPEN
		    && same_peer(old, s))
			session_end(
				old, HD_REASON_DUPLICATE, "a newer life of the peer", now, sink
			);
	}
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

/* --- refusals -------------------------------------------------------------------------------- */

/* Answers a packet of type HELLO whose sender we could not verify, or whose version is not ours. */
static void refuse_hello(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	enum hd_reason reason,
	const char *text,
	struct hd_sink *sink
) {
	struct hd_msg_refuse words = {.reason = (uint8_t)reason};

	if (!e->config.accepts || packet->data[28] != HD_MSG_HELLO
	    || packet->bytes < HELLO_SESSION_AT + 4 + HD_TAG_BYTES
	    || !bucket_take(&e->refusals, now))
		return;
	memcpy(words.peer_nonce, packet->data + HELLO_NONCE_AT, sizeof(words.peer_nonce));
	hd_text_copy(words.text, sizeof(words.text), text);
	refuse(e,
	       packet,
	       &e->config.keys->keys[0],
	       hd_get32(packet->data + HELLO_SESSION_AT),
	       &words,
	       sink);
}

void hello_refuse_version(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
) {
	char text[96];

	(void)snprintf(
		text,
		sizeof(text),
		"wire version %u is spoken here, not %u",
		HD_WIRE_VERSION,
		packet->data[2] >> 4
	);
	refuse_hello(e, now, packet, HD_REASON_VERSION_MISMATCH, text, sink);
}

void hello_reset(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	const struct hd_control_header *header,
	struct hd_sink *sink
) {
	const struct hd_key *key = hd_keyring_find(e->config.keys, header->key_id);
	struct hd_msg_refuse words = {.reason = HD_REASON_CLOSED};

	if (!key || !bucket_take(&e->refusals, now))
		return;
	words.job = header->session;
	memcpy(words.peer_nonce, packet->data + packet->bytes - HD_TAG_BYTES, HD_TAG_BYTES);
	refuse(e, packet, key, 0, &words, sink);
}

/* Whose words these are: of a HELLO of ours, or of the newest packet of an open session. */
static struct hd_session *refused_session(
	const struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_refuse *words,
	struct hd_addr peer
) {
	struct hd_session *s = session_by_id(e, header->session);

	if (s && s->ours && s->state == SESSION_HELLO)
		return memcmp(words->peer_nonce, s->nonce, sizeof(s->nonce)) == 0 ? s : NULL;
	for (s = session_by_address(e, peer); s; s = s->address_next)
		if (s->state == SESSION_OPEN && hd_addr_equal(s->peer, peer)
		    && words->job == s->peer_id
		    && memcmp(words->peer_nonce, s->last_tag, HD_TAG_BYTES) == 0)
			return s;
	return NULL;
}

/* Says once why HELLO is not answered with WELCOME; HELLO goes on. */
static void
hint(struct hd_session *s, enum hd_reason reason, const char *text, hd_ns now, struct hd_sink *sink
) {
	struct hd_endpoint *e = s->endpoint;

	if (s->state != SESSION_HELLO || s->told)
		return;
	s->told = true;
	e->config.ops->closed(e->config.owner, s, reason, text, now, sink);
}

/* The peer could not verify us nor we the peer: most likely the key files differ. */
static void hint_unverified(
	struct hd_session *s,
	const struct hd_msg_refuse *words,
	hd_ns now,
	struct hd_sink *sink
) {
	char text[HD_TEXT_BYTES_MAX + 32];
	enum hd_reason reason = HD_REASON_UNKNOWN_KEY;

	if (words->reason == HD_REASON_VERSION_MISMATCH)
		reason = HD_REASON_VERSION_MISMATCH;
	(void)snprintf(text, sizeof(text), "%s (not authenticated)", words->text);
	hint(s, reason, text, now, sink);
}

static void refuse_receive(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_refuse *words,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_session *s = refused_session(e, header, words, packet->peer);
	const struct hd_key *key;

	if (!s) {
		e->stats.drop_replay++;
		return;
	}
	key = hd_keyring_find(e->config.keys, s->key_id);
	if (!key || header->key_id != s->key_id
	    || !hd_auth_verify(key->secret, packet->data, packet->bytes)) {
		e->stats.drop_tag++;
		hint_unverified(s, words, now, sink);
		return;
	}
	if (s->state == SESSION_HELLO && words->reason == HD_REASON_NO_MEMORY)
		hint(s, HD_REASON_NO_MEMORY, words->text, now, sink);
	else if (s->state == SESSION_OPEN)
		session_end(s, HD_REASON_CLOSED, "the peer knows no such session", now, sink);
	else
		session_end(s, HD_REASON_REFUSED, words->text, now, sink);
}

/* --- all that is tagged with a node key ------------------------------------------------------- */

static bool verified(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	const struct hd_key *key = hd_keyring_find(e->config.keys, header->key_id);
	char text[96];

	if (!key) {
		e->stats.drop_unknown_key++;
		(void)snprintf(text, sizeof(text), "key %u is not known here", header->key_id);
		refuse_hello(e, now, packet, HD_REASON_UNKNOWN_KEY, text, sink);
		return false;
	}
	if (!hd_auth_verify(key->secret, packet->data, packet->bytes)) {
		e->stats.drop_tag++;
		(void)snprintf(text, sizeof(text), "key %u is another one here", header->key_id);
		refuse_hello(e, now, packet, HD_REASON_UNKNOWN_KEY, text, sink);
		return false;
	}
	return true;
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
	/* REFUSE is looked at before its tag: keys may be what the two do not share. */
	if (header.kind != HD_MSG_REFUSE && !verified(e, &header, packet, now, sink))
		return;
	if (hd_message_decode(header.kind, body, bytes, &message) < 0) {
		e->stats.drop_malformed++;
		return;
	}
	switch (header.kind) {
	case HD_MSG_HELLO:
		hello_accept(e, &header, &message.hello, packet, now, sink);
		break;
	case HD_MSG_WELCOME:
		welcome_receive(e, &header, &message.welcome, packet, now, sink);
		break;
	case HD_MSG_REFUSE:
		refuse_receive(e, &header, &message.refuse, packet, now, sink);
		break;
	default:
		e->stats.drop_malformed++;
	}
}
