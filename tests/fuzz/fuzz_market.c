/* SPDX-License-Identifier: BSD-3-Clause */
/* Price traces and loss logs: any bytes give prices and a fit within their limits, or an error that says where. */
#include "fuzz.h"
#include "hd_elastic_fit.h"
#include "hd_elastic_price.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static void check_price(const struct hd_elastic_price *p) {
	double before = 0;

	CHECK(p->count > 0 && p->levels > 0 && p->levels <= p->count);
	CHECK(p->low >= 0 && p->low <= p->high && p->high <= HD_ELASTIC_PRICE_MAX);
	for (size_t i = 0; i < p->levels; i++) {
		CHECK(p->share[i] >= before && p->share[i] <= 1 + 1e-9);
		CHECK(i == 0 || p->level[i] > p->level[i - 1]);
		before = p->share[i];
	}
	for (size_t i = 1; i < p->count; i++)
		CHECK(p->seconds[i] >= p->seconds[i - 1]);
	for (int part = 0; part <= 4; part++) {
		const double share = part / 4.0;
		const double bid = hd_elastic_price_bid(p, share);

		CHECK(bid >= p->low && bid <= p->high);
		CHECK(hd_elastic_price_share(p, bid) >= share - 1e-9);
		CHECK(hd_elastic_price_mean(p, bid) <= bid * (1 + 1e-9));
	}
	CHECK(hd_elastic_price_at(p, 12345.678) >= p->low);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	char error[200] = "";
	const struct hd_elastic_text in = {"f", (const char *)data, bytes, error, sizeof error};
	struct hd_elastic_price price;
	struct hd_elastic_fit fit;
	int status = hd_elastic_price_trace(&in, 1, &price);

	if (status == 0) {
		check_price(&price);
		hd_elastic_price_fini(&price);
	} else {
		CHECK(status == -EINVAL && strncmp(error, "f:", 2) == 0);
	}
	error[0] = 0;
	/* A fit of many rows is slow, and takes the same code as a fit of a few. */
	if (bytes > 4096)
		return 0;
	status = hd_elastic_fit(&in, NAN, &fit);
	if (status) {
		CHECK(status == -EINVAL && strncmp(error, "f:", 2) == 0);
		return 0;
	}
	CHECK(fit.model.a > 0 && fit.model.b >= 0 && fit.model.beta > 0 && fit.model.beta < 1);
	CHECK(isfinite(fit.best) && fit.r2 > 0 && fit.r2 <= 1 && fit.rows >= HD_ELASTIC_FIT_ROWS_MIN
	);
	CHECK(fit.count <= HD_ELASTIC_FIT_COUNTS_MAX);
	return 0;
}
