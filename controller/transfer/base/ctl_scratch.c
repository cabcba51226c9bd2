/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a planning pass: tables by link and by pending transfer, kept from pass to pass. */
#include "ctl_base.h"
#include "ctl_transfers.h"

#include <errno.h>
#include <stdlib.h>

static int grow(void **array, uint32_t count, size_t size) {
	void *grown = realloc(*array, count * size);

	if (!grown)
		return -ENOMEM;
	*array = grown;
	return 0;
}

int ctl_scratch_links(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;
	uint32_t count = ctl_link_count(c), old = s->link_capacity;

	if (count <= old)
		return 0;
	if (grow((void **)&s->link_busy, count, sizeof *s->link_busy)
	    || grow((void **)&s->link_queued, count, sizeof *s->link_queued)
	    || grow((void **)&s->link_behind, count, sizeof *s->link_behind)
	    || grow((void **)&s->capacity, count, sizeof *s->capacity)
	    || grow((void **)&s->flow, count, sizeof *s->flow)
	    || grow((void **)&s->link_gathers, count, sizeof *s->link_gathers)
	    || grow((void **)&s->link_probe, count, sizeof *s->link_probe)
	    || grow((void **)&c->link_use, count, sizeof *c->link_use)
	    || grow((void **)&c->link_copies, count, sizeof *c->link_copies))
		return -ENOMEM;
	for (uint32_t i = old; i < count; i++) {
		s->link_busy[i] = HD_PLAN_NONE;
		s->capacity[i] = 0;
		c->link_use[i] = 0;
		c->link_copies[i] = 0;
		s->link_probe[i] = (struct ctl_link_probe){.partner = -1};
	}
	s->link_capacity = count;
	return 0;
}

int ctl_scratch_items(struct ctl_scratch *s, uint32_t count) {
	uint32_t capacity = count < 64 ? 64 : count * 2;

	if (count <= s->item_capacity)
		return 0;
	if (grow((void **)&s->items, capacity, sizeof *s->items)
	    || grow((void **)&s->item_transfer, capacity, sizeof(struct ctl_transfer *))
	    || grow((void **)&s->grant, capacity, sizeof *s->grant)
	    || grow((void **)&s->behind, capacity, sizeof *s->behind))
		return -ENOMEM;
	s->item_capacity = capacity;
	return 0;
}

void ctl_scratch_fini(struct ctl_scratch *s) {
	free(s->items);
	free(s->item_transfer);
	free(s->grant);
	free(s->behind);
	free(s->busy);
	free(s->busy_next);
	free(s->link_busy);
	free(s->link_queued);
	free(s->link_behind);
	free(s->link_probe);
	free(s->capacity);
	free(s->flow);
	free(s->link_gathers);
}
