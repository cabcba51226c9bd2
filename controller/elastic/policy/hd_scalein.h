/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scale-in: a job whose loss has become flat gives workers back, one at a time, as long as that costs almost no
 * progress. Pure: time and observations are arguments.
 *
 *     loss                      knee           reference curve: the losses of larger pools so far
 *      |\                        :             current curve: the losses of this pool
 *      | \                       :             P_ref = l_ref(t + Delta / tau_ref), P_now = l_now(t + Delta / tau(w))
 *      |  `-._                   :             s = 100 (P_ref - P_now) / P_ref, known to within m (95 %, one-sided)
 *      |      `--..____          :             one worker less iff s - m > -tolerance
 *      +-------------------------------- t     tau(w) = a + b w, tau_ref = tau of the pool before this one
 *
 * Source: MLLess (Sanchez-Artigas, Sarroca; arXiv 2206.05786, section 4.2). We differ in this:
 * - the first worker is not removed unconditionally: the curve has no reference yet, so it is removed iff even progress
 *   in proportion to the workers would stay within the tolerance: P_now = l_ref(t + (w - 1) / w Delta / tau_ref);
 * - the reference is fitted again at each decision to all losses of larger pools, with most weight on the newest, and
 *   continues at the speed of the last of them: a decision compares with the pool before the last removal. A curve
 *   fitted only once, at the knee, predicts too high a loss if the loss still curved there. This error grows with time,
 *   so each later pool seems better than it is;
 * - losses are noisy, and a curve through a few of them predicts little: s has to be above the tolerance by a margin,
 *   that of straight lines with the curves' weights and residuals. As losses of a job do not rise, the present pool's
 *   is limited to its past values;
 * - tau has two parameters, as three cannot be separated (c0 + (w - 1) c1 + w c2 has rank 2);
 * - fewer than five points give no decision;
 * - a removed worker flushes the updates that it holds and leaves: no other worker takes half of its model.
 */
#ifndef HD_SCALEIN_H
#define HD_SCALEIN_H

#include "hd_scalein_curve.h"

struct hd_scalein_options {
	double interval_s; /* between two decisions; >= 0 */
	double horizon_s; /* Delta: how far ahead losses are compared; > 0 */
	double tolerance_pct; /* of the loss; >= 0 */
	double knee_slope; /* of the loss, for each step; < 0 */
	uint32_t confirm; /* observations in which the knee must not move; >= 1 */
	uint32_t min_workers; /* >= 1 */
};

/* 20 s, 10 s, 1 %, -7.5e-5, 5, 1 */
struct hd_scalein_options hd_scalein_defaults(void);

/* Times of steps: sums without outliers. */
struct hd_scalein_speed {
	double recent[10]; /* s; of this number of workers */
	uint32_t count; /* of this number of workers */
	double n, w, ww, y, wy; /* sums over all: of 1, w, w^2, tau, w tau */
};

enum hd_scalein_phase {
	HD_SCALEIN_STEEP = 0, /* before the knee */
	HD_SCALEIN_FLAT = 1 /* past it */
};

/* Losses, in the order of their steps. */
struct hd_scalein_history {
	uint32_t count, stride, filled; /* of the points; steps a point has; of the newest */
	double pending; /* sum of the newest point's losses */
	struct hd_curve_point points[HD_CURVE_POINTS_MAX];
};

struct hd_scalein {
	struct hd_scalein_options options;
	enum hd_scalein_phase phase;
	uint32_t workers; /* of the present pool */
	struct hd_scalein_history now; /* of the present pool; before the knee: of all */
	/* Of the larger pools before it; no points: there was none. The workers of the last of these. */
	struct hd_scalein_history larger;
	uint32_t larger_workers;
	uint64_t step; /* the newest */
	uint32_t candidate, stays; /* for the knee; observations in which it stayed */
	uint64_t knee_step; /* 0: not found yet */
	uint32_t skip; /* step times that are ignored, after a change */
	double decided_at; /* s */
	struct hd_scalein_speed speed;
};

enum hd_scalein_why {
	HD_SCALEIN_REMOVE = 0,
	HD_SCALEIN_KEEP, /* s <= -tolerance */
	HD_SCALEIN_BEFORE_KNEE,
	HD_SCALEIN_AT_LEAST, /* min_workers */
	HD_SCALEIN_INTERVAL, /* too early */
	HD_SCALEIN_FEW_POINTS,
	HD_SCALEIN_NO_TIMES, /* of steps */
	HD_SCALEIN_UNKNOWN, /* s may be above or below -tolerance */
	HD_SCALEIN_WHY_COUNT
};

struct hd_scalein_decision {
	enum hd_scalein_why why;
	uint32_t remove; /* workers: 0 or 1 */
	double s_pct, margin_pct; /* 0 unless it was computed (REMOVE, KEEP, UNSURE) */
	double p_ref, p_now; /* predicted losses */
};

/* An error text that names the option and its limit; NULL: none. */
const char *hd_scalein_check(const struct hd_scalein_options *options);
/* The options must be valid (hd_scalein_check). */
void hd_scalein_init(struct hd_scalein *s, const struct hd_scalein_options *options, double now_s);

/*
 * Adds a step of the job: its loss (mean of a sample), its number of workers, and its time (<= 0: unknown). A different
 * number of workers begins a pool: its history is empty and the times of its first four steps are ignored. O(points)
 * before the knee, O(1) after it. Returns 0; -EINVAL (a loss that is not finite, no workers, a step that is not newer,
 * a time that is not finite) with *s as it was.
 */
int hd_scalein_update(
	struct hd_scalein *s,
	uint64_t step,
	double loss,
	uint32_t workers,
	double step_s
);
/* Whether one worker should be removed now. A call that computes s is the interval's decision. < 1 ms. */
struct hd_scalein_decision hd_scalein_decide(struct hd_scalein *s, double now_s);

/* tau(w) = a + b w, a, b >= 0, by least squares; false: no times. With a single w it is the mean. */
bool hd_scalein_tau(const struct hd_scalein_speed *speed, double *a, double *b);
/* s = 100 (P_ref - P_now) / P_ref. */
double hd_scalein_s(double p_ref, double p_now);
const char *hd_scalein_why_text(enum hd_scalein_why why);

/* --- cost ------------------------------------------------------------------------------------- */

struct hd_scalein_prices {
	double worker_gb_s; /* $ of a GB of memory for a second */
	double worker_gb; /* that a worker has */
	double always_hour; /* $ for an hour of the programs that run all the time */
};

/* $ of worker_s seconds of workers (all together) and seconds of the job. */
double hd_scalein_cost(const struct hd_scalein_prices *prices, double worker_s, double seconds);

#endif
