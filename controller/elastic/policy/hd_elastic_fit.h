/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A, B, beta and R(n) from the loss log of a run: users do not know them, but a run shows them.
 *
 * The log's model is the bound's own recursion (hd_elastic_bound.h) plus the best loss G*:
 *
 *     loss_j = G* + e_j + noise,   e_1 = A,   e_{j+1} = beta e_j + B / y_j
 *
 * For a given beta that is linear in (G*, A, B): least squares, none of them below 0. beta itself is searched by 1 -
 * beta from 1e-7 to 0.9. G* and B can be distinguished only when y changed during the run: otherwise G* is the caller's
 * (0 if not given). r2 is the quality of the fit: 1 - residuals / variance.
 */
#ifndef HD_ELASTIC_FIT_H
#define HD_ELASTIC_FIT_H

#include "hd_elastic_bound.h"
#include "hd_elastic_csv.h"

#define HD_ELASTIC_FIT_ROWS_MIN 8u
#define HD_ELASTIC_FIT_COUNTS_MAX 64u /* different y */

struct hd_elastic_fit {
	struct hd_elastic_model model;
	double best; /* G* */
	bool best_fitted; /* y changed: it follows from the log */
	double r2;
	double residual; /* root of the mean square, in the loss's unit */
	uint32_t rows;
	uint32_t last_step;
	double last_loss;
	/* R(n), by the workers of the steps; count = 0 when the log has no times. */
	uint32_t count;
	uint32_t y[HD_ELASTIC_FIT_COUNTS_MAX]; /* rising */
	uint32_t steps[HD_ELASTIC_FIT_COUNTS_MAX]; /* rows with it */
	double step_s[HD_ELASTIC_FIT_COUNTS_MAX]; /* mean */
	double spread_s[HD_ELASTIC_FIT_COUNTS_MAX]; /* standard deviation */
};

/* Columns: step (whole, rising), loss, y (or workers; whole, >= 1), seconds (of one step; may be missing).
 * `best`: G* when it is known; NAN: not. 0; -EINVAL with "FILE:LINE: field: what", also when the losses do not
 * fall (no beta < 1 explains them) or there are too few of them; -ENOMEM. */
int hd_elastic_fit(const struct hd_elastic_text *in, double best, struct hd_elastic_fit *fit);

#endif
