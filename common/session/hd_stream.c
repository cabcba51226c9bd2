/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliable fragments, in order:
 *   list:  [5 held][6][7 held][8 held] | [9][10] ...       numbers from 1
 *           in flight: at most WINDOW    ^ unsent
 *   peer:  ack = 4, mask = bits of 7, 8 (ack + 2 + i);  6 is retransmitted after three later ones
 *
 * Every copy leaves in a packet with its own number, so "later" is decided by packet sequence. One timer (RFC 6298)
 * covers the oldest in flight. When it fires, a few are retransmitted, fewer each time; acknowledgements show the rest.
 */
#include "hd_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PASSED_LOST 3
#define TIMEOUT_BURST 8
#define ACK_EVERY 8 /* fragments: well before a window of them waits for us */
#define BACKOFF_MAX 10
#define POOL_KEEP 1024 /* free fragments kept of each size */

/* --- fragments ------------------------------------------------------------------------------- */

static const uint16_t class_bytes[2] = {208, HD_FRAGMENT_BYTES_MAX};

static struct fragment *fragment_get(struct fragment_pool *pool, size_t body_bytes) {
	uint8_t size_class = body_bytes > class_bytes[0];
	struct fragment *f = pool->free[size_class];

	if (f) {
		pool->free[size_class] = f->next;
		pool->count[size_class]--;
	} else {
		f = malloc(
			sizeof *f + HD_CONTROL_HEADER_BYTES + class_bytes[size_class] + HD_TAG_BYTES
		);
		if (!f)
			return NULL;
	}
	*f = (struct fragment){.size_class = size_class, .body_bytes = (uint16_t)body_bytes};
	return f;
}

static void fragment_put(struct fragment_pool *pool, struct fragment *f) {
	if (pool->count[f->size_class] == POOL_KEEP) {
		free(f);
		return;
	}
	f->next = pool->free[f->size_class];
	pool->free[f->size_class] = f;
	pool->count[f->size_class]++;
}

void pool_fini(struct fragment_pool *pool) {
	for (size_t i = 0; i < 2; i++)
		while (pool->free[i]) {
			struct fragment *f = pool->free[i];

			pool->free[i] = f->next;
			free(f);
		}
}

static void list_append(struct fragment_list *list, struct fragment *f) {
	f->next = NULL;
	if (list->last)
		list->last->next = f;
	else
		list->first = f;
	list->last = f;
}

static struct fragment *list_pop(struct fragment_list *list) {
	struct fragment *f = list->first;

	list->first = f->next;
	if (!list->first)
		list->last = NULL;
	return f;
}

static void list_drain(struct fragment_list *list, struct fragment_pool *pool) {
	while (list->first)
		fragment_put(pool, list_pop(list));
}

void stream_init(struct hd_session *s) {
	s->out = (struct outgoing){.next_number = 1, .rto_at = HD_NEVER};
	s->in = (struct incoming){.ack_at = HD_NEVER};
}

void stream_fini(struct hd_session *s) {
	struct fragment_pool *pool = &s->endpoint->pool;

	list_drain(&s->out.list, pool);
	list_drain(&s->in.parts, pool);
	for (size_t i = 0; s->in.held && i < WINDOW; i++)
		if (s->in.held[i])
			fragment_put(pool, s->in.held[i]);
	free(s->in.held);
	stream_init(s);
}

/* --- sending --------------------------------------------------------------------------------- */

void stream_rtt_sample(struct hd_session *s, hd_ns rtt) {
	struct outgoing *out = &s->out;

	if (out->srtt == 0) {
		out->srtt = hd_ns_max(rtt, 1);
		out->rttvar = rtt / 2;
		return;
	}
	out->rttvar = (3 * out->rttvar + (rtt > out->srtt ? rtt - out->srtt : out->srtt - rtt)) / 4;
	out->srtt = hd_ns_max((7 * out->srtt + rtt) / 8, 1);
}

static hd_ns timeout(const struct hd_session *s) {
	const struct outgoing *out = &s->out;
	hd_ns rto = hd_ns_max(HD_RTO_INITIAL_US * HD_US, 2 * s->slow);

	if (out->srtt > 0) /* the peer may delay an acknowledgement by HD_ACK_DELAY_US */
		rto = out->srtt + 4 * out->rttvar + HD_ACK_DELAY_US * HD_US;
	rto = hd_ns_max(rto, HD_RTO_MIN_US * HD_US);
	/* Never less than the peer needs: otherwise an overloaded peer would get everything again and again. */
	return hd_ns_min(rto << out->backoff, hd_ns_max(rto, HD_RTO_MAX_US * HD_US));
}

static void
fragment_transmit(struct hd_session *s, struct fragment *f, hd_ns now, struct hd_sink *sink) {
	struct hd_control_header header = {
		.type = HD_PACKET_CONTROL,
		.flags = f->flags,
		.kind = f->kind,
		.message = f->number,
	};

	f->sequence = s->sequence;
	f->sent_at = now;
	f->passed = 0;
	session_transmit(s, f->packet, f->body_bytes, &header, sink);
}

static void
fragment_resend(struct hd_session *s, struct fragment *f, hd_ns now, struct hd_sink *sink) {
	f->resent = true;
	s->endpoint->stats.resent++;
	fragment_transmit(s, f, now, sink);
}

/* Sends what the window permits. */
static void flush(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct outgoing *out = &s->out;

	while (out->unsent && out->unsent->number - out->acked <= WINDOW) {
		struct fragment *f = out->unsent;

		out->unsent = f->next;
		if (out->rto_at == HD_NEVER)
			out->rto_at = hd_ns_add(now, timeout(s));
		fragment_transmit(s, f, now, sink);
	}
}

static bool cut(struct hd_session *s, uint8_t kind, size_t bytes, struct fragment_list *list) {
	const uint8_t *body = s->endpoint->encode_buffer;
	uint32_t number = s->out.next_number;

	while (bytes > 0) {
		size_t n = bytes < HD_FRAGMENT_BYTES_MAX ? bytes : HD_FRAGMENT_BYTES_MAX;
		struct fragment *f = fragment_get(&s->endpoint->pool, n);

		if (!f) {
			list_drain(list, &s->endpoint->pool);
			return false;
		}
		f->number = number++;
		f->kind = kind;
		f->flags = bytes > n ? HD_CONTROL_MORE : 0;
		memcpy(f->packet + HD_CONTROL_HEADER_BYTES, body, n);
		list_append(list, f);
		body += n;
		bytes -= n;
	}
	return true;
}

static int encode(struct hd_session *s, const struct hd_message *message, size_t capacity) {
	if (s->state != SESSION_OPEN)
		return -ENOTCONN;
	return hd_message_encode(message, s->endpoint->encode_buffer, capacity);
}

int hd_session_send(
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct outgoing *out = &session->out;
	struct fragment_list list = {NULL, NULL};
	int bytes = encode(session, message, HD_MESSAGE_BYTES_MAX);
	uint32_t count;

	if (bytes < 0)
		return bytes;
	count = ((uint32_t)bytes + HD_FRAGMENT_BYTES_MAX - 1) / HD_FRAGMENT_BYTES_MAX;
	if (out->queued + count > HD_MESSAGES_UNACKED_MAX || out->next_number > UINT32_MAX - count
	    || !cut(session, message->kind, (size_t)bytes, &list))
		return -ENOBUFS;
	if (out->list.last)
		out->list.last->next = list.first;
	else
		out->list.first = list.first;
	out->list.last = list.last;
	if (!out->unsent)
		out->unsent = list.first;
	out->queued += count;
	out->next_number += count;
	flush(session, now, sink);
	session_schedule(session);
	return 0;
}

int hd_session_send_once(
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_control_header header = {.type = HD_PACKET_CONTROL, .kind = message->kind};
	uint8_t packet[PACKET_BYTES_MAX];
	int bytes;

	(void)now;
	if (session->state != SESSION_OPEN)
		return -ENOTCONN;
	bytes = hd_message_encode(message, packet + HD_CONTROL_HEADER_BYTES, HD_FRAGMENT_BYTES_MAX);
	if (bytes < 0)
		return bytes;
	session_transmit(session, packet, (size_t)bytes, &header, sink);
	return 0;
}

/* The news in one acknowledgement: the packet numbers, to find the fragments that they overtook. */
struct news {
	uint64_t sequence[WINDOW];
	uint32_t count;
	uint64_t newest;
	hd_ns rtt; /* 0: no valid sample */
};

static void note(struct news *news, const struct fragment *f, hd_ns now) {
	if (news->count < WINDOW)
		news->sequence[news->count++] = f->sequence;
	if (f->sequence < news->newest)
		return;
	news->newest = f->sequence;
	/* A fragment that was sent twice gives no RTT sample (Karn): it is unknown which copy arrived. */
	news->rtt = f->resent ? 0 : now - f->sent_at;
}

static void
resend_overtaken(struct hd_session *s, const struct news *news, hd_ns now, struct hd_sink *sink) {
	struct fragment *f;

	for (f = s->out.list.first; f != s->out.unsent; f = f->next) {
		uint32_t passed = f->passed;

		if (f->held)
			continue;
		for (uint32_t i = 0; i < news->count; i++)
			passed += news->sequence[i] > f->sequence;
		f->passed = (uint8_t)(passed < PASSED_LOST ? passed : PASSED_LOST);
		if (f->passed == PASSED_LOST)
			fragment_resend(s, f, now, sink);
	}
}

void stream_acknowledged(
	struct hd_session *s,
	uint32_t ack,
	uint32_t mask,
	hd_ns now,
	struct hd_sink *sink
) {
	struct outgoing *out = &s->out;
	struct news news = {.count = 0};

	/* At most acked + WINDOW is in flight: an acknowledgement beyond that is invalid. */
	if (ack >= (out->unsent ? out->unsent->number : out->next_number)) {
		s->endpoint->stats.drop_malformed++;
		return;
	}
	while (out->list.first != out->unsent && out->list.first->number <= ack) {
		if (!out->list.first->held)
			note(&news, out->list.first, now);
		fragment_put(&s->endpoint->pool, list_pop(&out->list));
		out->queued--;
	}
	if (ack > out->acked)
		out->acked = ack;
	for (struct fragment *f = out->list.first; mask != 0 && f != out->unsent; f = f->next) {
		uint32_t bit = f->number - ack - 2; /* wraps for ack + 1: beyond 31 */

		if (f->held || bit > 31 || (mask >> bit & 1) == 0)
			continue;
		f->held = true;
		note(&news, f, now);
	}
	if (news.count == 0)
		return;
	if (news.rtt > 0)
		stream_rtt_sample(s, news.rtt);
	out->backoff = 0;
	resend_overtaken(s, &news, now, sink);
	flush(s, now, sink);
	out->rto_at = out->list.first ? hd_ns_add(now, timeout(s)) : HD_NEVER;
}

static void resend_oldest(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct outgoing *out = &s->out;
	uint32_t burst = out->backoff < 3 ? TIMEOUT_BURST >> out->backoff : 1;

	for (struct fragment *f = out->list.first; f != out->unsent && burst > 0; f = f->next) {
		if (f->held)
			continue;
		fragment_resend(s, f, now, sink);
		burst--;
	}
	if (out->backoff < BACKOFF_MAX)
		out->backoff++;
	out->rto_at = hd_ns_add(now, timeout(s));
}

/* --- receiving ------------------------------------------------------------------------------- */

void stream_ack_sent(struct hd_session *s) {
	s->in.unacked = 0;
	s->in.ack_at = HD_NEVER;
}

static void acknowledge(struct hd_session *s, struct hd_sink *sink) {
	struct hd_control_header header = {.type = HD_PACKET_CONTROL, .kind = HD_MSG_NONE};
	uint8_t packet[HD_CONTROL_HEADER_BYTES + HD_TAG_BYTES];

	session_transmit(s, packet, 0, &header, sink);
}

static struct fragment *fragment_copy(
	struct hd_session *s,
	const struct hd_control_header *header,
	const uint8_t *body,
	size_t bytes
) {
	struct fragment *f = fragment_get(&s->endpoint->pool, bytes);

	if (!f)
		return NULL;
	f->number = header->message;
	f->flags = header->flags;
	f->kind = header->kind;
	memcpy(f->packet + HD_CONTROL_HEADER_BYTES, body, bytes);
	return f;
}

/* The last part has come: assembles the message. */
static void assemble(struct hd_session *s, uint8_t kind, hd_ns now, struct hd_sink *sink) {
	struct incoming *in = &s->in;
	uint8_t *at = s->endpoint->assemble_buffer;
	bool same = true;

	while (in->parts.first) {
		struct fragment *f = list_pop(&in->parts);

		memcpy(at, f->packet + HD_CONTROL_HEADER_BYTES, f->body_bytes);
		at += f->body_bytes;
		same = same && f->kind == kind;
		fragment_put(&s->endpoint->pool, f);
	}
	in->parts_bytes = 0;
	if (!same) {
		s->endpoint->stats.drop_malformed++;
		return;
	}
	session_deliver(
		s,
		kind,
		s->endpoint->assemble_buffer,
		(size_t)(at - s->endpoint->assemble_buffer),
		now,
		sink
	);
}

/* Takes one fragment in its turn, and its ownership. */
static void take_part(struct hd_session *s, struct fragment *f, hd_ns now, struct hd_sink *sink) {
	struct incoming *in = &s->in;
	bool more = (f->flags & HD_CONTROL_MORE) != 0;
	uint8_t kind = f->kind;

	if (in->skipping || in->parts_bytes + f->body_bytes > HD_MESSAGE_BYTES_MAX) {
		if (!in->skipping)
			s->endpoint->stats.drop_malformed++;
		in->skipping = more;
		in->parts_bytes = 0;
		list_drain(&in->parts, &s->endpoint->pool);
		fragment_put(&s->endpoint->pool, f);
		return;
	}
	in->parts_bytes += f->body_bytes;
	list_append(&in->parts, f);
	if (!more)
		assemble(s, kind, now, sink);
}

static void advance(struct incoming *in) {
	in->ack++;
	in->mask >>= 1; /* shifted by one: bit i is ack + 2 + i */
}

/* Delivers the fragments that waited for the one just taken. */
static void take_held(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct incoming *in = &s->in;

	while (s->state == SESSION_OPEN && in->held && in->held[(in->ack + 1) % WINDOW]) {
		struct fragment *f = in->held[(in->ack + 1) % WINDOW];

		in->held[(in->ack + 1) % WINDOW] = NULL;
		advance(in);
		take_part(s, f, now, sink);
	}
}

static void
hold(struct hd_session *s, const struct hd_control_header *header, const uint8_t *body, size_t bytes
) {
	struct incoming *in = &s->in;
	uint32_t bit = header->message - in->ack - 2;

	if (!in->held)
		in->held = calloc(WINDOW, sizeof(struct fragment *));
	if (!in->held || in->mask >> bit & 1)
		return;
	in->held[header->message % WINDOW] = fragment_copy(s, header, body, bytes);
	if (in->held[header->message % WINDOW])
		in->mask |= UINT32_C(1) << bit;
}

static void take_now(
	struct hd_session *s,
	const struct hd_control_header *header,
	const uint8_t *body,
	size_t bytes,
	hd_ns now,
	struct hd_sink *sink
) {
	struct incoming *in = &s->in;
	bool whole = !in->parts.first && !in->skipping && !(header->flags & HD_CONTROL_MORE);
	struct fragment *f = NULL;

	if (!whole) {
		f = fragment_copy(s, header, body, bytes);
		if (!f)
			return; /* not acknowledged, so it will be retransmitted */
	}
	advance(in);
	in->unacked++;
	if (in->ack_at == HD_NEVER)
		in->ack_at = hd_ns_add(now, HD_ACK_DELAY_US * HD_US);
	if (whole)
		session_deliver(s, header->kind, body, bytes, now, sink);
	else
		take_part(s, f, now, sink);
	take_held(s, now, sink);
}

void stream_receive(
	struct hd_session *s,
	const struct hd_control_header *header,
	const uint8_t *body,
	size_t bytes,
	hd_ns now,
	struct hd_sink *sink
) {
	struct incoming *in = &s->in;
	uint32_t ahead = header->message - in->ack; /* 1: its turn */
	bool gap = in->mask != 0;

	if (header->message > in->ack && ahead > WINDOW) {
		s->endpoint->stats.drop_out_of_window++;
		return;
	}
	if (header->message <= in->ack) {
		gap = true; /* our acknowledgement was lost or is late */
	} else if (ahead == 1) {
		take_now(s, header, body, bytes, now, sink);
	} else {
		hold(s, header, body, bytes);
		gap = true;
	}
	if (s->state == SESSION_OPEN && (gap || in->unacked >= ACK_EVERY))
		acknowledge(s, sink);
}

/* --- time ------------------------------------------------------------------------------------ */

void stream_revive(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	if (s->out.backoff == 0)
		return;
	s->out.backoff = 0;
	resend_oldest(s, now, sink);
}

void stream_tick(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	if (now >= s->out.rto_at)
		resend_oldest(s, now, sink);
	if (now >= s->in.ack_at)
		acknowledge(s, sink);
}

hd_ns stream_deadline(const struct hd_session *s) {
	return hd_ns_min(s->out.rto_at, s->in.ack_at);
}
