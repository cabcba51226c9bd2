/* SPDX-License-Identifier: BSD-3-Clause */
/* The loss log (--loss-log): a line a step, for `heddlectl elastic fit`. */
#ifndef TRAIN_LOSS_H
#define TRAIN_LOSS_H

#include "train_summary.h"

struct train_loss {
	FILE *file; /* NULL: none is wanted */
	uint64_t step; /* of the last line; 0: none yet */
	hd_ns at; /* when that was */
	double sum; /* of losses until then */
	uint64_t change; /* of the members */
	uint32_t workers;
};

/* The file is that of the option for rank 0, else with .RANK behind it. 0, or an exit status. */
int train_loss_open(struct train_loss *log, const struct train *train, int rank);
/* After a gradient on the model of `step`, from 1; fabric: NULL in one process. Nothing is written for a step that was
 * written already, nor for the first, whose time is not known. */
void train_loss_row(
	struct train_loss *log,
	const struct train *train,
	struct heddle *fabric,
	uint64_t step,
	const struct train_summary *summary
);
/* 0, or an exit status: the file could not be written. */
int train_loss_close(struct train_loss *log, const struct train *train);

#endif
