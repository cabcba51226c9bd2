/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: state that outlives this controller. */
#ifndef CTL_KEPT_H
#define CTL_KEPT_H

#include "ctl_core.h"

/* --- ctl_kept.c --- */
void ctl_keep(struct hd_controller *c);

#endif
