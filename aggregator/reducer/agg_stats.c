/* SPDX-License-Identifier: BSD-3-Clause */
/* What the aggregator's counters mean. */
#include "agg_core.h"

#include <assert.h>

/* clang-format off */
#define STAT(name, unit, help, kind) \
	{#name, unit, help, kind, HD_STAT_U64, offsetof(struct hd_aggregator_stats, name)}

static const struct hd_stat stats_of[] = {
	STAT(chunks, "packets", "data chunks received", HD_STAT_COUNTER),
	STAT(chunk_bytes, "bytes", "values in them", HD_STAT_COUNTER),
	STAT(drop_malformed, "packets", "dropped: not decodable", HD_STAT_COUNTER),
	STAT(drop_version, "packets", "dropped: other wire version", HD_STAT_COUNTER),
	STAT(drop_type, "packets", "dropped: a type that an aggregator does not take", HD_STAT_COUNTER),
	STAT(drop_token, "packets", "dropped: no such input: forged, late, or ahead of its GROUP", HD_STAT_COUNTER),
	STAT(drop_source, "packets", "dropped: not from the address of its sender's session", HD_STAT_COUNTER),
	STAT(drop_mac, "packets", "dropped: forged or spoilt: the MAC differs, or no such key", HD_STAT_COUNTER),
	STAT(drop_mismatch, "packets", "dropped: header or size disagrees with the group", HD_STAT_COUNTER),
	STAT(drop_memory, "packets", "dropped: no memory for what a group's first chunk needs", HD_STAT_COUNTER),
	STAT(drop_early, "packets", "dropped: before their turn, and no room to keep them", HD_STAT_COUNTER),
	STAT(duplicates, "packets", "chunks that were held already", HD_STAT_COUNTER),
	STAT(refused_messages, "messages", "out of place: role, token, epoch", HD_STAT_COUNTER),
	STAT(groups, "groups", "groups admitted", HD_STAT_COUNTER),
	STAT(groups_delivered, "groups", "groups whose sum reached every receiver", HD_STAT_COUNTER),
	STAT(groups_failed, "groups", "groups given up: a member or receiver was lost", HD_STAT_COUNTER),
	STAT(groups_refused, "groups", "groups refused: memory, epoch, or not as they should be", HD_STAT_COUNTER),
	STAT(groups_not_finite, "groups", "of those delivered, with NaN, Inf or an overflow in the sum", HD_STAT_COUNTER),
	STAT(groups_broken, "groups", "of those failed, sparse: no ascending runs, or too big", HD_STAT_COUNTER),
	STAT(inputs_held, "transfers", "members' updates that were held whole", HD_STAT_COUNTER),
	STAT(outputs_delivered, "transfers", "sums and models delivered, one for each receiver", HD_STAT_COUNTER),
	STAT(outputs_lost, "transfers", "receivers that a sum or model did not reach", HD_STAT_COUNTER),
	STAT(sends_broken, "sessions", "given up because their queue was full", HD_STAT_COUNTER),
	STAT(jobs, "jobs", "that have a group or a worker here", HD_STAT_GAUGE),
	STAT(groups_open, "groups", "under way", HD_STAT_GAUGE),
	STAT(memory_bytes, "bytes", "held for sums and what belongs to them", HD_STAT_GAUGE),
};
/* clang-format on */

static_assert(
	sizeof stats_of / sizeof stats_of[0] == sizeof(struct hd_aggregator_stats) / 8,
	"every counter of the struct is in the table"
);

const struct hd_stat_group hd_aggregator_group = {
	.name = "aggregator",
	.help = "the aggregator",
	.stats = stats_of,
	.count = sizeof stats_of / sizeof stats_of[0],
};

const struct hd_stat_group *const hd_aggregator_groups[]
	= {&hd_aggregator_group, &hd_endpoint_group, &hd_transfer_group, NULL};

static const struct hd_histogram_family first_chunk = {
	.group = "aggregator",
	.name = "first_chunk",
	.help = "from the word of a group to a member's first chunk",
	.label = {"kind"},
	.scale = &hd_scale_time,
};

static const struct hd_histogram_family collected = {
	.group = "aggregator",
	.name = "collected",
	.help = "from there to the last chunk of the last member",
	.label = {"kind"},
	.scale = &hd_scale_time,
};

static const struct hd_histogram_family passed_on = {
	.group = "aggregator",
	.name = "passed_on",
	.help = "from there until a receiver has all of it",
	.label = {"kind"},
	.scale = &hd_scale_time,
};

/* Those of one family follow one another. */
static void add_histograms(const struct agg_histograms of[2], struct hd_stats *stats) {
	static const char *const kinds[2] = {"sum", "relay"};

	for (int k = 0; k < 2; k++)
		hd_stats_add_histogram(stats, &first_chunk, &kinds[k], &of[k].first_chunk);
	for (int k = 0; k < 2; k++)
		hd_stats_add_histogram(stats, &collected, &kinds[k], &of[k].collected);
	for (int k = 0; k < 2; k++)
		hd_stats_add_histogram(stats, &passed_on, &kinds[k], &of[k].passed_on);
}

void hd_aggregator_gather(const struct hd_aggregator *aggregator, struct hd_stats *stats) {
	hd_stats_add(stats, &hd_aggregator_group, NULL, &aggregator->stats);
	hd_stats_add(stats, &hd_endpoint_group, NULL, hd_endpoint_stats(aggregator->endpoint));
	hd_stats_add(stats, &hd_transfer_group, NULL, &aggregator->transfers);
	add_histograms(aggregator->histograms, stats);
}
