/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: fields that rows of several of the shell's tables have. A room writes the rows of its own
 * table: flat JSON objects, all of them, whatever the filter and the page; it returns how many there are. */
#ifndef CTL_ROW_H
#define CTL_ROW_H

#include "ctl_core.h"
#include "hd_rows.h"

double ctl_ms_from(hd_ns from, hd_ns to);
void ctl_row_addr(struct hd_rows *rows, const char *key, struct hd_addr addr);
void ctl_row_version(struct hd_rows *rows, const char *key, hd_version version);
void ctl_row_why(struct hd_rows *rows, const struct ctl_why *why, hd_ns now);

#endif
