/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control and RTT of one path (this node -> one peer), shared by the transfers that follow one another on
 * it, so that a new transfer starts where the last one ended.
 *
 * Weight: Heddle time-shares, so one transfer runs where others would run n at once. It carries weight w = 1 +
 * transfers queued behind it on its bottleneck, and takes what w TCP flows would take among other tenants' flows, and
 * no more (MulTCP: Crowcroft & Oechslin 1998, with CUBIC's TCP-friendly alpha and beta, RFC 9438 section 4.3):
 *
 *      each RTT without congestion     W <- W + w alpha packets         alpha = 3 (1 - beta) / (1 + beta)
 *      k losses of one congestion      W <- W (1 - (1 - beta) d / w)    d = w (1 - (1 - 1/w)^k), the
 *                                      number of w flows that k losses at random hit; these do not
 *                                      grow for a round trip, the others do
 *
 * Above the window of the last congestion alpha is 1 (RFC 9438 section 4.3). Losses within one burst count once: TCP's
 * bursts belong to one flow. Where we differ: alpha is 1.25 times as large, because Linux's segment trains see fewer
 * loss events than our finer bursts at the same queue; with it the shares against Linux's CUBIC are right
 * (docs/benchmarks/transfers.md).
 *
 * Congestion is: ECN marks, any loss while the queueing delay has grown (by a quarter of
 * the range seen, at least 100 us), any loss in slow start, when no delay is known, and loss above 2 % without
 * delay, if a trial shows that less is lost when less is sent. Loss below 2 % without delay is repaired and
 * otherwise ignored.
 *
 * A trial sends 256 packets in short bursts, at 0.7 of the rate that arrived before. A queue that is too short to be
 * seen, or a policer, then loses clearly less, and the window falls as after any congestion. A lossy path loses as
 * much as before: from then on this much is loss at random. It is not answered, and pacing makes up for it, as
 * grants count what arrives. The next trial is due when loss has grown by a quarter and 2 %, or after 4 s. On a lossy
 * path the delay has grown when it exceeds that of 27 kB, at most 4 ms.
 *
 * There is no trial, and loss above 2 % is congestion, while the round trip exceeds the least one ever by the delay of
 * 27 kB, at most 4 ms: a queue that others fill loses packets without any growth of delay. A trial in progress is
 * given up then. The same holds where the delay of 48 kB cannot be distinguished from noise, on paths into a switch's
 * slots, and for 4 s or more after a trial in which fewer than 64 packets were sent.
 *
 * Bytes here are bytes on the link (headers included), rates bits of those a second.
 */
#ifndef HD_CC_H
#define HD_CC_H

#include "hd_stat_groups.h"
#include "hd_types.h"

/* Bytes on an Ethernet link besides a chunk's payload: chunk header, UDP, IPv4, Ethernet. */
#define HD_CHUNK_OVERHEAD_BYTES (56 + 8 + 20 + 14)

/* The extreme of the last 5 to 10 seconds: one for the current bucket, one for the previous one. */
struct hd_extreme {
	hd_ns now, before;
};

#define HD_PATH_RECENT 3

/* A test whether less is lost when less is sent. */
struct hd_trial {
	hd_ns began; /* 0: none is in progress */
	hd_ns next; /* earliest begin of the next one, unless loss grows */
	bool inconclusive; /* the last one: too little was sent. Until `next` loss is congestion */
	double loss_before; /* share of packets lost */
	double rate_bps; /* highest pacing rate during the trial */
	double acked_bytes, lost_bytes; /* of what was sent during the trial */
};

struct hd_path {
	/* RTT, RFC 6298 with per-packet samples; min over a sliding window. 0 = not measured. */
	hd_ns srtt, rttvar, rtt_min, rtt_latest;
	struct hd_extreme low,
		high; /* of the RTT; high: of the minima of whole rounds, so without spikes */
	hd_ns bucket_ends;
	hd_ns rtt_least; /* ever, of control messages too; HD_NEVER: unknown */
	hd_ns recent[HD_PATH_RECENT]; /* the last samples */
	uint32_t recent_next;
	/* Congestion window, and where slow start ends. */
	double window_bytes;
	double slow_start_bytes;
	double delivery_bps; /* acknowledged over the last rounds, smoothed */
	double loss_average; /* share of packets lost, over about the last thousand */
	double loss_random; /* the part of it that the last trial found to be independent of the rate */
	struct hd_trial trial;
	/* Accounting of the current round trip. */
	uint64_t round_acked;
	uint32_t round_samples;
	hd_ns round_began, round_rtt;
	/* The last congestion: its time, the window before it, its number of losses so far. */
	hd_ns congested_at;
	double congested_window;
	double congested_losses;
	hd_ns full_at; /* when the window last held a sender back */
	hd_ns heard_at; /* last acknowledgement */
	hd_ns active_at; /* last transmission or acknowledgement */
	/* Shared by the transfers in flight. */
	uint64_t inflight_bytes;
	uint32_t transfers;
	hd_ns release_at; /* pacing: when the next burst may be sent */
	uint32_t peer_window_bytes; /* last window_bytes of the peer */
	uint32_t packet_bytes;
	float weight;
	bool slots; /* leads into a switch's slots, where an acknowledgement needs all members: no trials */
	struct hd_transfer_stats *totals; /* the node's, which has many paths; NULL: not counted */
};

/* packet_bytes: size of a full packet on this path, headers included. */
void hd_path_init(struct hd_path *path, uint32_t packet_bytes);
/* The least round trip to the peer that was measured with control messages; 0: none was. */
void hd_path_hear_rtt(struct hd_path *path, hd_ns rtt);

/* A transfer of weight w >= 1 starts on the path. rate_bps: the granted rate, or 0. A granted transfer starts at its
 * granted rate (no slow start), with a window of rate x RTT, unless the path was congested within the last 50 ms: then
 * the learned window applies. If it was congested within 256 round trips, and packets of ours were on it within the
 * last 50 ms, the RTT does not include the queue, except two bursts (27 kB, at most 4 ms). */
void hd_path_start(struct hd_path *path, hd_ns now, float weight, uint64_t rate_bps);
/* A started transfer ends (or gives up). */
void hd_path_stop(struct hd_path *path);
/* The granted rate of the current transfer has changed. */
void hd_path_set_rate(struct hd_path *path, hd_ns now, uint64_t rate_bps);

/* A chunk is sent on it. */
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
	uint32_t lost_bursts; /* the number of bursts that they were part of */
	uint64_t marked; /* packets with ECN marks */
	hd_ns rtt; /* newest sample without the receiver's delay, 0 = none */
};
void hd_path_on_ack(struct hd_path *path, hd_ns now, const struct hd_ack_info *info);
/* Nothing was acknowledged for two timeouts: starts again from a small window. */
void hd_path_on_timeout(struct hd_path *path, hd_ns now);

/* The probe timeout for unacknowledged data: srtt + 4 rttvar + the receiver's delay, within
 * HD_RTO_MIN_US..HD_RTO_MAX_US; HD_RTO_INITIAL_US before the first sample. */
hd_ns hd_path_rto(const struct hd_path *path);
uint64_t hd_path_window(const struct hd_path *path); /* bytes that may be in flight */
/* Pacing rate in bit/s for a transfer whose segment grants `granted_bps` (0: none): at most 1.25
 * times the grant (probing), or the grant within four RTTs after a congestion, plus what is lost of that, as a grant
 * counts what arrives; at most what window and RTT allow (with head room). */
uint64_t hd_path_pacing_bps(const struct hd_path *path, hd_ns now, uint64_t granted_bps);
/* The number of timeouts in a row that loss at random explains; this many do not change the window. */
uint32_t hd_path_timeouts_ignored(const struct hd_path *path);
/* True when the queueing delay has grown. */
bool hd_path_delay_grown(const struct hd_path *path);

#endif
