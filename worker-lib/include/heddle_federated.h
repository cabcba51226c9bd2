/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libheddle for federated clients, which train on their own rows and push the resulting change of the model
 * (docs/fedprox.md).
 *
 *	struct heddle_round round = HEDDLE_ROUND_INIT;
 *	struct heddle_work work = HEDDLE_WORK_INIT;
 *	struct heddle_status status = HEDDLE_STATUS_INIT;
 *
 *	heddle_spec_set_federated(spec, &rounds);     clients of a round, mu, the deadline ...
 *	while (heddle_round_wait(fabric, &round, -1) == 0) {
 *		heddle_pull(fabric, w_t, NULL, -1, &status);
 *		if (status.version != round.version)
 *			continue;                     that round is over: get the next one
 *		...epochs of heddle_prox_apply(w, w_t, gradient, ...) until the deadline...
 *		heddle_round_push_start(fabric, &round, &work, w_t, w, &ticket);
 *	}
 *
 * The server draws clients for each round, adds n_k (w_k - w_t), and divides once, by the sum of the n_k that it has
 * received. An update that arrives after the end of its round has an old base: it is DROPPED (late), or counts with a
 * lower weight (enum heddle_late). heddle_push_start() and filters return -EINVAL in a federated job.
 */
#ifndef HEDDLE_FEDERATED_H
#define HEDDLE_FEDERATED_H

#include "heddle_spec.h"
#include "heddle_transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes one local step of FedProx (Li et al., arXiv 1812.06127, section 3.2), in place, for each of `count` values:
 *   w <- w - rate (grad + mu (w - w_t)),
 * the gradient step of F(w) + mu/2 |w - w_t|^2. w_t: the model at the start of the round; grad: the gradient of the
 * client's own loss at w; mu = 0: plain SGD. The arrays must not overlap. The result has the same bits on every
 * machine, as each operation is rounded separately. A pure function. 0, -EINVAL (a pointer is NULL with count > 0; rate
 * or mu is NaN, Inf or negative), which changes nothing.
 */
int heddle_prox_apply(
	float *w,
	const float *w_t,
	const float *grad,
	size_t count,
	float rate,
	float mu
);

/* The weight of a client's update in the mean of its round. */
enum heddle_weighting {
	HEDDLE_WEIGHTING_SAMPLES = 0, /* its number of rows */
	HEDDLE_WEIGHTING_UNIFORM = 1
};

/* The treatment of an update whose round is over. */
enum heddle_late {
	HEDDLE_LATE_DROP = 0,
	/* It counts in the current round, as a difference, with half of its weight for each step of delay, up to 16
	 * steps (HEDDLE_LATE_STEPS_MAX) and the job's tau_max. */
	HEDDLE_LATE_WEIGHT = 1
};
#define HEDDLE_LATE_STEPS_MAX 16
#define HEDDLE_ROUND_WAIT_MS 60000

/* The rounds of a job; all its workers must set the same values. */
struct heddle_federated {
	size_t size;
	uint32_t clients_per_round; /* number drawn for each round; 0: 10 */
	uint32_t min_clients; /* minimum number of updates of a round; 0: 1 */
	uint32_t min_available; /* workers that the first round waits for; 0: min_clients */
	uint32_t round_deadline_ms; /* 0: a round waits for all drawn clients that are alive */
	uint32_t max_epochs; /* 1 .. 65535; 0: 20 */
	enum heddle_weighting weighting;
	int drop_stragglers; /* 1 (FedAvg): only clients with max_epochs count; 0: partial work counts */
	float mu; /* factor of the proximal term; with mu_auto its initial value */
	/* 1: the server raises mu by 0.1 when the clients' mean loss rose, and lowers it by 0.1, not below 0, after
	 * five falls in a row (arXiv 1812.06127, 5.3.2). */
	int mu_auto;
	uint64_t seed; /* determines, with the round's number, the drawn clients */
	enum heddle_late late;
	/* How long a round waits while there are too few clients, from the last client that joined, before
	 * heddle_round_wait() returns an error; 0: HEDDLE_ROUND_WAIT_MS; at most a day. */
	uint32_t round_wait_ms;
};
/* Makes the job federated: its steps are rounds. Also sets the server's step to w + mean of the deltas (rate 1, no
 * momentum, no decay); a later heddle_spec_set_sgd() replaces that (server momentum). heddle_open() rejects bad values.
 * 0, -EINVAL (NULL, size, max_epochs, weighting, late). */
int heddle_spec_set_federated(struct heddle_spec *spec, const struct heddle_federated *rounds);

/* A round for which this worker was drawn. */
struct heddle_round {
	size_t size;
	uint32_t round; /* counts from 1 */
	uint64_t version; /* of the model w_t at the start */
	uint32_t index, clients; /* this client's place among the drawn ones: 0 .. clients - 1 */
	uint32_t max_epochs;
	int drop_stragglers;
	float mu;
	double ends_at_s; /* CLOCK_MONOTONIC in s; < 0: no deadline. See heddle_round_time_left_s(). */
};
#ifdef __cplusplus
#define HEDDLE_FEDERATED_INIT                                                                      \
	{                                                                                          \
		sizeof(struct heddle_federated), 0, 0, 0, 0, 0, HEDDLE_WEIGHTING_SAMPLES, 0, 0, 0, \
			0, HEDDLE_LATE_DROP, 0                                                     \
	}
#define HEDDLE_ROUND_INIT                                                                          \
	{ sizeof(struct heddle_round), 0, 0, 0, 0, 0, 0, 0, 0 }
#else
#define HEDDLE_FEDERATED_INIT                                                                      \
	{ .size = sizeof(struct heddle_federated) }
#define HEDDLE_ROUND_INIT                                                                          \
	{ .size = sizeof(struct heddle_round) }
#endif
/* Waits for the next round for which this worker is drawn; a round that the program did not get is replaced by the
 * next one. 0, -ETIMEDOUT, -EINVAL (size, the job is not federated), -ECONNREFUSED, -ESHUTDOWN (left), -ECHILD. If
 * there are fewer clients than min_clients (for the first round: min_available), and none has joined for round_wait_ms:
 * -ENODATA when the others have left or never joined, so the job is over; -EHOSTDOWN when they were lost.
 * heddle_last_error() has the numbers. A further call waits again, and clients that join complete the round. The round
 * keeps its updates; when all clients have left, these form the step. */
int heddle_round_wait(struct heddle *fabric, struct heddle_round *round, int timeout_ms);
/* Returns the seconds until the deadline; HUGE_VAL without one; 0 for NULL, or when the server has ended the
 * round. */
double heddle_round_time_left_s(struct heddle *fabric, const struct heddle_round *round);

/* The work of a client in one round. */
struct heddle_work {
	size_t size;
	uint64_t samples; /* n_k: rows of this client; 1 .. 2^24 */
	uint32_t epochs; /* done */
	/* |grad h(w_k; w_t)| / |grad F_k(w_t)|, the inexactness of w_k; negative: not computed; must be finite */
	float gamma;
	double loss; /* F_k(w_t); must be finite */
	enum heddle_payload payload;
};
#ifdef __cplusplus
#define HEDDLE_WORK_INIT                                                                           \
	{ sizeof(struct heddle_work), 0, 0, -1, 0, HEDDLE_PAYLOAD_FP32 }
#else
#define HEDDLE_WORK_INIT                                                                           \
	{ .size = sizeof(struct heddle_work), .gamma = -1 }
#endif
/* Starts a push of w_k, as the update w_t - w_k with the weight n_k (or 1, by the job's weighting). w_t, w: the
 * whole model's values; both belong to the caller again when it returns. If the work of a straggler does not count,
 * nothing is sent: its ticket ends as DROPPED (late), and the round does not wait for it. The ticket works as that of
 * heddle_push_start(); DROPPED: the round was over. 0, -EDOM (samples 0 or above 2^24; loss or gamma NaN or Inf; a
 * value of w_k that is NaN or Inf, or exceeds the range of fp16 after the multiplication by the weight;
 * heddle_last_error() says which, and nothing was sent), -EINVAL (size, round, NULL, the job is not federated or has no
 * model), and the errors of heddle_push_start(). */
int heddle_round_push_start(
	struct heddle *fabric,
	const struct heddle_round *round,
	const struct heddle_work *work,
	const float *w_t,
	const float *w,
	struct heddle_ticket **ticket
);

#ifdef __cplusplus
}
#endif

#endif
