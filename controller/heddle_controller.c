/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-controller: the controller core on a driver. */
#include "hd_controller.h"
#include "hd_journal.h"
#include "hd_keeper.h"
#include "hd_setup.h"
#include "hd_topology.h"
#include "heddle_files.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PROGRAM "heddle-controller"

struct options {
	struct hd_log *log; /* where errors go */
	const char *listen, *key_file, *topology, *state_dir, *events, *name, *journal;
	struct hd_driver_options driver;
	struct hd_service_options service;
	bool unscheduled;
	double theta, initial_mbps;
	uint32_t interval_us, lease_ms, replicate_every, horizon_us, journal_rows, journal_mb;
};

static const char usage_text[]
	= "usage: heddle-controller --key-file FILE [options]\n"
	  "\n"
	  "Decides when every transfer of the fabric runs.\n"
	  "\n"
	  "  --key-file FILE        keys of the cluster: lines of `<id> <64 hex digits>`\n"
	  "  --listen ADDR[:PORT]   where to listen (0.0.0.0:4773)\n"
	  "  --topology FILE        hosts, switches and links as JSON (a star of the hosts that register)\n"
	  "  --state-dir DIR        keeps the epoch across restarts; without it a restart is a first start\n"
	  "  --name NAME            shown to peers and in the event log (controller)\n"
	  "  --unscheduled          register everybody, schedule nobody: for comparison\n"
	  "  --theta X              drop rule: an update that would delay the next one by more than X times\n"
	  "                         its own time is dropped (off)\n"
	  "  --interval-us N        plan at most this often while requests wait (1000)\n"
	  "  --horizon-us N         grant what starts within this; 0: adaptive (0)\n"
	  "  --lease-ms N           within this time the others go on without a silent node (1000)\n"
	  "  --replicate-every N    replicas get a state from their server after every N commits; without it\n"
	  "                         every update, from the worker that pushed it\n"
	  "  --initial-mbps X       what a link is believed to carry before anything ran on it (1000)\n"
	  "  --journal FILE         keep what was decided and what came of it, in SQLite\n"
	  "  --journal-rows N       at most so many rows of each kind, the oldest go (1000000)\n"
	  "  --journal-mb N         at most so big (512)\n"
	  "  --events FILE          write what happens as JSON lines\n" HD_SERVICE_USAGE
		  HD_DRIVER_USAGE "  --help                 this text\n";

/* What belongs together while it runs. */
struct program {
	const struct options *options;
	struct hd_service service;
	struct hd_journal *journal;
	struct hd_keeper *keeper;
	struct hd_controller *controller;
	struct hd_driver *driver;
	uint16_t epoch;
};

/* --- options --- */

enum option_id {
	OPT_LISTEN = 256,
	OPT_KEY_FILE,
	OPT_TOPOLOGY,
	OPT_STATE_DIR,
	OPT_NAME,
	OPT_UNSCHEDULED,
	OPT_THETA,
	OPT_INTERVAL,
	OPT_HORIZON,
	OPT_LEASE,
	OPT_INITIAL,
	OPT_EVERY,
	OPT_EVENTS,
	OPT_JOURNAL,
	OPT_JOURNAL_ROWS,
	OPT_JOURNAL_MB,
	OPT_HELP
};

static const struct option long_options[] = {
	{"listen", required_argument, NULL, OPT_LISTEN},
	{"key-file", required_argument, NULL, OPT_KEY_FILE},
	{"topology", required_argument, NULL, OPT_TOPOLOGY},
	{"state-dir", required_argument, NULL, OPT_STATE_DIR},
	{"name", required_argument, NULL, OPT_NAME},
	{"unscheduled", no_argument, NULL, OPT_UNSCHEDULED},
	{"theta", required_argument, NULL, OPT_THETA},
	{"interval-us", required_argument, NULL, OPT_INTERVAL},
	{"horizon-us", required_argument, NULL, OPT_HORIZON},
	{"lease-ms", required_argument, NULL, OPT_LEASE},
	{"initial-mbps", required_argument, NULL, OPT_INITIAL},
	{"replicate-every", required_argument, NULL, OPT_EVERY},
	{"events", required_argument, NULL, OPT_EVENTS},
	{"journal", required_argument, NULL, OPT_JOURNAL},
	{"journal-rows", required_argument, NULL, OPT_JOURNAL_ROWS},
	{"journal-mb", required_argument, NULL, OPT_JOURNAL_MB},
	{"help", no_argument, NULL, OPT_HELP},
	HD_SERVICE_LONG_OPTIONS HD_DRIVER_LONG_OPTIONS{NULL, 0, NULL, 0},
};

static int take_option(struct options *o, int id, const char *value) {
	switch (id) {
	case OPT_LISTEN:
		o->listen = value;
		return 0;
	case OPT_KEY_FILE:
		o->key_file = value;
		return 0;
	case OPT_TOPOLOGY:
		o->topology = value;
		return 0;
	case OPT_STATE_DIR:
		o->state_dir = value;
		return 0;
	case OPT_NAME:
		o->name = value;
		return 0;
	case OPT_EVENTS:
		o->events = value;
		return 0;
	case OPT_UNSCHEDULED:
		o->unscheduled = true;
		return 0;
	case OPT_JOURNAL:
		o->journal = value;
		return 0;
	case OPT_JOURNAL_ROWS:
		return hd_setup_u32(
			o->log, "journal-rows", value, 100, 1000000000, &o->journal_rows
		);
	case OPT_JOURNAL_MB:
		return hd_setup_u32(o->log, "journal-mb", value, 1, 1000000, &o->journal_mb);
	case OPT_THETA:
		return hd_setup_real(o->log, "theta", value, 1e-6, 1e9, &o->theta);
	case OPT_EVERY:
		return hd_setup_u32(
			o->log, "replicate-every", value, 1, 1000000000, &o->replicate_every
		);
	case OPT_INITIAL:
		return hd_setup_real(o->log, "initial-mbps", value, 0.001, 1e7, &o->initial_mbps);
	case OPT_INTERVAL:
		return hd_setup_u32(o->log, "interval-us", value, 1, 1000000, &o->interval_us);
	case OPT_HORIZON:
		return hd_setup_u32(o->log, "horizon-us", value, 0, 10000000, &o->horizon_us);
	case OPT_LEASE:
		return hd_setup_u32(o->log, "lease-ms", value, 10, 3600000, &o->lease_ms);
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
		if (status)
			return status;
	}
	if (optind < argc)
		return hd_log_fail(o->log, EX_USAGE, "'%s': takes no arguments", argv[optind]);
	if (!o->key_file)
		return hd_log_fail(o->log, EX_USAGE, "--key-file: missing");
	return 0;
}

/* --- what the core is offered --- */

static void gather(void *owner, struct hd_stats *stats) {
	struct program *program = owner;

	hd_service_gather(&program->service, stats);
	hd_journal_gather(program->journal, stats);
}

static void record(void *owner, const struct hd_record *r) {
	hd_journal_add(((struct program *)owner)->journal, r);
}

/* From the journal's thread. */
static void say_journal(void *owner, bool good, const char *text) {
	hd_log_say(
		&((struct program *)owner)->service.log,
		good ? HD_LOG_INFO : HD_LOG_ERROR,
		"journal",
		NULL,
		"--journal: %s",
		text
	);
}

static void keep(void *owner, char *text) {
	hd_keeper_put(((struct program *)owner)->keeper, text);
}

/* From the keeper's thread. */
static void say_keeper(void *owner, bool good, const char *text) {
	hd_log_say(
		&((struct program *)owner)->service.log,
		good ? HD_LOG_INFO : HD_LOG_ERROR,
		"state-dir",
		NULL,
		"--state-dir: %s",
		text
	);
}

static const char *log_level(void *owner) {
	return hd_log_level_name(&((struct program *)owner)->service.log);
}

static int set_log_level(void *owner, const char *text) {
	return hd_log_set_level(&((struct program *)owner)->service.log, text);
}

static void commanded(
	void *owner,
	struct hd_addr from,
	const struct hd_msg_command *command,
	const struct hd_msg_done *done
) {
	struct program *program = owner;
	char address[HD_ADDR_TEXT_BYTES], words[HD_COMMAND_BYTES];

	hd_driver_print_addr(from, address);
	hd_command_words(command, words, sizeof(words));
	hd_log_say(
		&program->service.log,
		done->reason ? HD_LOG_WARNING : HD_LOG_INFO,
		"command",
		NULL,
		"%s: %s: %s",
		address,
		words,
		done->text
	);
}

static const struct hd_controller_ops controller_ops = {
	.gather = gather,
	.record = record,
	.commanded = commanded,
	.keep = keep,
	.log_level = log_level,
	.set_log_level = set_log_level,
};

static void on_event(void *owner, const struct hd_event *event) {
	struct program *program = owner;

	if (event->kind != HD_EVENT_COMMAND)
		hd_log_event(&program->service.log, event);
	hd_event_log_add(program->service.events, event);
}

static void fill(void *owner, struct hd_stats *stats) {
	hd_controller_stats(((struct program *)owner)->controller, stats);
}

static void on_woken(void *owner, hd_ns now, struct hd_sink *sink) {
	struct program *program = owner;

	(void)now;
	(void)sink;
	hd_service_woken(&program->service, fill, program);
}

/* --- running --- */

static int run(struct program *program) {
	struct hd_node node = {&hd_controller_ops, program->controller};
	struct hd_log *log = &program->service.log;
	char bound[HD_ADDR_TEXT_BYTES];
	int status = hd_setup_signals(log, program->driver);

	if (status)
		return status;
	hd_driver_print_addr(hd_driver_bound(program->driver), bound);
	(void)printf(PROGRAM ": listening on %s, epoch %u\n", bound, program->epoch);
	(void)fflush(stdout);
	status = hd_driver_run(program->driver, node);
	return status ? hd_log_fail(log, EX_OSERR, "%s", strerror(-status)) : 0;
}

static int with_driver(struct program *program) {
	const struct options *o = program->options;
	struct hd_driver_config config = {
		.options = o->driver,
		.event = on_event,
		.woken = on_woken,
		.owner = program,
	};
	const struct hd_stat_group *groups[HD_STAT_VALUES_MAX];
	size_t count = 0;
	int status = hd_setup_driver(o->log, o->listen, &config, &program->driver);

	while (hd_controller_groups[count]) {
		groups[count] = hd_controller_groups[count];
		count++;
	}
	groups[count] = &hd_journal_group;
	groups[count + 1] = NULL;
	if (status)
		return status;
	status = hd_setup_service(&program->service, program->driver, groups);
	if (!status)
		status = run(program);
	hd_service_stop(&program->service);
	hd_driver_close(program->driver);
	program->driver = program->service.driver = NULL;
	return status;
}

static int with_journal(struct program *program) {
	const struct options *o = program->options;
	struct hd_journal_config config = {
		.path = o->journal,
		.epoch = program->epoch,
		.rows_max = o->journal_rows,
		.bytes_max = (uint64_t)o->journal_mb << 20,
		.say = say_journal,
		.owner = program,
	};
	char error[256];
	int status;

	if (o->journal) {
		status = hd_journal_open(&config, &program->journal, error, sizeof(error));
		if (status)
			return hd_log_fail(
				o->log,
				status == -EPROTO ? EX_DATAERR : EX_CANTCREAT,
				"--journal: %s: %s",
				o->journal,
				error
			);
	}
	status = with_driver(program);
	if (hd_journal_close(program->journal) && !status)
		status = hd_log_fail(
			o->log, EX_IOERR, "--journal: %s: not all could be written", o->journal
		);
	program->journal = NULL;
	return status;
}

static int with_keeper(struct program *program) {
	const struct options *o = program->options;
	const struct hd_keeper_config config = {
		.directory = o->state_dir,
		.name = HEDDLE_KEPT_NAME,
		.say = say_keeper,
		.owner = program,
	};
	int status = o->state_dir ? hd_keeper_open(&config, &program->keeper) : 0;

	if (status)
		return hd_log_fail(o->log, EX_OSERR, "--state-dir: %s", strerror(-status));
	status = with_journal(program);
	if (hd_keeper_close(program->keeper) && !status)
		status = hd_log_fail(
			o->log,
			EX_IOERR,
			"--state-dir: %s: what operators set could not be written",
			o->state_dir
		);
	program->keeper = NULL;
	return status;
}

static int with_log(struct program *program) {
	const struct options *o = program->options;
	int status = hd_setup_events(&program->service, o->events, o->name);

	if (!status)
		status = with_keeper(program);
	return hd_setup_end_events(&program->service, o->events, status);
}

static int restore(struct program *program, const char *kept) {
	const struct options *o = program->options;
	char error[512];
	int status;

	if (!kept)
		return 0;
	status = hd_controller_restore(program->controller, kept, error, sizeof(error));
	if (status)
		return heddle_refuse_kept(o->log, o->state_dir, status, error);
	hd_log_say(
		o->log,
		HD_LOG_INFO,
		"state-dir",
		NULL,
		"what operators set in former lives holds (show settings, show jobs)"
	);
	return 0;
}

static int with_keys(struct program *program, const struct hd_keyring *keys) {
	const struct options *o = program->options;
	struct hd_controller_config config = {
		.name = o->name,
		.keys = keys,
		.key_id = keys->keys[0].id,
		.initial_bps = o->initial_mbps * 1e6,
		.interval_us = o->interval_us,
		.lease_us = o->lease_ms * 1000,
		.horizon_us = o->horizon_us,
		.theta = o->theta,
		.replicate_every = o->replicate_every,
		.unscheduled = o->unscheduled,
		.ops = &controller_ops,
		.owner = program,
	};
	char *kept = NULL;
	int status = heddle_topology(o->log, o->topology, &config.topology);

	if (status)
		return status;
	status = heddle_next_epoch(o->log, o->state_dir, &config.epoch);
	if (!status)
		status = heddle_read_kept(o->log, o->state_dir, &kept);
	if (!status && hd_program_entropy(config.seed))
		status = hd_log_fail(o->log, EX_OSERR, "no entropy");
	if (!status && hd_controller_create(&config, &program->controller))
		status = hd_log_fail(o->log, EX_USAGE, "--name: '%s' (at most 64 bytes)", o->name);
	if (status) {
		free(kept);
		hd_topology_destroy(config.topology);
		return status;
	}
	program->epoch = config.epoch;
	status = restore(program, kept);
	free(kept);
	if (!status)
		status = with_log(program);
	hd_controller_destroy(program->controller);
	return status;
}

int main(int argc, char **argv) {
	struct program program = {0};
	struct options o = {
		.log = &program.service.log,
		.listen = "0.0.0.0",
		.name = "controller",
		.initial_mbps = 1000,
	};
	struct hd_keyring keys;
	int status;

	program.options = &o;
	hd_log_init(o.log, PROGRAM, "");
	status = parse_options(argc, argv, &o);
	if (status)
		return status < 0 ? 0 : status;
	status = hd_setup_log(&program.service, PROGRAM, o.name, &o.service);
	if (!status)
		status = hd_setup_keys(o.log, o.key_file, &keys);
	if (status)
		return status;
	status = with_keys(&program, &keys);
	hd_keyring_fini(&keys);
	return status;
}
