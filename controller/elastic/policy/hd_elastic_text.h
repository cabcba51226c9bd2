/* SPDX-License-Identifier: BSD-3-Clause */
/* An operator's text for R(n) and for prices, the same in the shell and in a policy's words. */
#ifndef HD_ELASTIC_TEXT_H
#define HD_ELASTIC_TEXT_H

#include "hd_elastic_plan.h"

/* "8:1,4:0.9": workers and seconds of a step, in any order; or "0.9", for any number. Changes count, n and step_s of
 * *pace. -EINVAL with "step_s: what (limit)". */
int hd_elastic_text_pace(
	const char *text,
	struct hd_elastic_pace *pace,
	char *error,
	size_t error_bytes
);
/* "0.3", "uniform:LOW:HIGH" or "gauss:MEAN:DEVIATION:LOW:HIGH", each number times `scale`. -EINVAL with
 * "price: what (limit)". */
int hd_elastic_text_price(
	const char *text,
	double scale,
	struct hd_elastic_price *price,
	char *error,
	size_t error_bytes
);

#endif
