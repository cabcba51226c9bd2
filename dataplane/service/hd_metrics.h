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

/* Fewer characters can be guessed; more are no token. */
#define HD_METRICS_TOKEN_MIN 16
#define HD_METRICS_TOKEN_MAX 256

/* A token is the file's one line, of letters, digits and -._~+/= (RFC 6750, section 2.1). 0; -EBADMSG with *what in
 * words, or -errno. */
int hd_metrics_read_token(
	const char *path,
	char token[HD_METRICS_TOKEN_MAX + 1],
	const char **what
);

/* listen: [ADDR:]PORT (none: the loopback interface; port 0: any). token: who asks must say it as
 * `Authorization: Bearer TOKEN`; "": nobody needs to. 0 or -errno; error says what in words. The desk and the token
 * outlive it. */
int hd_metrics_open(
	const char *listen,
	const char *token,
	struct hd_desk *desk,
	struct hd_metrics **metrics,
	char *error,
	size_t error_bytes
);
void hd_metrics_close(struct hd_metrics *metrics);
struct hd_addr hd_metrics_bound(const struct hd_metrics *metrics);

#endif
