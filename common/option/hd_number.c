/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_number.h"
#include "hd_text.h"

#include <errno.h>
#include <string.h>

#define DIGITS_MAX 20 /* of UINT64_MAX */

int hd_number_real(const char *text, double least, double most, double *value) {
	double number;

	if (!hd_text_real(text, &number) || !(number >= least && number <= most))
		return -EINVAL;
	*value = number;
	return 0;
}

int hd_number_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
	uint64_t number;

	if (!hd_text_whole(text, most, &number) || number < least)
		return -EINVAL;
	*value = number;
	return 0;
}

int hd_number_bytes(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
	static const char units[] = "KMG";
	size_t digits = strspn(text, "0123456789");
	const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
	char number_text[DIGITS_MAX + 1] = "";
	uint64_t number;
	int shift = 0;

	if (digits > DIGITS_MAX || text[digits + (unit != NULL)])
		return -EINVAL;
	memcpy(number_text, text, digits);
	if (unit)
		shift = 10 * (int)(unit - units + 1);
	if (!hd_text_whole(number_text, most >> shift, &number) || number << shift < least)
		return -EINVAL;
	*value = number << shift;
	return 0;
}
