/* SPDX-License-Identifier: BSD-3-Clause */
/* A log that tests read. */
#ifndef TAP_H
#define TAP_H

#include "hd_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

/* The output of a log, through a pipe. */
struct tap {
	struct hd_log log;
	int read_fd;
	char text[8192];
};

static inline void tap_open(struct tap *tap) {
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	hd_log_init(&tap->log, "prog", "n\"1");
	tap->log.fd = fds[1];
	tap->read_fd = fds[0];
}

static inline const char *tap_read(struct tap *tap) {
	ssize_t bytes = read(tap->read_fd, tap->text, sizeof tap->text - 1);

	tap->text[bytes > 0 ? bytes : 0] = '\0';
	return tap->text;
}

static inline void tap_close(struct tap *tap) {
	close(tap->log.fd);
	close(tap->read_fd);
}

#endif
