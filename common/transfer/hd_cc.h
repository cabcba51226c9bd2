/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control and RTT of one path (this node -> one peer), shared by the transfers that
 * follow one another on it, so that a new transfer starts where the last one ended.
 *
 * Weight: Heddle time-shares, so one transfer stands where others would run n at once. It carries
 * weight w = 1 + transfers queued behind it on its bottleneck, and takes what w TCP flows would
 * take among other tenants' flows, and no more (MulTCP: Crowcroft & Oechslin 1998, with CUBIC's
 * TCP-friendly alpha and beta, RFC 9438 section 4.3).
 *
 * What counts as congestion: ECN marks, loss above 2 %, or any loss while the queueing delay has
 * grown. Loss below 2 % without delay is repaired and otherwise ignored.
 */
#ifndef HD_CC_H
#define HD_CC_H

#include "hd_types.h"

struct hd_path {
	/* RTT, RFC 6298 with per-packet samples; min over a sliding window. */
	hd_ns srtt, rttvar, rtt_min, rtt_latest;
	hd_ns rtt_min_at;
	/* Window in bytes, and the delivery-rate filter (bits/s) that paces above the window's need. */
	double window_bytes;
	double slow_start_bytes;
	double delivery_bps;
	/* Accounting of the present round trip. */
	uint64_t round_sent, round_lost, round_marked;
	double loss_average;
	hd_ns round_ends, recovery_until;
	bool app_limited;
	uint32_t packet_bytes;
	float weight;
	uint64_t opaque[16]; /* room for the algorithm's own state */
};

/* packet_bytes: size of a full packet on this path, headers included. */
void hd_path_init(struct hd_path *path, uint32_t packet_bytes);

/* A transfer of weight w >= 1 starts on the path. rate_bps: the granted rate, or 0. A granted
 * transfer starts at its granted rate (no slow start), a window of rate x RTT. */
void hd_path_start(struct hd_path *path, hd_ns now, float weight, uint64_t rate_bps);

struct hd_ack_info {
	uint64_t acked_bytes; /* newly acknowledged */
	uint64_t lost_bytes; /* newly declared lost */
	uint64_t inflight_bytes; /* after both */
	uint64_t marked; /* packets with ECN marks */
	hd_ns rtt; /* newest sample without the receiver's delay, 0 = none */
	double delivery_bps; /* delivery-rate sample (draft-cheng-iccrg-delivery-rate), 0 = none */
	bool app_limited;
};
void hd_path_on_ack(struct hd_path *path, hd_ns now, const struct hd_ack_info *info);
void hd_path_on_timeout(struct hd_path *path, hd_ns now);

hd_ns hd_path_rto(const struct hd_path *path);
uint64_t hd_path_window(const struct hd_path *path); /* bytes that may be in flight */
/* Pacing rate in bit/s for a transfer whose segment grants `granted_bps` (0: none): at most 1.25
 * times the grant (probing), at most what window and RTT allow (with head room). */
uint64_t hd_path_pacing_bps(const struct hd_path *path, uint64_t granted_bps);

#endif
