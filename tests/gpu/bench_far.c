/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes of 100 MB over loopback UDP to the server core in the same process: from the GPU's memory beside the same from
 * the host's. Exit 77 (skipped) where there is no GPU. */
#include "device_check.h"
#include "far_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SKIP 77
#define VALUES 25000000
#define ROUNDS 9
#define PATIENCE_MS 60000

static int by_size(const void *a, const void *b) {
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double
once(struct heddle *fabric, const float *gradient, const struct heddle_push_options *how) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	if (heddle_push(fabric, gradient, far_base(fabric), how, PATIENCE_MS, &status) != 0) {
		(void)printf("push: %s\n", heddle_last_error());
		exit(1);
	}
	return (double)(status.ended_ns - status.started_ns) * 1e-9;
}

int main(void) {
	struct heddle_push_options how = HEDDLE_PUSH_OPTIONS_INIT;
	float *near = malloc(VALUES * sizeof *near), *far;
	struct far_scene *scene;
	struct hd_device *device;
	struct heddle *fabric;

	if (hd_device_cuda(0, &device) < 0) {
		(void)printf("SKIP: %s\n", hd_device_words());
		free(near);
		return SKIP;
	}
	for (int i = 0; i < VALUES; i++)
		near[i] = (float)(i * 7919LL % 20011 - 10005) * 0x1p-20F;
	far = device_filled(device, near, VALUES);
	scene = far_scene_create(device);
	fabric = far_open(scene, "bench", VALUES);
	(void
	)printf("%s; %d values, median of %d pushes, ms from the call until applied\n",
		device->name,
		VALUES,
		ROUNDS);
	(void)printf("%-6s %-9s %8s %8s %8s\n", "type", "", "host", "GPU", "rate");
	for (int i = 0; i < 4; i++) {
		double seconds[2][ROUNDS];

		how.payload = i / 2 ? HEDDLE_PAYLOAD_BF16 : HEDDLE_PAYLOAD_FP32;
		how.borrow = i % 2;
		for (int r = -2; r < 2 * ROUNDS; r++) {
			how.memory = r % 2 ? HEDDLE_MEMORY_CUDA : HEDDLE_MEMORY_HOST;
			seconds[r & 1][r < 0 ? 0 : r / 2] = once(fabric, r % 2 ? far : near, &how);
		}
		for (int k = 0; k < 2; k++)
			qsort(seconds[k], ROUNDS, sizeof(double), by_size);
		(void
		)printf("%-6s %-9s %8.2f %8.2f %7.2fx\n",
			i / 2 ? "bf16" : "fp32",
			i % 2 ? "borrowed" : "copied",
			seconds[0][ROUNDS / 2] * 1e3,
			seconds[1][ROUNDS / 2] * 1e3,
			seconds[0][ROUNDS / 2] / seconds[1][ROUNDS / 2]);
	}
	(void)heddle_close(fabric, PATIENCE_MS);
	far_scene_destroy(scene);
	free(near);
	return 0;
}
