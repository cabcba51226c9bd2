/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the newest of a text on the disk without anybody waiting for it: a thread of its own writes it, and
 * tries again when the disk is full.
 */
#ifndef HD_KEEPER_H
#define HD_KEEPER_H

#include <stdbool.h>

struct hd_keeper;

struct hd_keeper_config {
	const char *directory, *name; /* hd_state_file_replace() */
	/* From the keeper's thread: what is wrong, once, and when it is right again. */
	void (*say)(void *owner, bool good, const char *text);
	void *owner;
};

/* 0 or -errno. */
int hd_keeper_open(const struct hd_keeper_config *config, struct hd_keeper **keeper);
/* Takes the text over (malloc'ed); it takes the place of one that was not written yet. NULL keeper: frees it. */
void hd_keeper_put(struct hd_keeper *keeper, char *text);
/* Writes what is left, once, and frees. 0 or -EIO: the newest text is not on the disk. NULL: 0. */
int hd_keeper_close(struct hd_keeper *keeper);

#endif
