/* SPDX-License-Identifier: BSD-3-Clause */
/* A build without libmicrohttpd (-Dmetrics=disabled): --metrics is refused, so that no service is ever open. */
#include "hd_metrics.h"

#include <errno.h>
#include <stdio.h>

int hd_metrics_open(
	const char *listen,
	const char *token,
	struct hd_stats_query *query,
	struct hd_metrics **metrics,
	char *error,
	size_t error_bytes
) {
	(void)listen;
	(void)token;
	(void)query;
	(void)metrics;
	(void
	)snprintf(error, error_bytes, "this program was built without HTTP (-Dmetrics=disabled)");
	return -EOPNOTSUPP;
}

void hd_metrics_close(struct hd_metrics *metrics) {
	(void)metrics;
}

struct hd_addr hd_metrics_bound(const struct hd_metrics *metrics) {
	(void)metrics;
	return (struct hd_addr){0};
}
