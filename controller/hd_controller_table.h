/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: the rows of each shell table, as a JSON array of flat objects. */
#ifndef HD_CONTROLLER_TABLE_H
#define HD_CONTROLLER_TABLE_H

#include "hd_controller_core.h"

#include <jansson.h>

json_t *ctl_rows_nodes(const struct hd_controller *c);
json_t *ctl_rows_jobs(const struct hd_controller *c);
json_t *ctl_rows_links(const struct hd_controller *c);
json_t *ctl_rows_transfers(const struct hd_controller *c);
json_t *ctl_rows_drops(const struct hd_controller *c);
json_t *ctl_rows_counters(const struct hd_controller *c);

#endif
