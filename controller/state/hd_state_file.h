/* SPDX-License-Identifier: BSD-3-Clause */
/* Small files of --state-dir, whole before and after a power cut. */
#ifndef HD_STATE_FILE_H
#define HD_STATE_FILE_H

#include <stddef.h>

/* Makes DIR when it is missing, and has it alone: until the returned file is closed, or its process is gone. -EBUSY:
 * another process has it; or -errno. */
int hd_state_take(const char *directory);
/* Writes DIR/NAME.new, syncs it, renames it to DIR/NAME, syncs the folder: who reads DIR/NAME finds all of the old
 * text or all of the new one. 0; -ENAMETOOLONG, or -errno: then the old one stands (but for a failing sync of the
 * folder: either). */
int hd_state_file_replace(const char *directory, const char *name, const char *text);
/* In place, for a full disk: only for texts of one width within a sector. 0 or -errno. */
int hd_state_file_overwrite(const char *directory, const char *name, const char *text);

#endif
