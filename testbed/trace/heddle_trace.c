/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-trace: combines event logs of a cluster's nodes into one trace for Perfetto and chrome://tracing. */
#include "hd_number.h"
#include "hd_option.h"
#include "hd_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define OFFSETS_MAX 1024
#define OFFSET_SECONDS_MAX 1e9
#define TOPOLOGY_BYTES_MAX HD_CONFIG_BYTES_MAX

struct entry {
	struct hd_event event;
	uint32_t node;
	uint32_t order; /* of reading */
};

struct offset {
	const char *node;
	size_t node_bytes;
	int64_t ns;
};

static struct tool {
	const char *output, *topology;
	struct offset offsets[OFFSETS_MAX];
	uint32_t offset_count;
	struct entry *entries;
	size_t count, capacity;
	char (*nodes)[2 * HD_NAME_BYTES_MAX + 1];
	uint32_t node_count;
	uint64_t unknown, cut;
} tool;

static int bad(const char *field, const char *what, int code) {
	(void)fprintf(stderr, "heddle-trace: %s: %s\n", field, what);
	return code;
}

/* --- reading ------------------------------------------------------------------------------- */

static int64_t offset_of(const char *node) {
	for (uint32_t i = 0; i < tool.offset_count; i++)
		if (strlen(node) == tool.offsets[i].node_bytes
		    && memcmp(tool.offsets[i].node, node, tool.offsets[i].node_bytes) == 0)
			return tool.offsets[i].ns;
	return 0;
}

/* A log's lines are mostly from one node: the last one found is tried first. */
static int node_index(const char *name, uint32_t *index) {
	static uint32_t last;

	if (last < tool.node_count && strcmp(tool.nodes[last], name) == 0) {
		*index = last;
		return 0;
	}
	for (last = 0; last < tool.node_count; last++)
		if (strcmp(tool.nodes[last], name) == 0)
			break;
	if (last == HD_TRACE_NODES_MAX)
		return -ENOSPC;
	if (last == tool.node_count)
		memcpy(tool.nodes[tool.node_count++], name, strlen(name) + 1);
	*index = last;
	return 0;
}

static int keep(const struct hd_event *event, const char *node) {
	size_t capacity = tool.capacity ? tool.capacity * 2 : 4096;
	struct entry *grown, *entry;
	int64_t at;

	if (tool.count == HD_TRACE_EVENTS_MAX)
		return -ENOSPC;
	if (tool.count == tool.capacity) {
		grown = realloc(tool.entries, capacity * sizeof *grown);
		if (!grown)
			return -ENOMEM;
		tool.entries = grown;
		tool.capacity = capacity;
	}
	entry = &tool.entries[tool.count];
	*entry = (struct entry){.event = *event, .order = (uint32_t)tool.count};
	if (node_index(node, &entry->node) < 0)
		return -ENOSPC;
	at = (int64_t)event->at + offset_of(node);
	entry->event.at = at > 0 ? (hd_ns)at : 0;
	tool.count++;
	return 0;
}

static int read_line(const char *path, uint64_t number, const char *line) {
	char node[2 * HD_NAME_BYTES_MAX + 1], error[128];
	struct hd_event event;
	int code = hd_trace_parse(line, &event, node, error, sizeof error);

	if (code == -ENOENT) {
		tool.unknown++;
		return EX_OK;
	}
	if (code < 0) {
		(void)fprintf(
			stderr,
			"heddle-trace: %s: line %llu: %s\n",
			path,
			(unsigned long long)number,
			error
		);
		return EX_DATAERR;
	}
	code = keep(&event, node);
	if (code == -ENOSPC)
		return bad(
			path,
			"too many events or nodes (limits HD_TRACE_EVENTS_MAX, HD_TRACE_NODES_MAX)",
			EX_DATAERR
		);
	return code < 0 ? bad(path, strerror(-code), EX_OSERR) : EX_OK;
}

static int read_log(const char *path) {
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t capacity = 0;
	uint64_t number = 0;
	ssize_t bytes;
	int code = EX_OK;

	if (!file)
		return bad(path, strerror(errno), EX_NOINPUT);
	while (code == EX_OK && (bytes = getline(&line, &capacity, file)) > 0) {
		number++;
		if (line[bytes - 1] != '\n')
			tool.cut++;
		else if (strlen(line) != (size_t)bytes)
			code = bad(path, "holds a NUL: not an event log", EX_DATAERR);
		else
			code = read_line(path, number, line);
	}
	if (ferror(file))
		code = bad(path, "cannot be read", EX_IOERR);
	free(line);
	(void)fclose(file);
	return code;
}

static int read_topology(struct hd_topology **topology) {
	FILE *file = fopen(tool.topology, "r");
	char *text = malloc(TOPOLOGY_BYTES_MAX + 1), error[256] = "is too long";
	size_t bytes;
	int code = EX_DATAERR;

	if (!file || !text) {
		code = bad(tool.topology, strerror(errno), EX_NOINPUT);
	} else {
		bytes = fread(text, 1, TOPOLOGY_BYTES_MAX + 1, file);
		text[bytes <= TOPOLOGY_BYTES_MAX ? bytes : 0] = '\0';
		if (bytes <= TOPOLOGY_BYTES_MAX
		    && hd_topology_parse(text, topology, error, sizeof error) == 0)
			code = EX_OK;
		else
			code = bad(tool.topology, error, EX_DATAERR);
	}
	if (file)
		(void)fclose(file);
	free(text);
	return code;
}

/* --- writing ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
	const struct entry *one = a, *other = b;

	if (one->event.at != other->event.at)
		return one->event.at < other->event.at ? -1 : 1;
	return one->order < other->order ? -1 : 1;
}

static int convert(FILE *out, struct hd_topology *topology) {
	struct hd_trace_config config = {.out = out, .topology = topology};
	struct hd_trace *trace;
	int code = hd_trace_create(&config, &trace);

	if (code < 0)
		return bad("memory", strerror(-code), EX_OSERR);
	if (tool.count > 0)
		qsort(tool.entries, tool.count, sizeof *tool.entries, compare);
	for (size_t i = 0; i < tool.count; i++)
		(void
		)hd_trace_event(trace, tool.nodes[tool.entries[i].node], &tool.entries[i].event);
	code = hd_trace_finish(trace);
	return code < 0 ? bad(tool.output ? tool.output : "output", strerror(-code), EX_IOERR) :
			  EX_OK;
}

static int write_trace(struct hd_topology *topology) {
	FILE *out = tool.output ? fopen(tool.output, "w") : stdout;
	int code;

	if (!out)
		return bad(tool.output, strerror(errno), EX_CANTCREAT);
	code = convert(out, topology);
	if (fclose(out) != 0 && code == EX_OK)
		code = bad(tool.output ? tool.output : "output", strerror(errno), EX_IOERR);
	return code;
}

/* --- command line -------------------------------------------------------------------------- */

static int take_offset(void *values, const char *text) {
	struct tool *t = values;
	const char *equals = strrchr(text, '=');
	double seconds;

	if (t->offset_count == OFFSETS_MAX)
		return bad("--offset", "too many (limit 1024)", EX_USAGE);
	if (!equals || equals == text
	    || hd_number_real(equals + 1, -OFFSET_SECONDS_MAX, OFFSET_SECONDS_MAX, &seconds) < 0) {
		(void)fprintf(
			stderr,
			"heddle-trace: --offset: '%s' (NODE=SECONDS, from %g to %g)\n",
			text,
			-OFFSET_SECONDS_MAX,
			OFFSET_SECONDS_MAX
		);
		return EX_USAGE;
	}
	t->offsets[t->offset_count++] = (struct offset){
		.node = text,
		.node_bytes = (size_t)(equals - text),
		.ns = (int64_t)(seconds * 1e9),
	};
	return 0;
}

static const struct hd_option option_table[] = {
	HD_OPTION_TEXT(
		"output",
		"FILE",
		struct tool,
		output,
		"write there and not to the standard output"
	),
	HD_OPTION_TEXT(
		"topology",
		"FILE",
		struct tool,
		topology,
		"the controller's: names links, and shows what crosses each"
	),
	HD_OPTION_TAKE(
		"offset",
		"NODE=S",
		take_offset,
		"add S seconds to a node's times (clocks of several machines)"
	),
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = "heddle-trace",
	.usage
	= "usage: heddle-trace [OPTIONS] LOG...\n"
	  "Event logs (--events, HEDDLE_EVENTS) as spans that Perfetto (https://ui.perfetto.dev) and\n"
	  "chrome://tracing open: what each worker, server and link did when, and what it waited for.\n",
	.table = option_table,
	.after
	= "A last line that a crash cut short is left out. Exit: 0; 64 usage; 65 a log; 66 no such file.\n",
	.column = 22,
	.arguments = true,
};

static int parse(int argc, char **argv) {
	int code = hd_options_read(&command_line, argc, argv, &tool, NULL);

	if (code == 0 && optind == argc)
		code = bad("LOG", "is missing", EX_USAGE);
	if (code > 0)
		(void)fputs("Try 'heddle-trace --help'.\n", stderr);
	return code;
}

static void report(void) {
	if (tool.unknown)
		(void)fprintf(
			stderr,
			"heddle-trace: %llu events of kinds that are not known were left out\n",
			(unsigned long long)tool.unknown
		);
	if (tool.cut)
		(void)fprintf(
			stderr,
			"heddle-trace: %llu last lines were cut short and left out\n",
			(unsigned long long)tool.cut
		);
}

int main(int argc, char **argv) {
	struct hd_topology *topology = NULL;
	int code = parse(argc, argv);

	if (code != EX_OK)
		return code < 0 ? EX_OK : code;
	tool.nodes = calloc(HD_TRACE_NODES_MAX, sizeof *tool.nodes);
	if (!tool.nodes)
		return EX_OSERR;
	if (tool.topology)
		code = read_topology(&topology);
	for (int i = optind; code == EX_OK && i < argc; i++)
		code = read_log(argv[i]);
	if (code == EX_OK)
		code = write_trace(topology);
	if (code == EX_OK)
		report();
	hd_topology_destroy(topology);
	free(tool.entries);
	free(tool.nodes);
	return code;
}
