/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of heddle-controller: the topology, the epoch, and what its former life kept. Each returns 0 or a
 * sysexits code, and has said on the log which option and file are wrong. */
#ifndef HEDDLE_FILES_H
#define HEDDLE_FILES_H

#include "hd_log.h"
#include "hd_topology.h"

/* path NULL: a star of the hosts that register. */
int heddle_topology(struct hd_log *log, const char *path, struct hd_topology **topology);
/* STATE_DIR, which is made when it is missing, is this process's alone until it ends. NULL: nothing to do. */
int heddle_take_state(struct hd_log *log, const char *state_dir);
/* Keeps STATE_DIR/epoch, greater than ever before. NULL: 1. */
int heddle_next_epoch(struct hd_log *log, const char *state_dir, uint16_t *epoch);

/* What the former life kept (STATE_DIR/state.json), for hd_controller_restore(); NULL: nothing. free() it. */
int heddle_read_kept(struct hd_log *log, const char *state_dir, char **text);
/* error is hd_controller_restore()'s. */
int heddle_refuse_kept(struct hd_log *log, const char *state_dir, int status, const char *error);

#define HEDDLE_KEPT_NAME "state.json"

#endif
