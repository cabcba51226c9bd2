/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers of a job of which two call, and the third at times. */
#ifndef WAIT_SCENE_H
#define WAIT_SCENE_H

#include "reduce_scene.h"

#define LEASE ((hd_ns)HD_DETECTION_US * HD_US)
#define NEARLY (LEASE - 50 * HD_MS)
#define SOON (100 * HD_MS)

/* The options of a test's calls. */
struct how {
	uint8_t collective;
	uint16_t root, exact, least;
	uint32_t wait_ms;
};

extern const struct how plain;

void call(struct scene *s, uint16_t rank, uint32_t round, const struct how *how);
/* Members of the round in progress at this worker; 0: it is in none. */
uint16_t members(const struct scene *s, uint16_t rank, uint32_t round);
const struct hd_msg_drop *drop(const struct scene *s, uint16_t rank);
/* A round of all workers, from its calls to its end. */
void make_round(struct scene *s, uint32_t round);
void call_two(struct scene *s, uint32_t round, const struct how *how);
void end_two(struct scene *s);
void open_after_one(struct scene *s);

#endif
