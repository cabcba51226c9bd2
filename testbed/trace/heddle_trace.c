/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-trace: event logs of a cluster's nodes into one trace for Perfetto and chrome://tracing. */
#include "hd_trace.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define OFFSETS_MAX 1024
#define TOPOLOGY_BYTES_MAX HD_CONFIG_BYTES_MAX

static const char usage[]
	= "usage: heddle-trace [OPTIONS] LOG...\n"
	  "Event logs (--events, HEDDLE_EVENTS) as spans that Perfetto (https://ui.perfetto.dev) and\n"
	  "chrome://tracing open: what each worker, server and link did when, and what it waited for.\n"
	  "  --output FILE       write there and not to the standard output\n"
	  "  --topology FILE     the controller's: names links, and shows what crosses each\n"
	  "  --offset NODE=S     add so many seconds to a node's times (clocks of several machines)\n"
	  "  --help\n"
	  "A last line that a crash cut short is left out. Exit: 0; 64 usage; 65 a log; 66 no such file.\n";

struct entry {
	struct hd_event event;
	uint32_t node;
	uint32_t order; /* of reading */
};

struct offset {
	char *node;
	int64_t ns;
};

static struct {
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
		if (strcmp(tool.offsets[i].node, node) == 0)
			return tool.offsets[i].ns;
	return 0;
}

/* A log's lines are mostly one node's: the last one found comes first. */
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
		grown = realloc(tool.entries, capacity * sizeof(*grown));
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
	int code = hd_trace_parse(line, &event, node, error, sizeof(error));

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
		    && hd_topology_parse(text, topology, error, sizeof(error)) == 0)
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
		qsort(tool.entries, tool.count, sizeof(*tool.entries), compare);
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

static int parse_offset(char *text) {
	char *equals = strrchr(text, '='), *end;
	double seconds;

	if (!equals || equals == text || tool.offset_count == OFFSETS_MAX)
		return bad("--offset", "must be NODE=SECONDS (limit 1024 of them)", EX_USAGE);
	seconds = strtod(equals + 1, &end);
	if (end == equals + 1 || *end != '\0' || !(seconds > -1e9 && seconds < 1e9))
		return bad("--offset", "must be NODE=SECONDS (limit 1e9)", EX_USAGE);
	*equals = '\0';
	tool.offsets[tool.offset_count++]
		= (struct offset){.node = text, .ns = (int64_t)(seconds * 1e9)};
	return EX_OK;
}

static int parse(int argc, char **argv) {
	static const struct option options[] = {
		{"output", required_argument, NULL, 'o'},
		{"topology", required_argument, NULL, 't'},
		{"offset", required_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, code = EX_OK;

	while (code == EX_OK && (option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (option) {
		case 'o':
			tool.output = optarg;
			break;
		case 't':
			tool.topology = optarg;
			break;
		case 'f':
			code = parse_offset(optarg);
			break;
		case 'h':
			(void)fputs(usage, stdout);
			exit(EX_OK);
		default:
			code = EX_USAGE;
		}
	}
	if (code == EX_OK && optind == argc)
		code = bad("LOG", "is missing", EX_USAGE);
	if (code != EX_OK)
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
		return code;
	tool.nodes = calloc(HD_TRACE_NODES_MAX, sizeof(*tool.nodes));
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
