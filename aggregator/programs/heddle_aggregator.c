/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-aggregator: the aggregator's core on a driver. */
#include "hd_aggregator.h"
#include "hd_main.h"
#include "hd_message.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define PROGRAM "heddle-aggregator"

struct options {
	struct hd_setup_options common;
	uint64_t memory, early;
	uint32_t hold_us;
};

/* --- options --------------------------------------------------------------------------------- */

static const struct hd_option option_table[] = {
	HD_SETUP_KEY_FILE,
	HD_SETUP_CONTROLLER_NEEDED("who makes the groups"),
	HD_SETUP_LISTEN("where to listen (0.0.0.0:4773); port 0: any free one"),
	HD_SETUP_HOST("this host's name in the topology (its host name)"),
	HD_OPTION_BYTES(
		"memory",
		struct options,
		memory,
		HD_MODEL_BYTES_MAX,
		"memory limit for groups and their sums; K, M, G (1G)"
	),
	HD_OPTION_BYTES(
		"early",
		struct options,
		early,
		HD_MODEL_BYTES_MAX,
		"limit for early chunks of one ranked sum, kept until their turn; K, M, G (16M)"
	),
	HD_OPTION_U32(
		"hold-us",
		"N",
		struct options,
		hold_us,
		1,
		3600000000U,
		"fail a group when a member is silent for this long while others wait (500000)"
	),
	HD_SETUP_EVENTS("write events as JSON lines"),
	HD_SETUP_SERVICE,
	HD_SETUP_DRIVER,
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = PROGRAM,
	.usage
	= "usage: heddle-aggregator --key-file FILE --controller ADDR[:PORT] [options]\n"
	  "\n"
	  "Adds updates between workers and server, relays models and runs all-reduces, as the controller plans.\n"
	  "Prints `ready ADDR:PORT` when it listens.\n"
	  "\n",
	.table = option_table,
};

/* --- the core -------------------------------------------------------------------------------- */

static const struct hd_aggregator_ops core_ops = {.gather = hd_main_gather};

static int make_aggregator(struct hd_main *run, const void *options, void **core) {
	const struct options *o = options;
	struct hd_aggregator *aggregator = NULL;
	struct hd_aggregator_config config = {
		.name = o->common.host,
		.host = o->common.host,
		.keys = &run->keys,
		.key_id = run->keys.keys[0].id,
		.memory_bytes = o->memory,
		.early_bytes = o->early,
		.hold_us = o->hold_us,
		.receive_window_bytes = hd_driver_receive_window(run->driver),
		.ops = &core_ops,
		.owner = run,
		.data = hd_main_data(run),
	};
	int code = hd_main_identity(run, &o->common, &config.controller, config.seed);

	if (code)
		return code;
	code = hd_aggregator_create(&config, &aggregator);
	*core = aggregator;
	if (code < 0)
		return hd_log_fail(&run->service.log, EX_OSERR, "aggregator: %s", strerror(-code));
	return 0;
}

static void close_aggregator(struct hd_main *run, void *core) {
	hd_aggregator_destroy(core);
}

static void gather(void *core, struct hd_stats *stats) {
	hd_aggregator_gather(core, stats);
}

/* Tells members and receivers that their groups have ended. */
static bool drain(void *core, hd_ns now, struct hd_sink *sink) {
	hd_aggregator_drain(core, now, sink);
	return true;
}

static const struct hd_main_ops aggregator_main = {
	.groups = hd_aggregator_groups,
	.node = &hd_aggregator_ops,
	.without = "no new groups",
	.make = make_aggregator,
	.close = close_aggregator,
	.gather = gather,
	.drain = drain,
};

int main(int argc, char **argv) {
	char host[HD_NAME_BYTES_MAX + 1] = "aggregator";
	struct hd_main run = {0};
	struct options o = {
		.common = {.listen = "0.0.0.0", .host = host},
		.memory = UINT64_C(1) << 30,
		.hold_us = HD_HOLD_US,
	};
	int status;

	(void)gethostname(host, sizeof host - 1);
	status = hd_setup_options(&command_line, argc, argv, &o, &run.service);
	if (status)
		return status < 0 ? 0 : status;
	return hd_main_run(&run, &aggregator_main, &o.common);
}
