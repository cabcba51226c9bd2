/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A long-running program's messages to its operator, on standard error: a line of text, or with --log-json a JSON
 * object a line for journald, Elasticsearch and the like:
 *   {"time": RFC 3339 in UTC, "level", "priority" (syslog's number), "program", "pid", "node", "event",
 *    "message", "detail": the event as in the event log, if there is one}
 * Each line is one write; a line that cannot be written at once is lost and counted. Any thread.
 */
#ifndef HD_LOG_H
#define HD_LOG_H

#include "hd_event.h"

#include <stdarg.h>
#include <stdatomic.h>

enum hd_log_level {
	HD_LOG_ERROR,
	HD_LOG_WARNING,
	HD_LOG_INFO,
	HD_LOG_DEBUG,
	HD_LOG_LEVELS
};

struct hd_log {
	const char *program, *node;
	bool json;
	int fd;
	_Atomic int level; // writer: the core's thread; readers: any
	_Atomic uint64_t lines, errors, lost; // writers: any
};

/* program and node must outlive the log. */
void hd_log_init(struct hd_log *log, const char *program, const char *node);
/* "error", "warning", "info", "debug". 0 or -EINVAL. */
int hd_log_set_level(struct hd_log *log, const char *text);
const char *hd_log_level_name(const struct hd_log *log);
bool hd_log_wants(const struct hd_log *log, enum hd_log_level level);

/* `event` is a stable word, like "listening" or "checkpoint"; detail may be NULL. */
__attribute__((format(printf, 5, 6))) void hd_log_write(
	struct hd_log *log,
	enum hd_log_level level,
	const char *event,
	const struct hd_event *detail,
	const char *format,
	...
);
void hd_log_vwrite(
	struct hd_log *log,
	enum hd_log_level level,
	const char *event,
	const struct hd_event *detail,
	const char *format,
	va_list args
);
/* Logs an error (event "failed") and returns `code`, as in `return hd_log_fail(log, EX_USAGE, "--x: missing")`. */
__attribute__((format(printf, 3, 4))) int
hd_log_fail(struct hd_log *log, int code, const char *format, ...);
/* Logs an event of the core as a sentence, at a level of its own: nodes that come and go are info, decisions debug. */
void hd_log_event(struct hd_log *log, const struct hd_event *event);

#endif
