/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of sessions and how they end.
 *
 *   slots[]      id = generation | slot      finds the session of a packet in one step
 *   addresses[]  by peer address             finds all sessions of one peer
 *   heap[]       by (due, id)                finds due sessions; due is a lower bound, so that traffic
 *                                            that only postpones deadlines does not change the heap
 */
#include "hd_assert.h"
#include "hd_hello.h"
#include "hd_stream.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BITS 14
#define SLOT_MASK ((1u << SLOT_BITS) - 1)
#define GENERATION_MASK ((1u << (32 - SLOT_BITS)) - 1)
#define SLOTS_FIRST 16
#define NO_SLOT UINT32_MAX

static_assert(HD_SESSIONS_MAX + HD_CANDIDATES_MAX <= SLOT_MASK, "ids have room for all slots");

/* --- timing heap ----------------------------------------------------------------------------- */

static bool earlier(const struct hd_session *a, const struct hd_session *b) {
	return a->due != b->due ? a->due < b->due : a->id < b->id;
}

static void heap_place(struct hd_endpoint *e, uint32_t index, struct hd_session *s) {
	e->heap[index] = s;
	s->heap_index = index;
}

static void heap_up(struct hd_endpoint *e, struct hd_session *s) {
	uint32_t at = s->heap_index;

	while (at > 0 && earlier(s, e->heap[(at - 1) / 2])) {
		heap_place(e, at, e->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_place(e, at, s);
}

static void heap_down(struct hd_endpoint *e, struct hd_session *s) {
	uint32_t at = s->heap_index;

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= e->heap_count)
			break;
		if (child + 1 < e->heap_count && earlier(e->heap[child + 1], e->heap[child]))
			child++;
		if (!earlier(e->heap[child], s))
			break;
		heap_place(e, at, e->heap[child]);
		at = child;
	}
	heap_place(e, at, s);
}

static void heap_remove(struct hd_endpoint *e, struct hd_session *s) {
	struct hd_session *last = e->heap[--e->heap_count];

	if (last == s)
		return;
	heap_place(e, s->heap_index, last);
	heap_up(e, last);
	heap_down(e, last);
}

static hd_ns session_deadline(const struct hd_session *s) {
	switch (s->state) {
	case SESSION_HELLO:
	case SESSION_CANDIDATE:
		return s->hello_at;
	case SESSION_OPEN:
		return hd_ns_min(stream_deadline(s), liveness_deadline(s));
	default:
		return HD_NEVER;
	}
}

void session_reschedule(struct hd_session *s) {
	if (s->state == SESSION_DEAD)
		return;
	s->due = session_deadline(s);
	heap_up(s->endpoint, s);
	heap_down(s->endpoint, s);
}

void session_schedule(struct hd_session *s) {
	hd_ns due = session_deadline(s);

	if (s->state == SESSION_DEAD || due >= s->due)
		return;
	s->due = due;
	heap_up(s->endpoint, s);
}

/* --- tables ---------------------------------------------------------------------------------- */

static uint32_t bucket_of(const struct hd_endpoint *e, struct hd_addr peer) {
	uint64_t x = ((uint64_t)peer.ipv4 << 16 | peer.port) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(x >> 40) & e->bucket_mask;
}

static void address_insert(struct hd_session *s) {
	struct hd_session **bucket = &s->endpoint->addresses[bucket_of(s->endpoint, s->peer)];

	s->address_next = *bucket;
	*bucket = s;
}

static void address_remove(struct hd_session *s) {
	struct hd_session **at = &s->endpoint->addresses[bucket_of(s->endpoint, s->peer)];

	while (*at != s)
		at = &(*at)->address_next;
	*at = s->address_next;
}

struct hd_session *session_by_address(const struct hd_endpoint *e, struct hd_addr peer) {
	return e->addresses[bucket_of(e, peer)];
}

struct hd_session *session_older(
	const struct hd_endpoint *e,
	uint32_t *slot,
	struct hd_addr home,
	uint64_t boot,
	const char *name
) {
	while (*slot < e->slot_count) {
		struct hd_session *old = e->slots[(*slot)++].session;

		if (old && !old->ours && old->state == SESSION_OPEN
		    && (hd_addr_equal(old->home, home)
			|| (old->boot == boot && strcmp(old->name, name) == 0)))
			return old;
	}
	return NULL;
}

void session_move(struct hd_session *s, struct hd_addr peer) {
	if (hd_addr_equal(s->peer, peer))
		return;
	address_remove(s);
	s->peer = peer;
	address_insert(s);
}

void session_put(
	const struct hd_session *s,
	uint8_t kind,
	const uint8_t *packet,
	size_t bytes,
	struct hd_sink *sink
) {
	sink->send(sink, s->peer, packet, bytes, NULL, 0);
	if (!s->ours && kind != HD_MSG_PING && !hd_addr_equal(s->peer, s->home))
		sink->send(sink, s->home, packet, bytes, NULL, 0);
}

struct hd_session *session_by_id(const struct hd_endpoint *e, uint32_t id) {
	uint32_t slot = id & SLOT_MASK;
	struct hd_session *s = slot < e->slot_count ? e->slots[slot].session : NULL;

	return s && s->id == id ? s : NULL;
}

/* Doubles slots, heap and buckets together. False: at the limit, or out of memory; then nothing visible has changed. */
static bool grow(struct hd_endpoint *e) {
	uint32_t count = e->slot_count ? 2 * e->slot_count : SLOTS_FIRST;
	struct hd_session **heap, **addresses;
	struct slot *slots;

	if (count > e->slots_max)
		count = e->slots_max;
	if (count == e->slot_count)
		return false;
	heap = realloc(e->heap, count * sizeof(struct hd_session *));
	if (!heap)
		return false;
	e->heap = heap;
	slots = realloc(e->slots, count * sizeof *slots);
	if (!slots)
		return false;
	e->slots = slots;
	while (e->bucket_mask + 1 < count) {
		addresses = calloc(2 * ((size_t)e->bucket_mask + 1), sizeof(struct hd_session *));
		if (!addresses)
			return false;
		free(e->addresses);
		e->addresses = addresses;
		e->bucket_mask = 2 * e->bucket_mask + 1;
		for (uint32_t i = 0; i < e->slot_count; i++)
			if (e->slots[i].session)
				address_insert(e->slots[i].session);
	}
	for (uint32_t i = count; i-- > e->slot_count;) {
		uint32_t generation = (uint32_t)hd_entropy_u64(&e->entropy) & GENERATION_MASK;

		slots[i] = (struct slot){NULL, generation, e->free_slot};
		e->free_slot = i;
	}
	e->slot_count = count;
	return true;
}

/* A new id in the same slot: packets with the old one belong to an unknown session. Never 0. */
static void renumber(struct hd_session *s, uint32_t slot) {
	struct slot *entry = &s->endpoint->slots[slot];

	do {
		entry->generation = (entry->generation + 1) & GENERATION_MASK;
	} while (entry->generation == 0);
	s->id = entry->generation << SLOT_BITS | slot;
}

struct hd_session *session_create(struct hd_endpoint *e, struct hd_addr peer, bool ours) {
	struct hd_session *s;
	uint32_t slot;

	if (e->free_slot == NO_SLOT && !grow(e))
		return NULL;
	s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	slot = e->free_slot;
	e->free_slot = e->slots[slot].next_free;
	e->slots[slot].session = s;
	s->endpoint = e;
	s->ours = ours;
	s->key_id = e->config.key_id;
	s->peer = s->home = peer; /* theirs: the cookie came back from this address */
	s->due = HD_NEVER;
	stream_init(s);
	renumber(s, slot);
	address_insert(s);
	heap_place(e, e->heap_count++, s);
	return s;
}

static void session_free(struct hd_session *s) {
	sodium_memzero(s->key, sizeof s->key);
	free(s);
}

void session_release(struct hd_session *s) {
	struct hd_endpoint *e = s->endpoint;
	uint32_t slot = s->id & SLOT_MASK;

	if (s->state == SESSION_DEAD)
		return;
	if (s->state == SESSION_CANDIDATE) {
		TAILQ_REMOVE(&e->candidates, s, candidate);
		e->candidate_count--;
	} else {
		e->open_count--;
	}
	s->state = SESSION_DEAD;
	stream_fini(s);
	heap_remove(e, s);
	address_remove(s);
	e->slots[slot].session = NULL;
	e->slots[slot].next_free = e->free_slot;
	e->free_slot = slot;
	if (e->depth == 0) {
		session_free(s);
		return;
	}
	s->graveyard_next = e->graveyard;
	e->graveyard = s;
}

void endpoint_leave(struct hd_endpoint *e) {
	hd_assert(e->depth > 0);
	if (--e->depth > 0)
		return;
	while (e->graveyard) {
		struct hd_session *s = e->graveyard;

		e->graveyard = s->graveyard_next;
		session_free(s);
	}
}

void session_end(
	struct hd_session *s,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_endpoint *e = s->endpoint;
	bool again = s->ours && reason != HD_REASON_REFUSED;

	if (s->state == SESSION_OPEN)
		e->stats.closed++;
	s->state = SESSION_CLOSING;
	e->config.ops->closed(e->config.owner, s, reason, text, now, sink);
	if (s->state != SESSION_CLOSING)
		return;
	if (!again) {
		session_release(s);
		return;
	}
	stream_fini(s);
	renumber(s, s->id & SLOT_MASK);
	/* At once after a timeout, when the peer may have restarted; else with a delay, so that two nodes cannot
	 * loop. */
	hello_start(s, reason == HD_REASON_TIMEOUT ? now : now + HD_RTO_INITIAL_US * HD_US);
}
