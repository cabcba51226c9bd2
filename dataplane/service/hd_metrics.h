/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GET /metrics: the node's counters as OpenMetrics 1.0, for Prometheus and compatible readers. Uses GNU libmicrohttpd,
 * which has a thread of its own that sleeps without requests: rendering and slow readers cost the node nothing, and it
 * serves every driver, even one that never sleeps.
 */
#ifndef HD_METRICS_H
#define HD_METRICS_H

#include "hd_stats_query.h"

struct hd_metrics;

/* Fewer characters can be guessed; more are refused. */
#define HD_METRICS_TOKEN_MIN 16
#define HD_METRICS_TOKEN_MAX 256

/* A token is the file's only line, of letters, digits and -._~+/= (RFC 6750, section 2.1). 0; -EBADMSG with a text in
 * *what, or -errno. */
int hd_metrics_read_token(
	const char *path,
	char token[HD_METRICS_TOKEN_MAX + 1],
	const char **what
);

/* listen: [ADDR:]PORT (no ADDR: the loopback interface; port 0: any). token: requests must have the header
 * `Authorization: Bearer TOKEN`; "": none is needed. 0 or -errno; error gets a text. The hd_stats_query and the token
 * must outlive it. */
int hd_metrics_open(
	const char *listen,
	const char *token,
	struct hd_stats_query *query,
	struct hd_metrics **metrics,
	char *error,
	size_t error_bytes
);
void hd_metrics_close(struct hd_metrics *metrics);
struct hd_addr hd_metrics_bound(const struct hd_metrics *metrics);

#endif
