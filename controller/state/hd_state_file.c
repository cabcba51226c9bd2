/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int path_of(char path[PATH_MAX], const char *directory, const char *name, const char *end) {
	int bytes = snprintf(path, PATH_MAX, "%s/%s%s", directory, name, end);

	return bytes < 0 || bytes >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int write_all(int fd, const char *text) {
	size_t left = strlen(text);

	while (left > 0) {
		ssize_t bytes = write(fd, text, left);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0)
			return bytes < 0 && errno ? -errno : -ENOSPC;
		text += bytes;
		left -= (size_t)bytes;
	}
	return 0;
}

static int write_synced(int fd, const char *text) {
	int code;

	if (fd < 0)
		return -errno;
	code = write_all(fd, text);
	if (code == 0 && fsync(fd) < 0)
		code = -errno;
	if (close(fd) < 0 && code == 0)
		code = -errno;
	return code;
}

static int sync_directory(const char *directory) {
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int code = fd < 0 ? -errno : 0;

	if (code == 0 && fsync(fd) < 0)
		code = -errno;
	if (fd >= 0)
		close(fd);
	return code;
}

int hd_state_take(const char *directory) {
	int fd;

	if (mkdir(directory, 0750) < 0 && errno != EEXIST)
		return -errno;
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* A file system without locks is used as it is. */
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
		return fd;
	close(fd);
	return -EBUSY;
}

int hd_state_file_replace(const char *directory, const char *name, const char *text) {
	char file[PATH_MAX], temporary[PATH_MAX];
	int code = path_of(file, directory, name, "");

	if (code == 0)
		code = path_of(temporary, directory, name, ".new");
	if (code < 0)
		return code;
	code = write_synced(open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640), text);
	if (code == 0 && rename(temporary, file) < 0)
		code = -errno;
	if (code < 0)
		(void)unlink(temporary);
	/* Without this the name may refer to the old file again after a power failure. */
	return code == 0 ? sync_directory(directory) : code;
}

int hd_state_file_overwrite(const char *directory, const char *name, const char *text) {
	char file[PATH_MAX];
	int code = path_of(file, directory, name, "");

	return code < 0 ? code : write_synced(open(file, O_WRONLY | O_CLOEXEC), text);
}
