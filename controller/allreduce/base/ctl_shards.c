/* SPDX-License-Identifier: BSD-3-Clause */
/* Which aggregators add which part of an all-reduce: hosts and what their links can carry now (hd_shards.h). */
#include "ctl_base.h"
#include "ctl_estimate.h"
#include "ctl_reduces.h"
#include "hd_reduce.h"
#include "hd_shards.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* A shard is worth its messages when it has this many packets; a small all-reduce has one shard. */
#define GRAIN_BYTES (UINT64_C(8) * HD_CHUNK_BYTES_DEFAULT)
#define LINK_FREE 1e15 /* bytes/s of a host that has no link of its own: it is not the limit */

/* Links of workers' hosts that are believed to carry within this of the best are taken to be equal: estimates
 * are no better, and uneven shards on even links cost what they vary. */
#define EVEN 0.9
/*
 * A link that is believed to be slower has little of a round and is never full again: nothing would tell that it
 * carries more by now. Once in a while it is taken to be twice as wide. When its estimate has not grown by a tenth the
 * next time is twice as far away: at least, and in times of a round; the doublings.
 */
#define TRY_FACTOR 2
#define TRY_GREW 1.1
#define TRY_AGAIN_NS (2 * HD_SECOND)
#define TRY_AGAIN_ROUNDS 8
#define TRY_DOUBLINGS 6

/* The hosts of an all-reduce, and which aggregator each has. */
struct field {
	struct hd_shards_host *hosts;
	int *index; /* in the topology */
	struct ctl_node **aggregator;
	uint32_t count;
};

static uint32_t field_host(struct field *f, const struct hd_controller *c, int index) {
	struct hd_shards_host *host = &f->hosts[f->count];
	uint32_t away, towards;

	for (uint32_t i = 0; i < f->count; i++)
		if (f->index[i] == index)
			return i;
	*host = (struct hd_shards_host){.out = LINK_FREE, .in = LINK_FREE};
	/* Links of the view are counted from 1; 0 is what is inside a host. */
	if (hd_topology_links_of(c->config.topology, index, &away, &towards) == 0) {
		host->out = ctl_estimate_bytes(c, away + 1);
		host->in = ctl_estimate_bytes(c, towards + 1);
	}
	f->index[f->count] = index;
	return f->count++;
}

static uint64_t memory_of(const struct ctl_reduce *r, uint64_t bytes) {
	const struct hd_reduce_config config = {
		.dtype = r->dtype,
		.order = r->order,
		.bytes = bytes,
		.input_count = r->count[CTL_PART_ASKED],
	};

	return bytes > 0 ? hd_reduce_memory_bytes(&config) : 0;
}

/* The biggest shard that so much memory is enough for. */
static double room_in(const struct ctl_reduce *r, uint64_t memory) {
	uint64_t low = 0, high = r->bytes < memory ? r->bytes : memory;

	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		if (memory_of(r, middle) <= memory)
			low = middle;
		else
			high = middle - 1;
	}
	return (double)low;
}

/* What the node can take now; `idle`: if it had nothing to do. */
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

static int field_make(
	struct field *f,
	const struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
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
		struct hd_shards_host *host;
		double room;

		if (!worker && !ctl_may_add(node))
			continue;
		host = &f->hosts[field_host(f, c, node->host_index)];
		host->workers += worker;
		room = worker ? 0 : room_at(c, node, job, r, idle);
		if (room <= host->room)
			continue;
		/* Of several on one host the one with the most memory. */
		host->aggregator = true;
		host->room = room;
		f->aggregator[host - f->hosts] = node;
	}
	return 0;
}

/* Whether a link that is believed to be slow is taken to be wider in this round, which may take so long. */
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
		probe->try_at = hd_ns_add(c->now, wait); /* it is news */
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

/* What the workers' hosts' links are taken to carry in this round. */
static void take_links(struct hd_controller *c, const struct ctl_reduce *r, struct field *f) {
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

static void field_fini(struct field *f) {
	free(f->hosts);
	free(f->index);
	free(f->aggregator);
}

static int take_shards(struct hd_controller *c, struct ctl_reduce *r, const struct field *f) {
	free(r->shards);
	r->shard_count = 0;
	r->shards = NULL;
	if (f->count == 0)
		return 0;
	r->shards = calloc(f->count, sizeof *r->shards);
	if (!r->shards)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->count; i++) {
		if (f->hosts[i].bytes == 0)
			continue;
		r->shards[r->shard_count++] = (struct ctl_shard){
			.group = hd_entropy_u64(&c->entropy),
			.aggregator = f->aggregator[i],
			.bytes = f->hosts[i].bytes,
			.memory = memory_of(r, f->hosts[i].bytes),
		};
	}
	return 0;
}

static int
cut(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r, bool idle) {
	struct field f = {0};
	double seconds;
	int rc = field_make(&f, c, job, r, idle);

	if (rc == 0 && !idle)
		take_links(c, r, &f);
	if (rc == 0)
		rc = hd_shards_cut(f.hosts, f.count, r->bytes, GRAIN_BYTES, &seconds);
	if (rc == 0 && !idle)
		rc = take_shards(c, r, &f);
	field_fini(&f);
	return rc;
}

double
ctl_reduce_seconds(struct hd_controller *c, const struct ctl_job *job, const struct ctl_reduce *r) {
	struct field f = {0};
	double seconds = INFINITY;
	int rc = field_make(&f, c, job, r, true);

	if (rc == 0)
		rc = hd_shards_cut(f.hosts, f.count, r->bytes, GRAIN_BYTES, &seconds);
	field_fini(&f);
	return rc == 0 ? seconds : (double)INFINITY;
}

enum hd_reason
ctl_reduce_cut(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r) {
	int rc = cut(c, job, r, false);

	if (rc == -ENOSPC && cut(c, job, r, true) == 0)
		return HD_REASON_HOLD;
	if (rc == -ENOSPC)
		return HD_REASON_NO_SERVER;
	return rc == 0 ? HD_REASON_NONE : HD_REASON_NO_MEMORY;
}
