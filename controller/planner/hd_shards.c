/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_shards.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

#define HALVINGS 200

/* An all-reduce, a broadcast or a reduce. */
struct job {
	struct hd_shards_host *hosts;
	uint32_t count, workers;
	double givers, receivers, bytes;
};

/* Bytes that cross a host's link in one direction, and how much more for each byte of its shard. */
struct load {
	double base, slope, capacity;
};

/* Values go out, sums come in. */
static void
loads(const struct job *job, const struct hd_shards_host *host, struct load *out, struct load *in) {
	double gives = host->workers - host->not_giving;
	double receives = host->workers - host->not_receiving;

	*out = (struct load){gives * job->bytes, job->receivers - receives - gives, host->out};
	*in = (struct load){receives * job->bytes, job->givers - gives - receives, host->in};
}

/* Narrows the limits of a host's shard to those within which this direction is done in time. False: impossible. */
static bool narrow(const struct load *load, double seconds, double range[2]) {
	double spare = seconds * load->capacity - load->base;

	if (load->slope > 0)
		range[1] = fmin(range[1], spare / load->slope);
	else if (load->slope < 0) /* values that stay on this host spare the link */
		range[0] = fmax(range[0], spare / load->slope);
	else if (spare < 0)
		return false;
	return range[0] <= range[1];
}

/* The limits of the host's shard if it is done within `seconds`. False: impossible. */
static bool
bounds(const struct job *job, const struct hd_shards_host *host, double seconds, double range[2]) {
	struct load out, in;

	loads(job, host, &out, &in);
	range[0] = 0;
	range[1] = host->aggregator ? fmin(job->bytes, host->room) : 0;
	return narrow(&out, seconds, range) && narrow(&in, seconds, range);
}

/* Sums of all hosts' limits. False: a host cannot be done in time, or the shards cannot cover all values. */
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
		struct load path[2];

		loads(job, &job->hosts[i], &path[0], &path[1]);
		for (int k = 0; k < 2; k++)
			high
				= fmax(high,
				       (path[k].base + fmax(0, path[k].slope) * job->bytes)
					       / path[k].capacity);
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

/* The remainder of rounding goes to the last host that has a shard; for a job of less than a grain, to the host with
 * the highest limit. */
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

/* Each shard at the same fraction between its limits, in whole grains. */
static void cut(const struct job *job, uint64_t bytes, uint64_t grain, double seconds) {
	double sums[2], range[2], part, end = 0;
	uint64_t given = 0;

	(void)feasible(job, seconds, sums);
	part = sums[1] > sums[0] ? (job->bytes - sums[0]) / (sums[1] - sums[0]) : 0;
	for (uint32_t i = 0; i < job->count; i++) {
		uint64_t to;

		(void)bounds(job, &job->hosts[i], seconds, range);
		end += range[0] + part * (range[1] - range[0]);
		/* Sums are rounded, not shards: so errors do not add up. */
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
	struct job job = {.hosts = hosts, .count = count, .bytes = (double)bytes};
	double room = 0;

	for (uint32_t i = 0; i < count; i++) {
		hosts[i].bytes = 0;
		if (!(hosts[i].out > 0) || !(hosts[i].in > 0))
			return -EINVAL;
		job.workers += hosts[i].workers;
		job.givers += hosts[i].workers - hosts[i].not_giving;
		job.receivers += hosts[i].workers - hosts[i].not_receiving;
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
