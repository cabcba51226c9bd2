/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_metrics.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int hd_metrics_read_token(
	const char *path,
	char token[HD_METRICS_TOKEN_MAX + 1],
	const char **what
) {
	static const char allowed[]
		= "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=";
	char line[HD_METRICS_TOKEN_MAX + 2] = "";
	FILE *file = fopen(path, "re");
	size_t bytes;

	*what = strerror(errno);
	if (!file)
		return -errno;
	bytes = fread(line, 1, sizeof line - 1, file);
	*what = strerror(errno);
	if (ferror(file)) {
		(void)fclose(file);
		return -EIO;
	}
	(void)fclose(file);
	if (bytes > 0 && line[bytes - 1] == '\n')
		line[--bytes] = '\0';
	*what = "not a token: one line of 16 to 256 letters, digits and -._~+/=";
	if (bytes < HD_METRICS_TOKEN_MIN || bytes > HD_METRICS_TOKEN_MAX
	    || strspn(line, allowed) != bytes)
		return -EBADMSG;
	memcpy(token, line, bytes + 1);
	return 0;
}
