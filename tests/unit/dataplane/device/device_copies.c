/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between a device and the host. */
#include "device_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define PATIENCE (60 * HD_SECOND)
#define COPY_ROOM ((size_t)300000)
#define VALUES ((size_t)8 * HD_STAGE_VALUES)

void device_copy(
	struct hd_device *device,
	void *to,
	const void *from,
	size_t bytes,
	bool to_device
) {
	void *near = device_host(device, bytes), *event;

	if (to_device)
		memcpy(near, from, bytes);
	assert_int_equal(device->ops->event_create(device, &event), 0);
	assert_int_equal(
		device->ops->copy(
			device, NULL, to_device ? to : near, to_device ? near : from, bytes
		),
		0
	);
	assert_int_equal(device->ops->record(device, event, NULL), 0);
	assert_int_equal(hd_device_wait(device, event, PATIENCE), 0);
	if (!to_device)
		memcpy(to, near, bytes);
	device->ops->event_destroy(device, event);
	device->ops->host_release(device, near);
}

static void check_bytes(struct hd_device *device) {
	static const size_t sizes[] = {0, 1, 2, 3, 255, 65536, 65537, 131072, 250001};
	unsigned char *ours = malloc(COPY_ROOM), *theirs = malloc(COPY_ROOM);
	void *memory;

	assert_int_equal(device->ops->allocate(device, COPY_ROOM, &memory), 0);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		const size_t bytes = sizes[i], at = 3 * i + 1;

		memset(theirs, (int)i, COPY_ROOM);
		device_copy(device, memory, theirs, COPY_ROOM, true);
		for (size_t k = 0; k < bytes; k++)
			theirs[at + k] = (unsigned char)(k * 7 + k / 251 + i);
		device_copy(device, (char *)memory + at, theirs + at, bytes, true);
		device_copy(device, ours, memory, COPY_ROOM, false);
		assert_memory_equal(ours, theirs, COPY_ROOM);
		memset(ours, 0xa5, COPY_ROOM);
		device_copy(device, ours + 1, (char *)memory + at, bytes, false);
		assert_memory_equal(ours + 1, theirs + at, bytes);
		assert_int_equal(ours[0], 0xa5);
		assert_int_equal(ours[bytes + 1], 0xa5);
	}
	device->ops->release(device, memory);
	free(ours);
	free(theirs);
}

/* In its order with stages, and with what was recorded in another stream. */
static void check_order(struct hd_device *device) {
	const struct hd_device_ops *ops = device->ops;
	float *near = device_host(device, VALUES * sizeof(float));
	float *back = device_host(device, VALUES * sizeof(float)), *far;
	struct hd_stage_job job = {.kind = HD_STAGE_UNPACK};
	void *stream, *event;

	for (size_t i = 0; i < VALUES; i++) {
		near[i] = (float)(i + 1);
		back[i] = 0;
	}
	far = device_filled(device, back, VALUES);
	assert_int_equal(ops->event_create(device, &event), 0);
	assert_int_equal(ops->stream_create(device, &stream), 0);
	job.unpack = (struct hd_unpack){.from = near, .to = far, .values = VALUES};
	assert_int_equal(ops->launch(device, NULL, &job), 0);
	assert_int_equal(ops->record(device, event, NULL), 0);
	assert_int_equal(ops->after(device, stream, event), 0);
	assert_int_equal(ops->copy(device, stream, back, far, VALUES * sizeof *back), 0);
	assert_int_equal(ops->record(device, event, stream), 0);
	assert_int_equal(hd_device_wait(device, event, PATIENCE), 0);
	assert_memory_equal(back, near, VALUES * sizeof *back);
	ops->release(device, far);
	ops->host_release(device, near);
	ops->host_release(device, back);
	ops->stream_destroy(device, stream);
	ops->event_destroy(device, event);
}

void device_check_copies(struct hd_device *device) {
	check_bytes(device);
	check_order(device);
}
