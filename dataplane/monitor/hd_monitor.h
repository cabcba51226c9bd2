/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link monitor's core: turns byte counters of a host's network card into LOAD messages, so that the
 * controller knows what other tenants take of the host's link.
 *
 *   ours     |  ____      ___|      counters are read every 10 ms while ours flows (else every 50 ms):
 *   others   |~~\__/~~~~~~\__|      what others had while ours did is what a full link leaves them
 *            0 ms           100     one message
 *
 * A flow counts as elastic when it has at least a quarter of the fastest one's rate; it is taken at its
 * recent peak, as we may be what holds it down now. The rest is steady.
 */
#ifndef HD_MONITOR_H
#define HD_MONITOR_H

#include "hd_keys.h"
#include "hd_limits.h"
#include "hd_link_counts.h"
#include "hd_node.h"
#include "hd_stats.h"

struct hd_monitor;

/* A refused monitor asks again after this, twice as long each time up to the maximum: a topology may be mended. */
#define HD_MONITOR_RETRY_US 1000000
#define HD_MONITOR_RETRY_MAX_US 64000000

/* Bytes of frames since some fixed moment. A counter that falls begins anew. */
struct hd_monitor_counts {
	uint64_t ours;
	uint64_t flows[HD_COUNTS_FLOWS];
};

struct hd_monitor_source {
	/* Reads both ways' counters now: [HD_COUNTS_OUT], [HD_COUNTS_IN]. 0 or -errno: then this reading
	 * is left out and counted. */
	int (*read)(void *owner, struct hd_monitor_counts counts[HD_COUNTS_WAYS]);
};

struct hd_monitor_config {
	const char *name; /* what the controller shows; copied */
	const char *host; /* its name in the topology; copied */
	const struct hd_keyring *keys; /* outlives the monitor */
	uint16_t key_id;
	uint8_t seed[32]; /* fresh entropy in every life */
	struct hd_addr controller;
	uint32_t interval_us; /* between messages; 0: HD_LOAD_INTERVAL_US */
	const struct hd_monitor_source *source;
	/* What people should read in a log: why the controller does not take what we count, once for each
	 * reason; and that it does again. May be NULL. */
	void (*told)(void *owner, bool good, const char *text);
	/* Adds what the core cannot see to the numbers that the controller asks for: ports, queues, the thread. May be
	 * NULL. */
	void (*gather)(void *owner, struct hd_stats *stats);
	void *owner;
};

/* 0, -EINVAL (names, ops, controller, a key that is not there), -ENOMEM. */
int hd_monitor_create(const struct hd_monitor_config *config, struct hd_monitor **monitor);
void hd_monitor_destroy(struct hd_monitor *monitor);
extern const struct hd_core_ops hd_monitor_ops;

struct hd_monitor_stats {
	uint64_t readings, failures, loads; /* counters read, not to be read; messages sent */
	uint64_t asked; /* registrations sent */
	bool registered;
	char refused[HD_TEXT_BYTES_MAX + 1]; /* the controller's last words against us */
};
const struct hd_monitor_stats *hd_monitor_stats(const struct hd_monitor *monitor);

#endif
