/* SPDX-License-Identifier: BSD-3-Clause */
/* The loss log (--loss-log): one line for each step, for `heddlectl elastic fit`. */
#ifndef TRAIN_LOSS_H
#define TRAIN_LOSS_H

#include "train_summary.h"

struct train_loss {
	FILE *file; /* NULL: no log */
	uint64_t step; /* of the last line; 0: none yet */
	hd_ns at; /* the time of that line */
	double sum; /* of losses since that line */
	uint64_t change; /* of the members */
	uint32_t workers;
};

/* Opens the option's file for rank 0, else with the suffix .RANK. 0, or an exit status. */
int train_loss_open(struct train_loss *log, const struct train *train, int rank);
/* After a gradient on the model of `step`, from 1; fabric: NULL in one process. Writes each step once, and not the
 * first, whose time is unknown. */
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
