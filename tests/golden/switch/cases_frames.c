/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that are refused, and those that are none of the sums' business. */
#include "script.h"

#include <string.h>

/* One field of a good chunk is another. */
static void
spoiled(struct script *s, size_t at, size_t bytes, uint64_t value, enum hd_switch_counter counter) {
	script_chunk(s, 0, 0, 1000);
	script_put(s, at, bytes, value);
	script_send(s, counter, 0);
}

/* Refused frames are not in the sum. */
static void still_good(struct script *s) {
	script_sends(s, 0, 0, 1, COUNTER(absorbed), 0);
	script_sends(s, 1, 0, 2, COUNTER(completed), 2);
	script_lanes(s, 3);
	script_flags(s, 0);
	script_end(s);
}

static void wrong_names(struct script *s) {
	const struct hd_switch_lease *is = &s->lease.is;

	script_case(s, "wrong-token", "a token that no member has: wrong in one bit, or 0", 2, 0);
	for (unsigned bit = 0; bit < 64; bit += 9)
		spoiled(s,
			S_TOKEN,
			8,
			s->lease.members[0].token ^ UINT64_C(1) << bit,
			COUNTER(drop_token));
	spoiled(s, S_TOKEN, 8, 0, COUNTER(drop_token));
	script_chunk(s, 0, 0, 1000); /* whose address it comes from does not matter */
	script_put(s, 26, 4, s->lease.members[1].copy.ipv4);
	script_put(s, S_TOKEN, 8, 12345);
	script_send(s, COUNTER(drop_token), 0);
	still_good(s);

	script_case(
		s,
		"wrong-lease",
		"another job, epoch, attempt or shard than the token's lease",
		2,
		0
	);
	spoiled(s, S_JOB, 4, is->job ^ 1, COUNTER(drop_lease));
	spoiled(s, S_JOB, 4, is->job ^ 0x80000000, COUNTER(drop_lease));
	spoiled(s, S_EPOCH, 2, is->epoch ^ 1, COUNTER(drop_lease));
	spoiled(s, S_ATTEMPT, 1, is->attempt ^ 1, COUNTER(drop_lease));
	spoiled(s, S_SHARD, 2, is->shard ^ 0x8000, COUNTER(drop_lease));
	still_good(s);

	script_case(
		s,
		"wrong-member",
		"a worker other than the token's: a member cannot set the bit of another",
		2,
		0
	);
	spoiled(s, S_WORKER, 2, s->lease.members[1].worker, COUNTER(drop_member));
	spoiled(s, S_WORKER, 2, 0xffff, COUNTER(drop_member));
	still_good(s);

	script_case(s, "wrong-slot", "a slot beyond the lease, of either version", 2, 0);
	spoiled(s, S_SLOT, 2, 4, COUNTER(drop_slot));
	spoiled(s, S_SLOT, 2, 0x8004, COUNTER(drop_slot));
	spoiled(s, S_SLOT, 2, 0x7fff, COUNTER(drop_slot));
	spoiled(s, S_SLOT, 2, 0x4000, COUNTER(drop_slot));
	spoiled(s, S_SLOT, 2, 0xffff, COUNTER(drop_slot));
	still_good(s);
}

static void malformed(struct script *s) {
	script_case(
		s,
		"malformed",
		"version, round 0, type of values, count, and lengths that contradict",
		2,
		0
	);
	spoiled(s, S_TYPE, 1, 0x21, COUNTER(drop_malformed));
	spoiled(s, S_TYPE, 1, 0x01, COUNTER(drop_malformed));
	spoiled(s, S_ROUND, 4, 0, COUNTER(drop_malformed));
	spoiled(s, S_DTYPE, 1, 1, COUNTER(drop_malformed));
	spoiled(s, S_DTYPE, 1, 2, COUNTER(drop_malformed));
	spoiled(s, S_DTYPE, 1, 0x83, COUNTER(drop_malformed));
	spoiled(s, S_COUNT, 2, 31, COUNTER(drop_malformed));
	spoiled(s, S_COUNT, 2, 33, COUNTER(drop_malformed));
	spoiled(s, S_COUNT, 2, 0, COUNTER(drop_malformed));
	spoiled(s, S_COUNT, 2, 0x4020, COUNTER(drop_malformed));
	spoiled(s, S_UDP_BYTES, 2, 191, COUNTER(drop_malformed));
	spoiled(s, S_UDP_BYTES, 2, 0, COUNTER(drop_malformed));
	spoiled(s, S_IP_BYTES, 2, 211, COUNTER(drop_malformed));
	script_chunk(s, 0, 0, 1); /* no values at all */
	script_put(s, S_COUNT, 2, 0);
	script_put(s, S_UDP_BYTES, 2, 64);
	script_put(s, S_IP_BYTES, 2, 84);
	script_send(s, COUNTER(drop_malformed), 0);
	script_chunk(s, 0, 0, 1); /* a header that is cut */
	script_put(s, S_UDP_BYTES, 2, 63);
	script_put(s, S_IP_BYTES, 2, 83);
	script_send(s, COUNTER(drop_malformed), 0);
	still_good(s);
}

static void defects(struct script *s) {
	script_case(
		s,
		"defects-of-others",
		"what gave wrong sums elsewhere: a duplicate of an earlier round, a straggler's late packet after its "
		"cell went on, a spoofed source, a replay of a whole round",
		2,
		0
	);
	for (uint32_t round = 1; round <= 3; round++) {
		for (uint32_t i = 0; i < 2; i++) {
			script_chunk(s, i, 0, (int32_t)(100 * round + i));
			script_put(s, S_ROUND, 4, round);
			script_send(
				s, i == 0 ? COUNTER(absorbed) : COUNTER(completed), i == 0 ? 0 : 2
			);
			for (uint32_t old = 1; old < round; old++) {
				script_chunk(s, 1 - i, 0, 5);
				script_put(s, S_ROUND, 4, old);
				script_send(s, COUNTER(drop_stale), 0);
			}
		}
		script_chunk(s, 1, 0, 5);
		script_put(s, S_ROUND, 4, round);
		script_put(s, 26, 4, 0xdeadbeef);
		script_send(s, COUNTER(repeated), 1);
		script_lanes(s, (int32_t)(200 * round + 1));
	}
	script_end(s);
}

/* --- ordinary frames --------------------------------------------------------------------------- */

/* A chunk that is none of ours for one thing: to the agent's host, by port 1. */
static void passes(struct script *s, size_t at, size_t bytes, uint64_t value) {
	script_chunk(s, 0, 0, 1);
	script_put(s, at, bytes, value);
	script_send(s, COUNTER(forwarded), 1);
	script_left_by(s, 1);
}

static void not_for_us(struct script *s) {
	script_case(
		s,
		"not-for-us",
		"fragments, options, other protocols, addresses, ports, magics and types go to the agent's host as they "
		"are",
		2,
		0
	);
	passes(s, 20, 2, 0x2000); /* more fragments */
	passes(s, 20, 2, 0x0001); /* a later one */
	passes(s, 14, 1, 0x46); /* options */
	passes(s, 12, 2, 0x86dd);
	passes(s, 23, 1, 6);
	passes(s, S_IP_TO, 4, TRAFFIC_SERVICE + 1);
	passes(s, S_UDP_TO, 2, 4774);
	passes(s, 42, 2, 0x4845);
	for (uint32_t type = 0; type < 16; type++)
		if (type != 1 && type != 2)
			passes(s, S_TYPE, 1, 0x10 | type);
	still_good(s);
}

static void ordinary(struct script *s, uint64_t to, uint32_t ipv4) {
	s->bytes = traffic_udp(s->frame, 0x0a010005, ipv4, 9, 40);
	memset(s->frame + 42, 0x5a, 40);
	script_put(s, 0, 6, to);
}

static void by_ethernet(struct script *s) {
	script_case(
		s,
		"ethernet",
		"known stations, unknown ones, broadcast, and the port that it came from",
		0,
		0
	);
	ordinary(s, 0x020a00000002, 1);
	script_send(s, COUNTER(forwarded), 1);
	script_left_by(s, 2);
	ordinary(s, 0x020a00000005, 1);
	script_send(s, COUNTER(forwarded), 1);
	script_left_by(s, 5);
	s->port = 5;
	script_send(s, COUNTER(drop_no_route), 0);
	ordinary(s, 0x020a00000077, 1);
	script_send(s, COUNTER(flooded), TRAFFIC_PORTS - 1);
	ordinary(s, 0xffffffffffff, 1);
	script_send(s, COUNTER(flooded), TRAFFIC_PORTS - 1);
	ordinary(s, 0x01005e000001, 1);
	script_send(s, COUNTER(flooded), TRAFFIC_PORTS - 1);
	ordinary(s, 0x0200000000ff, 0x0b000001); /* to the router, but not IPv4 */
	script_put(s, 12, 2, 0x0806);
	script_send(s, COUNTER(flooded), TRAFFIC_PORTS - 1);
	script_end(s);
}

static void routed(struct script *s, uint32_t to, uint16_t port) {
	ordinary(s, 0x0200000000ff, to);
	script_put(s, S_TTL, 1, 64);
	script_send(s, COUNTER(routed), 1);
	script_left_by(s, port);
	script_field(s, 6, 6, 0x0200000000ff);
	script_field(s, 0, 6, 0x020b00000000 | port);
	script_field(s, S_TTL, 1, 63);
}

static void routes(struct script *s) {
	script_case(
		s,
		"routes",
		"to the router's address: the longest prefix, time to live and checksum; out by the port it came from, "
		"too",
		0,
		0
	);
	routed(s, 0x0b000001, 1);
	routed(s, 0x0bffffff, 1);
	routed(s, 0x0b010001, 2);
	routed(s, 0x0b010203, 3);
	routed(s, 0x0b010202, 2);
	routed(s, 0xc0a87fff, 4);
	s->port = 2;
	routed(s, 0x0b010001, 2);
	ordinary(s, 0x0200000000ff, 0xc0a88000);
	script_send(s, COUNTER(drop_no_route), 0);
	ordinary(s, 0x0200000000ff, 0x0c000000);
	script_send(s, COUNTER(drop_no_route), 0);
	for (uint32_t ttl = 0; ttl < 2; ttl++) {
		ordinary(s, 0x0200000000ff, 0x0b000001);
		script_put(s, S_TTL, 1, ttl);
		script_send(s, COUNTER(drop_ttl), 0);
	}
	ordinary(s, 0x0200000000ff, 0x0b000001);
	script_put(s, S_TTL, 1, 2);
	script_send(s, COUNTER(routed), 1);
	script_field(s, S_TTL, 1, 1);
	script_end(s);
}

static bool is_next_lost(uint32_t *state, uint32_t threshold) {
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state >> 8 < threshold;
}

static void losses(struct script *s) {
	uint32_t state = 2463534242u, threshold = 1 << 22;

	script_case(
		s,
		"losses",
		"the drop simulator: about a quarter of the frames, from its seed",
		0,
		0
	);
	record_simulate(s->recorder, state, threshold);
	for (int i = 0; i < 24; i++) {
		ordinary(s, 0x020a00000002, 1);
		if (is_next_lost(&state, threshold))
			script_send(s, COUNTER(drop_simulated), 0);
		else
			script_send(s, COUNTER(forwarded), 1);
	}
	record_simulate(s->recorder, 1, 1 << 24);
	script_send(s, COUNTER(drop_simulated), 0);
	record_simulate(s->recorder, 0, 0);
	script_send(s, COUNTER(forwarded), 1);
	script_end(s);
}

void cases_refused(struct script *script) {
	wrong_names(script);
	malformed(script);
	defects(script);
}

void cases_ordinary(struct script *script) {
	not_for_us(script);
	by_ethernet(script);
	routes(script);
	losses(script);
}
