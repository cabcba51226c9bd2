/* SPDX-License-Identifier: BSD-3-Clause */
#include "train_sparse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RUN_UNITS 2 /* length of a run's header in values */
#define CUTS_SHARE 64 /* less than this part: headers of runs cut at packets' ends, and padding */

int train_sparse_init(struct train_sparse *sparse, uint64_t values) {
	*sparse = (struct train_sparse){.run_limit = (size_t)(values / (RUN_UNITS + 1))};
	sparse->runs = calloc(sparse->run_limit + 1, sizeof *sparse->runs);
	sparse->data = calloc(values + 1, sizeof *sparse->data);
	if (sparse->runs && sparse->data)
		return 0;
	train_sparse_fini(sparse);
	return -ENOMEM;
}

void train_sparse_fini(struct train_sparse *sparse) {
	free(sparse->runs);
	free(sparse->data);
	*sparse = (struct train_sparse){0};
}

bool train_sparse_pack(struct train_sparse *sparse, const float *grad, uint64_t values) {
	uint64_t packed = 0, at = 0, units;

	sparse->run_count = 0;
	while (at < values) {
		struct heddle_range *run = &sparse->runs[sparse->run_count];

		/* -0 is 0; a NaN is not. */
		while (at < values && grad[at] == 0.0f)
			at++;
		if (at == values)
			break;
		if (sparse->run_count == sparse->run_limit)
			return false;
		run->first = at;
		while (at < values && !(grad[at] == 0.0f))
			sparse->data[packed++] = grad[at++];
		run->count = at - run->first;
		sparse->run_count++;
	}
	units = packed + RUN_UNITS * sparse->run_count;
	return sparse->run_count > 0 && units + units / CUTS_SHARE + 4 <= values;
}
