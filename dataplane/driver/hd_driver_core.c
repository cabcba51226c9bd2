/* SPDX-License-Identifier: BSD-3-Clause */
/* The costs of the thread that drives a node. */
#include "hd_driver.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

static double seconds(const struct timeval *time) {
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

/* The driver's loop runs on the core's thread, and counts its polls. */
static void take_polls(const struct hd_driver *driver, struct hd_core_stats *core) {
	struct hd_driver_counter counters[HD_DRIVER_COUNTERS_MAX];
	size_t count = hd_driver_counters(driver, counters);

	for (size_t i = 0; i < count; i++)
		if (strcmp(counters[i].name, "polls") == 0)
			core->polls = counters[i].value;
		else if (strcmp(counters[i].name, "idle_polls") == 0)
			core->idle_polls = counters[i].value;
}

int hd_driver_thread_stats(struct hd_core_stats *core) {
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		return -errno;
	*core = (struct hd_core_stats){
		.user_seconds = seconds(&usage.ru_utime),
		.system_seconds = seconds(&usage.ru_stime),
		.wakeups = (uint64_t)usage.ru_nvcsw,
		.preempted = (uint64_t)usage.ru_nivcsw,
	};
	return 0;
}

void hd_driver_core_stats(const struct hd_driver *driver, struct hd_stats *stats) {
	const char *label = "main";
	struct hd_core_stats core;

	if (hd_driver_thread_stats(&core) < 0)
		return;
	if (driver)
		take_polls(driver, &core);
	hd_stats_add(stats, &hd_core_group, &label, &core);
}
