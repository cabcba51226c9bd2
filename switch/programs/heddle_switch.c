/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-switch: ports, an executor of the switch on the path between them, and its agent or file. */
#include "hd_limits.h"
#include "hd_static.h"
#include "hd_switch_agent.h"
#include "hd_switch_thread.h"
#include "hd_swx.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define PROGRAM "heddle-switch"
#define LEARN_SECONDS 300
#define LEARN_SECONDS_MAX 86400
#define MEMORY_MAX (UINT64_C(1) << 40)
#define LANES_MAX (HD_CHUNK_BYTES_MAX / 4)
#define ERROR_BYTES 512

struct options {
	struct hd_setup_options common;
	struct hd_switch_link links[HD_SWITCH_PORTS_MAX];
	uint32_t link_count;
	const char *executor, *spec, *service_address, *fixed, *eal, *mac, *router_mac;
	uint64_t memory;
	uint32_t learn_s;
	bool busy_poll, json;
};

struct program {
	struct hd_service service;
	struct hd_ports *ports;
	struct hd_switch_executor executor;
	struct hd_switch_thread *agent; /* NULL: without a controller */
	struct options options;
};

/* --- options --------------------------------------------------------------------------------- */

static int take_port(void *values, const char *text) {
	struct options *o = values;
	char error[ERROR_BYTES];

	if (o->link_count == HD_SWITCH_PORTS_MAX)
		return hd_log_fail(
			o->common.log, EX_USAGE, "--port: more than %d", HD_SWITCH_PORTS_MAX
		);
	if (hd_switch_link_read(text, &o->links[o->link_count], error, sizeof error) < 0)
		return hd_log_fail(o->common.log, EX_USAGE, "--%s", error);
	o->link_count++;
	return 0;
}

static const struct hd_option option_table[] = {
	HD_OPTION_TAKE(
		"port",
		"DEVARGS",
		take_port,
		"a port, in EAL's syntax: net_af_packet0,iface=s1-eth1 (ports are 0, 1, ... in order);\n"
		"of its link: rate=MBIT, queue=KB (1024), ecn=KB (no marks), burst=KB"
	),
	HD_OPTION_TEXT(
		"service",
		"ADDR",
		struct options,
		service_address,
		"address of the switch's agent: chunks for it are taken in the path"
	),
	HD_OPTION_TEXT(
		"mac",
		"MAC",
		struct options,
		mac,
		"source of results (the MAC of the first port)"
	),
	HD_OPTION_TEXT(
		"router-mac",
		"MAC",
		struct options,
		router_mac,
		"IPv4 to this station is routed (none is)"
	),
	HD_OPTION_TEXT(
		"executor",
		"NAME",
		struct options,
		executor,
		"native (C, any chunk) or swx (the P4 program on DPDK's pipeline) (native)"
	),
	HD_OPTION_TEXT(
		"spec",
		"FILE",
		struct options,
		spec,
		"swx: the compiled program, .spec or .so (p4/native: 4 to 5 times as fast)"
	),
	HD_OPTION_BYTES(
		"memory",
		struct options,
		memory,
		MEMORY_MAX,
		"native: for leases' sums; K, M, G (256M)"
	),
	HD_OPTION_U32(
		"learn",
		"SECONDS",
		struct options,
		learn_s,
		0,
		LEARN_SECONDS_MAX,
		"native: how long a silent station is remembered, 0: learn none (300)"
	),
	HD_SETUP_CONTROLLER("the controller that leases slots (none)"),
	HD_OPTION_TEXT(
		"key-file",
		"FILE",
		struct options,
		common.key_file,
		"keys of the cluster; with a controller"
	),
	HD_SETUP_HOST("this switch's name in the topology (its host name)"),
	HD_SETUP_LISTEN("where the agent's socket is (the service address)"),
	HD_SETUP_EVENTS("write events of leases as JSON lines"),
	HD_OPTION_TEXT(
		"static",
		"FILE",
		struct options,
		fixed,
		"stations, routes, leases, loss: JSON (docs/switch.md)"
	),
	HD_OPTION_TEXT("eal", "ARGS", struct options, eal, "further EAL arguments, between blanks"),
	HD_OPTION_FLAG(
		"busy-poll",
		struct options,
		busy_poll,
		"never sleep: for a core of its own"
	),
	HD_OPTION_FLAG("json", struct options, json, "print its counters as JSON at the end"),
	HD_SETUP_SERVICE,
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = PROGRAM,
	.usage
	= "usage: heddle-switch --service ADDR --port DEVARGS [--port DEVARGS ...] [options]\n"
	  "\n"
	  "Forwards frames between its ports, and adds the chunks of jobs that have leased its slots.\n"
	  "Prints `ready` and the number of ports when frames pass.\n"
	  "\n",
	.table = option_table,
};

static int check_options(const struct options *o) {
	bool swx = strcmp(o->executor, "swx") == 0;
	struct hd_log *log = o->common.log;

	if (o->link_count == 0)
		return hd_log_fail(log, EX_USAGE, "--port: missing");
	if (!o->service_address)
		return hd_log_fail(log, EX_USAGE, "--service: missing");
	if (!swx && strcmp(o->executor, "native") != 0)
		return hd_log_fail(log, EX_USAGE, "--executor: '%s' (native or swx)", o->executor);
	if (swx && !o->spec)
		return hd_log_fail(log, EX_USAGE, "--spec: missing (with --executor swx)");
	if (o->common.controller && !o->common.key_file)
		return hd_log_fail(log, EX_USAGE, "--key-file: missing (with --controller)");
	return 0;
}

/* --- numbers --------------------------------------------------------------------------------- */

/* On the ports' loop. */
static void fill(void *owner, struct hd_stats *stats) {
	struct program *program = owner;
	uint64_t counters[HD_SWITCH_COUNTER_COUNT];

	program->executor.ops->counters(program->executor.self, counters);
	hd_stats_add(stats, &hd_switch_counter_group, NULL, counters);
	hd_ports_gather(program->ports, &program->executor, stats);
	hd_service_gather(&program->service, stats);
}

static json_t *row_object(const struct hd_stats_row *row) {
	json_t *object = json_object();

	for (int i = 0; i < HD_STAT_LABELS_MAX && row->group->label[i]; i++)
		json_object_set_new(object, row->group->label[i], json_string(row->label[i]));
	for (uint16_t i = 0; i < row->group->count; i++) {
		const struct hd_stat *stat = &row->group->stats[i];

		json_object_set_new(
			object,
			stat->name,
			stat->type == HD_STAT_U64 ? json_integer((json_int_t)row->value[i].u64) :
						    json_real(row->value[i].f64)
		);
	}
	return object;
}

/* One line: {"port": [{...}, ...], "switch": [{...}], ...} */
static void print_numbers(struct program *program) {
	struct hd_stats *stats = hd_stats_create();
	json_t *all = json_object();

	if (stats)
		fill(program, stats);
	for (size_t i = 0; stats && i < hd_stats_count(stats); i++) {
		struct hd_stats_row row = hd_stats_row(stats, i);

		if (!json_object_get(all, row.group->name))
			json_object_set_new(all, row.group->name, json_array());
		json_array_append_new(json_object_get(all, row.group->name), row_object(&row));
	}
	(void)json_dumpf(all, stdout, JSON_COMPACT);
	(void)fputc('\n', stdout);
	json_decref(all);
	hd_stats_destroy(stats);
}

/* --- running --------------------------------------------------------------------------------- */

static void wake(void *ports) {
	hd_ports_wake(ports);
}

/* Runs in a signal handler. An agent sends its last messages while frames still pass. */
static void stop(void *owner) {
	struct program *program = owner;

	if (program->agent)
		hd_switch_thread_stop(program->agent);
	else
		hd_ports_stop(program->ports);
}

static void on_woken(void *owner, hd_ns now) {
	struct program *program = owner;

	(void)now;
	/* An agent serves its readers on its own loop, and calls this one for it. */
	if (!program->agent)
		hd_service_woken(&program->service, fill, program);
}

static int run(struct program *program) {
	struct hd_log *log = &program->service.log;
	int code = hd_program_stop_by(stop, program);

	if (code < 0)
		return hd_log_fail(log, EX_OSERR, "signals: %s", strerror(-code));
	(void)printf("ready %u\n", hd_ports_count(program->ports));
	if (fflush(stdout))
		return hd_log_fail(log, EX_IOERR, "standard output: %s", strerror(errno));
	code = hd_ports_run(program->ports);
	return code < 0 ? hd_log_fail(log, EX_OSERR, "%s", strerror(-code)) : 0;
}

static int serve(struct program *program) {
	static const struct hd_stat_group *groups[8] = {&hd_switch_counter_group};
	const struct hd_service_loop loop = {.wake = wake, .owner = program->ports, .eal = true};
	int status;

	for (size_t i = 0; hd_ports_groups[i] && i + 2 < sizeof groups / sizeof groups[0]; i++)
		groups[i + 1] = hd_ports_groups[i];
	status = hd_setup_service_loop(&program->service, &loop, groups);
	if (status == 0)
		status = run(program);
	hd_service_stop(&program->service);
	return status;
}

static int serve_with_agent(struct program *program, const struct hd_keyring *keys) {
	const struct options *o = &program->options;
	const bool any = strcmp(o->executor, "native") == 0;
	const uint32_t lanes
		= (hd_ports_mtu(program->ports) - 20 - 8 - HD_SWITCH_CHUNK_HEADER_BYTES) / 4;
	const struct hd_switch_thread_config config = {
		.ports = program->ports,
		.executor = &program->executor,
		.service = &program->service,
		.setup = &o->common,
		.keys = keys,
		.count_min = any ? 1 : HD_SWITCH_LANES,
		.count_max
		= any ? (uint16_t)(lanes < LANES_MAX ? lanes : LANES_MAX) : HD_SWITCH_LANES,
		.dtypes = (uint16_t)(1u << HD_DTYPE_FIXED32 | (any ? 1u << HD_DTYPE_FP32 : 0)),
	};
	int status = hd_switch_thread_start(&config, &program->agent), ended;

	if (status)
		return status;
	status = run(program);
	hd_switch_thread_stop(program->agent);
	ended = hd_switch_thread_join(program->agent);
	program->agent = NULL;
	return status ? status : ended;
}

static int with_agent(struct program *program) {
	struct hd_setup_options *common = &program->options.common;
	struct hd_keyring keys;
	int status;

	if (!common->listen)
		common->listen = program->options.service_address;
	status = hd_setup_begin(&program->service, common, &keys);
	if (status == 0)
		status = serve_with_agent(program, &keys);
	return hd_setup_end(&program->service, common, &keys, NULL, status);
}

/* --- start ----------------------------------------------------------------------------------- */

static int make_native(struct program *program, char *error) {
	const struct options *o = &program->options;
	struct hd_switch_core_config config = {
		.self = *hd_ports_self(program->ports),
		.memory_bytes = o->memory,
	};
	uint8_t seed[32];

	if (hd_program_entropy(seed) < 0) {
		(void)snprintf(error, ERROR_BYTES, "no entropy");
		return -EIO;
	}
	memcpy(config.hash_key, seed, sizeof config.hash_key);
	return hd_switch_native(&config, &program->executor, error, ERROR_BYTES);
}

static int make_executor(struct program *program) {
	const struct options *o = &program->options;
	bool swx = strcmp(o->executor, "swx") == 0;
	char error[ERROR_BYTES] = "";
	int code;

	if (swx)
		code = hd_swx_open(
			o->spec,
			"heddle",
			hd_ports_self(program->ports),
			&program->executor,
			error,
			sizeof error
		);
	else
		code = make_native(program, error);
	if (code < 0)
		return hd_log_fail(
			o->common.log,
			code == -EINVAL && swx ? EX_DATAERR : EX_UNAVAILABLE,
			"--%s",
			error
		);
	if (program->executor.ops->learn)
		program->executor.ops->learn(program->executor.self, o->learn_s * HD_SECOND);
	hd_ports_set_executor(program->ports, &program->executor);
	return 0;
}

static int load_static(struct program *program) {
	const struct options *o = &program->options;
	struct hd_switch_stations *known = hd_ports_stations(program->ports);
	char words[ERROR_BYTES] = "";

	if (!o->fixed
	    || hd_static_load(o->fixed, &program->executor, known, words, sizeof words) == 0)
		return 0;
	return hd_log_fail(o->common.log, EX_DATAERR, "--static: %s: %s", o->fixed, words);
}

static int read_self(const struct options *o, struct hd_switch_self *self) {
	struct hd_addr address;
	int code = hd_driver_resolve_own(o->service_address, &address);
	const char *words = code < 0 ? hd_driver_resolve_error(code) :
				       "must be an address of this switch, not 0.0.0.0";

	*self = (struct hd_switch_self){.udp_port = HD_SWITCH_UDP_PORT};
	if (code < 0 || address.ipv4 == 0)
		return hd_log_fail(
			o->common.log, EX_USAGE, "--service: '%s': %s", o->service_address, words
		);
	self->ipv4 = address.ipv4;
	if (o->mac && hd_static_mac(o->mac, self->mac) < 0)
		return hd_log_fail(
			o->common.log, EX_USAGE, "--mac: '%s' (as in 02:00:00:00:00:01)", o->mac
		);
	if (o->router_mac && hd_static_mac(o->router_mac, self->router_mac) < 0)
		return hd_log_fail(
			o->common.log,
			EX_USAGE,
			"--router-mac: '%s' (as in 02:00:00:00:00:01)",
			o->router_mac
		);
	return 0;
}

static int open_ports(struct program *program) {
	const struct options *o = &program->options;
	char error[ERROR_BYTES], prefix[64];
	struct hd_ports_config config = {
		.links = o->links,
		.count = o->link_count,
		.eal = o->eal,
		.prefix = prefix,
		.busy_poll = o->busy_poll,
		.woken = on_woken,
		.owner = program,
	};
	int status = read_self(o, &config.self);

	if (status)
		return status;
	(void)snprintf(prefix, sizeof prefix, "heddle-switch-%s", o->service_address);
	if (hd_ports_open(&config, &program->ports, error, sizeof error) == 0)
		return 0;
	return hd_log_fail(o->common.log, EX_UNAVAILABLE, "--%s", error);
}

static int with_ports(struct program *program) {
	int status = make_executor(program);

	if (status == 0)
		status = load_static(program);
	if (status == 0)
		status = program->options.common.controller ? with_agent(program) : serve(program);
	if (program->executor.ops && program->options.json)
		print_numbers(program);
	if (program->executor.ops)
		program->executor.ops->destroy(program->executor.self);
	return status;
}

int main(int argc, char **argv) {
	static struct program program;
	static char host[HD_NAME_BYTES_MAX + 1] = "switch";
	struct options *o = &program.options;
	int status;

	(void)gethostname(host, sizeof host - 1);
	o->common.host = host;
	o->executor = "native";
	o->memory = UINT64_C(256) << 20;
	o->learn_s = LEARN_SECONDS;
	status = hd_setup_options(&command_line, argc, argv, o, &program.service);
	if (status == 0)
		status = check_options(o);
	if (status == 0)
		status = open_ports(&program);
	if (status)
		return status < 0 ? 0 : status;
	status = with_ports(&program);
	hd_ports_close(program.ports);
	return status;
}
