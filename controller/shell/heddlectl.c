/* SPDX-License-Identifier: BSD-3-Clause */
/* heddlectl: shows an operator what the controller does and why. Talks by messages only. */
#include "hd_message.h"
#include "hd_program.h"
#include "hd_udp.h"
#include "heddlectl.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PROGRAM "heddlectl"

static const char usage_text[]
	= "usage: heddlectl [options] show TABLE [FILTER...]\n"
	  "\n"
	  "TABLE is one of\n"
	  "  nodes      who is registered, since when, its round-trip time and clock\n"
	  "  jobs       versions, workers, what was granted, applied, dropped\n"
	  "  links      what each link is believed to carry, and what is reserved now\n"
	  "  transfers  what runs and what waits, and why in this order\n"
	  "  drops      the last 256 updates that were not applied, and why\n"
	  "  counters   everything that is counted, errors and hostile packets included\n"
	  "A FILTER keeps the rows for which it holds: field=value, or a part of one of the row's texts.\n"
	  "\n"
	  "  --controller ADDR[:PORT]  (HEDDLE_CONTROLLER, else 127.0.0.1:4773)\n"
	  "  --key-file FILE           keys of the cluster (HEDDLE_KEY_FILE)\n"
	  "  --json                    the whole table as JSON\n"
	  "  --wide                    all columns\n"
	  "  --timeout-ms N            how long to wait for an answer (2000)\n"
	  "  --help                    this text\n";

struct options {
	const char *controller, *key_file, *table;
	char filter[HD_TEXT_BYTES_MAX + 1];
	bool json, wide;
	long timeout_ms;
};

__attribute__((format(printf, 2, 3))) static int fail(int code, const char *format, ...) {
	va_list args;

	(void)fprintf(stderr, PROGRAM ": ");
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fprintf(stderr, "\n");
	return code;
}

static const struct option long_options[] = {
	{"controller", required_argument, NULL, 'c'},
	{"key-file", required_argument, NULL, 'k'},
	{"json", no_argument, NULL, 'j'},
	{"wide", no_argument, NULL, 'w'},
	{"timeout-ms", required_argument, NULL, 't'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int take_option(struct options *o, int id, const char *value) {
	char *end;

	switch (id) {
	case 'c':
		o->controller = value;
		return 0;
	case 'k':
		o->key_file = value;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case 'w':
		o->wide = true;
		return 0;
	case 't':
		o->timeout_ms = strtol(value, &end, 10);
		if (end == value || *end || o->timeout_ms < 1 || o->timeout_ms > 600000)
			return fail(EX_USAGE, "--timeout-ms: '%s' (1 to 600000)", value);
		return 0;
	case 'h':
		(void)fputs(usage_text, stdout);
		return -1;
	default:
		return EX_USAGE; /* getopt has said why */
	}
}

static int take_words(struct options *o, int count, char **words) {
	size_t bytes = 0;

	if (count < 2 || strcmp(words[0], "show") != 0)
		return fail(EX_USAGE, "command: 'show TABLE [FILTER...]' (see --help)");
	o->table = words[1];
	if (strlen(o->table) > HD_NAME_BYTES_MAX)
		return fail(EX_USAGE, "table: too long (%d bytes)", HD_NAME_BYTES_MAX);
	for (int i = 2; i < count; i++) {
		int more = snprintf(
			o->filter + bytes,
			sizeof(o->filter) - bytes,
			"%s%s",
			bytes ? " " : "",
			words[i]
		);

		if (more < 0 || bytes + (size_t)more >= sizeof(o->filter))
			return fail(EX_USAGE, "filter: too long (%d bytes)", HD_TEXT_BYTES_MAX);
		bytes += (size_t)more;
	}
	return 0;
}

static int show(const struct options *o, const struct hd_keyring *keys) {
	struct shell_query query = {
		.keys = keys,
		.table = o->table,
		.filter = o->filter,
		.timeout = (hd_ns)o->timeout_ms * HD_MS,
	};
	char error[HD_TEXT_BYTES_MAX + 64] = "";
	json_t *document = NULL;
	int status;

	if (hd_udp_resolve(o->controller, &query.controller))
		return fail(EX_NOHOST, "--controller: '%s': no such address", o->controller);
	status = shell_fetch(&query, &document, error, sizeof(error));
	if (status)
		return fail(status, "controller %s: %s", o->controller, error);
	if (o->json) {
		json_object_del(document, "page");
		json_object_del(document, "next");
		(void)json_dumpf(document, stdout, JSON_INDENT(2));
		(void)printf("\n");
	} else {
		shell_print(document, o->wide);
	}
	json_decref(document);
	return fflush(stdout) ? fail(EX_IOERR, "stdout: %s", strerror(errno)) : 0;
}

int main(int argc, char **argv) {
	struct options o = {
		.controller = getenv("HEDDLE_CONTROLLER"),
		.key_file = getenv("HEDDLE_KEY_FILE"),
		.timeout_ms = 2000,
	};
	struct hd_keyring keys;
	char error[512];
	int id, status = 0;

	while (!status && (id = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		status = take_option(&o, id, optarg);
	if (!status)
		status = take_words(&o, argc - optind, argv + optind);
	if (status)
		return status < 0 ? 0 : status;
	if (!o.controller || !o.controller[0])
		o.controller = "127.0.0.1";
	if (!o.key_file || !o.key_file[0])
		return fail(EX_USAGE, "--key-file: missing (or set HEDDLE_KEY_FILE)");
	status = hd_program_read_keys(o.key_file, &keys, error, sizeof(error));
	if (status)
		return fail(status == -EINVAL ? EX_DATAERR : EX_NOINPUT, "--key-file: %s", error);
	status = show(&o, &keys);
	hd_keyring_fini(&keys);
	return status;
}
