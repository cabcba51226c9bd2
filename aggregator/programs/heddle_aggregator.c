/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-aggregator: the aggregator's core on a driver. */
#include "hd_aggregator.h"
#include "hd_message.h"
#include "hd_setup.h"

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

struct program {
	struct hd_service service;
	struct hd_keyring keys;
	struct hd_aggregator *aggregator;
	struct hd_driver *driver;
	bool draining;
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
		"for sums and what belongs to them; K, M, G (1G)"
	),
	HD_OPTION_BYTES(
		"early",
		struct options,
		early,
		HD_MODEL_BYTES_MAX,
		"of one ranked sum: what is kept before its turn; K, M, G (16M)"
	),
	HD_OPTION_U32(
		"hold-us",
		"N",
		struct options,
		hold_us,
		1,
		3600000000U,
		"how long a member may be silent while others wait (500000)"
	),
	HD_SETUP_EVENTS("write what happens as JSON lines"),
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
	  "Adds updates up on their way to the server, relays models, adds up all-reduces: as the controller says.\n"
	  "Prints `ready ADDR:PORT` when it listens.\n"
	  "\n",
	.table = option_table,
};

/* --- driver ---------------------------------------------------------------------------------- */

static void gather(void *owner, struct hd_stats *stats) {
	hd_service_gather(&((struct program *)owner)->service, stats);
}

static const struct hd_aggregator_ops core_ops = {.gather = gather};

static void on_event(void *owner, const struct hd_event *event) {
	hd_setup_event(&((struct program *)owner)->service, event, "no new groups");
}

static void fill(void *owner, struct hd_stats *stats) {
	struct program *program = owner;

	hd_aggregator_gather(program->aggregator, stats);
	hd_service_gather(&program->service, stats);
}

static void on_woken(void *owner, hd_ns now, struct hd_sink *sink) {
	struct program *program = owner;

	hd_service_woken(&program->service, fill, program);
	if (program->draining) {
		program->draining = false;
		hd_aggregator_drain(program->aggregator, now, sink);
	}
}

static int run(void *owner) {
	struct program *program = owner;
	struct hd_node node = {&hd_aggregator_ops, program->aggregator};
	int status = hd_setup_run(&program->service.log, program->driver, node);

	if (status != 0) {
		return status;
	}
	/* Members and receivers hear that their groups have ended. */
	program->draining = true;
	hd_driver_wake(program->driver);
	(void)hd_driver_step(program->driver, node, 0);
	return 0;
}

/* --- building up ----------------------------------------------------------------------------- */

static int make_aggregator(struct program *program, const struct options *o) {
	struct hd_addr bound = hd_driver_bound(program->driver);
	struct hd_aggregator_config config = {
		.name = o->common.host,
		.host = o->common.host,
		.keys = &program->keys,
		.key_id = program->keys.keys[0].id,
		.memory_bytes = o->memory,
		.early_bytes = o->early,
		.hold_us = o->hold_us,
		.receive_window_bytes = hd_driver_receive_window(program->driver),
		.ops = &core_ops,
		.owner = program,
		/* Bound to any address: peers take the one that they reach us at. */
		.data = bound.ipv4 != 0 ? bound : (struct hd_addr){0},
	};
	int rc = hd_setup_controller(o->common.log, o->common.controller, &config.controller);

	if (rc != 0) {
		return rc;
	}
	if (hd_program_entropy(config.seed) < 0) {
		return hd_log_fail(o->common.log, EX_OSERR, "no entropy");
	}
	rc = hd_aggregator_create(&config, &program->aggregator);
	return rc < 0 ? hd_log_fail(o->common.log, EX_OSERR, "aggregator: %s", strerror(-rc)) : 0;
}

static int with_options(struct program *program, const struct options *o) {
	struct hd_driver_config driver = {
		.options = o->common.driver,
		.event = on_event,
		.woken = on_woken,
		.owner = program,
	};
	int status = hd_setup_begin(&program->service, &o->common, &program->keys);

	if (status == 0) {
		status = hd_setup_driver(&program->service, &o->common, &driver, &program->driver);
	}
	if (status == 0) {
		status = make_aggregator(program, o);
	}
	if (status == 0) {
		status = hd_setup_serve(
			&program->service, program->driver, hd_aggregator_groups, run, program
		);
	}
	hd_aggregator_destroy(program->aggregator);
	return hd_setup_end(&program->service, &o->common, &program->keys, program->driver, status);
}

int main(int argc, char **argv) {
	char host[HD_NAME_BYTES_MAX + 1] = "aggregator";
	struct program program = {0};
	struct options o = {
		.common = {.listen = "0.0.0.0", .host = host},
		.memory = UINT64_C(1) << 30,
		.hold_us = HD_HOLD_US,
	};
	int status;

	(void)gethostname(host, sizeof(host) - 1);
	status = hd_setup_options(&command_line, argc, argv, &o, &program.service);
	if (status != 0) {
		return status < 0 ? 0 : status;
	}
	return with_options(&program, &o);
}
