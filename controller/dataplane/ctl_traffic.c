/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of packet counters of nodes. */
#include "ctl_dataplane.h"

#include <math.h>

#define FRESH_NS (HD_POLL_HOLD_US * HD_US)

/* Of counters, the part since `clear`. */
static void add_counted(struct ctl_traffic *t, const struct ctl_readings *r) {
	for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++) {
		bool counter = hd_dataplane_group.stats[i].kind == HD_STAT_COUNTER;
		uint64_t value = hd_dataplane_get(&r->last, i);

		hd_dataplane_add(
			hd_dataplane_at(&t->counted, i),
			counter ? value - hd_dataplane_get(&r->base, i) : value
		);
	}
}

static void add_rate(double *sum, uint64_t now, uint64_t before, double factor) {
	double rate = (double)(now - before) * factor;

	*sum = isnan(*sum) ? rate : *sum + rate;
}

static void add_rates(struct ctl_traffic *t, const struct ctl_readings *r) {
	const struct hd_dataplane *now = &r->last, *before = &r->before;
	double per_s = 1e9 / (double)(r->at - r->before_at);

	add_rate(&t->rx_pps, now->rx_packets, before->rx_packets, per_s);
	add_rate(&t->rx_bps, now->rx_bytes, before->rx_bytes, 8 * per_s);
	add_rate(&t->tx_pps, now->tx_packets, before->tx_packets, per_s);
	add_rate(&t->tx_bps, now->tx_bytes, before->tx_bytes, 8 * per_s);
	add_rate(
		&t->resent_pps,
		now->chunks_resent + now->control_resent,
		before->chunks_resent + before->control_resent,
		per_s
	);
	add_rate(&t->cores, now->processor_us, before->processor_us, per_s / 1e6);
}

void ctl_traffic_add(struct ctl_traffic *t, const struct ctl_readings *r, hd_ns now) {
	bool known = r && r->taken, fresh = known && now - r->taken <= FRESH_NS;

	if (t->nodes++ == 0)
		t->rx_pps = t->rx_bps = t->tx_pps = t->tx_bps = t->resent_pps = t->cores = NAN;
	t->silent += !fresh;
	t->known += known;
	if (known)
		add_counted(t, r);
	if (fresh && r->before_at)
		add_rates(t, r);
}

uint64_t ctl_traffic_drops(const struct ctl_traffic *t, const char **reason) {
	uint64_t sum = 0, most = 0;

	*reason = "";
	for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++) {
		const char *name = hd_dataplane_reason(i);
		uint64_t value = hd_dataplane_get(&t->counted, i);

		if (!name)
			continue;
		hd_dataplane_add(&sum, value);
		if (value <= most)
			continue;
		most = value;
		*reason = name;
	}
	return sum;
}
