/* SPDX-License-Identifier: BSD-3-Clause */
/* Small files of --state-dir, complete before and after a power failure. */
#ifndef HD_STATE_FILE_H
#define HD_STATE_FILE_H

#include <stddef.h>

/* Creates DIR when it is missing, and locks it until the returned file is closed, or its process ends. -EBUSY: another
 * process has it; or -errno. */
int hd_state_take(const char *directory);
/* Writes DIR/NAME.new, syncs it, renames it to DIR/NAME, syncs the directory: a reader of DIR/NAME finds all of the old
 * text or all of the new one. 0; -ENAMETOOLONG, or -errno: then the old text is in place (after a failed sync of the
 * directory: either). */
int hd_state_file_replace(const char *directory, const char *name, const char *text);
/* In place, for a full disk: only for texts of one width within a sector. 0 or -errno. */
int hd_state_file_overwrite(const char *directory, const char *name, const char *text);

#endif
