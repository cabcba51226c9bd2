/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's counters, from one table: for programs, and for rte_telemetry:
 *
 *     dpdk-telemetry.py -f heddle-10.0.0.1-4773
 *     --> /heddle/driver            of the first driver of the process; /heddle/driver,1 of the second
 *     --> /ethdev/stats,0           the port's own
 */
#include "hd_dpdk_private.h"

#include <rte_telemetry.h>

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#define DRIVERS_MAX 16

struct row {
	const char *name, *unit, *help;
	size_t offset;
};

static const struct row rows[] = {
#define ROW(field, unit, help) {#field, unit, help, offsetof(struct dpdk_counters, field)},
	DPDK_COUNTERS(ROW)
#undef ROW
#define DROP_ROW(reason, text, help)                                                               \
	{"drop_" #text,                                                                            \
	 "frames",                                                                                 \
	 "dropped: " help,                                                                         \
	 offsetof(struct dpdk_counters, drop) + HD_FRAME_##reason * sizeof(_Atomic uint64_t)},
		HD_FRAME_REASONS(DROP_ROW)
#undef DROP_ROW
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

_Static_assert(DPDK_QUEUES_MAX <= RTE_ETHDEV_QUEUE_STAT_CNTRS, "each queue is counted");
_Static_assert(ROWS <= HD_DPDK_COUNTERS_MAX, "a caller's array holds them all");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hd_dpdk *drivers[DRIVERS_MAX]; // lock: the drivers that telemetry may read
static bool registered; // lock

size_t
hd_dpdk_counters(const struct hd_dpdk *d, struct hd_dpdk_counter counters[HD_DPDK_COUNTERS_MAX]) {
	const char *base = (const char *)&d->counters;

	uint64_t lost = 0;

	for (uint16_t queue = 0; queue < d->port.queues; queue++)
		lost += dpdk_port_lost(&d->port, queue, &d->queue_counters[queue].lost);
	atomic_store(d->overflow, lost);
	for (size_t i = 0; i < ROWS; i++) {
		const _Atomic uint64_t *value = (const _Atomic uint64_t *)(base + rows[i].offset);

		counters[i] = (struct hd_dpdk_counter){
			.name = rows[i].name,
			.unit = rows[i].unit,
			.help = rows[i].help,
			.value = atomic_load_explicit(value, memory_order_relaxed),
		};
	}
	return ROWS;
}

uint16_t hd_dpdk_queues(
	const struct hd_dpdk *d,
	struct hd_dpdk_queue *in,
	struct hd_dpdk_queue *out,
	uint16_t capacity
) {
	const uint64_t limit = (uint64_t)d->port.ring_frames * d->port.mtu;
	const uint16_t count = RTE_MIN(d->port.queues, capacity);
	struct rte_eth_stats stats;

	if (rte_eth_stats_get(d->port.id, &stats) < 0)
		return 0;
	for (uint16_t q = 0; q < count; q++) {
		in[q] = (struct hd_dpdk_queue){
			.packets = stats.q_ipackets[q],
			.bytes = stats.q_ibytes[q],
			.drops = dpdk_port_lost(&d->port, q, &d->queue_counters[q].lost),
			.backlog_bytes
			= atomic_load_explicit(&d->queue[q].found_bytes, memory_order_relaxed),
			.limit_bytes = limit,
		};
		out[q] = (struct hd_dpdk_queue){
			.packets = stats.q_opackets[q],
			.bytes = stats.q_obytes[q],
			.drops = atomic_load_explicit(&d->queue[q].given_up, memory_order_relaxed),
			.backlog_bytes = dpdk_port_backlog_bytes(&d->port, q),
			.limit_bytes = limit,
		};
	}
	return d->port.queues;
}

static int on_driver(const char *command, const char *parameters, struct rte_tel_data *data) {
	unsigned long index = parameters ? strtoul(parameters, NULL, 10) : 0;
	struct hd_dpdk_counter counters[HD_DPDK_COUNTERS_MAX];
	size_t count = 0;

	(void)command;
	pthread_mutex_lock(&lock);
	if (index < DRIVERS_MAX && drivers[index])
		count = hd_dpdk_counters(drivers[index], counters);
	pthread_mutex_unlock(&lock);
	if (count == 0)
		return -ENOENT;
	rte_tel_data_start_dict(data);
	for (size_t i = 0; i < count; i++)
		(void)rte_tel_data_add_dict_u64(data, counters[i].name, counters[i].value);
	return 0;
}

void dpdk_publish(struct hd_dpdk *d) {
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < DRIVERS_MAX; i++)
		if (!drivers[i]) {
			drivers[i] = d;
			break;
		}
	if (!registered)
		registered = rte_telemetry_register_cmd(
				     "/heddle/driver",
				     on_driver,
				     "Counters of Heddle's driver. Parameter: which driver (0)"
			     )
			== 0;
	pthread_mutex_unlock(&lock);
}

void dpdk_retire(struct hd_dpdk *d) {
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < DRIVERS_MAX; i++)
		if (drivers[i] == d)
			drivers[i] = NULL;
	pthread_mutex_unlock(&lock);
}
