/* SPDX-License-Identifier: BSD-3-Clause */
/* heddlectl: shows an operator the decisions of the controller with their reasons, and changes its settings. Uses
 * messages only. */
#include "hd_option.h"
#include "heddlectl.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static const char usage_text[]
	= "usage: heddlectl [options] [COMMAND...]\n"
	  "\n"
	  "Without a command: an interactive shell with history, completion (tab) and help (?).\n"
	  "Words may be cut short as long as they stay unmistakable; pause, drain and evict are not.\n"
	  "A FILTER keeps the rows for which it holds: field=value, or a part of one of the row's texts.\n"
	  "\n";

/* Options whose unit differs from that of the context. */
struct options {
	struct shell_context context;
	double timeout_ms;
	uint32_t count;
};

static int take_server(void *values, const char *text) {
	struct options *o = values;

	o->context.server = text;
	o->context.of_server = true;
	return 0;
}

static const struct hd_option option_table[] = {
	HD_OPTION_TEXT(
		"controller",
		"ADDR[:PORT]",
		struct options,
		context.controller,
		"(HEDDLE_CONTROLLER, else 127.0.0.1:4773)"
	),
	HD_OPTION_TAKE(
		"server",
		"NODE",
		take_server,
		"ask a server, an aggregator or a switch instead (show models or sums, ports, ...):\n"
		"ADDR[:PORT], or its name or host as the controller knows it"
	),
	HD_OPTION_TEXT(
		"key-file",
		"FILE",
		struct options,
		context.key_file,
		"keys of the cluster (HEDDLE_KEY_FILE)"
	),
	HD_OPTION_FLAG("json", struct options, context.json, "the whole table as JSON"),
	HD_OPTION_FLAG("wide", struct options, context.wide, "all columns"),
	HD_OPTION_REAL(
		"timeout-ms",
		"N",
		struct options,
		timeout_ms,
		1,
		600000,
		"how long to wait for an answer (2000)"
	),
	HD_OPTION_REAL(
		"interval-s",
		"X",
		struct options,
		context.interval_s,
		0.05,
		86400,
		"between two tables of watch (1)"
	),
	HD_OPTION_U32(
		"count",
		"N",
		struct options,
		count,
		0,
		1000000000,
		"tables of watch; 0: until interrupted (0)"
	),
	HD_OPTION_FLAG("help", struct options, context.help, "this text"),
	HD_OPTION_END,
};

/* The help text lists the commands before these options. */
static const struct hd_option_program command_line = {
	.name = "heddlectl",
	.usage = "\n",
	.table = option_table,
	.after
	= "\n"
	  "Exit codes are those of sysexits.h: 64 wrong word or option, 65 refused by the controller, 69 no answer,\n"
	  "77 the keys differ, 78 `check` found a problem.\n",
	.column = 28,
	.arguments = true,
};

/* Help for one command that has its own, or for all. */
static int help(int count, char **words) {
	if (count > 0 && strcmp(words[0], "elastic") == 0) {
		shell_plan_help(stdout);
	} else {
		(void)fputs(usage_text, stdout);
		shell_help(stdout);
		hd_options_print_help(&command_line);
	}
	return fflush(stdout) ? shell_error(EX_IOERR, "stdout") : 0;
}

int main(int argc, char **argv) {
	const char *controller = getenv("HEDDLE_CONTROLLER"), *key_file = getenv("HEDDLE_KEY_FILE");
	struct options o = {
		.context = {
			.controller = controller,
			.key_file = key_file,
			.interval_s = 1,
		},
		.timeout_ms = 2000,
	};
	struct shell_context *context = &o.context;
	int status = hd_options_read(&command_line, argc, argv, &o, NULL);

	if (status)
		return status < 0 ? 0 : status;
	/* An error about one of these names where the value came from. */
	context->controller_from
		= context->controller == controller ? "HEDDLE_CONTROLLER" : "--controller";
	context->key_file_from = context->key_file == key_file ? "HEDDLE_KEY_FILE" : "--key-file";
	context->timeout = (hd_ns)(o.timeout_ms * 1e6);
	context->count = (long)o.count;
	if (context->help)
		return help(argc - optind, argv + optind);
	if (!context->controller || !context->controller[0])
		context->controller = "127.0.0.1";
	if (context->of_server)
		status = shell_find_server(context);
	if (!status && optind < argc) {
		status = shell_do(context, argc - optind, argv + optind);
		status = status == SHELL_EXIT ? 0 : status;
	} else if (!status) {
		status = shell_interact(context);
	}
	if (context->keys_read)
		hd_keyring_fini(&context->keys);
	return status;
}
