/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_kernels.h"
#include "hd_option.h"
#include "hd_program.h"
#include "tcp_ps.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define SEED_MAX (UINT64_C(1) << 53)
#define LEARNING_RATE_MIN 1e-9
#define LEARNING_RATE_MAX 1e3
#define MOMENTUM_MAX 0.999999

static volatile sig_atomic_t stopping;

static void on_signal(int number) {
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
	stopping = 1;
}

bool tcp_ps_stopping(void) {
	return stopping != 0;
}

void tcp_ps_event(struct tcp_ps *ps, const struct hd_event *event) {
	hd_event_log_add(ps->log, event);
}

static const struct hd_option option_table[] = {
	HD_OPTION_FLAG("serve", struct tcp_ps_options, server, "be the server (else a worker)"),
	HD_OPTION_TEXT(
		"address",
		"A",
		struct tcp_ps_options,
		address,
		"where the server listens (127.0.0.1)"
	),
	HD_OPTION_U32("port", "P", struct tcp_ps_options, port, 1, UINT16_MAX, "its port (4774)"),
	HD_OPTION_TEXT(
		"model",
		"M",
		struct tcp_ps_options,
		model,
		"softmax or mlp:W,W,... (mlp:512,512)"
	),
	HD_OPTION_TEXT(
		"data",
		"D",
		struct tcp_ps_options,
		data,
		"digits, or a directory of IDX files (digits)"
	),
	HD_OPTION_U64(
		"seed",
		"N",
		struct tcp_ps_options,
		seed,
		0,
		SEED_MAX,
		"of the initial weights and the minibatches (1)"
	),
	HD_OPTION_FLOAT(
		"lr",
		"X",
		struct tcp_ps_options,
		learning_rate,
		LEARNING_RATE_MIN,
		LEARNING_RATE_MAX,
		"of the server (0.05)"
	),
	HD_OPTION_FLOAT(
		"momentum",
		"X",
		struct tcp_ps_options,
		momentum,
		0,
		MOMENTUM_MAX,
		"likewise (0.9)"
	),
	HD_OPTION_FLOAT(
		"weight-decay",
		"X",
		struct tcp_ps_options,
		weight_decay,
		0,
		1,
		"likewise (0.0001)"
	),
	HD_OPTION_U32(
		"rank",
		"N",
		struct tcp_ps_options,
		rank,
		0,
		TCP_PS_WORKERS_MAX - 1,
		"which worker this is"
	),
	HD_OPTION_U32(
		"world",
		"N",
		struct tcp_ps_options,
		world,
		1,
		TCP_PS_WORKERS_MAX,
		"of how many"
	),
	HD_OPTION_U32(
		"batch",
		"N",
		struct tcp_ps_options,
		batch,
		1,
		HD_BATCH_MAX,
		"rows of a minibatch (32)"
	),
	HD_OPTION_REAL(
		"compute-ms",
		"X",
		struct tcp_ps_options,
		compute_ms,
		0,
		600000,
		"a gradient step lasts at least this long (0)"
	),
	HD_OPTION_TEXT(
		"compute-schedule",
		"FILE",
		struct tcp_ps_options,
		compute_schedule,
		"lines `seconds factor`: from then on compute-ms x factor"
	),
	HD_OPTION_U32(
		"observe-ms",
		"N",
		struct tcp_ps_options,
		observe_ms,
		0,
		1000000,
		"an observer: only pulls and prints test accuracy, this often"
	),
	HD_OPTION_TEXT("name", "NAME", struct tcp_ps_options, name, "in the event log"),
	HD_OPTION_TEXT(
		"events",
		"FILE",
		struct tcp_ps_options,
		events,
		"event log, as Heddle's programs write it"
	),
	HD_OPTION_TEXT(
		"json",
		"FILE",
		struct tcp_ps_options,
		json,
		"a worker's summary, when it ends"
	),
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = "heddle-tcp-ps",
	.usage
	= "usage: heddle-tcp-ps --serve [OPTIONS]\n"
	  "       heddle-tcp-ps --rank N --world N [OPTIONS]\n"
	  "The plain TCP parameter server, and its worker, that Heddle is compared with.\n\n",
	.table = option_table,
	.column = 27,
};

/* Ends the process after --help or an error. */
static void parse(struct tcp_ps_options *o, int argc, char **argv) {
	int status = hd_options_read(&command_line, argc, argv, o, NULL);

	if (status != 0)
		exit(status < 0 ? EX_OK : status);
	if (!o->server && o->observe_ms == 0 && o->rank >= o->world) {
		(void)fputs("heddle-tcp-ps: --rank: must be below --world\n", stderr);
		exit(EX_USAGE);
	}
}

static bool open_all(struct tcp_ps *ps) {
	const struct tcp_ps_options *o = ps->options;
	char error[256];
	if (hd_dataset_open(o->data, &ps->train, &ps->test, error, sizeof error) != 0) {
		(void)fprintf(stderr, "heddle-tcp-ps: data: %s\n", error);
		return false;
	}
	if (hd_model_create(o->model, &ps->train, o->batch, &ps->model, error, sizeof error) != 0) {
		(void)fprintf(stderr, "heddle-tcp-ps: model: %s\n", error);
		return false;
	}
	ps->values = hd_model_values(ps->model);
	ps->bytes = ps->values * sizeof(float);
	int rc = o->events ? hd_event_log_open(o->events, o->name, &ps->log) : 0;
	if (rc != 0)
		(void)fprintf(stderr, "heddle-tcp-ps: events: %s: %s\n", o->events, strerror(-rc));
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
	/* No SA_RESTART: waits end. The second signal ends the program. */
	struct sigaction act = {.sa_handler = on_signal};
	struct tcp_ps ps = {.options = &options};
	parse(&options, argc, argv);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	int status = EX_NOINPUT;
	if (open_all(&ps))
		status = options.server ? tcp_ps_serve(&ps) : tcp_ps_work(&ps);
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
