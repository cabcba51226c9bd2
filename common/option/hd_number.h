/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of a command line: the whole text is one within its limits, or nothing is. Pure, but for the locale. */
#ifndef HD_NUMBER_H
#define HD_NUMBER_H

#include <stdint.h>

/* Each: 0, or -EINVAL and *value as it was. */
int hd_number_real(const char *text, double least, double most, double *value);
/* Decimal digits alone: no sign, no blanks. */
int hd_number_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value);
/* The same with an optional K, M or G behind it, 1024 each; the limits are of the product. */
int hd_number_bytes(const char *text, uint64_t least, uint64_t most, uint64_t *value);

#endif
