/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of heddle-controller: the topology, and the epoch that it keeps. Each returns 0 or a sysexits code, and
 * has said on the log which option and file are wrong. */
#ifndef HEDDLE_FILES_H
#define HEDDLE_FILES_H

#include "hd_log.h"
#include "hd_topology.h"

/* path NULL: a star of the hosts that register. */
int heddle_topology(struct hd_log *log, const char *path, struct hd_topology **topology);
/* Keeps STATE_DIR/epoch, greater than ever before; the folder is made when it is missing. NULL: 1. */
int heddle_next_epoch(struct hd_log *log, const char *state_dir, uint16_t *epoch);

#endif
