/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints in a directory: DIR/<job>-<incarnation>-<counter>.safetensors, with numbers in fixed-width hexadecimal so
 * that names sort by version. A file appears complete or not at all; the newest two of a job are kept.
 */
#ifndef HD_CHECKPOINT_FILE_H
#define HD_CHECKPOINT_FILE_H

#include "hd_server.h"

#define HD_CHECKPOINTS_KEPT 2

/* Writes to a temporary file, syncs it, renames it, syncs the directory, removes older files. 0 or -errno; error says
 * which file and what. Blocks: call it from a thread of its own. */
int hd_checkpoint_write(
	const char *directory,
	const struct hd_checkpoint *checkpoint,
	char *error,
	size_t error_bytes
);

/* Removes what a killed server left unfinished, and reads the newest readable checkpoint of a job: 0 with malloc'ed
 * arrays (hd_safetensors_free()); -ENOENT: none there; -EBADMSG: all of them are damaged; else -errno. `report` is
 * called with a sentence for each damaged file, and for the one that is used instead. */
int hd_checkpoint_read(
	const char *directory,
	uint32_t job,
	struct hd_checkpoint *checkpoint,
	void (*report)(void *owner, const char *sentence),
	void *owner
);

/* Whether there is a checkpoint of any job, readable or not; true also when the directory cannot be read. */
bool hd_checkpoint_any(const char *directory);

#endif
