/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_scalein.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#define OUTLIER 0.05 /* of a step's time, away from the median of the last ten */
#define SKIP 4 /* times of steps after a change of the pool */
#define RECENT 10
#define Z 1.645 /* standard errors of a margin: 95 % of a normal distribution, one-sided */
#define PARAMETERS 4 /* of a curve */

struct hd_scalein_options hd_scalein_defaults(void) {
	return (struct hd_scalein_options){
		.interval_s = 20,
		.horizon_s = 10,
		.tolerance_pct = 1,
		.knee_slope = -7.5e-5,
		.confirm = 5,
		.min_workers = 1,
	};
}

const char *hd_scalein_check(const struct hd_scalein_options *options) {
	if (!(options->interval_s >= 0) || isinf(options->interval_s))
		return "interval_s: must be 0 or more";
	if (!(options->horizon_s > 0) || isinf(options->horizon_s))
		return "horizon_s: must be above 0";
	if (!(options->tolerance_pct >= 0) || isinf(options->tolerance_pct))
		return "tolerance_pct: must be 0 or more";
	if (!(options->knee_slope < 0) || isinf(options->knee_slope))
		return "knee_slope: must be below 0";
	if (options->confirm < 1)
		return "confirm: must be 1 or more";
	if (options->min_workers < 1)
		return "min_workers: must be 1 or more";
	return NULL;
}

void hd_scalein_init(struct hd_scalein *s, const struct hd_scalein_options *options, double now_s) {
	assert(!hd_scalein_check(options));
	memset(s, 0, sizeof *s);
	s->options = *options;
	s->now.stride = s->larger.stride = 1;
	s->decided_at = now_s;
}

/* --- the speed of steps ------------------------------------------------------------------------- */

static double median(const double *values, uint32_t count) {
	double sorted[RECENT] = {0};

	assert(count > 0 && count <= RECENT);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t k = i;

		for (; k > 0 && sorted[k - 1] > values[i]; k--)
			sorted[k] = sorted[k - 1];
		sorted[k] = values[i];
	}
	return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static void speed_add(struct hd_scalein_speed *speed, uint32_t workers, double tau) {
	uint32_t kept;

	speed->recent[speed->count++ % RECENT] = tau;
	kept = speed->count < RECENT ? speed->count : RECENT;
	if (fabs(tau - median(speed->recent, kept)) / tau > OUTLIER)
		return;
	speed->n += 1;
	speed->w += workers;
	speed->ww += (double)workers * workers;
	speed->y += tau;
	speed->wy += workers * tau;
}

bool hd_scalein_tau(const struct hd_scalein_speed *speed, double *a, double *b) {
	double spread = speed->n * speed->ww - speed->w * speed->w;

	if (!(speed->n > 0))
		return false;
	*a = speed->y / speed->n;
	*b = 0;
	if (spread <= 1e-9 * speed->n * speed->ww) /* a single number of workers */
		return true;
	double slope = (speed->n * speed->wy - speed->w * speed->y) / spread;
	double at_zero = (speed->y - slope * speed->w) / speed->n;

	if (slope < 0)
		return true; /* the best with b = 0 is the mean */
	*a = fmax(at_zero, 0);
	*b = at_zero < 0 ? speed->wy / speed->ww : slope;
	return true;
}

static double tau_of(const struct hd_scalein *s, uint32_t workers) {
	double a, b;

	return hd_scalein_tau(&s->speed, &a, &b) ? a + b * workers : 0;
}

/* --- the history -------------------------------------------------------------------------------- */

static void history_clear(struct hd_scalein_history *h) {
	h->count = h->filled = 0;
	h->stride = 1;
	h->pending = 0;
}

/* Combines every two of its points. An odd one at the end is left out. */
static void history_halve(struct hd_scalein_history *h) {
	h->count /= 2;
	for (uint32_t i = 0; i < h->count; i++) {
		const struct hd_curve_point *two = &h->points[(size_t)2 * i];

		h->points[i] = (struct hd_curve_point){
			.step = two[1].step,
			.loss = (two[0].loss + two[1].loss) / 2,
		};
	}
	h->stride *= 2;
}

/* True: a point was completed. */
static bool history_add(struct hd_scalein_history *h, uint64_t step, double loss) {
	h->pending += loss;
	if (++h->filled < h->stride)
		return false;
	h->points[h->count++] = (struct hd_curve_point){
		.step = step < UINT32_MAX ? (uint32_t)step : UINT32_MAX,
		.loss = (float)(h->pending / h->filled),
	};
	h->filled = 0;
	h->pending = 0;
	return true;
}

/* Appends the later history, in points of equal length: each point has one weight. An incomplete point is left out. */
static void history_append(struct hd_scalein_history *h, struct hd_scalein_history *more) {
	while (h->stride < more->stride)
		history_halve(h);
	while (more->stride < h->stride)
		history_halve(more);
	while (h->count + more->count > HD_CURVE_POINTS_MAX) {
		history_halve(h);
		history_halve(more);
	}
	memcpy(h->points + h->count, more->points, more->count * sizeof more->points[0]);
	h->count += more->count;
}

/* Another pool begins. The histories of smaller ones do not apply to it, nor to its reference. */
static void history_change(struct hd_scalein *s, uint32_t workers) {
	if (workers < s->workers) {
		history_append(&s->larger, &s->now);
		s->larger_workers = s->workers;
	} else if (workers >= s->larger_workers && s->larger.count > 0) {
		s->now = s->larger; /* as large as the larger ones: their history continues */
		history_clear(&s->larger);
		return;
	}
	history_clear(&s->now);
}

/* The knee is found when the slope's first small index has not moved for `confirm` observations. */
static void look_for_knee(struct hd_scalein *s) {
	uint32_t found
		= hd_curve_knee(s->now.points, s->now.count, s->now.stride, s->options.knee_slope);

	if (found == 0) {
		s->candidate = s->stays = 0;
		return;
	}
	if (found > s->candidate) {
		s->candidate = found;
		s->stays = 0;
		return;
	}
	if (++s->stays < s->options.confirm)
		return;
	if (!(s->speed.n > 0) || s->now.count < HD_CURVE_FIT_MIN)
		return; /* no decision was possible: the next observation tries again */
	s->knee_step = s->now.points[found].step > 0 ? s->now.points[found].step : 1;
	s->candidate = found;
	s->phase = HD_SCALEIN_FLAT;
}

int hd_scalein_update(
	struct hd_scalein *s,
	uint64_t step,
	double loss,
	uint32_t workers,
	double step_s
) {
	bool more;

	if (!isfinite(loss) || !isfinite(step_s) || workers == 0)
		return -EINVAL;
	if (s->workers > 0 && step <= s->step)
		return -EINVAL;
	if (s->workers != workers && s->workers > 0) {
		s->skip = SKIP;
		s->speed.count = 0;
		if (s->phase == HD_SCALEIN_FLAT)
			history_change(s, workers);
	}
	s->workers = workers;
	s->step = step;
	if (step_s > 0 && s->skip == 0)
		speed_add(&s->speed, workers, step_s);
	else if (step_s > 0)
		s->skip--;
	more = history_add(&s->now, step, loss);
	if (s->now.count == HD_CURVE_POINTS_MAX) {
		history_halve(&s->now);
		s->candidate /= 2;
	}
	if (more && s->phase == HD_SCALEIN_STEEP)
		look_for_knee(s);
	return 0;
}

/* --- the decision ------------------------------------------------------------------------------- */

double hd_scalein_s(double p_ref, double p_now) {
	return 100 * (p_ref - p_now) / p_ref;
}

static enum hd_scalein_why obstacle(const struct hd_scalein *s, double now_s) {
	if (s->phase == HD_SCALEIN_STEEP)
		return HD_SCALEIN_BEFORE_KNEE;
	if (s->workers <= s->options.min_workers)
		return HD_SCALEIN_AT_LEAST;
	if (now_s - s->decided_at < s->options.interval_s)
		return HD_SCALEIN_INTERVAL;
	if (s->now.count < HD_CURVE_FIT_MIN)
		return HD_SCALEIN_FEW_POINTS;
	if (s->speed.n <= 0 || s->skip > 0)
		return HD_SCALEIN_NO_TIMES;
	return HD_SCALEIN_REMOVE;
}

/* A curve with its data: how far noise alone may change its prediction. */
struct fit {
	struct hd_curve curve;
	const struct hd_scalein_history *of;
	bool weights; /* the k-th point has the weight k^2 */
	/* Of the weights; of their steps; of their squares about the mean. */
	double sum, mean, spread;
	double noise; /* standard deviation of a point */
};

static double weight_of(const struct fit *fit, uint32_t k) {
	return fit->weights ? (k + 1.0) * (k + 1.0) : 1;
}

static bool
fit_to(const struct hd_scalein_history *of, enum hd_curve_kind kind, bool weights, struct fit *fit
) {
	double squares = 0, left = 0, points;

	*fit = (struct fit){.of = of, .weights = weights};
	if (hd_curve_fit(kind, of->points, of->count, weights, &fit->curve))
		return false;
	for (uint32_t i = 0; i < of->count; i++) {
		double weight = weight_of(fit, i);
		double off
			= (double)of->points[i].loss - hd_curve_at(&fit->curve, of->points[i].step);

		fit->sum += weight;
		squares += weight * weight;
		fit->mean += weight * of->points[i].step;
		left += weight * off * off;
	}
	fit->mean /= fit->sum;
	for (uint32_t i = 0; i < of->count; i++)
		fit->spread += weight_of(fit, i) * pow(of->points[i].step - fit->mean, 2);
	points = fit->sum * fit->sum / squares; /* effective number of points */
	fit->noise = sqrt(left / fit->sum * points / fmax(points - PARAMETERS, 1));
	return true;
}

/* The standard error of level * (the height at the mean) + steps * (the slope) of a line with these weights. */
static double sway(const struct fit *fit, double level, double steps) {
	double sum = 0;

	for (uint32_t i = 0; i < fit->of->count; i++) {
		double off = fit->of->points[i].step - fit->mean;
		double share = weight_of(fit, i) * (level / fit->sum + off * steps / fit->spread);

		sum += share * share;
	}
	return fit->noise * sqrt(sum);
}

/* How much higher than predicted the present pool's loss may be. It does not rise above its past values. */
static double above(const struct fit *fit, double to) {
	double height = hd_curve_at(&fit->curve, fit->mean) - hd_curve_at(&fit->curve, to);

	return fmin(sway(fit, 1, to - fit->mean), fmax(height, 0) + sway(fit, 1, 0));
}

/* The first pool: even progress in proportion to the workers must be enough. False: no curve. */
static bool judge_first(const struct hd_scalein *s, struct hd_scalein_decision *d) {
	double t = (double)s->step, ahead, after;
	struct fit fit;

	if (!fit_to(&s->now, HD_CURVE_REFERENCE, true, &fit))
		return false;
	ahead = floor(t + s->options.horizon_s / tau_of(s, s->workers));
	after = t + (ahead - t) * (s->workers - 1.0) / s->workers;
	d->p_ref = hd_curve_at(&fit.curve, ahead);
	d->p_now = hd_curve_at(&fit.curve, after);
	d->margin_pct = 100 * Z * sway(&fit, 0, ahead - after) / d->p_ref;
	return true;
}

static bool judge(const struct hd_scalein *s, struct hd_scalein_decision *d) {
	double t = (double)s->step, ahead, after, error;
	struct fit reference, current;

	if (!fit_to(&s->larger, HD_CURVE_REFERENCE, true, &reference)
	    || !fit_to(&s->now, HD_CURVE_CURRENT, false, &current))
		return false;
	ahead = floor(t + s->options.horizon_s / tau_of(s, s->larger_workers));
	after = floor(t + s->options.horizon_s / tau_of(s, s->workers));
	d->p_ref = hd_curve_at(&reference.curve, ahead);
	d->p_now = hd_curve_at(&current.curve, after);
	error = hypot(sway(&reference, 1, ahead - reference.mean), above(&current, after));
	d->margin_pct = 100 * Z * error / d->p_ref;
	return true;
}

struct hd_scalein_decision hd_scalein_decide(struct hd_scalein *s, double now_s) {
	struct hd_scalein_decision d = {.why = obstacle(s, now_s)};
	const double least = -s->options.tolerance_pct;

	if (d.why != HD_SCALEIN_REMOVE)
		return d;
	if (s->larger.count > 0 ? !judge(s, &d) : !judge_first(s, &d)) {
		d.why = HD_SCALEIN_FEW_POINTS;
		return d;
	}
	d.s_pct = hd_scalein_s(d.p_ref, d.p_now);
	d.why = d.s_pct - d.margin_pct > least ? HD_SCALEIN_REMOVE :
		d.s_pct > least                ? HD_SCALEIN_UNKNOWN :
						 HD_SCALEIN_KEEP;
	d.remove = d.why == HD_SCALEIN_REMOVE;
	s->decided_at = now_s;
	return d;
}

const char *hd_scalein_why_text(enum hd_scalein_why why) {
	static const char *const texts[HD_SCALEIN_WHY_COUNT] = {
		[HD_SCALEIN_REMOVE] = "the loss hardly suffers",
		[HD_SCALEIN_KEEP] = "the loss would suffer",
		[HD_SCALEIN_BEFORE_KNEE] = "the loss still falls fast",
		[HD_SCALEIN_AT_LEAST] = "as few as it may have",
		[HD_SCALEIN_INTERVAL] = "it has been decided a moment ago",
		[HD_SCALEIN_FEW_POINTS] = "too few losses since the last change",
		[HD_SCALEIN_NO_TIMES] = "no times of steps yet",
		[HD_SCALEIN_UNKNOWN] = "the losses do not say yet",
	};

	assert(why < HD_SCALEIN_WHY_COUNT);
	return texts[why];
}

double hd_scalein_cost(const struct hd_scalein_prices *prices, double worker_s, double seconds) {
	return worker_s * prices->worker_gb * prices->worker_gb_s
		+ seconds * prices->always_hour / 3600;
}
