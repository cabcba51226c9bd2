/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that call collectives, and what the controller tells them. */
#ifndef COLLECTIVE_SCENE_H
#define COLLECTIVE_SCENE_H

#include "reduce_scene.h"

struct wish {
	uint8_t collective;
	uint16_t root;
	uint64_t bytes, room;
};

void call(struct scene *s, uint16_t rank, uint32_t round, uint8_t attempt, const struct wish *wish);
void call_all(struct scene *s, uint32_t round, const struct wish *wish);
/* The worker has its result. */
void finish(struct scene *s, uint16_t rank);
/* An aggregator's group has failed. */
void lose_group(struct scene *s, uint32_t k);
/* Times that the worker was told that the others have their results. */
uint32_t released(const struct scene *s, uint16_t rank);
uint32_t open_rounds(const struct scene *s);
/* The worker is told to give this many bytes and to receive that many, and its members. */
void check_share(const struct scene *s, uint16_t rank, uint64_t out, uint64_t in);

#endif
