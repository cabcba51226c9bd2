/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The children's output: a line at a time, so that lines of two ranks never mix. The reader of the output may stop
 * reading: signals and ends of processes are handled meanwhile, and after a signal the run waits for the reader only
 * for a moment, and never beyond the processes' grace time.
 */
#include "hd_run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST_WORDS_MS 300 /* for a slow reader, after a signal */

/* Waits until fd is writable. False: the run was told to end, and the output is not read. */
static bool wait_writable(struct run *run, int fd) {
	struct pollfd either[] = {
		{.fd = fd, .events = POLLOUT},
		{.fd = run->signals, .events = POLLIN},
	};

	for (;;) {
		int left_ms = run->signalled ? run_left_ms(run) : -1;
		int ready
			= poll(either,
			       2,
			       run->unread                     ? 0 :
				       left_ms > LAST_WORDS_MS ? LAST_WORDS_MS :
								 left_ms);

		if (ready < 0 && errno != EINTR)
			return false;
		if (ready > 0 && either[0].revents)
			return true;
		if (ready > 0)
			run_take_signals(run);
		run->unread = run->unread || ready == 0;
		if (run->unread)
			return false;
	}
}

static void write_all(struct run *run, int fd, const char *data, size_t bytes) {
	while (bytes > 0 && wait_writable(run, fd)) {
		/* A writable pipe takes this much without blocking. */
		ssize_t n = write(fd, data, bytes < PIPE_BUF ? bytes : PIPE_BUF);

		if (n < 0 && errno == EINTR)
			continue;
		/* The reader is gone: the run goes on. */
		if (n < 0)
			return;
		data += n;
		bytes -= (size_t)n;
	}
}

static void print(struct run *run, uint32_t rank, int to, const char *line, uint32_t bytes) {
	char text[RUN_LINE_BYTES + 32];
	int head = 0;

	if (!run->options.no_prefix)
		head = snprintf(text, 32, "[%u] ", rank);
	memcpy(text + head, line, bytes);
	text[(uint32_t)head + bytes] = '\n';
	write_all(run, to, text, (size_t)head + bytes + 1);
}

static void print_lines(struct run *run, uint32_t rank, struct run_stream *stream) {
	uint32_t from = 0;
	char *newline;

	while ((newline = memchr(stream->line + from, '\n', stream->bytes - from))) {
		uint32_t end = (uint32_t)(newline - stream->line);

		print(run, rank, stream->to, stream->line + from, end - from);
		from = end + 1;
	}
	if (from == 0 && stream->bytes == RUN_LINE_BYTES) {
		print(run, rank, stream->to, stream->line, stream->bytes);
		from = stream->bytes;
	}
	stream->bytes -= from;
	memmove(stream->line, stream->line + from, stream->bytes);
}

static void finish(struct run *run, uint32_t rank, struct run_stream *stream) {
	if (stream->bytes > 0)
		print(run, rank, stream->to, stream->line, stream->bytes);
	stream->bytes = 0;
	close(stream->fd);
	stream->fd = -1;
}

/* A single read, so that a process that never stops writing gets no more. Returns its bytes; 0: none. */
static size_t copy(struct run *run, uint32_t rank, struct run_stream *stream) {
	ssize_t n;

	do {
		n = read(stream->fd, stream->line + stream->bytes, RUN_LINE_BYTES - stream->bytes);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) {
		finish(run, rank, stream);
		return 0;
	}
	stream->bytes += (uint32_t)n;
	print_lines(run, rank, stream);
	return (size_t)n;
}

/* The remaining output of a process: at most the content of its pipe. More would be from a process that it left
 * behind. */
static void drain(struct run *run, uint32_t rank, struct run_stream *stream) {
	int held = fcntl(stream->fd, F_GETPIPE_SZ);
	size_t left = held > 0 ? (size_t)held : 0, n = 1;

	while (left > 0 && n > 0) {
		n = copy(run, rank, stream);
		left -= n < left ? n : left;
	}
	if (stream->fd >= 0)
		finish(run, rank, stream);
}

nfds_t run_poll_set(struct run *run) {
	nfds_t count = 1;

	run->poll[0] = (struct pollfd){.fd = run->signals, .events = POLLIN};
	for (uint32_t i = 0; i < run->count; i++) {
		for (int s = 0; s < 2; s++) {
			struct run_stream *stream = &run->process[i].stream[s];

			if (stream->fd < 0)
				continue;
			run->poll[count] = (struct pollfd){.fd = stream->fd, .events = POLLIN};
			run->polled[count] = stream;
			run->polled_rank[count++] = run->process[i].rank;
		}
	}
	return count;
}

void run_copy_output(struct run *run, nfds_t count) {
	for (nfds_t i = 1; i < count; i++)
		if (run->poll[i].revents)
			copy(run, run->polled_rank[i], run->polled[i]);
}

void run_drain_output(struct run *run) {
	for (uint32_t i = 0; i < run->count; i++) {
		for (int s = 0; s < 2; s++) {
			struct run_stream *stream = &run->process[i].stream[s];

			if (stream->fd >= 0)
				drain(run, run->process[i].rank, stream);
			free(stream->line);
		}
	}
}
