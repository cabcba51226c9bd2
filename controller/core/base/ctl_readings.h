/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: what a node has counted, as it said last. */
#ifndef CTL_READINGS_H
#define CTL_READINGS_H

#include "hd_dataplane.h"
#include "hd_types.h"

struct ctl_readings {
	struct hd_dataplane last, before;
	struct hd_dataplane base; /* at the operator's `clear` */
	hd_ns taken; /* `last`, by our clock; 0: the node has not answered yet */
	hd_ns at, before_at; /* of both, by the node's clock; before_at 0: there is no rate */
	hd_ns cleared; /* 0: counted from the node's start */
	bool clear_due; /* the answer to the next round is the base */
	uint32_t answered; /* mark of the newest POLL that was answered */
};

/* The controller asks its nodes while somebody looks. */
struct ctl_dataplane {
	uint32_t mark; /* of the newest round of POLLs */
	uint32_t mark_at_clear; /* of the newest round when the operator said `clear` */
	bool asking; /* not all nodes have been asked in it */
	hd_ns began; /* that round */
	hd_ns poll_at; /* HD_NEVER: nobody looks */
	hd_ns until; /* somebody has looked: rounds go on until then */
	hd_ns scrapes_until; /* metrics were scraped: so do these, further apart */
	struct ctl_readings own;
};

#endif
