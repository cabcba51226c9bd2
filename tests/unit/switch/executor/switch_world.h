/* SPDX-License-Identifier: BSD-3-Clause */
/* A native switch with a lease of three members, and what they send. */
#ifndef SWITCH_WORLD_H
#define SWITCH_WORLD_H

#include "hd_limits.h"
#include "switch_frames.h"

#define SERVICE 0x0a000001
#define MEMBERS 3
#define LANES 32
#define SLOTS 4
#define JOB 77

struct world {
	struct hd_switch_core *core;
	struct hd_switch_member members[HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy receivers[HD_SWITCH_RECEIVERS_MAX];
	struct hd_switch_lease lease;
	char error[HD_TEXT_BYTES_MAX];
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t packets_sent;
};

#define COUNTER(name) HD_SWITCH_COUNTER_##name

extern const struct hd_switch_core_config world_settings;

/* A switch, and a lease that it has not got yet. */
void set_up(struct world *world);
int set_lease(struct world *world);
/* Both. */
void begin(struct world *world);
void end(struct world *world);

/* The header of member `index` for chunk `chunk`. */
struct hd_chunk_header chunk_of(struct world *world, uint32_t index, uint32_t chunk);
struct frame_ends ends_of(uint32_t index);

uint64_t counted(struct world *world, enum hd_switch_counter counter);

/* One frame through the switch; it must add to `counter` once, and to nothing else of the first group. */
struct hd_switch_packet
pass(struct world *world, uint32_t bytes, uint16_t port, enum hd_switch_counter counter);
struct hd_switch_packet send_header(
	struct world *world,
	uint32_t index,
	const struct hd_chunk_header *header,
	const void *values,
	enum hd_switch_counter counter
);
/* Every lane is `value`. */
struct hd_switch_packet send_value(
	struct world *world,
	uint32_t index,
	uint32_t chunk,
	int32_t value,
	enum hd_switch_counter counter
);

void assert_sum(const struct world *world, int32_t value);
void assert_flags(const struct world *world, unsigned flags);
/* Of the chunk's header. */
const uint8_t *at(const struct world *world, size_t offset);

#endif
