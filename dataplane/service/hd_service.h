/* SPDX-License-Identifier: BSD-3-Clause */
/* What a long-running program (controller, server) offers its operator: a log, its counters, metrics over HTTP. One a
 * process; on the driver's thread, unless stated. */
#ifndef HD_SERVICE_H
#define HD_SERVICE_H

#include "hd_driver.h"
#include "hd_log.h"
#include "hd_metrics.h"
#include "hd_option.h"
#include "hd_program.h"
#include "hd_stat_groups.h"

struct hd_service_options {
	const char *metrics; /* [ADDR:]PORT; NULL: none */
	const char *metrics_token_file; /* NULL: anyone who can connect may read */
	const char *log_level; /* NULL: info */
	bool log_json;
	uint32_t end_with; /* a process; 0: none */
};

/* The loop of a program whose main thread does not run a driver. */
struct hd_service_loop {
	void (*wake)(void *owner); /* must make it call hd_service_woken() soon; any thread */
	void *owner;
	bool eal; /* the process has started DPDK's EAL: rte_telemetry answers */
	bool inner; /* its driver's traffic passes counted ports: leave the driver's out */
};

struct hd_service {
	struct hd_log log;
	struct hd_service_options options;
	struct hd_driver *driver; /* NULL: a loop without a driver */
	struct hd_service_loop loop;
	struct hd_event_log *events; /* the program's; NULL: none */
	struct hd_stats_query *query;
	struct hd_metrics *metrics;
	char metrics_token[HD_METRICS_TOKEN_MAX + 1]; /* "": none; set before hd_service_start() */
	hd_ns started;
	uint64_t gathers;
	double gather_seconds;
	/* The driver's counters as a group. */
	struct hd_stat stat[HD_DRIVER_COUNTERS_MAX];
	uint64_t value[HD_DRIVER_COUNTERS_MAX];
	struct hd_stat_group group;
};

/* 0 or -EINVAL (the log level). program and node must outlive it. */
int hd_service_init(
	struct hd_service *service,
	const char *program,
	const char *node,
	const struct hd_service_options *options
);
/* Starts to listen, if requested, and to answer telemetry on a driver that has it. groups: the core's, NULL after the
 * last. 0 or -errno with a text in error. */
int hd_service_start(
	struct hd_service *service,
	struct hd_driver *driver,
	const struct hd_stat_group *const *groups,
	char *error,
	size_t error_bytes
);
/* The same for a loop without a driver. */
int hd_service_start_loop(
	struct hd_service *service,
	const struct hd_service_loop *loop,
	const struct hd_stat_group *const *groups,
	char *error,
	size_t error_bytes
);
/* Before the driver is closed. */
void hd_service_stop(struct hd_service *service);
/* To be called when the driver was woken: serves waiting readers of counters. */
void hd_service_woken(
	struct hd_service *service,
	void (*fill)(void *owner, struct hd_stats *stats),
	void *owner
);
/* Adds the counters outside of the core: the core's thread, the process, driver, ports, queues. */
void hd_service_gather(struct hd_service *service, struct hd_stats *stats);

/* --- command lines --------------------------------------------------------------------------- */

/* For struct hd_service_options, in a program's table. */
extern const struct hd_option hd_service_option_table[];

#endif
