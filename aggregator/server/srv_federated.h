/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Federated rounds (docs/fedprox.md), for the server core's files only. Each is one synchronous step
 * (srv_step.h) of the workers that were drawn for it:
 *
 *   draw K of those here -> ROUND -> WORK, push ... WORK, push | deadline | step: sum of n_k delta_k / sum of n_k
 *                                                              what comes later has an old base: late
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

/* Of a member. */
struct srv_member_draw {
	uint32_t round; /* it was drawn for this one last; 0: never */
	uint16_t place;
	bool worked; /* it has said what it did */
	bool gave_up; /* no push will come */
};

/* Whom a model that was stepped from was given to, where late updates count. */
struct srv_federated_past {
	bool used;
	uint64_t base; /* counter of that model */
	uint64_t step; /* steps that had been made when it was the newest */
	uint8_t drawn
		[HD_ROSTER_BYTES]; /* by rank; not those whose update is in the model, or in the step */
};

/* How a round went, for people. */
#define SRV_FEDERATED_SHOWN 64 /* the newest, of a job */
struct srv_federated_record {
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
struct srv_federated_lack {
	hd_ns since; /* or since the last one came; 0: enough are here */
	uint32_t here, needed; /* that can be drawn, or will be in the step */
	bool told; /* for as long as the job's limit */
};

/* Of a job. */
struct srv_federated {
	struct srv_federated_record
		records[SRV_FEDERATED_SHOWN]; /* of round r at r % SRV_FEDERATED_SHOWN */
	uint32_t round; /* under way, or the last; 0: none yet */
	bool open; /* one is under way */
	bool closed; /* its deadline has passed: so many as there must be are enough */
	hd_ns deadline;
	uint16_t drawn;
	uint32_t draws; /* of this round */
	struct srv_federated_lack lack;
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
	struct srv_federated_past *past;
	uint64_t steps; /* that have ended */
};

/* Begins rounds, draws, tells, and closes what is over its time. Does nothing for other jobs; so below. */
void srv_federated_look(struct srv_turn *turn, struct srv_job *job);
/* Updates that the round will have, as things stand. */
uint32_t srv_federated_needs(const struct hd_server *server, const struct srv_job *job);
/* When the round under way is over its time, or has waited for others for so long that it is said. */
hd_ns srv_federated_deadline(const struct srv_job *job);
/* Whether an update whose base is right belongs to this round. */
enum hd_reason srv_federated_admit(
	const struct srv_job *job,
	const struct srv_incoming *in,
	const struct srv_part **cause
);
/* How many steps ago its base was stepped from: 0 of the newest model, UINT32_MAX: too many, or this job drops what is
 * late. */
uint32_t srv_federated_late(const struct srv_job *job, hd_version base);
/* It is in the sum, with this weight. */
void srv_federated_taken(struct srv_job *job, const struct srv_incoming *in, double weight);
void srv_federated_fini(struct srv_job *job);
/* A worker says what it did. */
void srv_federated_work(
	struct srv_turn *turn,
	const struct srv_peer *peer,
	const struct hd_msg_work *work
);
/* An update was late. */
void srv_federated_dropped(struct srv_job *job);
/* The step is in the model. */
void srv_federated_ended(const struct srv_turn *turn, struct srv_job *job);
/* The rows of the table `rounds`: of each federated job's newest rounds, oldest first. Returns how many it has. */
struct hd_rows;
extern const struct hd_row_shape srv_federated_shape;
uint64_t srv_federated_rows(const struct hd_server *server, hd_ns now, struct hd_rows *rows);

#endif
