/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: the owner of a job's worker count (policy/hd_elastic.h), and how the controller applies it.
 *
 *   COMMAND elastic --> policy     OBSERVE of each worker --> one observation when all workers have reported
 *                          \             |
 *                        target, reason --> ROSTER: ranks, target, N, tau_max and scale, one change
 *                              \-- NOTICE to workers above it: they flush and leave
 */
#ifndef CTL_ELASTIC_H
#define CTL_ELASTIC_H

#include "hd_elastic.h"
#include "hd_json.h"
#include "hd_message.h"
#include "hd_node.h"
#include "hd_roster.h"

#define CTL_ELASTIC_NS HD_SECOND /* between two decisions of a policy without a new observation */
/* A lost process loses the account since the last save. */
#define CTL_ELASTIC_KEEP_NS (10 * HD_SECOND)

struct hd_controller;
struct ctl_job;
struct ctl_node;
struct hd_rows;

/* Reports of the workers' steps, until all have reported. */
struct ctl_step_reports {
	uint32_t count, timed;
	hd_ns since;
	uint64_t step;
	double loss_sum;
	uint64_t samples;
	double step_s; /* the sum over the `timed` reports */
};

struct ctl_elastic {
	struct hd_elastic owner;
	struct ctl_step_reports reports;
	hd_ns look_at;
	hd_ns kept_at;
	uint64_t newest; /* step of the present workers; 0: there are none */
	uint64_t changes; /* of the target, by this process */
	uint64_t sent_away; /* workers that got NOTICE, by this process */
	uint64_t refused; /* reports, by this process */
	char refusal[HD_ELASTIC_REASON_BYTES]; /* the text of the newest of them */
	double held_norm; /* of the newest report; < 0: unknown */
};

/* For an operator: the words of hd_elastic_set(). 0; -EINVAL with error, -ENOMEM: nothing has changed. */
int ctl_elastic_set(
	struct hd_controller *c,
	struct ctl_job *job,
	const char *words,
	struct hd_sink *sink,
	char *error,
	size_t error_bytes
);
/* The price of a worker for an hour from now on, as a text. Errors as above. */
int ctl_elastic_price(
	struct hd_controller *c,
	struct ctl_job *job,
	const char *text,
	struct hd_sink *sink,
	char *error,
	size_t error_bytes
);
void ctl_observe(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_observe *message,
	struct hd_sink *sink
);
/* The number of workers has changed. */
void ctl_elastic_count(struct hd_controller *c, struct ctl_job *job);
/* The worker of this rank is about to join the roster: job->boot has its former process, if there was one. */
void ctl_elastic_enters(struct ctl_job *job, uint16_t rank);
/* Sets the values that depend on the ranks; without a policy there are none. */
void ctl_elastic_shape(const struct ctl_job *job, struct hd_roster *roster);
/* Workers above the target are told to leave: those with the highest ranks. */
void ctl_elastic_release(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* Lets policies decide. Returns the time of the next check. */
hd_ns ctl_elastic_check(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_elastic_kept.c --- */
/* The state for the next controller process; NULL: none. */
json_t *ctl_elastic_out(const struct ctl_job *job);
/* Reads the state that the last process saved with the job: *elastic is the caller's, NULL: none. 0, -EINVAL (logged),
 * -ENOMEM. */
int ctl_elastic_in(const struct hd_json_object *job, struct ctl_elastic **elastic);
/* Gives that state to the job, which owns it. */
void ctl_elastic_again(struct ctl_job *job, struct ctl_elastic *elastic);

/* --- ctl_elastic_show.c --- */
extern const struct hd_row_shape ctl_elastic_row_shape;
uint64_t ctl_rows_elastic(const struct hd_controller *c, struct hd_rows *rows);

#endif
