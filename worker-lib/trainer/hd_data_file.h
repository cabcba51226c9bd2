/* SPDX-License-Identifier: BSD-3-Clause */
/* A data file in memory, plain or gzipped. */
#ifndef HD_DATA_FILE_H
#define HD_DATA_FILE_H

#include <stddef.h>
#include <stdint.h>

struct hd_data_file {
	char path[512];
	uint8_t *data;
	size_t bytes;
};
/* Reads the file at `path`: data is the caller's to free, also when it has no byte. 0; -errno of opening it, -EINVAL
 * (broken or truncated gzip data), -E2BIG (HD_DATA_BYTES_MAX), -ENOMEM with "path: what" in error: data is NULL. */
int hd_data_file_read(struct hd_data_file *file, char *error, size_t error_bytes);

#endif
