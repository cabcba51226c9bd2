/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host in the role of a device. Its memory is the heap's, its streams are queues. Work is done only in calls of
 * done(): each advances every stream by one operation, or not, as the seed has it, and a stage by some of its blocks;
 * so another thread can look at flags while a stage is under way. The same seed and the same calls give the same order.
 */
#ifndef HD_DEVICE_FAKE_H
#define HD_DEVICE_FAKE_H

#include "hd_device.h"

struct hd_fake_config {
	uint64_t seed;
	uint32_t delay; /* a call of done() does nothing with a chance of delay in 1 + delay */
	uint64_t
		fails_at; /* the so-many-th block of all stages takes the device off the bus; 0: none */
	uint64_t refuses; /* the so-many-th memory, stream or event is not to be had; 0: none */
};

/* There is one at a time; hd_device_use(hd_fake_find) has hd_device_of() find it. -EBUSY. */
int hd_fake_open(const struct hd_fake_config *config, struct hd_device **device);
hd_device_find hd_fake_find;
/* Returns how much was not given back (memory, streams, events), or was while a stage still needed it. */
size_t hd_fake_close(struct hd_device *device);
/* All that was queued is done at once. */
void hd_fake_settle(struct hd_device *device);

#endif
