/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's computation for one update: a gradient, several local steps (--local-steps), or its part of consensus ADMM
 * (--admm). */
#ifndef TRAIN_STEPS_H
#define TRAIN_STEPS_H

#include "hd_admm.h"
#include "train_summary.h"

struct train_steps {
	float *grad,
		*kept; /* a gradient, and the pulled model; NULL: one gradient for each update */
	struct hd_admm admm; /* values 0: no ADMM */
	bool applied; /* the last update is in the model that is pulled next */
};

/* Each returns an exit status. */
int train_steps_init(struct train_steps *steps, const struct train *train);
void train_steps_fini(struct train_steps *steps, const struct train *train);
/* The update to push, from the model in train_params(), which stays. Counts gradients in summary. */
int train_steps_compute(
	struct train_steps *steps,
	struct train *train,
	float *update,
	struct train_summary *summary
);
/* Takes the outcome of the update. */
void train_steps_end(struct train_steps *steps, const struct heddle_status *status);
/* The factor of the update: 1 with ADMM, whose next model is a mean. */
float train_steps_scale(const struct train_steps *steps, const struct train *train);

/* As hd_model_watch(), wherever the model is computed. */
void train_watch(const struct train *train, const struct hd_model_watch *watch);
/* One minibatch's gradient at train_params(), in an array of train_array(), padded to --compute-ms. An exit status. */
int train_gradient(struct train *train, float *grad, struct train_summary *summary);
/* The same, of the next minibatch or the last one again, in a step that begun then. */
int train_gradient_of(
	struct train *train,
	float *grad,
	bool next,
	hd_ns begun,
	struct train_summary *summary
);

#endif
