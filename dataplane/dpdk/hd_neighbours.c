/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_neighbours.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define CAPACITY_MAX 65534

struct neighbour {
	TAILQ_ENTRY(neighbour) used; /* the least recently used first; or the list of free ones */
	TAILQ_ENTRY(neighbour) asked; /* while `asking` */
	SLIST_ENTRY(neighbour) bucket;
	uint32_t ipv4;
	struct hd_mac mac;
	bool known, asking;
	hd_ns heard_at; /* when the station last confirmed it */
	hd_ns asked_at; /* the last request */
	hd_ns asking_since;
	uint32_t waiting_count;
	void *waiting[HD_NEIGHBOUR_WAITING_MAX]; /* in order; the first is the oldest */
};

TAILQ_HEAD(neighbour_list, neighbour);
SLIST_HEAD(neighbour_bucket, neighbour);

struct hd_neighbours {
	const struct hd_neighbour_ops *ops;
	void *owner;
	uint32_t count, mask, capacity;
	uint32_t touched; /* entries from here on were never used, and cost no memory yet */
	struct neighbour_list free, used, asked;
	struct neighbour_bucket *buckets;
	struct neighbour *all;
	struct hd_neighbour_stats stats;
};

int hd_neighbours_create(
	uint32_t capacity,
	const struct hd_neighbour_ops *ops,
	void *owner,
	struct hd_neighbours **neighbours
) {
	struct hd_neighbours *n;
	uint32_t buckets = 16;

	if (capacity == 0 || capacity > CAPACITY_MAX)
		return -EINVAL;
	while (buckets < capacity)
		buckets *= 2;
	n = calloc(1, sizeof *n);
	if (!n)
		return -ENOMEM;
	n->all = calloc(capacity, sizeof *n->all);
	n->buckets = calloc(buckets, sizeof *n->buckets);
	if (!n->all || !n->buckets) {
		free(n->all);
		free(n->buckets);
		free(n);
		return -ENOMEM;
	}
	n->ops = ops;
	n->owner = owner;
	n->mask = buckets - 1;
	n->capacity = capacity;
	TAILQ_INIT(&n->free);
	TAILQ_INIT(&n->used);
	TAILQ_INIT(&n->asked);
	*neighbours = n;
	return 0;
}

static void drop_waiting(struct hd_neighbours *n, struct neighbour *entry) {
	for (uint32_t i = 0; i < entry->waiting_count; i++)
		n->ops->drop(n->owner, entry->waiting[i]);
	entry->waiting_count = 0;
}

void hd_neighbours_destroy(struct hd_neighbours *n) {
	struct neighbour *entry;

	if (!n)
		return;
	TAILQ_FOREACH (entry, &n->used, used)
		drop_waiting(n, entry);
	free(n->all);
	free(n->buckets);
	free(n);
}

/* Fibonacci hashing: neighbours' addresses differ in their last bits. */
static struct neighbour_bucket *bucket_of(const struct hd_neighbours *n, uint32_t ipv4) {
	return &n->buckets[((ipv4 * UINT32_C(2654435769)) >> 8) & n->mask];
}

static struct neighbour *find(const struct hd_neighbours *n, uint32_t ipv4) {
	struct neighbour *entry;

	SLIST_FOREACH (entry, bucket_of(n, ipv4), bucket)
		if (entry->ipv4 == ipv4)
			return entry;
	return NULL;
}

static void stop_asking(struct hd_neighbours *n, struct neighbour *entry) {
	if (!entry->asking)
		return;
	TAILQ_REMOVE(&n->asked, entry, asked);
	entry->asking = false;
}

static void forget(struct hd_neighbours *n, struct neighbour *entry) {
	drop_waiting(n, entry);
	stop_asking(n, entry);
	SLIST_REMOVE(bucket_of(n, entry->ipv4), entry, neighbour, bucket);
	TAILQ_REMOVE(&n->used, entry, used);
	TAILQ_INSERT_HEAD(&n->free, entry, used);
	n->count--;
}

static struct neighbour *add(struct hd_neighbours *n, uint32_t ipv4) {
	struct neighbour *entry;

	if (n->count == n->capacity) {
		forget(n, TAILQ_FIRST(&n->used));
		n->stats.evicted++;
	}
	entry = TAILQ_FIRST(&n->free);
	if (entry)
		TAILQ_REMOVE(&n->free, entry, used);
	else
		entry = &n->all[n->touched++];
	*entry = (struct neighbour){.ipv4 = ipv4};
	TAILQ_INSERT_TAIL(&n->used, entry, used);
	SLIST_INSERT_HEAD(bucket_of(n, ipv4), entry, bucket);
	n->count++;
	return entry;
}

/* Requests for old entries go to the station itself, which does not disturb others. */
static void ask(struct hd_neighbours *n, struct neighbour *entry, hd_ns now) {
	if (!entry->asking) {
		entry->asking = true;
		entry->asking_since = now;
	} else {
		TAILQ_REMOVE(&n->asked, entry, asked);
	}
	TAILQ_INSERT_TAIL(&n->asked, entry, asked); /* so the list is ordered by asked_at */
	entry->asked_at = now;
	n->stats.asked++;
	n->ops->ask(n->owner, entry->ipv4, entry->known ? &entry->mac : NULL);
}

bool hd_neighbours_resolve(struct hd_neighbours *n, hd_ns now, uint32_t ipv4, struct hd_mac *mac) {
	struct neighbour *entry = find(n, ipv4);

	if (!entry)
		entry = add(n, ipv4);
	if (entry != TAILQ_LAST(&n->used, neighbour_list)) {
		TAILQ_REMOVE(&n->used, entry, used);
		TAILQ_INSERT_TAIL(&n->used, entry, used);
	}
	if (!entry->asking
	    && (!entry->known || now >= hd_ns_add(entry->heard_at, HD_NEIGHBOUR_FRESH_US * HD_US)))
		ask(n, entry, now);
	if (entry->known)
		*mac = entry->mac;
	return entry->known;
}

bool hd_neighbours_knows(const struct hd_neighbours *n, uint32_t ipv4) {
	const struct neighbour *entry = find(n, ipv4);

	return entry && entry->known;
}

void hd_neighbours_hold(struct hd_neighbours *n, uint32_t ipv4, void *packet) {
	struct neighbour *entry = find(n, ipv4);

	assert(entry && !entry->known);
	if (entry->waiting_count == HD_NEIGHBOUR_WAITING_MAX) {
		n->ops->drop(n->owner, entry->waiting[0]);
		entry->waiting_count--;
		for (uint32_t i = 0; i < entry->waiting_count; i++)
			entry->waiting[i] = entry->waiting[i + 1];
	}
	entry->waiting[entry->waiting_count++] = packet;
}

void hd_neighbours_learn(
	struct hd_neighbours *n,
	hd_ns now,
	uint32_t ipv4,
	const struct hd_mac *mac,
	bool for_us
) {
	struct neighbour *entry = find(n, ipv4);
	bool same;

	if (!entry && !for_us) {
		n->stats.ignored++;
		return;
	}
	if (!entry)
		entry = add(n, ipv4);
	same = entry->known && memcmp(&entry->mac, mac, sizeof *mac) == 0;
	if (entry->known && !same) {
		if (now < hd_ns_add(entry->heard_at, HD_NEIGHBOUR_LOCK_US * HD_US)) {
			n->stats.ignored++;
			return;
		}
		n->stats.moved++;
	}
	stop_asking(n, entry);
	entry->mac = *mac;
	entry->known = true;
	entry->heard_at = now;
	for (uint32_t i = 0; i < entry->waiting_count; i++)
		n->ops->send(n->owner, entry->waiting[i], &entry->mac);
	entry->waiting_count = 0;
}

hd_ns hd_neighbours_deadline(const struct hd_neighbours *n) {
	const struct neighbour *first = TAILQ_FIRST(&n->asked);

	return first ? hd_ns_add(first->asked_at, HD_NEIGHBOUR_RETRY_US * HD_US) : HD_NEVER;
}

void hd_neighbours_tick(struct hd_neighbours *n, hd_ns now) {
	while (hd_neighbours_deadline(n) <= now) {
		struct neighbour *entry = TAILQ_FIRST(&n->asked);

		if (now >= hd_ns_add(entry->asking_since, HD_NEIGHBOUR_GIVE_UP_US * HD_US)) {
			n->stats.given_up++;
			forget(n, entry);
		} else {
			ask(n, entry, now);
		}
	}
}

uint32_t hd_neighbours_count(const struct hd_neighbours *n) {
	return n->count;
}

const struct hd_neighbour_stats *hd_neighbours_stats(const struct hd_neighbours *n) {
	return &n->stats;
}
