/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: packet counters of a node, as last reported. */
#ifndef CTL_READINGS_H
#define CTL_READINGS_H

#include "hd_dataplane.h"
#include "hd_types.h"

struct ctl_readings {
	struct hd_dataplane last, before;
	struct hd_dataplane base; /* at the operator's last `clear` */
	hd_ns taken; /* `last`, by our clock; 0: the node has not answered yet */
	hd_ns at, before_at; /* of both, by the node's clock; before_at 0: there is no rate */
	hd_ns cleared; /* 0: counted from the node's start */
	bool clear_due; /* the answer to the next POLL becomes the base */
	uint32_t answered; /* mark of the newest POLL that was answered */
};

/* The controller polls its nodes while an operator looks at their counters. */
struct ctl_dataplane {
	uint32_t mark; /* of the newest round of POLLs */
	uint32_t mark_at_clear; /* of the newest round at the operator's `clear` */
	bool asking; /* some nodes have not been polled in this round yet */
	hd_ns began; /* the start of that round */
	hd_ns poll_at; /* HD_NEVER: no polling */
	hd_ns until; /* rounds go on until then, for an operator */
	hd_ns scrapes_until; /* the same for metrics, at longer intervals */
	struct ctl_readings own;
};

#endif
