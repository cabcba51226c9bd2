/* SPDX-License-Identifier: BSD-3-Clause */
/* Text of a thread's last failing call. */
#include "hd_device.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char words[256];

const char *hd_device_words(void) {
	return words;
}

int hd_device_fail(int code, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(words, sizeof words, format, arguments);
	va_end(arguments);
	return code;
}
