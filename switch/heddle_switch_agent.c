/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-switch-agent: the agent of a switch that another program carries, told by a child what its leases are. */
#include "hd_limits.h"
#include "hd_message.h"
#include "hd_setup.h"
#include "hd_switch_bridge.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define PROGRAM "heddle-switch-agent"
#define SLOTS 256 /* each is cleared by a command of its own */

struct options {
	struct hd_log *log; /* where errors go */
	const char *listen, *controller, *host, *key_file, *events, *bridge;
	struct hd_driver_options driver;
	struct hd_service_options service;
	uint32_t slots;
};

struct program {
	struct hd_service service;
	struct hd_switch_agent *agent;
	struct hd_switch_bridge *bridge;
	struct hd_driver *driver;
	bool draining;
};

static const char usage_text[]
	= "usage: heddle-switch-agent --bridge COMMAND --listen ADDR --key-file FILE --controller ADDR[:PORT] [options]\n"
	  "\n"
	  "Has a switch with the P4 program (bmv2) add up what jobs with a lease of its slots send. The command programs\n"
	  "the switch, told what by lines of JSON (docs/switch.md).\n"
	  "Prints `ready ADDR:PORT` when the switch forwards and it listens.\n"
	  "\n"
	  "  --bridge COMMAND       for a shell; ends when its input does: testbed/lab/bmv2_bridge.py FILE\n"
	  "  --listen ADDR[:PORT]   the service address: chunks for it are the switch's, all else is the agent's\n"
	  "  --key-file FILE        keys of the cluster: lines of `<id> <64 hex digits>`\n"
	  "  --controller ADDR[:PORT]  who leases slots\n"
	  "  --host NAME            the switch's name in the topology (its host name)\n"
	  "  --slots N              of all leases (256)\n"
	  "  --events FILE          write what happens to leases as JSON lines\n" HD_SERVICE_USAGE
		  HD_DRIVER_USAGE "  --help                 this text\n";

/* --- options --------------------------------------------------------------------------------- */

enum option_id {
	OPT_LISTEN = 256,
	OPT_CONTROLLER,
	OPT_HOST,
	OPT_KEY_FILE,
	OPT_BRIDGE,
	OPT_SLOTS,
	OPT_EVENTS,
	OPT_HELP
};

static const struct option long_options[] = {
	{"listen", required_argument, NULL, OPT_LISTEN},
	{"controller", required_argument, NULL, OPT_CONTROLLER},
	{"host", required_argument, NULL, OPT_HOST},
	{"key-file", required_argument, NULL, OPT_KEY_FILE},
	{"bridge", required_argument, NULL, OPT_BRIDGE},
	{"slots", required_argument, NULL, OPT_SLOTS},
	{"events", required_argument, NULL, OPT_EVENTS},
	{"help", no_argument, NULL, OPT_HELP},
	HD_SERVICE_LONG_OPTIONS HD_DRIVER_LONG_OPTIONS{NULL, 0, NULL, 0},
};

static int take_option(struct options *o, int id, const char *value) {
	switch (id) {
	case OPT_LISTEN:
		o->listen = value;
		return 0;
	case OPT_CONTROLLER:
		o->controller = value;
		return 0;
	case OPT_HOST:
		o->host = value;
		return 0;
	case OPT_KEY_FILE:
		o->key_file = value;
		return 0;
	case OPT_BRIDGE:
		o->bridge = value;
		return 0;
	case OPT_EVENTS:
		o->events = value;
		return 0;
	case OPT_SLOTS:
		return hd_setup_u32(o->log, "slots", value, 1, HD_SWITCH_SLOTS, &o->slots);
	default:
		/* getopt has said why */
		return hd_driver_take_option(&o->driver, id, value)
				|| hd_service_take_option(&o->service, id, value) ?
			0 :
			EX_USAGE;
	}
}

static int check_options(const struct options *o) {
	if (o->key_file == NULL)
		return hd_log_fail(o->log, EX_USAGE, "--key-file: missing");
	if (o->controller == NULL)
		return hd_log_fail(o->log, EX_USAGE, "--controller: missing");
	if (o->bridge == NULL)
		return hd_log_fail(o->log, EX_USAGE, "--bridge: missing");
	if (o->listen == NULL)
		return hd_log_fail(o->log, EX_USAGE, "--listen: missing");
	if (strlen(o->host) == 0 || strlen(o->host) > HD_NAME_BYTES_MAX)
		return hd_log_fail(o->log, EX_USAGE, "--host: '%s' (1 to 64 bytes)", o->host);
	return 0;
}

/* 0, or -1 after --help, or an exit code. */
static int parse_options(int argc, char **argv, struct options *o) {
	int id, status;

	while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (id == OPT_HELP) {
			(void)fputs(usage_text, stdout);
			return -1;
		}
		status = take_option(o, id, optarg);
		if (status != 0)
			return status;
	}
	if (optind < argc)
		return hd_log_fail(o->log, EX_USAGE, "'%s': takes no arguments", argv[optind]);
	return check_options(o);
}

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

static int run(struct program *program) {
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

static int
make_agent(struct program *program, const struct options *o, const struct hd_keyring *keys) {
	struct hd_addr bound = hd_driver_bound(program->driver);
	struct hd_switch_agent_config config = {
		.name = o->host,
		.host = o->host,
		.keys = keys,
		.key_id = keys->keys[0].id,
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
			o->log, EX_USAGE, "--listen: '%s' (the service address)", o->listen
		);
	code = hd_setup_controller(o->log, o->controller, &config.controller);
	if (code != 0)
		return code;
	if (hd_program_entropy(config.seed) < 0)
		return hd_log_fail(o->log, EX_OSERR, "no entropy");
	code = hd_switch_agent_create(&config, &program->agent);
	return code < 0 ? hd_log_fail(o->log, EX_OSERR, "agent: %s", strerror(-code)) : 0;
}

static int open_bridge(struct program *program, const struct options *o) {
	char error[HD_TEXT_BYTES_MAX] = "";

	if (hd_switch_bridge_open(o->bridge, &program->bridge, error, sizeof(error)) == 0)
		return 0;
	return hd_log_fail(o->log, EX_UNAVAILABLE, "--bridge: %s", error);
}

static int serve(struct program *program) {
	int status = hd_setup_service(&program->service, program->driver, hd_switch_agent_groups);

	if (status == 0)
		status = run(program);
	hd_service_stop(&program->service);
	return status;
}

static int
with_keys(struct program *program, const struct options *o, const struct hd_keyring *keys) {
	struct hd_driver_config driver = {
		.options = o->driver,
		.event = on_event,
		.woken = on_woken,
		.owner = program,
	};
	int status = hd_setup_events(&program->service, o->events, o->host);

	if (status != 0)
		return status;
	status = open_bridge(program, o);
	if (status == 0)
		status = hd_setup_driver(o->log, o->listen, &driver, &program->driver);
	if (status == 0)
		status = make_agent(program, o, keys);
	if (status == 0)
		status = serve(program);
	hd_switch_agent_destroy(program->agent);
	if (program->driver)
		hd_driver_close(program->driver);
	hd_switch_bridge_close(program->bridge);
	return hd_setup_end_events(&program->service, o->events, status);
}

int main(int argc, char **argv) {
	static struct program program;
	static char host[HD_NAME_BYTES_MAX + 1] = "switch";
	struct options o = {.log = &program.service.log, .host = host, .slots = SLOTS};
	struct hd_keyring keys;
	int status;

	(void)gethostname(host, sizeof(host) - 1);
	hd_log_init(o.log, PROGRAM, "");
	status = parse_options(argc, argv, &o);
	if (status != 0)
		return status < 0 ? 0 : status;
	status = hd_setup_log(&program.service, PROGRAM, o.host, &o.service);
	if (status == 0)
		status = hd_setup_keys(o.log, o.key_file, &keys);
	if (status != 0)
		return status;
	status = with_keys(&program, &o, &keys);
	hd_keyring_fini(&keys);
	return status;
}
