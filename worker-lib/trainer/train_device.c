/* SPDX-License-Identifier: BSD-3-Clause */
/* --device: the option, and the options that exclude a GPU. */
#include "hd_number.h"
#include "train_far.h"

#include <string.h>
#include <sysexits.h>

#define DEVICES_MAX 64

static int take_device(void *values, const char *text) {
	static const char cuda[] = "cuda";
	const char *rest = text + sizeof cuda - 1;
	struct train_device *device = values;
	uint64_t number = 0;

	*device = (struct train_device){TRAIN_DEVICE_CPU, 0};
	if (strcmp(text, "cpu") == 0)
		return 0;
	device->kind = strcmp(text, "auto") == 0 ? TRAIN_DEVICE_AUTO : TRAIN_DEVICE_CUDA;
	if (device->kind == TRAIN_DEVICE_AUTO || strcmp(text, cuda) == 0)
		return 0;
	if (strncmp(text, cuda, sizeof cuda - 1) != 0 || *rest != ':'
	    || hd_number_whole(rest + 1, 0, DEVICES_MAX - 1, &number) < 0)
		return train_fail(
			EX_USAGE,
			"--device: '%.32s' (cpu, cuda, cuda:N or auto, N from 0 to %d)",
			text,
			DEVICES_MAX - 1
		);
	device->number = (uint32_t)number;
	return 0;
}

const struct hd_option train_device_options[] = {
	HD_OPTION_TAKE(
		"device",
		"WHERE",
		take_device,
		"where softmax and mlp:... are computed: cpu; cuda, cuda:N: a GPU, from whose memory\n"
		"gradients are sent; auto: cuda where there is one and the options allow it (cpu)"
	),
	HD_OPTION_END,
};

const char *train_device_excluded(const struct train_options *options) {
	const struct {
		const char *name;
		bool given;
	} others[] = {
		{"federated", options->is_federated},
		{"filter", options->filtered},
		{"admm", options->admm > 0.0f},
		{"payload", options->sparse},
		{"payload", options->local && options->payload != HEDDLE_PAYLOAD_FP32},
		{"memory-mb", options->memory_mb > 0},
	};

	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (others[i].given)
			return others[i].name;
	return NULL;
}

int train_check_device(const struct train_options *options) {
	const char *name = train_device_excluded(options);

	if (options->device.kind != TRAIN_DEVICE_CUDA || !name || options->evaluate)
		return -1;
	return train_fail(
		EX_USAGE,
		"%s: not with --device cuda, which computes whole gradients of softmax and mlp:W,W,... for "
		"--sync async, full, nsync:N, nbatch:N and allreduce, and in fp32 for --local",
		name
	);
}
