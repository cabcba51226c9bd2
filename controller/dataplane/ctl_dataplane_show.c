/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell's tables of packet counters: by node, and summed by host, by job and by link. */
#include "ctl_base.h"
#include "ctl_dataplane.h"
#include "ctl_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define TRAFFIC(F, row) \
	F(row, rx_pps, REAL_OR_NULL, "packets received per second, recently; null: fewer than two answers yet") \
	F(row, rx_mbps, REAL_OR_NULL, "payload received, in Mbit/s, recently; null: fewer than two answers yet") \
	F(row, tx_pps, REAL_OR_NULL, "packets sent per second, recently; null: fewer than two answers yet") \
	F(row, tx_mbps, REAL_OR_NULL, "payload sent, in Mbit/s, recently; null: fewer than two answers yet") \
	F(row, resent_pps, REAL_OR_NULL, \
		"chunks and control packets retransmitted per second, recently; null: fewer than two answers yet") \
	F(row, cpu_percent, REAL_OR_NULL, \
		"processor time of the threads that move packets, in percent of one processor; " \
		"null: fewer than two answers yet") \
	F(row, drops, COUNT_OR_NULL, "packets dropped, for all reasons") \
	F(row, drop_reason, TEXT, "most frequent reason; empty: nothing was dropped")

#define DATAPLANE(F, row) \
	F(row, name, TEXT, "name of the node") \
	F(row, role, TEXT, "controller, server, replica, worker, aggregator, switch or monitor") \
	F(row, host, TEXT, "name of its host in the topology; empty: the controller") \
	F(row, tenant, TEXT, "tenant of a worker") \
	F(row, job, TEXT, "job of a worker") \
	F(row, worker, COUNT_OR_NULL, "rank of a worker") \
	F(row, address, ADDRESS, "address of the session, ADDR:PORT; 0.0.0.0:0: the controller") \
	F(row, age_s, REAL_OR_NULL, "age of its last answer, in seconds; null: it has not answered") \
	F(row, cleared_s, REAL_OR_NULL, \
		"seconds since `clear`, from which the counters count; null: since the node started") \
	TRAFFIC(F, row)

#define HOSTS(F, row) \
	F(row, host, TEXT, "name of the host in the topology") \
	F(row, nodes, COUNT, "nodes on the host") \
	F(row, silent, COUNT, "nodes that have not answered for 3 s") \
	TRAFFIC(F, row)

#define JOBS(F, row) \
	F(row, tenant, TEXT, "tenant that owns the job") \
	F(row, job, TEXT, "name of the job") \
	F(row, workers, COUNT, "registered workers of the job") \
	F(row, silent, COUNT, "workers that have not answered for 3 s") \
	TRAFFIC(F, row)

#define LINKS(F, row) \
	F(row, link, TEXT, "name of the link, FROM>TO, at a host with nodes") \
	F(row, host, TEXT, "name of that host") \
	F##_OF(row, direction, "out in", \
		"out: sent by the nodes of the host; in: received by them; packets between them are included") \
	F(row, nodes, COUNT, "nodes on the host") \
	F(row, silent, COUNT, "nodes that have not answered for 3 s") \
	F(row, packets, COUNT, "packets in this direction") \
	F(row, bytes, COUNT, "payload in this direction, in bytes") \
	F(row, pps, REAL_OR_NULL, "packets per second, recently; null: fewer than two answers yet") \
	F(row, mbps, REAL_OR_NULL, "payload in Mbit/s, recently; null: fewer than two answers yet") \
	F(row, estimate_mbps, REAL, \
		"estimated capacity of the link for our traffic, in Mbit/s; packets inside the " \
		"host do not cross it") \
	F(row, drops, COUNT, "out: packets that could not be sent; in: packets dropped after they arrived")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_dataplane_shape,
	dataplane_row,
	DATAPLANE,
	"dataplane",
	"packet counters of every node; a node has none until it has answered",
	.group = &hd_dataplane_group,
	.partial = true
);
HD_ROW_SHAPE(
	ctl_dataplane_hosts_shape,
	hosts_row,
	HOSTS,
	"dataplane-hosts",
	"packet counters, summed by host",
	.group = &hd_dataplane_group
);
HD_ROW_SHAPE(
	ctl_dataplane_jobs_shape,
	jobs_row,
	JOBS,
	"dataplane-jobs",
	"packet counters of workers, summed by job",
	.group = &hd_dataplane_group
);
HD_ROW_SHAPE(
	ctl_dataplane_links_shape,
	links_row,
	LINKS,
	"dataplane-links",
	"packets that the nodes of a host have sent and received, and the capacity of its link"
);

/* Sets the fields that rows of nodes, hosts and jobs share. */
#define SET_TRAFFIC(row, t)                                                                        \
	do {                                                                                       \
		(row)->rx_pps = (t)->rx_pps;                                                       \
		(row)->rx_mbps = (t)->rx_bps / 1e6;                                                \
		(row)->tx_pps = (t)->tx_pps;                                                       \
		(row)->tx_mbps = (t)->tx_bps / 1e6;                                                \
		(row)->resent_pps = (t)->resent_pps;                                               \
		(row)->cpu_percent = 100 * (t)->cores;                                             \
		(row)->drops = ctl_traffic_drops(t, &(row)->drop_reason);                          \
		if (!(t)->known)                                                                   \
			(row)->drops = HD_ROW_NONE;                                                \
	} while (0)

bool ctl_dataplane_has(const char *table) {
	return strcmp(table, ctl_dataplane_shape.name) == 0
		|| strcmp(table, ctl_dataplane_hosts_shape.name) == 0
		|| strcmp(table, ctl_dataplane_jobs_shape.name) == 0
		|| strcmp(table, ctl_dataplane_links_shape.name) == 0;
}

static void put_counters(struct hd_rows *rows, const struct ctl_traffic *t) {
	union hd_stat_value values[HD_DATAPLANE_COUNT];
	const struct hd_stats_row row = {.group = &hd_dataplane_group, .value = values};

	for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++)
		values[i].u64 = hd_dataplane_get(&t->counted, i);
	hd_row_put_group(rows, &row);
}

/* --- by node --- */

static void put_node(
	const struct hd_controller *c,
	struct dataplane_row row,
	const struct ctl_readings *r,
	struct hd_rows *rows
) {
	struct ctl_traffic t = {0};

	ctl_traffic_add(&t, r, c->now);
	SET_TRAFFIC(&row, &t);
	row.age_s = t.known ? ctl_ms_from(r->taken, c->now) / 1e3 : NAN;
	row.cleared_s = r && r->cleared ? ctl_ms_from(r->cleared, c->now) / 1e3 : NAN;
	hd_row_put(rows, &ctl_dataplane_shape, &row);
	if (t.known)
		put_counters(rows, &t);
	hd_row_end(rows);
}

static void
node_row(const struct hd_controller *c, const struct ctl_node *node, struct hd_rows *rows) {
	bool worker = node->role == HD_ROLE_WORKER;

	put_node(
		c,
		(struct dataplane_row){
			.name = hd_session_peer_name(node->session),
			.role = hd_role_name(node->role),
			.host = node->host,
			.tenant = worker ? node->job->tenant_name : "",
			.job = worker ? node->job->name : "",
			.worker = worker ? node->worker : HD_ROW_NONE,
			.address = hd_session_peer(node->session),
		},
		node->readings,
		rows
	);
}

static void own_row(const struct hd_controller *c, struct hd_rows *rows) {
	put_node(
		c,
		(struct dataplane_row){
			.name = c->name,
			.role = hd_role_name(HD_ROLE_CONTROLLER),
			.host = "",
			.tenant = "",
			.job = "",
			.worker = HD_ROW_NONE,
		},
		&c->dataplane.own,
		rows
	);
}

uint64_t ctl_rows_dataplane(const struct hd_controller *c, struct hd_rows *rows) {
	const struct ctl_node *node;
	uint64_t count = 1;

	if (hd_row_begin(rows))
		own_row(c, rows);
	TAILQ_FOREACH (node, &c->nodes, entry) {
		if (node->role == HD_ROLE_NONE)
			continue;
		count++;
		if (!rows->full && hd_row_begin(rows))
			node_row(c, node, rows);
	}
	return count;
}

/* --- by job --- */

static void
job_row(const struct hd_controller *c, const struct ctl_job *job, struct hd_rows *rows) {
	struct jobs_row row = {.tenant = job->tenant_name, .job = job->name};
	struct ctl_traffic t = {.nodes = 0};

	for (uint32_t i = 0; i < HD_WORKERS_MAX && t.nodes < job->worker_count; i++)
		if (job->workers[i])
			ctl_traffic_add(&t, job->workers[i]->readings, c->now);
	row.workers = t.nodes;
	row.silent = t.silent;
	SET_TRAFFIC(&row, &t);
	hd_row_put(rows, &ctl_dataplane_jobs_shape, &row);
	put_counters(rows, &t);
	hd_row_end(rows);
}

uint64_t ctl_rows_dataplane_jobs(const struct hd_controller *c, struct hd_rows *rows) {
	for (uint32_t i = 0; i < c->job_count && !rows->full; i++)
		if (hd_row_begin(rows))
			job_row(c, c->jobs[i], rows);
	return c->job_count;
}

/* --- by host, and by link --- */

static int by_host(const void *a, const void *b) {
	return strcmp(
		(*(const struct ctl_node *const *)a)->host,
		(*(const struct ctl_node *const *)b)->host
	);
}

/* Calls row() for each host that has nodes, with the sum of their counters. */
static uint64_t each_host(
	const struct hd_controller *c,
	struct hd_rows *rows,
	uint64_t (*row
	)(const struct hd_controller *c,
	  const struct ctl_node *one,
	  const struct ctl_traffic *traffic,
	  struct hd_rows *rows)
) {
	const struct ctl_node **sorted = calloc((size_t)c->node_count + 1, sizeof(void *));
	const struct ctl_node *node;
	uint32_t count = 0, next;
	uint64_t total = 0;

	if (!sorted)
		return 0;
	TAILQ_FOREACH (node, &c->nodes, entry)
		if (node->role != HD_ROLE_NONE)
			sorted[count++] = node;
	qsort(sorted, count, sizeof(void *), by_host);
	for (uint32_t i = 0; i < count; i = next) {
		struct ctl_traffic t = {.nodes = 0};

		for (next = i; next < count && strcmp(sorted[next]->host, sorted[i]->host) == 0;
		     next++)
			ctl_traffic_add(&t, sorted[next]->readings, c->now);
		total += row(c, sorted[i], &t, rows);
	}
	free(sorted);
	return total;
}

static uint64_t host_row(
	const struct hd_controller *c,
	const struct ctl_node *one,
	const struct ctl_traffic *t,
	struct hd_rows *rows
) {
	struct hosts_row row = {.host = one->host, .nodes = t->nodes, .silent = t->silent};

	(void)c;
	if (!hd_row_begin(rows))
		return 1;
	SET_TRAFFIC(&row, t);
	hd_row_put(rows, &ctl_dataplane_hosts_shape, &row);
	put_counters(rows, t);
	hd_row_end(rows);
	return 1;
}

uint64_t ctl_rows_dataplane_hosts(const struct hd_controller *c, struct hd_rows *rows) {
	return each_host(c, rows, host_row);
}

static void link_row(
	const struct hd_controller *c,
	const struct ctl_node *one,
	const struct ctl_traffic *t,
	uint32_t link,
	bool out,
	struct hd_rows *rows
) {
	const struct hd_dataplane *counted = &t->counted;
	const char *why;

	if (!hd_row_begin(rows))
		return;
	hd_row_put(
		rows,
		&ctl_dataplane_links_shape,
		&(struct links_row){
			.link = ctl_link_name(c, link),
			.host = one->host,
			.direction = out ? "out" : "in",
			.nodes = t->nodes,
			.silent = t->silent,
			.packets = out ? counted->tx_packets : counted->rx_packets,
			.bytes = out ? counted->tx_bytes : counted->rx_bytes,
			.pps = out ? t->tx_pps : t->rx_pps,
			.mbps = (out ? t->tx_bps : t->rx_bps) / 1e6,
			.estimate_mbps = hd_view_share(c->view, link, c->now, 1) / 1e6,
			.drops = out ? counted->drop_unsent :
				       ctl_traffic_drops(t, &why) - counted->drop_unsent,
		}
	);
	hd_row_end(rows);
}

static uint64_t host_links(
	const struct hd_controller *c,
	const struct ctl_node *one,
	const struct ctl_traffic *t,
	struct hd_rows *rows
) {
	uint32_t up, down;

	/* A host with several links has no counters for each. */
	if (one->host_index < 0
	    || hd_topology_links_of(c->config.topology, one->host_index, &up, &down) < 0)
		return 0;
	link_row(c, one, t, up + 1, true, rows);
	link_row(c, one, t, down + 1, false, rows);
	return 2;
}

uint64_t ctl_rows_dataplane_links(const struct hd_controller *c, struct hd_rows *rows) {
	return each_host(c, rows, host_links);
}
