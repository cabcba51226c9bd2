/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control and RTT of one path (this node -> one peer), shared by the transfers that
 * follow one another on it, so that a new transfer starts where the last one ended.
 *
 * Weight: Heddle time-shares, so one transfer stands where others would run n at once. It carries
 * weight w = 1 + transfers queued behind it on its bottleneck, and takes what w TCP flows would
 * take among other tenants' flows, and no more (MulTCP: Crowcroft & Oechslin 1998, with CUBIC's
 * TCP-friendly alpha and beta, RFC 9438 section 4.3):
 *
 *      each RTT without congestion     W <- W + w alpha packets         alpha = 3 (1 - beta) / (1 + beta)
 *      k losses of one congestion      W <- W (1 - (1 - beta) d / w)    d = w (1 - (1 - 1/w)^k), the
 *                                      number of w flows that k losses at random hit; these do not
 *                                      grow for a round trip, the others do
 *
 * Above the window of the last congestion alpha is 1 (RFC 9438 section 4.3). Losses within one burst
 * count once: TCP's bursts belong to one flow. Where we differ: alpha is 1.25 times as big, because
 * Linux's segment trains see fewer loss events than our finer bursts do at the same queue; with it
 * shares against Linux's CUBIC come out right (docs/benchmarks/transfers.md has them).
 *
 * What counts as congestion: ECN marks, loss above 2 %, or any loss while the queueing delay has
 * grown (by a quarter of the range seen, at least 100 us), or any loss in slow start, when no delay is
 * known. Loss below 2 % without delay is repaired and otherwise ignored.
 *
 * Bytes here are bytes on the link (headers included), rates bits of those a second.
 */
#ifndef HD_CC_H
#define HD_CC_H

#include "hd_stat_groups.h"
#include "hd_types.h"

/* What a chunk's payload costs on an Ethernet link: chunk header, UDP, IPv4, Ethernet. */
#define HD_CHUNK_OVERHEAD_BYTES (56 + 8 + 20 + 14)

/* The extreme of the last 5 to 10 seconds: one for the present bucket, one for the one before. */
struct hd_extreme {
	hd_ns now, before;
};

#define HD_PATH_RECENT 3

struct hd_path {
	/* RTT, RFC 6298 with per-packet samples; min over a sliding window. 0 = not measured. */
	hd_ns srtt, rttvar, rtt_min, rtt_latest;
	struct hd_extreme low,
		high; /* of the RTT; high: of whole rounds' minima, so not of spikes */
	hd_ns bucket_ends;
	hd_ns recent[HD_PATH_RECENT]; /* the last samples */
	uint32_t recent_next;
	/* Congestion window, and where slow start ends. */
	double window_bytes;
	double slow_start_bytes;
	double delivery_bps; /* what was acknowledged over the last rounds, smoothed */
	double loss_average; /* share of packets lost, over about the last thousand */
	/* Accounting of the present round trip. */
	uint64_t round_acked;
	uint32_t round_samples;
	hd_ns round_began, round_rtt;
	/* The last congestion: when, the window before it, how many losses it had so far. */
	hd_ns congested_at;
	double congested_window;
	double congested_losses;
	hd_ns full_at; /* when the window last held a sender back */
	hd_ns heard_at; /* last acknowledgement */
	hd_ns active_at; /* last transmission or acknowledgement */
	/* Shared by the transfers that are under way. */
	uint64_t inflight_bytes;
	uint32_t transfers;
	hd_ns release_at; /* pacing: when the next burst may leave */
	uint32_t peer_window_bytes; /* last window_bytes of the peer */
	uint32_t packet_bytes;
	float weight;
	struct hd_transfer_stats
		*totals; /* the node's, which has many paths; NULL: nobody counts */
};

/* packet_bytes: size of a full packet on this path, headers included. */
void hd_path_init(struct hd_path *path, uint32_t packet_bytes);

/* A transfer of weight w >= 1 starts on the path. rate_bps: the granted rate, or 0. A granted
 * transfer starts at its granted rate (no slow start), a window of rate x RTT, unless the path was
 * congested within the last 50 ms: then what it learnt rules. */
void hd_path_start(struct hd_path *path, hd_ns now, float weight, uint64_t rate_bps);
/* A transfer that was started ends (or gives up). */
void hd_path_stop(struct hd_path *path);
/* The granted rate of the transfer under way changed. */
void hd_path_set_rate(struct hd_path *path, hd_ns now, uint64_t rate_bps);

/* A chunk leaves on it. */
static inline void hd_path_count(const struct hd_path *path, bool resent) {
	if (!path->totals)
		return;
	path->totals->chunks_sent++;
	path->totals->chunks_resent += resent;
}

struct hd_ack_info {
	uint64_t acked_bytes; /* newly acknowledged */
	uint64_t lost_bytes; /* newly declared lost */
	hd_ns lost_sent_at; /* when the newest of those was sent */
	uint32_t lost_bursts; /* how many bursts they were part of */
	uint64_t marked; /* packets with ECN marks */
	hd_ns rtt; /* newest sample without the receiver's delay, 0 = none */
};
void hd_path_on_ack(struct hd_path *path, hd_ns now, const struct hd_ack_info *info);
/* Nothing was acknowledged over two timeouts: start again from a small window. */
void hd_path_on_timeout(struct hd_path *path, hd_ns now);

/* Time after which unacknowledged data is probed for: srtt + 4 rttvar + the receiver's delay,
 * within HD_RTO_MIN_US..HD_RTO_MAX_US; HD_RTO_INITIAL_US before the first sample. */
hd_ns hd_path_rto(const struct hd_path *path);
uint64_t hd_path_window(const struct hd_path *path); /* bytes that may be in flight */
/* Pacing rate in bit/s for a transfer whose segment grants `granted_bps` (0: none): at most 1.25
 * times the grant (probing; 1.0 within four RTTs after a congestion), at most what window and RTT
 * allow (with head room). */
uint64_t hd_path_pacing_bps(const struct hd_path *path, hd_ns now, uint64_t granted_bps);
/* True when the queueing delay has grown. */
bool hd_path_delay_grown(const struct hd_path *path);

#endif
