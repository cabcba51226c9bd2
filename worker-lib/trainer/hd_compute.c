/* SPDX-License-Identifier: BSD-3-Clause */
/* Padding of compute time and its schedule. */
#include "hd_trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void hd_trainer_put(char *error, size_t error_bytes, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(error, error_bytes, format, arguments);
	va_end(arguments);
}

hd_ns hd_compute_now(void) {
	struct timespec now = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (hd_ns)now.tv_sec * HD_SECOND + (hd_ns)now.tv_nsec;
}

/* "t_s factor"; blank lines and lines that begin with # are skipped (returns 0), 1: parsed. */
static int parse_line(struct hd_compute *compute, char *line, char *error, size_t error_bytes) {
	char *at = line, *end;
	double at_s, factor;

	compute->line++;
	at += strspn(at, " \t\r");
	if (*at == '\0' || *at == '#')
		return 0;
	at_s = strtod(at, &end);
	if (end != at) {
		at = end;
		factor = strtod(at, &end);
		end += end == at ? 0 : strspn(end, " \t\r");
		if (end != at && *end == '\0' && isfinite(at_s) && at_s >= 0 && factor >= 0.0
		    && factor <= 1e6) {
			compute->next_s = at_s;
			compute->next_factor = factor;
			compute->has_next = true;
			return 1;
		}
	}
	hd_trainer_put(
		error,
		error_bytes,
		"schedule: line %u: not 't_s factor' with t_s >= 0 and factor in 0..1e6",
		compute->line
	);
	return -EINVAL;
}

/* The next line into *line: 1, 0 (none yet, or no more), -EINVAL (too long). */
static int take_line(struct hd_compute *compute, char *line, char *error, size_t error_bytes) {
	char *newline = memchr(compute->buffer, '\n', compute->buffered);
	size_t length;

	if (!newline && compute->buffered < sizeof compute->buffer) {
		ssize_t got
			= read(compute->fd,
			       compute->buffer + compute->buffered,
			       sizeof compute->buffer - compute->buffered);

		if (got > 0)
			compute->buffered += (size_t)got;
		newline = memchr(compute->buffer, '\n', compute->buffered);
		if (!newline && got == 0 && compute->buffered > 0 && !compute->fifo
		    && compute->buffered < sizeof compute->buffer) {
			/* The last line of a file may lack its newline. */
			newline = compute->buffer + compute->buffered++;
			*newline = '\n';
		}
	}
	if (!newline && compute->buffered == sizeof compute->buffer) {
		hd_trainer_put(
			error,
			error_bytes,
			"schedule: line %u: longer than %zu bytes",
			compute->line + 1,
			sizeof compute->buffer
		);
		return -EINVAL;
	}
	if (!newline)
		return 0;
	length = (size_t)(newline - compute->buffer);
	memcpy(line, compute->buffer, length);
	line[length] = '\0';
	compute->buffered -= length + 1;
	memmove(compute->buffer, newline + 1, compute->buffered);
	return 1;
}

/* Applies every line whose time has come. */
static int follow(struct hd_compute *compute, hd_ns now, char *error, size_t error_bytes) {
	char line[sizeof compute->buffer + 1];
	double now_s = (double)(now - compute->started) * 1e-9;

	if (compute->fd < 0)
		return 0;
	for (;;) {
		int rc;

		if (compute->has_next && compute->next_s > now_s)
			return 0;
		if (compute->has_next)
			compute->factor = compute->next_factor;
		compute->has_next = false;
		if (compute->line >= HD_SCHEDULE_LINES_MAX) {
			hd_trainer_put(
				error,
				error_bytes,
				"schedule: more than %d lines (HD_SCHEDULE_LINES_MAX)",
				HD_SCHEDULE_LINES_MAX
			);
			return -EINVAL;
		}
		rc = take_line(compute, line, error, error_bytes);
		if (rc > 0)
			rc = parse_line(compute, line, error, error_bytes);
		else if (rc == 0)
			return 0;
		if (rc < 0)
			return rc;
	}
}

int hd_compute_init(
	struct hd_compute *compute,
	double compute_ms,
	const char *schedule,
	char *error,
	size_t error_bytes
) {
	struct hd_compute result = {.compute_ms = compute_ms, .factor = 1.0, .fd = -1};
	struct stat status;
	int rc;

	if (!(compute_ms >= 0.0 && compute_ms <= 1e6)) {
		hd_trainer_put(error, error_bytes, "compute-ms: not in 0..1e6");
		return -EINVAL;
	}
	result.started = hd_compute_now();
	if (schedule) {
		result.fd = open(schedule, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (result.fd < 0 || fstat(result.fd, &status) < 0) {
			rc = -errno;
			hd_trainer_put(
				error, error_bytes, "schedule: %s: %s", schedule, strerror(errno)
			);
			hd_compute_fini(&result);
			return rc;
		}
		result.fifo = S_ISFIFO(status.st_mode);
	}
	rc = follow(&result, result.started, error, error_bytes);
	if (rc < 0) {
		hd_compute_fini(&result);
		return rc;
	}
	*compute = result;
	return 0;
}

void hd_compute_fini(struct hd_compute *compute) {
	if (compute->fd >= 0)
		close(compute->fd);
	compute->fd = -1;
}

/* Returns the time that it slept, or -EINTR in *rc. */
static hd_ns sleep_until(hd_ns until, int *rc) {
	const hd_ns now = hd_compute_now();
	const struct timespec when = {
		.tv_sec = (time_t)(until / HD_SECOND),
		.tv_nsec = (long)(until % HD_SECOND),
	};

	*rc = 0;
	if (until <= now)
		return 0;
	if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) != 0)
		*rc = -EINTR;
	return hd_compute_now() - now;
}

static hd_ns span_of(const struct hd_compute *compute, double share) {
	return (hd_ns)(share * compute->compute_ms * compute->factor * 1e6);
}

int hd_compute_pad(struct hd_compute *compute, hd_ns begun, char *error, size_t error_bytes) {
	hd_ns now = hd_compute_now(), until;
	int rc = follow(compute, now, error, error_bytes);

	if (rc < 0)
		return rc;
	until = begun + span_of(compute, 1);
	compute->compute_ns += now - begun - compute->held_ns;
	compute->held_ns = 0;
	if (until <= now) {
		compute->overruns += compute->compute_ms > 0.0;
		return 0;
	}
	compute->padded_ns += sleep_until(until, &rc);
	return rc;
}

void hd_compute_hold(struct hd_compute *compute, hd_ns begun, double share) {
	int rc;
	const hd_ns slept = sleep_until(begun + span_of(compute, share), &rc);

	compute->held_ns += slept;
	compute->padded_ns += slept;
}
