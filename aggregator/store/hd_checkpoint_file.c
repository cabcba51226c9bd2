/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_checkpoint_file.h"
#include "hd_safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HD_SUFFIX ".safetensors"
/* job-incarnation-counter */
#define HD_FILE_BYTES (8 + 1 + 4 + 1 + 12)
#define HD_FILES_MAX 4096
#define HD_SENTENCE_BYTES (PATH_MAX + 256)

/* --- names ------------------------------------------------------------------------------------ */

static void file_name(char *name, size_t room, uint32_t job, hd_version version) {
	(void)snprintf(
		name,
		room,
		"%08" PRIx32 "-%04x-%012" PRIx64 HD_SUFFIX,
		job,
		hd_version_incarnation(version),
		hd_version_counter(version)
	);
}

static bool file_is_checkpoint(const char *name) {
	return strlen(name) == HD_FILE_BYTES + strlen(HD_SUFFIX)
		&& strcmp(name + HD_FILE_BYTES, HD_SUFFIX) == 0;
}

static bool file_is_of(const char *name, uint32_t job) {
	char prefix[16];

	(void)snprintf(prefix, sizeof prefix, "%08" PRIx32 "-", job);
	return file_is_checkpoint(name) && strncmp(name, prefix, strlen(prefix)) == 0;
}

static int compare_newest(const void *a, const void *b) {
	return -strcmp(*(char *const *)a, *(char *const *)b);
}

struct hd_files {
	size_t count;
	char *name[HD_FILES_MAX]; /* newest first */
};

static void files_fini(struct hd_files *files) {
	for (size_t i = 0; i < files->count; i++)
		free(files->name[i]);
	free(files);
}

static int files_list(const char *directory, uint32_t job, struct hd_files **out) {
	DIR *dir = opendir(directory);
	struct hd_files *files;
	struct dirent *entry;

	if (!dir)
		return -errno;
	files = calloc(1, sizeof *files);
	while (files && files->count < HD_FILES_MAX && (entry = readdir(dir))) {
		if (!file_is_of(entry->d_name, job))
			continue;
		files->name[files->count] = strdup(entry->d_name);
		files->count += files->name[files->count] ? 1 : 0;
	}
	closedir(dir);
	if (!files)
		return -ENOMEM;
	qsort(files->name, files->count, sizeof files->name[0], compare_newest);
	*out = files;
	return 0;
}

/* The incarnation in a name that file_is_of() took. */
static uint16_t file_incarnation(const char *name) {
	return (uint16_t)strtoul(name + 9, NULL, 16);
}

/* --- writing ---------------------------------------------------------------------------------- */

static int write_all(int fd, const void *data, size_t bytes) {
	const char *at = data;

	while (bytes > 0) {
		ssize_t n = write(fd, at, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int write_file(const char *path, const struct hd_checkpoint *checkpoint) {
	size_t values_bytes = checkpoint->values * sizeof(float), header_bytes = 0;
	uint8_t *header = NULL;
	int rc = hd_safetensors_write(checkpoint, &header, &header_bytes);
	int fd;

	if (rc < 0)
		return rc;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	rc = fd < 0 ? -errno : write_all(fd, header, header_bytes);
	free(header);
	if (fd < 0)
		return rc;
	if (rc == 0)
		rc = write_all(fd, checkpoint->model, values_bytes);
	if (rc == 0)
		rc = write_all(fd, checkpoint->momentum, values_bytes);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

static int sync_directory(const char *directory) {
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* Removes all but the newest ones. Failing to remove them is no error: the checkpoint is safe. */
static void remove_older(const char *directory, uint32_t job) {
	char path[PATH_MAX];
	struct hd_files *files;

	if (files_list(directory, job, &files) < 0)
		return;
	for (size_t i = HD_CHECKPOINTS_KEPT; i < files->count; i++)
		if (snprintf(path, sizeof path, "%s/%s", directory, files->name[i])
		    < (int)sizeof path)
			(void)unlink(path);
	files_fini(files);
}

int hd_checkpoint_write(
	const char *directory,
	const struct hd_checkpoint *checkpoint,
	char *error,
	size_t error_bytes
) {
	char name[64], path[PATH_MAX], temporary[PATH_MAX];
	int rc;

	file_name(name, sizeof name, checkpoint->job, checkpoint->version);
	if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path
	    || snprintf(temporary, sizeof temporary, "%s/.%s.new", directory, name)
		    >= (int)sizeof temporary) {
		(void)snprintf(error, error_bytes, "%s: name too long (PATH_MAX)", directory);
		return -ENAMETOOLONG;
	}
	rc = write_file(temporary, checkpoint);
	if (rc == 0 && rename(temporary, path) < 0)
		rc = -errno;
	if (rc == 0)
		rc = sync_directory(directory);
	else
		(void)unlink(temporary);
	if (rc < 0) {
		(void)snprintf(error, error_bytes, "%s: %s", path, strerror(-rc));
		return rc;
	}
	remove_older(directory, checkpoint->job);
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int read_all(int fd, void *data, size_t bytes) {
	char *at = data;

	while (bytes > 0) {
		ssize_t n = read(fd, at, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG; /* too short */
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int read_arrays(int fd, struct hd_checkpoint *checkpoint) {
	size_t bytes = checkpoint->values * sizeof(float);
	int rc;

	checkpoint->model = malloc(bytes);
	checkpoint->momentum = malloc(bytes);
	if (!checkpoint->model || !checkpoint->momentum)
		return -ENOMEM;
	rc = read_all(fd, checkpoint->model, bytes);
	return rc < 0 ? rc : read_all(fd, checkpoint->momentum, bytes);
}

static int read_header(
	int fd,
	struct hd_checkpoint *checkpoint,
	uint8_t hash[HD_SAFETENSORS_HASH_BYTES],
	char *error,
	size_t error_bytes
) {
	uint8_t first[HD_SAFETENSORS_LENGTH_BYTES];
	struct stat status;
	uint8_t *header;
	int64_t length;
	int rc;

	if (fstat(fd, &status) < 0 || read_all(fd, first, sizeof first) < 0) {
		(void)snprintf(error, error_bytes, "too short");
		return -EBADMSG;
	}
	length = hd_safetensors_length(first);
	if (length < 0 || length > status.st_size) {
		(void)snprintf(error, error_bytes, "header: its length is beyond the file's");
		return -EBADMSG;
	}
	header = malloc((size_t)length);
	if (!header)
		return -ENOMEM;
	rc = read_all(fd, header, (size_t)length);
	if (rc == 0) {
		rc = hd_safetensors_read(
			header, (size_t)length, checkpoint, hash, error, error_bytes
		);
	}
	free(header);
	if (rc == 0
	    && (uint64_t)status.st_size
		    != sizeof first + (uint64_t)length + 2 * checkpoint->values * sizeof(float)) {
		(void)snprintf(error, error_bytes, "its size is not that of its tensors");
		hd_safetensors_free(checkpoint);
		return -EBADMSG;
	}
	return rc;
}

static int read_file(
	const char *path,
	uint32_t job,
	struct hd_checkpoint *checkpoint,
	char *error,
	size_t error_bytes
) {
	uint8_t hash[HD_SAFETENSORS_HASH_BYTES];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc;

	if (fd < 0) {
		(void)snprintf(error, error_bytes, "%s", strerror(errno));
		return -errno;
	}
	(void)snprintf(error, error_bytes, "cannot be read");
	rc = read_header(fd, checkpoint, hash, error, error_bytes);
	if (rc == 0) {
		rc = read_arrays(fd, checkpoint);
		if (rc == 0 && checkpoint->job != job) {
			(void)snprintf(error, error_bytes, "is of another job");
			rc = -EBADMSG;
		} else if (rc == 0) {
			(void)snprintf(error, error_bytes, "its hash does not match: damaged");
			rc = hd_safetensors_check(checkpoint, hash);
		}
		if (rc < 0)
			hd_safetensors_free(checkpoint);
	}
	close(fd);
	return rc;
}

/* Removes unfinished files of a server that was killed during a write: they would fill the disk in time. */
static void remove_unfinished(const char *directory, uint32_t job) {
	char path[PATH_MAX], name[64];
	DIR *dir = opendir(directory);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		size_t bytes = strlen(entry->d_name);

		if (entry->d_name[0] != '.' || bytes < sizeof(".new") || bytes >= sizeof name
		    || strcmp(entry->d_name + bytes - 4, ".new") != 0)
			continue;
		(void)snprintf(name, sizeof name, "%.*s", (int)(bytes - 5), entry->d_name + 1);
		if (file_is_of(name, job)
		    && snprintf(path, sizeof path, "%s/%s", directory, entry->d_name)
			    < (int)sizeof path)
			(void)unlink(path);
	}
	if (dir)
		closedir(dir);
}

int hd_checkpoint_read(
	const char *directory,
	uint32_t job,
	struct hd_checkpoint *checkpoint,
	void (*report)(void *owner, const char *sentence),
	void *owner
) {
	char path[PATH_MAX], error[128], sentence[HD_SENTENCE_BYTES];
	struct hd_files *files = NULL;
	int rc = files_list(directory, job, &files);

	if (rc < 0 || !files)
		return rc;
	remove_unfinished(directory, job);
	rc = -ENOENT;
	for (size_t i = 0; i < files->count && rc != 0; i++) {
		if (snprintf(path, sizeof path, "%s/%s", directory, files->name[i])
		    >= (int)sizeof path) {
			rc = -ENAMETOOLONG;
			break;
		}
		rc = read_file(path, job, checkpoint, error, sizeof error);
		if (rc == -ENOMEM)
			break;
		if (rc < 0) {
			(void)snprintf(sentence, sizeof sentence, "%s: %s: not used", path, error);
			report(owner, sentence);
		} else if (i > 0) {
			(void)snprintf(sentence, sizeof sentence, "%s: used instead", path);
			report(owner, sentence);
		}
	}
	if (rc == 0)
		checkpoint->newest_incarnation = file_incarnation(files->name[0]);
	files_fini(files);
	return rc;
}

bool hd_checkpoint_any(const char *directory) {
	DIR *dir = opendir(directory);
	struct dirent *entry;
	bool found = !dir && errno != ENOENT;

	while (dir && !found && (entry = readdir(dir)))
		found = file_is_checkpoint(entry->d_name);
	if (dir)
		closedir(dir);
	return found;
}
