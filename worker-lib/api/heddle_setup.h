/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job is opened with. */
#ifndef HEDDLE_SETUP_H
#define HEDDLE_SETUP_H

#include "hd_driver.h"
#include "hd_worker.h"
#include "heddle.h"

struct heddle_setup {
	struct heddle_options options;
	struct hd_worker_config worker;
	struct hd_driver_config driver;
	bool is_group; /* a job beside another one: it gets a free port, and no event log */
	char name[HD_NAME_BYTES_MAX + 1], host[HD_NAME_BYTES_MAX + 1];
};

/* All of a description: what heddle_open() refuses. -EINVAL. */
int heddle_check_spec(const struct heddle_spec *spec);
/* Reads the options, and the environment for what they do not say. Sets rank and world size of the handle, too. */
int heddle_read_options(
	struct heddle *fabric,
	const struct heddle_options *options,
	struct heddle_setup *setup
);
/* Options to open another job like this one, with texts of their own. -ENOMEM; to be forgotten in any case. */
int heddle_keep_options(struct heddle_options *kept, const struct heddle_options *options);
void heddle_forget_options(struct heddle_options *kept);
/* heddle_open(); is_group: a job beside another one of this process. */
int heddle_open_as(
	const struct heddle_spec *spec,
	const struct heddle_options *options,
	bool is_group,
	struct heddle **fabric
);

#endif
