/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_elastic_price.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDS_MIN 1e-9 /* share of a Gaussian that must be within its limits */

static int refuse(char *error, size_t bytes, const char *what, double value, const char *limit) {
	(void)snprintf(error, bytes, "price: %s: %g (%s)", what, value, limit);
	return -EINVAL;
}

/* Both limits: numbers, not negative, in order. */
static int check_ends(double low, double high, char *error, size_t bytes) {
	if (!(low >= 0 && low <= HD_ELASTIC_PRICE_MAX))
		return refuse(error, bytes, "low", low, "a number from 0 to 1e+09");
	if (!(high <= HD_ELASTIC_PRICE_MAX && high >= low))
		return refuse(error, bytes, "high", high, "a number from low to 1e+09");
	return 0;
}

int hd_elastic_price_uniform(
	double low,
	double high,
	struct hd_elastic_price *price,
	char *error,
	size_t error_bytes
) {
	if (check_ends(low, high, error, error_bytes))
		return -EINVAL;
	*price = (struct hd_elastic_price
	){.kind = HD_ELASTIC_PRICE_UNIFORM, .low = low, .high = high};
	return 0;
}

/* --- the Gaussian --- */

/* P(a < Z <= b) of a standard one: from the nearer tail, without cancellation. */
static double between(double a, double b) {
	if (a > 0)
		return (erfc(a * M_SQRT1_2) - erfc(b * M_SQRT1_2)) / 2;
	return (erfc(-b * M_SQRT1_2) - erfc(-a * M_SQRT1_2)) / 2;
}

static double density(double z) {
	return exp(-z * z / 2) * M_2_SQRTPI * M_SQRT1_2 / 2;
}

static double score(const struct hd_elastic_price *p, double value) {
	return (value - p->mean) / p->deviation;
}

static double inside(const struct hd_elastic_price *p) {
	return between(score(p, p->low), score(p, p->high));
}

int hd_elastic_price_gaussian(
	const double shape[4],
	struct hd_elastic_price *price,
	char *error,
	size_t error_bytes
) {
	struct hd_elastic_price p = {
		.kind = HD_ELASTIC_PRICE_GAUSSIAN,
		.mean = shape[0],
		.deviation = shape[1],
		.low = shape[2],
		.high = shape[3],
	};
	double share;

	if (!(fabs(p.mean) <= HD_ELASTIC_PRICE_MAX))
		return refuse(error, error_bytes, "mean", p.mean, "a number from -1e+09 to 1e+09");
	if (!(p.deviation > 0 && p.deviation <= HD_ELASTIC_PRICE_MAX))
		return refuse(error, error_bytes, "deviation", p.deviation, "above 0, up to 1e+09");
	if (check_ends(p.low, p.high, error, error_bytes))
		return -EINVAL;
	share = inside(&p);
	if (!(share >= ENDS_MIN))
		return refuse(
			error, error_bytes, "share of it from low to high", share, "at least 1e-09"
		);
	*price = p;
	return 0;
}

/* Newton's steps on F(x) = share, with bisection where they leave the bracket. */
static double gaussian_bid(const struct hd_elastic_price *p, double share) {
	const double whole = inside(p), begin = score(p, p->low);
	double low = begin, high = score(p, p->high), z = (low + high) / 2;

	for (int i = 0; i < 100 && high - low > 1e-14; i++) {
		const double wrong = between(begin, z) / whole - share;
		const double slope = density(z) / whole;
		double next;

		if (wrong > 0)
			high = z;
		else
			low = z;
		next = z - wrong / slope;
		if (fabs(next - z) < 1e-15)
			break;
		z = next > low && next < high ? next : (low + high) / 2;
	}
	return p->mean + p->deviation * z;
}

static double gaussian_paid(const struct hd_elastic_price *p, double bid) {
	const double a = score(p, p->low), b = score(p, bid);

	return (p->mean * between(a, b) - p->deviation * (density(b) - density(a))) / inside(p);
}

/* --- a trace --- */

static int by_price(const void *a, const void *b) {
	const double x = ((const double *)a)[0], y = ((const double *)b)[0];

	return (x > y) - (x < y);
}

/* How long the last price counts: the mean of the others. */
static double last_length(const double *seconds, size_t count) {
	return count > 1 ? (seconds[count - 1] - seconds[0]) / (double)(count - 1) : 1;
}

/* pairs[i] = price, duration; sorted here, and summed up as the staircase. */
static void make_levels(struct hd_elastic_price *p, double (*pairs)[2]) {
	double total = 0, paid = 0, share = 0;

	qsort(pairs, p->count, sizeof pairs[0], by_price);
	for (size_t i = 0; i < p->count; i++)
		total += pairs[i][1];
	for (size_t i = 0; i < p->count; i++) {
		const double part = pairs[i][1] / total;

		share += part;
		paid += part * pairs[i][0];
		if (p->levels == 0 || pairs[i][0] > p->level[p->levels - 1])
			p->level[p->levels++] = pairs[i][0];
		p->share[p->levels - 1] = share;
		p->paid[p->levels - 1] = paid;
	}
	p->share[p->levels - 1] = 1;
	p->low = p->level[0];
	p->high = p->level[p->levels - 1];
}

static int take_trace(struct hd_elastic_price *p, const double *values, double scale) {
	double(*pairs)[2] = calloc(p->count, sizeof *pairs);
	double *room = calloc(p->count, 5 * sizeof *room);

	if (!pairs || !room) {
		free(pairs);
		free(room);
		return -ENOMEM;
	}
	p->seconds = room;
	p->value = room + p->count;
	p->level = room + 2 * p->count;
	p->share = room + 3 * p->count;
	p->paid = room + 4 * p->count;
	for (size_t i = 0; i < p->count; i++) {
		p->seconds[i] = values[2 * i] - values[0];
		p->value[i] = values[2 * i + 1] * scale;
	}
	for (size_t i = 0; i < p->count; i++) {
		pairs[i][0] = p->value[i];
		pairs[i][1] = i + 1 < p->count ? p->seconds[i + 1] - p->seconds[i] :
						 last_length(p->seconds, p->count);
	}
	make_levels(p, pairs);
	free(pairs);
	return 0;
}

int hd_elastic_price_trace(
	const struct hd_elastic_text *in,
	double scale,
	struct hd_elastic_price *price
) {
	static const struct hd_elastic_column columns[] = {
		{.names = "seconds time timestamp t date",
		 .least = -1e12,
		 .most = 1e12,
		 .time = true,
		 .rising = true},
		{.names = "price spot_price spotprice", .least = 0, .most = HD_ELASTIC_PRICE_MAX},
	};
	struct hd_elastic_price p = {.kind = HD_ELASTIC_PRICE_TRACE};
	double *values;
	int status;

	if (!(scale > 0 && scale <= 1e9))
		return refuse(in->error, in->error_bytes, "scale", scale, "above 0, up to 1e+09");
	status = hd_elastic_csv(in, columns, 2, &values, &p.count);
	if (status)
		return status;
	status = take_trace(&p, values, scale);
	free(values);
	if (status)
		(void)snprintf(in->error, in->error_bytes, "%s: no memory", in->file);
	else
		*price = p;
	return status;
}

void hd_elastic_price_fini(struct hd_elastic_price *price) {
	free(price->seconds); /* one allocation with the others */
	price->seconds = NULL;
	price->count = price->levels = 0;
}

/* The last level that is not above the bid: its index + 1; 0 when all are above. */
static size_t level_of(const struct hd_elastic_price *p, double bid) {
	size_t low = 0, high = p->levels;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (p->level[middle] <= bid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first level whose share is enough. 1e-12: shares are sums, and a sum may miss its last bits. */
static double trace_bid(const struct hd_elastic_price *p, double share) {
	size_t low = 0, high = p->levels - 1;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (p->share[middle] < share - 1e-12)
			low = middle + 1;
		else
			high = middle;
	}
	return p->level[low];
}

/* --- all three --- */

double hd_elastic_price_share(const struct hd_elastic_price *p, double bid) {
	size_t level;

	if (bid < p->low)
		return 0;
	if (bid >= p->high)
		return 1;
	switch (p->kind) {
	case HD_ELASTIC_PRICE_GAUSSIAN:
		return between(score(p, p->low), score(p, bid)) / inside(p);
	case HD_ELASTIC_PRICE_TRACE:
		level = level_of(p, bid);
		return level ? p->share[level - 1] : 0;
	case HD_ELASTIC_PRICE_UNIFORM:
		break;
	}
	return (bid - p->low) / (p->high - p->low);
}

double hd_elastic_price_bid(const struct hd_elastic_price *p, double share) {
	if (share <= 0)
		return p->low;
	if (share >= 1)
		return p->high;
	switch (p->kind) {
	case HD_ELASTIC_PRICE_GAUSSIAN:
		return gaussian_bid(p, share);
	case HD_ELASTIC_PRICE_TRACE:
		return trace_bid(p, share);
	case HD_ELASTIC_PRICE_UNIFORM:
		break;
	}
	return p->low + share * (p->high - p->low);
}

double hd_elastic_price_paid(const struct hd_elastic_price *p, double bid) {
	const double most = bid < p->high ? bid : p->high;
	size_t level;

	if (bid < p->low)
		return 0;
	switch (p->kind) {
	case HD_ELASTIC_PRICE_GAUSSIAN:
		return gaussian_paid(p, most);
	case HD_ELASTIC_PRICE_TRACE:
		level = level_of(p, most);
		return level ? p->paid[level - 1] : 0;
	case HD_ELASTIC_PRICE_UNIFORM:
		break;
	}
	return p->high > p->low ? (most * most - p->low * p->low) / (2 * (p->high - p->low)) :
				  p->low;
}

double hd_elastic_price_mean(const struct hd_elastic_price *p, double bid) {
	const double share = hd_elastic_price_share(p, bid);

	return share > 0 ? hd_elastic_price_paid(p, bid) / share : p->low;
}

double hd_elastic_price_at(const struct hd_elastic_price *p, double seconds) {
	size_t low = 0, high = p->count - 1;
	double length, at;

	length = p->seconds[p->count - 1] + last_length(p->seconds, p->count);
	at = seconds - floor(seconds / length) * length;
	while (low < high) {
		const size_t middle = (low + high + 1) / 2;

		if (p->seconds[middle] <= at)
			low = middle;
		else
			high = middle - 1;
	}
	return p->value[low];
}
