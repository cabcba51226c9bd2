/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_elastic_text.h"
#include "hd_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_BYTES_MAX 63

/* One number that ends at `stop` or at the end of the text; *at moves behind it. */
static bool take_number(const char **at, const char *stop, double *value) {
	const size_t bytes = strcspn(*at, stop);
	char text[NUMBER_BYTES_MAX + 1];

	if (bytes == 0 || bytes > NUMBER_BYTES_MAX)
		return false;
	memcpy(text, *at, bytes);
	text[bytes] = '\0';
	*at += bytes;
	return hd_text_real(text, value) && isfinite(*value);
}

/* Inserts n into the ascending list. */
static void insert(struct hd_elastic_pace *pace, uint32_t n, double step_s) {
	uint32_t i = pace->count++;

	for (; i > 0 && pace->n[i - 1] > n; i--) {
		pace->n[i] = pace->n[i - 1];
		pace->step_s[i] = pace->step_s[i - 1];
	}
	pace->n[i] = n;
	pace->step_s[i] = step_s;
}

/* "8:1" or "1", up to a comma. */
static bool take_point(const char **at, struct hd_elastic_pace *pace) {
	double n = 1, step_s;

	if (pace->count == HD_ELASTIC_PACE_POINTS_MAX || !take_number(at, ":,", &n))
		return false;
	step_s = n;
	if (**at == ':') {
		++*at;
		if (!(n >= 1 && n <= HD_WORKERS_MAX) || floor(n) < n
		    || !take_number(at, ",", &step_s))
			return false;
	} else {
		n = 1;
	}
	if (!(step_s > 0 && step_s <= HD_ELASTIC_SECONDS_MAX))
		return false;
	for (uint32_t i = 0; i < pace->count; i++)
		if (pace->n[i] == (uint32_t)n)
			return false;
	insert(pace, (uint32_t)n, step_s);
	return true;
}

int hd_elastic_text_pace(
	const char *text,
	struct hd_elastic_pace *pace,
	char *error,
	size_t error_bytes
) {
	struct hd_elastic_pace taken = *pace;
	const char *at = text;
	bool good;

	taken.count = 0;
	do
		good = take_point(&at, &taken);
	while (good && *at++ == ',');
	if (good) {
		*pace = taken;
		return 0;
	}
	(void)snprintf(
		error,
		error_bytes,
		"step_s: '%.60s' (workers:seconds,...: at most %u, each number of workers once, seconds above 0)",
		text,
		HD_ELASTIC_PACE_POINTS_MAX
	);
	return -EINVAL;
}

/* ":1:2:3", exactly `count` of them. */
static bool take_list(const char *at, int count, double scale, double *values) {
	for (int i = 0; i < count; i++) {
		if (*at++ != ':' || !take_number(&at, ":", &values[i]))
			return false;
		values[i] *= scale;
	}
	return *at == '\0';
}

int hd_elastic_text_price(
	const char *text,
	double scale,
	struct hd_elastic_price *price,
	char *error,
	size_t error_bytes
) {
	const char *at = text;
	double v[4];

	if (strncmp(text, "gauss:", 6) == 0 && take_list(text + 5, 4, scale, v))
		return hd_elastic_price_gaussian(v, price, error, error_bytes);
	if (strncmp(text, "uniform:", 8) == 0 && take_list(text + 7, 2, scale, v))
		return hd_elastic_price_uniform(v[0], v[1], price, error, error_bytes);
	if (take_number(&at, "", &v[0]))
		return hd_elastic_price_uniform(
			v[0] * scale, v[0] * scale, price, error, error_bytes
		);
	(void)snprintf(
		error,
		error_bytes,
		"price: '%.60s' (a number, uniform:LOW:HIGH or gauss:MEAN:DEVIATION:LOW:HIGH)",
		text
	);
	return -EINVAL;
}
