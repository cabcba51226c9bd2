/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libheddle for federated clients: they train on rows of their own and send how far that took them (docs/fedprox.md).
 *
 *	struct heddle_round round = HEDDLE_ROUND_INIT;
 *	struct heddle_work work = HEDDLE_WORK_INIT;
 *
 *	heddle_spec_federated(spec, &rounds);         how many clients a round has, mu, the deadline ...
 *	while (heddle_round_get(fabric, &round, -1) == 0) {
 *		heddle_pull(fabric, w_t, NULL, -1, &version);
 *		if (version != round.version)
 *			continue;                     that round is over: the next one comes
 *		...epochs of heddle_prox_apply(w, w_t, gradient, ...) until the time is up...
 *		heddle_round_push(fabric, &round, &work, w_t, w, &ticket);
 *	}
 *
 * The server draws clients for each round, adds up n_k (w_k - w_t), and divides once, by the sum of the n_k that it has
 * received; what comes after the round's end has an old base and is DROPPED late, or counts less (enum heddle_late).
 * heddle_push() and filters are no way for such a job: -EINVAL.
 */
#ifndef HEDDLE_FEDERATED_H
#define HEDDLE_FEDERATED_H

#include "heddle.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One local step of FedProx (Li et al., arXiv 1812.06127, section 3.2), in place, for each of `count` values:
 *   w <- w - rate (grad + mu (w - w_t)),
 * the gradient step of F(w) + mu/2 |w - w_t|^2, where w_t is the model with which the round began and grad the gradient
 * of the client's own loss at w. mu = 0: plain SGD. Arrays do not overlap. The result has the same bits on every
 * machine: each operation is rounded on its own. 0; -EINVAL (a pointer is NULL with count > 0; rate or mu is NaN, Inf
 * or negative: nothing was touched).
 */
int heddle_prox_apply(
	float *w,
	const float *w_t,
	const float *grad,
	size_t count,
	float rate,
	float mu
);

/* What a client's update weighs in its round's mean. */
enum heddle_weighting {
	HEDDLE_WEIGHTING_SAMPLES = 0, /* as many as it has rows */
	HEDDLE_WEIGHTING_UNIFORM = 1
};

/* What becomes of an update whose round is over. */
enum heddle_late {
	HEDDLE_LATE_DROP = 0,
	/* It counts in the round under way, by half as much for each step that it is late, up to 16 (HEDDLE_LATE_STEPS_MAX)
	 * and the job's tau_max of them: as a difference, never as a model. */
	HEDDLE_LATE_WEIGHT = 1
};
#define HEDDLE_LATE_STEPS_MAX 16
#define HEDDLE_ROUND_WAIT_MS 60000

/* Rounds of a job; all its workers say the same. */
struct heddle_federated {
	size_t size;
	uint32_t clients_per_round; /* drawn for each; 0: 10 */
	uint32_t min_clients; /* updates without which no round ends; 0: 1 */
	uint32_t min_available; /* workers that the first round waits for; 0: min_clients */
	uint32_t round_deadline_ms; /* 0: a round waits for all that were drawn and live */
	uint32_t max_epochs; /* 1 .. 65535; 0: 20 */
	enum heddle_weighting weighting;
	int drop_stragglers; /* FedAvg: who has not done max_epochs gives nothing; else partial work counts */
	float mu; /* of the proximal term; of an adaptive one where it begins */
	/* The server raises mu by 0.1 when the clients' mean loss rose, and lowers it by 0.1, not below 0, after five
	 * falls in a row (arXiv 1812.06127, 5.3.2). */
	int mu_auto;
	uint64_t seed; /* with the round's number it decides who is drawn */
	enum heddle_late late;
	/* So long a round that too few are here for waits, from the last client that came on, before heddle_round_get() says
	 * so; 0: HEDDLE_ROUND_WAIT_MS; at most a day. */
	uint32_t round_wait_ms;
};
/* Makes the job a federated one: its steps are rounds. Also sets the server's step to w + mean of the deltas (rate 1,
 * no momentum, no decay); heddle_spec_sgd() after it makes that another one (server momentum). heddle_open() says what
 * is wrong with a value. -EINVAL (NULL, size, max_epochs, weighting, late). */
int heddle_spec_federated(struct heddle_spec *spec, const struct heddle_federated *rounds);

/* A round for which this worker was drawn. */
struct heddle_round {
	size_t size;
	uint32_t round; /* counts from 1 */
	uint64_t version; /* of the model w_t to begin with */
	uint32_t place, clients; /* the place-th (from 0) of so many */
	uint32_t max_epochs;
	int drop_stragglers;
	float mu;
	double ends_at; /* CLOCK_MONOTONIC in s; < 0: no deadline. See heddle_round_seconds_left(). */
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
/* Waits for the next round that this worker is drawn for; one that nobody took is replaced by the next. timeout_ms < 0:
 * for ever. 0, -ETIMEDOUT, -EINVAL (size, the job is not federated), -ECONNREFUSED, -ESHUTDOWN (left), -ECHILD.
 * Where fewer clients are here than min_clients (or, for the first round, min_available), and none has come for
 * round_wait_ms: -ENODATA when others have left or were never there, so that this is the end of the job; -EHOSTDOWN
 * when they were lost. heddle_last_error() has the numbers. Who calls again waits again: clients that come make the
 * round whole. What it has already is kept; when all have left it is a step, however little it is. */
int heddle_round_get(struct heddle *fabric, struct heddle_round *round, int timeout_ms);
/* Until the deadline; HUGE_VAL without one; 0 also when the server has ended the round, and of NULL. */
double heddle_round_seconds_left(struct heddle *fabric, const struct heddle_round *round);

/* What was done in a round. */
struct heddle_work {
	size_t size;
	uint64_t samples; /* n_k: rows of this client; 1 .. 2^24 */
	uint32_t epochs; /* done */
	/* |grad h(w_k; w_t)| / |grad F_k(w_t)|: how inexact w_k is; negative: not computed; must be finite */
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
/*
 * Hands over w_k, as the update w_t - w_k with the weight n_k (or 1, by the job's weighting). Both arrays are the
 * caller's again when it returns. A straggler whose work is not to count sends nothing: its ticket ends as DROPPED
 * late, and nobody waits for it. The ticket is as heddle_push()'s; DROPPED: the round was over.
 * -EDOM (samples 0 or beyond 2^24, a loss or gamma that is NaN or Inf, a value of w_k that is, or that times the weight
 * is more than fp16 holds, when it travels as that: heddle_last_error() says which; nothing was sent), -EINVAL (size,
 * round, NULL, the job is not federated or has no model), and heddle_push()'s.
 */
int heddle_round_push(
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
