/* SPDX-License-Identifier: BSD-3-Clause */
/* The trainer's messages while it runs: text, or with --log-json the JSON lines that Heddle's services write. */
#include "hd_options.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static bool json_lines;

void train_log_json(void) {
	json_lines = true;
}

static void time_text(char *text, size_t bytes) {
	char seconds[32];
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	(void)strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(text, bytes, "%s.%06ldZ", seconds, now.tv_nsec / 1000);
}

/* Takes ownership of `detail`. */
static void
put_json(enum heddle_log_level level, const char *event, const char *message, json_t *detail) {
	static const struct {
		const char *name;
		int priority; /* RFC 5424 */
	} levels[] = {{"error", 3}, {"warning", 4}, {"info", 6}};
	const char *rank = getenv("HEDDLE_RANK");
	json_t *text = json_string(message), *object; /* NULL: not UTF-8, as a path may be */
	char when[64], node[32], *line;

	time_text(when, sizeof when);
	(void)snprintf(node, sizeof node, "w%.20s", rank ? rank : "0");
	object = json_pack(
		"{s:s, s:s, s:i, s:s, s:i, s:s, s:s, s:o, s:o*}",
		"time",
		when,
		"level",
		levels[level].name,
		"priority",
		levels[level].priority,
		"program",
		"heddle-train",
		"pid",
		(int)getpid(),
		"node",
		node,
		"event",
		event,
		"message",
		text ? text : json_string("(not UTF-8)"),
		"detail",
		detail
	);
	line = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	if (line)
		(void)fprintf(stderr, "%s\n", line); /* one write: it is not buffered */
	free(line);
	json_decref(object);
}

__attribute__((format(printf, 3, 0))) static void
log_line(enum heddle_log_level level, const char *event, const char *format, va_list arguments) {
	char message[1024];

	(void)vsnprintf(message, sizeof message, format, arguments);
	if (json_lines)
		put_json(level, event, message, NULL);
	else
		(void)fprintf(stderr, "heddle-train: %s\n", message);
}

int train_fail(int status, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	log_line(HEDDLE_LOG_ERROR, "failed", format, arguments);
	va_end(arguments);
	return status;
}

void train_note(const char *event, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	log_line(HEDDLE_LOG_INFO, event, format, arguments);
	va_end(arguments);
}

/* As text only warnings: failing calls report errors. */
static void on_log(void *arg, enum heddle_log_level level, const char *text) {
	if (json_lines)
		put_json(level, "fabric", text, NULL);
	else if (level == HEDDLE_LOG_WARNING)
		(void)fprintf(stderr, "heddle-train: warning: %s\n", text);
}

void train_log_options(struct heddle_options *options) {
	options->log = on_log;
}

void train_log_progress(const struct train_progress *p) {
	char message[160];

	(void)snprintf(
		message,
		sizeof message,
		"step %llu: version %llu, loss %.4f, applied %llu, dropped %llu, delay %.1f",
		(unsigned long long)p->steps,
		(unsigned long long)p->version,
		p->loss,
		(unsigned long long)p->applied,
		(unsigned long long)p->dropped,
		p->delay_mean
	);
	if (!json_lines) {
		(void)printf("%s\n", message);
		return;
	}
	put_json(
		HEDDLE_LOG_INFO,
		"progress",
		message,
		json_pack(
			"{s:I, s:I, s:f, s:I, s:I, s:f}",
			"steps",
			(json_int_t)p->steps,
			"version",
			(json_int_t)p->version,
			"loss",
			p->loss,
			"applied",
			(json_int_t)p->applied,
			"dropped",
			(json_int_t)p->dropped,
			"delay_mean",
			p->delay_mean
		)
	);
}

void train_log_scale(const struct heddle_members *members, float scale) {
	char message[96];

	(void
	)snprintf(message, sizeof message, "%u workers: scale %.6g", members->count, (double)scale);
	if (!json_lines) {
		(void)printf("%s\n", message);
		return;
	}
	put_json(
		HEDDLE_LOG_INFO,
		"scale",
		message,
		json_pack(
			"{s:I, s:I, s:f}",
			"change",
			(json_int_t)members->change,
			"workers",
			(json_int_t)members->count,
			"scale",
			(double)scale
		)
	);
}
