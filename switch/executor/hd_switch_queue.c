/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_switch_queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* The time of a frame of 64 KiB at 1 bit/s still fits. */
#define FRAME_BYTES_MAX 65536u

struct entry {
	void *frame;
	uint32_t bytes;
};

/* head and tail only grow; their difference is the count. */
struct lane {
	struct entry *entries;
	uint32_t head, tail;
	uint64_t bytes;
	struct hd_switch_queue_counts counts;
};

struct hd_switch_queue {
	struct hd_switch_queue_config config;
	hd_ns burst_ns;
	hd_ns free_at; /* when the link is free */
	bool idle; /* no frame has waited since */
	uint64_t rest; /* remainder of the last division, so that rates have no rounding error */
	struct lane lanes[HD_SWITCH_CLASS_COUNT];
};

static hd_ns span_of(uint64_t bytes, uint64_t rate_bps) {
	return rate_bps == 0 ? 0 : bytes * 8 * HD_SECOND / rate_bps;
}

int hd_switch_queue_set_rate(struct hd_switch_queue *q, uint64_t rate_bps) {
	if (rate_bps > HD_SWITCH_RATE_BPS_MAX)
		return -EINVAL;
	q->config.rate_bps = rate_bps;
	q->burst_ns = span_of(q->config.burst_bytes, rate_bps);
	q->rest = 0;
	return 0;
}

static bool good(const struct hd_switch_queue_config *c) {
	return c->rate_bps <= HD_SWITCH_RATE_BPS_MAX && c->burst_bytes <= HD_SWITCH_QUEUE_BYTES_MAX
		&& c->limit_bytes > 0 && c->limit_bytes <= HD_SWITCH_QUEUE_BYTES_MAX
		&& c->limit_frames > 0 && c->limit_frames <= HD_SWITCH_QUEUE_FRAMES_MAX
		&& (c->limit_frames & (c->limit_frames - 1)) == 0;
}

int hd_switch_queue_create(
	const struct hd_switch_queue_config *config,
	struct hd_switch_queue **queue
) {
	struct hd_switch_queue *q;

	if (!good(config))
		return -EINVAL;
	q = calloc(1, sizeof *q);
	if (!q)
		return -ENOMEM;
	q->config = *config;
	q->idle = true;
	(void)hd_switch_queue_set_rate(q, config->rate_bps);
	for (int i = 0; i < HD_SWITCH_CLASS_COUNT; i++) {
		q->lanes[i].entries = calloc(config->limit_frames, sizeof(struct entry));
		if (!q->lanes[i].entries) {
			hd_switch_queue_destroy(q);
			return -ENOMEM;
		}
	}
	*queue = q;
	return 0;
}

void hd_switch_queue_destroy(struct hd_switch_queue *q) {
	if (!q)
		return;
	for (int i = 0; i < HD_SWITCH_CLASS_COUNT; i++)
		free(q->lanes[i].entries);
	free(q);
}

static struct entry *
entry_at(const struct hd_switch_queue *q, const struct lane *lane, uint32_t at) {
	return &lane->entries[at & (q->config.limit_frames - 1)];
}

enum hd_switch_put hd_switch_queue_put(
	struct hd_switch_queue *q,
	enum hd_switch_class class,
	void *frame,
	uint32_t bytes
) {
	struct lane *lane = &q->lanes[class];
	bool mark = q->config.ecn_bytes > 0 && lane->bytes > q->config.ecn_bytes;

	assert(bytes <= FRAME_BYTES_MAX);
	if (lane->tail - lane->head == q->config.limit_frames
	    || lane->bytes + bytes > q->config.limit_bytes) {
		lane->counts.drops++;
		return HD_SWITCH_PUT_FULL;
	}
	*entry_at(q, lane, lane->tail++) = (struct entry){frame, bytes};
	lane->bytes += bytes;
	lane->counts.marked += mark;
	return mark ? HD_SWITCH_PUT_MARK : HD_SWITCH_PUT_TAKEN;
}

/* The effect of a frame on the link. */
struct link {
	hd_ns free_at;
	uint64_t rest;
};

static void occupy(const struct hd_switch_queue *q, uint32_t bytes, struct link *link) {
	const uint64_t rate = q->config.rate_bps;
	uint64_t work;

	if (rate == 0)
		return;
	work = (uint64_t)bytes * 8 * HD_SECOND + link->rest;
	link->free_at += work / rate;
	link->rest = work % rate;
}

/*
 * A pause earns a burst. While frames wait, a late call also gets the time since the last one, so that a process that
 * is not woken in time still reaches the rate.
 */
static void settle(struct hd_switch_queue *q, hd_ns now) {
	uint64_t waiting
		= q->lanes[HD_SWITCH_CLASS_CONTROL].bytes + q->lanes[HD_SWITCH_CLASS_DATA].bytes;
	hd_ns earned = q->burst_ns;

	if (q->config.rate_bps == 0)
		return;
	if (!q->idle)
		earned = hd_ns_max(earned, span_of(waiting, q->config.rate_bps));
	if (hd_ns_add(q->free_at, earned) < now) {
		q->free_at = now - earned;
		q->rest = 0;
	}
	q->idle = waiting == 0;
}

uint32_t
hd_switch_queue_ready(struct hd_switch_queue *q, hd_ns now, void **frames, uint32_t count) {
	struct link link;
	uint32_t n = 0;

	settle(q, now);
	link = (struct link){q->free_at, q->rest};
	for (int i = 0; i < HD_SWITCH_CLASS_COUNT; i++) {
		const struct lane *lane = &q->lanes[i];

		for (uint32_t at = lane->head; at != lane->tail && n < count; at++) {
			const struct entry *entry = entry_at(q, lane, at);

			if (q->config.rate_bps > 0 && link.free_at > now)
				return n;
			occupy(q, entry->bytes, &link);
			frames[n++] = entry->frame;
		}
	}
	return n;
}

static void leave(struct hd_switch_queue *q, struct lane *lane, struct link *link) {
	uint32_t bytes = entry_at(q, lane, lane->head++)->bytes;

	occupy(q, bytes, link);
	assert(lane->bytes >= bytes);
	lane->bytes -= bytes;
	assert(lane->head != lane->tail || lane->bytes == 0);
	lane->counts.packets++;
	lane->counts.bytes += bytes;
}

void hd_switch_queue_sent(struct hd_switch_queue *q, uint32_t count) {
	struct link link = {q->free_at, q->rest};

	for (int i = 0; i < HD_SWITCH_CLASS_COUNT; i++) {
		struct lane *lane = &q->lanes[i];

		for (; count > 0 && lane->head != lane->tail; count--)
			leave(q, lane, &link);
	}
	assert(count == 0);
	q->free_at = link.free_at;
	q->rest = link.rest;
	q->idle = hd_switch_queue_deadline(q) == HD_NEVER;
}

hd_ns hd_switch_queue_deadline(const struct hd_switch_queue *q) {
	for (int i = 0; i < HD_SWITCH_CLASS_COUNT; i++)
		if (q->lanes[i].head != q->lanes[i].tail)
			return q->config.rate_bps > 0 ? q->free_at : 0;
	return HD_NEVER;
}

void *hd_switch_queue_drain(struct hd_switch_queue *q) {
	for (int i = 0; i < HD_SWITCH_CLASS_COUNT; i++) {
		struct lane *lane = &q->lanes[i];

		if (lane->head != lane->tail) {
			struct entry *entry = entry_at(q, lane, lane->head++);

			lane->bytes -= entry->bytes;
			return entry->frame;
		}
	}
	return NULL;
}

uint64_t hd_switch_queue_waiting(const struct hd_switch_queue *q, enum hd_switch_class class) {
	return q->lanes[class].bytes;
}

const struct hd_switch_queue_counts *
hd_switch_queue_counts(const struct hd_switch_queue *q, enum hd_switch_class class) {
	return &q->lanes[class].counts;
}

const struct hd_switch_queue_config *hd_switch_queue_config(const struct hd_switch_queue *q) {
	return &q->config;
}
