/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-monitor: counts the traffic of a host's network card and reports other tenants' share to the controller. One a
 * host; it alone of Heddle's programs needs CAP_BPF and CAP_NET_ADMIN. */
#include "hd_counter.h"
#include "hd_driver.h"
#include "hd_limits.h"
#include "hd_monitor.h"
#include "hd_setup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PROGRAM "heddle-monitor"

struct options {
	struct hd_setup_options common;
	const char *interface;
	uint32_t fabric_port, interval_ms;
};

/* The state of the running program. */
struct program {
	const struct options *options;
	struct hd_service service;
	struct hd_keyring keys;
	struct hd_driver *driver;
	struct hd_counter *counter;
	struct hd_monitor *monitor;
};

static const struct hd_option option_table[] = {
	HD_SETUP_HOST("of this host in the controller's topology"),
	HD_OPTION_NEEDED(
		"interface",
		"IF",
		struct options,
		interface,
		"the network card that the fabric's packets take"
	),
	HD_OPTION_NEEDED(
		"key-file",
		"FILE",
		struct options,
		common.key_file,
		"keys of the cluster (HEDDLE_KEY_FILE)"
	),
	HD_SETUP_CONTROLLER("(HEDDLE_CONTROLLER, else 127.0.0.1:4773)"),
	HD_OPTION_U32(
		"fabric-port",
		"N",
		struct options,
		fabric_port,
		1,
		UINT16_MAX,
		"UDP port whose packets are the fabric's own (4773)"
	),
	HD_OPTION_U32(
		"interval-ms",
		"N",
		struct options,
		interval_ms,
		1,
		10000,
		"between two messages to the controller (100)"
	),
	HD_SETUP_SERVICE,
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = PROGRAM,
	.usage
	= "usage: heddle-monitor --host NAME --interface IF --key-file F [options]\n"
	  "Counts the bytes of other tenants on this host's link, both ways, for the controller.\n"
	  "\n",
	.table = option_table,
	.after
	= "\n"
	  "Needs CAP_BPF and CAP_NET_ADMIN. Its programs let every packet pass, and leave the card when it ends.\n",
};

static int read_counter(void *owner, struct hd_monitor_counts counts[HD_COUNTS_DIRECTIONS]) {
	hd_counter_read(((struct program *)owner)->counter, counts);
	return 0;
}

static void report_text(void *owner, bool good, const char *text) {
	hd_log_write(
		&((struct program *)owner)->service.log,
		good ? HD_LOG_INFO : HD_LOG_WARNING,
		good ? "registered" : "refused",
		NULL,
		good ? "%s" : "the controller: %s; asking again",
		text
	);
}

static const struct hd_monitor_source source = {.read = read_counter};

/* --- counters ------ */

struct monitor_values {
	uint64_t readings, failures, loads, asked, registered;
};

struct direction_values {
	uint64_t ours_bytes, others_bytes;
};

#define MONITOR_STAT(name, unit, help, kind)                                                       \
	{ #name, unit, help, HD_STAT_##kind, HD_STAT_U64, offsetof(struct monitor_values, name) }
static const struct hd_stat monitor_stats[] = {
	MONITOR_STAT(
		readings,
		"readings",
		"times that the counters of the network card were read",
		COUNTER
	),
	MONITOR_STAT(failures, "readings", "readings that failed", COUNTER),
	MONITOR_STAT(loads, "messages", "messages sent to the controller", COUNTER),
	MONITOR_STAT(asked, "messages", "registrations sent to the controller", COUNTER),
	MONITOR_STAT(registered, "", "1 while the monitor is registered", GAUGE),
};

#define DIRECTION_STAT(name, help)                                                                 \
	{                                                                                          \
#name, "bytes", help, HD_STAT_COUNTER, HD_STAT_U64,                                \
			offsetof(struct direction_values, name)                                    \
	}
static const struct hd_stat direction_stats[] = {
	DIRECTION_STAT(ours_bytes, "frames of the fabric"),
	DIRECTION_STAT(others_bytes, "frames of other traffic"),
};

static const struct hd_stat_group monitor_group = {
	.name = "monitor",
	.help = "the link monitor",
	.stats = monitor_stats,
	.count = sizeof monitor_stats / sizeof monitor_stats[0],
};

static const struct hd_stat_group direction_group = {
	.name = "card",
	.help = "traffic through the network card of the host",
	.label = {"direction"},
	.stats = direction_stats,
	.count = sizeof direction_stats / sizeof direction_stats[0],
};

static void add_direction(
	const char *direction,
	const struct hd_monitor_counts *counts,
	struct hd_stats *stats
) {
	struct direction_values values = {.ours_bytes = counts->ours};

	for (int i = 0; i < HD_COUNTS_FLOWS; i++)
		values.others_bytes += counts->flows[i];
	hd_stats_add(stats, &direction_group, &direction, &values);
}

static void fill(void *owner, struct hd_stats *stats) {
	struct program *program = owner;
	const struct hd_monitor_stats *s = hd_monitor_stats(program->monitor);
	const struct monitor_values values = {
		.readings = s->readings,
		.failures = s->failures,
		.loads = s->loads,
		.asked = s->asked,
		.registered = s->registered,
	};
	struct hd_monitor_counts counts[HD_COUNTS_DIRECTIONS];

	hd_stats_add(stats, &monitor_group, NULL, &values);
	hd_counter_read(program->counter, counts);
	add_direction("out", &counts[HD_COUNTS_OUT], stats);
	add_direction("in", &counts[HD_COUNTS_IN], stats);
	hd_service_gather(&program->service, stats);
}

static void gather(void *owner, struct hd_stats *stats) {
	hd_service_gather(&((struct program *)owner)->service, stats);
}

static void on_woken(void *owner, hd_ns now, struct hd_sink *sink) {
	struct program *program = owner;

	(void)now;
	(void)sink;
	hd_service_woken(&program->service, fill, program);
}

static void on_event(void *owner, const struct hd_event *event) {
	hd_log_event(&((struct program *)owner)->service.log, event);
}

/* --- running --- */

static int run(void *owner) {
	struct program *program = owner;
	const struct options *o = program->options;
	const struct hd_monitor_stats *stats = hd_monitor_stats(program->monitor);
	int status = hd_setup_signals(o->common.log, program->driver);

	if (status)
		return status;
	(void)printf(PROGRAM ": counting on %s for %s\n", o->interface, o->common.host);
	(void)fflush(stdout);
	status = hd_driver_run(
		program->driver, (struct hd_node){&hd_monitor_ops, program->monitor}
	);
	(void
	)printf(PROGRAM ": %llu readings, %llu failed, %llu messages\n",
		(unsigned long long)stats->readings,
		(unsigned long long)stats->failures,
		(unsigned long long)stats->loads);
	return status ? hd_log_fail(o->common.log, EX_OSERR, "%s", strerror(-status)) : 0;
}

static int open_counter(struct program *program) {
	const struct options *o = program->options;
	char error[512];
	int status = hd_counter_open(
		o->interface, (uint16_t)o->fabric_port, &program->counter, error, sizeof error
	);

	if (status == 0)
		return 0;
	return hd_log_fail(
		o->common.log, status == -EPERM ? EX_NOPERM : EX_UNAVAILABLE, "%s", error
	);
}

static int make_monitor(struct program *program) {
	const struct options *o = program->options;
	struct hd_monitor_config config = {
		.name = o->common.host,
		.host = o->common.host,
		.keys = &program->keys,
		.key_id = program->keys.keys[0].id,
		.interval_us = o->interval_ms * 1000,
		.source = &source,
		.report_text = report_text,
		.gather = gather,
		.owner = program,
	};
	const struct hd_driver_config ordinary
		= {.event = on_event, .woken = on_woken, .owner = program};
	char error[256];
	int code = hd_setup_controller(o->common.log, o->common.controller, &config.controller);

	if (code)
		return code;
	if (hd_program_entropy(config.seed))
		return hd_log_fail(o->common.log, EX_OSERR, "no entropy");
	if (hd_monitor_create(&config, &program->monitor))
		return hd_log_fail(o->common.log, EX_OSERR, "no memory");
	if (hd_driver_open(&ordinary, &program->driver, error, sizeof error))
		return hd_log_fail(o->common.log, EX_OSERR, "socket: %s", error);
	return 0;
}

static int with_options(struct program *program) {
	static const struct hd_stat_group *const groups[]
		= {&monitor_group, &direction_group, NULL};
	const struct options *o = program->options;
	int status = hd_setup_begin(&program->service, &o->common, &program->keys);

	if (!status)
		status = open_counter(program);
	if (!status)
		status = make_monitor(program);
	if (!status)
		status = hd_setup_serve(
			&program->service, &o->common, program->driver, groups, run, program
		);
	hd_monitor_destroy(program->monitor);
	hd_counter_close(program->counter);
	return hd_setup_end(&program->service, &o->common, &program->keys, program->driver, status);
}

/* NULL also if it is empty. */
static const char *from_environment(const char *name) {
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

int main(int argc, char **argv) {
	struct program program = {0};
	struct options o = {
		.common = {
			.controller = from_environment("HEDDLE_CONTROLLER"),
			.key_file = from_environment("HEDDLE_KEY_FILE"),
		},
		.fabric_port = HD_PORT,
	};
	int status = hd_setup_options(&command_line, argc, argv, &o, &program.service);

	if (status)
		return status < 0 ? 0 : status;
	if (!o.common.controller)
		o.common.controller = "127.0.0.1";
	program.options = &o;
	return with_options(&program);
}
