/* SPDX-License-Identifier: BSD-3-Clause */
/* A server without a controller and the description of a job, for tests of single pushes. */
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

#include "server_net.h"

#define VALUES 3001 /* 8 full chunks and a short one */
#define BYTES ((size_t)4 * VALUES) /* of fp32 */

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
};

int job_setup(void **state);
int job_teardown(void **state);
/* An update that depends on who and when only. */
void job_update(float *g, uint16_t rank, uint32_t round);

#endif
