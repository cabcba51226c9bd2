/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_scalein.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#define OUTLIER 0.05 /* of a step's time, away from the median of the last ten */
#define SKIP 4 /* times of steps after a change of the pool */
#define RECENT 10

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
	memset(s, 0, sizeof(*s));
	s->options = *options;
	s->stride = 1;
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
	if (spread <= 1e-9 * speed->n * speed->ww) /* one number of workers */
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

static void history_clear(struct hd_scalein *s) {
	s->count = s->filled = 0;
	s->stride = 1;
	s->pending = 0;
	s->candidate = s->stays = 0;
}

/* A full history has each two of its points made one. */
static void history_halve(struct hd_scalein *s) {
	for (uint32_t i = 0; i < HD_CURVE_POINTS_MAX / 2; i++) {
		const struct hd_curve_point *two = &s->points[(size_t)2 * i];

		s->points[i] = (struct hd_curve_point){
			.step = two[1].step,
			.loss = (two[0].loss + two[1].loss) / 2,
		};
	}
	s->count = HD_CURVE_POINTS_MAX / 2;
	s->stride *= 2;
	s->candidate /= 2;
}

/* True: there is a point more. */
static bool history_add(struct hd_scalein *s, uint64_t step, double loss) {
	s->pending += loss;
	if (++s->filled < s->stride)
		return false;
	s->points[s->count++] = (struct hd_curve_point){
		.step = step < UINT32_MAX ? (uint32_t)step : UINT32_MAX,
		.loss = (float)(s->pending / s->filled),
	};
	s->filled = 0;
	s->pending = 0;
	if (s->count == HD_CURVE_POINTS_MAX)
		history_halve(s);
	return true;
}

/* The knee is where the slope's first small index has not moved on for `confirm` observations. */
static void look_for_knee(struct hd_scalein *s) {
	uint32_t found = hd_curve_knee(s->points, s->count, s->stride, s->options.knee_slope);

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
	double tau = tau_of(s, s->workers);
	struct hd_curve curve;

	if (!(tau > 0) || hd_curve_fit(HD_CURVE_REFERENCE, s->points, s->count, true, &curve))
		return; /* without either nothing could be decided: the next observation tries again */
	s->reference = curve;
	s->reference_tau = tau;
	s->knee_step = s->points[found].step > 0 ? s->points[found].step : 1;
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
	if (!isfinite(loss) || !isfinite(step_s) || workers == 0)
		return -EINVAL;
	if (s->workers > 0 && step <= s->step)
		return -EINVAL;
	if (s->workers != workers && s->workers > 0) {
		s->skip = SKIP;
		s->speed.count = 0;
		if (s->phase == HD_SCALEIN_FLAT)
			history_clear(s);
		s->changed = s->phase == HD_SCALEIN_FLAT;
	}
	s->workers = workers;
	s->step = step;
	if (step_s > 0 && s->skip == 0)
		speed_add(&s->speed, workers, step_s);
	else if (step_s > 0)
		s->skip--;
	if (history_add(s, step, loss) && s->phase == HD_SCALEIN_STEEP)
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
	if (s->changed && s->count < HD_CURVE_FIT_MIN)
		return HD_SCALEIN_FEW_POINTS;
	if (s->speed.n <= 0 || s->skip > 0)
		return HD_SCALEIN_NO_TIMES;
	return HD_SCALEIN_REMOVE;
}

struct hd_scalein_decision hd_scalein_decide(struct hd_scalein *s, double now_s) {
	struct hd_scalein_decision d = {.why = obstacle(s, now_s)};
	double t = (double)s->step, ahead;

	if (d.why != HD_SCALEIN_REMOVE)
		return d;
	ahead = floor(t + s->options.horizon_s / s->reference_tau);
	d.p_ref = hd_curve_at(&s->reference, ahead);
	if (s->changed) {
		struct hd_curve current;

		if (hd_curve_fit(HD_CURVE_CURRENT, s->points, s->count, false, &current)) {
			d.why = HD_SCALEIN_FEW_POINTS;
			return d;
		}
		d.p_now = hd_curve_at(
			&current, floor(t + s->options.horizon_s / tau_of(s, s->workers))
		);
	} else {
		double share = (s->workers - 1.0) / s->workers;

		d.p_now = hd_curve_at(&s->reference, t + (ahead - t) * share);
	}
	d.s_pct = hd_scalein_s(d.p_ref, d.p_now);
	d.why = d.s_pct > -s->options.tolerance_pct ? HD_SCALEIN_REMOVE : HD_SCALEIN_KEEP;
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
	};

	assert(why < HD_SCALEIN_WHY_COUNT);
	return texts[why];
}

double hd_scalein_cost(const struct hd_scalein_prices *prices, double worker_s, double seconds) {
	return worker_s * prices->worker_gb * prices->worker_gb_s
		+ seconds * prices->always_hour / 3600;
}
