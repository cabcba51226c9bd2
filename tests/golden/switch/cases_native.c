/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases that the P4 executors do not support: fp32, other counts, truncated frames. */
#include "script.h"

#include <string.h>

static uint32_t bits_of(float value) {
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* In a packet: little-endian. */
static uint32_t in_packet(uint32_t bits) {
	return __builtin_bswap32(bits);
}

static void
shape(struct script *s,
      const char *name,
      const char *shows,
      uint32_t members,
      uint8_t dtype,
      uint16_t count) {
	script_case(s, name, shows, 0, 0);
	script_lease(s, members, 0);
	s->lease.is.dtype = dtype;
	s->lease.is.count = count;
	record_lease_set(s->recorder, &s->lease.is);
}

/* Each member's values are 0.25, but for one lane. */
static void
fp32_sum(struct script *s, uint32_t chunk, size_t lane, uint32_t one, uint32_t two, uint32_t due) {
	uint32_t odd[] = {one, two};

	for (uint32_t i = 0; i < 2; i++) {
		script_chunk(s, i, chunk, (int32_t)in_packet(bits_of(0.25F)));
		script_put(s, S_VALUES + 4 * lane, 4, in_packet(odd[i]));
		script_send(s, i == 0 ? COUNTER(absorbed) : COUNTER(completed), i == 0 ? 0 : 2);
	}
	script_field(s, S_VALUES + 4 * lane, 4, in_packet(due));
	script_field(
		s,
		S_VALUES + 4 * (lane == 0 ? s->lease.is.count - 1u : 0),
		4,
		in_packet(bits_of(0.5F))
	);
}

static void fp32(struct script *s) {
	shape(s,
	      "fp32",
	      "sums of fp32; NaN, Inf and what becomes Inf is told, -0 and subnormal numbers are kept",
	      2,
	      HD_DTYPE_FP32,
	      37);
	fp32_sum(s, 0, 3, bits_of(1.5F), bits_of(-4.0F), bits_of(-2.5F));
	script_flags(s, 0);
	fp32_sum(s, 1, 36, 0x7fc00000, bits_of(1), 0x7fc00000);
	script_flags(s, HD_SWITCH_FLAG_NOT_FINITE);
	fp32_sum(s, 2, 0, bits_of(1), 0x7f800000, 0x7f800000);
	script_flags(s, HD_SWITCH_FLAG_NOT_FINITE);
	fp32_sum(s, 3, 32, bits_of(3e38F), bits_of(3e38F), 0x7f800000);
	script_flags(s, HD_SWITCH_FLAG_NOT_FINITE);
	fp32_sum(s, 4, 5, 0x80000000, 0x80000000, 0x80000000);
	script_flags(s, 0);
	fp32_sum(s, 5, 5, 1, 2, 3);
	script_flags(s, 0);
	script_end(s);

	shape(s,
	      "fp32-taken-out",
	      "a sum that is complete because a member was taken out is looked through before it is told",
	      2,
	      HD_DTYPE_FP32,
	      5);
	script_chunk(s, 0, 0, (int32_t)in_packet(0x7f800000));
	script_send(s, COUNTER(absorbed), 0);
	record_lease_waits(s->recorder, s->lease.is.id, 1);
	script_chunk(s, 0, 0, 0);
	script_send(s, COUNTER(repeated), 1);
	script_flags(s, HD_SWITCH_FLAG_NOT_FINITE | HD_SWITCH_FLAG_RESEND | HD_SWITCH_FLAG_PARTIAL);
	script_end(s);
}

static void fp32_of_one(struct script *s) {
	shape(s, "fp32-one-member", "a NaN of the only member is told", 1, HD_DTYPE_FP32, 5);
	script_chunk(s, 0, 0, (int32_t)in_packet(bits_of(1)));
	script_send(s, COUNTER(completed), 1);
	script_flags(s, 0);
	script_chunk(s, 0, 1, (int32_t)in_packet(0x7fc00000));
	script_send(s, COUNTER(completed), 1);
	script_flags(s, HD_SWITCH_FLAG_NOT_FINITE);
	script_end(s);
}

static void counts(struct script *s) {
	static const uint16_t of[] = {1, 350, 2224};

	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = {"count-1", "count-350", "count-2224"};

		shape(s, names[i], "chunks of this many values", 2, HD_DTYPE_FIXED32, of[i]);
		script_sends(s, 0, 0, 1000, COUNTER(absorbed), 0);
		script_sends(s, 1, 0, -7, COUNTER(completed), 2);
		script_lanes(s, 993);
		script_end(s);
	}
	shape(s,
	      "other-shape",
	      "chunks of a good shape that is not the lease's",
	      2,
	      HD_DTYPE_FIXED32,
	      8);
	s->lease.is.count = 9;
	script_sends(s, 0, 0, 1, COUNTER(drop_lease), 0);
	s->lease.is.count = 8;
	script_chunk(s, 0, 0, 1);
	script_put(s, S_DTYPE, 1, HD_DTYPE_FP32);
	script_send(s, COUNTER(drop_lease), 0);
	script_end(s);
	shape(s, "most-members", "64 members: the last bit", 64, HD_DTYPE_FIXED32, 2);
	for (uint32_t i = 0; i < 64; i++)
		script_sends(
			s,
			63 - i,
			0,
			1,
			i < 63 ? COUNTER(absorbed) : COUNTER(completed),
			i < 63 ? 0 : 64
		);
	script_lanes(s, 64);
	script_field(s, S_SEEN, 8, UINT64_MAX);
	script_end(s);
}

static void cut(struct script *s) {
	script_case(s, "cut", "frames that end before their lengths say, down to nothing", 2, 0);
	for (uint32_t bytes = 225; bytes > 0; bytes = bytes > 50 ? bytes - 25 : bytes - 1) {
		script_chunk(s, 0, 0, 1);
		s->bytes = bytes;
		if (bytes >= 46)
			script_send(s, COUNTER(drop_malformed), 0);
		else if (bytes >= 14)
			script_send(s, COUNTER(forwarded), 1);
		else
			script_send(s, COUNTER(drop_no_route), 0);
	}
	s->bytes = traffic_udp(s->frame, 1, 0x0b000001, 9, 0);
	script_put(s, 0, 6, 0x0200000000ff);
	s->bytes = 34;
	script_send(s, COUNTER(routed), 1);
	s->bytes = 33;
	script_send(s, COUNTER(flooded), TRAFFIC_PORTS - 1);
	script_end(s);
}

void cases_native(struct script *script) {
	fp32(script);
	fp32_of_one(script);
	counts(script);
	cut(script);
}
