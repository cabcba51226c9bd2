/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that crosses the wire or a file: UTF-8 (RFC 3629) without control characters. */
#ifndef HD_TEXT_H
#define HD_TEXT_H

#include "hd_types.h"

/* True when text[0..bytes) is well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF)
 * and has no control character (C0, DEL, C1). Empty text is valid. */
bool hd_text_valid(const char *text, size_t bytes);

/* Copies text into a field of `capacity` bytes, cut before the first byte that does not fit (never in
 * the middle of a character); control characters and malformed bytes become '?'. The result is always
 * valid and NUL-terminated. text may be NULL: empty. Returns the bytes without the NUL. */
size_t hd_text_copy(char *field, size_t capacity, const char *text);

/* A whole number of at most `most` in decimal digits only: no sign, no blanks. False: invalid, *value unchanged. */
bool hd_text_whole(const char *text, uint64_t most, uint64_t *value);

/* A number in decimal digits, optionally with a minus sign, a point and an exponent; none of strtod()'s other forms.
 * False: invalid, *value unchanged. */
bool hd_text_real(const char *text, double *value);

#endif
