/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_elastic_fit.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 4
#define TERMS 3 /* G*, A, B */
#define GRID 64 /* betas that are tried first */
#define NARROW 48 /* steps of the golden section after that */
#define GAP_LEAST 1e-7 /* smallest 1 - beta */
#define GAP_MOST 0.9

enum {
	STEP,
	LOSS,
	WORKERS,
	SECONDS
};

struct losses {
	const double (*row)[COLUMNS];
	size_t rows;
	double best; /* G*; NAN: to be fitted */
	double mean, square; /* of the losses; sum of squares about the mean */
};

struct solution {
	double term[TERMS];
	double left; /* sum of squared residuals */
};

/* --- least squares for one beta --- */

/* Solves the `count` x `count` system by elimination with pivots; false when it is singular. */
static bool solve(double matrix[TERMS][TERMS + 1], int count) {
	for (int i = 0; i < count; i++) {
		int pivot = i;

		for (int k = i + 1; k < count; k++)
			if (fabs(matrix[k][i]) > fabs(matrix[pivot][i]))
				pivot = k;
		if (fabs(matrix[pivot][i]) < 1e-13)
			return false;
		for (int c = 0; c <= count; c++) {
			const double held = matrix[i][c];

			matrix[i][c] = matrix[pivot][c];
			matrix[pivot][c] = held;
		}
		for (int k = 0; k < count; k++) {
			const double factor = k == i ? 0 : matrix[k][i] / matrix[i][i];

			for (int c = i; c <= count; c++)
				matrix[k][c] -= factor * matrix[i][c];
		}
	}
	for (int i = 0; i < count; i++)
		matrix[i][count] /= matrix[i][i];
	return true;
}

/* Sums of products: of the three columns (1, beta^j, S_j) and the loss, scaled so that each column has length 1. */
struct sums {
	double product[TERMS + 1][TERMS + 1];
	double length[TERMS];
};

static void add_up(const struct losses *run, double beta, struct sums *sums) {
	double left = 1, noise = 0, gap_power = beta, gap_before = 1;

	memset(sums, 0, sizeof *sums);
	for (size_t i = 0; i < run->rows; i++) {
		const double *row = run->row[i];
		const double column[TERMS + 1]
			= {1, left, noise, row[LOSS] - (isnan(run->best) ? 0 : run->best)};
		const double gap = i + 1 < run->rows ? run->row[i + 1][STEP] - row[STEP] : 1;

		for (int a = 0; a <= TERMS; a++)
			for (int b = 0; b <= TERMS; b++)
				sums->product[a][b] += column[a] * column[b];
		/* The steps up to the next line had the workers of this one. */
		if (gap < gap_before || gap > gap_before) {
			gap_power = pow(beta, gap);
			gap_before = gap;
		}
		left *= gap_power;
		noise = gap_power * noise + (1 - gap_power) / (1 - beta) / row[WORKERS];
	}
	for (int a = 0; a < TERMS; a++)
		sums->length[a] = sqrt(sums->product[a][a]);
}

/* Least squares with these terms only (bits), none below 0; false when there is no solution. */
static bool fit_terms(const struct sums *sums, unsigned terms, struct solution *solution) {
	double matrix[TERMS][TERMS + 1], left = sums->product[TERMS][TERMS];
	int of[TERMS], count = 0;

	for (int a = 0; a < TERMS; a++)
		if (terms & 1u << a)
			of[count++] = a;
	for (int i = 0; i < count; i++) {
		const int a = of[i];

		if (sums->length[a] <= 0)
			return false;
		for (int k = 0; k < count; k++)
			matrix[i][k]
				= sums->product[a][of[k]] / (sums->length[a] * sums->length[of[k]]);
		matrix[i][count] = sums->product[a][TERMS] / sums->length[a];
	}
	if (!solve(matrix, count))
		return false;
	memset(solution->term, 0, sizeof solution->term);
	for (int i = 0; i < count; i++) {
		if (matrix[i][count] < 0)
			return false;
		solution->term[of[i]] = matrix[i][count] / sums->length[of[i]];
		left -= matrix[i][count] * sums->product[of[i]][TERMS] / sums->length[of[i]];
	}
	solution->left = left > 0 ? left : 0;
	return true;
}

/* The best of all subsets of terms that contain A: with three terms that is complete non-negative least squares. */
static struct solution fit_beta(const struct losses *run, double beta) {
	static const unsigned subsets[] = {7, 6, 3, 2};
	struct solution best = {.left = INFINITY}, one;
	struct sums sums;

	add_up(run, beta, &sums);
	for (size_t i = 0; i < sizeof subsets / sizeof subsets[0]; i++) {
		if ((subsets[i] & 1) && !isnan(run->best))
			continue;
		if (fit_terms(&sums, subsets[i], &one) && one.left < best.left)
			best = one;
	}
	return best;
}

/* --- the search for beta: by x = log(1 - beta) --- */

static double left_at(const struct losses *run, double x) {
	return fit_beta(run, 1 - exp(x)).left;
}

static double search(const struct losses *run) {
	const double least = log(GAP_LEAST), most = log(GAP_MOST), part = (most - least) / GRID;
	const double golden = 0.61803398874989485;
	double best_x = least, best = INFINITY, low, high, a, b, left_a, left_b;

	for (int i = 0; i <= GRID; i++) {
		const double left = left_at(run, least + i * part);

		if (left < best) {
			best = left;
			best_x = least + i * part;
		}
	}
	low = best_x - part;
	high = fmin(best_x + part, most);
	a = high - golden * (high - low);
	b = low + golden * (high - low);
	left_a = left_at(run, a);
	left_b = left_at(run, b);
	for (int i = 0; i < NARROW; i++) {
		if (left_a <= left_b) {
			high = b;
			b = a;
			left_b = left_a;
			a = high - golden * (high - low);
			left_a = left_at(run, a);
		} else {
			low = a;
			a = b;
			left_a = left_b;
			b = low + golden * (high - low);
			left_b = left_at(run, b);
		}
	}
	return 1 - exp((low + high) / 2);
}

/* --- R(n) --- */

static int refuse(const struct hd_elastic_text *in, const char *what) {
	(void)snprintf(in->error, in->error_bytes, "%s: %s", in->file, what);
	return -EINVAL;
}

/* The index of y in the ascending list, or of its place. */
static uint32_t place_of(const struct hd_elastic_fit *fit, uint32_t y) {
	uint32_t at = 0;

	while (at < fit->count && fit->y[at] < y)
		at++;
	return at;
}

static bool insert(struct hd_elastic_fit *fit, uint32_t at, uint32_t y) {
	if (fit->count == HD_ELASTIC_FIT_COUNTS_MAX)
		return false;
	for (uint32_t i = fit->count++; i > at; i--) {
		fit->y[i] = fit->y[i - 1];
		fit->steps[i] = fit->steps[i - 1];
		fit->step_s[i] = fit->step_s[i - 1];
		fit->spread_s[i] = fit->spread_s[i - 1];
	}
	fit->y[at] = y;
	fit->steps[at] = 0;
	fit->step_s[at] = fit->spread_s[at] = 0;
	return true;
}

/* Means and deviations in one pass (Welford). Beyond HD_ELASTIC_FIT_COUNTS_MAX different y, the first ones are kept. */
static void fit_pace(const struct losses *run, struct hd_elastic_fit *fit) {
	for (size_t i = 0; i < run->rows; i++) {
		const uint32_t y = (uint32_t)run->row[i][WORKERS];
		const double seconds = run->row[i][SECONDS];
		const uint32_t at = place_of(fit, y);
		double off;

		if (isnan(seconds))
			continue;
		if ((at == fit->count || fit->y[at] != y) && !insert(fit, at, y))
			continue;
		fit->steps[at]++;
		off = seconds - fit->step_s[at];
		fit->step_s[at] += off / fit->steps[at];
		fit->spread_s[at] += off * (seconds - fit->step_s[at]);
	}
	for (uint32_t i = 0; i < fit->count; i++)
		fit->spread_s[i]
			= fit->steps[i] > 1 ? sqrt(fit->spread_s[i] / (fit->steps[i] - 1)) : 0;
}

/* --- all together --- */

static bool workers_change(const struct losses *run) {
	for (size_t i = 1; i < run->rows; i++)
		if (fabs(run->row[i][WORKERS] - run->row[0][WORKERS]) > 0.5)
			return true;
	return false;
}

static int
fit_rows(const struct hd_elastic_text *in, struct losses *run, struct hd_elastic_fit *fit) {
	const double *last = run->row[run->rows - 1];
	struct solution solution;
	char what[160];

	if (run->rows < HD_ELASTIC_FIT_ROWS_MIN) {
		(void)snprintf(
			what,
			sizeof what,
			"%zu rows (at least %u)",
			run->rows,
			HD_ELASTIC_FIT_ROWS_MIN
		);
		return refuse(in, what);
	}
	fit->best_fitted = isnan(run->best) && workers_change(run);
	if (isnan(run->best) && !fit->best_fitted)
		run->best = 0;
	for (size_t i = 0; i < run->rows; i++)
		run->mean += run->row[i][LOSS] / (double)run->rows;
	for (size_t i = 0; i < run->rows; i++)
		run->square += (run->row[i][LOSS] - run->mean) * (run->row[i][LOSS] - run->mean);
	fit->model.beta = search(run);
	solution = fit_beta(run, fit->model.beta);
	/* Noise alone can explain rising losses: from A up to the floor. That is no training. */
	if (!isfinite(solution.left) || !(solution.term[1] > 0)
	    || solution.term[2] / last[WORKERS] / (1 - fit->model.beta) >= solution.term[1])
		return refuse(in, "loss: does not fall: no A > B / y / (1 - beta) explains it");
	fit->best = fit->best_fitted ? solution.term[0] : run->best;
	fit->model.a = solution.term[1];
	fit->model.b = solution.term[2];
	fit->r2 = run->square > 0 ? 1 - solution.left / run->square : 0;
	if (!(fit->r2 > 0))
		return refuse(in, "loss: does not fall: a constant explains it as well (r2 <= 0)");
	fit->residual = sqrt(solution.left / (double)run->rows);
	fit->rows = (uint32_t)run->rows;
	fit->last_step = (uint32_t)last[STEP];
	fit->last_loss = last[LOSS];
	fit_pace(run, fit);
	return 0;
}

int hd_elastic_fit(const struct hd_elastic_text *in, double best, struct hd_elastic_fit *fit) {
	static const struct hd_elastic_column columns[COLUMNS] = {
		[STEP]
		= {.names = "step iteration j",
		   .least = 0,
		   .most = 4e9,
		   .whole = true,
		   .rising = true},
		[LOSS] = {.names = "loss error", .least = -1e30, .most = 1e30},
		[WORKERS]
		= {.names = "y workers active", .least = 1, .most = HD_WORKERS_MAX, .whole = true},
		[SECONDS] = {.names = "seconds step_s", .least = 0, .most = 1e12, .optional = true},
	};
	struct hd_elastic_fit found = {0};
	struct losses run = {.best = best};
	double *values;
	int status;

	if (!isnan(best) && !(fabs(best) <= 1e30))
		return refuse(in, "best: a number from -1e+30 to 1e+30");
	status = hd_elastic_csv(in, columns, COLUMNS, &values, &run.rows);
	if (status)
		return status;
	run.row = (const double(*)[COLUMNS])values;
	status = fit_rows(in, &run, &found);
	free(values);
	if (status == 0)
		*fit = found;
	return status;
}
