/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: a job's description. Include heddle.h. */
#ifndef HEDDLE_SPEC_H
#define HEDDLE_SPEC_H

#include "heddle_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a description. tenant, job: UTF-8 names; NULL: HEDDLE_TENANT (else "default") and HEDDLE_JOB (else
 * -EINVAL). Use a description from one thread at a time. 0, -EINVAL (also: name too long or not UTF-8), -ENOMEM. */
int heddle_spec_create(const char *tenant, const char *job, struct heddle_spec **spec);
void heddle_spec_destroy(struct heddle_spec *spec);

enum heddle_init {
	HEDDLE_INIT_ZERO = 0,
	HEDDLE_INIT_UNIFORM = 1 /* in [-scale, scale), from the job's seed */
};

/* Appends an fp32 tensor of `dimension_count` dimensions; the model is all tensors in this order. 0, -EINVAL (name,
 * a dimension of 0, init, scale), -E2BIG (too many tensors or dimensions), -ENOMEM. */
int heddle_spec_add_tensor(
	struct heddle_spec *spec,
	const char *name,
	const uint64_t *dimensions,
	size_t dimension_count,
	enum heddle_init init,
	float scale
);
/* Sets the seed of the initial weights. Default 0. */
void heddle_spec_set_seed(struct heddle_spec *spec, uint64_t seed);
/* Sets the optimizer: h <- momentum h - rate (g + decay w);  w <- w + h. Default 0.01, 0, 0. */
void heddle_spec_set_sgd(struct heddle_spec *spec, float rate, float momentum, float decay);
/* The staleness bound: an update is applied at most tau_max commits after its base version, or dropped. Default 16. */
void heddle_spec_set_tau_max(struct heddle_spec *spec, uint32_t tau_max);
/* When the server makes an optimizer step. NONE: for each update when it arrives. The others: one step for several
 * updates with the same base version, with their mean (their sum divided by their number). A step of k updates adds k
 * to the version; only the last of these versions has a model. Updates for a step that has ended are DROPPED (late) at
 * once. The staleness rule must be constant, and tau_max has no effect. */
enum heddle_sync {
	HEDDLE_SYNC_NONE = 0,
	HEDDLE_SYNC_ALL = 1, /* one update from each current member */
	HEDDLE_SYNC_N = 2, /* the first updates from n different workers */
	HEDDLE_SYNC_N_BATCH = 3 /* the first n updates, from any workers */
};
/* Sets the mode; default NONE. n: 1 .. 4096 for N and N_BATCH, otherwise 0; heddle_open() rejects other
 * values. With fewer than n workers N waits. */
void heddle_spec_set_sync(struct heddle_spec *spec, enum heddle_sync mode, uint32_t n);
/* Limits how far a replica may fall behind the server: the L2 norm of the difference between their models. The
 * server delays commits that could exceed it. 0 (the default): no limit. */
void heddle_spec_set_div_max(struct heddle_spec *spec, float div_max);

/* The factor on update number t, which is applied `delay` commits after its base. */
enum heddle_staleness {
	HEDDLE_STALENESS_CONSTANT = 0, /* 1 */
	HEDDLE_STALENESS_INV_SQRT = 1, /* c / sqrt(tau_max t) */
	HEDDLE_STALENESS_ADADELAY = 2 /* c / sqrt(t + delay) */
};
void heddle_spec_set_staleness(struct heddle_spec *spec, enum heddle_staleness rule, float c);
/* Allows NaN and Inf in updates. By default heddle_push_start() rejects them with -EDOM. */
void heddle_spec_allow_not_finite(struct heddle_spec *spec);
/* Sets whether the chunks between hosts carry a MAC, which costs processor time. Default 1. Use 0 only in a network
 * in which no other party can send or change packets (docs/operations.md, "Security"). */
void heddle_spec_set_integrity(struct heddle_spec *spec, int on);
/* Returns the number of values in the model; 0: no tensor, more values than the limit allows, or NULL. */
uint64_t heddle_spec_value_count(const struct heddle_spec *spec);
/* Computes the initial model as the server does. values: heddle_spec_value_count() elements. 0, -EINVAL (also:
 * description). */
int heddle_spec_initialize_model(const struct heddle_spec *spec, float *values);

#ifdef __cplusplus
}
#endif

#endif
