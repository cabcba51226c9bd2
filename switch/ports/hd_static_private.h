/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of hd_static: hd_static_lease.c has leases, hd_static.c the rest. */
#ifndef HD_STATIC_PRIVATE_H
#define HD_STATIC_PRIVATE_H

#include "hd_static.h"

#include <jansson.h>

/* The switch to configure. */
struct static_target {
	const struct hd_switch_executor *executor;
	struct hd_switch_stations *stations;
};

/* The destination of error texts. */
struct static_words {
	char *error;
	size_t bytes;
};

/* Writes the error; returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int
static_refuse(const struct static_words *words, const char *format, ...);
/* 0 or -EINVAL. */
int static_ipv4(const char *text, uint32_t *ipv4);
bool static_fits(json_int_t value, json_int_t most);

/* Sets one of the file's leases. 0, -EINVAL, or the executor's error. */
int static_set_lease(
	const struct static_target *target,
	const json_t *item,
	const struct static_words *words
);

#endif
