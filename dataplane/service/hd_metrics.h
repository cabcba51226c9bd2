/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GET /metrics: the node's numbers as OpenMetrics 1.0, for Prometheus and whatever reads the same. On
 * GNU libmicrohttpd, which has a thread of its own that sleeps while nobody asks: rendering and slow
 * readers cost the node nothing, and it serves every driver, also one that never sleeps.
 */
#ifndef HD_METRICS_H
#define HD_METRICS_H

#include "hd_desk.h"

struct hd_metrics;

/* listen: ADDR:PORT (port 0: any). 0 or -errno; error says what in words. The desk outlives it. */
int hd_metrics_open(
	const char *listen,
	struct hd_desk *desk,
	struct hd_metrics **metrics,
	char *error,
	size_t error_bytes
);
void hd_metrics_close(struct hd_metrics *metrics);
struct hd_addr hd_metrics_bound(const struct hd_metrics *metrics);

#endif
