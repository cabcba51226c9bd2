/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_epoch_file.h"
#include "hd_state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "epoch"
#define FILE_BYTES_MAX 32

struct where {
	const char *directory;
	char file[PATH_MAX];
	char *error;
	size_t error_bytes;
};

__attribute__((format(printf, 3, 4))) static int
refuse(struct where *where, int code, const char *format, ...) {
	va_list args;

	va_start(args, format);
	(void)vsnprintf(where->error, where->error_bytes, format, args);
	va_end(args);
	return code;
}

/* The last epoch; 0: there is none. */
static int read_last(struct where *where, unsigned long *last) {
	char text[FILE_BYTES_MAX + 1], *end;
	int fd = open(where->file, O_RDONLY | O_CLOEXEC);
	ssize_t bytes;

	*last = 0;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return refuse(where, -errno, "%s: %s", where->file, strerror(errno));
	bytes = read(fd, text, FILE_BYTES_MAX);
	close(fd);
	if (bytes < 0)
		return refuse(where, -EIO, "%s: cannot be read", where->file);
	text[bytes] = '\0';
	*last = strtoul(text, &end, 10);
	if (end == text || (*end && *end != '\n') || *last > UINT16_MAX)
		return refuse(
			where, -EBADMSG, "%s: not an epoch (a number up to 65535)", where->file
		);
	if (*last == UINT16_MAX)
		return refuse(
			where,
			-ERANGE,
			"%s: epochs are used up (65535): stop every node, remove it",
			where->file
		);
	return 0;
}

static int write_next(struct where *where, unsigned long epoch) {
	char text[16];
	int code;

	/* Of fixed width, so that overwriting it in place leaves nothing of the old one. */
	(void)snprintf(text, sizeof text, "%05lu\n", epoch);
	code = hd_state_file_replace(where->directory, FILE_NAME, text);
	/* Needs no free space on most file systems: the file has its block. */
	if ((code == -ENOSPC || code == -EDQUOT) && epoch > 1)
		code = hd_state_file_overwrite(where->directory, FILE_NAME, text);
	return code == 0 ? 0 : refuse(where, code, "%s: %s", where->file, strerror(-code));
}

int hd_epoch_file_next(const char *directory, uint16_t *epoch, char *error, size_t error_bytes) {
	struct where where = {.directory = directory, .error = error, .error_bytes = error_bytes};
	unsigned long last;
	int code;

	if (snprintf(where.file, PATH_MAX, "%s/%s", directory, FILE_NAME) >= PATH_MAX)
		return refuse(&where, -ENAMETOOLONG, "too long (PATH_MAX)");
	code = read_last(&where, &last);
	if (code == 0)
		code = write_next(&where, last + 1);
	if (code == 0)
		*epoch = (uint16_t)(last + 1);
	return code;
}
