/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that writes checkpoints while the server continues. */
#ifndef HD_CHECKPOINT_WRITER_H
#define HD_CHECKPOINT_WRITER_H

#include "hd_server.h"

struct hd_checkpoint_writer;

/* Callbacks in the writer's thread: `before` each write (may be NULL) flushes what must be on the disk before the
 * checkpoint. `ended` after each write wakes the server's thread, which then calls hd_checkpoint_writer_take(). 0,
 * -ENOMEM, -EAGAIN. */
int hd_checkpoint_writer_open(
	const char *directory,
	void (*before)(void *owner),
	void (*ended)(void *owner),
	void *owner,
	struct hd_checkpoint_writer **writer
);
/* Finishes all given writes, then ends the thread. */
void hd_checkpoint_writer_close(struct hd_checkpoint_writer *writer);
/* Queues one checkpoint; *checkpoint must stay until it was taken back. 0 or -ENOBUFS (HD_JOBS_MAX are pending). */
int hd_checkpoint_writer_give(
	struct hd_checkpoint_writer *writer,
	const struct hd_checkpoint *checkpoint
);
/* The next write that ended: its job and status (0 or -errno, with error as text); false: none. */
bool hd_checkpoint_writer_take(
	struct hd_checkpoint_writer *writer,
	uint32_t *job,
	int *status,
	char *error,
	size_t error_bytes
);

#endif
