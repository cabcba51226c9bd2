/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to the child of a bridge, as JSON (hd_switch_bridge.h has the fields). New references; NULL: no memory. */
#ifndef HD_SWITCH_BRIDGE_SEND_H
#define HD_SWITCH_BRIDGE_SEND_H

#include "hd_switch.h"

#include <jansson.h>

/* Decimal text. */
json_t *bridge_number(uint64_t value);
/* As in "10.0.0.1". */
json_t *bridge_address(uint32_t ipv4);
json_t *bridge_lease(const struct hd_switch_lease *lease);

#endif
