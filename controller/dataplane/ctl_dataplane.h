/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: packet counters of all nodes.
 *
 *   shell --SHOW dataplane--> watch() --POLL, every second, while an operator looks--> nodes
 *         <--TABLE----------- rows    <--STATS---------------------------------------
 *
 * Without an operator and without metrics requests no node is polled.
 */
#ifndef CTL_DATAPLANE_H
#define CTL_DATAPLANE_H

#include "ctl_core.h"
#include "hd_rows.h"

/* --- ctl_dataplane.c --- */
/* An operator looks: rounds of POLLs begin, or go on. */
void ctl_dataplane_watch(struct hd_controller *c);
/* The same for a request of metrics. */
void ctl_dataplane_scrape(struct hd_controller *c);
/* Sends a due round, or a part of one. */
void ctl_dataplane_poll(struct hd_controller *c, struct hd_sink *sink);
void ctl_dataplane_take(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_stats *message
);
/* The tables count from now on. Returns the number of nodes, including the controller. */
uint32_t ctl_dataplane_clear(struct hd_controller *c);
/* The node is lost. */
void ctl_dataplane_forget(struct ctl_node *node);

/* --- ctl_dataplane_metrics.c --- */
extern const struct hd_stat_group ctl_node_group;
/* Adds a row for each node that has answered: its counters since its start. */
void ctl_dataplane_stats(const struct hd_controller *c, struct hd_stats *stats);

/* --- ctl_traffic.c --- */
/* Counters of one node, or sums of several, since `clear`. */
struct ctl_traffic {
	struct hd_dataplane counted;
	double rx_pps, rx_bps, tx_pps, tx_bps, resent_pps, cores; /* NaN: unknown */
	uint32_t nodes, silent; /* without fresh counters */
	uint32_t known; /* with any, however old */
};
/* Adds a node's counters; readings may be NULL. Rates are the sum of the known ones. */
void ctl_traffic_add(struct ctl_traffic *traffic, const struct ctl_readings *readings, hd_ns now);
/* The number of dropped packets, and the most frequent reason ("": none). */
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
