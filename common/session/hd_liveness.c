/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PING and PONG: is the peer there, how far is it, and what does its clock say.
 *
 *   ours   t1 ---PING(t1)--> t2 peer     offset = ((t2 - t1) + (t3 - t4)) / 2
 *          t4 <--PONG------- t3          delay  = (t4 - t1) - (t3 - t2),  error <= delay / 2
 *
 * The side that opened the session asks regularly, since it is the one that is told times of the
 * other's clock; the answering side asks now and then. A silent peer is asked four times as often, and after a while
 * ever less.
 */
#include "hd_stream.h"

#define FIRST_PINGS 4 /* asked in quick succession, for a good clock at once */
#define FIRST_PING_WAIT (10 * HD_MS)
/* Two clocks drift apart by at most this much: 100 ppm is 100 us a second. */
#define DRIFT_PPM 100

/*
 * A machine that has too much to do runs everybody on it late, and silence then means less. How late we are ourselves
 * we know, and how long a peer takes to answer; who is asked gets four times as long, of what is beyond the least, on
 * top.
 */
#define LATE_HALF HD_SECOND
#define LATE_LEAST (50 * HD_MS) /* any machine, and any way, may be so slow */
#define LATE_FACTOR 4
#define STRETCH_MAX (4 * HD_SECOND)

static hd_ns late_at(const struct hd_endpoint *e, hd_ns at) {
	hd_ns halves = at > e->late_at ? (at - e->late_at) / LATE_HALF : 0;

	return halves < 64 ? e->late >> halves : 0;
}

void liveness_late(struct hd_endpoint *e, hd_ns now) {
	hd_ns due = hd_endpoint_deadline(e), late = now > due ? now - due : 0;

	if (late < LATE_LEAST || late < late_at(e, now))
		return;
	e->late = late;
	e->late_at = now;
}

static hd_ns stretch(hd_ns late) {
	return late < LATE_LEAST ? 0 : hd_ns_min(LATE_FACTOR * (late - LATE_LEAST), STRETCH_MAX);
}

hd_ns hd_endpoint_stretch(const struct hd_endpoint *endpoint, hd_ns at) {
	return stretch(late_at(endpoint, at));
}

/* How long an answer takes. By the mean deviation more: one that has become slow shows in it first. */
static hd_ns slowness(const struct hd_session *s) {
	return s->pongs < FIRST_PINGS ? s->slow : s->out.srtt + s->out.rttvar;
}

hd_ns hd_session_stretch(const struct hd_session *session) {
	const struct hd_endpoint *e = session->endpoint;
	hd_ns late = late_at(e, hd_ns_add(session->heard, e->dead));

	return stretch(hd_ns_max(late, slowness(session)));
}

/* Who has that much patience asks less often: many that all asked faster of a node that is late would keep it so. */
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

	/* Half of the time must have passed since it was asked: a node that was stopped itself, and
	 * finds everybody silent as it wakes, asks first. */
	if (s->asked_at == HD_NEVER)
		return HD_NEVER;
	return hd_ns_max(hd_ns_add(s->heard, dead), hd_ns_add(s->asked_at, dead / 2));
}

void liveness_start(struct hd_session *s, hd_ns now) {
	s->slow = s->proved_at ? now - s->proved_at : 0;
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

/* Between two questions to one that is silent: as long as an answer takes, and an eighth of how long it has been asked,
 * once that is more. */
static hd_ns insist(const struct hd_session *s, hd_ns asked_at, hd_ns now) {
	hd_ns answer = hd_ns_min(slowness(s), keepalive_of(s));

	return hd_ns_max(hd_ns_max(s->endpoint->keepalive / 4, answer), (now - asked_at) / 8);
}

/* Regularly, and besides when nothing was heard for a while: then again and again. */
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

	/* Only what a truthful peer can say: an exchange that took us longer than it took the peer. */
	if (pong->sent_ns > now || pong->replied_ns < pong->received_ns || theirs > ours)
		return;
	if (pong->sent_ns > s->moved_at)
		s->home = s->peer; /* that is where it heard us */
	s->sample[s->pongs++ % CLOCK_SAMPLES] = (struct clock_sample){
		.offset_ns = (int64_t)(pong->received_ns - pong->sent_ns) / 2
			+ (int64_t)(pong->replied_ns - now) / 2,
		.delay = ours - theirs,
		.at = now,
	};
	stream_rtt_sample(s, ours - theirs);
	count = s->pongs < CLOCK_SAMPLES ? s->pongs : CLOCK_SAMPLES;
	for (uint32_t i = 1; i < count; i++)
		if (sample_error(&s->sample[i], now) < sample_error(&s->sample[best], now))
			best = i;
	s->clock.offset_ns = s->sample[best].offset_ns;
	/* It holds until the next exchange, even if one is lost. */
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
