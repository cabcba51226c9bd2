/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_desk.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct hd_desk {
	void (*wake)(void *owner);
	void *owner;
	pthread_mutex_t turn; // held by the reader whose question it is
	pthread_mutex_t lock; // guards wanted, and the counters while they are wanted
	pthread_cond_t filled;
	bool wanted;
	struct hd_stats
		*stats; // the node's thread fills it while wanted; else the reader whose turn it is
};

struct hd_desk *hd_desk_open(void (*wake)(void *owner), void *owner) {
	struct hd_desk *desk = calloc(1, sizeof *desk);
	pthread_condattr_t monotonic;

	if (!desk)
		return NULL;
	desk->stats = hd_stats_create();
	if (!desk->stats) {
		free(desk);
		return NULL;
	}
	desk->wake = wake;
	desk->owner = owner;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&desk->turn, NULL);
	pthread_mutex_init(&desk->lock, NULL);
	pthread_cond_init(&desk->filled, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return desk;
}

void hd_desk_close(struct hd_desk *desk) {
	if (!desk)
		return;
	pthread_cond_destroy(&desk->filled);
	pthread_mutex_destroy(&desk->lock);
	pthread_mutex_destroy(&desk->turn);
	hd_stats_destroy(desk->stats);
	free(desk);
}

void hd_desk_serve(
	struct hd_desk *desk,
	void (*fill)(void *owner, struct hd_stats *stats),
	void *owner
) {
	pthread_mutex_lock(&desk->lock);
	if (desk->wanted) {
		hd_stats_clear(desk->stats);
		fill(owner, desk->stats);
		desk->wanted = false;
		pthread_cond_signal(&desk->filled);
	}
	pthread_mutex_unlock(&desk->lock);
}

int hd_desk_read(
	struct hd_desk *desk,
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
	pthread_mutex_lock(&desk->turn);
	pthread_mutex_lock(&desk->lock);
	desk->wanted = true;
	desk->wake(desk->owner);
	while (desk->wanted && status == 0)
		status = pthread_cond_timedwait(&desk->filled, &desk->lock, &until);
	status = desk->wanted ? -ETIMEDOUT : 0;
	desk->wanted = false;
	pthread_mutex_unlock(&desk->lock);
	/* Nobody asks again before this turn ends: the counters stay as they are. */
	if (status == 0)
		visit(owner, desk->stats);
	pthread_mutex_unlock(&desk->turn);
	return status;
}
