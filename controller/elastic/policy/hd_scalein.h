/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scale-in: a job whose loss has become flat gives workers back, one at a time, as long as it loses next to nothing by
 * it. Pure: time and observations come in as arguments.
 *
 *     loss                      knee           reference curve: what the larger pools have shown so far
 *      |\                        :             current curve: what this one does since it has its size
 *      | \                       :             P_ref = l_ref(t + Delta / tau_ref), P_now = l_now(t + Delta / tau(w))
 *      |  `-._                   :             s = 100 (P_ref - P_now) / P_ref, known to within m (95 %, one-sided)
 *      |      `--..____          :             one worker less iff s - m > -tolerance
 *      +-------------------------------- t     tau(w) = a + b w, tau_ref = tau of the pool before this one
 *
 * Source: MLLess (Sanchez-Artigas, Sarroca; arXiv 2206.05786, section 4.2). We differ in this:
 * - the first worker does not go unconditionally: there is nothing yet to compare the curve with, so it goes iff even a
 *   progress that is in proportion to the workers would stay within the tolerance:
 *   P_now = l_ref(t + (w - 1) / w Delta / tau_ref);
 * - the reference is fitted anew at each decision to all that larger pools have shown, the newest most of it, and goes
 *   on at the speed of the last of them: a decision asks what the worker that went last was worth. A curve that
 *   was fitted once, at the knee, foretells too high a loss wherever the loss still bent there, the more the longer ago
 *   that was, and each later pool looks better beside it than it is;
 * - losses are noisy, and a curve through a few of them foretells little: s has to be above the tolerance by a
 *   margin, that of straight lines with the curves' weights and residuals. As losses of a job do not rise, the present
 *   pool's is no higher than it was so far;
 * - tau has two parameters, as three cannot be told apart (c0 + (w - 1) c1 + w c2 has rank 2);
 * - nothing is decided on fewer than five points;
 * - a worker that goes flushes what it holds and leaves: no survivor takes half of its model.
 */
#ifndef HD_SCALEIN_H
#define HD_SCALEIN_H

#include "hd_scalein_curve.h"

struct hd_scalein_options {
	double interval_s; /* between two decisions; >= 0 */
	double horizon_s; /* Delta: how far ahead losses are compared; > 0 */
	double tolerance_pct; /* of the loss; >= 0 */
	double knee_slope; /* of the loss, for each step; < 0 */
	uint32_t confirm; /* observations in which the knee must not move on; >= 1 */
	uint32_t min_workers; /* >= 1 */
};

/* 20 s, 10 s, 1 %, -7.5e-5, 5, 1 */
struct hd_scalein_options hd_scalein_defaults(void);

/* Times of steps: sums of what is no outlier. */
struct hd_scalein_speed {
	double recent[10]; /* s; of this number of workers */
	uint32_t count; /* of this number of workers */
	double n, w, ww, y, wy; /* sums over all: of 1, w, w^2, tau, w tau */
};

enum hd_scalein_phase {
	HD_SCALEIN_STEEP = 0, /* before the knee */
	HD_SCALEIN_FLAT = 1 /* past it */
};

/* Losses, of steps in their order. */
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
	/* Of the pools before it that were larger; no points: there was none. The last of these had so many. */
	struct hd_scalein_history larger;
	uint32_t larger_workers;
	uint64_t step; /* the newest */
	uint32_t candidate, stays; /* for the knee; observations in which it stayed */
	uint64_t knee_step; /* 0: not there yet */
	uint32_t skip; /* step times that do not count, after a change */
	double decided_at; /* s */
	struct hd_scalein_speed speed;
};

enum hd_scalein_why {
	HD_SCALEIN_REMOVE = 0,
	HD_SCALEIN_KEEP, /* s <= -tolerance */
	HD_SCALEIN_BEFORE_KNEE,
	HD_SCALEIN_AT_LEAST, /* min_workers */
	HD_SCALEIN_INTERVAL, /* not yet */
	HD_SCALEIN_FEW_POINTS,
	HD_SCALEIN_NO_TIMES, /* of steps */
	HD_SCALEIN_UNSURE, /* s may be above -tolerance, and may be not */
	HD_SCALEIN_WHY_COUNT
};

struct hd_scalein_decision {
	enum hd_scalein_why why;
	uint32_t remove; /* workers: 0 or 1 */
	double s_pct, margin_pct; /* 0 unless it was reckoned (REMOVE, KEEP, UNSURE) */
	double p_ref, p_now; /* predicted losses */
};

/* What is wrong with options, in words that name the field and its limit; NULL: nothing. */
const char *hd_scalein_check(const struct hd_scalein_options *options);
/* The options are right (hd_scalein_check). */
void hd_scalein_init(struct hd_scalein *s, const struct hd_scalein_options *options, double now_s);

/*
 * A step of the job: its loss (mean of a sample), how many workers made it, and how long it took (<= 0: not known).
 * Another number of workers than before begins a pool: its history is empty and the times of its first four steps do
 * not count. O(points) before the knee, O(1) after it. Returns 0; -EINVAL (a loss that is not finite, no workers, a
 * step that is not newer, a time that is not finite) with *s as it was.
 */
int hd_scalein_update(
	struct hd_scalein *s,
	uint64_t step,
	double loss,
	uint32_t workers,
	double step_s
);
/* Whether one worker should go now. A call that reckons s counts as the interval's. < 1 ms. */
struct hd_scalein_decision hd_scalein_decide(struct hd_scalein *s, double now_s);

/* tau(w) = a + b w, a, b >= 0, by least squares; false: no times. With one w only it is that one's mean. */
bool hd_scalein_tau(const struct hd_scalein_speed *speed, double *a, double *b);
/* s = 100 (P_ref - P_now) / P_ref. */
double hd_scalein_s(double p_ref, double p_now);
const char *hd_scalein_why_text(enum hd_scalein_why why);

/* --- what it costs ------------------------------------------------------------------------------ */

struct hd_scalein_prices {
	double worker_gb_s; /* $ of a GB of memory for a second */
	double worker_gb; /* that a worker has */
	double always_hour; /* $ for an hour of what runs all the time */
};

/* $ of worker_s seconds of workers (all together) and seconds of the job. */
double hd_scalein_cost(const struct hd_scalein_prices *prices, double worker_s, double seconds);

#endif
