/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of devices know of each other. */
#ifndef HD_DEVICE_PRIVATE_H
#define HD_DEVICE_PRIVATE_H

#include "hd_device.h"

hd_device_find hd_cuda_find;

#endif
