/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-switch-agent: the agent of a switch in another program, which gets its leases through a child. */
#include "hd_limits.h"
#include "hd_main.h"
#include "hd_message.h"
#include "hd_switch_bridge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define PROGRAM "heddle-switch-agent"
#define SLOTS 256 /* each needs a command of its own to be cleared */

struct options {
	struct hd_setup_options common;
	const char *bridge;
	uint32_t slots;
};

static struct program {
	struct hd_main main;
	struct hd_switch_bridge *bridge;
	struct hd_switch_agent_ops ops; /* the bridge's, and the numbers of this process */
} program;

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
	  "Controls a switch with the P4 program (bmv2), which adds the chunks of jobs that have leased its slots. COMMAND\n"
	  "programs the switch; it reads JSON lines (docs/switch.md).\n"
	  "Prints `ready ADDR:PORT` when the switch forwards and it listens.\n"
	  "\n",
	.table = option_table,
};

/* --- the core -------------------------------------------------------------------------------- */

static int open_bridge(struct hd_main *run, const void *options) {
	const struct options *o = options;
	char error[HD_TEXT_BYTES_MAX] = "";

	if (hd_switch_bridge_open(o->bridge, &program.bridge, error, sizeof error) == 0)
		return 0;
	return hd_log_fail(&run->service.log, EX_UNAVAILABLE, "--bridge: %s", error);
}

static void on_gather(void *owner, struct hd_stats *stats) {
	hd_switch_bridge_gather(owner, stats);
	hd_main_gather(&program.main, stats);
}

static int make_agent(struct hd_main *run, const void *options, void **core) {
	const struct options *o = options;
	struct hd_addr bound = hd_driver_bound(run->driver);
	struct hd_switch_agent *agent = NULL;
	struct hd_switch_agent_config config = {
		.name = o->common.host,
		.host = o->common.host,
		.keys = &run->keys,
		.key_id = run->keys.keys[0].id,
		.data = {.ipv4 = bound.ipv4, .port = HD_SWITCH_UDP_PORT},
		.slots = (uint16_t)o->slots,
		.count_min = HD_SWITCH_LANES,
		.count_max = HD_SWITCH_LANES,
		.dtypes = 1u << HD_DTYPE_FIXED32,
		.ops = &program.ops,
		.owner = program.bridge,
	};
	int code;

	if (!bound.ipv4)
		return hd_log_fail(
			&run->service.log,
			EX_USAGE,
			"--listen: '%s' (the service address)",
			o->common.listen
		);
	code = hd_main_identity(run, &o->common, &config.controller, config.seed);
	if (code)
		return code;
	program.ops = hd_switch_bridge_ops;
	program.ops.gather = on_gather;
	code = hd_switch_agent_create(&config, &agent);
	*core = agent;
	return code < 0 ? hd_log_fail(&run->service.log, EX_OSERR, "agent: %s", strerror(-code)) :
			  0;
}

static void close_agent(struct hd_main *run, void *core) {
	(void)run;
	hd_switch_agent_destroy(core);
	hd_switch_bridge_close(program.bridge);
}

static void gather(void *core, struct hd_stats *stats) {
	hd_switch_agent_gather(core, stats);
	hd_switch_bridge_gather(program.bridge, stats);
}

static bool drain(void *core, hd_ns now, struct hd_sink *sink) {
	hd_switch_agent_drain(core, now, sink);
	return true;
}

static const char without_controller[] = "leases expire";

/* The switch itself has gone, or come back. */
static void on_event(struct hd_main *run, const struct hd_event *event) {
	if (event->aux != HD_ROLE_SWITCH) {
		hd_setup_event(&run->service, event, without_controller);
		return;
	}
	if (event->kind == HD_EVENT_NODE_DOWN)
		hd_log_write(
			&run->service.log,
			HD_LOG_WARNING,
			"switch",
			event,
			"switch: it does not answer, or has restarted: all leases are over"
		);
	else
		hd_log_write(
			&run->service.log, HD_LOG_INFO, "switch", event, "switch: programmed again"
		);
	hd_event_log_add(run->service.events, event);
}

static const struct hd_main_ops agent_main = {
	.groups = hd_switch_agent_groups,
	.inner = true,
	.node = &hd_switch_agent_core,
	.without = without_controller,
	.open = open_bridge,
	.make = make_agent,
	.close = close_agent,
	.gather = gather,
	.drain = drain,
	.event = on_event,
};

int main(int argc, char **argv) {
	static char host[HD_NAME_BYTES_MAX + 1] = "switch";
	struct options o = {.common = {.host = host}, .slots = SLOTS};
	int status;

	(void)gethostname(host, sizeof host - 1);
	status = hd_setup_options(&command_line, argc, argv, &o, &program.main.service);
	if (status)
		return status < 0 ? 0 : status;
	return hd_main_run(&program.main, &agent_main, &o.common);
}
