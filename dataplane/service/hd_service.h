/* SPDX-License-Identifier: BSD-3-Clause */
/* What a long-running program (controller, server) offers its operator besides its work: a log, its numbers,
 * metrics over HTTP. One a process; on the driver's thread, unless said. */
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
	const char *metrics_token_file; /* NULL: who reaches it may read */
	const char *log_level; /* NULL: info */
	bool log_json;
};

/* The loop of a program's main thread, where that is no driver's. */
struct hd_service_loop {
	void (*wake)(void *owner); /* has it call hd_service_woken() soon; any thread */
	void *owner;
	bool eal; /* the process has DPDK's: rte_telemetry answers */
	bool inner; /* what its driver sends and receives passes ports that are counted: the driver's is none of them */
};

struct hd_service {
	struct hd_log log;
	struct hd_service_options options;
	struct hd_driver *driver; /* NULL: `loop` is not one's */
	struct hd_service_loop loop;
	struct hd_event_log *events; /* the program's; NULL: none */
	struct hd_desk *desk;
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

/* 0 or -EINVAL (the log level). program and node outlive it. */
int hd_service_init(
	struct hd_service *service,
	const char *program,
	const char *node,
	const struct hd_service_options *options
);
/* Begins to listen, when that was asked for, and to answer telemetry on a driver that has it. groups: those
 * of the core, NULL after the last. 0 or -errno with error in words. */
int hd_service_start(
	struct hd_service *service,
	struct hd_driver *driver,
	const struct hd_stat_group *const *groups,
	char *error,
	size_t error_bytes
);
/* The same for another loop than a driver's. */
int hd_service_start_loop(
	struct hd_service *service,
	const struct hd_service_loop *loop,
	const struct hd_stat_group *const *groups,
	char *error,
	size_t error_bytes
);
/* Before the driver is closed. */
void hd_service_stop(struct hd_service *service);
/* To be called when the driver was woken: who waits for numbers gets them. */
void hd_service_woken(
	struct hd_service *service,
	void (*fill)(void *owner, struct hd_stats *stats),
	void *owner
);
/* Adds what is not the core's: the core's thread, the process, driver, ports, queues. */
void hd_service_gather(struct hd_service *service, struct hd_stats *stats);

/* --- command lines --------------------------------------------------------------------------- */

/* Of struct hd_service_options, for a program's table. */
extern const struct hd_option hd_service_option_table[];

#endif
