/* SPDX-License-Identifier: BSD-3-Clause */
/* An evaluation as a line of JSON. */
#include "train_far.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

int train_print_evaluation(
	struct train *train,
	uint64_t version,
	FILE *out,
	const char *(*more)(void *arg, double accuracy),
	void *arg
) {
	hd_ns now = hd_compute_now();
	double accuracy, loss, right, train_loss;
	char training[40] = "";
	const int status = train_far_fetch(train);

	if (status != EX_OK)
		return status;
	hd_model_evaluate(train->model, train->params, &train->test, &accuracy, &loss);
	if (train->options.is_federated) {
		hd_model_evaluate(train->model, train->params, &train->train, &right, &train_loss);
		(void)snprintf(training, sizeof training, ", \"train_loss\": %.6f", train_loss);
	}
	if (fprintf(out,
		    "{\"at_ns\": %llu, \"version\": %llu, \"accuracy\": %.6f, \"loss\": %.6f%s%s}\n",
		    (unsigned long long)now,
		    (unsigned long long)version,
		    accuracy,
		    loss,
		    training,
		    more ? more(arg, accuracy) : "")
		    < 0
	    || fflush(out) != 0)
		return train_fail(EX_IOERR, "json: %s", strerror(errno));
	return EX_OK;
}
