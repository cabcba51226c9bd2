/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_checkpoint_file.h"
#include "hd_checkpoint_writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HD_ERROR_BYTES 256

struct hd_write {
	const struct hd_checkpoint *checkpoint;
	uint32_t job;
	int status;
	char error[HD_ERROR_BYTES];
};

/* A ring: entries first..written are done, to be taken back; written..given are to be written. */
struct hd_checkpoint_writer {
	const char *directory;
	void (*before)(void *owner);
	void (*ended)(void *owner);
	void *owner;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	/* under the lock */
	struct hd_write writes[HD_JOBS_MAX];
	size_t taken, written, given;
	bool closing;
};

/* Waits for the oldest entry to be written; NULL: the thread ends. */
static struct hd_write *writer_wait(struct hd_checkpoint_writer *writer) {
	struct hd_write *write = NULL;

	pthread_mutex_lock(&writer->lock);
	while (writer->written == writer->given && !writer->closing)
		pthread_cond_wait(&writer->work, &writer->lock);
	if (writer->written != writer->given)
		write = &writer->writes[writer->written % HD_JOBS_MAX];
	pthread_mutex_unlock(&writer->lock);
	return write;
}

static void *writer_run(void *argument) {
	struct hd_checkpoint_writer *writer = argument;
	struct hd_write *write;

	/* Only this thread touches an entry between `written` and `given`. */
	while ((write = writer_wait(writer))) {
		if (writer->before)
			writer->before(writer->owner);
		write->status = hd_checkpoint_write(
			writer->directory, write->checkpoint, write->error, sizeof write->error
		);
		pthread_mutex_lock(&writer->lock);
		writer->written++;
		pthread_mutex_unlock(&writer->lock);
		writer->ended(writer->owner);
	}
	return NULL;
}

int hd_checkpoint_writer_open(
	const char *directory,
	void (*before)(void *owner),
	void (*ended)(void *owner),
	void *owner,
	struct hd_checkpoint_writer **out
) {
	struct hd_checkpoint_writer *writer = calloc(1, sizeof *writer);
	int rc;

	if (!writer)
		return -ENOMEM;
	writer->directory = directory;
	writer->before = before;
	writer->ended = ended;
	writer->owner = owner;
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->work, NULL);
	rc = pthread_create(&writer->thread, NULL, writer_run, writer);
	if (rc != 0) {
		pthread_cond_destroy(&writer->work);
		pthread_mutex_destroy(&writer->lock);
		free(writer);
		return -rc;
	}
	*out = writer;
	return 0;
}

void hd_checkpoint_writer_close(struct hd_checkpoint_writer *writer) {
	if (!writer)
		return;
	pthread_mutex_lock(&writer->lock);
	writer->closing = true;
	pthread_cond_signal(&writer->work);
	pthread_mutex_unlock(&writer->lock);
	pthread_join(writer->thread, NULL);
	pthread_cond_destroy(&writer->work);
	pthread_mutex_destroy(&writer->lock);
	free(writer);
}

int hd_checkpoint_writer_give(
	struct hd_checkpoint_writer *writer,
	const struct hd_checkpoint *checkpoint
) {
	int rc = -ENOBUFS;

	pthread_mutex_lock(&writer->lock);
	if (writer->given - writer->taken < HD_JOBS_MAX) {
		writer->writes[writer->given++ % HD_JOBS_MAX]
			= (struct hd_write){.checkpoint = checkpoint, .job = checkpoint->job};
		pthread_cond_signal(&writer->work);
		rc = 0;
	}
	pthread_mutex_unlock(&writer->lock);
	return rc;
}

bool hd_checkpoint_writer_take(
	struct hd_checkpoint_writer *writer,
	uint32_t *job,
	int *status,
	char *error,
	size_t error_bytes
) {
	bool found = false;

	pthread_mutex_lock(&writer->lock);
	if (writer->taken != writer->written) {
		const struct hd_write *write = &writer->writes[writer->taken++ % HD_JOBS_MAX];

		*job = write->job;
		*status = write->status;
		(void)snprintf(error, error_bytes, "%s", write->error);
		found = true;
	}
	pthread_mutex_unlock(&writer->lock);
	return found;
}
