/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces and the network view. While one is in progress the links of its hosts are not idle: no probes cross them,
 * and samples of other transfers wait for it. Of its transfers the receivers report:
 *
 *     worker --values--> aggregator   REPORT       aggregator --sum--> worker   REPORT
 *
 * All are remembered as traffic beside other transfers. One in each direction of each worker is a sample, with another
 * aggregator in each round, so a round of n workers has 2 n samples and every link is measured. More than
 * HD_REDUCE_REPORTS_MAX shards would need too much memory: such a round gives no samples, and neither does one of less
 * than HD_REDUCE_REPORT_BYTES_MIN, or another collective.
 */
#include "ctl_base.h"
#include "ctl_estimate.h"
#include "ctl_reduces.h"

#include <stdlib.h>

static void add_links(struct hd_controller *c, struct ctl_reduce *r, const struct ctl_node *node) {
	uint32_t away, towards;

	if (hd_topology_links_of(c->config.topology, node->host_index, &away, &towards) < 0
	    || away + 1 >= c->scratch.link_capacity || towards + 1 >= c->scratch.link_capacity)
		return;
	r->links[r->link_count++] = away + 1;
	r->links[r->link_count++] = towards + 1;
}

void ctl_reduce_occupy(struct hd_controller *c, const struct ctl_job *job, struct ctl_reduce *r) {
	if (r->shared != 0)
		return; /* nothing crosses them */
	r->links = calloc(
		(size_t)2 * (r->count[CTL_PART_STARTED] + r->shard_count), sizeof *r->links
	);
	if (!r->links)
		return; /* probes during it measure too little: no other harm */
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_STARTED)
			add_links(c, r, job->workers[i]);
	for (uint32_t i = 0; i < r->shard_count; i++)
		add_links(c, r, r->shards[i].aggregator);
	for (uint32_t i = 0; i < r->link_count; i++)
		c->scratch.link_probe[r->links[i]].reduces++;
}

void ctl_reduce_vacate(struct hd_controller *c, struct ctl_reduce *r) {
	for (uint32_t i = 0; i < r->link_count; i++) {
		struct ctl_link_probe *link = &c->scratch.link_probe[r->links[i]];

		link->reduces--;
		link->used = c->now;
	}
	free(r->links);
	r->links = NULL;
	r->link_count = 0;
}

/* Whether this transfer of the round is no sample. */
static bool is_beside(const struct ctl_reduce *r, uint16_t worker, uint32_t shard) {
	return ((uint32_t)worker + r->round) % r->shard_count != shard;
}

static bool may_tell(const struct ctl_reduce *r, const struct hd_msg_report *m, uint32_t shard) {
	return r->bytes >= HD_REDUCE_REPORT_BYTES_MIN && r->begun
		&& r->call.collective == HD_COLLECTIVE_ALLREDUCE && shard < r->shard_count
		&& r->shard_count <= HD_REDUCE_REPORTS_MAX
		&& r->count[CTL_PART_STARTED] + r->count[CTL_PART_DONE] <= HD_REDUCE_REPORTS_MAX
		&& m->worker < HD_WORKERS_MAX && m->attempt == r->attempt[m->worker]
		&& (r->part[m->worker] == CTL_PART_STARTED || r->part[m->worker] == CTL_PART_DONE)
		&& m->bytes == r->shards[shard].bytes;
}

void ctl_reduce_came(
	struct hd_controller *c,
	const struct ctl_node *aggregator,
	const struct hd_msg_report *m
) {
	const struct ctl_job *job = ctl_job_find(c, m->job);
	const struct ctl_reduce *r = NULL;
	uint32_t shard = 0;

	if (job)
		TAILQ_FOREACH (r, &job->reduces, entry)
			if (r->round == m->round)
				break;
	while (r && shard < r->shard_count && r->shards[shard].aggregator != aggregator)
		shard++;
	if (r && may_tell(r, m, shard) && job->workers[m->worker])
		ctl_sample_shard(
			c, job->workers[m->worker], aggregator, m, is_beside(r, m->worker, shard)
		);
}

bool ctl_reduce_went(
	struct hd_controller *c,
	const struct ctl_reduce *r,
	const struct ctl_node *worker,
	const struct hd_msg_report *m
) {
	const uint32_t shard
		= m->position < r->shard_count ? (uint32_t)m->position : r->shard_count;

	if (!may_tell(r, m, shard) || !r->shards[shard].aggregator)
		return false;
	if (r->shards[shard].aggregator)
		ctl_sample_shard(
			c, r->shards[shard].aggregator, worker, m, is_beside(r, m->worker, shard)
		);
	return true;
}
