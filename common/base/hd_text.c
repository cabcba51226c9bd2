/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_assert.h"
#include "hd_text.h"

#include <stdlib.h>
#include <string.h>

static bool continues(const uint8_t *at, size_t bytes, size_t length) {
	if (bytes < length)
		return false;
	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return false;
	return true;
}

/* Bytes of the valid, printable character at `at`, or 0. */
static size_t character_bytes(const uint8_t *at, size_t bytes) {
	uint8_t c = at[0];

	if (c < 0x80)
		return c >= 0x20 && c != 0x7f;
	if (c < 0xc2) /* a continuation byte, or an overlong form of ASCII */
		return 0;
	if (c < 0xe0) /* U+0080..U+009F are control characters */
		return continues(at, bytes, 2) && (c != 0xc2 || at[1] >= 0xa0) ? 2 : 0;
	if (c < 0xf0) {
		if (!continues(at, bytes, 3))
			return 0;
		return (c == 0xe0 && at[1] < 0xa0) || (c == 0xed && at[1] > 0x9f) ? 0 : 3;
	}
	if (c > 0xf4 || !continues(at, bytes, 4))
		return 0;
	return (c == 0xf0 && at[1] < 0x90) || (c == 0xf4 && at[1] > 0x8f) ? 0 : 4;
}

bool hd_text_valid(const char *text, size_t bytes) {
	const uint8_t *at = (const uint8_t *)text;

	while (bytes > 0) {
		size_t n = character_bytes(at, bytes);

		if (n == 0)
			return false;
		at += n;
		bytes -= n;
	}
	return true;
}

size_t hd_text_copy(char *field, size_t capacity, const char *text) {
	const uint8_t *at = (const uint8_t *)text;
	size_t left = text ? strlen(text) : 0, used = 0;

	hd_assert(capacity > 0);
	while (left > 0) {
		size_t n = character_bytes(at, left);
		size_t length = n > 0 ? n : 1;

		if (used + length >= capacity)
			break;
		if (n > 0)
			memcpy(field + used, at, n);
		else
			field[used] = '?';
		used += length;
		at += length;
		left -= length;
	}
	field[used] = '\0';
	return used;
}

bool hd_text_whole(const char *text, uint64_t most, uint64_t *value) {
	uint64_t number = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		uint64_t digit = (uint64_t)(*text - '0');

		if (*text < '0' || *text > '9' || number > UINT64_MAX / 10
		    || number * 10 > UINT64_MAX - digit)
			return false;
		number = number * 10 + digit;
	}
	if (number > most)
		return false;
	*value = number;
	return true;
}

bool hd_text_real(const char *text, double *value) {
	const char *first = text + (*text == '-');
	double number;
	char *end;

	if ((*first < '0' || *first > '9') && *first != '.')
		return false;
	if (text[strspn(text, "0123456789.eE+-")])
		return false;
	number = strtod(text, &end);
	if (end == text || *end)
		return false;
	*value = number;
	return true;
}
