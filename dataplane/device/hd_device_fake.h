/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host as a device. Its memory is on the heap, its streams are queues. Work is done only in calls of done(): each
 * advances every stream by one operation, or not, depending on the seed, and a stage by some of its blocks; so another
 * thread can look at flags while a stage is in progress. The same seed and calls give the same order.
 */
#ifndef HD_DEVICE_FAKE_H
#define HD_DEVICE_FAKE_H

#include "hd_device.h"

struct hd_fake_config {
	uint64_t seed;
	uint32_t delay; /* a call of done() does nothing with probability delay / (1 + delay) */
	uint64_t
		fails_at; /* the n-th block of all stages and copies makes the device fail; 0: none */
	uint64_t refuses; /* the n-th allocation (memory, stream or event) fails; 0: none */
};

/* Only one at a time; after hd_device_use(hd_fake_find) hd_device_of() finds it. -EBUSY. */
int hd_fake_open(const struct hd_fake_config *config, struct hd_device **device);
hd_device_find hd_fake_find;
/* Another configuration from now on: blocks and allocations count from 1 again. Its seed is not used. */
void hd_fake_change(struct hd_device *device, const struct hd_fake_config *config);
/* Returns how many objects (memory, streams, events) were not freed, or freed while a stage still used them. */
size_t hd_fake_close(struct hd_device *device);
/* Completes all queued work at once. */
void hd_fake_settle(struct hd_device *device);

#endif
