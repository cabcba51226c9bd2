/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Federated rounds (docs/fedprox.md), for the server core's files only. Each is one synchronous step (srv_step.h) of
 * the workers that were drawn for it:
 *
 *   draw K of those here -> ROUND -> WORK, push ... WORK, push | deadline | step: sum of n_k delta_k / sum of n_k
 *                                                              later updates have an old base: late
 */
#ifndef SRV_FEDERATED_H
#define SRV_FEDERATED_H

#include "hd_jobspec.h"
#include "hd_message.h"
#include "hd_roster.h"

struct srv_job;
struct srv_incoming;
struct srv_member;
struct srv_part;
struct srv_peer;
struct hd_server;
struct srv_turn;

/* A member's part in the rounds. */
struct srv_member_draw {
	uint32_t round; /* the last one that it was drawn for; 0: none */
	uint16_t place;
	bool worked; /* it reported its work */
	bool gave_up; /* no push will come */
};

/* The workers that were given an earlier model, where late updates count. */
struct srv_federated_past {
	bool used;
	uint64_t base; /* counter of that model */
	uint64_t step; /* steps made before it */
	uint8_t drawn[HD_ROSTER_BYTES]; /* by rank; without those whose update came */
};

/* How a round went, for operators. */
#define SRV_FEDERATED_SHOWN 64 /* the newest, of a job */
struct srv_federated_record {
	uint32_t round; /* 0: none */
	hd_version version; /* at its beginning */
	hd_ns began, ended; /* ended: 0 while it is open */
	uint32_t drawn, came; /* workers; updates in its step */
	uint32_t partial, gave_up; /* clients: that did not do all epochs; that gave up */
	uint32_t dropped; /* updates that came during it and were late */
	uint32_t gammas; /* clients that reported gamma */
	float mu;
	double weight; /* of its step */
	double loss, gamma, gamma_max; /* means of the clients'; gamma: their sum */
	uint32_t late; /* of those that came: from earlier rounds */
	bool has_loss;
};

/* Too few workers are here for a round to end, or to begin. */
struct srv_federated_lack {
	hd_ns since; /* or since the last one joined; 0: enough are here */
	uint32_t here, needed; /* that can be drawn, or will be in the step */
	bool reported; /* that the job's limit has passed */
};

/* A job's rounds. */
struct srv_federated {
	struct srv_federated_record
		records[SRV_FEDERATED_SHOWN]; /* of round r at r % SRV_FEDERATED_SHOWN */
	uint32_t round; /* open, or the last; 0: none yet */
	bool open; /* `round` is open */
	bool closed; /* its deadline has passed: the least number of updates suffices */
	hd_ns deadline;
	uint16_t drawn;
	uint32_t draws; /* of this round */
	struct srv_federated_lack lack;
	float mu; /* of this round */
	bool has_loss;
	uint32_t falls; /* of the loss, in a row */
	double loss; /* of the previous round */
	double loss_sum, loss_weight; /* of this one */
	/* In this incarnation of the server: */
	uint64_t ended, empty; /* rounds; those without any update */
	uint64_t lacked; /* times that the limit of waiting for clients passed */
	uint64_t partial, gave_up; /* clients: that did not do all epochs; that gave up */
	double received, applied; /* weight added to sums; weight of the sums in the model */
	double gamma_sum;
	uint64_t gammas, late; /* late: updates that counted nevertheless */
	/* Where late updates count; NULL: none yet, or no memory. A ring by `steps`, which includes the current
	 * model. */
	struct srv_federated_past *past;
	uint64_t steps; /* that have ended */
};

/* Begins rounds, draws, tells workers, and closes rounds past their deadline. Like those below, it ignores other
 * jobs. */
void srv_federated_look(struct srv_turn *turn, struct srv_job *job);
/* Updates that the round is expected to get. */
uint32_t srv_federated_needs(const struct hd_server *server, const struct srv_job *job);
/* When the open round's deadline ends, or its waiting is to be reported. */
hd_ns srv_federated_deadline(const struct srv_job *job);
/* Whether an update whose base is right belongs to this round. */
enum hd_reason srv_federated_admit(
	const struct srv_job *job,
	const struct srv_incoming *in,
	const struct srv_part **cause
);
/* Steps since its base was the current model: 0: it is the newest; UINT32_MAX: too many, or the job drops late
 * updates. */
uint32_t srv_federated_late(const struct srv_job *job, hd_version base);
/* The update is in the sum, with this weight. */
void srv_federated_taken(struct srv_job *job, const struct srv_incoming *in, double weight);
void srv_federated_fini(struct srv_job *job);
/* A worker reports its work. */
void srv_federated_work(
	struct srv_turn *turn,
	const struct srv_peer *peer,
	const struct hd_msg_work *work
);
/* An update was late. */
void srv_federated_dropped(struct srv_job *job);
/* The step is in the model. */
void srv_federated_ended(const struct srv_turn *turn, struct srv_job *job);
/* The rows of the table `rounds`: the newest rounds of each federated job, oldest first. Returns how many. */
struct hd_rows;
extern const struct hd_row_shape srv_federated_shape;
uint64_t srv_federated_rows(const struct hd_server *server, hd_ns now, struct hd_rows *rows);

#endif
