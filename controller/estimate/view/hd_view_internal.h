/* SPDX-License-Identifier: BSD-3-Clause */
/* What the view's files share. Not for users. */
#ifndef HD_VIEW_INTERNAL_H
#define HD_VIEW_INTERNAL_H

#include "hd_view.h"

#define HD_VIEW_LOADS_KEPT 32 /* newest LOADs of one link: 3 s at ten a second */

struct hd_view_loads {
	uint64_t count; /* all that came */
	struct hd_view_load ring[HD_VIEW_LOADS_KEPT];
};

/* The link's LOADs; NULL when it has none (make: when there is no memory or no such link). */
struct hd_view_loads *hd_view_loads(struct hd_view *view, uint32_t link, bool make);
/* The most that passed the link in any interval that touches [from, to); < 0: nobody counts there. */
double hd_view_total_bps(const struct hd_view *view, uint32_t link, hd_ns from, hd_ns to);
/* The link has carried this much: an estimate below it rises. */
void hd_view_carried(struct hd_view *view, uint32_t link, double bps, hd_ns at);
/* What the last probes that crossed a link had, and which link of their way was the narrowest beside it. */
#define HD_VIEW_PASSAGES 3
struct hd_view_passage {
	hd_ns at;
	double bps;
	uint32_t other; /* the link itself: there was none */
};
struct hd_view_passages {
	uint32_t count; /* all that crossed it */
	struct hd_view_passage last[HD_VIEW_PASSAGES]; /* a ring */
};
/* NULL: no such link, no memory. */
struct hd_view_passages *hd_view_passages(struct hd_view *view, uint32_t link);
/* The link carries this much and no more. */
void hd_view_measured(struct hd_view *view, uint32_t link, double bps, hd_ns at);

/* What the last transfers that the network held back saw on a link. */
#define HD_VIEW_MARKS 4
struct hd_view_mark {
	hd_ns at;
	double seen_bps;
	double rest_bps; /* then on the busiest other link of its path */
	uint32_t way; /* that link: whose transfer it was */
	bool open; /* this link was its limit, or none was found */
};
struct hd_view_marks {
	uint32_t count; /* all */
	struct hd_view_mark last[HD_VIEW_MARKS]; /* a ring */
};

/* More than is known, by what several had at once: the most at one time, and at the time before it. */
struct hd_view_sums {
	double bps, before_bps; /* 0: none */
	hd_ns until; /* the transfer that showed it first ended */
};

struct hd_view_link {
	double capacity_bps; /* known: the estimate; else the most that it was seen to carry */
	double spread_bps;
	hd_ns updated;
	hd_ns proven; /* when it last was the limit */
	hd_ns carried; /* when it last carried about its estimate */
	uint32_t samples;
	struct hd_view_passages passages;
	struct hd_view_marks marks;
	double doubted_bps; /* the estimate before one transfer alone lowered it; 0: none did */
	double short_bps; /* what the last of the shortfalls saw on it */
	uint32_t short_count; /* unexplained ones on paths over it, since it last carried that */
	uint32_t strides; /* transfers in a row that its estimate held back */
	double alone_bps; /* the most that one transfer had on it */
	struct hd_view_sums sums;
	bool summed; /* its estimate is of what several had at once */
	hd_ns reach_again; /* it is not planned with more than is known before */
	uint32_t reach_failed; /* tries in a row that were too far */
	struct hd_view_loads *loads; /* NULL: no monitor has reported */
	bool known; /* a network-limited sample was put down to it */
};

struct hd_view {
	double initial_bps;
	double best_bps; /* greatest capacity_bps of all links; 0: none */
	bool any_known;
	struct hd_view_link *links;
	uint32_t count;
};

/* What a transfer shows of how wide its links are; held_back: by the network. Bit k: what several had of the path's
 * link k says nothing new: it carried all that it can, or the sum is not confirmed. */
uint32_t hd_view_reached(struct hd_view *view, const struct hd_view_sample *sample, bool held_back);
/* Makes room for a link; false: no such link, no memory. */
bool hd_view_cover(struct hd_view *view, uint32_t link);
double hd_view_believed(const struct hd_view *view, uint32_t link);
void hd_view_set(struct hd_view *view, uint32_t link, double capacity_bps, hd_ns at);

#endif
