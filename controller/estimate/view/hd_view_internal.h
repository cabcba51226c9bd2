/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the view's files. */
#ifndef HD_VIEW_INTERNAL_H
#define HD_VIEW_INTERNAL_H

#include "hd_view.h"

#define HD_VIEW_LOADS_KEPT 32 /* newest LOADs of one link: 3 s at ten a second */

struct hd_view_loads {
	uint64_t count; /* all that were reported */
	struct hd_view_load ring[HD_VIEW_LOADS_KEPT];
};

/* The link's LOADs; NULL when it has none (make: when there is no memory or no such link). */
struct hd_view_loads *hd_view_loads(struct hd_view *view, uint32_t link, bool make);
/* The highest total rate on the link in any interval that touches [from, to); < 0: no monitor counted. */
double hd_view_total_bps(const struct hd_view *view, uint32_t link, hd_ns from, hd_ns to);
/* The link has carried this much: an estimate below it rises. */
void hd_view_carried(struct hd_view *view, uint32_t link, double bps, hd_ns at);
/* The results of the last probes that crossed a link, each with the slowest other link of its path. */
#define HD_VIEW_PASSAGES 3
struct hd_view_passage {
	hd_ns at;
	double bps;
	uint32_t other; /* the link itself: there was no other */
};
struct hd_view_passages {
	uint32_t count; /* all that crossed it */
	struct hd_view_passage last[HD_VIEW_PASSAGES]; /* a ring */
};
/* NULL: no such link, no memory. */
struct hd_view_passages *hd_view_passages(struct hd_view *view, uint32_t link);
/* The link carries this rate and no more. */
void hd_view_measured(struct hd_view *view, uint32_t link, double bps, hd_ns at);

/* Observations of the last network-limited transfers on a link. */
#define HD_VIEW_MARKS 4
struct hd_view_mark {
	hd_ns at;
	double seen_bps;
	double rest_bps; /* at the same time on the busiest other link of its path */
	uint32_t link; /* that link; it identifies the transfers */
	bool open; /* this link was its limit, or none was found */
};
struct hd_view_marks {
	uint32_t count; /* all */
	struct hd_view_mark last[HD_VIEW_MARKS]; /* a ring */
};

/* A sum of simultaneous transfers above the estimate: the highest of one time, and of the time before. */
struct hd_view_sums {
	double bps, before_bps; /* 0: none */
	hd_ns until; /* the end of the transfer that first showed it */
};

struct hd_view_link {
	double capacity_bps; /* known: the estimate; else the highest rate so far */
	double spread_bps;
	hd_ns updated;
	hd_ns proven; /* when it was last the limit */
	hd_ns carried; /* when it last carried about its estimate */
	uint32_t samples;
	struct hd_view_passages passages;
	struct hd_view_marks marks;
	double former_bps; /* the estimate before a single transfer lowered it; 0: none did */
	double short_bps; /* the rate at its last shortfall */
	uint32_t short_count; /* unexplained ones on paths over it since it carried its estimate */
	uint32_t strides; /* transfers in a row that its estimate limited */
	double alone_bps; /* the highest rate of a single transfer on it */
	struct hd_view_sums sums;
	bool summed; /* its estimate is from a sum of transfers */
	hd_ns reach_again; /* not planned above its estimate before this time */
	uint32_t reach_failed; /* failed tries in a row */
	struct hd_view_loads *loads; /* NULL: no monitor has reported */
	bool known; /* a network-limited sample was attributed to it */
};

struct hd_view {
	double initial_bps;
	double best_bps; /* highest capacity_bps of all links; 0: none */
	bool any_known;
	struct hd_view_link *links;
	uint32_t count;
};

/* Learns from a transfer how fast its links are; held_back: by the network. Bit k: the sum of transfers on the path's
 * link k gives nothing new: it carried its capacity, or the sum is not confirmed. */
uint32_t hd_view_reached(struct hd_view *view, const struct hd_view_sample *sample, bool held_back);
/* Makes an entry for a link; false: no such link, no memory. */
bool hd_view_cover(struct hd_view *view, uint32_t link);
double hd_view_believed(const struct hd_view *view, uint32_t link);
void hd_view_set(struct hd_view *view, uint32_t link, double capacity_bps, hd_ns at);

#endif
