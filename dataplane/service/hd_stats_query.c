/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_stats_query.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct hd_stats_query {
	void (*wake)(void *owner);
	void *owner;
	pthread_mutex_t turn; // held by the reader that asks now
	pthread_mutex_t lock; // guards wanted, and the counters while they are wanted
	pthread_cond_t filled;
	bool wanted;
	struct hd_stats *stats; // filled by the node's thread while wanted; else used by the reader
};

struct hd_stats_query *hd_stats_query_open(void (*wake)(void *owner), void *owner) {
	struct hd_stats_query *query = calloc(1, sizeof *query);
	pthread_condattr_t monotonic;

	if (!query)
		return NULL;
	query->stats = hd_stats_create();
	if (!query->stats) {
		free(query);
		return NULL;
	}
	query->wake = wake;
	query->owner = owner;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&query->turn, NULL);
	pthread_mutex_init(&query->lock, NULL);
	pthread_cond_init(&query->filled, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return query;
}

void hd_stats_query_close(struct hd_stats_query *query) {
	if (!query)
		return;
	pthread_cond_destroy(&query->filled);
	pthread_mutex_destroy(&query->lock);
	pthread_mutex_destroy(&query->turn);
	hd_stats_destroy(query->stats);
	free(query);
}

void hd_stats_query_serve(
	struct hd_stats_query *query,
	void (*fill)(void *owner, struct hd_stats *stats),
	void *owner
) {
	pthread_mutex_lock(&query->lock);
	if (query->wanted) {
		hd_stats_clear(query->stats);
		fill(owner, query->stats);
		query->wanted = false;
		pthread_cond_signal(&query->filled);
	}
	pthread_mutex_unlock(&query->lock);
}

int hd_stats_query_read(
	struct hd_stats_query *query,
	unsigned timeout_ms,
	void (*visit)(void *owner, const struct hd_stats *stats),
	void *owner
) {
	struct timespec until;
	int status = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	pthread_mutex_lock(&query->turn);
	pthread_mutex_lock(&query->lock);
	query->wanted = true;
	query->wake(query->owner);
	while (query->wanted && status == 0)
		status = pthread_cond_timedwait(&query->filled, &query->lock, &until);
	status = query->wanted ? -ETIMEDOUT : 0;
	query->wanted = false;
	pthread_mutex_unlock(&query->lock);
	/* No other reader asks before this one's turn ends: the counters stay unchanged. */
	if (status == 0)
		visit(owner, query->stats);
	pthread_mutex_unlock(&query->turn);
	return status;
}
