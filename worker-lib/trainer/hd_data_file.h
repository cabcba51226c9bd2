/* SPDX-License-Identifier: BSD-3-Clause */
/* A data file in memory, plain or gzipped. */
#ifndef HD_DATA_FILE_H
#define HD_DATA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HD_DATA_PATH_BYTES 512
struct hd_data_file {
	char path[HD_DATA_PATH_BYTES];
	uint8_t *data;
	size_t bytes;
};
/* Reads the file at `path`: data is the caller's to free, also when it is empty. 0; -errno of opening it, -EINVAL
 * (broken or truncated gzip data), -E2BIG (HD_DATA_BYTES_MAX), -ENOMEM with "path: what" in error: data is NULL. */
int hd_data_file_read(struct hd_data_file *file, char *error, size_t error_bytes);
/* "FIRST[,SECOND]": paths of two files, the second "" when there is none. 0, or -EINVAL (too long) with a text. */
int hd_data_file_names(
	const char *names,
	struct hd_data_file *first,
	struct hd_data_file *second,
	char *error,
	size_t error_bytes
);
/* Reads the file and passes it to a decoder, whose error gets the path as prefix. The bytes are freed. Errors as
 * hd_data_file_read() and the decoder. */
typedef int
hd_data_decode(void *arg, const struct hd_data_file *file, char *error, size_t error_bytes);
int hd_data_file_decode(
	struct hd_data_file *file,
	hd_data_decode *decode,
	void *arg,
	char *error,
	size_t error_bytes
);

#endif
