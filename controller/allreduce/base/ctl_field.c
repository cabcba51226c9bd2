/* SPDX-License-Identifier: BSD-3-Clause */
/* The hosts of a collective: their aggregators, and the present rates of their links. */
#include "ctl_base.h"
#include "ctl_estimate.h"
#include "ctl_field.h"
#include "hd_group.h"
#include "hd_reduce.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define LINK_FREE 1e15 /* bytes/s of a host that has no link of its own: no limit */

/* Links of workers' hosts whose estimates are within this factor of the best are taken to be equal: estimates are no
 * more precise, and uneven shards on even links would follow their noise. */
#define EVEN 0.9
/*
 * A link with a lower estimate carries little of a round and is never full again, so no sample would show that it is
 * faster by now. At intervals it is taken to be twice as fast. When its estimate has not grown by a tenth, the next
 * interval is twice as long: minimum, multiple of a round's time, number of doublings.
 */
#define TRY_FACTOR 2
#define TRY_GREW 1.1
#define TRY_AGAIN_NS (2 * HD_SECOND)
#define TRY_AGAIN_ROUNDS 8
#define TRY_DOUBLINGS 6

/* A worker exchanges chunks with this many aggregators of a round at most; it has paths for others besides. */
#define SHARDS_MAX (HD_PATHS_MAX * 3 / 4)

static uint32_t field_host(struct ctl_field *f, const struct hd_controller *c, int index) {
	struct hd_shards_host *host = &f->hosts[f->count];
	uint32_t away, towards;

	for (uint32_t i = 0; i < f->count; i++)
		if (f->index[i] == index)
			return i;
	*host = (struct hd_shards_host){.out = LINK_FREE, .in = LINK_FREE};
	/* Links of the view are counted from 1; 0 is the traffic within a host. */
	if (hd_topology_links_of(c->config.topology, index, &away, &towards) == 0) {
		host->out = ctl_estimate_bytes(c, away + 1);
		host->in = ctl_estimate_bytes(c, towards + 1);
	}
	f->index[f->count] = index;
	return f->count++;
}

uint64_t ctl_shard_memory(const struct ctl_reduce *r, uint64_t bytes) {
	const struct hd_reduce_config config = {
		.dtype = r->dtype,
		.order = r->order,
		.bytes = bytes,
		.input_count = ctl_call_is_copy(&r->call) ? 1 : r->count[CTL_PART_ASKED],
	};

	return bytes > 0 ? hd_reduce_memory_bytes(&config) : 0;
}

uint32_t ctl_shard_transfers(const struct ctl_reduce *r) {
	const uint32_t members = r->count[CTL_PART_ASKED];

	switch (r->call.collective) {
	case HD_COLLECTIVE_ALLREDUCE:
		return 2 * members;
	case HD_COLLECTIVE_REDUCE:
	case HD_COLLECTIVE_REDUCE_SCATTER:
		return members + 1;
	case HD_COLLECTIVE_BROADCAST:
	case HD_COLLECTIVE_ALLGATHER:
		return members;
	default: /* from one to one */
		return 2;
	}
}

/* The largest shard that fits into this much memory. */
static double room_in(const struct ctl_reduce *r, uint64_t memory) {
	uint64_t low = 0, high = r->bytes < memory ? r->bytes : memory;

	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		if (ctl_shard_memory(r, middle) <= memory)
			low = middle;
		else
			high = middle - 1;
	}
	return (double)low;
}

/* Bytes that the node can take now; `idle`: as if it were idle. */
static double
room_at(const struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	bool idle) {
	if (idle)
		return room_in(r, node->memory_bytes);
	return ctl_group_refuses(c, node, job) ? 0 : room_in(r, ctl_memory_left(c, node));
}

/* At most SHARDS_MAX aggregators get a shard: those with the widest links. */
static void limit_aggregators(struct ctl_field *f) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < f->count; i++)
		count += f->hosts[i].aggregator;
	for (; count > SHARDS_MAX; count--) {
		struct hd_shards_host *least = NULL;

		for (uint32_t i = 0; i < f->count; i++) {
			struct hd_shards_host *host = &f->hosts[i];

			if (host->aggregator
			    && (!least || fmin(host->out, host->in) <= fmin(least->out, least->in)))
				least = host;
		}
		least->aggregator = false;
	}
}

/* All of them give, and receive, where there are blocks. */
static bool gives(const struct ctl_reduce *r, uint16_t worker) {
	return r->call.collective != HD_COLLECTIVE_BROADCAST || worker == r->call.root;
}

static bool receives(const struct ctl_reduce *r, uint16_t worker) {
	if (r->call.collective == HD_COLLECTIVE_BROADCAST)
		return worker != r->call.root && !r->has[worker];
	return r->call.collective != HD_COLLECTIVE_REDUCE || worker == r->call.root;
}

int ctl_field_make(
	struct ctl_field *f,
	const struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	enum ctl_candidates candidates,
	bool idle
) {
	uint32_t most = c->node_count;
	struct ctl_node *node;

	f->count = 0;
	f->hosts = calloc(most, sizeof *f->hosts);
	f->index = calloc(most, sizeof *f->index);
	f->aggregator = calloc(most, sizeof(struct ctl_node *));
	if (!f->hosts || !f->index || !f->aggregator)
		return -ENOMEM;
	TAILQ_FOREACH (node, &c->nodes, entry) {
		bool worker = node->role == HD_ROLE_WORKER && node->job == job;
		bool adds = candidates == CTL_STANDING ? ctl_stands(node) :
							 ctl_is_hosted_for(node, job);
		struct hd_shards_host *host;
		double room;

		if (!worker && !adds)
			continue;
		host = &f->hosts[field_host(f, c, node->host_index)];
		host->workers += worker;
		host->not_giving += worker && !gives(r, node->worker);
		host->not_receiving += worker && !receives(r, node->worker);
		room = worker ? 0 : room_at(c, node, job, r, idle);
		if (room <= host->room)
			continue;
		/* The one with the most memory on a host is used. */
		host->aggregator = true;
		host->room = room;
		f->aggregator[host - f->hosts] = node;
	}
	limit_aggregators(f);
	return 0;
}

/* Whether a link with a low estimate is taken to be faster in this round, whose estimated time is `round`. */
static bool is_tried(struct hd_controller *c, uint32_t link, double bytes, hd_ns round) {
	struct ctl_link_probe *probe = &c->scratch.link_probe[link];
	const hd_ns wait = hd_ns_max(TRY_AGAIN_NS, TRY_AGAIN_ROUNDS * round);

	if (probe->tried > 0 && bytes < TRY_GREW * probe->tried) {
		if (probe->try_failed < TRY_DOUBLINGS)
			probe->try_failed++;
		probe->try_at = hd_ns_add(c->now, wait << probe->try_failed);
	} else if (probe->tried > 0) {
		probe->try_failed = 0;
		probe->try_at = c->now;
	} else if (probe->try_at == 0) {
		probe->try_at = hd_ns_add(c->now, wait); /* the first time that it is slow */
	}
	probe->tried = c->now >= probe->try_at ? bytes : 0;
	return probe->tried > 0;
}

static void
take_link(struct hd_controller *c, uint32_t link, double best, hd_ns round, double *bytes) {
	struct ctl_link_probe *probe = &c->scratch.link_probe[link];

	if (*bytes < EVEN * best) {
		if (is_tried(c, link, *bytes, round))
			*bytes = fmin(TRY_FACTOR * *bytes, best);
		return;
	}
	*bytes = fmax(*bytes, best);
	probe->try_at = 0;
	probe->try_failed = 0;
	probe->tried = 0;
}

/* Sets the rates of the workers' hosts' links for this round. */
void ctl_field_take_links(
	struct hd_controller *c,
	const struct ctl_reduce *r,
	struct ctl_field *f
) {
	double out = 0, in = 0;
	hd_ns round;

	for (uint32_t i = 0; i < f->count; i++) {
		if (f->hosts[i].workers == 0 || f->hosts[i].out >= LINK_FREE)
			continue;
		out = fmax(out, f->hosts[i].out);
		in = fmax(in, f->hosts[i].in);
	}
	round = out > 0 && in > 0 ? (hd_ns)(2e9 * (double)r->bytes / fmin(out, in)) : 0;
	for (uint32_t i = 0; i < f->count; i++) {
		uint32_t away, towards;

		if (f->hosts[i].workers == 0 || f->hosts[i].out >= LINK_FREE
		    || hd_topology_links_of(c->config.topology, f->index[i], &away, &towards) < 0)
			continue;
		take_link(c, away + 1, out, round, &f->hosts[i].out);
		take_link(c, towards + 1, in, round, &f->hosts[i].in);
	}
}

void ctl_field_fini(struct ctl_field *f) {
	free(f->hosts);
	free(f->index);
	free(f->aggregator);
}
