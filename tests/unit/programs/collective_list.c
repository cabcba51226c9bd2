/* SPDX-License-Identifier: BSD-3-Clause */
/* Values in many buffers. */
#include "collective_list.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 4711.0f

bool list_make(struct list *list, const float *values, uint64_t count) {
	uint64_t at = count + LIST_PARTS, done = 0;

	list->memory = malloc(at * sizeof(float));
	if (!list->memory)
		return false;
	for (unsigned k = 0; k < LIST_PARTS; k++) {
		const uint64_t left = count - done;
		const uint64_t size = k == LIST_PARTS - 1 ? left : k % 3 == 0 ? 0 : left / (k + 1);

		at -= size;
		list->part[k] = (struct heddle_part){list->memory + at, size};
		memcpy(list->memory + at, values + done, size * sizeof(float));
		list->memory[--at] = GUARD;
		done += size;
	}
	return true;
}

bool list_take(const struct list *list, float *values) {
	bool good = true;

	for (unsigned k = 0; k < LIST_PARTS; k++) {
		const float *data = list->part[k].data;

		memcpy(values, data, list->part[k].count * sizeof(float));
		values += list->part[k].count;
		good = good && data[-1] == GUARD;
	}
	return good;
}

void list_free(struct list *list) {
	free(list->memory);
}
