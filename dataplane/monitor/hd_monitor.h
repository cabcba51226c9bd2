/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link monitor's core: turns byte counters of a host's network card into LOAD messages, so that the controller
 * knows how much of the host's link other tenants use.
 *
 *   ours     |  ____      ___|      counters are read every 10 ms while our traffic flows (else every 50 ms):
 *   others   |~~\__/~~~~~~\__|      others' traffic at the same time is their share of a full link
 *            0 ms           100     one message
 *
 * A flow counts as elastic when it has at least a quarter of the fastest one's rate; its recent peak is reported, as
 * our own traffic may slow it down now. The rest is steady.
 */
#ifndef HD_MONITOR_H
#define HD_MONITOR_H

#include "hd_keys.h"
#include "hd_limits.h"
#include "hd_link_counts.h"
#include "hd_node.h"
#include "hd_stats.h"

struct hd_monitor;

/* A refused monitor asks again after this, doubled each time up to the maximum: the topology may be corrected. */
#define HD_MONITOR_RETRY_US 1000000
#define HD_MONITOR_RETRY_MAX_US 64000000

/* Bytes of frames since some fixed moment. A counter that falls was restarted. */
struct hd_monitor_counts {
	uint64_t ours;
	uint64_t flows[HD_COUNTS_FLOWS];
};

struct hd_monitor_source {
	/* Reads both ways' counters now: [HD_COUNTS_OUT], [HD_COUNTS_IN]. 0 or -errno: then this reading is skipped and
	 * counted. */
	int (*read)(void *owner, struct hd_monitor_counts counts[HD_COUNTS_DIRECTIONS]);
};

struct hd_monitor_config {
	const char *name; /* shown by the controller; copied */
	const char *host; /* its name in the topology; copied */
	const struct hd_keyring *keys; /* must outlive the monitor */
	uint16_t key_id;
	uint8_t seed[32]; /* fresh entropy in every process */
	struct hd_addr controller;
	uint32_t interval_us; /* between messages; 0: HD_LOAD_INTERVAL_US */
	const struct hd_monitor_source *source;
	/* A text for the log: why the controller refuses our counters, once for each reason; and that it accepts them
	 * again. May be NULL. */
	void (*report_text)(void *owner, bool good, const char *text);
	/* Adds counters from outside of the core, of ports, queues and the thread, to those that the controller asks
	 * for. May be NULL. */
	void (*gather)(void *owner, struct hd_stats *stats);
	void *owner;
};

/* 0, -EINVAL (names, ops, controller, an unknown key), -ENOMEM. */
int hd_monitor_create(const struct hd_monitor_config *config, struct hd_monitor **monitor);
void hd_monitor_destroy(struct hd_monitor *monitor);
extern const struct hd_core_ops hd_monitor_ops;

struct hd_monitor_stats {
	uint64_t readings, failures, loads; /* successful and failed readings; messages sent */
	uint64_t asked; /* registrations sent */
	bool registered;
	char refused[HD_TEXT_BYTES_MAX + 1]; /* the controller's last refusal */
};
const struct hd_monitor_stats *hd_monitor_stats(const struct hd_monitor *monitor);

#endif
