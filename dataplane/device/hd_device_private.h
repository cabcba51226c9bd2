/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the device files. */
#ifndef HD_DEVICE_PRIVATE_H
#define HD_DEVICE_PRIVATE_H

#include "hd_device.h"

#define HD_STAGE_POINTERS 6 /* of a job, at most */

hd_device_find hd_cuda_find;

/* On the host: one block of a stage; and the memory that it uses. */
void hd_stage_job_block(const struct hd_stage_job *job, uint64_t block);
void hd_stage_job_memory(const struct hd_stage_job *job, const void *memory[HD_STAGE_POINTERS]);

#endif
