/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The price of an instance at a random time: a distribution F on [low, high]. A worker with bid b runs while the price
 * is at most b, which is the share F(b) of the time.
 *
 * Three models: uniform; a Gaussian cut off at both ends; and a trace of a real market, in which each price counts for
 * as long as it held (the last one for the mean of the others' lengths). With a trace F is a staircase: its inverse is
 * the lowest price that was not exceeded for that share of the time.
 */
#ifndef HD_ELASTIC_PRICE_H
#define HD_ELASTIC_PRICE_H

#include "hd_elastic_csv.h"

#define HD_ELASTIC_PRICE_MAX 1e9 /* in any currency, for one worker and the unit of time */

enum hd_elastic_price_kind {
	HD_ELASTIC_PRICE_UNIFORM, /* low = high: always the same */
	HD_ELASTIC_PRICE_GAUSSIAN,
	HD_ELASTIC_PRICE_TRACE,
};

struct hd_elastic_price {
	enum hd_elastic_price_kind kind;
	double low, high; /* lowest and highest price, for one worker and one second */
	double mean, deviation; /* of GAUSSIAN, before it is truncated */
	/* Of TRACE: */
	size_t count;
	double *seconds; /* rising */
	double *value; /* from that time on */
	size_t levels;
	double *level; /* distinct prices, rising */
	double *share; /* F(level) */
	double *paid; /* integral of p dF up to level */
};

/* Each: 0, or -EINVAL with "price: ..." in error. fini() frees the tables of a trace; it has no effect on others. */
int hd_elastic_price_uniform(
	double low,
	double high,
	struct hd_elastic_price *price,
	char *error,
	size_t error_bytes
);
/* [mean, deviation, low, high]. Refused when less than a billionth of the Gaussian is within [low, high]. */
int hd_elastic_price_gaussian(
	const double shape[4],
	struct hd_elastic_price *price,
	char *error,
	size_t error_bytes
);
/* Columns: seconds (or time, timestamp: seconds, or ISO 8601; rising) and price (or spot_price). Prices
 * are multiplied by `scale` (1 / 3600: the trace is by the hour). -EINVAL with "FILE:LINE: field: what"; -ENOMEM. */
int hd_elastic_price_trace(
	const struct hd_elastic_text *in,
	double scale,
	struct hd_elastic_price *price
);
void hd_elastic_price_fini(struct hd_elastic_price *price);

/* F(bid) = P(price <= bid). O(1); of a trace O(log levels), as the two below. */
double hd_elastic_price_share(const struct hd_elastic_price *price, double bid);
/* The least bid with F(bid) >= share; low for share <= 0, high for share >= 1. */
double hd_elastic_price_bid(const struct hd_elastic_price *price, double share);
/* The integral of p dF up to the bid: the mean price over time, where times above the bid cost nothing. */
double hd_elastic_price_paid(const struct hd_elastic_price *price, double bid);
/* E[p | p <= bid]; low when no price is that low. */
double hd_elastic_price_mean(const struct hd_elastic_price *price, double bid);
/* Of a trace: the price at that time from its beginning; after its end it begins again. */
double hd_elastic_price_at(const struct hd_elastic_price *price, double seconds);

#endif
