/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to heddlectl: asking a controller for one table, and printing it. */
#ifndef HEDDLECTL_H
#define HEDDLECTL_H

#include "hd_keys.h"
#include "hd_types.h"

#include <jansson.h>

struct shell_query {
	struct hd_addr controller;
	const struct hd_keyring *keys;
	const char *table;
	const char *filter;
	hd_ns timeout; /* for the whole answer to begin, and between its pages */
};

/* Fetches every page. 0 with *document (the last page's, with all rows; the caller's), or a sysexits
 * code with error in words. */
int shell_fetch(
	const struct shell_query *query,
	json_t **document,
	char *error,
	size_t error_bytes
);

/* Aligned columns: the usual ones of the table, or all. */
void shell_print(const json_t *document, bool wide);

#endif
