/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of values on a device, beside the real controller and aggregator cores on the loopback interface. */
#ifndef FAR_CHECK_REDUCE_H
#define FAR_CHECK_REDUCE_H

#include "hd_device.h"

/* A worker whose values are on the device and one whose values are on the host get the same bits: every payload,
 * operation, copied and borrowed, in place and not. A wait that ends before the sum is there leaves the values. */
void far_check_reduce(struct hd_device *device);

#endif
