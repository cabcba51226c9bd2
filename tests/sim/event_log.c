/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log of the events of a simulation's nodes, to compare two builds (tests/same_events.py). Linked into the worlds in
 * front of the simulator (ld --wrap); without HEDDLE_EVENT_LOG it does nothing.
 *
 *   HEDDLE_EVENT_LOG=FILE    a line for each simulation when it ends: "sim I events N digest D"
 *   HEDDLE_EVENT_LINES=I     and of the I-th (from 0) each event, as it comes
 *
 * An event is its node, kind, transfer, version and virtual time, and its other fields except the token, which is
 * random. The digest does not depend on the order of a node's events at one instant: their hashes are added.
 */
#include "hd_sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIMS_MAX 64 /* at once */

struct watched_node {
	struct watched_sim *sim;
	int index;
	void (*event)(void *owner, int node, const struct hd_event *event);
	void *owner;
	hd_ns at; /* of the newest event */
	uint64_t instant; /* sum of the hashes at that time */
	uint64_t digest; /* of all times before */
	struct watched_node *next;
};

struct watched_sim {
	struct hd_sim *sim; /* NULL: free */
	unsigned number;
	uint64_t events;
	struct watched_node *nodes; /* newest first */
};

static struct watched_sim sims[SIMS_MAX];
static unsigned sim_count;
static FILE *log_file;
static long lines_of = -1;

int __real_hd_sim_create(uint64_t seed, struct hd_sim **sim);
void __real_hd_sim_destroy(struct hd_sim *sim);
int __real_hd_sim_node(struct hd_sim *sim, const struct hd_sim_node_config *config);
int __wrap_hd_sim_create(uint64_t seed, struct hd_sim **sim);
void __wrap_hd_sim_destroy(struct hd_sim *sim);
int __wrap_hd_sim_node(struct hd_sim *sim, const struct hd_sim_node_config *config);

static bool is_wanted(void) {
	const char *path = getenv("HEDDLE_EVENT_LOG"), *lines = getenv("HEDDLE_EVENT_LINES");

	if (!path || log_file)
		return path;
	log_file = fopen(path, "a");
	if (!log_file) {
		perror(path);
		exit(74);
	}
	if (lines)
		lines_of = strtol(lines, NULL, 10);
	return true;
}

/* splitmix64's (Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t x) {
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t add(uint64_t digest, uint64_t x) {
	return mix(digest + UINT64_C(0x9e3779b97f4a7c15) + mix(x));
}

static uint64_t hash_of(const struct hd_event *event) {
	uint64_t value, hash = 0;

	memcpy(&value, &event->value, sizeof value);
	hash = add(hash, (uint64_t)event->kind << 32 | (uint64_t)event->reason);
	hash
		= add(hash,
		      (uint64_t)event->job << 32 | (uint64_t)event->worker << 8 | event->direction);
	hash = add(hash, (uint64_t)event->round << 16 | event->more);
	hash = add(hash, event->at);
	hash = add(hash, event->position);
	hash = add(hash, event->version);
	hash = add(hash, event->base);
	hash = add(hash, event->bytes);
	hash = add(hash, event->aux);
	return add(hash, value);
}

static void fold(struct watched_node *node) {
	node->digest = add(add(node->digest, node->at), node->instant);
	node->instant = 0;
}

static void write_line(const struct watched_node *node, const struct hd_event *e, hd_ns now) {
	(void)fprintf(
		log_file,
		"%" PRIu64 " node %d %s %s job %u worker %u direction %u round %u position %" PRIu64
		" version %" PRIu64 " base %" PRIu64 " bytes %" PRIu64 " aux %" PRIu64
		" value %.17g more %u at %" PRIu64 "\n",
		now,
		node->index,
		hd_event_name(e->kind),
		hd_reason_name(e->reason),
		e->job,
		e->worker,
		e->direction,
		e->round,
		e->position,
		e->version,
		e->base,
		e->bytes,
		e->aux,
		e->value,
		e->more,
		e->at
	);
}

static void on_event(void *owner, int index, const struct hd_event *event) {
	struct watched_node *node = owner;
	const hd_ns now = hd_sim_now(node->sim->sim);

	if (now != node->at)
		fold(node);
	node->at = now;
	node->instant += hash_of(event);
	node->sim->events++;
	if (lines_of == (long)node->sim->number)
		write_line(node, event, now);
	if (node->event)
		node->event(node->owner, index, event);
}

static struct watched_sim *find(const struct hd_sim *sim) {
	for (unsigned i = 0; i < SIMS_MAX; i++)
		if (sims[i].sim == sim)
			return &sims[i];
	return NULL;
}

int __wrap_hd_sim_create(uint64_t seed, struct hd_sim **sim) {
	int rc = __real_hd_sim_create(seed, sim);
	struct watched_sim *watched = rc == 0 && is_wanted() ? find(NULL) : NULL;

	if (watched)
		*watched = (struct watched_sim){.sim = *sim, .number = sim_count++};
	return rc;
}

int __wrap_hd_sim_node(struct hd_sim *sim, const struct hd_sim_node_config *config) {
	struct watched_sim *watched = is_wanted() ? find(sim) : NULL;
	struct hd_sim_node_config mine = *config;
	struct watched_node *node;

	if (!watched)
		return __real_hd_sim_node(sim, config);
	node = calloc(1, sizeof *node);
	if (!node)
		abort();
	*node = (struct watched_node){
		.sim = watched,
		.event = config->event,
		.owner = config->owner,
		.next = watched->nodes,
	};
	mine.event = on_event;
	mine.owner = node;
	node->index = __real_hd_sim_node(sim, &mine);
	if (node->index < 0) {
		int rc = node->index;

		free(node);
		return rc;
	}
	watched->nodes = node;
	return node->index;
}

void __wrap_hd_sim_destroy(struct hd_sim *sim) {
	struct watched_sim *watched = sim && is_wanted() ? find(sim) : NULL;
	uint64_t digest = 0;

	while (watched && watched->nodes) {
		struct watched_node *node = watched->nodes;

		watched->nodes = node->next;
		fold(node);
		digest = add(digest, node->digest);
		free(node);
	}
	if (watched) {
		(void)fprintf(
			log_file,
			"sim %u events %" PRIu64 " digest %016" PRIx64 "\n",
			watched->number,
			watched->events,
			digest
		);
		(void)fflush(log_file);
		watched->sim = NULL;
	}
	__real_hd_sim_destroy(sim);
}
