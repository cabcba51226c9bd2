/* SPDX-License-Identifier: BSD-3-Clause */
/* What the view's files share. Not for users. */
#ifndef HD_VIEW_INTERNAL_H
#define HD_VIEW_INTERNAL_H

#include "hd_view.h"

#define HD_VIEW_LOADS_KEPT 32 /* newest reports of one link: 3 s at ten a second */

struct hd_view_loads {
	uint64_t count; /* all that came */
	struct hd_view_load ring[HD_VIEW_LOADS_KEPT];
};

/* The link's reports; NULL when it has none (make: when there is no memory or no such link). */
struct hd_view_loads *hd_view_loads(struct hd_view *view, uint32_t link, bool make);
/* The most that passed the link in any interval that touches [from, to); < 0: nobody counts there. */
double hd_view_total_bps(const struct hd_view *view, uint32_t link, hd_ns from, hd_ns to);
/* The link has carried this much: an estimate below it rises. */
void hd_view_carried(struct hd_view *view, uint32_t link, double bps, hd_ns at);
/* What the last trains that crossed a link had, and which link of their way was the narrowest beside it. */
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

#endif
