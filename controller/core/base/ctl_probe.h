/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: packet trains over idle links, and what they measured. */
#ifndef CTL_PROBE_H
#define CTL_PROBE_H

#include "hd_message.h"
#include "hd_node.h"
#include "hd_plan.h"

#define CTL_PROBES_KEPT 32 /* probes under way */

struct hd_controller;
struct hd_session;
struct ctl_node;

/* That a link carries more than is known, or less. */
enum {
	CTL_TRY_MORE,
	CTL_TRY_LESS,
	CTL_TRIES
};
struct ctl_try {
	hd_ns at; /* not before */
	uint8_t failed; /* in a row */
};

/* What rounds through a switch have shown that a link carries (ctl_lease_rate.c). Rates as estimates, in
 * bytes/s. */
struct ctl_link_slots {
	double rate; /* 0: nothing */
	hd_ns at; /* since when */
	double before; /* what was known before the try that is under way; 0: there is none */
	double passed; /* before that try */
	bool loose; /* by one round alone */
	unsigned raised; /* tries with more in a row that were right */
	uint32_t rounds; /* since then, that are not judged yet, */
	double seen, parts, most; /* and sums over these; the most of one */
	struct ctl_try tries[CTL_TRIES];
};

/* Probes on one link. */
struct ctl_link_probe {
	hd_ns used; /* when a transfer last wanted or left the link; 0: never */
	hd_ns probed; /* when a probe last crossed it */
	/* As a part of all-reduces that is believed to be slow (ctl_shards.c). */
	double tried; /* bytes/s that it was believed to carry when it was last taken to be wider; 0: it is not */
	hd_ns try_at; /* when that is done again; 0: it is not slow */
	uint8_t try_failed; /* times in a row that nothing came of it */
	uint32_t reduces; /* all-reduces under way over it */
	struct ctl_link_slots slots;
	int partner; /* host at the other end of the last one for it */
	uint8_t again; /* enum hd_view_word */
};

/* A probe that was asked for. */
struct ctl_probe {
	uint64_t token; /* 0: reported */
	const struct hd_session *receiver;
	hd_ns sent;
	uint32_t target; /* the link that it is for */
	bool hub; /* a server's */
	uint8_t path_count;
	uint32_t path[HD_PLAN_PATH_MAX];
};

#endif
