/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network view: one capacity estimate for each directed link, from completed transfers.
 *
 * A sample is the goodput of one transfer, together with what was running beside it on each link.
 *   - Every link of a path carried at least what was seen: a sample raises the estimates below it.
 *   - A sample limited by its own pacing can do no more than that.
 *   - One limited by the network, and near what the estimates predict (the least residual on the path),
 *     smooths the estimate of the link that predicted it.
 *   - One that falls short of the prediction is put down to the link with the most such shortfalls
 *     since it last carried its estimate; of equal ones, to the one whose last good moment is older.
 *     So a slow uplink is told from the server's link by the other hosts' transfers, which keep clearing
 *     the latter, and a slow server's link by the second host that falls short. A quarter is believed
 *     at first, the second in a row fully.
 * A link that no network-limited sample was put down to has the estimate of the best link seen (a new
 * link is tried, not feared), or `initial_bps` as long as there is none.
 * Estimates do not age: an idle link that was slow is tried at what it had, and as transfers probe up to
 * 1.25 times their rate it gains a quarter with each.
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
