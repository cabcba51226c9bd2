/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hd_scenario_read(
	const char *path,
	struct hd_scenario *scenario,
	char *error,
	size_t error_bytes
) {
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t bytes;
	int code = -errno;

	if (!file) {
		(void)snprintf(error, error_bytes, "%s: %s", path, strerror(-code));
		return code;
	}
	text = malloc(HD_SCENARIO_BYTES_MAX + 1);
	bytes = text ? fread(text, 1, HD_SCENARIO_BYTES_MAX + 1, file) : 0;
	code = -EINVAL;
	if (!text || ferror(file)) {
		(void)snprintf(error, error_bytes, "%s: cannot be read", path);
	} else if (bytes > HD_SCENARIO_BYTES_MAX) {
		(void)snprintf(error, error_bytes, "%s: is larger than 1 MiB", path);
	} else {
		text[bytes] = '\0';
		code = hd_scenario_parse(text, path, scenario, error, error_bytes);
	}
	free(text);
	(void)fclose(file);
	return code;
}
