/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker of synchronous training by all-reduce (--sync allreduce; docs/synchronous.md). Model and optimizer are here,
 * and the same bits at every worker. A worker is in one of three stages:
 *
 *             a sum says that none has a model,
 *             or the others' step is over                     all have the same model
 *   ATTENDING -------------------------------> CALLING THE ROLL <------------------> TRAINING
 *       ^                                        |  ^    a sum says that one joins,       |
 *       |     late                               |  |    or calls did not match           |
 *       +----------------------------------------+--|-------------------------------------+
 *
 *   ATTENDING        takes part in the others' buckets, and gives nothing but that it joins
 *   CALLING THE ROLL one maximum over all says whose model is the newest; where a worker lacks it, it is broadcast
 *   TRAINING         one step: a gradient, in buckets; each bucket's mean is over the workers that took part in it
 *
 * Every decision follows from sums, which have the same bits at all workers that have them. A worker that called
 * something else than the others is told so with all of them (HEDDLE_REASON_MISMATCH): then all call the roll.
 */
#ifndef TRAIN_SYNC_H
#define TRAIN_SYNC_H

#include "hd_buckets.h"
#include "hd_roll.h"
#include "hd_sync_state.h"
#include "train_loss.h"
#include "train_summary.h"

#define TRAIN_SYNC_TAG                                                                             \
	"heddle-train: a step" /* of buckets and models: other calls are told from them in words */

enum train_stage {
	TRAIN_STAGE_ATTENDING,
	TRAIN_STAGE_ROLL,
	TRAIN_STAGE_TRAINING,
};

/* How a part of the work ends. */
enum train_end {
	TRAIN_END_DONE,
	TRAIN_END_STAGE, /* it has no result; train_sync.stage says what is next */
	TRAIN_END_LEAVE, /* this worker leaves */
	TRAIN_END_FAILED, /* with the exit status in train_sync.status */
};

/* The arrays of steps, where the model is computed: the host's below, or others on a GPU. */
struct train_sync_arrays {
	float *grad, *momentum, *give, *sum;
};

struct train_sync {
	struct train *train;
	struct heddle *fabric;
	struct train_summary summary;
	struct train_loss loss;
	FILE *log; /* --step-log; NULL: none */
	struct hd_buckets buckets;
	float *grad, *momentum;
	float *give, *sum; /* buffers of all buckets */
	struct train_sync_arrays at;
	float *heads; /* of the buckets in registered memory; NULL: no GPU (train_sync_far.h) */
	char settings[HD_STATE_BYTES]; /* on which all must agree */
	enum train_stage stage;
	int status;
	/* The model: */
	bool has_model, sure;
	uint64_t step; /* of it */
	bool ended; /* the run ends with it */
	bool compared; /* with all others, at the step `checked`: equal */
	uint64_t checked;
	uint64_t
		evaluated; /* steps + 1 of the model that was evaluated last (--eval-every); 0: none */
	/* The present step: */
	hd_ns begun;
	double last_loss;
	struct heddle_ticket *ticket[HD_BUCKETS_MAX];
	uint32_t started; /* buckets */
	int start_error; /* of a bucket; 0: none */
	bool has_batch; /* that no step was made of: an attempt of the step failed */
	double step_ms; /* the last step took */
	uint64_t change; /* the change of members for the present rows */
	uint32_t recoveries; /* since the last step */
	hd_ns recovering; /* since then: the first of them */
	bool began; /* a round has ended: the job has begun */
	hd_ns printed;
	/* Memory that collectives read and write: the library may still do so when this worker leaves during one. */
	int64_t maxima[HD_EQUAL_VALUES];
	char state[HD_STATE_BYTES];
};

/* The options of a bucket. All else waits for every worker that is registered. */
struct heddle_collective_options train_sync_bucket(const struct train_sync *sync);
/* Waits for a collective, whose ticket stays. status: may be NULL. */
enum train_end train_sync_wait(
	struct train_sync *sync,
	struct heddle_ticket *ticket,
	struct heddle_status *status
);
/* Of a collective that could not be started: TRAIN_END_LEAVE or _FAILED. */
enum train_end train_sync_refused(struct train_sync *sync, int code);

/* Takes part in the others' buckets, until the roll is called. */
enum train_end train_sync_attend(struct train_sync *sync);
/* The roll, and the model where a worker lacks it. */
enum train_end train_sync_roll(struct train_sync *sync);
/* Whether all have the same bits: if not, it has failed with EX_SOFTWARE. */
enum train_end train_sync_check(struct train_sync *sync);
/* --eval-every: after every Nth step, and at the end; not twice the same step. An exit status. */
int train_sync_evaluate(struct train_sync *sync, bool at_end);
/* One step. */
enum train_end train_sync_step(struct train_sync *sync);

/* --step-log: opens it; writes the line of a step, while its tickets are there; closes it. An exit status. */
int train_sync_log_open(struct train_sync *sync);
void train_sync_log_step(struct train_sync *sync, double loss);
int train_sync_log_close(struct train_sync *sync);

#endif
