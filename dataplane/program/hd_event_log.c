/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event log. The node's thread fills one buffer while the log's thread writes the other, so that a slow disk delays
 * no packet; the node's thread waits only when a whole buffer has filled within 200 ms. Events are lost only when the
 * disk takes none (it is full): they are counted, their owner is told once, and once there is room again an event in
 * their place says how many. Lines are never cut. Events for a pipe without a reader are lost too, LOG_READER_MS after
 * another thread begins to wait for it: the node's thread, or the end of the program.
 *
 *      | LOG_KEEP_BYTES |                          |    each of the two, of LOG_BUFFER_BYTES
 *        200 ms of events  only while a disk stalls: its pages are released once they are written
 */
#include "hd_limits.h"
#include "hd_program.h"
#include "hd_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LOG_BUFFER_BYTES (1u << 20)
#define LOG_KEEP_BYTES (128u << 10) /* whole pages: Linux has them of up to 64 KiB */
#define LOG_INTERVAL_MS 200
#define LOG_READER_MS 300 /* sessions end after HD_SILENCE_US */
#define LOG_POLL_MS 20

struct hd_event_log {
	int fd;
	char *buffers; // the two
	char node[2 * HD_NAME_BYTES_MAX + 1];
	pthread_t thread;
	pthread_mutex_t lock; // guards all fields below
	pthread_cond_t filled; // to the writer: an interval has its first line, or the end
	pthread_cond_t hurry; // to the writer, within an interval: full, or the end
	pthread_cond_t written; // from the writer: there is room
	char *front; // writer: add()
	size_t front_bytes;
	char *back; // writer: the log's thread, while `writing`
	bool closing, full;
	int error; // the first one
	uint64_t added, ended; // bytes added; bytes written or given up
	uint64_t lost, lost_since; // events: in all, and since the last successful write
	void (*trouble)(void *owner, const char *sentence);
	void *owner;
	// the log's thread only
	uint64_t offset; // in the file
	bool ragged; // its last line is incomplete
};

/* A pipe is full. Waits for its reader; false: it is given up, as another thread waits for us. */
static bool wait_for_reader(struct hd_event_log *log, int *patience_ms) {
	struct pollfd pipe = {.fd = log->fd, .events = POLLOUT};

	if (poll(&pipe, 1, LOG_POLL_MS) != 0)
		return true; /* write() reports the error */
	pthread_mutex_lock(&log->lock);
	if (log->lost_since > 0)
		*patience_ms = 0;
	else if (log->full || log->closing)
		*patience_ms -= LOG_POLL_MS;
	pthread_mutex_unlock(&log->lock);
	return *patience_ms > 0;
}

/* Writes as much as possible: returns the bytes written, with -errno of the failure in *error. */
static size_t write_some(struct hd_event_log *log, const char *data, size_t bytes, int *error) {
	int patience_ms = LOG_READER_MS;
	size_t done = 0;

	*error = 0;
	while (done < bytes) {
		ssize_t n = write(log->fd, data + done, bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && wait_for_reader(log, &patience_ms))
			continue;
		if (n <= 0) {
			*error = n < 0 ? -errno : -EIO;
			break;
		}
		done += (size_t)n;
	}
	return done;
}

static uint64_t count_lines(const char *data, size_t bytes) {
	uint64_t lines = 0;

	for (size_t i = 0; i < bytes; i++)
		lines += data[i] == '\n';
	return lines;
}

/* Removes a line that was written only in part. */
static void complete_line(struct hd_event_log *log, const char *data, size_t written) {
	size_t whole = written;

	while (whole > 0 && data[whole - 1] != '\n')
		whole--;
	log->offset += whole;
	if (whole == written)
		return;
	if (ftruncate(log->fd, (off_t)log->offset) < 0
	    || lseek(log->fd, (off_t)log->offset, SEEK_SET) < 0) {
		log->offset += written - whole;
		log->ragged = true;
	}
}

/* The event that replaces `lost` others. */
static size_t gap_line(const struct hd_event_log *log, uint64_t lost, char *line) {
	struct hd_event event = {.kind = HD_EVENT_LOG_GAP, .aux = lost};
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	event.at = (hd_ns)now.tv_sec * HD_SECOND + (hd_ns)now.tv_nsec;
	return hd_event_json(&event, log->node, line);
}

/* Without the lock. Returns how many of the lines were lost. */
static uint64_t
write_lines(struct hd_event_log *log, const char *data, size_t bytes, uint64_t lost, int *error) {
	char gap[HD_EVENT_JSON_BYTES + 1];
	size_t gap_bytes = 0, written;

	if (log->ragged)
		gap[gap_bytes++] = '\n';
	if (lost > 0)
		gap_bytes += gap_line(log, lost, gap + gap_bytes);
	if (gap_bytes > 0) {
		written = write_some(log, gap, gap_bytes, error);
		complete_line(log, gap, written);
		if (*error < 0)
			return count_lines(data, bytes);
		log->ragged = false;
	}
	written = write_some(log, data, bytes, error);
	complete_line(log, data, written);
	return count_lines(data + written, bytes - written);
}

/* With the lock. */
static void account(struct hd_event_log *log, uint64_t lost, int error) {
	char text[128];

	if (error == 0) {
		if (log->lost_since > 0 && log->trouble) {
			(void)snprintf(
				text,
				sizeof text,
				"events are written again; %llu were lost",
				(unsigned long long)log->lost_since
			);
			log->trouble(log->owner, text);
		}
		log->lost_since = 0;
		return;
	}
	if (log->lost_since == 0 && log->trouble) {
		(void)snprintf(
			text,
			sizeof text,
			"%s: events are lost until there is room",
			error == -EAGAIN ? "the pipe has no reader" : strerror(-error)
		);
		log->trouble(log->owner, text);
	}
	log->lost += lost;
	log->lost_since += lost;
	if (log->error == 0)
		log->error = error;
}

/* Otherwise every stall longer than those before would enlarge the process for good. */
static void give_back(char *data, size_t used) {
	if (used > LOG_KEEP_BYTES)
		(void)madvise(data + LOG_KEEP_BYTES, used - LOG_KEEP_BYTES, MADV_DONTNEED);
}

/* Called with the lock; releases it while writing. */
static void write_front(struct hd_event_log *log) {
	char *data = log->front;
	size_t bytes = log->front_bytes;
	uint64_t lost = log->lost_since;
	int error;

	log->front = log->back;
	log->front_bytes = 0;
	log->back = data;
	log->full = false;
	pthread_cond_broadcast(&log->written);
	pthread_mutex_unlock(&log->lock);
	lost = write_lines(log, data, bytes, lost, &error);
	give_back(data, bytes);
	pthread_mutex_lock(&log->lock);
	log->ended += bytes;
	account(log, lost, error);
	pthread_cond_broadcast(&log->written);
}

static void gather(struct hd_event_log *log) {
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += LOG_INTERVAL_MS * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	while (!log->closing && !log->full)
		if (pthread_cond_timedwait(&log->hurry, &log->lock, &until) == ETIMEDOUT)
			break;
}

static void *run(void *argument) {
	struct hd_event_log *log = argument;

	pthread_mutex_lock(&log->lock);
	while (!log->closing || log->front_bytes > 0) {
		if (log->front_bytes == 0) {
			pthread_cond_wait(&log->filled, &log->lock);
			continue;
		}
		gather(log);
		write_front(log);
	}
	pthread_mutex_unlock(&log->lock);
	return NULL;
}

static void init_locks(struct hd_event_log *log) {
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&log->lock, NULL);
	pthread_cond_init(&log->filled, NULL);
	pthread_cond_init(&log->hurry, &monotonic);
	pthread_cond_init(&log->written, NULL);
	pthread_condattr_destroy(&monotonic);
}

static int map_buffers(struct hd_event_log *log) {
	void *pages
		= mmap(NULL,
		       (size_t)2 * LOG_BUFFER_BYTES,
		       PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS,
		       -1,
		       0);

	if (pages == MAP_FAILED)
		return -ENOMEM;
	log->buffers = pages;
	log->front = log->buffers;
	log->back = log->buffers + LOG_BUFFER_BYTES;
	return 0;
}

static void unmap_buffers(struct hd_event_log *log) {
	(void)munmap(log->buffers, (size_t)2 * LOG_BUFFER_BYTES);
}

/* Opening a pipe, and writing to a pipe or a terminal, must not wait for its reader. A pipe that has no reader yet
 * keeps as much as it has room for. */
static int open_file(const char *path) {
	const int flags = O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK;
	int fd = open(path, O_WRONLY | flags, 0640);

	if (fd < 0 && errno == ENXIO)
		fd = open(path, O_RDWR | flags, 0640);
	return fd < 0 ? -errno : fd;
}

int hd_event_log_open(const char *path, const char *node, struct hd_event_log **log) {
	struct hd_event_log *l = calloc(1, sizeof *l);
	int code;

	if (!l)
		return -ENOMEM;
	code = map_buffers(l);
	if (code < 0)
		goto free_log;
	l->fd = open_file(path);
	if (l->fd < 0) {
		code = l->fd;
		goto unmap;
	}
	hd_event_json_name(node, l->node, sizeof l->node);
	init_locks(l);
	code = hd_thread_start(&l->thread, NULL, run, l);
	if (code < 0)
		goto close_file;
	*log = l;
	return 0;

close_file:
	close(l->fd);
unmap:
	unmap_buffers(l);
free_log:
	free(l);
	return code;
}

void hd_event_log_add(void *argument, const struct hd_event *event) {
	struct hd_event_log *log = argument;
	size_t bytes;

	if (!log)
		return;
	pthread_mutex_lock(&log->lock);
	while (LOG_BUFFER_BYTES - log->front_bytes < HD_EVENT_JSON_BYTES) {
		log->full = true;
		pthread_cond_signal(&log->hurry);
		pthread_cond_wait(&log->written, &log->lock);
	}
	if (log->front_bytes == 0)
		pthread_cond_signal(&log->filled);
	bytes = hd_event_json(event, log->node, log->front + log->front_bytes);
	log->front_bytes += bytes;
	log->added += bytes;
	pthread_mutex_unlock(&log->lock);
}

int hd_event_log_sync(struct hd_event_log *log) {
	uint64_t until, lost;
	bool well;

	if (!log)
		return 0;
	pthread_mutex_lock(&log->lock);
	until = log->added;
	lost = log->lost;
	while (log->ended < until) {
		log->full = true;
		pthread_cond_signal(&log->filled);
		pthread_cond_signal(&log->hurry);
		pthread_cond_wait(&log->written, &log->lock);
	}
	well = log->lost == lost;
	pthread_mutex_unlock(&log->lock);
	if (!well)
		return -ENOSPC;
	/* EINVAL: a pipe, a terminal. */
	return fdatasync(log->fd) < 0 && errno != EINVAL ? -errno : 0;
}

void hd_event_log_on_trouble(
	struct hd_event_log *log,
	void (*trouble)(void *owner, const char *sentence),
	void *owner
) {
	pthread_mutex_lock(&log->lock);
	log->trouble = trouble;
	log->owner = owner;
	pthread_mutex_unlock(&log->lock);
}

uint64_t hd_event_log_lost(struct hd_event_log *log) {
	uint64_t lost;

	if (!log)
		return 0;
	pthread_mutex_lock(&log->lock);
	lost = log->lost;
	pthread_mutex_unlock(&log->lock);
	return lost;
}

int hd_event_log_close(struct hd_event_log *log) {
	int code;

	if (!log)
		return 0;
	pthread_mutex_lock(&log->lock);
	log->closing = true;
	pthread_cond_signal(&log->filled);
	pthread_cond_signal(&log->hurry);
	pthread_mutex_unlock(&log->lock);
	pthread_join(log->thread, NULL);
	code = log->error;
	if (close(log->fd) < 0 && code == 0)
		code = -errno;
	pthread_cond_destroy(&log->filled);
	pthread_cond_destroy(&log->hurry);
	pthread_cond_destroy(&log->written);
	pthread_mutex_destroy(&log->lock);
	unmap_buffers(log);
	free(log);
	return code;
}
