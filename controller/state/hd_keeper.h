/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the newest version of a text to the disk without blocking the caller: a thread of its own writes it, and tries
 * again when the disk is full.
 */
#ifndef HD_KEEPER_H
#define HD_KEEPER_H

#include <stdbool.h>

struct hd_keeper;

struct hd_keeper_config {
	const char *directory, *name; /* hd_state_file_replace() */
	/* Called by the keeper's thread at the first failure, and when writing succeeds again. */
	void (*report)(void *owner, bool good, const char *text);
	void *owner;
};

/* 0 or -errno. */
int hd_keeper_open(const struct hd_keeper_config *config, struct hd_keeper **keeper);
/* Takes ownership of the text (malloc'ed), which replaces one that was not written yet. NULL keeper: frees it. */
void hd_keeper_put(struct hd_keeper *keeper, char *text);
/* Writes the remaining text, once, and frees. 0 or -EIO: the newest text is not on the disk. NULL: 0. */
int hd_keeper_close(struct hd_keeper *keeper);

#endif
