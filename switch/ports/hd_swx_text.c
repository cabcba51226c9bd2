/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_swx_text.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static bool is_blank(char c) {
	return c == ' ' || c == '\t' || c == '\r';
}

void swx_replace_drops(char *text, size_t bytes) {
	static const char drop[] = "drop", send[] = "tx 1";
	static_assert(SWX_DROP_PORT == 1 && sizeof drop == sizeof send, "the port is in the text");
	const size_t word = sizeof drop - 1;

	for (size_t at = 0; at + word <= bytes; at++) {
		size_t after = at + word;

		if (memcmp(text + at, drop, word) != 0
		    || (at > 0 && !is_blank(text[at - 1]) && text[at - 1] != '\n'))
			continue;
		while (after < bytes && is_blank(text[after]))
			after++;
		if (after == bytes || text[after] == '\n' || text[after] == ';')
			memcpy(text + at, send, word);
	}
}
