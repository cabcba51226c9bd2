#ifndef HD_PLAN_INTERNAL_H
#define HD_PLAN_INTERNAL_H
#include "hd_plan.h"
struct hd_plan {
	char error[160];
	struct hd_plan_entry *entries;
};
int hd_plan_check(struct hd_plan *plan, const struct hd_plan_input *in);
#endif
