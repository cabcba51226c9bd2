/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: capacities of links, from ended transfers, monitors and packet trains. */
#ifndef CTL_ESTIMATE_H
#define CTL_ESTIMATE_H

#include "ctl_core.h"

/* --- ctl_estimate.c --- */
/* The number of flows that ours stand for on a link: the transfers that need it, >= 1. */
double ctl_link_weight(const struct hd_controller *c, uint32_t link);
/* The rate with which a link is planned: its share at the weight of the transfers that need it now, bytes a second. */
double ctl_estimate_bytes(const struct hd_controller *c, uint32_t link);
/* Bytes of the spans in [from, to). */
double ctl_span_bytes(const struct ctl_span *spans, uint32_t count, hd_ns from, hd_ns to);

/* --- ctl_sample.c --- */
/* Adds an ended transfer. */
void ctl_sample_add(
	struct hd_controller *c,
	const struct ctl_transfer *t,
	const struct hd_msg_report *message
);
/* The same for a shard of an all-reduce, which has no grant. `beside`: only for the samples of others. */
void ctl_sample_shard(
	struct hd_controller *c,
	const struct ctl_node *from,
	const struct ctl_node *to,
	const struct hd_msg_report *message,
	bool beside
);
/* Passes to the view every sample whose concurrent transfers have ended, too. */
void ctl_samples_take(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_load.c --- */
void ctl_load(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_load *message,
	struct hd_sink *sink
);

/* --- ctl_probe.c --- */
/* Chooses links to probe; sets probe_at. */
void ctl_probe(struct hd_controller *c, struct hd_sink *sink);
void ctl_probed(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_probed *message
);

#endif
