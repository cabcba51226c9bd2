/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_switch_table.h"

#include <errno.h>
#include <stdlib.h>

int hd_switch_table_init(struct hd_switch_table *table, size_t count, const uint64_t secret[2]) {
	size_t places = 16;

	while (places < 2 * count)
		places *= 2;
	table->entries = calloc(places, sizeof *table->entries);
	if (!table->entries)
		return -ENOMEM;
	table->mask = places - 1;
	table->secret[0] = secret[0];
	table->secret[1] = secret[1];
	return 0;
}

void hd_switch_table_fini(struct hd_switch_table *table) {
	free(table->entries);
	table->entries = NULL;
}

/* Moves back entries that the hole would make unreachable: Knuth, volume 3, 6.4, algorithm R. */
void hd_switch_table_remove(struct hd_switch_table *table, struct hd_switch_entry *entry) {
	uint64_t hole = (uint64_t)(entry - table->entries);

	for (uint64_t i = (hole + 1) & table->mask; table->entries[i].key != 0;
	     i = (i + 1) & table->mask) {
		uint64_t home = hd_switch_table_place(table, table->entries[i].key);

		/* Is its home at the hole or before, seen from its place? */
		if (((i - home) & table->mask) >= ((i - hole) & table->mask)) {
			table->entries[hole] = table->entries[i];
			hole = i;
		}
	}
	table->entries[hole] = (struct hd_switch_entry){0};
}
