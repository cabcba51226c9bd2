/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy_scene.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct hd_elastic_price policy_even, policy_bell;
struct hd_elastic_task policy_task;
struct hd_elastic_context *policy_context;

void policy_near(double value, double wanted, double within) {
	if (!(fabs(value - wanted) <= within))
		fail_msg("%.12g, wanted %.12g", value, wanted);
}

int policy_begin(void **state) {
	static const double shape[] = {0.6, 0.175, 0.2, 1};
	char error[128];

	policy_context = calloc(1, sizeof *policy_context);
	return !policy_context
		|| hd_elastic_price_uniform(0.2, 1, &policy_even, error, sizeof error)
		|| hd_elastic_price_gaussian(shape, &policy_bell, error, sizeof error);
}

int policy_end(void **state) {
	free(policy_context);
	return 0;
}

/* The setting of the tables: R(8) = 1, R(4) = 0.9. */
void policy_set(const struct hd_elastic_price *price, double deadline_s, double epsilon) {
	policy_task = (struct hd_elastic_task){
		.model = {2.3, 0.02, 0.995},
		.epsilon = epsilon,
		.deadline_s = deadline_s,
		.pace = {.count = 2, .n = {4, 8}, .step_s = {0.9, 1}},
		.price = price,
		.preempt_price = -1,
		.n_max = 16,
		.iterations_max = 1000000,
	};
	hd_elastic_context_init(policy_context, &policy_task);
}

/* One second a step: time is steps. */
void policy_set_plain(double epsilon, double deadline_s) {
	static struct hd_elastic_price one;
	char error[128];

	assert_int_equal(hd_elastic_price_uniform(1, 1, &one, error, sizeof error), 0);
	policy_set(&one, deadline_s, epsilon);
	policy_task.pace = (struct hd_elastic_pace){.count = 1, .n = {1}, .step_s = {1}};
	policy_task.n_max = 1024;
	hd_elastic_context_init(policy_context, &policy_task);
}
