/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: what all nodes have counted.
 *
 *   shell --SHOW dataplane--> watch() --POLL, a second apart, as long as somebody looks--> nodes
 *         <--TABLE----------- rows    <--STATS-------------------------------------------
 *
 * Nobody looks, and nobody scrapes metrics: nothing is asked, and nothing is sent.
 */
#ifndef CTL_DATAPLANE_H
#define CTL_DATAPLANE_H

#include "ctl_core.h"
#include "hd_rows.h"

/* --- ctl_dataplane.c --- */
/* Somebody looks: rounds of POLLs begin, or go on. */
void ctl_dataplane_watch(struct hd_controller *c);
/* Somebody scrapes metrics. */
void ctl_dataplane_scrape(struct hd_controller *c);
/* A round of them, or a part of one, is due. */
void ctl_dataplane_poll(struct hd_controller *c, struct hd_sink *sink);
void ctl_dataplane_take(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_stats *message
);
/* The tables count from now on. Returns how many nodes do, this one included. */
uint32_t ctl_dataplane_clear(struct hd_controller *c);
/* The node goes. */
void ctl_dataplane_forget(struct ctl_node *node);

/* --- ctl_dataplane_metrics.c --- */
extern const struct hd_stat_group ctl_node_group;
/* Adds a row for each node that has answered: what it has counted since it began. */
void ctl_dataplane_stats(const struct hd_controller *c, struct hd_stats *stats);

/* --- ctl_traffic.c --- */
/* What one node, or several together, have counted since `clear`. */
struct ctl_traffic {
	struct hd_dataplane counted;
	double rx_pps, rx_bps, tx_pps, tx_bps, resent_pps, cores; /* NaN: there is no rate */
	uint32_t nodes, silent; /* without fresh counters */
	uint32_t known; /* with some, however old */
};
/* Adds a node's; readings may be NULL. Rates are the sum of those that there are. */
void ctl_traffic_add(struct ctl_traffic *traffic, const struct ctl_readings *readings, hd_ns now);
/* Packets that were dropped, and the most frequent reason ("": none). */
uint64_t ctl_traffic_drops(const struct ctl_traffic *traffic, const char **reason);

/* --- ctl_dataplane_show.c --- */
extern const struct hd_row_shape ctl_dataplane_shape, ctl_dataplane_hosts_shape,
	ctl_dataplane_jobs_shape, ctl_dataplane_links_shape;
/* Whether the table of this name is one of these. */
bool ctl_dataplane_has(const char *table);
uint64_t ctl_rows_dataplane(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_dataplane_hosts(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_dataplane_jobs(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_dataplane_links(const struct hd_controller *c, struct hd_rows *rows);

#endif
