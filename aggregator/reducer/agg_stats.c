/* SPDX-License-Identifier: BSD-3-Clause */
/* The aggregator's counters and their descriptions. */
#include "agg_core.h"

#include <assert.h>

/* clang-format off */
#define STAT(name, unit, help, kind) \
	{#name, unit, help, kind, HD_STAT_U64, offsetof(struct hd_aggregator_stats, name)}

static const struct hd_stat stats_of[] = {
	STAT(chunks, "packets", "data chunks received", HD_STAT_COUNTER),
	STAT(chunk_bytes, "bytes", "bytes of values in these chunks", HD_STAT_COUNTER),
	STAT(drop_malformed, "packets", "dropped: cannot be decoded", HD_STAT_COUNTER),
	STAT(drop_version, "packets", "dropped: another wire version", HD_STAT_COUNTER),
	STAT(drop_type, "packets", "dropped: a packet type that aggregators do not accept", HD_STAT_COUNTER),
	STAT(drop_token, "packets",
		"dropped: no such transfer: the token is forged, or the chunk is late, or ahead of "
		"its GROUP", HD_STAT_COUNTER),
	STAT(drop_source, "packets", "dropped: not from the address of its sender's session", HD_STAT_COUNTER),
	STAT(drop_mac, "packets", "dropped: forged or corrupted (wrong MAC), or no such key", HD_STAT_COUNTER),
	STAT(drop_mismatch, "packets", "dropped: header or size does not match the group", HD_STAT_COUNTER),
	STAT(drop_memory, "packets", "dropped: no memory for a group, at its first chunk", HD_STAT_COUNTER),
	STAT(drop_early, "packets",
		"dropped: ahead of their turn, and the buffer for early chunks was full", HD_STAT_COUNTER),
	STAT(duplicates, "packets", "chunks that had already arrived", HD_STAT_COUNTER),
	STAT(refused_messages, "messages", "messages refused: unexpected role, token or epoch", HD_STAT_COUNTER),
	STAT(groups, "groups", "groups accepted", HD_STAT_COUNTER),
	STAT(groups_delivered, "groups", "groups whose sum reached every receiver", HD_STAT_COUNTER),
	STAT(groups_failed, "groups", "groups aborted: a member or receiver was lost", HD_STAT_COUNTER),
	STAT(groups_refused, "groups",
		"groups refused: no memory, wrong epoch or malformed message", HD_STAT_COUNTER),
	STAT(groups_not_finite, "groups",
		"delivered groups whose sum contains NaN, Inf or an overflow", HD_STAT_COUNTER),
	STAT(groups_broken, "groups",
		"failed groups of sparse updates: index runs not ascending, or sum too large", HD_STAT_COUNTER),
	STAT(inputs_held, "transfers", "updates of members that arrived completely", HD_STAT_COUNTER),
	STAT(outputs_delivered, "transfers",
		"sums and models delivered, counted once for each receiver", HD_STAT_COUNTER),
	STAT(outputs_lost, "transfers", "receivers that a sum or model could not be delivered to", HD_STAT_COUNTER),
	STAT(sends_broken, "sessions", "sessions closed because their send queue was full", HD_STAT_COUNTER),
	STAT(jobs, "jobs", "jobs with a group or a worker at this aggregator", HD_STAT_GAUGE),
	STAT(groups_open, "groups", "groups in progress", HD_STAT_GAUGE),
	STAT(memory_bytes, "bytes", "memory held for groups and their sums", HD_STAT_GAUGE),
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
	.help = "time from the GROUP message to the first chunk of a member",
	.label = {"kind"},
	.scale = &hd_scale_time,
};

static const struct hd_histogram_family collected = {
	.group = "aggregator",
	.name = "collected",
	.help = "time from there to the last chunk of the last member",
	.label = {"kind"},
	.scale = &hd_scale_time,
};

static const struct hd_histogram_family passed_on = {
	.group = "aggregator",
	.name = "passed_on",
	.help = "time from there until a receiver has all of the sum or model",
	.label = {"kind"},
	.scale = &hd_scale_time,
};

/* Histograms of one family follow one another. */
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
