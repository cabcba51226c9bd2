/* SPDX-License-Identifier: BSD-3-Clause */
/* DIR/epoch, a number that grows with every start. */
#ifndef HD_EPOCH_FILE_H
#define HD_EPOCH_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Takes the next epoch: it is on the disk, synced, before it is handed out, so no two processes have the same one, even
 * after a power failure. On a full disk the old file is overwritten in place. 0; -EBADMSG (not an epoch), -ERANGE (they
 * are used up), -ENAMETOOLONG, or -errno; error names the file and the problem. */
int hd_epoch_file_next(const char *directory, uint16_t *epoch, char *error, size_t error_bytes);

#endif
