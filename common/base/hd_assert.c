/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_assert.h"

#include <stddef.h>

static _Thread_local struct hd_assert_hook current;

struct hd_assert_hook hd_assert_set(struct hd_assert_hook hook) {
	struct hd_assert_hook before = current;

	current = hook;
	return before;
}

void hd_assert_failed(const char *condition, const char *file, int line) {
	if (current.failed)
		current.failed(current.arg, condition, file, line);
}
