/* SPDX-License-Identifier: BSD-3-Clause */
/* The events of heddle-sim's single run: as JSON lines, and as spans. */
#include "hd_program.h"
#include "hd_trace.h"
#include "sim_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

struct sim_trace {
	FILE *lines, *file;
	struct hd_trace *spans; /* into file */
	struct hd_topology *topology;
};

static FILE *create_file(const char *path, int *code) {
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!path || file)
		return file;
	(void)fprintf(stderr, "heddle-sim: %s: %s\n", path, strerror(errno));
	*code = EX_CANTCREAT;
	return NULL;
}

int sim_trace_open(const struct sim_options *options, struct sim_trace **trace) {
	struct sim_trace *t = calloc(1, sizeof *t);
	int code = EX_OK;

	if (!t)
		return EX_OSERR;
	t->lines = create_file(options->trace, &code);
	t->file = create_file(options->perfetto, &code);
	*trace = t;
	return code;
}

int sim_trace_begin(struct sim_trace *trace, const struct hd_scenario *scenario) {
	struct hd_trace_config config = {.out = trace->file};
	char error[256];

	if (!trace->file)
		return EX_OK;
	trace->topology = hd_cluster_topology(scenario, error, sizeof error);
	config.topology = trace->topology;
	if (!trace->topology || hd_trace_create(&config, &trace->spans) < 0) {
		(void)fprintf(stderr, "heddle-sim: trace: out of memory\n");
		return EX_OSERR;
	}
	return EX_OK;
}

void sim_trace_event(void *owner, const char *node, const struct hd_event *event) {
	struct sim_trace *trace = owner;
	char line[HD_EVENT_JSON_BYTES];

	if (trace->lines)
		(void)fwrite(line, 1, hd_event_json(event, node, line), trace->lines);
	if (trace->spans)
		(void)hd_trace_event(trace->spans, node, event);
}

int sim_trace_close(struct sim_trace *trace) {
	int code;

	if (!trace)
		return 0;
	code = hd_trace_finish(trace->spans);
	if (trace->lines && fclose(trace->lines) != 0)
		code = -errno;
	if (trace->file && fclose(trace->file) != 0)
		code = -errno;
	hd_topology_destroy(trace->topology);
	free(trace);
	return code;
}
