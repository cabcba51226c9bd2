/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --device: where a model is computed. On a GPU parameters, gradients and momentum stay in its memory ("far"), and go
 * from there to libheddle; train->params is a copy for what the host does: evaluations, comparisons, the summary.
 *
 * Functions return an exit status, and print errors by themselves.
 */
#ifndef TRAIN_FAR_H
#define TRAIN_FAR_H

#include "hd_options.h"

struct train_far;

/* Checks the options that exclude each other, when the GPU is asked for by name: -1, or an exit status. */
int train_check_device(const struct train_options *options);
/* The name of an option that excludes a GPU; NULL: none is given. */
const char *train_device_excluded(const struct train_options *options);
/* Opens the GPU and puts the model there, or leaves train->far NULL: the host's processor. After the model and its
 * memory on the host. */
int train_far_open(struct train *train);
void train_far_close(struct train *train);
/* The name of where the model is computed. */
const char *train_device_name(const struct train *train);

/* The stream of all its work; NULL on the host. */
void *train_far_stream(const struct train *train);
/* For options of libheddle: the memory of arrays. */
enum heddle_memory train_memory_kind(const struct train *train);

/* --- arrays, where the model is computed ---------------------------------------------------- */

/* Zeros, to be freed by the next function when nothing uses them any more; NULL: no memory. */
float *train_array(const struct train *train, uint64_t values);
void train_array_free(const struct train *train, float *array);
/* The parameters. */
float *train_params(const struct train *train);
/* to = from */
int train_array_copy(const struct train *train, float *to, const float *from, uint64_t values);
/* y = y + a x */
int train_array_add(const struct train *train, float *y, float a, const float *x, uint64_t values);
/* Waits until all of these are done. */
int train_array_wait(const struct train *train);

/* --- on a GPU only (train->far) --------------------------------------------------------------- */

/* Copy to and from the host's memory, and wait. `values` is at most the model's. */
int train_far_read(const struct train *train, float *host, const float *array, uint64_t values);
int train_far_write(const struct train *train, float *array, const float *host, uint64_t values);
/* Makes train->params the present parameters; does nothing on the host. */
int train_far_fetch(struct train *train);

/* The gradient of the sampler's batch; see hd_far_model.h. */
int train_far_gradient(const struct train *train, float *grad, double *loss);
/* For all later gradients; an empty one: none. */
void train_far_watch(const struct train *train, const struct hd_model_watch *watch);

/* A step of hd_sgd_apply() with factor * g. */
struct train_far_step {
	float *w, *h;
	const float *g;
	uint64_t values;
	float factor;
};
int train_far_sgd(const struct train *train, const struct train_far_step *step);
/* Whether all parameters are finite. */
int train_far_is_finite(const struct train *train, bool *finite);
/* y = a x */
int train_far_scale(const struct train *train, float *y, float a, const float *x, uint64_t values);

/* Registered memory of the host, for copies that do not wait; freed with train->far. NULL: no memory. */
float *train_far_near(const struct train *train, uint64_t values);
void train_far_near_free(const struct train *train, float *near);
/* Queues a copy between an array and registered memory. */
int train_far_move(const struct train *train, float *to, const float *from, uint64_t values);

#endif
