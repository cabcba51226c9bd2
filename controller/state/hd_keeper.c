/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_keeper.h"
#include "hd_state_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETRY_MAX_S 64

struct hd_keeper {
	struct hd_keeper_config config;
	pthread_t thread;
	pthread_mutex_t lock; // guards the following
	pthread_cond_t changed; // to the writer: a text, or the end
	char *text; // the newest, not written yet; NULL: none
	bool closing;
	// the writer's alone
	bool bad;
	unsigned retry_s;
};

/* Reports the first failure and the end of failures, not each one. */
static void tell(struct hd_keeper *k, int code) {
	char text[512];

	if ((code != 0) == k->bad)
		return;
	k->bad = code != 0;
	(void)snprintf(
		text,
		sizeof text,
		"%s/%s: %s",
		k->config.directory,
		k->config.name,
		k->bad ? strerror(-code) : "is written again"
	);
	k->config.report(k->config.owner, !k->bad, text);
}

/* Called with the lock, which it releases meanwhile. A text that could not be written stays, unless a newer one
 * came. */
static void write_newest(struct hd_keeper *k) {
	char *text = k->text;
	int code;

	k->text = NULL;
	pthread_mutex_unlock(&k->lock);
	code = hd_state_file_replace(k->config.directory, k->config.name, text);
	tell(k, code);
	pthread_mutex_lock(&k->lock);
	if (code && !k->text) {
		k->text = text;
		text = NULL;
	}
	free(text);
	k->retry_s = !code ? 0 : !k->retry_s ? 1 : k->retry_s * 2;
	if (k->retry_s > RETRY_MAX_S)
		k->retry_s = RETRY_MAX_S;
}

/* Called with the lock. */
static void wait_to_retry(struct hd_keeper *k) {
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += k->retry_s;
	while (!k->closing)
		if (pthread_cond_timedwait(&k->changed, &k->lock, &until) == ETIMEDOUT)
			return;
}

static void *run(void *argument) {
	struct hd_keeper *k = argument;

	pthread_mutex_lock(&k->lock);
	for (;;) {
		bool last;

		while (!k->closing && !k->text)
			pthread_cond_wait(&k->changed, &k->lock);
		if (k->retry_s)
			wait_to_retry(k);
		last = k->closing;
		if (k->text)
			write_newest(k);
		if (last && (!k->text || k->bad))
			break;
	}
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

static void destroy(struct hd_keeper *k) {
	pthread_cond_destroy(&k->changed);
	pthread_mutex_destroy(&k->lock);
	free(k->text);
	free(k);
}

int hd_keeper_open(const struct hd_keeper_config *config, struct hd_keeper **keeper) {
	struct hd_keeper *k = calloc(1, sizeof *k);
	pthread_condattr_t monotonic;
	int code;

	if (!k)
		return -ENOMEM;
	k->config = *config;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	code = -pthread_create(&k->thread, NULL, run, k);
	if (code) {
		destroy(k);
		return code;
	}
	*keeper = k;
	return 0;
}

void hd_keeper_put(struct hd_keeper *k, char *text) {
	if (!k) {
		free(text);
		return;
	}
	pthread_mutex_lock(&k->lock);
	free(k->text);
	k->text = text;
	pthread_cond_signal(&k->changed);
	pthread_mutex_unlock(&k->lock);
}

int hd_keeper_close(struct hd_keeper *k) {
	int code;

	if (!k)
		return 0;
	pthread_mutex_lock(&k->lock);
	k->closing = true;
	pthread_cond_signal(&k->changed);
	pthread_mutex_unlock(&k->lock);
	pthread_join(k->thread, NULL);
	code = k->text ? -EIO : 0;
	destroy(k);
	return code;
}
