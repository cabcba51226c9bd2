/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds of federated jobs (docs/fedprox.md), for the server core's files only. A round is one synchronous step
 * (hd_server_step.h) of the workers that were drawn for it:
 *
 *   draw K of those here -> ROUND -> WORK, push ... WORK, push | deadline | step: sum of n_k delta_k / sum of n_k
 *                                                              what comes later has an old base: late
 */
#ifndef HD_SERVER_ROUNDS_H
#define HD_SERVER_ROUNDS_H

#include "hd_jobspec.h"
#include "hd_message.h"
#include "hd_roster.h"

struct hd_job;
struct hd_incoming;
struct hd_member;
struct hd_part;
struct hd_peer;
struct hd_server;
struct hd_turn;

/* Of a member. */
struct hd_member_draw {
	uint32_t round; /* it was drawn for this one last; 0: never */
	uint16_t place;
	bool worked; /* it has said what it did */
	bool gave_up; /* no push will come */
};

/* Whom a model that was stepped from was given to, where late updates count. */
struct hd_round_past {
	bool used;
	uint64_t base; /* counter of that model */
	uint64_t step; /* steps that had been made when it was the newest */
	uint8_t drawn
		[HD_ROSTER_BYTES]; /* by rank; not those whose update is in the model, or in the step */
};

/* How a round went, for people. */
#define HD_ROUNDS_SHOWN 64 /* the newest, of a job */
struct hd_round_record {
	uint32_t round; /* 0: none */
	hd_version version; /* that it begins with */
	hd_ns began, ended; /* ended: 0 while it is under way */
	uint32_t drawn, came; /* workers; updates in its step */
	uint32_t partial, gave_up; /* clients: that did not do all epochs; that gave nothing */
	uint32_t dropped; /* updates that came in its time, and were late */
	uint32_t gammas; /* clients that said gamma */
	float mu;
	double weight; /* of its step */
	double loss, gamma, gamma_max; /* means of the clients'; gamma: their sum */
	uint32_t late; /* of those that came: of rounds before */
	bool has_loss;
};

/* That too few are here for a round to end, or to begin. */
struct hd_round_lack {
	hd_ns since; /* or since the last one came; 0: enough are here */
	uint32_t here, needed; /* that can be drawn, or will be in the step */
	bool told; /* for as long as the job's limit */
};

/* Of a job. */
struct hd_rounds {
	struct hd_round_record records[HD_ROUNDS_SHOWN]; /* of round r at r % HD_ROUNDS_SHOWN */
	uint32_t round; /* under way, or the last; 0: none yet */
	bool open; /* one is under way */
	bool closed; /* its deadline has passed: so many as there must be are enough */
	hd_ns deadline;
	uint16_t drawn;
	uint32_t draws; /* of this round */
	struct hd_round_lack lack;
	float mu; /* of this round */
	bool has_loss;
	uint32_t falls; /* of the loss, one after the other */
	double loss; /* of the round before */
	double loss_sum, loss_weight; /* of this one */
	/* In this life of the server: */
	uint64_t ended, empty; /* rounds; those that nobody gave anything for */
	uint64_t lacked; /* times that the limit of waiting for clients passed */
	uint64_t partial, gave_up; /* clients: that did not do all epochs; that gave nothing */
	double received,
		applied; /* weight of what was taken into sums; of the sums that are in the model */
	double gamma_sum;
	uint64_t gammas, late; /* late: updates that counted nevertheless */
	/* Where late updates count; NULL: none yet, or no memory. A ring by `steps`, the present model's among them. */
	struct hd_round_past *past;
	uint64_t steps; /* that have ended */
};

/* Begins rounds, draws, tells, and closes what is over its time. Does nothing for other jobs; so below. */
void hd_rounds_look(struct hd_turn *turn, struct hd_job *job);
/* Updates that the round will have, as things stand. */
uint32_t hd_rounds_needs(const struct hd_server *server, const struct hd_job *job);
/* When the round under way is over its time, or has waited for others for so long that it is said. */
hd_ns hd_rounds_deadline(const struct hd_job *job);
/* Whether an update whose base is right belongs to this round. */
enum hd_reason hd_rounds_admit(
	const struct hd_job *job,
	const struct hd_incoming *in,
	const struct hd_part **cause
);
/* How many steps ago its base was stepped from: 0 of the newest model, UINT32_MAX: too many, or this job drops what is
 * late. */
uint32_t hd_rounds_late(const struct hd_job *job, hd_version base);
/* It is in the sum, with this weight. */
void hd_rounds_taken(struct hd_job *job, const struct hd_incoming *in, double weight);
void hd_rounds_fini(struct hd_job *job);
/* A worker says what it did. */
void hd_rounds_work(
	struct hd_turn *turn,
	const struct hd_peer *peer,
	const struct hd_msg_work *work
);
/* An update was late. */
void hd_rounds_dropped(struct hd_job *job);
/* The step is in the model. */
void hd_rounds_ended(const struct hd_turn *turn, struct hd_job *job);
/* The rows of the table `rounds`: of each federated job's newest rounds, oldest first. Returns how many it has. */
struct hd_rows;
uint64_t hd_rounds_rows(const struct hd_server *server, hd_ns now, struct hd_rows *rows);

#endif
