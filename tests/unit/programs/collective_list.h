/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of collective_worker.c: values in many buffers. */
#ifndef COLLECTIVE_LIST_H
#define COLLECTIVE_LIST_H

#include "heddle.h"

#include <stdbool.h>

#define LIST_PARTS 9

struct list {
	struct heddle_part part[LIST_PARTS];
	float *memory; /* of all parts, with guards between them */
};

/* Copies `count` values into parts of many sizes, some of them empty, whose order in memory is the reverse. False: no
 * memory. */
bool list_make(struct list *list, const float *values, uint64_t count);
/* Copies them back. False: something was written beside the parts. */
bool list_take(const struct list *list, float *values);
void list_free(struct list *list);

#endif
