/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-server: the parameter server's core on a driver. */
#include "hd_checkpoint_file.h"
#include "hd_checkpoint_writer.h"
#include "hd_job_report.h"
#include "hd_message.h"
#include "hd_server.h"
#include "hd_setup.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "heddle-server"
#define DRAIN_LIMIT (30 * HD_SECOND) /* for the last checkpoints after a signal */
#define DRAIN_NAP_NS 2000000

struct options {
	struct hd_log *log; /* where errors go */
	const char *listen, *controller, *host, *key_file, *directory, *reports, *events;
	struct hd_driver_options driver;
	struct hd_service_options service;
	bool replica;
	uint64_t memory, commits, hold_us;
};

struct program {
	struct hd_service service;
	struct hd_checkpoint_writer *writer;
	const char *directory, *reports;
	struct hd_server *server;
	struct hd_driver *driver;
	bool draining, drained;
	int failing; /* status of the last checkpoint that could not be written, until one is */
	uint32_t failing_job;
};

static const char usage_text[]
	= "usage: heddle-server --key-file FILE [options]\n"
	  "\n"
	  "Keeps the model of each job: takes updates, applies them in one order, hands versions out.\n"
	  "Prints `ready ADDR:PORT` when it listens.\n"
	  "\n"
	  "  --key-file FILE        keys of the cluster: lines of `<id> <64 hex digits>`\n"
	  "  --listen ADDR[:PORT]   where to listen (0.0.0.0:4773); port 0: any free one\n"
	  "  --controller ADDR[:PORT]  who schedules; without it workers come directly\n"
	  "  --host NAME            this host's name in the topology (its host name)\n"
	  "  --replica              keep copies of the jobs of other hosts' servers, and take the place of one that\n"
	  "                         is lost; begins no jobs by itself\n"
	  "  --checkpoint-dir DIR   keep and restore checkpoints here; without it nothing is durable\n"
	  "  --checkpoint-commits N write one after every N commits (200); one is written at the end too\n"
	  "  --report-dir DIR       where a job's report goes when everybody has left (--checkpoint-dir)\n"
	  "  --memory BYTES         for models, snapshots and updates in flight; K, M, G (1G)\n"
	  "  --hold-us N            how long a missing position may hold others up (500000)\n"
	  "  --events FILE          write what happens as JSON lines\n" HD_SERVICE_USAGE
		  HD_DRIVER_USAGE "  --help                 this text\n";

/* --- options --------------------------------------------------------------------------------- */

enum option_id {
	OPT_LISTEN = 256,
	OPT_CONTROLLER,
	OPT_HOST,
	OPT_KEY_FILE,
	OPT_DIRECTORY,
	OPT_COMMITS,
	OPT_REPORTS,
	OPT_MEMORY,
	OPT_HOLD,
	OPT_EVENTS,
	OPT_REPLICA,
	OPT_HELP
};

static const struct option long_options[] = {
	{"listen", required_argument, NULL, OPT_LISTEN},
	{"controller", required_argument, NULL, OPT_CONTROLLER},
	{"host", required_argument, NULL, OPT_HOST},
	{"key-file", required_argument, NULL, OPT_KEY_FILE},
	{"checkpoint-dir", required_argument, NULL, OPT_DIRECTORY},
	{"checkpoint-commits", required_argument, NULL, OPT_COMMITS},
	{"report-dir", required_argument, NULL, OPT_REPORTS},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"hold-us", required_argument, NULL, OPT_HOLD},
	{"events", required_argument, NULL, OPT_EVENTS},
	{"replica", no_argument, NULL, OPT_REPLICA},
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
	case OPT_DIRECTORY:
		o->directory = value;
		return 0;
	case OPT_REPORTS:
		o->reports = value;
		return 0;
	case OPT_EVENTS:
		o->events = value;
		return 0;
	case OPT_REPLICA:
		o->replica = true;
		return 0;
	case OPT_COMMITS:
		return hd_setup_whole(
			o->log, "checkpoint-commits", value, 1, UINT32_MAX, &o->commits
		);
	case OPT_MEMORY:
		return hd_setup_bytes(o->log, "memory", value, HD_MODEL_BYTES_MAX, &o->memory);
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
	if (o->replica && o->controller == NULL) {
		return hd_log_fail(
			o->log,
			EX_USAGE,
			"--replica: of what the controller says: --controller is missing"
		);
	}
	if (strlen(o->host) == 0 || strlen(o->host) > HD_NAME_BYTES_MAX) {
		return hd_log_fail(o->log, EX_USAGE, "--host: '%s' (1 to 64 bytes)", o->host);
	}
	return 0;
}

/* --- checkpoints ----------------------------------------------------------------------------- */

static void say(void *owner, const char *sentence) {
	hd_log_say(
		&((struct program *)owner)->service.log,
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
	int rc = hd_checkpoint_read(program->directory, job, checkpoint, say, program);

	if (rc == -EBADMSG) {
		say(program,
		    "all of this job are damaged: it is refused; remove them to begin anew");
	}
	return rc;
}

static void tell_report(void *owner, const struct hd_job_report *report) {
	struct program *program = owner;
	struct hd_log *log = &program->service.log;
	char text[HD_TEXT_BYTES_MAX];

	hd_job_report_say(report, text, sizeof(text));
	hd_log_say(log, HD_LOG_INFO, "report", NULL, "%s", text);
	if (program->reports != NULL
	    && hd_job_report_write(program->reports, report, text, sizeof(text)) < 0) {
		(void)hd_log_fail(log, 0, "report: %s", text);
	}
}

static void gather(void *owner, struct hd_stats *stats) {
	hd_service_gather(&((struct program *)owner)->service, stats);
}

static const struct hd_server_ops checkpoint_ops = {
	.gather = gather,
	.checkpoint = begin_checkpoint,
	.restore = restore_checkpoint,
	.report = tell_report,
};
static const struct hd_server_ops report_ops = {.gather = gather, .report = tell_report};

/* From the writer's thread: the log has every commit that a checkpoint holds. A log that cannot be written (it has
 * said so) holds no checkpoint up. */
static void before_checkpoint(void *owner) {
	(void)hd_event_log_sync(((struct program *)owner)->service.events);
}

static void checkpoint_ended(void *owner) {
	hd_driver_wake(((struct program *)owner)->driver);
}

/* A disk that stays full is spoken of once, and once more when it takes checkpoints again. */
static void say_checkpoint(struct program *program, uint32_t job, int status, const char *error) {
	if (status < 0 && status != program->failing) {
		(void)hd_log_fail(
			&program->service.log,
			0,
			"checkpoint: %s; nothing becomes durable, it is tried again",
			error
		);
		program->failing = status;
		program->failing_job = job;
	} else if (status == 0 && program->failing != 0 && job == program->failing_job) {
		say(program, "written again");
		program->failing = 0;
	}
}

static void take_checkpoints(struct program *program, hd_ns now, struct hd_sink *sink) {
	char error[256];
	uint32_t job;
	int status;

	while (hd_checkpoint_writer_take(program->writer, &job, &status, error, sizeof(error))) {
		say_checkpoint(program, job, status, error);
		hd_server_checkpoint_done(program->server, now, job, status, sink);
	}
}

static int open_directory(struct hd_log *log, const char *option, const char *path) {
	if ((mkdir(path, 0755) < 0 && errno != EEXIST) || access(path, R_OK | W_OK | X_OK) < 0) {
		return hd_log_fail(
			log, EX_CANTCREAT, "--%s: %s: %s", option, path, strerror(errno)
		);
	}
	return 0;
}

static int open_checkpoints(struct program *program, struct hd_server_config *config) {
	struct hd_log *log = &program->service.log;
	int rc;

	config->ops = &report_ops;
	config->owner = program;
	if (program->reports != NULL) {
		rc = open_directory(log, "report-dir", program->reports);
		if (rc != 0) {
			return rc;
		}
	}
	if (program->directory == NULL) {
		return 0;
	}
	rc = open_directory(log, "checkpoint-dir", program->directory);
	if (rc != 0) {
		return rc;
	}
	program->reports = program->reports != NULL ? program->reports : program->directory;
	rc = hd_checkpoint_writer_open(
		program->directory, before_checkpoint, checkpoint_ended, program, &program->writer
	);
	if (rc < 0) {
		return hd_log_fail(log, EX_OSERR, "--checkpoint-dir: no thread: %s", strerror(-rc));
	}
	config->ops = &checkpoint_ops;
	return 0;
}

/* --- driver ---------------------------------------------------------------------------------- */

static void on_event(void *owner, const struct hd_event *event) {
	struct program *program = owner;

	/* One that fails has been spoken of. */
	if (event->kind == HD_EVENT_CHECKPOINT && program->failing != 0) {
		hd_event_log_add(program->service.events, event);
	} else {
		hd_setup_event(&program->service, event, "workers come directly");
	}
}

static void fill(void *owner, struct hd_stats *stats) {
	struct program *program = owner;

	hd_server_gather(program->server, stats);
	hd_service_gather(&program->service, stats);
}

static void on_woken(void *owner, hd_ns now, struct hd_sink *sink) {
	struct program *program = owner;

	if (program->writer != NULL) {
		take_checkpoints(program, now, sink);
	}
	hd_service_woken(&program->service, fill, program);
	if (program->draining) {
		program->drained = hd_server_drain(program->server, now, sink);
	}
}

/* A last checkpoint of every job, and a word to everybody. */
static int drain(struct program *program, struct hd_node node) {
	const struct timespec nap = {.tv_nsec = DRAIN_NAP_NS};
	hd_ns end = hd_driver_now() + DRAIN_LIMIT;

	program->draining = true;
	while (!program->drained && hd_driver_now() < end) {
		hd_driver_wake(program->driver);
		(void)hd_driver_step(program->driver, node, 0);
		if (!program->drained) {
			(void)nanosleep(&nap, NULL);
		}
	}
	if (program->drained) {
		return 0;
	}
	return hd_log_fail(
		&program->service.log, EX_IOERR, "the last checkpoint could not be written"
	);
}

static int run(struct program *program) {
	struct hd_node node = {&hd_server_ops, program->server};
	int status = hd_setup_run(&program->service.log, program->driver, node);

	if (status != 0) {
		return status;
	}
	return drain(program, node);
}

/* --- building up ----------------------------------------------------------------------------- */

static int
make_server(struct program *program, const struct options *o, struct hd_server_config *config) {
	struct hd_addr bound = hd_driver_bound(program->driver);
	int rc;

	config->name = o->host;
	config->host = o->host;
	config->memory_bytes = o->memory;
	config->hold_us = (uint32_t)o->hold_us;
	config->replica = o->replica;
	config->checkpoint_commits = (uint32_t)o->commits;
	config->receive_window_bytes = hd_driver_receive_window(program->driver);
	/* Bound to any address: peers take the one that they reach us at. */
	config->data = bound.ipv4 != 0 ? bound : (struct hd_addr){0};
	if (o->controller != NULL) {
		rc = hd_setup_controller(o->log, o->controller, &config->controller);
		if (rc != 0) {
			return rc;
		}
	}
	if (hd_program_entropy(config->seed) < 0) {
		return hd_log_fail(o->log, EX_OSERR, "no entropy");
	}
	rc = open_checkpoints(program, config);
	if (rc != 0) {
		return rc;
	}
	rc = hd_server_create(config, &program->server);
	return rc < 0 ? hd_log_fail(o->log, EX_OSERR, "server: %s", strerror(-rc)) : 0;
}

static int serve(struct program *program) {
	int status = hd_setup_service(&program->service, program->driver, hd_server_groups);

	if (status == 0) {
		status = run(program);
	}
	hd_service_stop(&program->service);
	return status;
}

static int
with_keys(struct program *program, const struct options *o, const struct hd_keyring *keys) {
	struct hd_server_config config = {.keys = keys, .key_id = keys->keys[0].id};
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
		status = make_server(program, o, &config);
	}
	if (status == 0) {
		status = serve(program);
	}
	/* The writer reads the server's memory and wakes the driver: it ends first. */
	hd_checkpoint_writer_close(program->writer);
	hd_server_destroy(program->server);
	hd_driver_close(program->driver);
	return hd_setup_end_events(&program->service, o->events, status);
}

int main(int argc, char **argv) {
	char host[HD_NAME_BYTES_MAX + 1] = "server";
	struct program program = {0};
	struct options o = {
		.log = &program.service.log,
		.listen = "0.0.0.0",
		.host = host,
		.memory = UINT64_C(1) << 30,
		.commits = 200,
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
	program.directory = o.directory;
	program.reports = o.reports;
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
