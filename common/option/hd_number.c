/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int hd_number_real(const char *text, double least, double most, double *value) {
	double number;
	char *end;

	errno = 0;
	number = strtod(text, &end);
	if (errno || end == text || *end || !(number >= least && number <= most))
		return -EINVAL;
	*value = number;
	return 0;
}

/* strtoull() alone takes "-1" and " 1". */
static int digits(const char *text, const char **end, uint64_t *number) {
	char *after;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*number = strtoull(text, &after, 10);
	*end = after;
	return errno ? -EINVAL : 0;
}

int hd_number_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
	uint64_t number;
	const char *end;

	if (digits(text, &end, &number) || *end || number < least || number > most)
		return -EINVAL;
	*value = number;
	return 0;
}

int hd_number_bytes(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
	static const char units[] = "KMG";
	const char *end, *unit;
	uint64_t number;
	int shift = 0;

	if (digits(text, &end, &number))
		return -EINVAL;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		shift = 10 * (int)(unit - units + 1);
		end++;
	}
	if (*end || number > most >> shift || number << shift < least)
		return -EINVAL;
	*value = number << shift;
	return 0;
}
