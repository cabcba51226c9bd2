/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: messages to their handlers. */
#ifndef CTL_DISPATCH_H
#define CTL_DISPATCH_H

#include "ctl_core.h"

/* Handles one message of a node that can still be answered. Messages that are not accepted here, or not from this role,
 * are counted and dropped. */
void ctl_dispatch(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_message *message,
	struct hd_sink *sink
);
/* Checks the table of routes: asserted when a core is created. */
bool ctl_routes_are_valid(void);

#endif
