/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_stat_groups.h"

#define GROUP_STAT(name, unit, help, kind, type)                                                   \
	{#name, unit, help, HD_STAT_##kind, HD_STAT_##type, offsetof(STRUCT, name)},

#define STRUCT struct hd_port_stats
static const struct hd_stat port_stats[] = {HD_PORT_STATS(GROUP_STAT)};
#undef STRUCT
#define STRUCT struct hd_queue_stats
static const struct hd_stat queue_stats[] = {HD_QUEUE_STATS(GROUP_STAT)};
#undef STRUCT
#define STRUCT struct hd_core_stats
static const struct hd_stat core_stats[] = {HD_CORE_STATS(GROUP_STAT)};
#undef STRUCT
#define STRUCT struct hd_transfer_stats
static const struct hd_stat transfer_stats[] = {HD_TRANSFER_STATS(GROUP_STAT)};
#undef STRUCT
#define STRUCT struct hd_process_stats
static const struct hd_stat process_stats[] = {HD_PROCESS_STATS(GROUP_STAT)};
#undef STRUCT

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const struct hd_stat_group hd_port_group = {
	.name = "port",
	.help = "network ports of the driver",
	.label = {"port", "driver"},
	.label_help = {"index of the port", "udp or dpdk"},
	.stats = port_stats,
	.count = COUNT(port_stats),
};

const struct hd_stat_group hd_queue_group = {
	.name = "queue",
	.help = "queues of each port",
	.label = {"port", "direction", "queue"},
	.label_help = {"index of the port", "in or out", "index of the queue"},
	.stats = queue_stats,
	.count = COUNT(queue_stats),
};

const struct hd_stat_group hd_core_group = {
	.name = "core",
	.help = "threads that move packets",
	.label = {"core"},
	.label_help = {"name of the thread"},
	.stats = core_stats,
	.count = COUNT(core_stats),
};

const struct hd_stat_group hd_transfer_group = {
	.name = "transfer",
	.help = "data chunks of all transfers",
	.stats = transfer_stats,
	.count = COUNT(transfer_stats),
};

const struct hd_stat_group hd_process_group = {
	.name = "process",
	.help = "the program",
	.stats = process_stats,
	.count = COUNT(process_stats),
};
