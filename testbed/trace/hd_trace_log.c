/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses lines of event logs into events. */
#include "hd_message.h"
#include "hd_program.h"
#include "hd_trace.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

struct fault {
	char *text;
	size_t bytes;
	bool found;
};

__attribute__((format(printf, 2, 3))) static void
blame(struct fault *fault, const char *format, ...) {
	va_list arguments;

	if (fault->found)
		return;
	va_start(arguments, format);
	(void)vsnprintf(fault->text, fault->bytes, format, arguments);
	va_end(arguments);
	fault->found = true;
}

static uint64_t number(const json_t *line, const char *name, uint64_t limit, struct fault *fault) {
	const json_t *value = json_object_get(line, name);
	json_int_t read = json_integer_value(value);

	if (!value)
		return 0;
	if (!json_is_integer(value) || read < 0 || (uint64_t)read > limit) {
		blame(fault,
		      "%s: must be a whole number (limit %llu)",
		      name,
		      (unsigned long long)limit);
		return 0;
	}
	return (uint64_t)read;
}

static const char *text(const json_t *line, const char *name, struct fault *fault) {
	const json_t *value = json_object_get(line, name);

	if (value && !json_is_string(value))
		blame(fault, "%s: must be a text", name);
	return json_string_value(value);
}

static uint64_t token(const json_t *line, struct fault *fault) {
	const char *hex = text(line, "token", fault);
	char *end;
	uint64_t value;

	if (!hex)
		return 0;
	value = strtoull(hex, &end, 16);
	if (strlen(hex) != 16 || *end != '\0')
		blame(fault, "token: must be 16 hex digits");
	return value;
}

static enum hd_event_kind kind_of(const char *name) {
	for (int i = 0; name && i < HD_EVENT_COUNT; i++)
		if (strcmp(name, hd_event_name((enum hd_event_kind)i)) == 0)
			return (enum hd_event_kind)i;
	return HD_EVENT_COUNT;
}

static enum hd_reason reason_of(const char *name, struct fault *fault) {
	for (int i = 0; name && i < HD_REASON_COUNT; i++)
		if (strcmp(name, hd_reason_name((enum hd_reason)i)) == 0)
			return (enum hd_reason)i;
	if (name)
		blame(fault, "reason: '%.20s' is not known", name);
	return HD_REASON_NONE;
}

static void read_fields(const json_t *line, struct hd_event *event, struct fault *fault) {
	const char *direction = text(line, "direction", fault);
	uint64_t incarnation = number(line, "incarnation", UINT16_MAX, fault);
	uint64_t base_incarnation = number(line, "base_incarnation", UINT16_MAX, fault);
	uint64_t counter_max = (UINT64_C(1) << 48) - 1;

	event->at = number(line, "at_ns", INT64_MAX, fault);
	event->reason = reason_of(text(line, "reason", fault), fault);
	event->job = (uint32_t)number(line, "job", UINT32_MAX, fault);
	event->worker = (uint16_t)number(line, "worker", UINT16_MAX, fault);
	event->direction = direction && strcmp(direction, "pull") == 0 ? HD_PULL : HD_PUSH;
	event->round = (uint32_t)number(line, "round", UINT32_MAX, fault);
	event->token = token(line, fault);
	event->position = number(line, "position", INT64_MAX, fault);
	event->version = hd_version_make(
		(uint16_t)incarnation, number(line, "version", counter_max, fault)
	);
	event->base = hd_version_make(
		(uint16_t)base_incarnation, number(line, "base", counter_max, fault)
	);
	event->bytes = number(line, "bytes", INT64_MAX, fault);
	event->aux = number(line, "aux", INT64_MAX, fault);
	event->value = json_number_value(json_object_get(line, "value"));
	event->more = (uint16_t)number(line, "more", UINT16_MAX, fault);
	if (!json_object_get(line, "at_ns"))
		blame(fault, "at_ns: is missing");
}

int hd_trace_parse(
	const char *line,
	struct hd_event *event,
	char node[2 * HD_NAME_BYTES_MAX + 1],
	char *error,
	size_t error_bytes
) {
	struct fault fault = {.text = error, .bytes = error_bytes};
	struct hd_event read = {0};
	json_error_t where;
	json_t *tree = json_loads(line, JSON_REJECT_DUPLICATES, &where);
	const char *name = text(tree, "node", &fault), *kind = text(tree, "event", &fault);

	if (!json_is_object(tree))
		blame(&fault, "is not a JSON object");
	else if (!name || !kind || strlen(name) > HD_NAME_BYTES_MAX)
		blame(&fault, "%s: is missing or too long", !kind ? "event" : "node");
	else
		read_fields(tree, &read, &fault);
	read.kind = fault.found ? HD_EVENT_NONE : kind_of(kind);
	if (!fault.found && read.kind != HD_EVENT_COUNT) {
		*event = read;
		hd_event_json_name(name, node, 2 * HD_NAME_BYTES_MAX + 1);
	}
	json_decref(tree);
	if (fault.found)
		return -EINVAL;
	return read.kind == HD_EVENT_COUNT ? -ENOENT : 0;
}
