/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: packet trains over idle links, and their results. */
#ifndef CTL_PROBE_H
#define CTL_PROBE_H

#include "hd_message.h"
#include "hd_node.h"
#include "hd_plan.h"

#define CTL_PROBES_KEPT 32 /* probes in flight */

struct hd_controller;
struct hd_session;
struct ctl_node;

/* Tries that a link carries more than its estimate, or less. */
enum {
	CTL_TRY_MORE,
	CTL_TRY_LESS,
	CTL_TRIES
};
struct ctl_try {
	hd_ns at; /* the earliest time of the next try */
	uint8_t failed; /* failures in a row */
};

/* Rates that rounds through a switch have measured on a link (ctl_lease_rate.c), as estimates are: in bytes/s. */
struct ctl_link_slots {
	double rate; /* 0: none */
	hd_ns at; /* since when */
	double before; /* the rate before the try in progress; 0: no try */
	double passed; /* the throughput before that try */
	bool loose; /* the rate is from a single round */
	unsigned raised; /* successful tries in a row */
	uint32_t rounds; /* rounds since then that are not evaluated yet, */
	double seen, parts, most; /* and their sums; the maximum of one */
	struct ctl_try tries[CTL_TRIES];
};

/* Probes on one link. */
struct ctl_link_probe {
	hd_ns used; /* when a transfer last wanted or left the link; 0: never */
	hd_ns probed; /* when a probe last crossed it */
	/* For shards of all-reduces over a link with a low estimate (ctl_shards.c). */
	double tried; /* its estimate, in bytes/s, when a higher one was last tried; 0: no try */
	hd_ns try_at; /* time of the next try; 0: the link is not slow */
	uint8_t try_failed; /* failures in a row */
	uint32_t reduces; /* all-reduces in progress over it */
	struct ctl_link_slots slots;
	int partner; /* host at the other end of the last probe for it */
	uint8_t again; /* enum hd_view_verdict */
};

/* A probe that was asked for. */
struct ctl_probe {
	uint64_t token; /* 0: reported */
	const struct hd_session *receiver;
	hd_ns sent;
	uint32_t target; /* the link that it measures */
	bool hub; /* the link is a server's */
	uint8_t path_count;
	uint32_t path[HD_PLAN_PATH_MAX];
};

#endif
