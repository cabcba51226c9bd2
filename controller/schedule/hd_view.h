/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network view: one capacity estimate for each directed link, from completed transfers.
 *
 * A sample is the goodput of one transfer, together with what was running beside it on each link.
 * A sample limited by its own pacing can only raise an estimate; one limited by the network sets
 * the estimate of the link that limits it (the least estimated residual on its path), smoothed. Every
 * link of a path carried at least what was seen, so a sample always raises the others that are
 * below it. A link without a sample has the estimate of the best link seen (a new link is tried,
 * not feared), or `initial_bps`.
 */
#ifndef HD_VIEW_H
#define HD_VIEW_H

#include "hd_types.h"

struct hd_view;

struct hd_estimate {
	double capacity_bps; /* wire payload bits a second that a transfer of ours can get */
	double spread_bps; /* mean absolute deviation of the samples */
	hd_ns updated; /* 0: never */
	uint32_t samples;
};

struct hd_view_sample {
	hd_ns at, started;
	uint64_t bytes;
	double rate_bps; /* goodput over the transfer */
	double limited; /* share of time limited by own pacing, 0..1 */
	uint8_t path_count;
	const uint32_t *path;
	const double *
		beside_bps; /* [path_count]: mean rate of our other transfers on each link meanwhile */
};

int hd_view_create(double initial_bps, struct hd_view **view);
void hd_view_destroy(struct hd_view *view);
void hd_view_sample(struct hd_view *view, const struct hd_view_sample *sample);
struct hd_estimate hd_view_estimate(const struct hd_view *view, uint32_t link);

#endif
