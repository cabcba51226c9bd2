/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-controller: the controller core on a driver. */
#include "hd_controller.h"
#include "hd_journal.h"
#include "hd_keeper.h"
#include "hd_setup.h"
#include "hd_topology.h"
#include "heddle_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PROGRAM "heddle-controller"

struct options {
	struct hd_setup_options common; /* its `host` is --name */
	const char *topology, *state_dir, *journal;
	bool unscheduled;
	double theta, initial_mbps;
	uint32_t interval_us, detection_ms, replicate_every, horizon_us, journal_rows, journal_mb;
};

/* The parts of the running program. */
struct program {
	const struct options *options;
	struct hd_service service;
	struct hd_keyring keys;
	struct hd_journal *journal;
	struct hd_keeper *keeper;
	struct hd_controller *controller;
	struct hd_driver *driver;
	uint16_t epoch;
};

/* --- options --- */

static const struct hd_option option_table[] = {
	HD_SETUP_KEY_FILE,
	HD_SETUP_LISTEN("where to listen (0.0.0.0:4773)"),
	HD_OPTION_TEXT(
		"topology",
		"FILE",
		struct options,
		topology,
		"hosts, switches and links as JSON (a star of the hosts that register)"
	),
	HD_OPTION_TEXT(
		"state-dir",
		"DIR",
		struct options,
		state_dir,
		"keeps the epoch across restarts; without it a restart is a first start"
	),
	HD_OPTION_TEXT(
		"name",
		"NAME",
		struct options,
		common.host,
		"shown to peers and in the event log (controller)"
	),
	HD_OPTION_FLAG(
		"unscheduled",
		struct options,
		unscheduled,
		"register all nodes, but schedule no transfer: for comparison"
	),
	HD_OPTION_REAL(
		"theta",
		"X",
		struct options,
		theta,
		1e-6,
		1e9,
		"drop rule: an update that would delay the next one by more than X times\n"
		"its own time is dropped (off)"
	),
	HD_OPTION_U32(
		"interval-us",
		"N",
		struct options,
		interval_us,
		1,
		1000000,
		"plan at most this often while requests wait (1000)"
	),
	HD_OPTION_U32(
		"horizon-us",
		"N",
		struct options,
		horizon_us,
		0,
		10000000,
		"grant transfers that start within this time; 0: adaptive (0)"
	),
	HD_OPTION_U32(
		"lease-ms",
		"N",
		struct options,
		detection_ms,
		10,
		3600000,
		"declare a node dead when it is silent for this long (1000)"
	),
	HD_OPTION_U32(
		"replicate-every",
		"N",
		struct options,
		replicate_every,
		1,
		1000000000,
		"replicas get a state from their server after every N commits; without it\n"
		"every update, from the worker that pushed it"
	),
	HD_OPTION_REAL(
		"initial-mbps",
		"X",
		struct options,
		initial_mbps,
		0.001,
		1e7,
		"assumed capacity of a link before the first transfer on it (1000)"
	),
	HD_OPTION_TEXT(
		"journal",
		"FILE",
		struct options,
		journal,
		"keep a history of decisions and their results, in SQLite"
	),
	HD_OPTION_U32(
		"journal-rows",
		"N",
		struct options,
		journal_rows,
		100,
		1000000000,
		"keep at most N rows of each kind, the newest (1000000)"
	),
	HD_OPTION_U32(
		"journal-mb",
		"N",
		struct options,
		journal_mb,
		1,
		1000000,
		"limit the journal to N MiB (512)"
	),
	HD_SETUP_EVENTS("write events as JSON lines"),
	HD_SETUP_SERVICE,
	HD_SETUP_DRIVER,
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = PROGRAM,
	.usage = "usage: heddle-controller --key-file FILE [options]\n"
		 "\n"
		 "Decides when every transfer of the fabric runs.\n"
		 "\n",
	.table = option_table,
};

/* --- callbacks of the core --- */

static void gather(void *owner, struct hd_stats *stats) {
	struct program *program = owner;

	hd_service_gather(&program->service, stats);
	hd_journal_gather(program->journal, stats);
}

static void record(void *owner, const struct hd_record *r) {
	hd_journal_add(((struct program *)owner)->journal, r);
}

/* Called by the threads that write. */
static void log_written(struct program *program, const char *option, bool good, const char *text) {
	hd_log_write(
		&program->service.log,
		good ? HD_LOG_INFO : HD_LOG_ERROR,
		option,
		NULL,
		"--%s: %s",
		option,
		text
	);
}

static void log_journal(void *owner, bool good, const char *text) {
	log_written(owner, "journal", good, text);
}

static void keep(void *owner, char *text) {
	hd_keeper_put(((struct program *)owner)->keeper, text);
}

static void log_keeper(void *owner, bool good, const char *text) {
	log_written(owner, "state-dir", good, text);
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
	hd_command_words(command, words, sizeof words);
	hd_log_write(
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

static void visited(void *owner, const struct hd_event *event) {
	hd_log_event(&((struct program *)owner)->service.log, event);
}

static const struct hd_controller_ops controller_ops = {
	.gather = gather,
	.record = record,
	.commanded = commanded,
	.visited = visited,
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
	hd_controller_scrape(((struct program *)owner)->controller, stats);
}

static void on_woken(void *owner, hd_ns now, struct hd_sink *sink) {
	struct program *program = owner;

	(void)now;
	(void)sink;
	hd_service_woken(&program->service, fill, program);
}

/* --- running --- */

static int run(void *owner) {
	struct program *program = owner;
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
	const struct hd_setup_options *common = &program->options->common;
	struct hd_driver_config config = {
		.options = common->driver,
		.event = on_event,
		.woken = on_woken,
		.owner = program,
	};
	const struct hd_stat_group *groups[HD_STAT_VALUES_MAX];
	size_t count = 0;
	int status = hd_setup_driver(&program->service, common, &config, &program->driver);

	for (; hd_controller_groups[count]; count++)
		groups[count] = hd_controller_groups[count];
	groups[count] = &hd_journal_group;
	groups[count + 1] = NULL;
	if (status)
		return status;
	status = hd_setup_serve(&program->service, common, program->driver, groups, run, program);
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
		.report = log_journal,
		.owner = program,
	};
	char error[256];
	int status;

	if (o->journal) {
		status = hd_journal_open(&config, &program->journal, error, sizeof error);
		if (status)
			return hd_log_fail(
				o->common.log,
				status == -EPROTO ? EX_DATAERR : EX_CANTCREAT,
				"--journal: %s: %s",
				o->journal,
				error
			);
	}
	status = with_driver(program);
	if (hd_journal_close(program->journal) && !status)
		status = hd_log_fail(
			o->common.log,
			EX_IOERR,
			"--journal: %s: some records could not be written",
			o->journal
		);
	program->journal = NULL;
	return status;
}

static int with_keeper(struct program *program) {
	const struct options *o = program->options;
	const struct hd_keeper_config config = {
		.directory = o->state_dir,
		.name = HEDDLE_KEPT_NAME,
		.report = log_keeper,
		.owner = program,
	};
	int status = o->state_dir ? hd_keeper_open(&config, &program->keeper) : 0;

	if (status)
		return hd_log_fail(o->common.log, EX_OSERR, "--state-dir: %s", strerror(-status));
	status = with_journal(program);
	if (hd_keeper_close(program->keeper) && !status)
		status = hd_log_fail(
			o->common.log,
			EX_IOERR,
			"--state-dir: %s: the operators' settings could not be written",
			o->state_dir
		);
	program->keeper = NULL;
	return status;
}

static int restore(struct program *program, const char *kept) {
	const struct options *o = program->options;
	char error[512];
	int status;

	if (!kept)
		return 0;
	status = hd_controller_restore(program->controller, kept, error, sizeof error);
	if (status)
		return heddle_refuse_kept(o->common.log, o->state_dir, status, error);
	hd_log_write(
		o->common.log,
		HD_LOG_INFO,
		"state-dir",
		NULL,
		"restored the settings of operators (see show settings, show jobs)"
	);
	return 0;
}

static int with_controller(struct program *program) {
	const struct options *o = program->options;
	struct hd_controller_config config = {
		.name = o->common.host,
		.keys = &program->keys,
		.key_id = program->keys.keys[0].id,
		.initial_bps = o->initial_mbps * 1e6,
		.interval_us = o->interval_us,
		.detection_us = o->detection_ms * 1000,
		.horizon_us = o->horizon_us,
		.theta = o->theta,
		.replicate_every = o->replicate_every,
		.unscheduled = o->unscheduled,
		.ops = &controller_ops,
		.owner = program,
	};
	char *kept = NULL;
	int status = heddle_topology(o->common.log, o->topology, &config.topology);

	if (status)
		return status;
	status = heddle_take_state(o->common.log, o->state_dir);
	if (!status)
		status = heddle_next_epoch(o->common.log, o->state_dir, &config.epoch);
	if (!status)
		status = heddle_read_kept(o->common.log, o->state_dir, &kept);
	if (!status && hd_program_entropy(config.seed))
		status = hd_log_fail(o->common.log, EX_OSERR, "no entropy");
	if (!status && hd_controller_create(&config, &program->controller))
		status = hd_log_fail(
			o->common.log, EX_USAGE, "--name: '%s' (at most 64 bytes)", o->common.host
		);
	if (status) {
		free(kept);
		hd_topology_destroy(config.topology);
		return status;
	}
	program->epoch = config.epoch;
	status = restore(program, kept);
	free(kept);
	if (!status)
		status = with_keeper(program);
	hd_controller_destroy(program->controller);
	return status;
}

static int with_options(struct program *program) {
	const struct hd_setup_options *common = &program->options->common;
	int status = hd_setup_begin(&program->service, common, &program->keys);

	if (!status)
		status = with_controller(program);
	return hd_setup_end(&program->service, common, &program->keys, NULL, status);
}

int main(int argc, char **argv) {
	struct program program = {0};
	struct options o = {
		.common = {.listen = "0.0.0.0", .host = "controller"},
		.initial_mbps = 1000,
	};
	int status;

	program.options = &o;
	status = hd_setup_options(&command_line, argc, argv, &o, &program.service);
	if (status)
		return status < 0 ? 0 : status;
	return with_options(&program);
}
