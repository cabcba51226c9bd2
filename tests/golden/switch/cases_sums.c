/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums, chunks that repeat or overtake them, and the fields and flags of the results. */
#include "script.h"

#define LIMIT INT32_MAX

static void plain(struct script *s) {
	script_case(
		s,
		"plain-sum",
		"three members, one chunk: the sum and the whole header of the result",
		3,
		0
	);
	script_sends(s, 0, 5, 7, COUNTER(absorbed), 0);
	script_sends(s, 2, 5, -100, COUNTER(absorbed), 0);
	script_sends(s, 1, 5, 20, COUNTER(completed), 3);
	script_lanes(s, -73);
	script_flags(s, 0);
	script_field(s, S_TYPE, 1, 0x12);
	script_field(s, S_JOB, 4, s->lease.is.job);
	script_field(s, S_WORKER, 2, 0xffff);
	script_field(s, S_ROUND, 4, 1);
	script_field(s, S_EXPONENT, 2, (uint16_t)-22);
	script_field(s, S_SLOT, 2, 0x8001);
	script_field(s, S_CHUNK, 4, 5);
	script_field(s, S_PACKET, 4, s->packet - 1);
	script_field(s, S_SEEN, 8, 7);
	script_field(s, S_COUNT, 2, 32);
	script_field(s, S_NEXT, 2, (uint16_t)-20);
	script_field(s, 86, 4, 128); /* total, as in the chunk */
	script_field(s, S_IP_BYTES, 2, 212);
	script_field(s, 26, 4, TRAFFIC_SERVICE);
	script_field(s, 6, 6, 0x0200000000fe);
	script_end(s);
}

static void duplicates(struct script *s) {
	script_case(
		s,
		"duplicate-before",
		"a chunk that comes again before its sum is complete is not added twice",
		2,
		0
	);
	script_sends(s, 0, 0, 1, COUNTER(absorbed), 0);
	script_sends(s, 0, 0, 1, COUNTER(drop_duplicate), 0);
	script_sends(s, 0, 0, 9, COUNTER(drop_duplicate), 0);
	script_sends(s, 1, 0, 10, COUNTER(completed), 2);
	script_lanes(s, 11);
	script_end(s);

	script_case(
		s,
		"duplicate-after",
		"a chunk that comes again after its sum is complete is answered with the sum, to it alone, whatever it "
		"carries; the sum before it in the slot can still be repeated",
		2,
		0
	);
	script_sends(s, 0, 0, 1, COUNTER(absorbed), 0);
	script_sends(s, 1, 0, 10, COUNTER(completed), 2);
	script_sends(s, 1, 0, 77, COUNTER(repeated), 1);
	script_lanes(s, 11);
	script_flags(s, HD_SWITCH_FLAG_RESEND);
	script_field(s, S_PACKET, 4, s->packet - 1);
	script_field(s, S_TOKEN, 8, s->lease.members[1].copy.token);
	script_left_by(s, s->lease.members[1].copy.port);
	script_sends(s, 0, 4, 2, COUNTER(absorbed), 0);
	script_sends(s, 1, 4, 2, COUNTER(completed), 2);
	script_sends(s, 0, 0, 5, COUNTER(repeated), 1);
	script_lanes(s, 11);
	script_sends(s, 0, 4, 5, COUNTER(repeated), 1);
	script_lanes(s, 4);
	script_sends(s, 1, 0, 5, COUNTER(repeated), 1);
	script_end(s);
}

static void old_ones(struct script *s) {
	script_case(
		s,
		"stale",
		"chunks of a sum before the one in their cell, of an earlier chunk or round, change nothing",
		2,
		0
	);
	script_sends(s, 0, 0, 1, COUNTER(absorbed), 0);
	script_sends(s, 1, 0, 1, COUNTER(completed), 2);
	script_sends(s, 0, 8, 3, COUNTER(absorbed), 0);
	script_sends(s, 1, 0, 100, COUNTER(drop_stale), 0);
	script_sends(s, 1, 8, 4, COUNTER(completed), 2);
	script_lanes(s, 7);
	script_chunk(s, 0, 0, 50);
	script_put(s, S_ROUND, 4, 2);
	script_send(s, COUNTER(absorbed), 0);
	script_sends(s, 1, 8, 100, COUNTER(drop_stale), 0); /* greater chunk, smaller round */
	script_chunk(s, 1, 0, 5);
	script_put(s, S_ROUND, 4, 2);
	script_send(s, COUNTER(completed), 2);
	script_lanes(s, 55);
	script_end(s);

	script_case(
		s,
		"overtaken",
		"a newer chunk takes the cell of a sum that is not complete: it begins at its own values, exponent, "
		"next and flags",
		2,
		0
	);
	script_chunk(s, 0, 0, 1000);
	script_put(s, S_FLAGS, 1, HD_SWITCH_FLAG_ECN);
	script_put(s, S_NEXT, 2, 100);
	script_send(s, COUNTER(absorbed), 0);
	script_sends(s, 0, 8, 3, COUNTER(absorbed), 0);
	script_sends(s, 1, 0, 1000, COUNTER(drop_stale), 0); /* the straggler's late packet */
	script_sends(s, 1, 8, 4, COUNTER(completed), 2);
	script_lanes(s, 7);
	script_flags(s, 0);
	script_field(s, S_NEXT, 2, (uint16_t)-20);
	script_end(s);

	script_case(
		s,
		"unsigned-order",
		"rounds and chunks are compared without sign: 0x80000000 is after 1, and round before chunk",
		2,
		0
	);
	script_sends(s, 0, 0, 1, COUNTER(absorbed), 0);
	script_chunk(s, 0, 0, 2);
	script_put(s, S_CHUNK, 4, 0xfffffffc);
	script_send(s, COUNTER(absorbed), 0);
	script_sends(s, 1, 0, 1, COUNTER(drop_stale), 0);
	script_chunk(s, 1, 0, 5);
	script_put(s, S_ROUND, 4, 0x80000000);
	script_send(s, COUNTER(absorbed), 0);
	script_chunk(s, 0, 0, 5);
	script_put(s, S_ROUND, 4, 0x7fffffff);
	script_send(s, COUNTER(drop_stale), 0);
	script_chunk(s, 0, 0, 6);
	script_put(s, S_ROUND, 4, 0x80000000);
	script_send(s, COUNTER(completed), 2);
	script_lanes(s, 11);
	script_end(s);
}

static void exponents(struct script *s) {
	script_case(
		s,
		"exponents",
		"another exponent than the sum's is not added; the result names the greatest that was proposed for "
		"the next one, with sign",
		3,
		0
	);
	script_chunk(s, 0, 0, 1);
	script_put(s, S_NEXT, 2, (uint16_t)-30000);
	script_send(s, COUNTER(absorbed), 0);
	script_chunk(s, 1, 0, 1);
	script_put(s, S_EXPONENT, 2, (uint16_t)-19);
	script_put(s, S_NEXT, 2, 100);
	script_send(s, COUNTER(drop_exponent), 0);
	script_chunk(s, 1, 0, 1);
	script_put(s, S_NEXT, 2, (uint16_t)-3);
	script_send(s, COUNTER(absorbed), 0);
	script_chunk(s, 0, 0, 1); /* also of one that is in it already */
	script_put(s, S_EXPONENT, 2, 20);
	script_send(s, COUNTER(drop_exponent), 0);
	script_chunk(s, 2, 0, 1);
	script_put(s, S_NEXT, 2, (uint16_t)-4);
	script_send(s, COUNTER(completed), 3);
	script_lanes(s, 3);
	script_field(s, S_EXPONENT, 2, (uint16_t)-20);
	script_field(s, S_NEXT, 2, (uint16_t)-3);
	for (uint32_t i = 0; i < 3; i++) {
		script_chunk(s, i, 1, 1);
		script_put(s, S_EXPONENT, 2, 0x7fff);
		script_put(s, S_NEXT, 2, i == 1 ? 5 : 0x8000);
		script_send(s, i < 2 ? COUNTER(absorbed) : COUNTER(completed), i < 2 ? 0 : 3);
	}
	script_field(s, S_EXPONENT, 2, 0x7fff);
	script_field(s, S_NEXT, 2, 5);
	for (uint32_t i = 0; i < 3; i++) {
		script_chunk(s, i, 2, 1);
		script_put(s, S_NEXT, 2, 0x8000);
		script_send(s, i < 2 ? COUNTER(absorbed) : COUNTER(completed), i < 2 ? 0 : 3);
	}
	script_field(s, S_NEXT, 2, 0x8000);
	script_end(s);
}

static void three(struct script *s, uint32_t chunk, int32_t a, int32_t b, int32_t c) {
	script_sends(s, 0, chunk, a, COUNTER(absorbed), 0);
	script_sends(s, 1, chunk, b, COUNTER(absorbed), 0);
	script_sends(s, 2, chunk, c, COUNTER(completed), 3);
}

static void overflow(struct script *s) {
	script_case(
		s,
		"overflow",
		"a lane that overflows sets NOT_FINITE, wherever it does; the greatest and the least value do not",
		3,
		0
	);
	three(s, 0, LIMIT, 1, 0);
	script_flags(s, HD_SWITCH_FLAG_NOT_FINITE);
	script_lanes(s, INT32_MIN);
	three(s, 1, INT32_MIN, 0, -1);
	script_flags(s, HD_SWITCH_FLAG_NOT_FINITE);
	script_lanes(s, LIMIT);
	script_sends(s, 1, 1, 0, COUNTER(repeated), 1);
	script_flags(s, HD_SWITCH_FLAG_NOT_FINITE | HD_SWITCH_FLAG_RESEND);
	three(s, 2, INT32_MIN, LIMIT, 1);
	script_flags(s, 0);
	script_lanes(s, 0);
	three(s, 3, LIMIT - 1, 0, 1);
	script_flags(s, 0);
	script_lanes(s, LIMIT);
	/* The next sum in the cell knows nothing of it. */
	three(s, 8, 1, 1, 1);
	script_flags(s, 0);
	script_end(s);
}

static void overflow_of_one(struct script *s) {
	script_case(
		s,
		"overflow-lanes",
		"each lane alone overflows, up or down, and the others do not",
		2,
		0
	);
	for (uint32_t lane = 0; lane < HD_SWITCH_LANES; lane++) {
		bool down = lane % 2 != 0;

		script_chunk(s, 0, lane, (int32_t)lane);
		script_put(s, S_VALUES + 4 * lane, 4, down ? 0x80000000 : LIMIT);
		script_send(s, COUNTER(absorbed), 0);
		script_chunk(s, 1, lane, -1);
		script_put(s, S_VALUES + 4 * lane, 4, down ? UINT32_MAX : 1);
		script_send(s, COUNTER(completed), 2);
		script_flags(s, HD_SWITCH_FLAG_NOT_FINITE);
		script_field(s, S_VALUES + 4 * lane, 4, down ? LIMIT : 0x80000000);
		script_field(s, S_VALUES + 4 * ((lane + 1) % 32), 4, (uint32_t)(lane - 1));
	}
	script_end(s);
}

static void flags(struct script *s) {
	script_case(
		s,
		"flags",
		"NOT_FINITE (a sender's NaN), ECN and LAST of any chunk are the result's; the other flags are not",
		2,
		0
	);
	for (unsigned flag = 1; flag < 256; flag *= 2) {
		unsigned kept = flag
			& (HD_SWITCH_FLAG_NOT_FINITE | HD_SWITCH_FLAG_ECN | HD_SWITCH_FLAG_LAST);
		uint32_t chunk = 8 * flag;

		script_chunk(s, 0, chunk, 1);
		script_put(s, S_FLAGS, 1, flag < 16 ? flag : 0);
		script_send(s, COUNTER(absorbed), 0);
		script_chunk(s, 1, chunk, 1);
		script_put(s, S_FLAGS, 1, flag < 16 ? 0 : flag);
		script_send(s, COUNTER(completed), 2);
		script_flags(s, kept);
	}
	script_end(s);

	script_case(
		s,
		"congestion",
		"a chunk marked in the network (ECN field 3) marks the result; ECN capability (1, 2) does not",
		2,
		0
	);
	for (uint32_t mark = 0; mark < 4; mark++) {
		script_chunk(s, 0, mark, 1);
		script_put(s, S_TOS, 1, 0xb8 | mark);
		script_send(s, COUNTER(absorbed), 0);
		script_sends(s, 1, mark, 1, COUNTER(completed), 2);
		script_flags(s, mark == 3 ? HD_SWITCH_FLAG_ECN : 0);
		script_field(s, S_TOS, 1, 0);
	}
	script_end(s);
}

static void cells(struct script *s) {
	script_case(
		s,
		"cells",
		"each slot has two cells, and all are a sum of their own; the slot is the header's, not the chunk's",
		2,
		0
	);
	for (uint32_t chunk = 0; chunk < 8; chunk++)
		script_sends(s, 0, chunk, (int32_t)chunk, COUNTER(absorbed), 0);
	for (uint32_t chunk = 0; chunk < 8; chunk++) {
		script_sends(s, 1, chunk, 100, COUNTER(completed), 2);
		script_lanes(s, 100 + (int32_t)chunk);
	}
	script_chunk(s, 0, 9, 1);
	script_put(s, S_SLOT, 2, 3);
	script_send(s, COUNTER(absorbed), 0);
	script_chunk(s, 1, 9, 1);
	script_put(s, S_SLOT, 2, 3);
	script_send(s, COUNTER(completed), 2);
	script_end(s);

	script_case(s, "one-member", "a lease of one: each chunk is its own sum", 1, 0);
	script_sends(s, 0, 0, 9, COUNTER(completed), 1);
	script_lanes(s, 9);
	script_sends(s, 0, 0, 1, COUNTER(repeated), 1);
	script_lanes(s, 9);
	script_sends(s, 0, 8, 2, COUNTER(completed), 1);
	script_end(s);

	script_case(
		s,
		"padding",
		"bytes after the IPv4 packet do not matter, and do not leave with the result",
		2,
		0
	);
	script_sends(s, 0, 0, 9, COUNTER(absorbed), 0);
	script_chunk(s, 1, 0, 1);
	for (int i = 0; i < 6; i++)
		s->frame[s->bytes++] = 0xee;
	script_send(s, COUNTER(completed), 2);
	script_lanes(s, 10);
	script_end(s);
}

void cases_sums(struct script *script) {
	plain(script);
	duplicates(script);
	old_ones(script);
	exponents(script);
	overflow(script);
	overflow_of_one(script);
	flags(script);
	cells(script);
}
