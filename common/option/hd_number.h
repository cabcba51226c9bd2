/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers on a command line: the whole text must be one within the limits. Pure except for the locale. */
#ifndef HD_NUMBER_H
#define HD_NUMBER_H

#include <stdint.h>

/* Each: 0, or -EINVAL with *value unchanged. */
int hd_number_real(const char *text, double least, double most, double *value);
/* Decimal digits only: no sign, no blanks. */
int hd_number_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value);
/* The same with an optional suffix K, M or G, 1024 each; the limits apply to the product. */
int hd_number_bytes(const char *text, uint64_t least, uint64_t most, uint64_t *value);

#endif
