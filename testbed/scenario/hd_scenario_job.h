/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of `job`, for the reader of scenario files. */
#ifndef HD_SCENARIO_JOB_H
#define HD_SCENARIO_JOB_H

#include "hd_fields.h"

/* Reads into a struct hd_scenario_job that has its defaults. */
void hd_scenario_read_job(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	void *into
);

#endif
