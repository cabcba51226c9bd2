/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of an event log, whatever they say: what can be read becomes a trace that is JSON. */
#include "fuzz.h"
#include "hd_trace.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show(struct hd_trace *trace, const char *line) {
	char node[2 * HD_NAME_BYTES_MAX + 1], error[128] = "";
	struct hd_event event;
	int code = hd_trace_parse(line, &event, node, error, sizeof error);

	CHECK((code == -EINVAL) == (*error != '\0'));
	if (code == 0)
		CHECK(hd_trace_event(trace, node, &event) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	char *text = malloc(bytes + 1), *shown = NULL, *rest;
	size_t shown_bytes;
	struct hd_trace_config config = {.out = open_memstream(&shown, &shown_bytes)};
	struct hd_trace *trace;
	json_t *json;

	CHECK(text && config.out && hd_trace_create(&config, &trace) == 0);
	if (bytes > 0)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		show(trace, line);
	CHECK(hd_trace_finish(trace) == 0);
	(void)fclose(config.out);
	json = json_loads(shown, JSON_REJECT_DUPLICATES, NULL);
	CHECK(json_is_array(json_object_get(json, "traceEvents")));
	json_decref(json);
	free(shown);
	free(text);
	return 0;
}
