/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_FILE_BYTES_MAX 65536

/* Returns the bytes read, NUL-terminated, or -errno. */
static ssize_t read_text(const char *path, char *text, size_t capacity) {
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t bytes = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -errno;
	while (bytes < capacity && (n = read(fd, text + bytes, capacity - bytes)) > 0)
		bytes += (size_t)n;
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0)
		return n;
	if (bytes == capacity)
		return -EFBIG;
	text[bytes] = '\0';
	return (ssize_t)bytes;
}

int hd_program_read_keys(
	const char *path,
	struct hd_keyring *ring,
	char *error,
	size_t error_bytes
) {
	char text[KEY_FILE_BYTES_MAX];
	char what[256] = "";
	ssize_t bytes = read_text(path, text, sizeof text);
	int code;

	if (bytes < 0) {
		(void)snprintf(error, error_bytes, "%s: %s", path, strerror((int)-bytes));
		return (int)bytes;
	}
	if (strlen(text) != (size_t)bytes) {
		(void)snprintf(error, error_bytes, "%s: not a text file", path);
		code = -EINVAL;
	} else {
		code = hd_keyring_parse(text, ring, what, sizeof what);
		if (code < 0)
			(void)snprintf(error, error_bytes, "%s: %s", path, what);
	}
	sodium_memzero(text, sizeof text);
	return code;
}

bool hd_program_keys_exposed(const char *path, char *warning, size_t warning_bytes) {
	struct stat found;

	if (stat(path, &found) < 0 || (found.st_mode & (S_IRGRP | S_IROTH)) == 0)
		return false;
	(void)snprintf(
		warning,
		warning_bytes,
		"%s: %s can read the node keys (mode %04o), and be any node with them: chmod 600 %s",
		path,
		found.st_mode & S_IROTH ? "any user" : "its group",
		(unsigned)found.st_mode & 07777,
		path
	);
	return true;
}

int hd_program_entropy(uint8_t seed[32]) {
	size_t have = 0;

	while (have < 32) {
		ssize_t n = getrandom(seed + have, 32 - have, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		have += (size_t)n;
	}
	return 0;
}

typedef void stop_function(void *owner);

/* A handler has no argument for its owner: these are the process's. The owner is set first. */
static void *signal_owner;
static _Atomic(stop_function *) signal_stop;
static _Atomic int signal_came;

bool hd_program_stop(int number) {
	stop_function *stop = atomic_load(&signal_stop);

	if (!stop)
		return false;
	/* Once: what it stops may be gone when another signal comes. */
	if (atomic_exchange(&signal_came, number) == 0)
		stop(signal_owner);
	return true;
}

/* The kernel ends the process at the second one, also where it could not run a handler. */
static void on_signal(int number) {
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
	(void)hd_program_stop(number);
}

int hd_program_stop_by(void (*stop)(void *owner), void *owner) {
	struct sigaction act = {.sa_handler = on_signal};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	sigemptyset(&act.sa_mask);
	sigaddset(&act.sa_mask, SIGINT);
	sigaddset(&act.sa_mask, SIGTERM);
	signal_owner = owner;
	atomic_store(&signal_stop, stop);
	if (sigaction(SIGINT, &act, NULL) < 0 || sigaction(SIGTERM, &act, NULL) < 0
	    || sigaction(SIGPIPE, &ignore, NULL) < 0)
		return -errno;
	return 0;
}

static void stop_driver(void *driver) {
	hd_driver_stop(driver);
}

int hd_program_stop_on_signals(struct hd_driver *driver) {
	return hd_program_stop_by(stop_driver, driver);
}

int hd_program_signal(void) {
	return atomic_load(&signal_came);
}
