/* SPDX-License-Identifier: BSD-3-Clause */
/* The line of a field in a JSON text: jansson tells the line of a syntax error only, and an operator
 * wants it for a wrong value too. */
#ifndef HD_JSON_LINE_H
#define HD_JSON_LINE_H

/* Line (1-based) where the value at `path` begins, e.g. "links[3][1]" or "updates[2].bytes". The text
 * must have been accepted by json_loads. When the path does not exist: the line of the innermost
 * container that does. Cost O(text). */
int hd_json_line(const char *json, const char *path);

#endif
