/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-train, whose --device cuda is the fake device: all of the program, with the host as GPU. Exit status 99:
 * memory on the device was not freed, or freed while it was in use. */
#include "hd_device_fake.h"

#include <stdio.h>
#include <stdlib.h>

#undef main /* that of heddle_train.c is renamed */

#define LEFT_BEHIND 99

int train_main(int argc, char **argv);

int main(int argc, char **argv) {
	const char *fails_at = getenv("FAKE_FAILS_AT");
	const struct hd_fake_config config = {
		.seed = 1,
		.fails_at = fails_at ? strtoull(fails_at, NULL, 10) : 0,
	};
	struct hd_device *device;
	size_t left;
	int status;

	if (hd_fake_open(&config, &device) < 0)
		return LEFT_BEHIND;
	hd_device_use(hd_fake_find);
	hd_device_offer(device);
	status = train_main(argc, argv);
	hd_device_offer(NULL);
	left = hd_fake_close(device);
	if (left == 0 || status != 0)
		return status;
	(void)fprintf(stderr, "%zu objects of the device were left behind\n", left);
	return LEFT_BEHIND;
}
