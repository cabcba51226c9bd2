/* SPDX-License-Identifier: BSD-3-Clause */
#include "power_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FILES_MAX 16
#define OPS_MAX 16
#define FDS_MAX 64
#define NAME_BYTES 128
#define BYTES_MAX 65536
#define NO_FILE (-1)
#define DIRECTORY (-2)

struct file {
	char bytes[BYTES_MAX];
	size_t length, safe; /* written; of these, synced */
	bool was_there; /* before watching: its old bytes are safe until it is overwritten */
};

struct op { /* on names */
	enum {
		CREATE,
		RENAME,
		UNLINK
	} kind;
	char name[NAME_BYTES], to[NAME_BYTES];
	int file;
	bool safe;
};

static struct {
	char directory[256];
	bool watching, dead;
	unsigned calls, cut_at;
	int error;
	struct file file[FILES_MAX];
	int files, base_files;
	char base_name[FILES_MAX][NAME_BYTES];
	struct op op[OPS_MAX];
	int ops;
	int of_fd[FDS_MAX];
} disk;

int __real_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t bytes);
int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __real_close(int fd);

/* --- names and files ------------------------------------------------------------------------- */

static const char *inside(const char *path) {
	size_t bytes = strlen(disk.directory);

	if (!disk.watching || strncmp(path, disk.directory, bytes) != 0 || path[bytes] != '/')
		return NULL;
	return path + bytes + 1;
}

/* Applies those of the first `count` operations that `mask` has a bit for; the safe ones always. */
static int resolve(const char *name, int count, unsigned mask) {
	struct {
		char name[NAME_BYTES];
		int file;
	} entry[FILES_MAX * 2];
	int entries = 0, unsafe = 0;

	for (int i = 0; i < disk.base_files; i++) {
		memcpy(entry[entries].name, disk.base_name[i], NAME_BYTES);
		entry[entries++].file = i;
	}
	for (int i = 0; i < count; i++) {
		const struct op *op = &disk.op[i];
		bool done = op->safe || (mask >> unsafe & 1);

		unsafe += !op->safe;
		if (!done)
			continue;
		for (int k = 0; k < entries; k++)
			if (strcmp(entry[k].name, op->kind == RENAME ? op->to : op->name) == 0
			    || (op->kind == RENAME && strcmp(entry[k].name, op->name) == 0))
				entry[k].name[0] = '\0';
		if (op->kind == UNLINK)
			continue;
		memcpy(entry[entries].name, op->kind == RENAME ? op->to : op->name, NAME_BYTES);
		entry[entries++].file = op->file;
	}
	for (int k = 0; k < entries; k++)
		if (strcmp(entry[k].name, name) == 0)
			return entry[k].file;
	return NO_FILE;
}

static int find(const char *name) {
	return resolve(name, disk.ops, ~0U);
}

static void note(struct op op, const char *name, const char *to) {
	assert_true(disk.ops < OPS_MAX);
	(void)snprintf(op.name, sizeof op.name, "%s", name);
	(void)snprintf(op.to, sizeof op.to, "%s", to ? to : "");
	disk.op[disk.ops++] = op;
}

/* True when this call does not reach the disk. */
static bool cut(void) {
	if (disk.dead)
		return true;
	if (++disk.calls != disk.cut_at)
		return false;
	disk.dead = disk.error == 0;
	errno = disk.error ? disk.error : EIO;
	return true;
}

/* --- the calls ------------------------------------------------------------------------------- */

int __wrap_open64(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_unlink(const char *path);
int __wrap_close(int fd);

static int open_file(const char *path, int flags) {
	const char *name = inside(path);
	bool directory = disk.watching && strcmp(path, disk.directory) == 0;
	int fd, file = NO_FILE;

	if ((name || directory) && cut()) {
		errno = disk.dead ? EIO : errno;
		return -1;
	}
	fd = __real_open(path, flags, 0644);
	if (fd < 0 || fd >= FDS_MAX)
		return fd;
	if (directory)
		file = DIRECTORY;
	else if (name && (flags & O_WRONLY))
		file = find(name);
	if (name && file == NO_FILE && (flags & O_CREAT)) {
		file = disk.files++;
		assert_true(disk.files <= FILES_MAX);
		memset(&disk.file[file], 0, sizeof disk.file[file]);
		note((struct op){.kind = CREATE, .file = file}, name, NULL);
	}
	if (file >= 0 && (flags & O_TRUNC))
		disk.file[file].length = disk.file[file].safe = 0;
	if (file >= 0 && !(flags & O_TRUNC))
		disk.file[file].length = 0; /* overwritten from the start; old bytes stay `safe` */
	disk.of_fd[fd] = file;
	return fd;
}

int __wrap_open(const char *path, int flags, ...) {
	return open_file(path, flags);
}

int __wrap_open64(const char *path, int flags, ...) {
	return open_file(path, flags);
}

static int file_of(int fd) {
	return disk.watching && fd >= 0 && fd < FDS_MAX ? disk.of_fd[fd] : NO_FILE;
}

ssize_t __wrap_write(int fd, const void *data, size_t bytes) {
	int file = file_of(fd);

	if (file >= 0) {
		struct file *f = &disk.file[file];

		if (cut())
			return -1;
		assert_true(f->length + bytes <= BYTES_MAX);
		memcpy(f->bytes + f->length, data, bytes);
		f->length += bytes;
	}
	return __real_write(fd, data, bytes);
}

int __wrap_fsync(int fd) {
	int file = file_of(fd);

	if (file == NO_FILE)
		return __real_fsync(fd);
	if (cut())
		return -1;
	if (file >= 0)
		disk.file[file].safe = disk.file[file].length;
	for (int i = 0; file == DIRECTORY && i < disk.ops; i++)
		disk.op[i].safe = true;
	return 0;
}

int __wrap_fdatasync(int fd) {
	return __wrap_fsync(fd);
}

int __wrap_rename(const char *from, const char *to) {
	const char *name = inside(from), *target = inside(to);

	if (name && target) {
		if (cut())
			return -1;
		note((struct op){.kind = RENAME, .file = find(name)}, name, target);
	}
	return __real_rename(from, to);
}

int __wrap_unlink(const char *path) {
	const char *name = inside(path);

	if (name) {
		if (cut())
			return -1;
		if (find(name) != NO_FILE)
			note((struct op){.kind = UNLINK}, name, NULL);
	}
	return __real_unlink(path);
}

int __wrap_close(int fd) {
	if (disk.watching && fd >= 0 && fd < FDS_MAX)
		disk.of_fd[fd] = NO_FILE;
	return __real_close(fd);
}

/* --- watching -------------------------------------------------------------------------------- */

static void take_base(void) {
	DIR *dir = opendir(disk.directory);
	struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		struct file *f = &disk.file[disk.files];
		char path[600];
		int fd;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		assert_true(disk.files < FILES_MAX);
		(void)snprintf(path, sizeof path, "%s/%s", disk.directory, entry->d_name);
		fd = __real_open(path, O_RDONLY);
		f->length = (size_t)read(fd, f->bytes, BYTES_MAX);
		f->safe = f->length;
		(void)__real_close(fd);
		(void)snprintf(
			disk.base_name[disk.files],
			NAME_BYTES,
			"%.*s",
			NAME_BYTES - 1,
			entry->d_name
		);
		disk.files++;
	}
	closedir(dir);
	disk.base_files = disk.files;
}

void power_watch(const char *directory, unsigned cut_at, int error) {
	memset(&disk, 0, sizeof disk);
	for (int i = 0; i < FDS_MAX; i++)
		disk.of_fd[i] = NO_FILE;
	(void)snprintf(disk.directory, sizeof disk.directory, "%s", directory);
	take_base();
	disk.cut_at = cut_at;
	disk.error = error;
	disk.watching = true;
}

unsigned power_end(void) {
	disk.watching = false;
	return disk.calls;
}

/* --- what is left ---------------------------------------------------------------------------- */

enum bytes_left {
	EMPTY,
	HALF,
	ZEROS,
	WHOLE,
	BYTES_LEFT
};

static void
lay_file(const char *into, const char *name, const struct file *f, enum bytes_left left) {
	static const char zeros[BYTES_MAX];
	size_t length = f->length;
	const char *bytes = f->bytes;
	char path[600];
	int fd;

	if (f->safe < f->length) {
		length = left == EMPTY ? 0 : left == HALF ? f->length / 2 : f->length;
		bytes = left == ZEROS ? zeros : f->bytes;
	}
	(void)snprintf(path, sizeof path, "%s/%s", into, name);
	fd = __real_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(__real_write(fd, bytes, length), length);
	(void)__real_close(fd);
}

static void lay(const char *into, unsigned mask, enum bytes_left left) {
	for (int i = 0; i < disk.base_files + 2 * disk.ops; i++) {
		int k = (i - disk.base_files) / 2;
		const char *name = i < disk.base_files ? disk.base_name[i] :
			(i - disk.base_files) % 2      ? disk.op[k].to :
							 disk.op[k].name;
		int file = *name ? resolve(name, disk.ops, mask) : NO_FILE;

		if (file != NO_FILE)
			lay_file(into, name, &disk.file[file], left);
	}
}

bool power_lay_out(unsigned index, const char *into) {
	unsigned unsafe = 0;

	for (int i = 0; i < disk.ops; i++)
		unsafe += !disk.op[i].safe;
	if (index >= (unsigned)BYTES_LEFT << unsafe)
		return false;
	lay(into, index / BYTES_LEFT, (enum bytes_left)(index % BYTES_LEFT));
	return true;
}

void power_lay_out_whole(const char *into) {
	lay(into, ~0U, WHOLE);
}

void power_clear(const char *directory) {
	DIR *dir = opendir(directory);
	struct dirent *entry;
	char path[600];

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		(void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
		(void)__real_unlink(path);
	}
	closedir(dir);
}
