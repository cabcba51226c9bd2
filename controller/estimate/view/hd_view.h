/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network view: one capacity estimate for each directed link, from completed transfers.
 *
 * A sample is the goodput of one transfer, together with the transfers beside it on each link.
 *   - Every link of a path carried at least the observed rate: a sample raises the estimates below it.
 *   - A sample limited by its own pacing has no other effect.
 *   - One limited by the network, and near the prediction of the estimates (the least residual on the path), smooths
 *     the estimate of the link that predicted it.
 *   - Transfers that agree within 3 % have one common limit. On a link that each of them had alone it is that link,
 *     when the other link of their path had room, or its traffic varied: the link's estimate is their rate.
 *   - One that falls short of the prediction is attributed to the link about which most of the last transfers agree
 *     with it: its own host's on the host's link, other hosts' on a shared one. When none agrees, to the link with the
 *     most such shortfalls since it last carried its estimate; of equal ones, to the one that carried its estimate less
 *     recently; and then the estimate moves by a quarter, which is undone when another link turns out to be the limit.
 *   - Beside a full link, a link that carried its estimate is tried with 8 % more than it carried.
 *   - After two in a row that were limited by their pacing, the next one is tried with a quarter more than that.
 *   - The sum of simultaneous transfers, over the time of one of them, passed their link: this is accepted at once, or,
 *     if it is little more than the estimate, when another sum confirms it. A link that many hosts' transfers pass is
 *     planned with twice its estimate until that turns out to be too much.
 * A link to which no network-limited sample was attributed has the estimate of the best link seen, as far as one
 * transfer has shown it (a new link is tried at full rate), or `initial_bps` as long as there is none. When a monitor
 * reports others' load of a link, the estimate is the sum of both, and hd_view_share() is our part; a sample then
 * counts others' traffic as running beside it. Estimates do not expire: an idle link that was slow is tried at its old
 * estimate, and as transfers probe up to 1.25 times their rate it gains a quarter with each.
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
	double limited; /* share of time limited by its own pacing, 0..1 */
	uint8_t path_count;
	const uint32_t *path;
	const double *
		beside_bps; /* [path_count]: mean rate of our other transfers on each link meanwhile */
	/* [path_count] The part of that which was ours, and the minimum rate of all our bytes on the link: this
	 * transfer, and the least of the others in its time. NULL: unknown. */
	const double *ours_bps, *carried_bps;
};

/* The traffic on a link in one interval, from a monitor at one of its ends, as bits of payload that our packets could
 * have carried instead. */
struct hd_view_load {
	hd_ns at, span; /* the end of the interval, and its length */
	double ours_bps, others_bps; /* means over it */
	double pressing_bps; /* ours, in the part of it in which ours flowed; 0: no such part */
	double total_bps; /* the highest total of both */
	double weight; /* of ours at that time: the number of flows that we stand for */
	double beside_ours_bps; /* others', in the part of it in which ours flowed; < 0: unknown */
	double steady_bps; /* others' that would not yield */
	double elastic_bps; /* sum over the flows that would, each at its recent peak ... */
	uint32_t flows; /* ... and their number */
};

/* A packet train over an idle path: the capacity of its slowest link. */
struct hd_view_probe {
	hd_ns at;
	double rate_bps;
	bool exact; /* false: it carried at least this much */
	bool hub; /* all nodes' paths lead over the target */
	uint8_t path_count;
	const uint32_t *path;
	uint32_t target; /* the link of the path that it measures */
};

int hd_view_create(double initial_bps, struct hd_view **view);
void hd_view_destroy(struct hd_view *view);
void hd_view_sample(struct hd_view *view, const struct hd_view_sample *sample);
/* The link is replaced by another one. */
void hd_view_forget(struct hd_view *view, uint32_t link);
struct hd_estimate hd_view_estimate(const struct hd_view *view, uint32_t link);

enum hd_view_verdict {
	HD_VIEW_SETTLED,
	HD_VIEW_LOWER /* less than the estimate: the next probe, best over another path, decides */
};
enum hd_view_verdict hd_view_probe(struct hd_view *view, const struct hd_view_probe *probe);
/* When a transfer was last limited by the link, or a probe measured it; 0: never. */
hd_ns hd_view_proven(const struct hd_view *view, uint32_t link);

/* Takes a monitor's LOAD; one older than the newest, or an invalid one, is ignored. */
void hd_view_load(struct hd_view *view, uint32_t link, const struct hd_view_load *load);
/* Whether a monitor has reported about the link lately. */
bool hd_view_is_watched(const struct hd_view *view, uint32_t link, hd_ns now);
/* False while a LOAD is still expected that covers the link's traffic up to `at`. */
bool hd_view_covers(const struct hd_view *view, uint32_t link, hd_ns at, hd_ns now);
/* Mean rate of others on a link while ours flowed in [from, to), as far as LOADs cover that; else 0. */
double hd_view_others_bps(const struct hd_view *view, uint32_t link, hd_ns from, hd_ns to);
/* Our rate on a link when we stand for `weight` flows: the max-min share beside the others that were reported in the
 * last 1.5 s, or the whole estimate without a report. */
double hd_view_share(const struct hd_view *view, uint32_t link, hd_ns now, double weight);
/* The rate with which to plan a link that many hosts' transfers pass: its share, or twice that while it may carry more
 * than its estimate (hd_view_reach.c). */
double hd_view_reach(const struct hd_view *view, uint32_t link, hd_ns now, double weight);

#endif
