/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A disk that loses power. Calls to the file system are carried out and written down; after a cut nothing reaches it
 * any more. The contents that POSIX permits are then laid out in a directory, one possibility after another:
 *
 *   names   each create, rename and unlink since the last fsync() of the directory may have happened or not
 *   bytes   a file whose bytes were not synced may be empty, cut, all zeros of its length, or whole
 *
 * Link with --wrap for open, open64, write, fsync, fdatasync, rename, unlink, close. One directory, one thread.
 */
#ifndef POWER_DISK_H
#define POWER_DISK_H

#include <stdbool.h>
#include <stddef.h>

/* Begins to watch what happens in `directory`, whose files are all safe. The cut comes instead of the call with this
 * number, from 1 (0: none); with `error` not 0 that call fails with it and power stays. */
void power_watch(const char *directory, unsigned cut_at, int error);
/* Ends watching: calls seen. */
unsigned power_end(void);

/* Lays out possibility `index` of what is left in `into` (empty before). False: there is no such. */
bool power_lay_out(unsigned index, const char *into);
/* The directory as it would be if only the process had ended at the cut. */
void power_lay_out_whole(const char *into);
/* Removes all files of a directory. */
void power_clear(const char *directory);

#endif
