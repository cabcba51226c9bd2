/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to controller/: the owner of a job's worker count (policy/hd_elastic.h), and what the controller does of it.
 *
 *   COMMAND elastic --> policy     OBSERVE of each worker --> one observation for as many as there are workers
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

#define CTL_ELASTIC_NS HD_SECOND /* between two looks of a policy, without anything new */
#define CTL_ELASTIC_KEEP_NS (10 * HD_SECOND) /* what was spent since the last is lost with a life */

struct hd_controller;
struct ctl_job;
struct ctl_node;
struct hd_rows;

/* Reports of workers' steps, until there are as many as workers. */
struct ctl_step_reports {
	uint32_t count, timed;
	hd_ns since;
	uint64_t step;
	double loss_sum;
	uint64_t samples;
	double step_s; /* the sum of `timed` ones */
};

struct ctl_elastic {
	struct hd_elastic owner;
	struct ctl_step_reports reports;
	hd_ns look_at;
	hd_ns kept_at;
	uint64_t newest; /* step of those that take part; 0: nobody does */
	uint64_t changes; /* of the target, by this life */
	uint64_t sent_away; /* workers that got NOTICE, by this life */
	uint64_t refused; /* reports, by this life */
	char refusal[HD_ELASTIC_REASON_BYTES]; /* the newest of them */
	double held_norm; /* of the newest report; < 0: not known */
};

/* Of an operator: the words of hd_elastic_set(). 0; -EINVAL with error, -ENOMEM: nothing has changed. */
int ctl_elastic_set(
	struct hd_controller *c,
	struct ctl_job *job,
	const char *words,
	struct hd_sink *sink,
	char *error,
	size_t error_bytes
);
/* What a worker costs for an hour from now on, in words. The same. */
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
/* Another number of workers takes part. */
void ctl_elastic_count(struct hd_controller *c, struct ctl_job *job);
/* The worker of this rank is about to be one of the roster: job->boot has its former life, if there was one. */
void ctl_elastic_enters(struct ctl_job *job, uint16_t rank);
/* Sets what goes with the ranks; without a policy that is nothing. */
void ctl_elastic_shape(const struct ctl_job *job, struct hd_roster *roster);
/* Workers above the target are told to leave: those with the highest ranks. */
void ctl_elastic_release(struct hd_controller *c, struct ctl_job *job, struct hd_sink *sink);
/* Policies look. Returns when to look again. */
hd_ns ctl_elastic_check(struct hd_controller *c, struct hd_sink *sink);

/* --- ctl_elastic_kept.c --- */
/* For the next life; NULL: nothing to keep. */
json_t *ctl_elastic_out(const struct ctl_job *job);
/* From the job's object of the last life: *elastic is the caller's, NULL: none. 0, -EINVAL (said), -ENOMEM. */
int ctl_elastic_in(const struct hd_json_object *job, struct ctl_elastic **elastic);
/* The job has that again, and owns it. */
void ctl_elastic_again(struct ctl_job *job, struct ctl_elastic *elastic);

/* --- ctl_elastic_show.c --- */
extern const struct hd_row_shape ctl_elastic_row_shape;
uint64_t ctl_rows_elastic(const struct hd_controller *c, struct hd_rows *rows);

#endif
