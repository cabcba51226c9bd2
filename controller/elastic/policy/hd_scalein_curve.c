/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_scalein_curve.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#define GROUPS_MAX 128 /* groups of neighbours in a fit */
#define STEPS_FIRST 4 /* of each start */
#define STEPS_LAST 200 /* of the best one */
#define SECTIONS 16 /* of a golden section search */
#define SPAN 20
#define TERMS_MAX 3

/* The data of a fit: groups of neighbours, times in units of the last. */
struct sample {
	uint32_t count;
	double u[GROUPS_MAX], log_u[GROUPS_MAX], loss[GROUPS_MAX], weight[GROUPS_MAX];
	double least; /* of the losses */
	double weights; /* their sum */
};

static double denominator(const struct hd_curve *curve, double u) {
	const double *theta = curve->theta;

	if (curve->kind == HD_CURVE_REFERENCE)
		return theta[0] * pow(u, theta[2]) + theta[1];
	return theta[0] * u * u + theta[1] * u + theta[2];
}

double hd_curve_at(const struct hd_curve *curve, double step) {
	return 1 / denominator(curve, step / curve->unit) + curve->theta[3];
}

/* --- least squares ------------------------------------------------------------------------------ */

/* Solves the first n rows of a symmetric system by elimination with the largest pivot. False: it is singular. */
static bool solve(double a[4][5], uint32_t n) {
	for (uint32_t k = 0; k < n; k++) {
		uint32_t best = k;

		for (uint32_t i = k + 1; i < n; i++)
			if (fabs(a[i][k]) > fabs(a[best][k]))
				best = i;
		if (!(fabs(a[best][k]) > 1e-280))
			return false;
		for (uint32_t j = 0; j <= n; j++) {
			double swap = a[k][j];

			a[k][j] = a[best][j];
			a[best][j] = swap;
		}
		for (uint32_t i = 0; i < n; i++) {
			double factor = i == k ? 0 : a[i][k] / a[k][k];

			for (uint32_t j = k; j <= n && i != k; j++)
				a[i][j] -= factor * a[k][j];
		}
	}
	for (uint32_t k = 0; k < n; k++)
		a[k][n] /= a[k][k];
	return true;
}

/* Sums of products of up to three terms and the target: enough for every subset. */
struct normal {
	uint32_t terms;
	double products[TERMS_MAX][TERMS_MAX], right[TERMS_MAX], square;
};

static void normal_add(struct normal *normal, const double *term, double value, double weight) {
	for (uint32_t i = 0; i < normal->terms; i++) {
		for (uint32_t j = 0; j < normal->terms; j++)
			normal->products[i][j] += weight * term[i] * term[j];
		normal->right[i] += weight * term[i] * value;
	}
	normal->square += weight * value * value;
}

/* The best of one subset of the terms; INFINITY: a factor is negative, or there is no solution. */
static double
subset_solve(const struct normal *normal, uint32_t subset, double factors[TERMS_MAX]) {
	double a[4][5] = {0}, left = normal->square;
	uint32_t used[TERMS_MAX], n = 0;

	for (uint32_t i = 0; i < normal->terms; i++)
		if (subset >> i & 1)
			used[n++] = i;
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < n; j++)
			a[i][j] = normal->products[used[i]][used[j]];
		a[i][n] = normal->right[used[i]];
	}
	if (!solve(a, n))
		return INFINITY;
	memset(factors, 0, TERMS_MAX * sizeof *factors);
	for (uint32_t i = 0; i < n; i++) {
		if (!(a[i][n] >= 0))
			return INFINITY;
		factors[used[i]] = a[i][n];
		left -= a[i][n] * normal->right[used[i]];
	}
	return left;
}

/* Least squares with factors that are not negative: every subset of the at most three terms is tried. */
static bool not_negative(const struct normal *normal, double factors[TERMS_MAX]) {
	double best = INFINITY, tried[TERMS_MAX];

	for (uint32_t subset = 1; subset < 1U << normal->terms; subset++) {
		double left = subset_solve(normal, subset, tried);

		if (left >= best)
			continue;
		best = left;
		memcpy(factors, tried, sizeof tried);
	}
	return isfinite(best);
}

/* --- a fit -------------------------------------------------------------------------------------- */

/*
 * With theta3 and the power known the rest is linear: 1 / (l - theta3). An error e of l is an error of e / (l -
 * theta3)^2 there, which gives the weights.
 */
static bool start(const struct sample *sample, double floor, double power, struct hd_curve *curve) {
	bool reference = curve->kind == HD_CURVE_REFERENCE;
	struct normal normal = {.terms = reference ? 2 : 3};
	double factors[TERMS_MAX] = {0};

	for (uint32_t i = 0; i < sample->count; i++) {
		double u = sample->u[i], above = sample->loss[i] - floor;
		double bent = reference ? exp(power * sample->log_u[i]) : u * u;
		double term[TERMS_MAX] = {bent, reference ? 1 : u, 1};

		if (above > 0)
			normal_add(
				&normal,
				term,
				1 / above,
				sample->weight[i] * above * above * above * above
			);
	}
	if (!not_negative(&normal, factors))
		return false;
	curve->theta[0] = factors[0];
	curve->theta[1] = factors[1];
	curve->theta[2] = reference ? power : factors[2];
	curve->theta[3] = floor;
	return true;
}

/* The curve at a group, and its derivatives by theta. */
static double
slopes(const struct hd_curve *curve, const struct sample *sample, uint32_t i, double by[4]) {
	const double *theta = curve->theta;
	double u = sample->u[i];

	if (curve->kind == HD_CURVE_REFERENCE) {
		double power = exp(theta[2] * sample->log_u[i]);
		double value = 1 / (theta[0] * power + theta[1]), square = -value * value;

		by[0] = square * power;
		by[1] = square;
		by[2] = square * theta[0] * power * sample->log_u[i];
		by[3] = 1;
		return value + theta[3];
	}
	double value = 1 / ((theta[0] * u + theta[1]) * u + theta[2]), square = -value * value;

	by[0] = square * u * u;
	by[1] = square * u;
	by[2] = square;
	by[3] = 1;
	return value + theta[3];
}

/* The weighted squares of the residuals; with `normal` J'WJ and J'Wr too. */
static double
squares(const struct hd_curve *curve, const struct sample *sample, double normal[4][5]) {
	double sum = 0;

	if (normal)
		memset(normal, 0, 4 * sizeof *normal);
	for (uint32_t i = 0; i < sample->count; i++) {
		double by[4], left = sample->loss[i] - slopes(curve, sample, i, by);

		sum += sample->weight[i] * left * left;
		for (uint32_t j = 0; normal && j < 4; j++) {
			for (uint32_t k = 0; k < 4; k++)
				normal[j][k] += sample->weight[i] * by[j] * by[k];
			normal[j][4] += sample->weight[i] * by[j] * left;
		}
	}
	return isfinite(sum) ? sum : INFINITY;
}

/* Solves for the steps of the `free` parameters, for given steps of the others. */
static bool solve_free(double normal[4][5], double damping, const bool free[4], double step[4]) {
	double a[4][5] = {0};
	uint32_t used[4], n = 0;

	for (uint32_t j = 0; j < 4; j++)
		if (free[j])
			used[n++] = j;
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < n; j++)
			a[i][j] = normal[used[i]][used[j]] * (i == j ? 1 + damping : 1);
		a[i][n] = normal[used[i]][4];
		for (uint32_t j = 0; j < 4; j++)
			a[i][n] -= free[j] ? 0 : normal[used[i]][j] * step[j];
	}
	if (n == 0 || !solve(a, n))
		return false;
	for (uint32_t i = 0; i < n; i++)
		step[used[i]] = a[i][n];
	return true;
}

/* A damped step. A parameter that would go below its bound is set to the bound, and the others compensate. */
static bool
step_of(const struct hd_curve *curve, double normal[4][5], double damping, struct hd_curve *next) {
	double step[4] = {0};
	bool free[4], again = true;

	for (uint32_t j = 0; j < 4; j++) {
		bool held = curve->theta[j] <= 0 && normal[j][4] <= 0; /* and would go below */

		free[j] = !held && normal[j][j] > 0;
	}
	while (again) { /* each time another one is fixed */
		if (!solve_free(normal, damping, free, step))
			return false;
		again = false;
		for (uint32_t j = 0; j < 4 && !again; j++) {
			if (!free[j] || curve->theta[j] + step[j] >= 0)
				continue;
			step[j] = -curve->theta[j];
			free[j] = false;
			again = true;
		}
	}
	*next = *curve;
	for (uint32_t j = 0; j < 4; j++)
		next->theta[j] = fmax(0, curve->theta[j] + step[j]);
	return true;
}

/* At most `steps` tries; a step that increases the error is tried again, shorter. Returns the residual. */
static double improve(struct hd_curve *curve, const struct sample *sample, uint32_t steps) {
	double normal[4][5], damping = 1e-3;
	double left = squares(curve, sample, normal);

	for (uint32_t i = 0; i < steps && damping < 1e12; i++) {
		struct hd_curve next;
		double then;

		if (!step_of(curve, normal, damping, &next))
			break;
		then = squares(&next, sample, NULL);
		if (!(then < left)) {
			damping *= 8;
			continue;
		}
		bool done = left - then < 1e-12 * left;

		*curve = next;
		left = squares(curve, sample, normal);
		damping = fmax(damping / 8, 1e-12);
		if (done)
			break;
	}
	return left;
}

/* The residual with this floor and power; *curve has them. */
static double
left_with(const struct sample *sample, double floor, double power, struct hd_curve *curve) {
	return start(sample, floor, power, curve) ? squares(curve, sample, NULL) : INFINITY;
}

/* Golden sections of the floor (or of the power): along the valley in which plain steps are slow. */
static void
narrow(const struct sample *sample, double low, double high, bool power, struct hd_curve *best) {
	const double ratio = (sqrt(5) - 1) / 2;
	double left = squares(best, sample, NULL);

	for (uint32_t i = 0; i < SECTIONS; i++) {
		double at[2] = {high - ratio * (high - low), low + ratio * (high - low)}, then[2];

		for (uint32_t k = 0; k < 2; k++) {
			struct hd_curve tried = *best;
			double floor = power ? best->theta[3] : at[k];

			then[k] = left_with(sample, floor, power ? at[k] : best->theta[2], &tried);
			if (then[k] < left) {
				left = then[k];
				*best = tried;
			}
		}
		if (then[0] < then[1])
			high = at[1];
		else
			low = at[0];
	}
}

/* Combines neighbours, so that there are at most GROUPS_MAX groups. */
static void
group(const struct hd_curve_point *points,
      uint32_t count,
      bool weights,
      double unit,
      struct sample *sample) {
	uint32_t size = (count + GROUPS_MAX - 1) / GROUPS_MAX;

	*sample = (struct sample){.least = INFINITY};
	for (uint32_t i = 0; i < count; i += size) {
		double sum = 0, loss = 0, step = 0;
		uint32_t end = count - i < size ? count : i + size, at = sample->count++;

		for (uint32_t k = i; k < end; k++) {
			double weight = weights ? (k + 1.0) * (k + 1.0) : 1;

			sum += weight;
			loss += weight * (double)points[k].loss;
			step += weight * points[k].step;
		}
		sample->u[at] = fmax(step / sum, 0.5) / unit; /* step 0 has no logarithm */
		sample->log_u[at] = log(sample->u[at]);
		sample->loss[at] = loss / sum;
		sample->weight[at] = sum;
		sample->weights += sum;
		sample->least = fmin(sample->least, sample->loss[at]);
	}
}

int hd_curve_fit(
	enum hd_curve_kind kind,
	const struct hd_curve_point *points,
	uint32_t count,
	bool weights,
	struct hd_curve *curve
) {
	static const double floors[] = {0, 0.5, 0.9, 0.98}, powers[] = {0.6, 1, 1.5, 2.2};
	uint32_t tries = kind == HD_CURVE_REFERENCE ? 4 : 1;
	struct hd_curve best = {.kind = kind};
	struct sample sample;
	double left = INFINITY;

	assert(count <= HD_CURVE_POINTS_MAX);
	if (count < HD_CURVE_FIT_MIN)
		return -EINVAL;
	double unit = fmax(points[count - 1].step, 1);

	group(points, count, weights, unit, &sample);
	for (uint32_t i = 0; i < 4 * tries; i++) {
		struct hd_curve tried = {.kind = kind, .unit = unit};
		double floor = floors[i % 4] * fmax(sample.least, 0), then;

		if (!start(&sample, floor, powers[i / 4], &tried))
			continue;
		then = improve(&tried, &sample, STEPS_FIRST);
		if (!(then < left))
			continue;
		left = then;
		best = tried;
	}
	if (!isfinite(left))
		return -EINVAL;
	for (uint32_t i = 0; i < 2; i++) {
		narrow(&sample, 0, fmax(sample.least, 0), false, &best);
		if (kind == HD_CURVE_REFERENCE)
			narrow(&sample, best.theta[2] / 2, best.theta[2] * 2, true, &best);
	}
	left = improve(&best, &sample, STEPS_LAST);
	best.error = sqrt(left / sample.weights);
	*curve = best;
	return 0;
}

/* --- the knee ----------------------------------------------------------------------------------- */

/* The mean of the weighted moving averages from both ends, normalised where there are few values. */
static void smooth(const double *values, uint32_t count, double *out) {
	const double keep = 1 - 2.0 / (SPAN + 1);
	double sum = 0, weight = 0;

	for (uint32_t i = 0; i < count; i++) {
		sum = keep * sum + values[i];
		weight = keep * weight + 1;
		out[i] = sum / weight / 2;
	}
	sum = weight = 0;
	for (uint32_t i = count; i-- > 0;) {
		sum = keep * sum + values[i];
		weight = keep * weight + 1;
		out[i] += sum / weight / 2;
	}
}

uint32_t hd_curve_knee(
	const struct hd_curve_point *points,
	uint32_t count,
	uint32_t stride,
	double tolerance
) {
	double losses[HD_CURVE_POINTS_MAX], smoothed[HD_CURVE_POINTS_MAX];

	assert(count <= HD_CURVE_POINTS_MAX && stride > 0);
	if (count < 3)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		losses[i] = (double)points[i].loss;
	smooth(losses, count, smoothed);
	for (uint32_t i = 0; i + 1 < count; i++)
		losses[i] = smoothed[i + 1] - smoothed[i];
	smooth(losses, count - 1, smoothed);
	for (uint32_t i = 0; i + 1 < count; i++)
		if (smoothed[i] / stride > tolerance)
			return i;
	return 0;
}
