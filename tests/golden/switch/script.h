/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases that are written by hand: each frame with the counter that it must add to and what must leave, so that the
 * model, too, is held to something.
 */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "traffic.h"
#include "vectors.h"

struct script {
	struct recorder *recorder;
	struct hd_random random;
	struct traffic_lease lease; /* of the case */
	uint16_t leases; /* so far */
	uint32_t packet;
	const char *name; /* of the case */
	uint8_t frame[GOLDEN_FRAME_MAX];
	uint32_t bytes;
	uint16_t port; /* where the frame comes from */
};

/* Begins a case, with a lease of 4 slots when it has members. */
void script_case(
	struct script *script,
	const char *name,
	const char *shows,
	uint32_t members,
	uint32_t receivers
);
/* A lease of the case: its id, and what tells it from the others, is new. */
void script_lease(struct script *script, uint32_t members, uint32_t receivers);
/* Ends the case's lease; says the counters. */
void script_end(struct script *script);

/* A member's chunk of round 1 whose lanes are all `value`; to be changed before it is sent. */
void script_chunk(struct script *script, uint32_t index, uint32_t chunk, int32_t value);
void script_put(struct script *script, size_t at, size_t bytes, uint64_t value);
/* The frame as it is; it must add to `counter`, and `copies` frames must leave. */
void script_send(struct script *script, enum hd_switch_counter counter, size_t copies);
/* A chunk, sent. */
void script_sends(
	struct script *script,
	uint32_t index,
	uint32_t chunk,
	int32_t value,
	enum hd_switch_counter counter,
	size_t copies
);

/* Of every frame that left for the last one: */
void script_field(const struct script *script, size_t at, size_t bytes, uint64_t value);
void script_lanes(const struct script *script, int32_t value);
void script_flags(const struct script *script, unsigned flags);
/* The only one that left did so by this port. */
void script_left_by(const struct script *script, uint16_t port);

#define COUNTER(name) HD_SWITCH_COUNTER_##name

/* Offsets in a frame. */
enum script_offset {
	S_TOS = 15,
	S_IP_BYTES = 16,
	S_TTL = 22,
	S_IP_TO = 30,
	S_UDP_TO = 36,
	S_UDP_BYTES = 38,
	S_TYPE = 44,
	S_FLAGS = 45,
	S_JOB = 46,
	S_EPOCH = 50,
	S_WORKER = 52,
	S_ROUND = 54,
	S_ATTEMPT = 58,
	S_DTYPE = 59,
	S_EXPONENT = 60,
	S_SHARD = 62,
	S_SLOT = 64,
	S_CHUNK = 66,
	S_PACKET = 70,
	S_SEEN = 74,
	S_COUNT = 82,
	S_NEXT = 84,
	S_TOKEN = 90,
	S_VALUES = 98
};

void cases_sums(struct script *script);
void cases_members(struct script *script);
void cases_refused(struct script *script);
void cases_ordinary(struct script *script);
void cases_native(struct script *script);

#endif
