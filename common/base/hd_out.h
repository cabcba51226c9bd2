/* SPDX-License-Identifier: BSD-3-Clause */
/* A growing text: JSON rows and metrics, without printf in between. Pure except for malloc. A failed allocation is
 * remembered, and everything after it is left out: check `failed` once, at the end. */
#ifndef HD_OUT_H
#define HD_OUT_H

#include "hd_types.h"

struct hd_out {
	char *data; /* not terminated */
	size_t bytes, capacity;
	bool failed;
};

void hd_out_fini(struct hd_out *out);
void hd_out_bytes(struct hd_out *out, const char *data, size_t bytes);
void hd_out_char(struct hd_out *out, char c);
void hd_out_text(struct hd_out *out, const char *text);
void hd_out_u64(struct hd_out *out, uint64_t value);
/* INCARNATION.COUNTER */
void hd_out_version(struct hd_out *out, hd_version version);
/* Rounded to three decimals, at least one of them written. Not finite: `null`. */
void hd_out_milli(struct hd_out *out, double value);
/* With as many digits as reproduce the number exactly. Not finite: NaN, +Inf, -Inf (as in OpenMetrics). */
void hd_out_real(struct hd_out *out, double value);
/* For sentences: the fewest digits that reproduce the float (0.06, not 0.0599999987). Returns text. */
#define HD_FLOAT_TEXT_BYTES 32
const char *hd_float_text(double value, char text[HD_FLOAT_TEXT_BYTES]);
/* A JSON string with its quotes. text is UTF-8. */
void hd_out_json(struct hd_out *out, const char *text);
/* Appends a NUL (not counted in bytes) and returns the text, or NULL when memory failed. */
const char *hd_out_string(struct hd_out *out);

#endif
