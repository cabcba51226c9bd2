/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table from 64 bits to 64 bits: open addressing, at most half full. A key's place depends on a secret, so that an
 * attacker cannot choose colliding keys. Private to the switch's core.
 */
#ifndef HD_SWITCH_TABLE_H
#define HD_SWITCH_TABLE_H

#include "hd_types.h"

struct hd_switch_entry {
	uint64_t key; /* 0: empty */
	uint64_t value;
};

struct hd_switch_table {
	struct hd_switch_entry *entries;
	uint64_t mask; /* a power of 2, less 1 */
	uint64_t secret[2];
};

/* For up to `count` entries. -ENOMEM. */
int hd_switch_table_init(struct hd_switch_table *table, size_t count, const uint64_t secret[2]);
void hd_switch_table_fini(struct hd_switch_table *table);

/* The key's entry; or else the empty one for it. */
static inline struct hd_switch_entry *
hd_switch_table_at(const struct hd_switch_table *table, uint64_t place, uint64_t key) {
	for (uint64_t i = place & table->mask;; i = (i + 1) & table->mask) {
		struct hd_switch_entry *entry = &table->entries[i];

		if (entry->key == key || entry->key == 0)
			return entry;
	}
}

/* Where the search begins; a separate step, so that it can be prefetched. */
static inline uint64_t hd_switch_table_place(const struct hd_switch_table *table, uint64_t key) {
	unsigned __int128 product
		= (unsigned __int128)(key ^ table->secret[0]) * (table->secret[1] | 1);

	return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

/* NULL: not there. */
static inline struct hd_switch_entry *
hd_switch_table_find(const struct hd_switch_table *table, uint64_t key) {
	struct hd_switch_entry *entry
		= hd_switch_table_at(table, hd_switch_table_place(table, key), key);

	return entry->key == 0 ? NULL : entry;
}

/* Adds, or replaces the value. The caller never adds more than init's `count`. */
static inline void
hd_switch_table_put(struct hd_switch_table *table, uint64_t key, uint64_t value) {
	struct hd_switch_entry *entry
		= hd_switch_table_at(table, hd_switch_table_place(table, key), key);

	entry->key = key;
	entry->value = value;
}

/* Other entries may move to its place. */
void hd_switch_table_remove(struct hd_switch_table *table, struct hd_switch_entry *entry);

#endif
