/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-aggregator: the aggregator's core on a driver. */
#include "hd_aggregator.h"
#include "hd_message.h"
#include "hd_setup.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define PROGRAM "heddle-aggregator"

struct options {
	struct hd_log *log; /* where errors go */
	const char *listen, *controller, *host, *key_file, *events;
	struct hd_driver_options driver;
	struct hd_service_options service;
	uint64_t memory, early, hold_us;
};

struct program {
	struct hd_service service;
	struct hd_aggregator *aggregator;
	struct hd_driver *driver;
	bool draining;
};

static const char usage_text[]
	= "usage: heddle-aggregator --key-file FILE --controller ADDR[:PORT] [options]\n"
	  "\n"
	  "Adds updates up on their way to the server, relays models, adds up all-reduces: as the controller says.\n"
	  "Prints `ready ADDR:PORT` when it listens.\n"
	  "\n"
	  "  --key-file FILE        keys of the cluster: lines of `<id> <64 hex digits>`\n"
	  "  --controller ADDR[:PORT]  who makes the groups\n"
	  "  --listen ADDR[:PORT]   where to listen (0.0.0.0:4773); port 0: any free one\n"
	  "  --host NAME            this host's name in the topology (its host name)\n"
	  "  --memory BYTES         for sums and what belongs to them; K, M, G (1G)\n"
	  "  --early BYTES          of one ranked sum: what is kept before its turn; K, M, G (16M)\n"
	  "  --hold-us N            how long a member may be silent while others wait (500000)\n"
	  "  --events FILE          write what happens as JSON lines\n" HD_SERVICE_USAGE
		  HD_DRIVER_USAGE "  --help                 this text\n";

/* --- options --------------------------------------------------------------------------------- */

enum option_id {
	OPT_LISTEN = 256,
	OPT_CONTROLLER,
	OPT_HOST,
	OPT_KEY_FILE,
	OPT_MEMORY,
	OPT_EARLY,
	OPT_HOLD,
	OPT_EVENTS,
	OPT_HELP
};

static const struct option long_options[] = {
	{"listen", required_argument, NULL, OPT_LISTEN},
	{"controller", required_argument, NULL, OPT_CONTROLLER},
	{"host", required_argument, NULL, OPT_HOST},
	{"key-file", required_argument, NULL, OPT_KEY_FILE},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"early", required_argument, NULL, OPT_EARLY},
	{"hold-us", required_argument, NULL, OPT_HOLD},
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
	case OPT_EVENTS:
		o->events = value;
		return 0;
	case OPT_MEMORY:
		return hd_setup_bytes(o->log, "memory", value, HD_MODEL_BYTES_MAX, &o->memory);
	case OPT_EARLY:
		return hd_setup_bytes(o->log, "early", value, HD_MODEL_BYTES_MAX, &o->early);
	case OPT_HOLD:
		return hd_setup_whole(o->log, "hold-us", value, 1, 3600000000U, &o->hold_us);
	default:
		/* getopt has said why */
		return hd_driver_take_option(&o->driver, id, value)
				|| hd_service_take_option(&o->service, id, value) ?
			0 :
			EX_USAGE;
	}
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
		if (status != 0) {
			return status;
		}
	}
	if (optind < argc) {
		return hd_log_fail(o->log, EX_USAGE, "'%s': takes no arguments", argv[optind]);
	}
	if (o->key_file == NULL) {
		return hd_log_fail(o->log, EX_USAGE, "--key-file: missing");
	}
	if (o->controller == NULL) {
		return hd_log_fail(
			o->log, EX_USAGE, "--controller: missing (without one there are no groups)"
		);
	}
	if (strlen(o->host) == 0 || strlen(o->host) > HD_NAME_BYTES_MAX) {
		return hd_log_fail(o->log, EX_USAGE, "--host: '%s' (1 to 64 bytes)", o->host);
	}
	return 0;
}

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

static int run(struct program *program) {
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

static int make_aggregator(
	struct program *program,
	const struct options *o,
	struct hd_aggregator_config *config
) {
	struct hd_addr bound = hd_driver_bound(program->driver);
	int rc;

	config->name = o->host;
	config->host = o->host;
	config->memory_bytes = o->memory;
	config->early_bytes = o->early;
	config->hold_us = (uint32_t)o->hold_us;
	config->receive_window_bytes = hd_driver_receive_window(program->driver);
	config->ops = &core_ops;
	config->owner = program;
	/* Bound to any address: peers take the one that they reach us at. */
	config->data = bound.ipv4 != 0 ? bound : (struct hd_addr){0};
	rc = hd_setup_controller(o->log, o->controller, &config->controller);
	if (rc != 0) {
		return rc;
	}
	if (hd_program_entropy(config->seed) < 0) {
		return hd_log_fail(o->log, EX_OSERR, "no entropy");
	}
	rc = hd_aggregator_create(config, &program->aggregator);
	return rc < 0 ? hd_log_fail(o->log, EX_OSERR, "aggregator: %s", strerror(-rc)) : 0;
}

static int serve(struct program *program) {
	int status = hd_setup_service(&program->service, program->driver, hd_aggregator_groups);

	if (status == 0) {
		status = run(program);
	}
	hd_service_stop(&program->service);
	return status;
}

static int
with_keys(struct program *program, const struct options *o, const struct hd_keyring *keys) {
	struct hd_aggregator_config config = {.keys = keys, .key_id = keys->keys[0].id};
	struct hd_driver_config driver = {
		.options = o->driver,
		.event = on_event,
		.woken = on_woken,
		.owner = program,
	};
	int status = hd_setup_events(&program->service, o->events, o->host);

	if (status != 0) {
		return status;
	}
	status = hd_setup_driver(o->log, o->listen, &driver, &program->driver);
	if (status == 0) {
		status = make_aggregator(program, o, &config);
	}
	if (status == 0) {
		status = serve(program);
	}
	hd_aggregator_destroy(program->aggregator);
	hd_driver_close(program->driver);
	return hd_setup_end_events(&program->service, o->events, status);
}

int main(int argc, char **argv) {
	char host[HD_NAME_BYTES_MAX + 1] = "aggregator";
	struct program program = {0};
	struct options o = {
		.log = &program.service.log,
		.listen = "0.0.0.0",
		.host = host,
		.memory = UINT64_C(1) << 30,
		.hold_us = HD_HOLD_US,
	};
	struct hd_keyring keys;
	int status;

	(void)gethostname(host, sizeof(host) - 1);
	hd_log_init(o.log, PROGRAM, "");
	status = parse_options(argc, argv, &o);
	if (status != 0) {
		return status < 0 ? 0 : status;
	}
	status = hd_setup_log(&program.service, PROGRAM, o.host, &o.service);
	if (status == 0) {
		status = hd_setup_keys(o.log, o.key_file, &keys);
	}
	if (status != 0) {
		return status;
	}
	status = with_keys(&program, &o, &keys);
	hd_keyring_fini(&keys);
	return status;
}
