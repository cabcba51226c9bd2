/* SPDX-License-Identifier: BSD-3-Clause */
/* A task to plan, and prices: the setting of the tables in docs/elastic.md. */
#ifndef POLICY_SCENE_H
#define POLICY_SCENE_H

#include "hd_elastic_plan.h"

extern struct hd_elastic_price policy_even, policy_bell; /* uniform, Gaussian */
extern struct hd_elastic_task policy_task;
extern struct hd_elastic_context *policy_context;

/* Setup and teardown of a group of tests. */
int policy_begin(void **state);
int policy_end(void **state);
/* Fails unless the two are no further apart than `within`. */
void policy_near(double value, double wanted, double within);
/* The setting of the tables: R(8) = 1, R(4) = 0.9. */
void policy_set(const struct hd_elastic_price *price, double deadline_s, double epsilon);
/* One second a step: time is steps. */
void policy_set_plain(double epsilon, double deadline_s);

#endif
