/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of a port of the switch, which emulates a link: the frames that wait, and when they may leave. Pure.
 *
 *   put: control ----> [ | | | ] ---first---+      (each class has its own limits; frames beyond are refused)
 *        the rest ---> [ | | | | | ] -------+----> link of rate_bps ----> ready, sent
 *                              ^ more than ecn_bytes wait: mark
 *
 * Frames are the owner's pointers. ready() returns those that may leave now, in order, and sent() takes the number that
 * did: frames that a port refused stay first in the queue, so nothing is sent twice and nothing is reordered.
 *
 * The link is a token bucket that may be overdrawn by one frame, kept as the time at which the link is free: a frame of
 * b bytes takes 8 b / rate_bps seconds. A pause earns at most burst_bytes; while frames wait, a late call loses none of
 * the rate. Bytes are those of the frame at the port: with Ethernet's header, without check sequence, preamble and gap
 * (like Linux's tbf).
 */
#ifndef HD_SWITCH_QUEUE_H
#define HD_SWITCH_QUEUE_H

#include "hd_types.h"

#define HD_SWITCH_RATE_BPS_MAX UINT64_C(1000000000000)
#define HD_SWITCH_QUEUE_BYTES_MAX (UINT32_C(1) << 30)
#define HD_SWITCH_QUEUE_FRAMES_MAX 65536u

enum hd_switch_class {
	HD_SWITCH_CLASS_CONTROL,
	HD_SWITCH_CLASS_DATA,
	HD_SWITCH_CLASS_COUNT
};

struct hd_switch_queue_config {
	uint64_t rate_bps; /* 0: unlimited */
	uint32_t burst_bytes; /* of a link with a rate: may leave at once after a pause */
	uint32_t limit_bytes; /* of each class */
	uint32_t limit_frames; /* of each class; a power of two */
	uint32_t ecn_bytes; /* frames that find more than this before them are marked; 0: never */
};

struct hd_switch_queue_counts {
	uint64_t packets, bytes; /* sent */
	uint64_t drops; /* refused: the queue was full */
	uint64_t marked;
};

enum hd_switch_put {
	HD_SWITCH_PUT_FULL, /* refused, and counted: the frame stays the owner's */
	HD_SWITCH_PUT_TAKEN,
	HD_SWITCH_PUT_MARK /* taken; the owner must mark it: congestion experienced */
};

struct hd_switch_queue;

/* -EINVAL (rate, limits), -ENOMEM. */
int hd_switch_queue_create(
	const struct hd_switch_queue_config *config,
	struct hd_switch_queue **queue
);
/* The owner must free the frames in it first: hd_switch_queue_drain(). */
void hd_switch_queue_destroy(struct hd_switch_queue *queue);

enum hd_switch_put hd_switch_queue_put(
	struct hd_switch_queue *queue,
	enum hd_switch_class class,
	void *frame,
	uint32_t bytes
);

/* Up to `count` frames that may leave at `now`, in their order. They stay in the queue. */
uint32_t
hd_switch_queue_ready(struct hd_switch_queue *queue, hd_ns now, void **frames, uint32_t count);
/* The first `count` of those have left. No put between ready() and this. */
void hd_switch_queue_sent(struct hd_switch_queue *queue, uint32_t count);
/* When the next one may leave: in the past if it may now, HD_NEVER if there is none. */
hd_ns hd_switch_queue_deadline(const struct hd_switch_queue *queue);
/* Removes one frame; NULL: none is left. */
void *hd_switch_queue_drain(struct hd_switch_queue *queue);

/* Changes the link's rate. -EINVAL: beyond HD_SWITCH_RATE_BPS_MAX. */
int hd_switch_queue_set_rate(struct hd_switch_queue *queue, uint64_t rate_bps);

uint64_t hd_switch_queue_waiting(const struct hd_switch_queue *queue, enum hd_switch_class class);
const struct hd_switch_queue_counts *
hd_switch_queue_counts(const struct hd_switch_queue *queue, enum hd_switch_class class);
const struct hd_switch_queue_config *hd_switch_queue_config(const struct hd_switch_queue *queue);

#endif
