/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_out.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_BYTES_MIN 4096
#define MILLI_MAX 9e15 /* a double beyond this has no thousandths */

void hd_out_fini(struct hd_out *out) {
	free(out->data);
	memset(out, 0, sizeof *out);
}

/* Room for `bytes` more, or NULL. */
static char *reserve(struct hd_out *out, size_t bytes) {
	size_t need = out->bytes + bytes, capacity = out->capacity;
	char *grown;

	if (out->failed)
		return NULL;
	if (need <= capacity)
		return out->data + out->bytes;
	capacity = capacity ? capacity : OUT_BYTES_MIN;
	while (capacity < need)
		capacity *= 2;
	grown = realloc(out->data, capacity);
	if (!grown) {
		out->failed = true;
		return NULL;
	}
	out->data = grown;
	out->capacity = capacity;
	return grown + out->bytes;
}

void hd_out_bytes(struct hd_out *out, const char *data, size_t bytes) {
	char *at = reserve(out, bytes);

	if (!at || bytes == 0)
		return;
	memcpy(at, data, bytes);
	out->bytes += bytes;
}

void hd_out_char(struct hd_out *out, char c) {
	hd_out_bytes(out, &c, 1);
}

void hd_out_text(struct hd_out *out, const char *text) {
	hd_out_bytes(out, text, strlen(text));
}

void hd_out_u64(struct hd_out *out, uint64_t value) {
	char digits[20];
	size_t at = sizeof digits;

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	hd_out_bytes(out, digits + at, sizeof digits - at);
}

void hd_out_version(struct hd_out *out, hd_version version) {
	hd_out_u64(out, hd_version_incarnation(version));
	hd_out_char(out, '.');
	hd_out_u64(out, hd_version_counter(version));
}

void hd_out_milli(struct hd_out *out, double value) {
	uint64_t thousandths;
	char decimals[4];
	int count = 3;

	if (!isfinite(value)) {
		hd_out_text(out, "null");
		return;
	}
	if (fabs(value) * 1000 >= MILLI_MAX) {
		hd_out_real(out, value);
		return;
	}
	thousandths = (uint64_t)llround(fabs(value) * 1000);
	if (value < 0 && thousandths)
		hd_out_char(out, '-');
	hd_out_u64(out, thousandths / 1000);
	thousandths %= 1000;
	decimals[0] = '.';
	decimals[1] = (char)('0' + thousandths / 100);
	decimals[2] = (char)('0' + thousandths / 10 % 10);
	decimals[3] = (char)('0' + thousandths % 10);
	while (count > 1 && decimals[count] == '0')
		count--;
	hd_out_bytes(out, decimals, (size_t)count + 1);
}

void hd_out_real(struct hd_out *out, double value) {
	char text[40];

	if (isnan(value) || isinf(value)) {
		hd_out_text(out, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
		return;
	}
	(void)snprintf(text, sizeof text, "%.15g", value);
	if (strtod(text, NULL) < value || strtod(text, NULL) > value)
		(void)snprintf(text, sizeof text, "%.17g", value);
	hd_out_text(out, text);
}

const char *hd_float_text(double value, char text[HD_FLOAT_TEXT_BYTES]) {
	for (int digits = FLT_DIG; digits <= FLT_DECIMAL_DIG; digits++) {
		float back;

		(void)snprintf(text, HD_FLOAT_TEXT_BYTES, "%.*g", digits, value);
		back = strtof(text, NULL);
		if (!(back < (float)value || back > (float)value))
			break;
	}
	return text;
}

void hd_out_json(struct hd_out *out, const char *text) {
	static const char hex[] = "0123456789abcdef";

	hd_out_char(out, '"');
	while (*text) {
		size_t plain = 0;

		while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"'
		       && text[plain] != '\\')
			plain++;
		hd_out_bytes(out, text, plain);
		text += plain;
		if (!*text)
			break;
		if (*text == '"' || *text == '\\') {
			hd_out_char(out, '\\');
			hd_out_char(out, *text);
		} else {
			hd_out_text(out, "\\u00");
			hd_out_char(out, hex[(unsigned char)*text >> 4]);
			hd_out_char(out, hex[(unsigned char)*text & 15]);
		}
		text++;
	}
	hd_out_char(out, '"');
}

const char *hd_out_string(struct hd_out *out) {
	char *at = reserve(out, 1);

	if (!at)
		return NULL;
	*at = '\0';
	return out->data;
}
