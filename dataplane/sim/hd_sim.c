/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_sim_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define BLOCK_BYTES (256u << 10)

/* Memory that is allocated and never freed: free lists recycle it. */
struct sim_block {
	struct sim_block *next;
	size_t used, capacity;
	_Alignas(64) uint8_t data[];
};

static struct sim_block *add_block(struct hd_sim *sim, size_t capacity) {
	struct sim_block *block = malloc(sizeof *block + capacity);

	if (!block)
		return NULL;
	block->used = 0;
	block->capacity = capacity;
	block->next = sim->blocks;
	sim->blocks = block;
	return block;
}

void *sim_allocate(struct hd_sim *sim, size_t bytes) {
	struct sim_block *block = sim->blocks;
	void *memory;

	bytes = (bytes + 15) & ~(size_t)15;
	if (!block || block->capacity - block->used < bytes)
		block = add_block(sim, bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES);
	if (!block) {
		sim->failure = "out of memory";
		return NULL;
	}
	memory = block->data + block->used;
	block->used += bytes;
	return memory;
}

void sim_push(struct hd_sim *sim, hd_ns at, enum sim_event_kind kind, void *subject) {
	struct sim_entry entry = {
		.at = at,
		.order_kind = sim->order++ << 3 | (uint64_t)kind,
		.subject = subject,
	};

	if (sim_queue_push(&sim->queue, entry) < 0)
		sim->failure = "out of memory";
}

int hd_sim_create(uint64_t seed, struct hd_sim **sim) {
	struct hd_sim *s = calloc(1, sizeof *s);

	if (!s)
		return -ENOMEM;
	s->hosts = calloc(HD_SIM_HOSTS_MAX, sizeof *s->hosts);
	s->flows = calloc(HD_SIM_FLOWS_MAX, sizeof(struct sim_flow *));
	if (!s->hosts || !s->flows) {
		hd_sim_destroy(s);
		return -ENOMEM;
	}
	s->switch_count = 1;
	hd_random_init(&s->random, seed);
	*sim = s;
	return 0;
}

void hd_sim_destroy(struct hd_sim *sim) {
	if (!sim)
		return;
	for (struct sim_block *block = sim->blocks, *next; block; block = next) {
		next = block->next;
		free(block);
	}
	free(sim->queue.entry);
	free(sim->nodes);
	free(sim->hosts);
	free(sim->flows);
	free(sim);
}

hd_ns hd_sim_now(const struct hd_sim *sim) {
	return sim->now;
}

const struct hd_sim_stats *hd_sim_stats(const struct hd_sim *sim) {
	return &sim->stats;
}

const char *hd_sim_failure(const struct hd_sim *sim) {
	return sim->failure;
}

void hd_sim_set_faults(struct hd_sim *sim, const struct hd_sim_faults *faults) {
	sim->faults = *faults;
	if (sim->faults.reorder_delay == 0)
		sim->faults.reorder_delay = HD_MS;
	sim->faulty = faults->loss > 0 || faults->duplicate > 0 || faults->reorder > 0;
}

int hd_sim_at(struct hd_sim *sim, hd_ns at, void (*call)(void *owner, hd_ns now), void *owner) {
	struct sim_call *entry = sim->free_calls;

	if (entry)
		sim->free_calls = entry->next;
	else
		entry = sim_allocate(sim, sizeof *entry);
	if (!entry)
		return -ENOMEM;
	*entry = (struct sim_call){.call = call, .owner = owner};
	sim_push(sim, hd_ns_max(at, sim->now), SIM_EVENT_CALL, entry);
	return 0;
}

static void run_call(struct hd_sim *sim, struct sim_call *entry) {
	struct sim_call copy = *entry;

	entry->next = sim->free_calls;
	sim->free_calls = entry;
	copy.call(copy.owner, sim->now);
}

bool hd_sim_advance(struct hd_sim *sim, hd_ns until) {
	struct sim_entry entry;

	if (sim->queue.count == 0 || sim->queue.entry[0].at > until || sim->failure) {
		if (until != HD_NEVER)
			sim->now = hd_ns_max(sim->now, until);
		return false;
	}
	entry = sim_queue_pop(&sim->queue);
	assert(entry.at >= sim->now);
	sim->now = entry.at;
	sim->stats.events++;
	switch ((enum sim_event_kind)(entry.order_kind & 7)) {
	case SIM_EVENT_LINK:
		sim_link_event(sim, entry.subject);
		break;
	case SIM_EVENT_PACKET:
		sim_packet_event(sim, entry.subject);
		break;
	case SIM_EVENT_NODE:
		sim_node_event(sim, entry.subject);
		break;
	case SIM_EVENT_CALL:
		run_call(sim, entry.subject);
		break;
	case SIM_EVENT_FLOW:
		sim_flow_event(sim, entry.subject);
		break;
	}
	return true;
}

void hd_sim_run(struct hd_sim *sim, hd_ns until) {
	while (hd_sim_advance(sim, until)) {}
}
