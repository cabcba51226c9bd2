/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a data file (zlib reads plain files too). */
#include "hd_data_file.h"
#include "hd_trainer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Reads until the end into a growing buffer; the size in the gzip trailer is not trusted. */
static int read_all(gzFile gz, struct hd_data_file *file, char *error, size_t error_bytes) {
	size_t capacity = 0;

	for (;;) {
		int got;

		if (file->bytes == capacity) {
			size_t more = capacity ? 2 * capacity : 1 << 20;
			uint8_t *grown = realloc(file->data, more);

			if (!grown)
				return -ENOMEM;
			file->data = grown;
			capacity = more;
		}
		got = gzread(gz, file->data + file->bytes, (unsigned)(capacity - file->bytes));
		if (got < 0) {
			hd_trainer_put(error, error_bytes, "%s: broken gzip data", file->path);
			return -EINVAL;
		}
		if (got == 0)
			return 0;
		file->bytes += (size_t)got;
		if (file->bytes > HD_DATA_BYTES_MAX) {
			hd_trainer_put(
				error,
				error_bytes,
				"%s: more than %llu bytes (HD_DATA_BYTES_MAX)",
				file->path,
				(unsigned long long)HD_DATA_BYTES_MAX
			);
			return -E2BIG;
		}
	}
}

int hd_data_file_read(struct hd_data_file *file, char *error, size_t error_bytes) {
	gzFile gz = gzopen(file->path, "rb");
	int rc;

	if (!gz) {
		rc = errno ? -errno : -ENOMEM;
		hd_trainer_put(error, error_bytes, "%s: %s", file->path, strerror(-rc));
		return rc;
	}
	rc = read_all(gz, file, error, error_bytes);
	/* A truncated gzip file reads as a short one; only closing shows the error. */
	if (gzclose(gz) != Z_OK && rc == 0) {
		hd_trainer_put(error, error_bytes, "%s: truncated gzip data", file->path);
		rc = -EINVAL;
	}
	if (rc == -ENOMEM)
		hd_trainer_put(error, error_bytes, "%s: no memory", file->path);
	if (rc < 0) {
		free(file->data);
		file->data = NULL;
	}
	return rc;
}

int hd_data_file_names(
	const char *names,
	struct hd_data_file *first,
	struct hd_data_file *second,
	char *error,
	size_t error_bytes
) {
	const char *comma = strchr(names, ',');
	size_t length = comma ? (size_t)(comma - names) : strlen(names);

	if (length >= sizeof first->path || (comma && strlen(comma + 1) >= sizeof second->path)) {
		hd_trainer_put(
			error,
			error_bytes,
			"%.64s...: longer than %zu bytes",
			length >= sizeof first->path ? names : comma + 1,
			sizeof first->path - 1
		);
		return -EINVAL;
	}
	(void)snprintf(first->path, sizeof first->path, "%.*s", (int)length, names);
	(void)snprintf(second->path, sizeof second->path, "%s", comma ? comma + 1 : "");
	return 0;
}

int hd_data_file_decode(
	struct hd_data_file *file,
	hd_data_decode *decode,
	void *arg,
	char *error,
	size_t error_bytes
) {
	char what[HD_TEXT_BYTES_MAX];
	int rc;

	file->data = NULL;
	file->bytes = 0;
	rc = hd_data_file_read(file, error, error_bytes);
	if (rc < 0)
		return rc;
	rc = decode(arg, file, what, sizeof what);
	if (rc < 0)
		hd_trainer_put(error, error_bytes, "%s: %s", file->path, what);
	free(file->data);
	file->data = NULL;
	return rc;
}
