/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-server: the parameter server's core on a driver. */
#include "hd_checkpoint_file.h"
#include "hd_checkpoint_writer.h"
#include "hd_job_summary.h"
#include "hd_main.h"
#include "hd_message.h"
#include "hd_server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#define PROGRAM "heddle-server"
#define DRAIN_LIMIT (30 * HD_SECOND) /* for the last checkpoints after a signal */

struct options {
	struct hd_setup_options common;
	const char *directory, *reports;
	bool replica, never_alone;
	uint64_t memory;
	uint32_t commits, hold_us, chunk_bytes;
};

struct program {
	struct hd_main run;
	struct hd_checkpoint_writer *writer;
	const char *directory, *reports;
	int failing; /* status of the last failed checkpoint; 0 once one succeeds */
	uint32_t failing_job;
};

/* --- options --------------------------------------------------------------------------------- */

static const struct hd_option option_table[] = {
	HD_SETUP_KEY_FILE,
	HD_SETUP_LISTEN("where to listen (0.0.0.0:4773); port 0: any free one"),
	HD_SETUP_CONTROLLER(
		"the controller; without it, workers send requests to the server directly"
	),
	HD_SETUP_HOST("this host's name in the topology (its host name)"),
	HD_OPTION_FLAG(
		"replica",
		struct options,
		replica,
		"keep copies of the jobs of other hosts' servers, and take the place of one that\n"
		"is lost; begins no jobs by itself"
	),
	HD_OPTION_FLAG(
		"never-alone",
		struct options,
		never_alone,
		"start and restore jobs only after the controller has answered, even while it is\n"
		"unreachable: jobs wait, and updates that a replica has are not returned to workers"
	),
	HD_OPTION_TEXT(
		"checkpoint-dir",
		"DIR",
		struct options,
		directory,
		"keep and restore checkpoints here; without it nothing is durable"
	),
	HD_OPTION_U32(
		"checkpoint-commits",
		"N",
		struct options,
		commits,
		1,
		UINT32_MAX,
		"write a checkpoint after every N commits, and at the end (200)"
	),
	HD_OPTION_TEXT(
		"report-dir",
		"DIR",
		struct options,
		reports,
		"write a job's summary here when all workers have left (--checkpoint-dir)"
	),
	HD_OPTION_BYTES(
		"memory",
		struct options,
		memory,
		HD_MODEL_BYTES_MAX,
		"limit for models, snapshots and updates in flight; K, M, G (1G)"
	),
	HD_OPTION_U32(
		"hold-us",
		"N",
		struct options,
		hold_us,
		1,
		3600000000U,
		"void a missing position after this time (500000)"
	),
	HD_OPTION_U32(
		"chunk-bytes",
		"N",
		struct options,
		chunk_bytes,
		HD_CHUNK_BYTES_MIN,
		HD_CHUNK_BYTES_MAX,
		"bytes of values in one packet of a model, a multiple of 4; less for a small MTU (1408)"
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
	= "usage: heddle-server --key-file FILE [options]\n"
	  "\n"
	  "Keeps the model of each job: receives updates, applies them in one order, delivers versions.\n"
	  "Prints `ready ADDR:PORT` when it listens.\n"
	  "\n",
	.table = option_table,
};

/* --- checkpoints ----------------------------------------------------------------------------- */

static void log_checkpoint_text(void *owner, const char *sentence) {
	hd_log_write(
		&((struct program *)owner)->run.service.log,
		HD_LOG_WARNING,
		"checkpoint",
		NULL,
		"checkpoint: %s",
		sentence
	);
}

static int begin_checkpoint(void *owner, const struct hd_checkpoint *checkpoint) {
	struct program *program = owner;

	return hd_checkpoint_writer_give(program->writer, checkpoint);
}

static int restore_checkpoint(void *owner, uint32_t job, struct hd_checkpoint *checkpoint) {
	struct program *program = owner;
	int rc = hd_checkpoint_read(
		program->directory, job, checkpoint, log_checkpoint_text, program
	);

	if (rc == -EBADMSG)
		log_checkpoint_text(
			program,
			"all checkpoints of this job are damaged: remove them to start again"
		);
	return rc;
}

static bool keeps_checkpoints(void *owner) {
	return hd_checkpoint_any(((struct program *)owner)->directory);
}

static void tell_summary(void *owner, const struct hd_job_summary *summary) {
	struct program *program = owner;
	struct hd_log *log = &program->run.service.log;
	char text[HD_TEXT_BYTES_MAX];

	hd_job_summary_format(summary, text, sizeof text);
	hd_log_write(log, HD_LOG_INFO, "report", NULL, "%s", text);
	if (program->reports
	    && hd_job_summary_write(program->reports, summary, text, sizeof text) < 0)
		(void)hd_log_fail(log, 0, "report: %s", text);
}

static const struct hd_server_ops checkpoint_ops = {
	.gather = hd_main_gather,
	.checkpoint = begin_checkpoint,
	.restore = restore_checkpoint,
	.keeps = keeps_checkpoints,
	.summary = tell_summary,
};
static const struct hd_server_ops summary_ops = {.gather = hd_main_gather, .summary = tell_summary};

/* Runs in the writer's thread. Flushes the log, so that it has every commit that a checkpoint holds. If the log cannot
 * be written (it has reported that itself), the checkpoint is written all the same. */
static void before_checkpoint(void *owner) {
	(void)hd_event_log_sync(((struct program *)owner)->run.service.events);
}

static void checkpoint_ended(void *owner) {
	hd_driver_wake(((struct program *)owner)->run.driver);
}

/* Reports a disk that stays full once, and once more when it takes checkpoints again. */
static void log_checkpoint(struct program *program, uint32_t job, int status, const char *error) {
	if (status < 0 && status != program->failing) {
		(void)hd_log_fail(
			&program->run.service.log,
			0,
			"checkpoint: %s; nothing becomes durable, it is tried again",
			error
		);
		program->failing = status;
		program->failing_job = job;
	} else if (status == 0 && program->failing != 0 && job == program->failing_job) {
		log_checkpoint_text(program, "written again");
		program->failing = 0;
	}
}

static void take_checkpoints(struct hd_main *run, void *server, hd_ns now, struct hd_sink *sink) {
	struct program *program = (struct program *)run;
	char error[256];
	uint32_t job;
	int status;

	while (program->writer
	       && hd_checkpoint_writer_take(program->writer, &job, &status, error, sizeof error)) {
		log_checkpoint(program, job, status, error);
		hd_server_checkpoint_done(server, now, job, status, sink);
	}
}

static int open_directory(struct hd_log *log, const char *option, const char *path) {
	if ((mkdir(path, 0750) < 0 && errno != EEXIST) || access(path, R_OK | W_OK | X_OK) < 0) {
		return hd_log_fail(
			log, EX_CANTCREAT, "--%s: %s: %s", option, path, strerror(errno)
		);
	}
	return 0;
}

static int open_checkpoints(struct program *program, struct hd_server_config *config) {
	struct hd_log *log = &program->run.service.log;
	int rc;

	config->ops = &summary_ops;
	config->owner = program;
	if (program->reports) {
		rc = open_directory(log, "report-dir", program->reports);
		if (rc != 0)
			return rc;
	}
	if (!program->directory)
		return 0;
	rc = open_directory(log, "checkpoint-dir", program->directory);
	if (rc != 0)
		return rc;
	program->reports = program->reports ? program->reports : program->directory;
	rc = hd_checkpoint_writer_open(
		program->directory, before_checkpoint, checkpoint_ended, program, &program->writer
	);
	if (rc < 0)
		return hd_log_fail(log, EX_OSERR, "--checkpoint-dir: no thread: %s", strerror(-rc));
	config->ops = &checkpoint_ops;
	return 0;
}

/* --- the core -------------------------------------------------------------------------------- */

static void on_event(struct hd_main *run, const struct hd_event *event) {
	/* A failed checkpoint has been reported already. */
	if (event->kind == HD_EVENT_CHECKPOINT && ((struct program *)run)->failing != 0)
		hd_event_log_add(run->service.events, event);
	else
		hd_setup_event(&run->service, event, "workers come directly");
}

static int make_server(struct hd_main *run, const void *options, void **core) {
	struct program *program = (struct program *)run;
	const struct options *o = options;
	struct hd_server *server = NULL;
	struct hd_server_config config = {
		.name = o->common.host,
		.host = o->common.host,
		.keys = &run->keys,
		.key_id = run->keys.keys[0].id,
		.memory_bytes = o->memory,
		.hold_us = o->hold_us,
		.chunk_bytes = o->chunk_bytes,
		.replica = o->replica,
		.never_alone = o->never_alone,
		.checkpoint_commits = o->commits,
		.receive_window_bytes = hd_driver_receive_window(run->driver),
		.data = hd_main_data(run),
	};
	int code = hd_main_identity(run, &o->common, &config.controller, config.seed);

	if (!code && o->chunk_bytes % sizeof(float) != 0)
		code = hd_log_fail(
			&run->service.log,
			EX_USAGE,
			"--chunk-bytes: %" PRIu32 " is not a multiple of 4",
			o->chunk_bytes
		);
	if (!code)
		code = open_checkpoints(program, &config);
	if (code)
		return code;
	code = hd_server_create(&config, &server);
	*core = server;
	return code < 0 ? hd_log_fail(&run->service.log, EX_OSERR, "server: %s", strerror(-code)) :
			  0;
}

/* The writer reads the server's memory and wakes the driver, so it ends first. */
static void close_server(struct hd_main *run, void *core) {
	hd_checkpoint_writer_close(((struct program *)run)->writer);
	hd_server_destroy(core);
}

static void gather(void *core, struct hd_stats *stats) {
	hd_server_gather(core, stats);
}

/* Writes a last checkpoint of every job and tells all peers. */
static bool drain(void *core, hd_ns now, struct hd_sink *sink) {
	return hd_server_drain(core, now, sink);
}

static const struct hd_main_ops server_main = {
	.groups = hd_server_groups,
	.node = &hd_server_ops,
	.drain_limit = DRAIN_LIMIT,
	.drain_failed = "the last checkpoint could not be written",
	.make = make_server,
	.close = close_server,
	.gather = gather,
	.drain = drain,
	.woken = take_checkpoints,
	.event = on_event,
};

int main(int argc, char **argv) {
	char host[HD_NAME_BYTES_MAX + 1] = "server";
	struct program program = {0};
	struct options o = {
		.common = {.listen = "0.0.0.0", .host = host},
		.memory = UINT64_C(1) << 30,
		.commits = 200,
		.hold_us = HD_HOLD_US,
		.chunk_bytes = HD_CHUNK_BYTES_DEFAULT,
	};
	int status;

	(void)gethostname(host, sizeof host - 1);
	status = hd_setup_options(&command_line, argc, argv, &o, &program.run.service);
	if (!status && (o.replica || o.never_alone) && !o.common.controller)
		status = hd_log_fail(
			o.common.log,
			EX_USAGE,
			"%s: needs --controller",
			o.replica ? "--replica" : "--never-alone"
		);
	if (status)
		return status < 0 ? 0 : status;
	program.directory = o.directory;
	program.reports = o.reports;
	return hd_main_run(&program.run, &server_main, &o.common);
}
