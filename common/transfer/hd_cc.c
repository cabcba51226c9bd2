/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_assert.h"
#include "hd_cc.h"
#include "hd_limits.h"

#include <math.h>
#include <string.h>

#define BETA 0.7
#define ALPHA (3.0 * (1.0 - BETA) / (1.0 + BETA))
/* Bursts of a TCP with segmentation offload see fewer loss events than our finer ones do at the same
 * queue; measured against four flows of Linux CUBIC, this makes up for it. */
#define BURST_GAIN 1.25
#define WINDOW_INITIAL_PACKETS 10.0 /* RFC 6928 */
#define WINDOW_MIN_PACKETS 4.0
#define WINDOW_MAX_BYTES 1e9
#define LOSS_TOLERATED 0.02
#define LOSS_PACKETS 1024.0 /* the loss average spans about this many */
#define BUCKET_NS (5 * HD_SECOND)
#define QUEUE_NOISE_MIN_NS (100 * HD_US) /* less than this is scheduling noise, not a queue */
#define QUEUE_NOISE_MAX_NS (250 * HD_US)
/* For how long a congestion holds a granted window back. Shorter than the time between the transfers of
 * one worker: by then others have the link, and the window of a shared queue starves one alone. */
#define MEMORY_NS (50 * HD_MS)
#define PACE_HEAD_ROOM 1.2
#define PROBE 1.25
#define RTT_UNKNOWN_NS HD_MS

void hd_path_init(struct hd_path *path, uint32_t packet_bytes) {
	hd_assert(packet_bytes > 0);
	memset(path, 0, sizeof *path);
	path->packet_bytes = packet_bytes;
	path->weight = 1;
	path->window_bytes = WINDOW_INITIAL_PACKETS * packet_bytes;
	path->slow_start_bytes = WINDOW_MAX_BYTES;
	path->low = (struct hd_extreme){HD_NEVER, HD_NEVER};
	path->round_rtt = HD_NEVER;
}

static double clamp_window(const struct hd_path *path, double bytes) {
	return fmin(fmax(bytes, WINDOW_MIN_PACKETS * path->packet_bytes), WINDOW_MAX_BYTES);
}

static bool congested_within(const struct hd_path *path, hd_ns now, hd_ns span) {
	return path->congested_at != 0 && now - path->congested_at < span;
}

void hd_path_set_rate(struct hd_path *path, hd_ns now, uint64_t rate_bps) {
	hd_ns rtt = path->srtt ? path->srtt : RTT_UNKNOWN_NS;
	/* Room for the interval between acknowledgements beside the round trip itself. */
	double need
		= (double)rate_bps / 8e9 * (double)(rtt + 200 * HD_US) + 4.0 * path->packet_bytes;

	if (rate_bps == 0 || congested_within(path, now, MEMORY_NS))
		return;
	path->window_bytes = clamp_window(path, fmax(need, path->window_bytes));
	path->slow_start_bytes = fmin(path->slow_start_bytes, path->window_bytes);
}

/* After a silence the window is old news: it halves each second, and slow start leads back to where
 * it was (RFC 2861). */
static void restart_after_idle(struct hd_path *path, hd_ns now) {
	double initial = WINDOW_INITIAL_PACKETS * path->packet_bytes;
	double old = path->window_bytes;

	if (path->active_at == 0 || now - path->active_at < HD_SECOND)
		return;
	path->window_bytes
		= fmax(fmin(old, initial),
		       old * exp2(-(double)(now - path->active_at) / (double)HD_SECOND));
	path->slow_start_bytes = fmax(path->slow_start_bytes, 0.75 * old);
	path->active_at = now;
}

void hd_path_start(struct hd_path *path, hd_ns now, float weight, uint64_t rate_bps) {
	weight = weight >= 1 ? weight : 1; /* also when it is not a number */
	if (path->transfers == 0)
		restart_after_idle(path, now);
	path->transfers++;
	/* Each of the flows that the weight stands for keeps its window. */
	path->window_bytes
		= clamp_window(path, path->window_bytes * (double)(weight / path->weight));
	path->weight = weight;
	hd_path_set_rate(path, now, rate_bps);
}

void hd_path_stop(struct hd_path *path) {
	hd_assert(path->transfers > 0);
	path->transfers--;
	hd_assert(path->transfers > 0 || path->inflight_bytes == 0);
}

static void roll_buckets(struct hd_path *path, hd_ns now) {
	if (now < path->bucket_ends)
		return;
	path->low = (struct hd_extreme){HD_NEVER, path->low.now};
	path->high = (struct hd_extreme){0, path->high.now};
	path->bucket_ends = now + BUCKET_NS;
}

static void on_rtt(struct hd_path *path, hd_ns now, hd_ns rtt) {
	hd_ns error;

	roll_buckets(path, now);
	path->rtt_latest = rtt;
	path->recent[path->recent_next++ % HD_PATH_RECENT] = rtt;
	path->low.now = hd_ns_min(path->low.now, rtt);
	path->rtt_min = hd_ns_min(path->low.now, path->low.before);
	path->round_rtt = hd_ns_min(path->round_rtt, rtt);
	path->round_samples++;
	if (path->srtt == 0) {
		path->srtt = rtt;
		path->rttvar = rtt / 2;
		return;
	}
	error = rtt > path->srtt ? rtt - path->srtt : path->srtt - rtt;
	path->rttvar = path->rttvar - path->rttvar / 4 + error / 4;
	path->srtt = path->srtt - path->srtt / 8 + rtt / 8;
}

static void end_round(struct hd_path *path, hd_ns now) {
	double elapsed = (double)(now - path->round_began);

	if (elapsed < (double)path->srtt || path->srtt == 0)
		return;
	if (path->round_acked > 0) {
		double rate = (double)path->round_acked * 8e9 / elapsed;
		path->delivery_bps
			= path->delivery_bps > 0 ? 0.75 * path->delivery_bps + 0.25 * rate : rate;
	}
	if (path->round_samples > 0)
		path->high.now = hd_ns_max(path->high.now, path->round_rtt);
	path->round_began = now;
	path->round_acked = 0;
	path->round_samples = 0;
	path->round_rtt = HD_NEVER;
}

bool hd_path_delay_grown(const struct hd_path *path) {
	hd_ns high = hd_ns_max(path->high.now, path->high.before);
	hd_ns range = high > path->rtt_min ? high - path->rtt_min : 0;
	hd_ns noise
		= hd_ns_max(hd_ns_min(path->rtt_min / 8, QUEUE_NOISE_MAX_NS), QUEUE_NOISE_MIN_NS);
	hd_ns queue = hd_ns_max(range / 4, noise);
	hd_ns recent = path->recent[0];

	/* The least of a few samples: a single late one says nothing about the queue. */
	for (size_t i = 1; i < HD_PATH_RECENT; i++)
		recent = hd_ns_min(recent, path->recent[i]);
	return recent > path->rtt_min + queue;
}

/* The share of the w flows that the losses of the last congestion hit: d / w. */
static double hit_share(const struct hd_path *path) {
	double w = (double)path->weight;

	return w > 1.0 ? 1.0 - pow(1.0 - 1.0 / w, path->congested_losses) : 1.0;
}

/* One event has the losses of packets that were sent before we answered it. */
static void on_congestion(struct hd_path *path, hd_ns now, hd_ns sent_at, double losses) {
	double window;

	if (path->congested_at == 0 || sent_at > path->congested_at) {
		path->congested_at = now;
		path->congested_window = path->window_bytes;
		path->congested_losses = 0;
	}
	path->congested_losses += losses;
	window = path->congested_window * (1.0 - (1.0 - BETA) * hit_share(path));
	path->window_bytes = fmin(path->window_bytes, clamp_window(path, window));
	path->slow_start_bytes = path->window_bytes;
}

/* Of the w flows, those that a congestion hit do not grow for a round trip, the others do. */
static double growing_flows(const struct hd_path *path, hd_ns now) {
	double w = (double)path->weight;

	return congested_within(path, now, path->srtt) ? w * (1.0 - hit_share(path)) : w;
}

static void grow(struct hd_path *path, hd_ns now, double acked) {
	double alpha = BURST_GAIN * (path->window_bytes < path->congested_window ? ALPHA : 1.0);

	/* Only a window that held the sender back has been found too small. */
	if (path->full_at == 0 || now - path->full_at > path->srtt + path->srtt / 4 + 200 * HD_US)
		return;
	if (path->window_bytes < path->slow_start_bytes) {
		if (hd_path_delay_grown(path))
			path->slow_start_bytes = path->window_bytes;
		else
			path->window_bytes += acked;
	} else {
		path->window_bytes += alpha * growing_flows(path, now) * path->packet_bytes * acked
			/ path->window_bytes;
	}
	path->window_bytes = clamp_window(path, path->window_bytes);
}

/* In slow start any loss is: nothing is known yet of what delays are usual here. */
static bool is_congestion(const struct hd_path *path) {
	return path->window_bytes < path->slow_start_bytes || path->loss_average > LOSS_TOLERATED
		|| hd_path_delay_grown(path);
}

void hd_path_on_ack(struct hd_path *path, hd_ns now, const struct hd_ack_info *info) {
	double acked = (double)info->acked_bytes, lost = (double)info->lost_bytes;
	double packets = (acked + lost) / path->packet_bytes;

	path->active_at = now;
	path->heard_at = now;
	if (info->rtt > 0)
		on_rtt(path, now, info->rtt);
	if (packets > 0) {
		double keep = exp(-packets / LOSS_PACKETS);
		path->loss_average
			= path->loss_average * keep + lost / (acked + lost) * (1.0 - keep);
	}
	if (info->marked > 0)
		on_congestion(path, now, now, (double)info->marked);
	else if (lost > 0 && is_congestion(path))
		on_congestion(path, now, info->lost_sent_at, fmax(info->lost_bursts, 1));
	else if (acked > 0)
		grow(path, now, acked);
	path->round_acked += info->acked_bytes;
	end_round(path, now);
}

void hd_path_on_timeout(struct hd_path *path, hd_ns now) {
	path->slow_start_bytes
		= fmax(path->window_bytes * BETA, WINDOW_INITIAL_PACKETS * path->packet_bytes);
	path->window_bytes = clamp_window(path, 0);
	path->congested_at = now;
	path->congested_window = path->window_bytes;
	path->congested_losses = 0;
}

hd_ns hd_path_rto(const struct hd_path *path) {
	hd_ns rto;

	if (path->srtt == 0)
		return HD_RTO_INITIAL_US * HD_US;
	rto = path->srtt + 4 * path->rttvar + HD_SACK_DELAY_US * HD_US;
	return hd_ns_min(hd_ns_max(rto, HD_RTO_MIN_US * HD_US), HD_RTO_MAX_US * HD_US);
}

uint64_t hd_path_window(const struct hd_path *path) {
	return (uint64_t)path->window_bytes;
}

uint64_t hd_path_pacing_bps(const struct hd_path *path, hd_ns now, uint64_t granted_bps) {
	hd_ns rtt = path->srtt ? path->srtt : RTT_UNKNOWN_NS;
	double gain = path->window_bytes < path->slow_start_bytes ? 2.0 : PACE_HEAD_ROOM;
	double rate = gain * path->window_bytes * 8e9 / (double)rtt;

	if (granted_bps > 0) {
		double probe = congested_within(path, now, 4 * rtt) ? 1.0 : PROBE;
		rate = fmin(rate, probe * (double)granted_bps);
	}
	return (uint64_t)fmax(rate, 8.0 * path->packet_bytes); /* a packet a second at least */
}
