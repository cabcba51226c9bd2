/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that send and receive, and the messages of the controller. */
#ifndef PAIR_SCENE_H
#define PAIR_SCENE_H

#include "reduce_scene.h"

/* An end's call. */
struct pair_wish {
	uint16_t from, to;
	uint32_t number;
	uint8_t attempt;
	uint64_t bytes, peer_boot;
	const char *tag;
};

void ask_pair(struct scene *s, uint16_t rank, struct pair_wish wish);
const struct hd_msg_drop *dropped(const struct scene *s, uint16_t rank);
/* Pairs that the worker was told to begin. */
uint32_t begun(const struct scene *s, uint16_t rank);
/* Sends that the receiver has. */
uint32_t released(const struct scene *s, uint16_t rank);
struct ctl_job *job_of(const struct scene *s);
/* A receiver has the values of its newest REDUCE, or could not take them. */
void report(struct scene *s, uint16_t rank, uint8_t outcome, uint64_t sender_boot);
/* The worker says how far its end of a channel is. */
void answer(struct scene *s, uint16_t rank, struct hd_msg_channel known);

#endif
