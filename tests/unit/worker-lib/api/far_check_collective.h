/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of values on a device, beside the real controller and aggregator cores on the loopback interface. */
#ifndef FAR_CHECK_COLLECTIVE_H
#define FAR_CHECK_COLLECTIVE_H

#include "hd_device.h"

/* Workers on the device and one on the host, every kind, type and payload, aligned and not, short and long: over the
 * network, and (`is_one_host`) in memory that they share. */
void far_check_collectives(struct hd_device *device, bool is_one_host);
/* A worker gives the values that its buffer has after the operations before the call on its stream, and before those
 * behind it. The result is written after the former. */
void far_check_collective_order(struct hd_device *device);
/* Memory that is not the device's, was freed or is too short: at once, with words, and nothing is left. */
void far_check_collective_refusals(struct hd_device *device);
/* A wait that ends before the result is there leaves the buffer as it was. */
void far_check_collective_timeout(struct hd_device *device);

#endif
