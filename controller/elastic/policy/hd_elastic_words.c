/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_elastic_plan.h"

#include <stdio.h>

const char *const hd_elastic_kind_names[HD_ELASTIC_KINDS] = {
	[HD_ELASTIC_KIND_FIXED] = "fixed",
	[HD_ELASTIC_KIND_ONE_BID] = "one-bid",
	[HD_ELASTIC_KIND_TWO_BID] = "two-bid",
	[HD_ELASTIC_KIND_PREEMPTIBLE] = "preemptible",
	[HD_ELASTIC_KIND_GROWTH] = "growth",
	[HD_ELASTIC_KIND_DYNAMIC] = "dynamic",
};

static void put_failure(const struct hd_elastic_plan *plan, char *text, size_t bytes) {
	const double over = plan->reached - plan->allowed;

	switch (plan->fails) {
	case HD_ELASTIC_FAILS_ERROR:
		(void)snprintf(
			text,
			bytes,
			"error: with %u workers it comes down to %.6g at best, %.6g is wanted: %.6g too much",
			plan->n,
			plan->reached,
			plan->allowed,
			over
		);
		break;
	case HD_ELASTIC_FAILS_ITERATIONS:
		(void)snprintf(
			text,
			bytes,
			"iterations: %.0f are needed, %.0f allowed (iterations_max): %.0f too many",
			plan->reached,
			plan->allowed,
			over
		);
		break;
	case HD_ELASTIC_FAILS_DEADLINE:
		(void)snprintf(
			text,
			bytes,
			"deadline: %u workers take %.6g s at least, there are %.6g s: %.6g s too many",
			plan->n,
			plan->reached,
			plan->allowed,
			over
		);
		break;
	case HD_ELASTIC_FAILS_KIND:
		(void)snprintf(
			text,
			bytes,
			"with N-sync more workers save time, not variance: a second bid buys nothing"
		);
		break;
	case HD_ELASTIC_FAILS_NONE:
		break;
	}
}

void hd_elastic_why(
	const struct hd_elastic_plan *plan,
	const struct hd_elastic_plan *best,
	char *text,
	size_t bytes
) {
	if (plan->fails != HD_ELASTIC_FAILS_NONE)
		put_failure(plan, text, bytes);
	else if (!best || plan == best)
		(void)snprintf(text, bytes, "meets error and deadline for the least money");
	else if (plan->cost <= best->cost * (1 + 1e-9))
		(void)snprintf(
			text,
			bytes,
			"costs as much as %s, which is simpler",
			hd_elastic_kind_names[best->kind]
		);
	else
		(void)snprintf(
			text,
			bytes,
			"costs %.6g more than %s (%.4g times as much)",
			plan->cost - best->cost,
			hd_elastic_kind_names[best->kind],
			best->cost > 0 ? plan->cost / best->cost : 0
		);
}
