/* SPDX-License-Identifier: BSD-3-Clause */
#include "heddle_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#define TOPOLOGY_BYTES_MAX (16 << 20)

__attribute__((format(printf, 3, 4))) static int
fail(struct hd_log *log, int code, const char *format, ...) {
	va_list args;

	va_start(args, format);
	hd_log_vsay(log, HD_LOG_ERROR, "failed", NULL, format, args);
	va_end(args);
	return code;
}

static char *read_file(const char *path, size_t most, const char **what) {
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t bytes = 0;

	if (!file) {
		*what = strerror(errno);
		return NULL;
	}
	text = malloc(most + 1);
	if (text)
		bytes = fread(text, 1, most + 1, file);
	*what = !text        ? "no memory" :
		ferror(file) ? "cannot be read" :
		bytes > most ? "too long" :
			       NULL;
	(void)fclose(file);
	if (*what) {
		free(text);
		return NULL;
	}
	text[bytes] = '\0';
	return text;
}

int heddle_topology(struct hd_log *log, const char *path, struct hd_topology **topology) {
	char error[256];
	const char *what;
	char *text;
	int status;

	if (!path) {
		if (hd_topology_create_star(topology))
			return fail(log, EX_OSERR, "no memory");
		return 0;
	}
	text = read_file(path, TOPOLOGY_BYTES_MAX, &what);
	if (!text)
		return fail(log, EX_NOINPUT, "--topology: %s: %s", path, what);
	status = hd_topology_parse(text, topology, error, sizeof(error));
	free(text);
	return status ? fail(log, EX_DATAERR, "--topology: %s: %s", path, error) : 0;
}

static int read_epoch(struct hd_log *log, const char *path, uint32_t *epoch) {
	const char *what;
	char *text, *end;
	unsigned long value;

	*epoch = 0;
	if (access(path, F_OK) != 0 && errno == ENOENT)
		return 0;
	text = read_file(path, 32, &what);
	if (!text)
		return fail(log, EX_NOINPUT, "--state-dir: %s: %s", path, what);
	value = strtoul(text, &end, 10);
	what = end == text || (*end && *end != '\n') || value > UINT16_MAX ? "not an epoch" : NULL;
	free(text);
	if (what)
		return fail(
			log, EX_DATAERR, "--state-dir: %s: %s (a number up to 65535)", path, what
		);
	if (value == UINT16_MAX)
		return fail(
			log,
			EX_DATAERR,
			"--state-dir: %s: epochs are used up (65535): stop every node, remove it",
			path
		);
	*epoch = (uint32_t)value;
	return 0;
}

/* Written whole and synced before it is used: no two lives may have one epoch. */
static int write_epoch(struct hd_log *log, const char *path, uint32_t epoch) {
	char temporary[4096], text[16];
	int fd, length = snprintf(text, sizeof(text), "%u\n", epoch);
	bool good;

	if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary))
		return fail(log, EX_USAGE, "--state-dir: too long");
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return fail(log, EX_CANTCREAT, "--state-dir: %s: %s", temporary, strerror(errno));
	good = write(fd, text, (size_t)length) == length && fsync(fd) == 0;
	good = close(fd) == 0 && good && rename(temporary, path) == 0;
	if (!good)
		return fail(log, EX_IOERR, "--state-dir: %s: %s", path, strerror(errno));
	return 0;
}

int heddle_next_epoch(struct hd_log *log, const char *state_dir, uint16_t *epoch) {
	char path[4000];
	uint32_t last;
	int status;

	*epoch = 1;
	if (!state_dir) {
		hd_log_say(
			log,
			HD_LOG_WARNING,
			"state-dir",
			NULL,
			"no --state-dir: nodes cannot tell a restart from a first start"
		);
		return 0;
	}
	if (snprintf(path, sizeof(path), "%s/epoch", state_dir) >= (int)sizeof(path))
		return fail(log, EX_USAGE, "--state-dir: too long");
	if (mkdir(state_dir, 0755) < 0 && errno != EEXIST)
		return fail(log, EX_CANTCREAT, "--state-dir: %s: %s", state_dir, strerror(errno));
	status = read_epoch(log, path, &last);
	if (!status)
		status = write_epoch(log, path, last + 1);
	if (!status)
		*epoch = (uint16_t)(last + 1);
	return status;
}
