/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of blocks, one for each member in the order of their ranks; block i is that of member i:
 *
 *                     gives it     receives it
 *   all-gather        i            all others
 *   reduce-scatter    all          i               (the sum)
 *   gather            i            the root
 *   scatter           the root     i
 *   all-to-all        k            i               (for each k: n rows of n blocks)
 *
 * A block goes through the aggregator of its member's host, if there is one. In a gather, a scatter or an all-to-all it
 * then crosses each link once. In an all-gather it leaves that host n - 1 times, which is what the others must receive
 * in all: with equal links a ring's optimum. Where that host's link is slow, another aggregator can send it to the
 * others. A reduce-scatter gains from that only if the link into the host is slower than the link out of it, as all
 * values of its worker have to leave then. Where the aggregators are not the workers', each block goes to the one whose
 * link is done earliest. With more aggregators than blocks, the blocks are cut.
 */
#include "ctl_base.h"
#include "ctl_field.h"
#include "hd_group.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* A piece of a block is worth its messages from this number of packets on. */
#define GRAIN_BYTES (UINT64_C(8) * HD_CHUNK_BYTES_DEFAULT)
/* A member's own aggregator relays its block unless its link is slower than the best by more than this. */
#define NEARLY 0.9

/* A GROUP of each shard and a VOID of each leave half of an aggregator's session to other messages. */
static_assert(4 * HD_AGGREGATOR_SHARDS_MAX <= HD_MESSAGES_UNACKED_MAX, "a session queues them");
/* An aggregator has transfers of other groups as well. With this limit, shards of many members, whose GROUPs have more
 * than one packet, queue no more packets than that either. */
#define TRANSFERS_MAX (HD_TRANSFERS_MAX - HD_TRANSFERS_MAX / 8)
static_assert(2 * (HD_ALLTOALL_MEMBERS_MAX - 1) <= HD_GROUP_MEMBERS_MAX, "REDUCE lists them");

/* Besides memory. */
struct room {
	uint32_t shards, transfers;
};

/* The aggregators while blocks are given to them. */
struct division {
	const struct ctl_reduce *r;
	const struct ctl_field *field;
	double *out, *in; /* bytes that cross each host's link so far */
	uint64_t *memory; /* left of each host's aggregator */
	struct room *room; /* left of each as well */
	uint32_t transfers; /* of each shard */
	double best; /* bytes/s of the widest link of a worker's host, in its narrower direction */
	bool charges; /* counts what the blocks load that stay at home, and gives none */
};

static double width(const struct hd_shards_host *host) {
	return fmin(host->out, host->in);
}

static int host_of(const struct ctl_field *f, const struct ctl_node *node) {
	for (uint32_t i = 0; node && i < f->count; i++)
		if (f->index[i] == node->host_index)
			return (int)i;
	return -1;
}

/* A piece of a block, its member, and the other one: the root, or who gives it in an all-to-all. */
struct piece {
	uint64_t first, bytes;
	uint16_t owner, other;
	int owner_host, other_host;
};

/* The blocks of one giver, or of all of them together. */
struct row {
	uint64_t first, bytes;
	uint16_t other;
};

/* How many times the piece crosses the link of this host, each way, if it is added there. */
static void
crossings(const struct division *d, const struct piece *p, int host, double *out, double *in) {
	const double members = d->r->count[CTL_PART_ASKED], here = d->field->hosts[host].workers;
	const double owner = p->owner_host == host, other = p->other_host == host;

	switch (d->r->call.collective) {
	case HD_COLLECTIVE_ALLGATHER:
		*in = 1 - owner;
		*out = members - 1 - (here - owner);
		break;
	case HD_COLLECTIVE_REDUCE_SCATTER:
		*in = members - here;
		*out = 1 - owner;
		break;
	case HD_COLLECTIVE_GATHER:
		*in = 1 - owner;
		*out = 1 - other;
		break;
	default: /* scatter, all-to-all */
		*in = 1 - other;
		*out = 1 - owner;
		break;
	}
}

static bool has_room(const struct division *d, const struct piece *p, int host) {
	return d->field->hosts[host].aggregator && d->room[host].shards > 0
		&& d->transfers <= d->room[host].transfers
		&& ctl_shard_memory(d->r, p->bytes) <= d->memory[host];
}

/* Each value goes from one member to one. */
static bool is_between_two(const struct ctl_reduce *r) {
	return r->call.collective == HD_COLLECTIVE_GATHER
		|| r->call.collective == HD_COLLECTIVE_SCATTER
		|| r->call.collective == HD_COLLECTIVE_ALLTOALL;
}

/* Whether the host's link ends no later if the sums for its workers are made on it. They send what others need in any
 * case. At home the others' values come in; elsewhere their own values leave as well, and the sums come in. In units of
 * all values of one worker. */
static bool adds_at_home(const struct division *d, const struct hd_shards_host *host) {
	const double block = 1.0 / d->r->count[CTL_PART_ASKED];
	const double others = 1 - host->workers * block;

	return fmax(others / host->out, others / host->in) <= fmax(1 / host->out, block / host->in);
}

/* Whether the member's own host is the place for its block. */
static bool is_best_at_home(const struct division *d, const struct piece *p) {
	const struct hd_shards_host *home;

	if (p->owner_host < 0 || !has_room(d, p, p->owner_host))
		return false;
	if (is_between_two(d->r))
		return true;
	home = &d->field->hosts[p->owner_host];
	return d->r->call.collective == HD_COLLECTIVE_REDUCE_SCATTER ?
		adds_at_home(d, home) :
		width(home) >= NEARLY * d->best;
}

/* The host whose link is done earliest with the piece; -1: none has room. */
static int choose(const struct division *d, const struct piece *p) {
	double least = INFINITY;
	int best = -1;

	if (is_best_at_home(d, p))
		return p->owner_host;
	/* It leaves this host in any case. */
	if (d->r->call.collective == HD_COLLECTIVE_ALLTOALL && p->other_host >= 0
	    && has_room(d, p, p->other_host))
		return p->other_host;
	for (uint32_t i = 0; i < d->field->count; i++) {
		const struct hd_shards_host *host = &d->field->hosts[i];
		double out, in, seconds;

		if (!has_room(d, p, (int)i))
			continue;
		crossings(d, p, (int)i, &out, &in);
		seconds
			= fmax((d->out[i] + out * (double)p->bytes) / host->out,
			       (d->in[i] + in * (double)p->bytes) / host->in);
		if (seconds < least) {
			least = seconds;
			best = (int)i;
		}
	}
	return best;
}

static void charge(struct division *d, const struct piece *p, int host) {
	double out, in;

	crossings(d, p, host, &out, &in);
	d->out[host] += out * (double)p->bytes;
	d->in[host] += in * (double)p->bytes;
}

/* Gives the piece to an aggregator. 0, -ENOSPC. */
static int
give(struct hd_controller *c, struct ctl_reduce *r, struct division *d, const struct piece *p) {
	const int host = choose(d, p);

	if (host < 0)
		return -ENOSPC;
	assert(has_room(d, p, host));
	if (!is_best_at_home(d, p)) /* it is charged already */
		charge(d, p, host);
	d->memory[host] -= ctl_shard_memory(d->r, p->bytes);
	d->room[host].shards--;
	d->room[host].transfers -= d->transfers;
	if (r)
		r->shards[r->shard_count++] = (struct ctl_shard){
			.group = hd_entropy_u64(&c->entropy),
			.aggregator = d->field->aggregator[host],
			.first = p->first,
			.bytes = p->bytes,
			.owner = p->owner,
			.giver = p->other,
			.memory = ctl_shard_memory(d->r, p->bytes),
			.transfers = d->transfers,
		};
	return 0;
}

static uint32_t blocks_of(const struct ctl_reduce *r) {
	const uint32_t members = r->count[CTL_PART_ASKED];

	return r->call.collective == HD_COLLECTIVE_ALLTOALL ? members * members : members;
}

/* Into how many pieces each block is cut. */
static uint32_t pieces_of(const struct ctl_reduce *r, const struct ctl_field *f, uint64_t block) {
	uint32_t aggregators = 0, most;
	const uint32_t blocks = blocks_of(r);

	for (uint32_t i = 0; i < f->count; i++)
		aggregators += f->hosts[i].aggregator;
	most = block / GRAIN_BYTES < aggregators ? (uint32_t)(block / GRAIN_BYTES) : aggregators;
	aggregators /= blocks;
	aggregators = aggregators < most ? aggregators : most;
	return aggregators > 0 ? aggregators : 1;
}

static int give_block(
	struct hd_controller *c,
	struct ctl_reduce *r,
	struct division *d,
	const struct piece *block,
	bool idle
) {
	const uint32_t count = pieces_of(d->r, d->field, block->bytes);
	const uint64_t value = hd_dtype_bytes(d->r->dtype);
	uint64_t values;
	int rc = 0;

	assert(value > 0);
	values = block->bytes / value;

	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		const uint64_t from = hd_block_first(values, i, count) * value;
		struct piece piece = *block;

		piece.first += from;
		piece.bytes = hd_block_first(values, i + 1, count) * value - from;
		rc = give(c, idle ? NULL : r, d, &piece);
	}
	return rc;
}

/* A block that stays where it is: that of the root or of the giver, and that of the only member. */
static bool is_kept(const struct ctl_reduce *r, uint16_t owner, uint16_t other) {
	return (is_between_two(r) && owner == other)
		|| (r->call.collective == HD_COLLECTIVE_ALLGATHER && r->count[CTL_PART_ASKED] == 1);
}

static int give_row(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	struct division *d,
	const struct row *row,
	bool idle
) {
	const uint32_t members = r->count[CTL_PART_ASKED];
	const uint64_t value = hd_dtype_bytes(r->dtype);
	const uint64_t values = value > 0 ? row->bytes / value : 0;
	uint32_t index = 0;
	int rc = 0;

	for (uint16_t i = 0; rc == 0 && i < HD_WORKERS_MAX; i++) {
		struct piece block = {.owner = i, .other = row->other};

		if (r->part[i] != CTL_PART_ASKED)
			continue;
		block.first = row->first + hd_block_first(values, index, members) * value;
		block.bytes = row->first + hd_block_first(values, ++index, members) * value
			- block.first;
		if (block.bytes == 0 || is_kept(r, i, row->other))
			continue;
		block.owner_host = host_of(d->field, job->workers[i]);
		block.other_host = host_of(d->field, job->workers[row->other]);
		if (!d->charges)
			rc = give_block(c, r, d, &block, idle);
		else if (is_best_at_home(d, &block))
			charge(d, &block, block.owner_host);
	}
	return rc;
}

static int give_all(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	struct division *d,
	bool idle
) {
	struct row row = {.bytes = r->bytes, .other = r->call.root};
	int rc = 0;

	if (r->call.collective != HD_COLLECTIVE_ALLTOALL)
		return give_row(c, job, r, d, &row, idle);
	assert(r->count[CTL_PART_ASKED] > 0);
	row.bytes /= r->count[CTL_PART_ASKED];
	for (uint16_t i = 0; rc == 0 && i < HD_WORKERS_MAX; i++) {
		if (r->part[i] != CTL_PART_ASKED)
			continue;
		row.other = i;
		rc = give_row(c, job, r, d, &row, idle);
		row.first += row.bytes;
	}
	return rc;
}

/* The room of the aggregator besides the rounds in progress; `idle`: if there were none. */
static struct room room_of(const struct hd_controller *c, const struct ctl_node *node, bool idle) {
	uint32_t shards = 0, transfers = 0;
	const struct ctl_reduce *r;

	for (uint32_t k = 0; !idle && k < c->job_count; k++)
		TAILQ_FOREACH (r, &c->jobs[k]->reduces, entry)
			for (uint32_t i = 0; r->begun && i < r->shard_count; i++) {
				const bool here = r->shards[i].aggregator == node;

				shards += here;
				transfers += here ? r->shards[i].transfers : 0;
			}
	/* All-reduces are not limited. */
	return (struct room){
		shards < HD_AGGREGATOR_SHARDS_MAX ? HD_AGGREGATOR_SHARDS_MAX - shards : 0,
		transfers < TRANSFERS_MAX ? TRANSFERS_MAX - transfers : 0,
	};
}

int ctl_blocks_cut(
	struct hd_controller *c,
	const struct ctl_job *job,
	struct ctl_reduce *r,
	const struct ctl_field *f,
	bool idle
) {
	const size_t hosts = f->count > 0 ? f->count : 1;
	struct division d = {.r = r, .field = f, .transfers = ctl_shard_transfers(r)};
	int rc = -ENOMEM;

	d.out = calloc(2 * hosts, sizeof *d.out);
	d.memory = calloc(hosts, sizeof *d.memory);
	d.room = calloc(hosts, sizeof *d.room);
	if (!idle) {
		free(r->shards);
		r->shard_count = 0;
		r->shards = calloc((size_t)blocks_of(r) + f->count + 1, sizeof *r->shards);
	}
	if (d.out && d.memory && d.room && (idle || r->shards)) {
		d.in = d.out + hosts;
		for (uint32_t i = 0; i < f->count; i++) {
			const struct ctl_node *node = f->aggregator[i];

			if (f->hosts[i].workers > 0)
				d.best = fmax(d.best, width(&f->hosts[i]));
			if (node)
				d.memory[i] = idle ? node->memory_bytes : ctl_memory_left(c, node);
			if (node)
				d.room[i] = room_of(c, node, idle);
		}
		/* Otherwise the first block would go to a host that later ones of its own load as well. */
		d.charges = true;
		(void)give_all(c, job, r, &d, idle);
		d.charges = false;
		rc = give_all(c, job, r, &d, idle);
		if (rc < 0 && !idle)
			r->shard_count = 0; /* it does not begin now: it has no shards */
	}
	free(d.out);
	free(d.memory);
	free(d.room);
	return rc;
}
