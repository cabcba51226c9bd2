/* SPDX-License-Identifier: BSD-3-Clause */
/* What leaves when: chunks whose slot is free, those that are missed, both paced. hd_slots_take.c has what comes,
 * hd_slots_payload.c what a chunk carries. */
#include "hd_assert.h"
#include "hd_kernels.h"
#include "hd_slots.h"
#include "hd_slots_state.h"
#include "hd_switch_numbers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BURST_NS (100 * HD_US)
#define BURST_PACKETS_MIN 2
#define BURST_BYTES_SHAPER 13600 /* slow rates: fits a shaper's bucket of 15 kB, */
#define BURSTS_A_WINDOW 4 /* or this part of the slots */
#define BURST_BYTES_MAX 65536
#define LATE_BURSTS 2 /* after a late wake-up at most this many more bursts, */
#define LATE_NS HD_MS /* or the bytes due in this time, */
#define LATE_MAX_NS (10 * HD_MS) /* or in a round trip up to this, are sent */
#define RTT_UNKNOWN_NS HD_MS
#define REORDER 3 /* reordering by fewer packets is no loss */
#define GAP_PART 4 /* of a round trip: a sum may be this much later than a later chunk's */
#define GAP_NEAR 4 /* and a multiple of it after fewer than REORDER sums */
#define GAP_MIN_NS (100 * HD_US)
#define BACKOFF_MAX 6 /* of a chunk's repairs; doublings */
#define PROBES 2 /* packets sent at a timeout */
#define PACKETS_RESERVE 65536 /* packet numbers reserved for retransmissions */

/* Either values and the array for their sums, or lanes. */
static bool has_values(const struct hd_slots_config *config) {
	if (!config->lanes)
		return config->in && config->out && config->receivers == 0;
	return config->dtype == HD_DTYPE_FIXED32 && config->receivers > 0
		&& config->receivers <= HD_SWITCH_RECEIVERS_MAX;
}

static bool possible(const struct hd_slots_config *config) {
	if (!has_values(config) || !config->path || config->values == 0 || config->token == 0)
		return false;
	if (config->members == 0 || config->members > HD_SWITCH_MEMBERS_MAX
	    || config->member >= HD_SWITCH_MEMBERS_MAX)
		return false;
	if (config->slots == 0 || config->slots > HD_SWITCH_SLOTS || config->count == 0
	    || config->count > HD_CHUNK_BYTES_MAX / sizeof(float) || config->round == 0)
		return false;
	if (config->dtype == HD_DTYPE_FP32)
		return config->exponent == 0;
	return config->dtype == HD_DTYPE_FIXED32 && config->exponent >= HD_FIXED_EXPONENT_MIN
		&& config->exponent <= HD_FIXED_EXPONENT_MAX;
}

static int allocate(struct hd_slots *slots) {
	size_t count = slots->config.slots;

	slots->slot = calloc(count, sizeof *slots->slot);
	slots->payload = calloc(count, slots->chunk_bytes);
	slots->ready.item = calloc(count, sizeof *slots->ready.item);
	slots->lost.item = calloc(count, sizeof *slots->lost.item);
	if (slots->config.dtype == HD_DTYPE_FIXED32 && !slots->config.lanes) {
		slots->marked = malloc(slots->values_end * sizeof *slots->marked);
		if (!slots->marked)
			return -ENOMEM;
	}
	return slots->slot && slots->payload && slots->ready.item && slots->lost.item ? 0 : -ENOMEM;
}

int hd_slots_create(const struct hd_slots_config *config, hd_ns now, struct hd_slots **out) {
	struct hd_slots *slots;
	uint64_t chunks;

	if (!possible(config))
		return -EINVAL;
	chunks = (config->values - 1) / config->count + 1;
	if (chunks > HD_SLOTS_PACKETS_MAX / 2)
		return -EFBIG;
	slots = calloc(1, sizeof *slots);
	if (!slots)
		return -ENOMEM;
	slots->config = *config;
	slots->chunk_bytes = config->count * (uint32_t)sizeof(float);
	slots->stats.chunks = slots->values_end = slots->chunk_end = (uint32_t)chunks;
	slots->stats.started = slots->probe_from = now;
	slots->oldest = slots->newest = HD_SLOT_NONE;
	slots->look_at = HD_NEVER;
	if (allocate(slots) < 0) {
		hd_slots_destroy(slots);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < config->slots && i < chunks; i++) {
		slots->slot[i] = (struct hd_slot){.chunk = i, .exponent = config->exponent};
		slots->slot[i].state = HD_SLOT_READY;
		hd_slots_ready(slots, now, i);
	}
	hd_path_start(config->path, now, 1, config->rate_bps);
	slots->started = config->path->slots = true;
	*out = slots;
	return 0;
}

void hd_slots_destroy(struct hd_slots *slots) {
	if (!slots)
		return;
	if (slots->started && slots->stats.state == HD_SLOTS_ACTIVE)
		hd_path_stop(slots->config.path);
	free(slots->marked);
	free(slots->lost.item);
	free(slots->ready.item);
	free(slots->payload);
	free(slots->slot);
	free(slots);
}

void hd_slots_end(
	struct hd_slots *slots,
	hd_ns now,
	enum hd_slots_state state,
	enum hd_reason why
) {
	hd_path_stop(slots->config.path);
	slots->stats.state = state;
	slots->stats.reason = why;
	slots->stats.ended = now;
}

hd_ns hd_slots_rtt(const struct hd_slots *slots) {
	return slots->config.path->srtt > 0 ? slots->config.path->srtt : RTT_UNKNOWN_NS;
}

/* --- queues --------------------------------------------------------------------------------- */

static void note_fed(struct hd_slots *slots, hd_ns now) {
	if (slots->ready.count == 0 && slots->lost.count == 0)
		slots->fed_at = now;
}

/* One line of memory has many chunks of the heap, but only one of their slots. */
static bool is_before(const struct hd_slots *slots, uint32_t a, uint32_t b) {
	return slots->ready.item[a] < slots->ready.item[b];
}

static void swap(struct hd_slots *slots, uint32_t a, uint32_t b) {
	uint32_t chunk = slots->ready.item[a];

	slots->ready.item[a] = slots->ready.item[b];
	slots->ready.item[b] = chunk;
}

void hd_slots_ready(struct hd_slots *slots, hd_ns now, uint32_t index) {
	uint32_t i = slots->ready.count;

	hd_assert(
		i < slots->config.slots && slots->slot[index].chunk % slots->config.slots == index
	);
	note_fed(slots, now);
	slots->ready.item[i] = slots->slot[index].chunk;
	slots->ready.count++;
	for (; i > 0 && is_before(slots, i, (i - 1) / 2); i = (i - 1) / 2)
		swap(slots, i, (i - 1) / 2);
}

/* The slot of the lowest chunk. */
static uint32_t pop_ready(struct hd_slots *slots) {
	uint32_t first = slots->ready.item[0], last = --slots->ready.count, i = 0, child;

	slots->ready.item[0] = slots->ready.item[last];
	while ((child = 2 * i + 1) < last) {
		child += child + 1 < last && is_before(slots, child + 1, child);
		if (!is_before(slots, child, i))
			break;
		swap(slots, i, child);
		i = child;
	}
	return first % slots->config.slots;
}

static void push_lost(struct hd_slots *slots, hd_ns now, uint32_t index) {
	struct hd_slot_queue *lost = &slots->lost;

	hd_assert(lost->count < slots->config.slots);
	note_fed(slots, now);
	lost->item[(lost->head + lost->count++) % slots->config.slots] = index;
}

/* The next one that is still missing, or HD_SLOT_NONE. */
static uint32_t pop_lost(struct hd_slots *slots) {
	while (slots->lost.count > 0) {
		uint32_t index = slots->lost.item[slots->lost.head];

		slots->lost.head = (slots->lost.head + 1) % slots->config.slots;
		slots->lost.count--;
		slots->slot[index].queued = false;
		if (slots->slot[index].lost)
			return index;
	}
	return HD_SLOT_NONE;
}

static void repair(struct hd_slots *slots, hd_ns now, uint32_t index) {
	struct hd_slot *slot = &slots->slot[index];

	slot->lost = true;
	if (slot->queued)
		return;
	slot->queued = true;
	push_lost(slots, now, index);
}

void hd_slots_unlink(struct hd_slots *slots, uint32_t index) {
	struct hd_slot *slot = &slots->slot[index];

	if (slot->older == HD_SLOT_NONE)
		slots->oldest = slot->newer;
	else
		slots->slot[slot->older].newer = slot->newer;
	if (slot->newer == HD_SLOT_NONE)
		slots->newest = slot->older;
	else
		slots->slot[slot->newer].older = slot->older;
	slots->flying--;
}

static void link_newest(struct hd_slots *slots, uint32_t index) {
	struct hd_slot *slot = &slots->slot[index];

	slot->older = slots->newest;
	slot->newer = HD_SLOT_NONE;
	if (slots->newest == HD_SLOT_NONE)
		slots->oldest = index;
	else
		slots->slot[slots->newest].newer = index;
	slots->newest = index;
	slots->flying++;
}

/* --- missing sums --------------------------------------------------------------------------- */

/* Every packet below `largest` should have been answered by now; each gets some time, more every time. */
static void look_for_gaps(struct hd_slots *slots, hd_ns now) {
	hd_ns gap = hd_ns_max(hd_slots_rtt(slots) / GAP_PART, GAP_MIN_NS);

	slots->look_at = HD_NEVER;
	for (uint32_t i = slots->oldest; slots->any && i != HD_SLOT_NONE;
	     i = slots->slot[i].newer) {
		struct hd_slot *slot = &slots->slot[i];
		hd_ns due = gap << (slot->resends < BACKOFF_MAX ? slot->resends : BACKOFF_MAX);

		if (slot->last >= slots->largest)
			break;
		if (slot->lost)
			continue;
		if (slot->missed_at == 0)
			slot->missed_at = now;
		if (slot->last + REORDER > slots->largest)
			due *= GAP_NEAR;
		due = hd_ns_add(slot->missed_at, due);
		if (due <= now)
			repair(slots, now, i);
		else
			slots->look_at = hd_ns_min(slots->look_at, due);
	}
}

static hd_ns timeout(const struct hd_slots *slots) {
	uint32_t shift = slots->timeouts < 10 ? slots->timeouts : 10;

	return hd_ns_min(hd_path_rto(slots->config.path) << shift, HD_RTO_MAX_US * HD_US);
}

static hd_ns timeout_at(const struct hd_slots *slots) {
	return slots->oldest == HD_SLOT_NONE ? HD_NEVER :
					       hd_ns_add(slots->probe_from, timeout(slots));
}

/* Nothing came at all: only two packets are sent, not the whole window. Their sums show the other losses. */
static void on_timeout(struct hd_slots *slots, hd_ns now) {
	uint32_t left = PROBES;

	slots->stats.timeouts++;
	slots->timeouts++;
	slots->probe_from = now;
	for (uint32_t i = slots->oldest; i != HD_SLOT_NONE && left > 0; i = slots->slot[i].newer) {
		repair(slots, now, i);
		left--;
	}
}

/* --- transmission --------------------------------------------------------------------------- */

static void put_header(const struct hd_slots *slots, uint32_t index, uint8_t *head) {
	const struct hd_slots_config *config = &slots->config;
	const struct hd_slot *slot = &slots->slot[index];
	struct hd_chunk_header header = {
		.flags = (uint8_t)(slot->flags | (slot->resends > 0 ? HD_CHUNK_RESEND : 0)),
		.attempt = config->attempt,
		.dtype = config->dtype,
		.job = config->job,
		.epoch = config->epoch,
		.worker = config->worker,
		.round = config->round,
		.exponent = slot->exponent,
		.shard = config->shard,
		.slot = hd_slots_slot(slots, slot->chunk),
		.chunk = slot->chunk,
		.packet = hd_slots_packet(config->member, slot->last),
		.count = config->count,
		.next = slot->next,
		.token = config->token,
	};

	hd_chunk_encode(&header, head);
}

static void transmit(struct hd_slots *slots, hd_ns now, uint32_t index, struct hd_sink *sink) {
	struct hd_slot *slot = &slots->slot[index];
	uint8_t head[HD_CHUNK_HEADER_BYTES];

	slot->last = slots->next++;
	slot->last_at = now;
	if (slot->state == HD_SLOT_READY) {
		hd_slots_prepare(slots, index);
		slot->state = HD_SLOT_FLYING;
		slot->resends = 0;
		slot->first = slot->last;
		slot->first_at = slots->probe_from = now;
	} else {
		hd_slots_unlink(slots, index);
		if (slot->resends < UINT8_MAX)
			slot->resends++;
		slots->stats.packets_resent++;
	}
	slot->lost = false;
	slot->missed_at = 0;
	link_newest(slots, index);
	put_header(slots, index, head);
	sink->send(
		sink,
		slots->config.peer,
		head,
		sizeof head,
		hd_slots_payload(slots, index),
		slots->chunk_bytes
	);
	hd_path_count(slots->config.path, slot->resends > 0);
	slots->stats.packets_sent++;
}

/* Chunks in flight may wait for other members, not for the network: a chunk below all of them always has room.
 * Otherwise two members with full windows of different chunks would wait for each other. */
static bool is_first(const struct hd_slots *slots) {
	uint32_t chunk = slots->ready.item[0];

	for (uint32_t i = slots->oldest; i != HD_SLOT_NONE; i = slots->slot[i].newer)
		if (slots->slot[i].chunk < chunk)
			return false;
	return true;
}

/* The path's window, besides the slots. */
static bool window_open(const struct hd_slots *slots) {
	uint64_t flying = (uint64_t)slots->flying * hd_slots_packet_bytes(slots);

	return flying + hd_slots_packet_bytes(slots) <= hd_path_window(slots->config.path)
		|| is_first(slots);
}

static bool transmit_next(struct hd_slots *slots, hd_ns now, struct hd_sink *sink) {
	uint32_t index = pop_lost(slots);

	if (index == HD_SLOT_NONE && slots->ready.count > 0) {
		if (window_open(slots))
			index = pop_ready(slots);
		else
			slots->config.path->full_at = now;
	}
	if (index == HD_SLOT_NONE)
		return false;
	transmit(slots, now, index, sink);
	return true;
}

static double burst_bytes(const struct hd_slots *slots, double rate_bps) {
	double packet = hd_slots_packet_bytes(slots);
	double part = packet * slots->config.slots / BURSTS_A_WINDOW;
	double bytes = fmax(rate_bps * (double)BURST_NS / 8e9, fmin(part, BURST_BYTES_SHAPER));

	return fmin(fmax(bytes, BURST_PACKETS_MIN * packet), BURST_BYTES_MAX);
}

/* A granted rate is a share of links whose rest is others': no probing for more. */
static double rate_of(const struct hd_slots *slots, hd_ns now) {
	uint64_t granted = slots->config.rate_bps;
	uint64_t rate = hd_path_pacing_bps(slots->config.path, now, granted);

	return (double)(granted > 0 && granted < rate ? granted : rate);
}

static bool
send_burst(struct hd_slots *slots, hd_ns now, size_t budget, size_t *sent, struct hd_sink *sink) {
	double packet = hd_slots_packet_bytes(slots), bytes = 0;
	double rate = rate_of(slots, now);
	double quantum = burst_bytes(slots, rate);
	hd_ns late, rtt = hd_slots_rtt(slots);

	while (*sent < budget && bytes < quantum && transmit_next(slots, now, sink)) {
		(*sent)++;
		bytes += packet;
	}
	if (bytes <= 0)
		return false;
	/* A late wake-up is made up for, a pause is not. */
	late = hd_ns_max(LATE_NS, hd_ns_min(rtt, LATE_MAX_NS));
	late = hd_ns_max((hd_ns)(quantum * 8e9 / rate * LATE_BURSTS), late);
	late = hd_ns_min(late, now - hd_ns_min(slots->fed_at, now));
	slots->release_at = hd_ns_max(slots->release_at, now - hd_ns_min(late, now));
	slots->release_at = hd_ns_add(slots->release_at, (hd_ns)(bytes * 8e9 / rate));
	return true;
}

size_t hd_slots_poll(struct hd_slots *slots, hd_ns now, size_t budget, struct hd_sink *sink) {
	size_t sent = 0;

	if (slots->stats.state == HD_SLOTS_ACTIVE
	    && slots->next >= HD_SLOTS_PACKETS_MAX - PACKETS_RESERVE)
		hd_slots_end(slots, now, HD_SLOTS_FAILED, HD_REASON_TIMEOUT);
	if (slots->stats.state != HD_SLOTS_ACTIVE)
		return 0;
	if (budget > PACKETS_RESERVE)
		budget = PACKETS_RESERVE;
	look_for_gaps(slots, now);
	if (now >= timeout_at(slots))
		on_timeout(slots, now);
	while (sent < budget && slots->release_at <= now)
		if (!send_burst(slots, now, budget, &sent, sink))
			break;
	return sent;
}

hd_ns hd_slots_deadline(const struct hd_slots *slots) {
	hd_ns at;

	if (slots->stats.state != HD_SLOTS_ACTIVE)
		return HD_NEVER;
	at = hd_ns_min(slots->look_at, timeout_at(slots));
	if ((slots->ready.count > 0 && window_open(slots)) || slots->lost.count > 0)
		at = hd_ns_min(at, slots->release_at);
	return at;
}

const struct hd_slots_stats *hd_slots_stats(const struct hd_slots *slots) {
	return &slots->stats;
}

uint64_t hd_slots_token(const struct hd_slots *slots) {
	return slots->config.token;
}
