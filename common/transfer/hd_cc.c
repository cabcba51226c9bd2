/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_assert.h"
#include "hd_cc.h"
#include "hd_limits.h"

#include <math.h>
#include <string.h>

#define BETA 0.7
#define ALPHA (3.0 * (1.0 - BETA) / (1.0 + BETA))
/* A TCP with segmentation offload sends in bursts that see fewer loss events than our finer ones at the same queue;
 * measured against four flows of Linux CUBIC, this factor makes up for it. */
#define BURST_GAIN 1.25
#define WINDOW_INITIAL_PACKETS 10.0 /* RFC 6928 */
#define WINDOW_MIN_PACKETS 4.0
#define WINDOW_MAX_BYTES 1e9
#define LOSS_TOLERATED 0.02
#define LOSS_PACKETS 1024.0 /* the loss average spans about this many */
#define LOSS_RANDOM_MAX 0.5 /* loss above this always counts as congestion */
/* A trial is due at once when loss exceeds this times loss_random + LOSS_TOLERATED. */
#define LOSS_GROWN 1.25
#define TRIAL_PACKETS 256
#define TRIAL_PACKETS_MIN 64 /* with fewer the trial is inconclusive */
#define TRIAL_NS (HD_SECOND / 2) /* a trial takes no longer */
#define TRIAL_RTTS_AFTER 8 /* no trial begins within this many round trips of a congestion */
#define TRIAL_RATE 0.7 /* of the delivery rate, which the path is known to carry */
#define TRIAL_SAME 0.6 /* loss at random stays above so much of the loss before the trial */
#define TRIAL_INTERVAL_NS (4 * HD_SECOND)
#define TRIAL_INTERVALS 32 /* and at least this many times the duration of the last trial */
#define QUEUE_SHORT_BYTES 48000.0 /* switches have queues as long as this for each port */
#define QUEUE_OWN_BYTES 27000.0 /* two bursts */
#define QUEUE_OWN_NS (4 * HD_MS)
/* Timeouts in a row that are more probable than this, by loss at random alone, are not congestion. */
#define TIMEOUTS_PROBABILITY 0.01
#define TIMEOUTS_IGNORED_MAX 6
#define BUCKET_NS (5 * HD_SECOND)
#define QUEUE_NOISE_MIN_NS (100 * HD_US) /* less than this is scheduling noise, not a queue */
#define QUEUE_NOISE_MAX_NS (250 * HD_US)
/* How long after a congestion a granted window stays limited, and the longest pause of transfers that follow one
 * another. Shorter than the time between the transfers of one worker: by then others use the link, and the window of a
 * shared queue would starve a single one. */
#define MEMORY_NS (50 * HD_MS)
#define LEARNED_RTTS                                                                               \
	256 /* after a congestion the window shows what others leave: several times its cycle */
/* A round longer than two round trips and this was held up by a machine: its delay is not that of a queue. */
#define ROUND_LATE_NS HD_MS
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
	path->rtt_least = HD_NEVER;
}

void hd_path_hear_rtt(struct hd_path *path, hd_ns rtt) {
	if (rtt > 0)
		path->rtt_least = hd_ns_min(path->rtt_least, rtt);
}

static double clamp_window(const struct hd_path *path, double bytes) {
	return fmin(fmax(bytes, WINDOW_MIN_PACKETS * path->packet_bytes), WINDOW_MAX_BYTES);
}

static bool congested_within(const struct hd_path *path, hd_ns now, hd_ns span) {
	return path->congested_at != 0 && now - path->congested_at < span;
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
	path->rtt_least = hd_ns_min(path->rtt_least, rtt);
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
	if (path->round_samples > 0 && elapsed <= 2.0 * (double)path->srtt + (double)ROUND_LATE_NS)
		path->high.now = hd_ns_max(path->high.now, path->round_rtt);
	path->round_began = now;
	path->round_acked = 0;
	path->round_samples = 0;
	path->round_rtt = HD_NEVER;
}

/* A delay up to this is noise, not a queue. */
static hd_ns noise_ns(const struct hd_path *path) {
	return hd_ns_max(hd_ns_min(path->rtt_min / 8, QUEUE_NOISE_MAX_NS), QUEUE_NOISE_MIN_NS);
}

/*
 * The queue that our own packets may build on a lossy path: with less in flight a few lost acknowledgements would leave
 * the path idle. The limit in time keeps it below the queue that other flows build.
 */
static hd_ns own_queue_ns(const struct hd_path *path) {
	if (path->loss_random <= LOSS_TOLERATED || path->delivery_bps <= 0)
		return 0;
	return hd_ns_min(
		(hd_ns)(QUEUE_OWN_BYTES * 8e9 * (1.0 - path->loss_random) / path->delivery_bps),
		QUEUE_OWN_NS
	);
}

/* The minimum of a few samples: a single late one says nothing about the queue. */
static hd_ns recent_rtt(const struct hd_path *path) {
	hd_ns recent = path->recent[0];

	for (size_t i = 1; i < HD_PATH_RECENT; i++)
		recent = hd_ns_min(recent, path->recent[i]);
	return recent;
}

bool hd_path_delay_grown(const struct hd_path *path) {
	hd_ns high = hd_ns_max(path->high.now, path->high.before);
	hd_ns range = high > path->rtt_min ? high - path->rtt_min : 0;
	hd_ns queue = hd_ns_max(range / 4, hd_ns_max(noise_ns(path), own_queue_ns(path)));

	return recent_rtt(path) > path->rtt_min + queue;
}

/* The longest round trip that the least one ever and two bursts of ours, or noise, explain. */
static hd_ns unqueued_rtt(const struct hd_path *path) {
	hd_ns own = QUEUE_OWN_NS;

	if (path->delivery_bps > 0)
		own = hd_ns_min(own, (hd_ns)(QUEUE_OWN_BYTES * 8e9 / path->delivery_bps));
	return hd_ns_add(path->rtt_least, hd_ns_max(own, noise_ns(path)));
}

/* A queue that is never empty, as where many transfers share a link, raises rtt_min with all other samples, and does
 * not show as growth. It shows against the least round trip ever. */
static bool queue_stands(const struct hd_path *path) {
	return recent_rtt(path) > unqueued_rtt(path);
}

/* The round trip of a granted window. Of transfers that follow one another none takes more of a queue than congestion
 * control has left to the one before: what others queue does not count. */
static hd_ns granted_rtt(const struct hd_path *path, hd_ns now) {
	if (path->srtt == 0)
		return RTT_UNKNOWN_NS;
	if (now - path->active_at < MEMORY_NS
	    && congested_within(path, now, LEARNED_RTTS * path->srtt))
		return hd_ns_min(path->srtt, unqueued_rtt(path));
	return path->srtt;
}

static void take_grant(struct hd_path *path, hd_ns now, uint64_t rate_bps, hd_ns rtt) {
	/* Includes the interval between acknowledgements besides the round trip. */
	double need
		= (double)rate_bps / 8e9 * (double)(rtt + 200 * HD_US) + 4.0 * path->packet_bytes;

	if (rate_bps == 0 || congested_within(path, now, MEMORY_NS))
		return;
	path->window_bytes = clamp_window(path, fmax(need, path->window_bytes));
	path->slow_start_bytes = fmin(path->slow_start_bytes, path->window_bytes);
}

void hd_path_set_rate(struct hd_path *path, hd_ns now, uint64_t rate_bps) {
	take_grant(path, now, rate_bps, granted_rtt(path, now));
}

/* After a silence the window is out of date: it halves each second, and slow start leads back to its last value (RFC
 * 2861). */
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
	hd_ns rtt = granted_rtt(path, now);

	weight = weight >= 1 ? weight : 1; /* also if it is NaN */
	if (path->transfers == 0) {
		restart_after_idle(path, now);
		path->round_began = now; /* the pause does not count for the delivery rate */
		path->round_acked = 0;
	}
	path->transfers++;
	/* Each of the flows that the weight represents keeps its window. */
	path->window_bytes
		= clamp_window(path, path->window_bytes * (double)(weight / path->weight));
	path->weight = weight;
	take_grant(path, now, rate_bps, rtt);
}

void hd_path_stop(struct hd_path *path) {
	hd_assert(path->transfers > 0);
	path->transfers--;
	hd_assert(path->transfers > 0 || path->inflight_bytes == 0);
}

/* The share d / w of the w flows that the losses of the last congestion hit. */
static double hit_share(const struct hd_path *path) {
	double w = (double)path->weight;

	return w > 1.0 ? 1.0 - pow(1.0 - 1.0 / w, path->congested_losses) : 1.0;
}

/* One event includes the losses of all packets sent before we reacted to it. */
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

/* Of the w flows, those that a congestion hit do not grow for a round trip; the others do. */
static double growing_flows(const struct hd_path *path, hd_ns now) {
	double w = (double)path->weight;

	return congested_within(path, now, path->srtt) ? w * (1.0 - hit_share(path)) : w;
}

static void grow(struct hd_path *path, hd_ns now, double acked) {
	double alpha = BURST_GAIN * (path->window_bytes < path->congested_window ? ALPHA : 1.0);

	/* The window was too small only if it held the sender back. */
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

/* --- loss at random ------------------------------------------------------------------------- */

/* Whether the delay would show a short queue, at the delivery rate of the path. */
static bool delay_shows_queue(const struct hd_path *path) {
	return !path->slots && path->rtt_min != HD_NEVER && path->delivery_bps > 0
		&& path->delivery_bps / 8e9 * (double)noise_ns(path) < QUEUE_SHORT_BYTES;
}

static void trial_begin(struct hd_path *path, hd_ns now) {
	path->trial = (struct hd_trial){
		.began = now,
		.loss_before = path->loss_average,
		.rate_bps = TRIAL_RATE * path->delivery_bps,
	};
}

/* Counts only what was sent since the trial began. */
static void trial_count(struct hd_path *path, hd_ns now, const struct hd_ack_info *info) {
	struct hd_trial *trial = &path->trial;

	if (now - trial->began < path->srtt)
		return;
	trial->acked_bytes += (double)info->acked_bytes;
	if (info->lost_sent_at > trial->began)
		trial->lost_bytes += (double)info->lost_bytes;
}

/* Ends the trial when it has seen enough. True if clearly less was lost: the loss was congestion. */
static bool trial_end(struct hd_path *path, hd_ns now) {
	const struct hd_trial trial = path->trial;
	double bytes = trial.acked_bytes + trial.lost_bytes, loss;
	hd_ns took = now - trial.began;

	if (bytes < TRIAL_PACKETS * path->packet_bytes && took < TRIAL_NS)
		return false;
	took = hd_ns_min(took, TRIAL_NS); /* the rest is a pause: an acknowledgement ends a trial */
	path->trial = (struct hd_trial
	){.next = hd_ns_add(now, hd_ns_max(TRIAL_INTERVAL_NS, TRIAL_INTERVALS * took))};
	path->trial.inconclusive = bytes < TRIAL_PACKETS_MIN * path->packet_bytes;
	if (path->trial.inconclusive)
		return false;
	loss = trial.lost_bytes / bytes;
	path->loss_random = fmin(loss, LOSS_RANDOM_MAX);
	path->loss_average = loss;
	return loss < TRIAL_SAME * trial.loss_before;
}

static bool trial_due(const struct hd_path *path, hd_ns now) {
	return path->loss_average > LOSS_TOLERATED
		&& (path->loss_average > LOSS_GROWN * path->loss_random + LOSS_TOLERATED
		    || now >= path->trial.next);
}

static void average_loss(struct hd_path *path, double acked, double lost) {
	double keep = exp(-(acked + lost) / path->packet_bytes / LOSS_PACKETS);

	path->loss_average = path->loss_average * keep + lost / (acked + lost) * (1.0 - keep);
	path->loss_random = fmin(path->loss_random, path->loss_average);
}

/* Loss without delay: true when it counts as congestion. May begin a trial. */
static bool loss_is_congestion(struct hd_path *path, hd_ns now) {
	if (path->loss_average <= LOSS_TOLERATED)
		return false;
	if (queue_stands(path)) {
		path->trial.began = 0;
		return true;
	}
	if (path->loss_average > LOSS_RANDOM_MAX || !delay_shows_queue(path)
	    || (path->trial.inconclusive && now < path->trial.next))
		return true;
	/* Not right after a congestion, which may explain the loss. */
	if (path->trial.began == 0 && trial_due(path, now)
	    && !congested_within(path, now, TRIAL_RTTS_AFTER * path->srtt))
		trial_begin(path, now);
	return false;
}

/* In slow start any loss is congestion: the path's usual delay is not known yet. */
static bool is_congestion(struct hd_path *path, hd_ns now) {
	bool starts = path->window_bytes < path->slow_start_bytes && path->loss_random == 0;

	return starts || hd_path_delay_grown(path) || loss_is_congestion(path, now);
}

void hd_path_on_ack(struct hd_path *path, hd_ns now, const struct hd_ack_info *info) {
	double acked = (double)info->acked_bytes, lost = (double)info->lost_bytes;
	double bursts = fmax(info->lost_bursts, 1);

	path->active_at = now;
	path->heard_at = now;
	if (info->rtt > 0)
		on_rtt(path, now, info->rtt);
	if (acked + lost > 0)
		average_loss(path, acked, lost);
	if (info->marked > 0)
		on_congestion(path, now, now, (double)info->marked);
	else if (lost > 0 && is_congestion(path, now))
		on_congestion(path, now, info->lost_sent_at, bursts);
	else if (acked > 0 && path->trial.began == 0)
		grow(path, now, acked);
	if (path->trial.began != 0) {
		trial_count(path, now, info);
		if (trial_end(path, now))
			on_congestion(path, now, now, bursts);
	}
	path->round_acked += info->acked_bytes;
	end_round(path, now);
}

/* After a timeout two probes are sent: one of them and its acknowledgement must arrive. */
uint32_t hd_path_timeouts_ignored(const struct hd_path *path) {
	double p = path->loss_random, again = 1.0 - (1.0 - p * p) * (1.0 - p);
	double probability = again;
	uint32_t count = 0;

	if (p <= LOSS_TOLERATED)
		return 0;
	while (probability > TIMEOUTS_PROBABILITY && count < TIMEOUTS_IGNORED_MAX) {
		probability *= again;
		count++;
	}
	return count;
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
		bool congested = congested_within(path, now, 4 * rtt);
		double lost
			= fmin(congested ? path->loss_average : path->loss_random, LOSS_RANDOM_MAX);
		double probe = congested ? 1.0 : PROBE;

		rate = fmin(rate, probe * (double)granted_bps / (1.0 - lost));
	}
	/* A trial ends with an acknowledgement, which may come late; its lower rate ends in time. */
	if (path->trial.began != 0 && now - path->trial.began < TRIAL_NS)
		rate = fmin(rate, path->trial.rate_bps);
	return (uint64_t)fmax(rate, 8.0 * path->packet_bytes); /* a packet a second at least */
}
