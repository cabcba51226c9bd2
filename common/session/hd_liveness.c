/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PING and PONG: liveness of the peer, round-trip time, and its clock.
 *
 *   ours   t1 ---PING(t1)--> t2 peer     offset = ((t2 - t1) + (t3 - t4)) / 2
 *          t4 <--PONG------- t3          delay  = (t4 - t1) - (t3 - t2),  error <= delay / 2
 *
 * The side that opened the session asks regularly, since it is the one that is told times of the
 * other's clock; the answering side asks now and then. A silent peer is asked eight times as often, and after a while
 * ever less. Where 30 % of all packets are lost half of the questions have no answer, and 16 in a row once in 50,000
 * silences.
 */
#include "hd_stream.h"

#define FIRST_PINGS 4 /* sent in quick succession, for a good clock at once */
#define FIRST_PING_WAIT (10 * HD_MS)
#define ASKS_A_KEEPALIVE 8 /* of a peer that is silent */
/* Two clocks drift apart by at most this much: 100 ppm is 100 us a second. */
#define DRIFT_PPM 100

/*
 * An overloaded machine delays all its nodes, so that a silence means less. We know our own lateness, and a peer's
 * response time; an asked peer gets four times the excess over the minimum in addition.
 */
#define LATE_HALF HD_SECOND
#define LATE_LEAST (50 * HD_MS) /* any machine, and any path, may be this slow */
/* A single lateness counts no more than this: this process may have been stopped, which says nothing of its peers. */
#define LATE_ONCE (250 * HD_MS)
#define LATE_FACTOR 4
#define STRETCH_MAX (4 * HD_SECOND)

static hd_ns late_at(const struct lateness *late, hd_ns at) {
	hd_ns halves = at > late->at ? (at - late->at) / LATE_HALF : 0;

	return halves < 64 ? late->span >> halves : 0;
}

static void add_lateness(struct lateness *late, hd_ns span, hd_ns now) {
	if (span >= late_at(late, now))
		*late = (struct lateness){span, now};
}

void liveness_late(struct hd_endpoint *e, hd_ns now) {
	hd_ns due = hd_endpoint_deadline(e), late = now > due ? now - due : 0;

	if (late < LATE_LEAST)
		return;
	add_lateness(&e->late, hd_ns_min(late, hd_ns_max(LATE_ONCE, late_at(&e->pause, due))), now);
	add_lateness(&e->pause, late, now);
}

static hd_ns stretch(hd_ns late) {
	return late < LATE_LEAST ? 0 : hd_ns_min(LATE_FACTOR * (late - LATE_LEAST), STRETCH_MAX);
}

hd_ns hd_endpoint_stretch(const struct hd_endpoint *endpoint, hd_ns at) {
	return stretch(late_at(&endpoint->late, at));
}

/* The time of an answer. The mean deviation counts more: it grows first when a peer becomes slow. */
static hd_ns slowness(const struct hd_session *s) {
	return s->pongs < FIRST_PINGS ? s->slow : s->out.srtt + s->out.rttvar;
}

hd_ns hd_session_stretch(const struct hd_session *session) {
	const struct hd_endpoint *e = session->endpoint;
	hd_ns late = late_at(&e->late, hd_ns_add(session->heard, e->dead));

	return stretch(hd_ns_max(late, slowness(session)));
}

/* With more patience PINGs are sent less often: too many PINGs would keep a late node late. */
static hd_ns keepalive_of(const struct hd_session *s) {
	return s->endpoint->keepalive + hd_session_stretch(s) / 4;
}

static hd_ns ping_interval(const struct hd_session *s) {
	if (s->pongs < (s->ours ? FIRST_PINGS : FIRST_PINGS / 2))
		return hd_ns_min(FIRST_PING_WAIT, s->endpoint->keepalive);
	return s->ours ? keepalive_of(s) : keepalive_of(s) + 3 * s->endpoint->keepalive;
}

static hd_ns dead_at(const struct hd_session *s) {
	hd_ns dead = s->endpoint->dead + hd_session_stretch(s);

	/* Half of the time must have passed since it was asked: a node that was stopped itself, and finds all peers
	 * silent when it resumes, asks first. */
	if (s->asked_at == HD_NEVER)
		return HD_NEVER;
	return hd_ns_max(hd_ns_add(s->heard, dead), hd_ns_add(s->asked_at, dead / 2));
}

void liveness_start(struct hd_session *s, hd_ns now) {
	s->slow = s->proved_at ? now - s->proved_at : 0;
	s->rtt_least = s->slow;
	s->heard = now;
	s->asked_at = HD_NEVER;
	s->ping_at = s->ours ? now : hd_ns_add(now, FIRST_PING_WAIT);
	s->pongs = 0;
	s->clock = (struct hd_clock){.valid = false};
}

void liveness_heard(struct hd_session *s, hd_ns now) {
	s->heard = now;
	s->asked_at = HD_NEVER;
}

/* Between two questions to one that is silent: as long as an answer takes, and an eighth of how long it has been asked
 * beyond a keepalive, once that is more. */
static hd_ns insist(const struct hd_session *s, hd_ns asked_at, hd_ns now) {
	hd_ns keepalive = s->endpoint->keepalive;
	hd_ns asked = hd_ns_max(now - asked_at, keepalive) - keepalive;
	hd_ns answer = hd_ns_min(slowness(s), keepalive_of(s));

	return hd_ns_max(hd_ns_max(keepalive, asked) / ASKS_A_KEEPALIVE, answer);
}

/* Regularly, and also after a silence: then repeatedly. */
static hd_ns ping_due(const struct hd_session *s) {
	/* The side that opened the session asks first. */
	hd_ns late = s->ours ? 0 : s->endpoint->keepalive / 4;
	hd_ns silent = hd_ns_add(s->heard, keepalive_of(s) + late), again;

	if (s->asked_at == HD_NEVER)
		return hd_ns_min(s->ping_at, silent);
	again = hd_ns_add(s->pinged_at, insist(s, s->asked_at, s->pinged_at));
	return hd_ns_min(s->ping_at, hd_ns_max(silent, again));
}

hd_ns liveness_deadline(const struct hd_session *s) {
	return hd_ns_min(ping_due(s), dead_at(s));
}

bool liveness_tick(struct hd_session *s, hd_ns now, struct hd_sink *sink) {
	struct hd_message ping = {.kind = HD_MSG_PING, .ping = {.sent_ns = now}};
	bool asked = s->asked_at != HD_NEVER;

	if (now >= dead_at(s))
		return false;
	if (now < ping_due(s))
		return true;
	s->ping_at = hd_ns_add(now, asked ? insist(s, s->asked_at, now) : ping_interval(s));
	s->pinged_at = now;
	if (!asked)
		s->asked_at = now;
	hd_session_send_once(s, &ping, now, sink);
	return true;
}

void liveness_ping(
	struct hd_session *s,
	const struct hd_msg_ping *ping,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_message pong = {.kind = HD_MSG_PONG};

	pong.pong.sent_ns = ping->sent_ns;
	pong.pong.received_ns = now;
	pong.pong.replied_ns = now;
	hd_session_send_once(s, &pong, now, sink);
}

static uint64_t sample_error(const struct clock_sample *sample, hd_ns now) {
	return sample->delay / 2 + 1 + (now - sample->at) / 1000000 * DRIFT_PPM;
}

void liveness_pong(struct hd_session *s, const struct hd_msg_pong *pong, hd_ns now) {
	hd_ns ours = now - pong->sent_ns, theirs = pong->replied_ns - pong->received_ns;
	uint32_t count, best = 0;

	/* Only plausible times: the exchange took us at least as long as the peer. */
	if (pong->sent_ns > now || pong->replied_ns < pong->received_ns || theirs > ours)
		return;
	if (pong->sent_ns > s->moved_at)
		s->home = s->peer; /* the peer received our packet at this address */
	s->sample[s->pongs++ % CLOCK_SAMPLES] = (struct clock_sample){
		.offset_ns = (int64_t)(pong->received_ns - pong->sent_ns) / 2
			+ (int64_t)(pong->replied_ns - now) / 2,
		.delay = ours - theirs,
		.at = now,
	};
	stream_rtt_sample(s, ours - theirs);
	if (s->rtt_least == 0 || ours - theirs < s->rtt_least)
		s->rtt_least = hd_ns_max(ours - theirs, 1);
	count = s->pongs < CLOCK_SAMPLES ? s->pongs : CLOCK_SAMPLES;
	for (uint32_t i = 1; i < count; i++)
		if (sample_error(&s->sample[i], now) < sample_error(&s->sample[best], now))
			best = i;
	s->clock.offset_ns = s->sample[best].offset_ns;
	/* Valid until the next exchange, even if one is lost. */
	s->clock.error_ns = sample_error(&s->sample[best], now + 2 * ping_interval(s));
	s->clock.valid = true;
}

struct hd_clock hd_session_clock(const struct hd_session *session) {
	return session->clock;
}

hd_ns hd_session_from_peer_time(const struct hd_session *session, hd_ns peer_time, hd_ns fallback) {
	int64_t offset = session->clock.offset_ns;

	if (!session->clock.valid)
		return fallback;
	if (offset < 0)
		return hd_ns_add(peer_time, (hd_ns)0 - (hd_ns)offset);
	return peer_time > (hd_ns)offset ? peer_time - (hd_ns)offset : 0;
}
