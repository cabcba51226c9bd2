/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_shards.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

#define HALVINGS 200

/* What an all-reduce is. */
struct job {
	struct hd_shards_host *hosts;
	uint32_t count, workers;
	double bytes;
};

/* Bytes that cross the host's link each way when its aggregator has `shard` of them. */
static double load(const struct job *job, const struct hd_shards_host *host, double shard) {
	double here = host->workers, all = job->workers;

	return here * job->bytes + (all - 2 * here) * shard;
}

/* Which shards the host can have to be done within `seconds`. False: none. */
static bool
bounds(const struct job *job, const struct hd_shards_host *host, double seconds, double range[2]) {
	double cost = (double)job->workers - 2.0 * host->workers;
	double spare = seconds * fmin(host->out, host->in) - load(job, host, 0);

	range[0] = 0;
	range[1] = host->aggregator ? fmin(job->bytes, host->room) : 0;
	if (cost > 0)
		range[1] = fmin(range[1], spare / cost);
	else if (cost < 0)
		range[0] = fmax(0, spare / cost); /* what stays here spares the link */
	else if (spare < 0)
		return false;
	return range[0] <= range[1];
}

/* Sums of all hosts' bounds. False: somebody cannot be done in time, or all shards cannot be had. */
static bool feasible(const struct job *job, double seconds, double sums[2]) {
	double range[2];

	sums[0] = sums[1] = 0;
	for (uint32_t i = 0; i < job->count; i++) {
		if (!bounds(job, &job->hosts[i], seconds, range))
			return false;
		sums[0] += range[0];
		sums[1] += range[1];
	}
	return sums[0] <= job->bytes && job->bytes <= sums[1];
}

static double least_seconds(const struct job *job) {
	double low = 0, high = 0, sums[2];

	for (uint32_t i = 0; i < job->count; i++) {
		const struct hd_shards_host *host = &job->hosts[i];
		double most = fmax(load(job, host, 0), load(job, host, job->bytes));

		high = fmax(high, most / fmin(host->out, host->in));
	}
	high *= 1 + 1e-9; /* it is feasible, and stays so when rounded */
	for (int i = 0; i < HALVINGS && high - low > 1e-9 * high; i++) {
		double middle = low + (high - low) / 2;

		if (feasible(job, middle, sums))
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* What rounding left goes to the last one that has a shard, or of a job of less than a grain to who could do the
 * most. */
static void give_rest(const struct job *job, uint64_t rest, double seconds) {
	struct hd_shards_host *to = NULL;
	double range[2], most = 0;

	for (uint32_t i = 0; i < job->count; i++) {
		(void)bounds(job, &job->hosts[i], seconds, range);
		if (job->hosts[i].bytes > 0 || ((!to || to->bytes == 0) && range[1] > most)) {
			to = &job->hosts[i];
			most = range[1];
		}
	}
	if (to)
		to->bytes += rest;
}

/* Shards between their bounds, all the same way between, in whole grains. */
static void cut(const struct job *job, uint64_t bytes, uint64_t grain, double seconds) {
	double sums[2], range[2], part, end = 0;
	uint64_t given = 0;

	(void)feasible(job, seconds, sums);
	part = sums[1] > sums[0] ? (job->bytes - sums[0]) / (sums[1] - sums[0]) : 0;
	for (uint32_t i = 0; i < job->count; i++) {
		uint64_t to;

		(void)bounds(job, &job->hosts[i], seconds, range);
		end += range[0] + part * (range[1] - range[0]);
		/* Sums are rounded, not shards: their errors do not add up. */
		to = (uint64_t)llround(end / (double)grain) * grain;
		to = to < bytes ? to : bytes;
		job->hosts[i].bytes = range[1] > 0 && to > given ? to - given : 0;
		given += job->hosts[i].bytes;
	}
	give_rest(job, bytes - given, seconds);
}

int hd_shards_cut(
	struct hd_shards_host *hosts,
	uint32_t count,
	uint64_t bytes,
	uint64_t grain,
	double *seconds
) {
	struct job job = {hosts, count, 0, (double)bytes};
	double room = 0;

	for (uint32_t i = 0; i < count; i++) {
		hosts[i].bytes = 0;
		if (!(hosts[i].out > 0) || !(hosts[i].in > 0))
			return -EINVAL;
		job.workers += hosts[i].workers;
		room += hosts[i].aggregator ? fmin(hosts[i].room, job.bytes) : 0;
	}
	if (job.workers == 0 || bytes == 0 || grain == 0)
		return -EINVAL;
	if (room < job.bytes)
		return -ENOSPC;
	*seconds = least_seconds(&job);
	cut(&job, bytes, grain, *seconds);
	return 0;
}
