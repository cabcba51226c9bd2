/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the device files. */
#ifndef HD_DEVICE_PRIVATE_H
#define HD_DEVICE_PRIVATE_H

#include "hd_device.h"

hd_device_find hd_cuda_find;

#endif
