/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-switch-agent: the agent of a switch that another program carries, told by a child what its leases are. */
#include "hd_limits.h"
#include "hd_message.h"
#include "hd_setup.h"
#include "hd_switch_bridge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define PROGRAM "heddle-switch-agent"
#define SLOTS 256 /* each is cleared by a command of its own */

struct options {
	struct hd_setup_options common;
	const char *bridge;
	uint32_t slots;
};

struct program {
	struct hd_service service;
	struct hd_keyring keys;
	struct hd_switch_agent *agent;
	struct hd_switch_bridge *bridge;
	struct hd_driver *driver;
	bool draining;
};

/* --- options --------------------------------------------------------------------------------- */

static const struct hd_option option_table[] = {
	HD_OPTION_NEEDED(
		"bridge",
		"COMMAND",
		struct options,
		bridge,
		"for a shell; ends when its input does: testbed/lab/bmv2_bridge.py FILE"
	),
	HD_SETUP_LISTEN_NEEDED(
		"the service address: chunks for it are the switch's, all else is the agent's"
	),
	HD_SETUP_KEY_FILE,
	HD_SETUP_CONTROLLER_NEEDED("who leases slots"),
	HD_SETUP_HOST("the switch's name in the topology (its host name)"),
	HD_OPTION_U32(
		"slots",
		"N",
		struct options,
		slots,
		1,
		HD_SWITCH_SLOTS,
		"of all leases (256)"
	),
	HD_SETUP_EVENTS("write what happens to leases as JSON lines"),
	HD_SETUP_SERVICE,
	HD_SETUP_DRIVER,
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = PROGRAM,
	.usage
	= "usage: heddle-switch-agent --bridge COMMAND --listen ADDR --key-file FILE --controller ADDR[:PORT] [options]\n"
	  "\n"
	  "Has a switch with the P4 program (bmv2) add up what jobs with a lease of its slots send. The command programs\n"
	  "the switch, told what by lines of JSON (docs/switch.md).\n"
	  "Prints `ready ADDR:PORT` when the switch forwards and it listens.\n"
	  "\n",
	.table = option_table,
};

/* --- driver ---------------------------------------------------------------------------------- */

static void on_event(void *owner, const struct hd_event *event) {
	hd_setup_event(&((struct program *)owner)->service, event, "leases expire");
}

static void fill(void *owner, struct hd_stats *stats) {
	struct program *program = owner;

	hd_switch_agent_gather(program->agent, stats);
	hd_service_gather(&program->service, stats);
}

static void on_woken(void *owner, hd_ns now, struct hd_sink *sink) {
	struct program *program = owner;

	hd_service_woken(&program->service, fill, program);
	if (program->draining) {
		program->draining = false;
		hd_switch_agent_drain(program->agent, now, sink);
	}
}

static int run(void *owner) {
	struct program *program = owner;
	struct hd_node node = {&hd_switch_agent_core, program->agent};
	int status = hd_setup_run(&program->service.log, program->driver, node);

	if (status != 0)
		return status;
	program->draining = true;
	hd_driver_wake(program->driver);
	(void)hd_driver_step(program->driver, node, 0);
	return 0;
}

/* --- building up ----------------------------------------------------------------------------- */

static int make_agent(struct program *program, const struct options *o) {
	struct hd_addr bound = hd_driver_bound(program->driver);
	struct hd_switch_agent_config config = {
		.name = o->common.host,
		.host = o->common.host,
		.keys = &program->keys,
		.key_id = program->keys.keys[0].id,
		.data = {.ipv4 = bound.ipv4, .port = HD_SWITCH_UDP_PORT},
		.slots = (uint16_t)o->slots,
		.count_min = HD_SWITCH_LANES,
		.count_max = HD_SWITCH_LANES,
		.dtypes = 1u << HD_DTYPE_FIXED32,
		.ops = &hd_switch_bridge_ops,
		.owner = program->bridge,
	};
	int code;

	if (bound.ipv4 == 0)
		return hd_log_fail(
			o->common.log,
			EX_USAGE,
			"--listen: '%s' (the service address)",
			o->common.listen
		);
	code = hd_setup_controller(o->common.log, o->common.controller, &config.controller);
	if (code != 0)
		return code;
	if (hd_program_entropy(config.seed) < 0)
		return hd_log_fail(o->common.log, EX_OSERR, "no entropy");
	code = hd_switch_agent_create(&config, &program->agent);
	return code < 0 ? hd_log_fail(o->common.log, EX_OSERR, "agent: %s", strerror(-code)) : 0;
}

static int open_bridge(struct program *program, const struct options *o) {
	char error[HD_TEXT_BYTES_MAX] = "";

	if (hd_switch_bridge_open(o->bridge, &program->bridge, error, sizeof(error)) == 0)
		return 0;
	return hd_log_fail(o->common.log, EX_UNAVAILABLE, "--bridge: %s", error);
}

static int with_options(struct program *program, const struct options *o) {
	struct hd_driver_config driver = {
		.options = o->common.driver,
		.event = on_event,
		.woken = on_woken,
		.owner = program,
	};
	int status = hd_setup_begin(&program->service, &o->common, &program->keys);

	if (status == 0)
		status = open_bridge(program, o);
	if (status == 0)
		status = hd_setup_driver(&program->service, &o->common, &driver, &program->driver);
	if (status == 0)
		status = make_agent(program, o);
	if (status == 0)
		status = hd_setup_serve(
			&program->service, program->driver, hd_switch_agent_groups, run, program
		);
	hd_switch_agent_destroy(program->agent);
	hd_switch_bridge_close(program->bridge);
	return hd_setup_end(&program->service, &o->common, &program->keys, program->driver, status);
}

int main(int argc, char **argv) {
	static struct program program;
	static char host[HD_NAME_BYTES_MAX + 1] = "switch";
	struct options o = {.common = {.host = host}, .slots = SLOTS};
	int status;

	(void)gethostname(host, sizeof(host) - 1);
	status = hd_setup_options(&command_line, argc, argv, &o, &program.service);
	if (status != 0)
		return status < 0 ? 0 : status;
	return with_options(&program, &o);
}
