/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_random.h"
#include "server_job.h"

#include <stdlib.h>

int job_setup(void **state) {
	struct fixture *f = calloc(1, sizeof *f);

	net_open(&f->net);
	net_server(&f->net, &f->config);
	spec_make(&f->spec, f->tensors, VALUES);
	*state = f;
	return 0;
}

int job_teardown(void **state) {
	struct fixture *f = *state;

	net_close(&f->net);
	free(f);
	return 0;
}

void job_update(float *g, uint16_t rank, uint32_t round) {
	struct hd_random random;

	hd_random_init(&random, rank * 1000003ULL + round);
	for (size_t i = 0; i < VALUES; i++)
		g[i] = (float)(hd_random_unit(&random) - 0.5);
}
