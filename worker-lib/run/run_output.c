/* SPDX-License-Identifier: BSD-3-Clause */
/* The children's output: a line at a time, so that lines of two ranks never mix. */
#include "hd_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_all(int fd, const char *data, size_t bytes) {
	while (bytes > 0) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		/* Whoever reads us has gone: the run goes on. */
		if (n < 0)
			return;
		data += n;
		bytes -= (size_t)n;
	}
}

static void print(const struct run *run, uint32_t rank, int to, const char *line, uint32_t bytes) {
	char text[RUN_LINE_BYTES + 32];
	int head = 0;

	if (!run->options.no_prefix)
		head = snprintf(text, 32, "[%u] ", rank);
	memcpy(text + head, line, bytes);
	text[(uint32_t)head + bytes] = '\n';
	write_all(to, text, (size_t)head + bytes + 1);
}

static void print_lines(const struct run *run, uint32_t rank, struct run_stream *stream) {
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

/* Reads what is there. */
static void copy(const struct run *run, uint32_t rank, struct run_stream *stream) {
	for (;;) {
		ssize_t n = read(
			stream->fd, stream->line + stream->bytes, RUN_LINE_BYTES - stream->bytes
		);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			if (stream->bytes > 0)
				print(run, rank, stream->to, stream->line, stream->bytes);
			stream->bytes = 0;
			close(stream->fd);
			stream->fd = -1;
			return;
		}
		stream->bytes += (uint32_t)n;
		print_lines(run, rank, stream);
	}
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
	for (nfds_t i = 1; i < count; i++) {
		if (run->poll[i].revents)
			copy(run, run->polled_rank[i], run->polled[i]);
	}
}

void run_drain_output(struct run *run) {
	for (uint32_t i = 0; i < run->count; i++) {
		for (int s = 0; s < 2; s++) {
			struct run_stream *stream = &run->process[i].stream[s];

			if (stream->fd >= 0)
				copy(run, run->process[i].rank, stream);
			if (stream->fd >= 0)
				close(stream->fd);
			free(stream->line);
		}
	}
}
