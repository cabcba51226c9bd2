/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Divides an all-reduce among aggregators so that its slowest link ends as early as possible. Pure.
 *
 * n workers each hold S bytes. A shard of a S bytes is sent to an aggregator by all, added there, and sent back to all.
 * Values that stay on a host cross no link, so a host with w of the workers and an aggregator with the share a carries,
 * each way,
 *
 *     w S                       its workers' own values: out to the aggregators, back in as sums
 *     - w a S                   those that stay here
 *     + (n - w) a S             the others', in to be added and out as sums
 *
 * together S (w + (n - 2 w) a). With capacity c and T the time, a <= (T c / S - w) / (n - 2 w): the smallest T at which
 * the shares add up to 1 is searched (water filling). With equal links it is a ring's 2 (n - 1) / n S / c; a slow link
 * gets no shard and is crossed once each way, where a ring crosses it 2 (n - 1) / n times.
 */
#ifndef HD_SHARDS_H
#define HD_SHARDS_H

#include "hd_types.h"

/* A host with workers of the job, an aggregator, or both. */
struct hd_shards_host {
	double out, in; /* capacity of its link for this job, bytes/s; > 0 */
	uint32_t workers; /* of this operation, on it; */
	uint32_t not_giving,
		not_receiving; /* of these, those without values, and those that want no sum */
	bool aggregator;
	double room; /* bytes that the aggregator can hold at once */
	/* result */
	uint64_t bytes; /* its shard: a multiple of the grain, 0: none */
};

/*
 * Divides `bytes` into shards: sets hosts[].bytes, whose sum it is. A shard is a multiple of `grain` bytes, the last
 * one may end early. Returns 0 with *seconds the time of the slowest link, -EINVAL (no host, no worker, no byte, no
 * grain, a capacity that is not positive), -ENOSPC (the aggregators have not enough memory).
 */
int hd_shards_cut(
	struct hd_shards_host *hosts,
	uint32_t count,
	uint64_t bytes,
	uint64_t grain,
	double *seconds
);

#endif
