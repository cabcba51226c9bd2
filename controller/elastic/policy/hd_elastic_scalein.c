/* SPDX-License-Identifier: BSD-3-Clause */
/* The policy scale-in: hd_scalein as a row of the table of elastic policies. */
#include "hd_elastic_policy.h"
#include "hd_scalein.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum {
	KEY_N,
	KEY_EVERY,
	KEY_HORIZON,
	KEY_TOLERANCE,
	KEY_KNEE,
	KEY_CONFIRM
};

static const struct hd_elastic_key keys[] = {
	[KEY_N]
	= {"n",
	   "initial number of workers (0: those present)",
	   .most = HD_WORKERS_MAX,
	   .whole = true},
	[KEY_EVERY] = {"every", "seconds between two decisions", .most = 86400, .fallback = 20},
	[KEY_HORIZON]
	= {"horizon",
	   "seconds ahead for which losses are compared",
	   .least = 0.1,
	   .most = 86400,
	   .fallback = 10},
	[KEY_TOLERANCE]
	= {"tolerance", "tolerated increase of the loss, in percent", .most = 100, .fallback = 1},
	[KEY_KNEE]
	= {"knee",
	   "slope of the loss per step above which it counts as flat",
	   .least = -1e3,
	   .most = -1e-12,
	   .fallback = -7.5e-5},
	[KEY_CONFIRM]
	= {"confirm",
	   "observations during which the knee must stay the same",
	   .least = 1,
	   .most = 1000,
	   .fallback = 5,
	   .whole = true},
	{0},
};

struct state {
	struct hd_scalein tuner;
	uint32_t target;
	struct hd_scalein_decision last; /* the last one that was computed, or the obstacle */
};

static_assert(sizeof(struct state) <= HD_ELASTIC_STATE_BYTES, "a policy's state");

static int scalein_init(struct hd_elastic *e, char *error, size_t bytes) {
	struct hd_scalein_options options = {
		.interval_s = e->value[KEY_EVERY],
		.horizon_s = e->value[KEY_HORIZON],
		.tolerance_pct = e->value[KEY_TOLERANCE],
		.knee_slope = e->value[KEY_KNEE],
		.confirm = (uint32_t)e->value[KEY_CONFIRM],
		.min_workers = e->common.n_min,
	};
	struct state *state = (struct state *)(void *)e->state;
	const char *wrong = hd_scalein_check(&options);

	if (e->value[KEY_N] < 1)
		e->value[KEY_N] = e->workers;
	/* A setting from now on: the words are the same for the next process. */
	e->given |= 1U << KEY_N;
	if (e->value[KEY_N] < 1)
		wrong = "n: policy scale-in needs it while the job has no workers";
	if (wrong) {
		(void)snprintf(error, bytes, "%s", wrong);
		return -EINVAL;
	}
	hd_scalein_init(&state->tuner, &options, e->last);
	state->target = (uint32_t)e->value[KEY_N];
	state->last.why = HD_SCALEIN_BEFORE_KNEE;
	return 0;
}

static void scalein_observe(struct hd_elastic *e, const struct hd_elastic_observation *o) {
	struct state *state = (struct state *)(void *)e->state;
	struct hd_scalein_decision d;

	if (hd_scalein_update(&state->tuner, o->step, o->loss, o->workers, o->step_s) < 0)
		return; /* no workers took part, or the step is not newer: no information */
	d = hd_scalein_decide(&state->tuner, e->last);
	if (d.why == HD_SCALEIN_INTERVAL)
		return; /* the last decision is still valid */
	state->last = d;
	if (d.remove)
		state->target = o->workers < state->target ? o->workers - 1 : state->target - 1;
}

static void
scalein_decide(const struct hd_elastic *e, double now, struct hd_elastic_decision *out) {
	const struct state *state = (const struct state *)(const void *)e->state;
	const struct hd_scalein_decision *d = &state->last;
	bool estimated = d->why == HD_SCALEIN_REMOVE || d->why == HD_SCALEIN_KEEP
		|| d->why == HD_SCALEIN_UNKNOWN;

	(void)now;
	if (!estimated) {
		hd_elastic_explain(out, state->target, "%s", hd_scalein_why_text(d->why));
		return;
	}
	hd_elastic_explain(
		out,
		state->target,
		"%s: %.4g after %.4g s, of %.4g (%+.3g %%, to within %.2g)",
		hd_scalein_why_text(d->why),
		d->p_now,
		e->value[KEY_HORIZON],
		d->p_ref,
		d->s_pct,
		d->margin_pct
	);
}

const struct hd_elastic_policy hd_elastic_scalein = {
	.name = "scale-in",
	.help = "n workers; fewer when the loss is flat and hardly increases",
	.keys = keys,
	.state_bytes = sizeof(struct state),
	.releases = true,
	.init = scalein_init,
	.observe = scalein_observe,
	.decide = scalein_decide,
};
