/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network view: one capacity estimate for each directed link, from completed transfers.
 *
 * A sample is the goodput of one transfer, together with what was running beside it on each link.
 *   - Every link of a path carried at least what was seen: a sample raises the estimates below it.
 *   - A sample limited by its own pacing can do no more than that.
 *   - One limited by the network, and near what the estimates predict (the least residual on the path),
 *     smooths the estimate of the link that predicted it.
 *   - Transfers that agree within 3 % are held back by one thing. On a link that each of them had alone it is that
 *     link, when the other link of their way had room, or what passed there varied: its estimate is what they had.
 *   - One that falls short of the prediction is put down to the link about which most of the last transfers
 *     agree with it: its host's on the host's own link, other hosts' on one that is shared. When none agrees, to the
 *     link with the most such shortfalls since it last carried its estimate; of equal ones, to the one whose last good
 *     moment is older; and then a quarter is believed, which is given back when another link turns out to be
 *     the limit.
 *   - Beside a full link, a link that carried its estimate is tried with 8 % more than it carried.
 *   - Two in a row that their pacing held back: the next is tried with a quarter more than that.
 *   - What transfers had at once, summed over the time of one of them, their link carried: believed at once, what is
 *     little more than known when another time shows it as well. A link that many hosts' transfers pass is planned with
 *     twice what is known of it until that shows to be too much.
 * A link that no network-limited sample was put down to has the estimate of the best link seen, as far as one
 * transfer has shown it (a new link is tried, not feared), or `initial_bps` as long as there is none.
 * Where a monitor reports what others take of a link, the estimate is what the link carries of both, and
 * hd_view_share() what that leaves us; a sample then counts others' traffic as running beside it.
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
	/* [path_count] What of that was ours, and what passed the link of ours at least: this transfer, and what
	 * others must have had in its time. NULL: not known. */
	const double *ours_bps, *carried_bps;
};

/* What passed a link in one interval, from a monitor at one of its ends, as bits of payload that ours could
 * have been in its place. */
struct hd_view_load {
	hd_ns at, span; /* the end of the interval, and its length */
	double ours_bps, others_bps; /* means over it */
	double pressing_bps; /* ours, in the part of it in which ours flowed; 0: it did not */
	double total_bps; /* the most of both that the link is seen to carry at once */
	double weight; /* of ours then: how many flows we stand for */
	double beside_ours_bps; /* others', in the part of it in which ours flowed; < 0: unknown */
	double steady_bps; /* others' that would not give way */
	double elastic_bps; /* sum over the flows that would, each at its recent peak ... */
	uint32_t flows; /* ... and their number */
};

/* A packet train over an idle path: what its narrowest link carries. */
struct hd_view_probe {
	hd_ns at;
	double rate_bps;
	bool exact; /* false: it carried at least this much */
	bool hub; /* everybody's ways lead over the target */
	uint8_t path_count;
	const uint32_t *path;
	uint32_t target; /* the link of the path that it was sent for */
};

int hd_view_create(double initial_bps, struct hd_view **view);
void hd_view_destroy(struct hd_view *view);
void hd_view_sample(struct hd_view *view, const struct hd_view_sample *sample);
/* The link is another one from now on. */
void hd_view_forget(struct hd_view *view, uint32_t link);
struct hd_estimate hd_view_estimate(const struct hd_view *view, uint32_t link);

enum hd_view_word {
	HD_VIEW_SETTLED,
	HD_VIEW_LOWER /* less than what is known: the next probe, better over another way, decides */
};
enum hd_view_word hd_view_probe(struct hd_view *view, const struct hd_view_probe *probe);
/* When a link was last seen to be the limit of something, or a probe measured it; 0: never. */
hd_ns hd_view_proven(const struct hd_view *view, uint32_t link);

/* Takes a monitor's LOAD; an older one than the newest, or nonsense, is ignored. */
void hd_view_load(struct hd_view *view, uint32_t link, const struct hd_view_load *load);
/* Whether a monitor has reported of the link lately. */
bool hd_view_is_watched(const struct hd_view *view, uint32_t link, hd_ns now);
/* False while a LOAD that is soon to come will tell more about what passed the link up to `at`. */
bool hd_view_covers(const struct hd_view *view, uint32_t link, hd_ns at, hd_ns now);
/* Mean of what others had on a link while ours flowed in [from, to), as far as LOADs cover that; else 0. */
double hd_view_others_bps(const struct hd_view *view, uint32_t link, hd_ns from, hd_ns to);
/* What a link gives us at a weight of so many flows: the max-min share beside the others that were reported
 * in the last 1.5 s, or the whole estimate where nobody reports. */
double hd_view_share(const struct hd_view *view, uint32_t link, hd_ns now, double weight);
/* What to plan a link with that many hosts' transfers pass: its share, or twice as much while it may carry more than is
 * known (hd_view_reach.c). */
double hd_view_reach(const struct hd_view *view, uint32_t link, hd_ns now, double weight);

#endif
