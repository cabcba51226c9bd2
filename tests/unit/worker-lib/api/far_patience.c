/* SPDX-License-Identifier: BSD-3-Clause */
#include "far_patience.h"
#include "hd_device.h"

atomic_bool far_patience;

int __real_hd_device_wait(struct hd_device *device, void *event, hd_ns span);
int __wrap_hd_device_wait(struct hd_device *device, void *event, hd_ns span);

int __wrap_hd_device_wait(struct hd_device *device, void *event, hd_ns span) {
	return __real_hd_device_wait(device, event, far_patience ? HD_NEVER : span);
}
