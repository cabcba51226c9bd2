/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated device moves only when it is asked (hd_device_fake.h). So it is as slow as the machine is busy, and a
 * wait of the library for it may come to its limit. */
#ifndef FAR_PATIENCE_H
#define FAR_PATIENCE_H

#include <stdatomic.h>

/* True: hd_device_wait() has no limit. The test is linked with --wrap=hd_device_wait. */
extern atomic_bool far_patience;

#endif
