/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_kernels.h"
#include "hd_number.h"
#include "hd_program.h"
#include "tcp_ps.h"

#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const char usage[]
	= "usage: heddle-tcp-ps --serve [OPTIONS]\n"
	  "       heddle-tcp-ps --rank N --world N [OPTIONS]\n"
	  "The plain TCP parameter server, and its worker, that Heddle is compared with.\n\n"
	  "  --serve                  be the server (else a worker)\n"
	  "  --address A              where the server listens (127.0.0.1)\n"
	  "  --port P                 its port (4774)\n"
	  "  --model M                softmax or mlp:W,W,... (mlp:512,512)\n"
	  "  --data D                 digits, or a directory of IDX files (digits)\n"
	  "  --seed N                 of the initial weights and the minibatches (1)\n"
	  "  --lr X --momentum X --weight-decay X     of the server (0.05, 0.9, 0.0001)\n"
	  "  --rank N --world N       which worker this is, of how many\n"
	  "  --batch N                rows of a minibatch (32)\n"
	  "  --compute-ms X           a gradient step lasts at least this long (0)\n"
	  "  --compute-schedule FILE  lines `seconds factor`: from then on compute-ms x factor\n"
	  "  --observe-ms N           an observer: only pulls and prints test accuracy, this often\n"
	  "  --name NAME --events FILE     event log, as Heddle's programs write it\n"
	  "  --json FILE              a worker's summary, when it ends\n";

static volatile sig_atomic_t stopping;

static void on_signal(int number) {
	stopping = 1;
}

bool tcp_ps_stopping(void) {
	return stopping != 0;
}

void tcp_ps_event(struct tcp_ps *ps, const struct hd_event *event) {
	hd_event_log_add(ps->log, event);
}

enum {
	OPT_SERVE = 256,
	OPT_ADDRESS,
	OPT_PORT,
	OPT_MODEL,
	OPT_DATA,
	OPT_SEED,
	OPT_LR,
	OPT_MOMENTUM,
	OPT_DECAY,
	OPT_RANK,
	OPT_WORLD,
	OPT_BATCH,
	OPT_COMPUTE,
	OPT_SCHEDULE,
	OPT_OBSERVE,
	OPT_NAME,
	OPT_EVENTS,
	OPT_JSON,
	OPT_HELP
};

static const struct option long_options[] = {
	{"serve", no_argument, NULL, OPT_SERVE},
	{"address", required_argument, NULL, OPT_ADDRESS},
	{"port", required_argument, NULL, OPT_PORT},
	{"model", required_argument, NULL, OPT_MODEL},
	{"data", required_argument, NULL, OPT_DATA},
	{"seed", required_argument, NULL, OPT_SEED},
	{"lr", required_argument, NULL, OPT_LR},
	{"momentum", required_argument, NULL, OPT_MOMENTUM},
	{"weight-decay", required_argument, NULL, OPT_DECAY},
	{"rank", required_argument, NULL, OPT_RANK},
	{"world", required_argument, NULL, OPT_WORLD},
	{"batch", required_argument, NULL, OPT_BATCH},
	{"compute-ms", required_argument, NULL, OPT_COMPUTE},
	{"compute-schedule", required_argument, NULL, OPT_SCHEDULE},
	{"observe-ms", required_argument, NULL, OPT_OBSERVE},
	{"name", required_argument, NULL, OPT_NAME},
	{"events", required_argument, NULL, OPT_EVENTS},
	{"json", required_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

/* Exits with EX_USAGE and the field, the value and the limits when it is not a number within them. */
static double number(const char *field, const char *text, double low, double high) {
	double value = 0;
	if (hd_number_real(text, low, high, &value) != 0) {
		(void)fprintf(
			stderr,
			"heddle-tcp-ps: %s: \"%s\" is no number in %.12g..%.12g\n",
			field,
			text,
			low,
			high
		);
		exit(EX_USAGE);
	}
	return value;
}

static double whole(const char *field, const char *text, double low, double high) {
	double value = number(field, text, low, high);
	if (value != floor(value)) {
		(void
		)fprintf(stderr, "heddle-tcp-ps: %s: \"%s\" is no whole number\n", field, text);
		exit(EX_USAGE);
	}
	return value;
}

static bool take_text(struct tcp_ps_options *o, int option, const char *text) {
	const char **field = option == OPT_ADDRESS ? &o->address :
		option == OPT_MODEL                ? &o->model :
		option == OPT_DATA                 ? &o->data :
		option == OPT_SCHEDULE             ? &o->compute_schedule :
		option == OPT_NAME                 ? &o->name :
		option == OPT_EVENTS               ? &o->events :
		option == OPT_JSON                 ? &o->json :
						     NULL;
	if (field == NULL) {
		return false;
	}
	*field = text;
	return true;
}

static void take_number(struct tcp_ps_options *o, int option, const char *text) {
	switch (option) {
	case OPT_PORT:
		o->port = (uint16_t)whole("port", text, 1, 65535);
		break;
	case OPT_SEED:
		o->seed = (uint64_t)whole("seed", text, 0, 9007199254740992.0);
		break;
	case OPT_LR:
		o->learning_rate = (float)number("lr", text, 1e-9, 1e3);
		break;
	case OPT_MOMENTUM:
		o->momentum = (float)number("momentum", text, 0, 0.999999);
		break;
	case OPT_DECAY:
		o->weight_decay = (float)number("weight-decay", text, 0, 1);
		break;
	case OPT_RANK:
		o->rank = (uint32_t)whole("rank", text, 0, TCP_PS_WORKERS_MAX - 1);
		break;
	case OPT_WORLD:
		o->world = (uint32_t)whole("world", text, 1, TCP_PS_WORKERS_MAX);
		break;
	case OPT_BATCH:
		o->batch = (uint32_t)whole("batch", text, 1, HD_BATCH_MAX);
		break;
	case OPT_COMPUTE:
		o->compute_ms = number("compute-ms", text, 0, 600000);
		break;
	default:
		o->observe_ms = (uint32_t)whole("observe-ms", text, 0, 1000000);
	}
}

static void parse(struct tcp_ps_options *o, int argc, char **argv) {
	int option;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == OPT_HELP) {
			(void)fputs(usage, stdout);
			exit(EX_OK);
		}
		if (option == '?') {
			(void)fputs(usage, stderr);
			exit(EX_USAGE);
		}
		if (option == OPT_SERVE) {
			o->server = true;
		} else if (!take_text(o, option, optarg)) {
			take_number(o, option, optarg);
		}
	}
	if (optind != argc || (!o->server && o->observe_ms == 0 && o->rank >= o->world)) {
		(void)fprintf(
			stderr,
			"heddle-tcp-ps: %s\n",
			optind != argc ? argv[optind] : "rank: must be below world"
		);
		exit(EX_USAGE);
	}
}

static bool open_all(struct tcp_ps *ps) {
	const struct tcp_ps_options *o = ps->options;
	char error[256];
	if (hd_dataset_open(o->data, &ps->train, &ps->test, error, sizeof(error)) != 0) {
		(void)fprintf(stderr, "heddle-tcp-ps: data: %s\n", error);
		return false;
	}
	if (hd_model_create(o->model, &ps->train, o->batch, &ps->model, error, sizeof(error))
	    != 0) {
		(void)fprintf(stderr, "heddle-tcp-ps: model: %s\n", error);
		return false;
	}
	ps->values = hd_model_values(ps->model);
	ps->bytes = ps->values * sizeof(float);
	int rc = o->events != NULL ? hd_event_log_open(o->events, o->name, &ps->log) : 0;
	if (rc != 0) {
		(void)fprintf(stderr, "heddle-tcp-ps: events: %s: %s\n", o->events, strerror(-rc));
	}
	return rc == 0;
}

int main(int argc, char **argv) {
	struct tcp_ps_options options = {
		.address = "127.0.0.1",
		.port = 4774,
		.model = "mlp:512,512",
		.data = "digits",
		.name = "tcp-ps",
		.world = 1,
		.batch = 32,
		.seed = 1,
		.learning_rate = 0.05f,
		.momentum = 0.9f,
		.weight_decay = 1e-4f,
	};
	struct sigaction act = {.sa_handler = on_signal}; /* no SA_RESTART: waits end */
	struct tcp_ps ps = {.options = &options};
	parse(&options, argc, argv);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	int status = EX_NOINPUT;
	if (open_all(&ps)) {
		status = options.server ? tcp_ps_serve(&ps) : tcp_ps_work(&ps);
	}
	if (hd_event_log_close(ps.log) != 0 && status == EX_OK) {
		(void
		)fprintf(stderr, "heddle-tcp-ps: events: could not write %s\n", options.events);
		status = EX_IOERR;
	}
	hd_model_destroy(ps.model);
	hd_dataset_fini(&ps.train);
	hd_dataset_fini(&ps.test);
	return status;
}
