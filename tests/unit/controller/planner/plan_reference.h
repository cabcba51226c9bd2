/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner once more, straight from the definitions in docs/schedule.md: no heap, no profile, no
 * laziness; about n^3. Tests compare whole plans with it. It shares no code with the planner.
 * `after` is left to the tests: it can be checked, but not always told. */
#ifndef PLAN_REFERENCE_H
#define PLAN_REFERENCE_H

#include "hd_plan.h"

/* entries has room for item_count. Input must be valid. Returns 0 or -ENOMEM. */
int plan_reference(const struct hd_plan_input *input, struct hd_plan_entry *entries);

#endif
