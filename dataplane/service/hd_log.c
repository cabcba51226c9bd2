/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_driver.h"
#include "hd_log.h"
#include "hd_message.h"
#include "hd_out.h"
#include "hd_program.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES 1024

static const struct {
	const char *name;
	int priority; /* RFC 5424 */
} levels[HD_LOG_LEVELS] = {
	[HD_LOG_ERROR] = {"error", 3},
	[HD_LOG_WARNING] = {"warning", 4},
	[HD_LOG_INFO] = {"info", 6},
	[HD_LOG_DEBUG] = {"debug", 7},
};

void hd_log_init(struct hd_log *log, const char *program, const char *node) {
	log->program = program;
	log->node = node;
	log->json = false;
	log->fd = STDERR_FILENO;
	atomic_init(&log->level, HD_LOG_INFO);
	atomic_init(&log->lines, 0);
	atomic_init(&log->errors, 0);
	atomic_init(&log->lost, 0);
}

int hd_log_set_level(struct hd_log *log, const char *text) {
	for (int level = 0; level < HD_LOG_LEVELS; level++)
		if (strcmp(levels[level].name, text) == 0) {
			atomic_store(&log->level, level);
			return 0;
		}
	return -EINVAL;
}

const char *hd_log_level_name(const struct hd_log *log) {
	return levels[atomic_load(&log->level)].name;
}

bool hd_log_wants(const struct hd_log *log, enum hd_log_level level) {
	return (int)level <= atomic_load(&log->level);
}

static void put_time(struct hd_out *out) {
	struct timespec now;
	char text[96];
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	(void)snprintf(
		text,
		sizeof text,
		"%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ",
		tm.tm_year + 1900,
		tm.tm_mon + 1,
		tm.tm_mday,
		tm.tm_hour,
		tm.tm_min,
		tm.tm_sec,
		now.tv_nsec / 1000
	);
	hd_out_json(out, text);
}

static void put_member(struct hd_out *out, const char *key, const char *value) {
	hd_out_text(out, ",\"");
	hd_out_text(out, key);
	hd_out_text(out, "\":");
	hd_out_json(out, value);
}

static void put_json(
	const struct hd_log *log,
	enum hd_log_level level,
	const char *event,
	const struct hd_event *detail,
	const char *message,
	struct hd_out *out
) {
	char json[HD_EVENT_JSON_BYTES], node[2 * HD_NAME_BYTES_MAX + 1];

	hd_out_text(out, "{\"time\":");
	put_time(out);
	put_member(out, "level", levels[level].name);
	hd_out_text(out, ",\"priority\":");
	hd_out_u64(out, (uint64_t)levels[level].priority);
	put_member(out, "program", log->program);
	hd_out_text(out, ",\"pid\":");
	hd_out_u64(out, (uint64_t)getpid());
	put_member(out, "node", log->node);
	put_member(out, "event", event);
	put_member(out, "message", message);
	if (detail) {
		hd_event_json_name(log->node, node, sizeof node);
		hd_out_text(out, ",\"detail\":");
		hd_out_bytes(out, json, hd_event_json(detail, node, json) - 1);
	}
	hd_out_text(out, "}\n");
}

static void put_text(const struct hd_log *log, const char *message, struct hd_out *out) {
	hd_out_text(out, log->program);
	hd_out_text(out, ": ");
	hd_out_text(out, message);
	hd_out_char(out, '\n');
}

/* When a pipe has no reader, a line is lost rather than the node delayed. */
static bool writable(int fd) {
	struct pollfd wait = {.fd = fd, .events = POLLOUT};

	return poll(&wait, 1, 0) == 1 && (wait.revents & POLLOUT);
}

void hd_log_vwrite(
	struct hd_log *log,
	enum hd_log_level level,
	const char *event,
	const struct hd_event *detail,
	const char *format,
	va_list args
) {
	struct hd_out out = {0};
	char message[TEXT_BYTES];
	int saved = errno;

	if (!hd_log_wants(log, level))
		return;
	(void)vsnprintf(message, sizeof message, format, args);
	if (log->json)
		put_json(log, level, event, detail, message, &out);
	else
		put_text(log, message, &out);
	atomic_fetch_add(&log->lines, 1);
	if (level == HD_LOG_ERROR)
		atomic_fetch_add(&log->errors, 1);
	if (out.failed || !writable(log->fd) || write(log->fd, out.data, out.bytes) < 0)
		atomic_fetch_add(&log->lost, 1);
	hd_out_fini(&out);
	errno = saved;
}

void hd_log_write(
	struct hd_log *log,
	enum hd_log_level level,
	const char *event,
	const struct hd_event *detail,
	const char *format,
	...
) {
	va_list args;

	va_start(args, format);
	hd_log_vwrite(log, level, event, detail, format, args);
	va_end(args);
}

int hd_log_fail(struct hd_log *log, int code, const char *format, ...) {
	va_list args;

	va_start(args, format);
	hd_log_vwrite(log, HD_LOG_ERROR, "failed", NULL, format, args);
	va_end(args);
	return code;
}

/* --- events of the core ---------------------------------------------------------------------- */

#define WHO_BYTES 512 /* names of a host, a node, a tenant and a job, and some words */

static bool of_node(const struct hd_event *event) {
	return event->kind == HD_EVENT_NODE_UP || event->kind == HD_EVENT_NODE_DOWN;
}

static enum hd_log_level level_of(const struct hd_event *event) {
	/* A shell connects for each command, which is logged itself. */
	if (of_node(event) && event->aux == HD_ROLE_SHELL)
		return HD_LOG_DEBUG;
	switch (event->kind) {
	case HD_EVENT_NODE_UP:
	case HD_EVENT_NODE_DOWN:
	case HD_EVENT_NOTICE:
	case HD_EVENT_PROMOTED:
	case HD_EVENT_CHECKPOINT:
	case HD_EVENT_STEP_WAITS:
	case HD_EVENT_LEFT_OUT:
		return HD_LOG_INFO;
	case HD_EVENT_FALLBACK:
	case HD_EVENT_ROLLED_BACK:
		return HD_LOG_WARNING;
	default:
		return HD_LOG_DEBUG;
	}
}

static bool is_given(const char *text) {
	return text && text[0];
}

__attribute__((format(printf, 2, 3))) static void put(struct hd_out *out, const char *format, ...) {
	char text[WHO_BYTES];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	hd_out_text(out, text);
}

/* By its name if the node knows it, else by its id. */
static void put_job(struct hd_out *out, const struct hd_event *event) {
	const struct hd_who *who = event->who;

	if (who && is_given(who->job))
		put(out, "job %s/%s", who->tenant, who->job);
	else
		put(out, "job %08x", event->job);
}

/* worker 3 of job vision/resnet on host h3 (w3, 10.0.0.3:4773) */
static void put_node(struct hd_out *out, const struct hd_event *event, uint8_t role) {
	const struct hd_who *who = event->who;
	char address[HD_ADDR_TEXT_BYTES] = "";

	hd_out_text(out, hd_role_name(role));
	if (role == HD_ROLE_WORKER && event->job) {
		put(out, " %u of ", event->worker);
		put_job(out, event);
	}
	if (!who)
		return;
	if (is_given(who->host))
		put(out, " on host %s", who->host);
	if (hd_addr_is_none(who->address))
		return;
	hd_driver_print_addr(who->address, address);
	put(out,
	    " (%s%s%s)",
	    is_given(who->name) ? who->name : "",
	    is_given(who->name) ? ", " : "",
	    address);
}

static void put_promoted(struct hd_out *out, const struct hd_event *event) {
	put_job(out, event);
	hd_out_text(out, " goes on from version ");
	hd_out_version(out, event->version);
	if (event->aux > 0)
		put(out, ", without %llu known commits", (unsigned long long)event->aux);
	if (!event->who || !is_given(event->who->host))
		return; /* the replica logs it itself */
	hd_out_text(out, " at the ");
	put_node(out, event, HD_ROLE_REPLICA);
}

static void put_rolled_back(struct hd_out *out, const struct hd_event *event) {
	put_job(out, event);
	put(out, " lost %llu commits, goes on from ", (unsigned long long)event->aux);
	hd_out_version(out, event->version);
	if (event->who && is_given(event->who->host))
		put(out, " on host %s", event->who->host);
}

static void put_waits(struct hd_out *out, const struct hd_event *event) {
	put_job(out, event);
	put(out,
	    " for %.1f s, for worker %u and %llu more",
	    event->value,
	    event->worker,
	    (unsigned long long)event->aux - 1);
}

static void put_left_out(struct hd_out *out, const struct hd_event *event) {
	put_node(out, event, HD_ROLE_WORKER);
	put(out,
	    ": collective %u began without it, which had not called it within %.1f s",
	    event->round,
	    event->value);
}

static void put_who(struct hd_out *out, const struct hd_event *event) {
	if (of_node(event)) {
		put_node(out, event, (uint8_t)(event->aux < 256 ? event->aux : 0));
	} else if (event->kind == HD_EVENT_NOTICE) {
		put_node(out, event, HD_ROLE_WORKER);
		put(out, " is preempted in %.1f s", event->value);
	} else if (event->kind == HD_EVENT_LEFT_OUT) {
		put_left_out(out, event);
	} else if (event->kind == HD_EVENT_PROMOTED) {
		put_promoted(out, event);
	} else if (event->kind == HD_EVENT_ROLLED_BACK) {
		put_rolled_back(out, event);
	} else if (event->kind == HD_EVENT_STEP_WAITS && event->aux > 0) {
		put_waits(out, event);
	} else if (event->job) {
		put_job(out, event);
		if (event->round)
			put(out,
			    " worker %u %s %u",
			    event->worker,
			    event->direction == HD_PULL ? "pull" : "push",
			    event->round);
	}
}

void hd_log_event(struct hd_log *log, const struct hd_event *event) {
	enum hd_log_level level = level_of(event);
	bool because = event->reason != HD_REASON_NONE;
	struct hd_out out = {0};

	if (!hd_log_wants(log, level))
		return;
	put_who(&out, event);
	hd_log_write(
		log,
		level,
		hd_event_name(event->kind),
		event,
		"%s%s%.*s%s%s",
		hd_event_name(event->kind),
		out.bytes ? ": " : "",
		(int)out.bytes,
		out.bytes ? (const char *)out.data : "",
		because ? ": " : "",
		because ? hd_reason_name(event->reason) : ""
	);
	hd_out_fini(&out);
}
