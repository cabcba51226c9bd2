/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference's rounds (hd_federated.h) of Synthetic(A,B) as JSON lines, for bench_fedprox.py.
 *
 * usage: bench_fedprox_reference iid|A,B STRAGGLERS MU accept|drop ROUNDS
 */
#include "hd_federated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

int main(int argc, char **argv) {
	struct hd_synthetic_how data_how = {.seed = 42, .cap = 2000};
	struct hd_reference_how how = {.rate = 0.01, .clients = 10, .epochs = 20, .batch = 10};
	struct hd_reference_state at;
	struct hd_reference reference;
	struct hd_synthetic data;
	char *end = NULL;
	long rounds;

	if (argc != 6) {
		(void
		)fprintf(stderr, "usage: %s iid|A,B STRAGGLERS MU accept|drop ROUNDS\n", argv[0]);
		return EX_USAGE;
	}
	data_how.iid = strcmp(argv[1], "iid") == 0;
	if (!data_how.iid) {
		data_how.alpha = strtod(argv[1], &end);
		data_how.beta = *end == ',' ? strtod(end + 1, NULL) : -1;
	}
	how.stragglers = strtod(argv[2], NULL);
	how.mu = strtod(argv[3], NULL);
	how.drop = strcmp(argv[4], "drop") == 0;
	rounds = strtol(argv[5], NULL, 10);
	if (hd_synthetic_create(&data_how, &data) != 0) {
		(void)fprintf(
			stderr, "%s: data: '%s' is not iid or A,B, each 0..100\n", argv[0], argv[1]
		);
		return EX_USAGE;
	}
	hd_reference_init(&reference, &data, &how);
	for (long round = 1; round <= rounds; round++) {
		if (hd_reference_step(&reference) != 0) {
			(void
			)fprintf(stderr, "%s: round %ld: no client to average\n", argv[0], round);
			return EX_SOFTWARE;
		}
		hd_reference_evaluate(&reference, &at);
		(void
		)printf("{\"round\": %ld, \"train_loss\": %.6f, \"accuracy\": %.6f, \"variance\": %.6f}\n",
			round,
			at.loss,
			at.accuracy,
			at.variance);
	}
	hd_synthetic_fini(&data);
	return EX_OK;
}
