/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_program.h"
#include "hd_service.h"
#ifdef HD_WITH_DPDK
#include "hd_telemetry.h"
#endif

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GROUPS_MAX 32

const struct hd_option hd_service_option_table[] = {
	HD_OPTION_TEXT(
		"metrics",
		"[ADDR:]PORT",
		struct hd_service_options,
		metrics,
		"serve OpenMetrics at http://ADDR:PORT/metrics (no; 127.0.0.1)"
	),
	HD_OPTION_TEXT(
		"metrics-token-file",
		"F",
		struct hd_service_options,
		metrics_token_file,
		"require this bearer token from scrapers (none)"
	),
	HD_OPTION_TEXT(
		"log-level",
		"LEVEL",
		struct hd_service_options,
		log_level,
		"error, warning, info or debug (info)"
	),
	HD_OPTION_FLAG(
		"log-json",
		struct hd_service_options,
		log_json,
		"log JSON lines, for journald and similar"
	),
	HD_OPTION_U32(
		"end-with",
		"PID",
		struct hd_service_options,
		end_with,
		1,
		INT32_MAX,
		"end when process PID has ended, in whatever way (no)"
	),
	HD_OPTION_END,
};

int hd_service_init(
	struct hd_service *s,
	const char *program,
	const char *node,
	const struct hd_service_options *options
) {
	memset(s, 0, sizeof *s);
	s->options = *options;
	s->started = hd_driver_now();
	hd_log_init(&s->log, program, node);
	s->log.json = options->log_json;
	return options->log_level ? hd_log_set_level(&s->log, options->log_level) : 0;
}

static void wake_driver(void *driver) {
	hd_driver_wake(driver);
}

static int start_metrics(struct hd_service *s, char *error, size_t error_bytes) {
	char bound[HD_ADDR_TEXT_BYTES];
	int status;

	status = hd_metrics_open(
		s->options.metrics, s->metrics_token, s->query, &s->metrics, error, error_bytes
	);
	if (status)
		return status;
	hd_driver_print_addr(hd_metrics_bound(s->metrics), bound);
	if (!s->metrics_token[0] && hd_metrics_bound(s->metrics).ipv4 >> 24 != 127)
		hd_log_write(
			&s->log,
			HD_LOG_WARNING,
			"metrics",
			NULL,
			"any client that reaches %s can read the metrics: see --metrics-token-file",
			bound
		);
	hd_log_write(&s->log, HD_LOG_INFO, "metrics", NULL, "metrics at http://%s/metrics", bound);
	return 0;
}

/* Optional: a program that cannot start it runs without. */
static void start_telemetry(struct hd_service *s, const struct hd_stat_group *const *groups) {
#ifdef HD_WITH_DPDK
	const struct hd_stat_group *all[GROUPS_MAX] = {
		&hd_process_group,
		&hd_core_group,
		&hd_port_group,
		&hd_queue_group,
	};
	size_t count = 4;
	int status;

	if (!s->loop.eal)
		return;
	while (*groups && count + 1 < GROUPS_MAX)
		all[count++] = *groups++;
	all[count] = NULL;
	status = hd_telemetry_start(s->query, all);
	if (status)
		hd_log_write(
			&s->log,
			HD_LOG_WARNING,
			"telemetry",
			NULL,
			"telemetry: %s",
			strerror(-status)
		);
#else
	(void)s;
	(void)groups;
#endif
}

int hd_service_start_loop(
	struct hd_service *s,
	const struct hd_service_loop *loop,
	const struct hd_stat_group *const *groups,
	char *error,
	size_t error_bytes
) {
	s->loop = *loop;
	s->query = hd_stats_query_open(loop->wake, loop->owner);
	if (!s->query) {
		(void)snprintf(error, error_bytes, "no memory");
		return -ENOMEM;
	}
	start_telemetry(s, groups);
	return s->options.metrics ? start_metrics(s, error, error_bytes) : 0;
}

int hd_service_start(
	struct hd_service *s,
	struct hd_driver *driver,
	const struct hd_stat_group *const *groups,
	char *error,
	size_t error_bytes
) {
	const struct hd_service_loop loop = {
		.wake = wake_driver,
		.owner = driver,
		.eal = strcmp(hd_driver_name(driver), "dpdk") == 0,
	};

	s->driver = driver;
	return hd_service_start_loop(s, &loop, groups, error, error_bytes);
}

void hd_service_stop(struct hd_service *s) {
#ifdef HD_WITH_DPDK
	hd_telemetry_stop();
#endif
	hd_metrics_close(s->metrics);
	hd_stats_query_close(s->query);
	s->metrics = NULL;
	s->query = NULL;
}

void hd_service_woken(
	struct hd_service *s,
	void (*fill)(void *owner, struct hd_stats *stats),
	void *owner
) {
	if (s->query)
		hd_stats_query_serve(s->query, fill, owner);
}

/* --- the numbers ----------------------------------------------------------------------------- */

/* The names of a driver's counters never change. Set once: a thread that prints counters may be reading them. */
static void
describe_driver(struct hd_service *s, const struct hd_driver_counter *counters, size_t count) {
	for (size_t i = 0; i < count; i++) {
		s->stat[i] = (struct hd_stat){
			.name = counters[i].name,
			.unit = counters[i].unit,
			.help = counters[i].help,
			.kind = HD_STAT_COUNTER,
			.type = HD_STAT_U64,
			.offset = (uint16_t)(i * sizeof s->value[0]),
		};
	}
	s->group = (struct hd_stat_group){
		.name = "driver",
		.help = "the driver",
		.stats = s->stat,
		.count = (uint16_t)count,
	};
}

static void add_driver(struct hd_service *s, struct hd_stats *stats) {
	struct hd_driver_counter counters[HD_DRIVER_COUNTERS_MAX];
	size_t count = hd_driver_counters(s->driver, counters);

	if (!s->group.stats)
		describe_driver(s, counters, count);
	assert(s->group.count == count);
	for (size_t i = 0; i < count; i++)
		s->value[i] = counters[i].value;
	hd_stats_add(stats, &s->group, NULL, s->value);
	if (!s->loop.inner)
		hd_driver_stats(s->driver, stats);
}

static uint64_t resident_bytes(void) {
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long all = 0, resident = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &all, &resident) != 2)
		resident = 0;
	(void)fclose(file);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_fds(void) {
	DIR *directory = opendir("/proc/self/fd");
	const struct dirent *entry;
	uint64_t count = 0;

	if (!directory)
		return 0;
	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	(void)closedir(directory);
	return count - 1; /* the directory's own */
}

static double thread_seconds(void) {
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void hd_service_gather(struct hd_service *s, struct hd_stats *stats) {
	double begin = thread_seconds();
	struct hd_process_stats process = {
		.uptime_seconds = (double)(hd_driver_now() - s->started) / 1e9,
		.resident_bytes = resident_bytes(),
		.open_fds = open_fds(),
		.log_lines = atomic_load(&s->log.lines),
		.log_errors = atomic_load(&s->log.errors),
		.log_lost = atomic_load(&s->log.lost),
		.events_lost = hd_event_log_lost(s->events),
		.gathers = ++s->gathers,
		.gather_seconds = s->gather_seconds,
	};

	hd_driver_core_stats(s->driver, stats);
	hd_stats_add(stats, &hd_process_group, NULL, &process);
	if (s->driver)
		add_driver(s, stats);
	s->gather_seconds += thread_seconds() - begin;
}
