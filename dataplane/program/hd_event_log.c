/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event log. The node's thread fills one buffer while the log's thread writes the other, so that a
 * slow disk delays no packet; only when a whole buffer has filled within 200 ms is the node's thread
 * made to wait. Events are never lost.
 */
#include "hd_limits.h"
#include "hd_program.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOG_BUFFER_BYTES (1u << 20)
#define LOG_INTERVAL_MS 200

struct hd_event_log {
	int fd;
	char node[2 * HD_NAME_BYTES_MAX + 1];
	pthread_t thread;
	pthread_mutex_t lock; // guards everything below
	pthread_cond_t filled; // to the writer: the first line of an interval is there, or the end
	pthread_cond_t hurry; // to the writer, within an interval: full, or the end
	pthread_cond_t written; // from the writer: there is room
	char *front; // writer: add()
	size_t front_bytes;
	char *back; // writer: the log's thread, while `writing`
	bool closing, full;
	int error;
};

static int write_all(int fd, const char *data, size_t bytes) {
	while (bytes > 0) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Called with the lock; releases it while writing. */
static void write_front(struct hd_event_log *log) {
	char *data = log->front;
	size_t bytes = log->front_bytes;
	int code;

	log->front = log->back;
	log->front_bytes = 0;
	log->back = data;
	log->full = false;
	pthread_cond_broadcast(&log->written);
	pthread_mutex_unlock(&log->lock);
	code = write_all(log->fd, data, bytes);
	pthread_mutex_lock(&log->lock);
	if (code < 0 && log->error == 0)
		log->error = code;
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

int hd_event_log_open(const char *path, const char *node, struct hd_event_log **log) {
	struct hd_event_log *l = calloc(1, sizeof(*l));
	int code;

	if (!l)
		return -ENOMEM;
	l->front = malloc(LOG_BUFFER_BYTES);
	l->back = malloc(LOG_BUFFER_BYTES);
	code = -ENOMEM;
	if (!l->front || !l->back)
		goto free_log;
	l->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (l->fd < 0) {
		code = -errno;
		goto free_log;
	}
	hd_event_json_name(node, l->node, sizeof(l->node));
	init_locks(l);
	code = -pthread_create(&l->thread, NULL, run, l);
	if (code < 0)
		goto close_file;
	*log = l;
	return 0;

close_file:
	close(l->fd);
free_log:
	free(l->front);
	free(l->back);
	free(l);
	return code;
}

void hd_event_log_add(void *argument, const struct hd_event *event) {
	struct hd_event_log *log = argument;

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
	log->front_bytes += hd_event_json(event, log->node, log->front + log->front_bytes);
	pthread_mutex_unlock(&log->lock);
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
	free(log->front);
	free(log->back);
	free(log);
	return code;
}
