/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trainer's arithmetic and event log for the programs that Heddle is measured beside: what a worker on
 * ps-lite (C++) or on PyTorch (by ctypes) trains with is what heddle-train trains with, and only the network differs.
 *
 * One object a process, one thread at a time but for rival_event(). Functions that return int: 0, or -1 with the words
 * of rival_error().
 */
#ifndef RIVAL_TRAINER_H
#define RIVAL_TRAINER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rival;

/* Model and data by the names that heddle-train takes; the minibatches of one of `world` ranks. NULL on error. */
struct rival *
rival_open(const char *model, uint32_t batch, uint32_t rank, uint32_t world, uint64_t seed);
void rival_close(struct rival *rival);
const char *rival_error(void);

/* Parameters of the model: one array, tensor after tensor. */
uint64_t rival_values(const struct rival *rival);
/* The initial weights that a server of Heddle's makes from the same seed. */
int rival_initial(struct rival *rival, float *w);
/* Draws the next minibatch: batch x features and batch labels, valid until the next call. */
void rival_next(struct rival *rival, const float **x, const uint8_t **y);
uint32_t rival_features(const struct rival *rival);
/* The gradient of the mean loss over the last minibatch. */
void rival_gradient(struct rival *rival, const float *w, float *g);
/* Accuracy on the test set and mean loss. */
void rival_evaluate(struct rival *rival, const float *w, double *accuracy, double *loss);
/* One step of SGD with momentum: Heddle's kernel, so the same rule. */
void rival_sgd(
	const struct rival *rival,
	float *w,
	float *h,
	const float *g,
	const float rate_momentum_decay[3]
);

/* Padding of compute time; the schedule is heddle-train's. */
int rival_compute(struct rival *rival, double compute_ms, const char *schedule);
/* Sleeps until `begun` + compute_ms x the present factor; -1: a signal came, or the schedule is broken. */
int rival_pad(struct rival *rival, uint64_t begun);
/* CLOCK_MONOTONIC in ns. */
uint64_t rival_now(void);

/* Events as Heddle's programs write them; rival_event() before rival_log() does nothing. */
enum rival_event {
	RIVAL_PUSHED,
	RIVAL_APPLIED,
	RIVAL_COMMITTED
};
int rival_log(struct rival *rival, const char *path, const char *node);
/* version: after the commit, or an update's base; delay: of a commit. */
void rival_event(
	struct rival *rival,
	enum rival_event event,
	uint32_t worker,
	uint32_t round,
	uint64_t version,
	uint64_t delay
);

#ifdef __cplusplus
}
#endif

#endif
