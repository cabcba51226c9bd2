/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_ports_stats.h"

#include <stdio.h>

/* --- groups -------------------------------------------------------------------------------- */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define LINKS(S)                                                                                   \
	S(rate_bps, "", "rate limit of the outgoing link, in bit/s; 0: none", GAUGE)               \
	S(segmented, "packets", "received packets dropped: longer than a packet buffer", COUNTER)  \
	S(no_port, "packets", "packets to ports that do not exist", COUNTER)                       \
	S(stalls, "bursts", "bursts that the port accepted only in part", COUNTER)                 \
	S(errors, "errors", "errors of the port's file descriptors: the link went down", COUNTER)  \
	S(marked_control,                                                                          \
	  "packets",                                                                               \
	  "control packets marked: the queue was above its mark",                                  \
	  COUNTER)                                                                                 \
	S(marked_data, "packets", "data packets marked: the queue was above its mark", COUNTER)

#define LEASES(S)                                                                                  \
	S(absorbed, "packets", "chunks added to a sum that is not complete yet", COUNTER)          \
	S(completed, "packets", "chunks that completed a sum", COUNTER)                            \
	S(repeated, "packets", "chunks received again and answered with their sum", COUNTER)       \
	S(answered, "packets", "acknowledgements passed to the members", COUNTER)                  \
	S(overtaken, "sums", "sums discarded incomplete", COUNTER)                                 \
	S(not_finite, "sums", "sums with an overflow, a NaN or an Inf", COUNTER)                   \
	S(members, "members", "members that a sum waits for", GAUGE)                               \
	S(cells, "cells", "cells: two for each slot", GAUGE)                                       \
	S(cells_open, "cells", "cells with a sum that is not complete", GAUGE)                     \
	S(memory_bytes, "bytes", "memory of the cells", GAUGE)

#define FIELD(name, unit, help, kind) uint64_t name;
struct link_row {
	LINKS(FIELD)
};
struct lease_row {
	LEASES(FIELD)
};

#define STAT(name, unit, help, kind)                                                               \
	{#name, unit, help, HD_STAT_##kind, HD_STAT_U64, offsetof(STRUCT, name)},
#define STRUCT struct link_row
static const struct hd_stat link_stats[] = {LINKS(STAT)};
#undef STRUCT
#define STRUCT struct lease_row
static const struct hd_stat lease_stats[] = {LEASES(STAT)};
#undef STRUCT

static const struct hd_stat_group link_group = {
	.name = "switch_port",
	.help = "ports of the switch: counters in addition to those of any port",
	.label = {"port"},
	.stats = link_stats,
	.count = COUNT(link_stats),
};

static const struct hd_stat_group lease_group = {
	.name = "switch_lease",
	.help = "slots of the switch leased by a group",
	.label = {"lease"},
	.stats = lease_stats,
	.count = COUNT(lease_stats),
};

const struct hd_stat_group *const hd_ports_groups[] = {&link_group, &lease_group, NULL};

/* --- rows ---------------------------------------------------------------------------------- */

static void add_port(struct hd_ports *ports, uint32_t index, struct hd_stats *stats) {
	const struct hd_switch_queue *queue = hd_ports_queue(ports, index);
	struct hd_ports_counts counts;
	struct hd_port_stats row = {0};
	char number[12];
	const char *labels[] = {number, hd_ports_name(ports, index)};

	(void)snprintf(number, sizeof number, "%u", index);
	hd_ports_counts(ports, index, &counts);
	row.rx_packets = counts.received;
	row.rx_bytes = counts.received_bytes;
	row.rx_calls = counts.bursts;
	row.rx_missed = counts.missed;
	row.rx_errors = counts.segmented;
	row.rx_no_buffer = counts.no_buffer;
	row.tx_calls = counts.sends;
	row.tx_packets = counts.direct;
	row.tx_bytes = counts.direct_bytes;
	for (int class = 0; class < HD_SWITCH_CLASS_COUNT; class ++) {
		const struct hd_switch_queue_counts *of
			= hd_switch_queue_counts(queue, (enum hd_switch_class) class);

		row.tx_packets += of->packets;
		row.tx_bytes += of->bytes;
		row.tx_errors += of->drops;
	}
	hd_stats_add(stats, &hd_port_group, labels, &row);
}

static void add_queues(struct hd_ports *ports, uint32_t index, struct hd_stats *stats) {
	static const char *const names[] = {"control", "data"};
	const struct hd_switch_queue *queue = hd_ports_queue(ports, index);
	char number[12];

	(void)snprintf(number, sizeof number, "%u", index);
	for (int class = 0; class < HD_SWITCH_CLASS_COUNT; class ++) {
		const struct hd_switch_queue_counts *of
			= hd_switch_queue_counts(queue, (enum hd_switch_class) class);
		const struct hd_queue_stats row = {
			.packets = of->packets,
			.bytes = of->bytes,
			.drops = of->drops,
			.backlog_bytes
			= hd_switch_queue_waiting(queue, (enum hd_switch_class) class),
			.limit_bytes = hd_switch_queue_config(queue)->limit_bytes,
		};
		const char *labels[] = {number, "out", names[class]};

		hd_stats_add(stats, &hd_queue_group, labels, &row);
	}
}

static void add_link(struct hd_ports *ports, uint32_t index, struct hd_stats *stats) {
	const struct hd_switch_queue *queue = hd_ports_queue(ports, index);
	struct hd_ports_counts counts;
	struct link_row row;
	char number[12];
	const char *label = number;

	(void)snprintf(number, sizeof number, "%u", index);
	hd_ports_counts(ports, index, &counts);
	row = (struct link_row){
		.rate_bps = hd_switch_queue_config(queue)->rate_bps,
		.segmented = counts.segmented,
		.no_port = counts.no_port,
		.stalls = counts.stalls,
		.errors = counts.errors,
		.marked_control = hd_switch_queue_counts(queue, HD_SWITCH_CLASS_CONTROL)->marked,
		.marked_data = hd_switch_queue_counts(queue, HD_SWITCH_CLASS_DATA)->marked,
	};
	hd_stats_add(stats, &link_group, &label, &row);
}

static void
add_lease(const struct hd_switch_executor *executor, uint16_t id, struct hd_stats *stats) {
	struct hd_switch_lease_stats s;
	struct lease_row row;
	char number[12];
	const char *label = number;

	if (executor->ops->lease_stats(executor->self, id, &s) < 0)
		return;
	(void)snprintf(number, sizeof number, "%u", id);
	row = (struct lease_row){
		.absorbed = s.absorbed,
		.completed = s.completed,
		.repeated = s.repeated,
		.answered = s.answered,
		.overtaken = s.overtaken,
		.not_finite = s.not_finite,
		.members = (uint64_t)__builtin_popcountll(s.waits),
		.cells = s.cells,
		.cells_open = s.cells_open,
		.memory_bytes = s.memory_bytes,
	};
	hd_stats_add(stats, &lease_group, &label, &row);
}

void hd_ports_gather(
	struct hd_ports *ports,
	const struct hd_switch_executor *executor,
	struct hd_stats *stats
) {
	const uint32_t count = hd_ports_count(ports);

	for (uint32_t i = 0; i < count; i++)
		add_port(ports, i, stats);
	for (uint32_t i = 0; i < count; i++)
		add_queues(ports, i, stats);
	for (uint32_t i = 0; i < count; i++)
		add_link(ports, i, stats);
	for (uint16_t id = 0; id < HD_SWITCH_LEASES_MAX; id++)
		add_lease(executor, id, stats);
}
