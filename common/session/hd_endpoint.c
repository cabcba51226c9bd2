/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoint's interface: create, demultiplexing of packets, timers. */
#include "hd_assert.h"
#include "hd_endpoint.h"
#include "hd_hello.h"
#include "hd_stream.h"
#include "hd_text.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

bool bucket_take(struct bucket *bucket, hd_ns now) {
	hd_ns cost = HD_SECOND / bucket->per_s;

	bucket->credit = hd_ns_min(bucket->credit + (now - bucket->at), HD_SECOND);
	bucket->at = now;
	if (bucket->credit < cost)
		return false;
	bucket->credit -= cost;
	return true;
}

/* --- packets --------------------------------------------------------------------------------- */

void session_transmit(
	struct hd_session *s,
	uint8_t *packet,
	size_t body_bytes,
	struct hd_control_header *header,
	struct hd_sink *sink
) {
	size_t bytes = HD_CONTROL_HEADER_BYTES + body_bytes;

	if (!s->ours)
		header->flags |= HD_CONTROL_ANSWERER;
	header->key_id = s->key_id;
	header->session = s->peer_id;
	header->sequence = s->sequence++;
	header->ack = s->in.ack;
	header->ack_mask = s->in.mask;
	hd_control_encode(header, packet);
	hd_auth_sign(s->key, packet, bytes, packet + bytes);
	stream_ack_sent(s);
	s->endpoint->stats.sent++;
	session_put(s, header->kind, packet, bytes + HD_TAG_BYTES, sink);
}

enum replay_verdict {
	REPLAY_FRESH,
	REPLAY_SEEN,
	REPLAY_OLD
};

static enum replay_verdict replay_check(const struct replay *replay, uint64_t sequence) {
	uint64_t bit = sequence % REPLAY_BITS;

	if (sequence > replay->highest)
		return REPLAY_FRESH;
	if (sequence == 0 || replay->highest - sequence >= REPLAY_BITS)
		return REPLAY_OLD;
	return replay->bits[bit / 64] >> (bit % 64) & 1 ? REPLAY_SEEN : REPLAY_FRESH;
}

/* Returns true when the packet is the newest so far. */
static bool replay_commit(struct replay *replay, uint64_t sequence) {
	uint64_t bit = sequence % REPLAY_BITS;
	bool newest = sequence > replay->highest;

	if (newest && sequence - replay->highest >= REPLAY_BITS)
		memset(replay->bits, 0, sizeof replay->bits);
	else if (newest)
		for (uint64_t i = replay->highest + 1; i < sequence; i++)
			replay->bits[i % REPLAY_BITS / 64] &= ~(UINT64_C(1) << (i % 64));
	if (newest)
		replay->highest = sequence;
	replay->bits[bit / 64] |= UINT64_C(1) << (bit % 64);
	return newest;
}

void session_deliver(
	struct hd_session *s,
	uint8_t kind,
	const uint8_t *body,
	size_t bytes,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_endpoint *e = s->endpoint;
	struct hd_message message;

	if (hd_message_decode(kind, body, bytes, &message) < 0) {
		e->stats.drop_malformed++;
		return;
	}
	switch (kind) {
	case HD_MSG_HELLO:
	case HD_MSG_WELCOME:
	case HD_MSG_COOKIE:
	case HD_MSG_RESET:
	case HD_MSG_QUERY:
	case HD_MSG_GONE:
		e->stats.drop_malformed++;
		break;
	case HD_MSG_PING:
		liveness_ping(s, &message.ping, now, sink);
		break;
	case HD_MSG_PONG:
		liveness_pong(s, &message.pong, now);
		break;
	case HD_MSG_CLOSE:
		s->left = true;
		session_end(
			s,
			message.close.reason == HD_REASON_REFUSED ? HD_REASON_REFUSED :
								    HD_REASON_CLOSED,
			message.close.text,
			now,
			sink
		);
		break;
	default:
		e->config.ops->message(e->config.owner, s, &message, now, sink);
	}
}

/* The packet is authentic, fresh, and s is open. */
static void session_receive(
	struct hd_session *s,
	const struct hd_control_header *header,
	const uint8_t *body,
	size_t bytes,
	hd_ns now,
	struct hd_sink *sink
) {
	stream_acknowledged(s, header->ack, header->ack_mask, now, sink);
	if (header->message > 0)
		stream_receive(s, header, body, bytes, now, sink);
	else if (header->kind != HD_MSG_NONE)
		session_deliver(s, header->kind, body, bytes, now, sink);
	else if (bytes > 0)
		s->endpoint->stats.drop_malformed++;
}

static void follow(struct hd_session *s, struct hd_addr from, hd_ns now) {
	if (hd_addr_equal(s->peer, from))
		return;
	session_move(s, from);
	s->moved_at = now;
}

/*
 * The opener of a session keeps to the address that it asked. The answerer follows its peer to a new address (NAT). The
 * source of a packet is not authenticated: an attacker on the path may send a copy of a packet that arrives first. Then
 * the original arrives a moment later from the address that the peer has proven, and the session moves back.
 */
static void follow_back(
	struct hd_session *s,
	const struct hd_control_header *header,
	const struct hd_packet *packet,
	hd_ns now
) {
	if (s->ours || s->state != SESSION_OPEN || header->sequence != s->replay.highest
	    || hd_addr_equal(s->peer, s->home) || !hd_addr_equal(packet->peer, s->home)
	    || !hd_auth_verify(s->key, packet->data, packet->bytes))
		return;
	follow(s, s->home, now);
}

/* Finds and authenticates. NULL: counted and dropped. */
static struct hd_session *session_of(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_session *s = session_by_id(e, header->session);
	enum replay_verdict verdict;

	if (!s || (s->state != SESSION_OPEN && s->state != SESSION_CANDIDATE)) {
		e->stats.drop_unknown_session++;
		hello_reset(e, now, packet, header->session, sink);
		return NULL;
	}
	verdict = replay_check(&s->replay, header->sequence);
	if (verdict != REPLAY_FRESH) {
		e->stats.drop_replay += verdict == REPLAY_SEEN;
		e->stats.drop_out_of_window += verdict == REPLAY_OLD;
		follow_back(s, header, packet, now);
		return NULL;
	}
	if (((header->flags & HD_CONTROL_ANSWERER) != 0) != s->ours
	    || !hd_auth_verify(s->key, packet->data, packet->bytes)) {
		e->stats.drop_tag++;
		return NULL;
	}
	if (replay_commit(&s->replay, header->sequence) && !s->ours)
		follow(s, packet->peer, now);
	return s;
}

static void control_receive(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
) {
	struct hd_control_header header;
	struct hd_session *s;
	const uint8_t *body;
	size_t bytes;
	bool silent;

	if (hd_control_decode(packet->data, packet->bytes, &header, &body, &bytes) < 0) {
		e->stats.drop_malformed++;
		return;
	}
	s = session_of(e, &header, packet, now, sink);
	if (!s || (s->state == SESSION_CANDIDATE && !hello_promote(s, now, sink)))
		return;
	silent = now > hd_ns_add(s->heard, e->keepalive + hd_session_stretch(s));
	liveness_heard(s, now);
	session_receive(s, &header, body, bytes, now, sink);
	if (s->state == SESSION_OPEN && silent)
		stream_revive(s, now, sink);
	if (s->state == SESSION_OPEN)
		session_schedule(s);
}

void hd_endpoint_receive(
	struct hd_endpoint *endpoint,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
) {
	uint8_t version;
	int type = hd_packet_classify(packet->data, packet->bytes, &version);

	endpoint->depth++;
	endpoint->stats.received++;
	if (type == HD_PACKET_CONTROL) {
		control_receive(endpoint, now, packet, sink);
	} else if (type == HD_PACKET_HELLO) {
		hello_receive(endpoint, now, packet, sink);
	} else if (type == -EPROTONOSUPPORT && packet->bytes >= HD_CONTROL_HEADER_BYTES) {
		endpoint->stats.drop_version++;
		/* We read another version's REFUSE, and answer its HELLO. */
		if ((packet->data[2] & 0x0f) == HD_PACKET_HELLO) {
			if (packet->data[28] == HD_MSG_REFUSE)
				hello_receive(endpoint, now, packet, sink);
			else
				hello_refuse_version(endpoint, now, packet, sink);
		}
	} else {
		endpoint->stats.drop_malformed++;
	}
	endpoint_leave(endpoint);
}

/* --- time ------------------------------------------------------------------------------------ */

static void session_tick(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	switch (s->state) {
	case SESSION_HELLO:
		hello_tick(s, now, sink);
		break;
	case SESSION_CANDIDATE:
		if (now >= s->hello_at)
			session_release(s);
		break;
	default:
		stream_tick(s, now, sink);
		if (!liveness_tick(s, now, sink))
			session_end(s, HD_REASON_TIMEOUT, "the peer is silent", now, sink);
	}
}

void hd_endpoint_tick(struct hd_endpoint *endpoint, hd_ns now, struct hd_sink *sink) {
	liveness_late(endpoint, now);
	endpoint->depth++;
	while (endpoint->heap_count > 0 && endpoint->heap[0]->due <= now) {
		struct hd_session *s = endpoint->heap[0];

		/* Each pass moves the session's deadline beyond now; a session that starts again sends HELLO in the
		 * next. */
		session_tick(s, now, sink);
		session_reschedule(s);
	}
	endpoint_leave(endpoint);
}

hd_ns hd_endpoint_deadline(const struct hd_endpoint *endpoint) {
	return endpoint->heap_count > 0 ? endpoint->heap[0]->due : HD_NEVER;
}

/* --- create, destroy ------------------------------------------------------------------------- */

static hd_ns span(uint32_t us, uint32_t otherwise_us) {
	return (us ? us : otherwise_us) * HD_US;
}

/* The seed's owner may draw from it too, so the endpoint uses another stream. */
static void seed_entropy(struct hd_endpoint *e, const uint8_t seed[32]) {
	static const char context[15] = "heddle endpoint", cookies[14] = "heddle cookies";
	uint8_t own[32];

	crypto_generichash(
		own, sizeof own, (const uint8_t *)context, sizeof context, seed, sizeof own
	);
	hd_entropy_init(&e->entropy, own);
	crypto_generichash(
		e->cookie_root,
		sizeof e->cookie_root,
		(const uint8_t *)cookies,
		sizeof cookies,
		seed,
		sizeof own
	);
	sodium_memzero(own, sizeof own);
	e->boot = hd_entropy_u64(&e->entropy);
}

int hd_endpoint_create(const struct hd_endpoint_config *config, struct hd_endpoint **endpoint) {
	struct hd_endpoint *e;

	if (!hd_keyring_find(config->keys, config->key_id) || config->role == HD_ROLE_NONE
	    || config->role >= HD_ROLE_COUNT || strlen(config->name) > HD_NAME_BYTES_MAX
	    || !hd_text_valid(config->name, strlen(config->name))
	    || config->sessions_max > HD_SESSIONS_MAX)
		return -EINVAL;
	e = calloc(1, sizeof *e);
	if (!e)
		return -ENOMEM;
	e->config = *config;
	e->config.name = e->name;
	memcpy(e->name, config->name, strlen(config->name));
	if (e->config.sessions_max == 0)
		e->config.sessions_max = HD_SESSIONS_MAX;
	e->slots_max = e->config.sessions_max + (config->accepts ? HD_CANDIDATES_MAX : 0);
	e->free_slot = UINT32_MAX;
	e->keepalive = hd_ns_max(span(config->keepalive_us, HD_KEEPALIVE_US), HD_MS);
	e->dead = hd_ns_max(span(config->dead_us, HD_SILENCE_US), e->keepalive);
	e->cookies = (struct bucket){.per_s = HD_COOKIES_PER_S, .credit = HD_SECOND};
	e->welcomes = (struct bucket){.per_s = HD_WELCOMES_PER_S, .credit = HD_SECOND};
	e->refusals = (struct bucket){.per_s = HD_REFUSALS_PER_S, .credit = HD_SECOND};
	e->gones = (struct bucket){.per_s = HD_GONES_PER_S, .credit = HD_SECOND};
	e->hello_sequence = 1;
	TAILQ_INIT(&e->candidates);
	seed_entropy(e, config->seed);
	sodium_memzero(e->config.seed, sizeof e->config.seed);
	e->encode_buffer = malloc(HD_MESSAGE_BYTES_MAX);
	e->assemble_buffer = malloc(HD_MESSAGE_BYTES_MAX);
	e->addresses = calloc(1, sizeof(struct hd_session *));
	if (!e->encode_buffer || !e->assemble_buffer || !e->addresses) {
		hd_endpoint_destroy(e);
		return -ENOMEM;
	}
	*endpoint = e;
	return 0;
}

void hd_endpoint_destroy(struct hd_endpoint *endpoint) {
	if (!endpoint)
		return;
	hd_assert(endpoint->depth == 0);
	while (endpoint->heap_count > 0)
		session_release(endpoint->heap[endpoint->heap_count - 1]);
	pool_fini(&endpoint->pool);
	free(endpoint->slots);
	free(endpoint->addresses);
	free(endpoint->heap);
	free(endpoint->encode_buffer);
	free(endpoint->assemble_buffer);
	sodium_memzero(endpoint, sizeof *endpoint);
	free(endpoint);
}

int hd_endpoint_connect(
	struct hd_endpoint *endpoint,
	struct hd_addr peer,
	hd_ns now,
	struct hd_session **session
) {
	struct hd_session *s;

	if (endpoint->open_count >= endpoint->config.sessions_max)
		return -EMFILE;
	s = session_create(endpoint, peer, true);
	if (!s)
		return -ENOMEM;
	endpoint->open_count++;
	hello_start(s, now);
	*session = s;
	return 0;
}

void hd_session_close(
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_message close = {.kind = HD_MSG_CLOSE, .close = {.reason = (uint8_t)reason}};

	if (session->state == SESSION_DEAD)
		return;
	hd_text_copy(close.close.text, sizeof close.close.text, text);
	if (session->state == SESSION_OPEN) {
		hd_session_send_once(session, &close, now, sink);
		session->endpoint->stats.closed++;
	}
	session_release(session);
}

const struct hd_endpoint_stats *hd_endpoint_stats(const struct hd_endpoint *endpoint) {
	return &endpoint->stats;
}
