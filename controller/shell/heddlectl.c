/* SPDX-License-Identifier: BSD-3-Clause */
/* heddlectl: shows an operator what the controller does and why, and lets her steer it. Talks by messages
 * only. */
#include "hd_number.h"
#include "heddlectl.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const char usage_text[]
	= "usage: heddlectl [options] [COMMAND...]\n"
	  "\n"
	  "Without a command: an interactive shell with history, completion (tab) and help (?).\n"
	  "Words may be cut short as long as they stay unmistakable.\n"
	  "A FILTER keeps the rows for which it holds: field=value, or a part of one of the row's texts.\n"
	  "\n";

static const char options_text[]
	= "\n"
	  "  --controller ADDR[:PORT]  (HEDDLE_CONTROLLER, else 127.0.0.1:4773)\n"
	  "  --server ADDR[:PORT]      ask a server or an aggregator instead: show models, rounds, sums, ports, ...\n"
	  "  --key-file FILE           keys of the cluster (HEDDLE_KEY_FILE)\n"
	  "  --json                    the whole table as JSON\n"
	  "  --wide                    all columns\n"
	  "  --timeout-ms N            how long to wait for an answer (2000)\n"
	  "  --interval-s X            between two tables of watch (1)\n"
	  "  --count N                 tables of watch; 0: until interrupted (0)\n"
	  "  --help                    this text\n"
	  "\n"
	  "Exit codes are those of sysexits.h: 64 a word or option, 65 the controller says no, 69 no answer,\n"
	  "77 the keys differ, 78 `check` found something wrong.\n";

static const struct option long_options[] = {
	{"controller", required_argument, NULL, 'c'},
	{"server", required_argument, NULL, 's'},
	{"key-file", required_argument, NULL, 'k'},
	{"json", no_argument, NULL, 'j'},
	{"wide", no_argument, NULL, 'w'},
	{"timeout-ms", required_argument, NULL, 't'},
	{"interval-s", required_argument, NULL, 'i'},
	{"count", required_argument, NULL, 'n'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int number(const char *field, const char *text, double least, double most, double *value) {
	if (hd_number_real(text, least, most, value))
		return shell_error(
			EX_USAGE, "--%s: '%s' (a number from %g to %g)", field, text, least, most
		);
	return 0;
}

static int take_option(struct shell_context *o, int id, const char *text) {
	double value = 0;
	int status = 0;

	switch (id) {
	case 'c':
		o->controller = text;
		break;
	case 's':
		o->controller = text;
		o->of_server = true;
		break;
	case 'k':
		o->key_file = text;
		break;
	case 'j':
		o->json = true;
		break;
	case 'w':
		o->wide = true;
		break;
	case 't':
		status = number("timeout-ms", text, 1, 600000, &value);
		o->timeout = (hd_ns)(value * 1e6);
		break;
	case 'i':
		status = number("interval-s", text, 0.05, 86400, &o->interval_s);
		break;
	case 'n':
		status = number("count", text, 0, 1e9, &value);
		o->count = (long)value;
		break;
	case 'h':
		o->help = true;
		break;
	default:
		return EX_USAGE; /* getopt has said why */
	}
	return status;
}

/* Of one command that has its own, or of all. */
static int help(int count, char **words) {
	if (count > 0 && strcmp(words[0], "elastic") == 0) {
		shell_plan_help(stdout);
	} else {
		(void)fputs(usage_text, stdout);
		shell_help(stdout);
		(void)fputs(options_text, stdout);
	}
	return fflush(stdout) ? shell_error(EX_IOERR, "stdout") : 0;
}

int main(int argc, char **argv) {
	struct shell_context context = {
		.controller = getenv("HEDDLE_CONTROLLER"),
		.key_file = getenv("HEDDLE_KEY_FILE"),
		.timeout = 2 * HD_SECOND,
		.interval_s = 1,
	};
	int id, status = 0;

	while (!status && (id = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		status = take_option(&context, id, optarg);
	if (status)
		return status;
	if (context.help)
		return help(argc - optind, argv + optind);
	if (!context.controller || !context.controller[0])
		context.controller = "127.0.0.1";
	if (optind < argc) {
		status = shell_do(&context, argc - optind, argv + optind);
		status = status == SHELL_EXIT ? 0 : status;
	} else {
		status = shell_interact(&context);
	}
	if (context.keys_read)
		hd_keyring_fini(&context.keys);
	return status;
}
