/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Refusals, and answers to unknown sessions.
 *
 * A packet that could not be verified is answered by hints: no tag, no longer than the packet, at a bounded rate. A
 * hint ends nothing. A hint of another key or version (REFUSE) is reported once, and HELLO continues. A hint that a
 * session is unknown (RESET: the peer has restarted, or CLOSE was lost) makes its receiver ask, under the node key:
 *
 *   either side                                             the other
 *   packet of session 7 ----------------------------------> knows no session 7
 *          <----------------------------------- RESET(7), not authenticated
 *   QUERY(both boots, both indices, nonce, asked, name) ---> still unknown
 *          <------------------------ GONE(both boots, nonce), tagged
 *   closed; the opener sends HELLO again
 *
 * QUERY names the node that it asks, so that no other node answers it. Its nonce makes an old GONE useless.
 */
#include "hd_bytes.h"
#include "hd_hello.h"
#include "hd_text.h"

#include <stdio.h>
#include <string.h>

/* Offsets in a HELLO packet that are the same in every version. */
#define HELLO_NONCE_AT (HD_CONTROL_HEADER_BYTES + 8)
#define HELLO_SESSION_AT (HELLO_NONCE_AT + 17)
/* Bytes of a REFUSE without its text. */
#define REFUSE_BYTES (HD_CONTROL_HEADER_BYTES + 1 + 1 + 4 + 16 + 2 + HD_TAG_BYTES)

/* True when HELLO asks for this node, if the node knows its own address. */
bool hello_is_for(struct hd_addr local, uint32_t asked_ipv4, uint16_t asked_port) {
	return local.ipv4 == 0 || (local.ipv4 == asked_ipv4 && local.port == asked_port);
}

/* --- HELLO is refused ------------------------------------------------------------------------- */

/* A hint for a packet of type HELLO: not authenticated, and no longer than the packet. */
static void refuse_hello(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	enum hd_reason reason,
	const char *text,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_REFUSE};
	size_t room = sizeof message.refuse.text;

	if (!e->config.accepts || packet->data[28] != HD_MSG_HELLO
	    || packet->bytes < HELLO_SESSION_AT + 4 + HD_TAG_BYTES || packet->bytes < REFUSE_BYTES
	    || !bucket_take(&e->refusals, now))
		return;
	if (room > packet->bytes - REFUSE_BYTES + 1)
		room = packet->bytes - REFUSE_BYTES + 1;
	message.refuse.reason = (uint8_t)reason;
	message.refuse.wire_version = HD_WIRE_VERSION;
	memcpy(message.refuse.peer_nonce,
	       packet->data + HELLO_NONCE_AT,
	       sizeof message.refuse.peer_nonce);
	hd_text_copy(message.refuse.text, room, text);
	hello_send_stranger(
		e, packet->peer, NULL, hd_get32(packet->data + HELLO_SESSION_AT), &message, sink
	);
}

void hello_refuse_version(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
) {
	char text[64];

	(void)snprintf(
		text,
		sizeof text,
		"wire version %u here, not %u",
		HD_WIRE_VERSION,
		packet->data[2] >> 4
	);
	refuse_hello(e, now, packet, HD_REASON_VERSION_MISMATCH, text, sink);
}

void hello_refuse_key(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	uint16_t key_id,
	bool known,
	struct hd_sink *sink
) {
	char text[64];

	(void)snprintf(
		text, sizeof text, known ? "key %u: secrets differ" : "key %u: unknown here", key_id
	);
	refuse_hello(e, now, packet, HD_REASON_UNKNOWN_KEY, text, sink);
}

void hello_refuse_address(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
) {
	refuse_hello(e, now, packet, HD_REASON_UNKNOWN_KEY, "it has another address", sink);
}

/* The opener has proven its key and its address: this answer is tagged. */
void hello_refuse_full(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_hello *hello,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_REFUSE};

	e->stats.drop_candidates++;
	if (!bucket_take(&e->refusals, now))
		return;
	message.refuse.reason = HD_REASON_NO_MEMORY;
	message.refuse.wire_version = HD_WIRE_VERSION;
	memcpy(message.refuse.peer_nonce, hello->nonce, sizeof message.refuse.peer_nonce);
	(void)snprintf(
		message.refuse.text,
		sizeof message.refuse.text,
		"no room for another session (%u of HD_SESSIONS_MAX)",
		e->config.sessions_max
	);
	hello_send_stranger(
		e,
		packet->peer,
		hd_keyring_find(e->config.keys, header->key_id),
		hello->session,
		&message,
		sink
	);
}

/* Reports once why HELLO is not answered with WELCOME; HELLO continues. */
static void
hint(struct hd_session *s, enum hd_reason reason, const char *text, hd_ns now, struct hd_sink *sink
) {
	struct hd_endpoint *e = s->endpoint;

	if (s->reported)
		return;
	s->reported = true;
	e->config.ops->closed(e->config.owner, s, reason, text, now, sink);
}

/* Neither side could verify the other: most likely the key files differ. */
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
	(void)snprintf(text, sizeof text, "%s (not authenticated)", words->text);
	hint(s, reason, text, now, sink);
}

void refuse_receive(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_refuse *words,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_session *s = session_by_id(e, header->session);
	const struct hd_key *key;

	if (!s || !s->ours || s->state != SESSION_HELLO
	    || memcmp(words->peer_nonce, s->nonce, sizeof s->nonce) != 0) {
		e->stats.drop_replay++;
		return;
	}
	if (!hd_addr_equal(packet->peer, s->peer)) {
		e->stats.drop_address++;
		return;
	}
	key = hd_keyring_find(e->config.keys, s->key_id);
	if (words->reason == HD_REASON_NO_MEMORY && key && header->key_id == s->key_id
	    && hd_auth_verify(key->secret, packet->data, packet->bytes)) {
		hint(s, HD_REASON_NO_MEMORY, words->text, now, sink);
		return;
	}
	e->stats.drop_tag++;
	hint_unverified(s, words, now, sink);
}

/* --- a session that is not known ------------------------------------------------------------- */

void hello_reset(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	uint32_t session,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_RESET, .reset = {.session = session}};

	if (bucket_take(&e->refusals, now))
		hello_send_stranger(e, packet->peer, NULL, 0, &message, sink);
}

/* The open session with this peer that has this index at the peer. */
static struct hd_session *
session_with(const struct hd_endpoint *e, struct hd_addr peer, uint32_t peer_id) {
	struct hd_session *s = session_by_address(e, peer);

	while (s
	       && (s->state != SESSION_OPEN || s->peer_id != peer_id
		   || !hd_addr_equal(s->peer, peer)))
		s = s->address_next;
	return s;
}

void reset_receive(
	struct hd_endpoint *e,
	const struct hd_msg_reset *reset,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_session *s = session_with(e, packet->peer, reset->session);
	struct hd_message query = {.kind = HD_MSG_QUERY};
	const struct hd_key *key;

	/* A node at an address that the peer has not proven may be another one, and then has no such session. */
	if (!s || !hd_addr_equal(s->peer, s->home)) {
		e->stats.drop_replay++;
		return;
	}
	key = hd_keyring_find(e->config.keys, s->key_id);
	if (!key || now < s->query_at)
		return;
	s->query_at = now + HD_QUERY_US * HD_US;
	hd_entropy_bytes(&e->entropy, s->query_nonce, sizeof s->query_nonce);
	query.query.boot = e->boot;
	query.query.peer_boot = s->boot;
	memcpy(query.query.nonce, s->query_nonce, sizeof s->query_nonce);
	query.query.session = s->id;
	query.query.peer_session = s->peer_id;
	query.query.asked_ipv4 = s->peer.ipv4;
	query.query.asked_port = s->peer.port;
	query.query.role = s->role;
	memcpy(query.query.name, s->name, sizeof s->name);
	hello_send_stranger(e, s->peer, key, 0, &query, sink);
}

static bool
query_knows(const struct hd_endpoint *e, uint16_t key_id, const struct hd_msg_query *query) {
	const struct hd_session *s = session_by_id(e, query->peer_session);

	return s && (s->state == SESSION_OPEN || s->state == SESSION_CANDIDATE)
		&& s->key_id == key_id && s->boot == query->boot && s->peer_id == query->session;
}

void query_receive(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_query *query,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_message gone = {.kind = HD_MSG_GONE};

	if (query->role != e->config.role || strcmp(query->name, e->name) != 0) {
		e->stats.drop_role++;
		return;
	}
	/* It knows its port in any case: several workers of a host have one name. */
	if (!hello_is_for(packet->local, query->asked_ipv4, query->asked_port)
	    || (packet->local.port && packet->local.port != query->asked_port)) {
		e->stats.drop_address++;
		return;
	}
	if (query_knows(e, header->key_id, query) || !bucket_take(&e->gones, now))
		return;
	gone.gone.boot = e->boot;
	gone.gone.peer_boot = query->boot;
	memcpy(gone.gone.peer_nonce, query->nonce, sizeof query->nonce);
	hello_send_stranger(
		e,
		packet->peer,
		hd_keyring_find(e->config.keys, header->key_id),
		query->session,
		&gone,
		sink
	);
}

void gone_receive(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_gone *gone,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_session *s = session_by_id(e, header->session);

	if (!s || s->state != SESSION_OPEN || header->key_id != s->key_id || s->query_at == 0
	    || gone->peer_boot != e->boot
	    || memcmp(gone->peer_nonce, s->query_nonce, sizeof s->query_nonce) != 0) {
		e->stats.drop_replay++;
		return;
	}
	if (!hd_addr_equal(packet->peer, s->home)) {
		e->stats.drop_address++;
		return;
	}
	session_end(s, HD_REASON_CLOSED, "the peer knows no such session", now, sink);
}
