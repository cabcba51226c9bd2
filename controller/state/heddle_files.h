/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of heddle-controller: the topology, the epoch, and the state of its last process. Each function returns 0 or a
 * sysexits code, and has logged which option and file are wrong. */
#ifndef HEDDLE_FILES_H
#define HEDDLE_FILES_H

#include "hd_log.h"
#include "hd_topology.h"

/* path NULL: a star of the hosts that register. */
int heddle_topology(struct hd_log *log, const char *path, struct hd_topology **topology);
/* Creates STATE_DIR when it is missing, and locks it until this process ends. NULL: nothing to do. */
int heddle_take_state(struct hd_log *log, const char *state_dir);
/* Increments STATE_DIR/epoch. NULL: 1. */
int heddle_next_epoch(struct hd_log *log, const char *state_dir, uint16_t *epoch);

/* The saved state of the last process (STATE_DIR/state.json), for hd_controller_restore(); NULL: none. free() it. */
int heddle_read_kept(struct hd_log *log, const char *state_dir, char **text);
/* error is from hd_controller_restore(). */
int heddle_refuse_kept(struct hd_log *log, const char *state_dir, int status, const char *error);

#define HEDDLE_KEPT_NAME "state.json"

#endif
