/* SPDX-License-Identifier: BSD-3-Clause */
/* Options from the environment. */
#include "hd_text.h"
#include "heddle_environment.h"
#include "heddle_private.h"

#include <errno.h>
#include <stdlib.h>

const char *heddle_text_or_env(const char *option, const char *name) {
	const char *value = option ? option : getenv(name);

	return value && *value ? value : NULL;
}

int heddle_number_from_env(const char *name, int min, int max, int otherwise, int *out) {
	const char *text = heddle_text_or_env(NULL, name);
	uint64_t value = 0;

	if (text && (!hd_text_whole(text, (uint64_t)max, &value) || value < (uint64_t)min))
		return heddle_fail(
			-EINVAL, "%s: '%.32s' is not a whole number in %d..%d", name, text, min, max
		);
	*out = text ? (int)value : otherwise;
	return 0;
}
