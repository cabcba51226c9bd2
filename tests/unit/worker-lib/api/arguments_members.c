/* SPDX-License-Identifier: BSD-3-Clause */
/* NULL and nonsense for who takes part, federated clients, and words for codes. */
#include "arguments.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>

/* --- who takes part --------------------------------------------------------------------------- */

static void get_members(struct arguments_scene *s) {
	struct heddle_members members = HEDDLE_MEMBERS_INIT;
	int rank = 7;

	refused(heddle_get_members(NULL, &members, &rank, 1), "handle: NULL");
	refused(heddle_get_members(s->fabric, NULL, &rank, 1), "members: NULL, or size");
	assert_int_equal(heddle_get_members(s->fabric, &members, NULL, SIZE_MAX), 0);
	members.size++;
	refused(heddle_get_members(s->fabric, &members, &rank, 1), "members: NULL, or size");
	assert_int_equal(rank, 7);
}

static void members_change(struct arguments_scene *s) {
	(void)s;
	assert_int_equal(heddle_members_change(NULL), 0);
}

static void members_scale(struct arguments_scene *s) {
	struct heddle_members members = HEDDLE_MEMBERS_INIT;

	(void)s;
	members.count = 2;
	assert_true(heddle_members_scale(NULL, 1, 0) == 1);
	assert_true(heddle_members_scale(&members, 0, 0) == 1);
	assert_true(heddle_members_scale(&members, 1, NAN) == 2);
}

static void shard(struct arguments_scene *s) {
	static const int many[HEDDLE_WORKERS_MAX + 1];
	const int pair[] = {0, 0}, below = -1, beyond = HEDDLE_WORKERS_MAX;

	(void)s;
	refused(heddle_shard(NULL, 1, 1, 0, NULL, 0), "ranks: NULL");
	says(heddle_shard(NULL, 0, 1, 0, NULL, 0), -ENOENT, "rank 0: not a member");
	says(heddle_shard(pair, 1, 1, -1, NULL, 0), -ENOENT, "rank -1: not a member");
	says(heddle_shard(pair, 1, UINT64_MAX, 0, NULL, 0), -E2BIG, "dataset_size");
	assert_int_equal(heddle_shard(pair, 1, 1, 0, NULL, SIZE_MAX), 1);
	refused(heddle_shard(pair, 2, 1, 0, NULL, 0), "ranks: they do not ascend");
	refused(heddle_shard(&below, 1, 1, 0, NULL, 0), "ranks: -1 is not within 0 to 4095");
	refused(heddle_shard(&beyond, 1, 1, 0, NULL, 0), "ranks: 4096 is not within 0 to 4095");
	refused(heddle_shard(many, HEDDLE_WORKERS_MAX + 1, 1, 0, NULL, 0),
		"rank_count: 4097, more than 4096");
}

static void notify_preemption(struct arguments_scene *s) {
	assert_int_equal(heddle_notify_preemption(NULL, 1), -EINVAL);
	assert_int_equal(heddle_notify_preemption(s->fabric, 0), -EINVAL);
	assert_int_equal(heddle_notify_preemption(s->fabric, NAN), -EINVAL);
	assert_int_equal(heddle_notify_preemption(s->fabric, INFINITY), -EINVAL);
	assert_int_equal(heddle_time_left_ms(s->fabric), -1);
}

static void time_left_ms(struct arguments_scene *s) {
	(void)s;
	assert_int_equal(heddle_time_left_ms(NULL), -1);
}

static void report_step(struct arguments_scene *s) {
	refused(heddle_report_step(NULL, 1, 0, 1, 0), "handle: NULL");
	refused(heddle_report_step(s->fabric, 0, 0, 1, 0), "step");
	refused(heddle_report_step(s->fabric, UINT64_MAX, 0, 1, 0), "step");
	refused(heddle_report_step(s->fabric, 1, NAN, 1, 0), "loss_sum");
	refused(heddle_report_step(s->fabric, 1, 0, 0, 0), "samples: 0");
	refused(heddle_report_step(s->fabric, 1, 0, 1, NAN), "step_seconds");
	refused(heddle_report_step(s->fabric, 1, 0, 1, -1), "step_seconds");
}

/* --- federated clients ------------------------------------------------------------------------ */

static void prox_apply(struct arguments_scene *s) {
	float *d = s->data;

	refused(heddle_prox_apply(NULL, d, d, VALUES, 1, 0), "NULL");
	refused(heddle_prox_apply(d, NULL, d, VALUES, 1, 0), "NULL");
	refused(heddle_prox_apply(d, d, NULL, VALUES, 1, 0), "NULL");
	refused(heddle_prox_apply(NULL, NULL, NULL, 0, NAN, 0), "rate or mu");
	refused(heddle_prox_apply(NULL, NULL, NULL, 0, 1, -1), "rate or mu");
	assert_int_equal(heddle_prox_apply(NULL, NULL, NULL, 0, 1, 0), 0);
}

static void round_wait(struct arguments_scene *s) {
	struct heddle_round round = HEDDLE_ROUND_INIT;

	refused(heddle_round_wait(NULL, &round, -1), "handle: NULL");
	refused(heddle_round_wait(s->federated, NULL, -1), "round: NULL");
	refused(heddle_round_wait(s->fabric, &round, -1), "not federated");
	round.size++;
	refused(heddle_round_wait(s->federated, &round, -1), "size");
}

static void round_time_left_s(struct arguments_scene *s) {
	struct heddle_round round = HEDDLE_ROUND_INIT;

	round.ends_at_s = -1;
	assert_true(isinf(heddle_round_time_left_s(s->federated, &round)));
	assert_true(heddle_round_time_left_s(NULL, &round) <= 0);
	assert_true(heddle_round_time_left_s(s->federated, NULL) <= 0);
	round.size++;
	assert_true(heddle_round_time_left_s(s->federated, &round) <= 0);
}

static void round_push_start(struct arguments_scene *s) {
	struct heddle_round round = HEDDLE_ROUND_INIT;
	struct heddle_work work = HEDDLE_WORK_INIT;
	float *d = s->data;

	round.round = 1;
	work.samples = 1;
	refused(heddle_round_push_start(NULL, &round, &work, d, d, &s->none), "handle: NULL");
	refused(heddle_round_push_start(s->fabric, &round, &work, d, d, &s->none), "not federated");
	refused(heddle_round_push_start(s->nothing, &round, &work, d, d, &s->none),
		"the job has no model");
	refused(heddle_round_push_start(s->federated, NULL, &work, d, d, &s->none), "round: none");
	refused(heddle_round_push_start(s->federated, &round, NULL, d, d, &s->none), "work: NULL");
	refused(heddle_round_push_start(s->federated, &round, &work, NULL, d, &s->none),
		"w_t, w or ticket");
	refused(heddle_round_push_start(s->federated, &round, &work, d, NULL, &s->none),
		"w_t, w or ticket");
	refused(heddle_round_push_start(s->federated, &round, &work, d, d, NULL),
		"w_t, w or ticket");
	work.gamma = NAN;
	says(heddle_round_push_start(s->federated, &round, &work, d, d, &s->none),
	     -EDOM,
	     "gamma: nan");
	work.gamma = -1;
	work.payload = (enum heddle_payload)NONSENSE;
	refused(heddle_round_push_start(s->federated, &round, &work, d, d, &s->none),
		"payload: type 256");
	work.size++;
	refused(heddle_round_push_start(s->federated, &round, &work, d, d, &s->none), "size");
	round.size++;
	refused(heddle_round_push_start(s->federated, &round, &work, d, d, &s->none),
		"round: none");
}

/* --- words ------------------------------------------------------------------------------------ */

static void state_name(struct arguments_scene *s) {
	(void)s;
	assert_string_equal(heddle_state_name((enum heddle_state) - 1), "unknown");
	assert_string_equal(heddle_state_name((enum heddle_state)INT_MAX), "unknown");
}

static void reason_name(struct arguments_scene *s) {
	(void)s;
	assert_string_equal(heddle_reason_name((enum heddle_reason) - 1), "unknown");
	assert_string_equal(heddle_reason_name((enum heddle_reason)INT_MAX), "unknown");
}

static void time_name(struct arguments_scene *s) {
	(void)s;
	assert_string_equal(heddle_time_name(HEDDLE_TIME_PULL_FIRST_CHUNK), "pull_first_chunk");
	assert_string_equal(heddle_time_name((enum heddle_time) - 1), "unknown");
	assert_string_equal(heddle_time_name((enum heddle_time)HEDDLE_TIME_COUNT), "unknown");
}

static void strerror_(struct arguments_scene *s) {
	(void)s;
	assert_string_equal(heddle_strerror(INT_MIN), "unknown error");
	assert_string_equal(heddle_strerror(INT_MAX), "unknown error");
	assert_string_equal(heddle_strerror(-INT_MAX), "unknown error");
	assert_string_equal(heddle_strerror(-ENOENT), heddle_strerror(ENOENT));
}

static void last_error(struct arguments_scene *s) {
	(void)s;
	assert_non_null(heddle_last_error());
}

static void version_text(struct arguments_scene *s) {
	(void)s;
	assert_non_null(heddle_version_text());
}

const struct arguments_row arguments_members[] = {
	{"heddle_get_members", get_members},
	{"heddle_last_error", last_error},
	{"heddle_members_change", members_change},
	{"heddle_members_scale", members_scale},
	{"heddle_notify_preemption", notify_preemption},
	{"heddle_prox_apply", prox_apply},
	{"heddle_reason_name", reason_name},
	{"heddle_report_step", report_step},
	{"heddle_round_push_start", round_push_start},
	{"heddle_round_time_left_s", round_time_left_s},
	{"heddle_round_wait", round_wait},
	{"heddle_shard", shard},
	{"heddle_state_name", state_name},
	{"heddle_strerror", strerror_},
	{"heddle_time_left_ms", time_left_ms},
	{"heddle_time_name", time_name},
	{"heddle_version_text", version_text},
	{0},
};
