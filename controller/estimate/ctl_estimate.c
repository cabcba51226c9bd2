/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate that a link is believed to carry for us now. */
#include "ctl_estimate.h"

#include <math.h>

double ctl_link_weight(const struct hd_controller *c, uint32_t link) {
	uint32_t wanted = link < c->scratch.link_capacity ? c->link_use[link] : 0;

	return wanted < 1 ? 1 : fmin(wanted, CTL_CC_WEIGHT_MAX);
}

double ctl_estimate_bytes(const struct hd_controller *c, uint32_t link) {
	double weight = ctl_link_weight(c, link);

	return fmax(hd_view_share(c->view, link, c->now, weight) / 8, 1);
}

double ctl_span_bytes(const struct ctl_span *spans, uint32_t count, hd_ns from, hd_ns to) {
	double sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		hd_ns start = hd_ns_max(spans[i].start, from), end = hd_ns_min(spans[i].end, to);

		if (start < end)
			sum += spans[i].rate * ((double)(end - start) / 1e9);
	}
	return sum;
}
