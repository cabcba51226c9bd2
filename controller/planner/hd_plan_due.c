/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_plan_due.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int hd_due_reserve(struct hd_due *due, uint32_t count) {
	if (count <= due->room)
		return 0;
	uint32_t room = due->room == 0 ? 16 : due->room;
	while (room < count)
		room *= 2;
	struct hd_due fresh = {
		.nodes = malloc(2 * (size_t)room * sizeof *fresh.nodes),
		.deadlines = malloc(room * sizeof *fresh.deadlines),
		.waiting = malloc(room * sizeof *fresh.waiting),
		.room = room,
	};
	if (!fresh.nodes || !fresh.deadlines || !fresh.waiting) {
		hd_due_fini(&fresh);
		return -ENOMEM;
	}
	hd_due_fini(due);
	*due = fresh;
	return 0;
}

void hd_due_fini(struct hd_due *due) {
	free(due->nodes);
	free(due->deadlines);
	free(due->waiting);
	*due = (struct hd_due){0};
}

void hd_due_clear(struct hd_due *due) {
	due->count = 0;
	due->width = 0;
}

uint32_t hd_due_add(struct hd_due *due, int64_t deadline) {
	if (due->count == 0 || due->deadlines[due->count - 1] != deadline) {
		due->deadlines[due->count] = deadline;
		due->waiting[due->count++] = 0;
	}
	due->waiting[due->count - 1]++;
	return due->count - 1;
}

/* The parent of two nodes. */
static struct hd_due_node joined(const struct hd_due_node *two) {
	const struct hd_due_node left = two[0], right = two[1];
	const int64_t beyond = right.least >= HD_DUE_NONE ? HD_DUE_NONE : left.sum + right.least;

	return (struct hd_due_node){
		.sum = left.sum + right.sum,
		.least = left.least < beyond ? left.least : beyond,
	};
}

void hd_due_build(struct hd_due *due) {
	int64_t before = 0, members = 0;

	due->width = 1;
	while (due->width < due->count)
		due->width *= 2;
	for (uint32_t leaf = 0; leaf < due->width; leaf++) {
		struct hd_due_node *node = &due->nodes[due->width + leaf];

		*node = (struct hd_due_node){.sum = 0, .least = HD_DUE_NONE};
		if (leaf >= due->count)
			continue;
		members += due->waiting[leaf];
		const int64_t slack = due->deadlines[leaf] - members;
		node->sum = node->least = slack - before;
		before = slack;
	}
	for (uint32_t k = due->width - 1; k > 0; k--)
		due->nodes[k] = joined(&due->nodes[(size_t)2 * k]);
}

static void change(struct hd_due *due, uint32_t leaf, int64_t difference) {
	uint32_t k = due->width + leaf;

	due->nodes[k].sum += difference;
	due->nodes[k].least = due->waiting[leaf] > 0 ? due->nodes[k].sum : HD_DUE_NONE;
	for (k /= 2; k > 0; k /= 2)
		due->nodes[k] = joined(&due->nodes[(size_t)2 * k]);
}

/* i grows by one and one member of all D >= d(g) is gone: one less for the deadlines before d(g). */
void hd_due_take(struct hd_due *due, uint32_t leaf) {
	due->waiting[leaf]--;
	change(due, leaf, leaf == 0 ? 0 : 1);
	if (leaf > 0)
		change(due, 0, -1);
}

void hd_due_drop(struct hd_due *due, uint32_t leaf) {
	due->waiting[leaf]--;
	change(due, leaf, 1);
}

int64_t hd_due_tight(const struct hd_due *due) {
	int64_t sum = 0;
	uint32_t k = 1;

	if (due->count == 0 || due->nodes[1].least > 0)
		return INT64_MAX;
	while (k < due->width) {
		const struct hd_due_node *left = &due->nodes[(size_t)2 * k];

		k = 2 * k;
		if (left->least < HD_DUE_NONE && sum + left->least <= 0)
			continue;
		sum += left->sum;
		k++;
	}
	return due->deadlines[k - due->width];
}
