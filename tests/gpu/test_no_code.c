/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked with code for an older GPU alone: a device that this build has no code for is refused with words. */
#include "hd_device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SKIP 77

int main(void) {
	struct hd_device *device;
	int rc = hd_device_cuda(0, &device);

	if (rc == -ENOTSUP && strstr(hd_device_words(), "no code")) {
		(void)printf("%s\n", hd_device_words());
		return 0;
	}
	if (rc == -ENOTSUP) {
		(void)printf("SKIP: %s\n", hd_device_words());
		return SKIP;
	}
	if (rc == 0 && strstr(device->name, "T4")) {
		(void)printf("SKIP: this is the one GPU that the code is for\n");
		return SKIP;
	}
	(void)printf("not refused: %d\n", rc);
	return 1;
}
