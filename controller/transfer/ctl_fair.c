/* SPDX-License-Identifier: BSD-3-Clause */
/* Fairness between tenants: their deficits. */
#include "ctl_requests.h"
#include "hd_plan.h"

#include <math.h>

static void change(struct ctl_tenant *tenant, double amount) {
	tenant->deficit += amount;
	tenant->deficit_most
		= fmax(tenant->deficit_most, fmax(fabs(amount), fabs(tenant->deficit)));
}

void ctl_tenant_charge(struct hd_controller *c, const struct ctl_transfer *t) {
	struct ctl_scratch *s = &c->scratch;
	uint64_t bytes = t->group && t->group->sum ? t->group->sum->bytes : t->bytes;
	double amount = (double)bytes, weights = 0;
	struct ctl_tenant *tenant = t->job->tenant;

	if (!tenant)
		return;
	tenant->granted_bytes += bytes;
	for (uint32_t i = 0; i < c->tenant_count; i++)
		weights += s->tenant_busy[i] ? c->tenants[i]->weight : 0;
	for (uint32_t i = 0; i < c->tenant_count && weights > 0; i++)
		if (s->tenant_busy[i])
			change(c->tenants[i], amount * c->tenants[i]->weight / weights);
	change(tenant, -amount);
}

void ctl_tenants_mark(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;

	for (uint32_t i = 0; i < c->tenant_count; i++) {
		uint32_t pending = 0, pushes = 0;

		s->tenant_busy[i] = false;
		for (uint32_t j = 0; j < c->job_count; j++) {
			const struct ctl_job *job = c->jobs[j];

			if (job->tenant != c->tenants[i])
				continue;
			s->tenant_busy[i] |= job->pending || job->open > job->credits;
			pending += job->pending;
			pushes += job->open_pushes;
		}
		s->tenant_turns[i] = pending == 0 && pushes > 0;
		if (!s->tenant_busy[i])
			c->tenants[i]->deficit = c->tenants[i]->deficit_most = 0;
	}
}

static double weight_of(const struct ctl_tenant *tenant) {
	return tenant->weight > 0 ? tenant->weight : 1;
}

/* Whether x's deficit minus `amount` still exceeds y's, by weight, and by more than rounding. As in the planner, but
 * nothing is charged between the compared values: larger pending transfers do not add to the rounding. */
static bool
deficit_more(const struct ctl_tenant *x, const struct ctl_tenant *y, double amount, double most) {
	const double rounding = (most + amount) * HD_PLAN_DEFICIT_EQUAL;
	const double more
		= (x->deficit - amount) / weight_of(x) - (y->deficit - amount) / weight_of(y);

	return more > rounding * (1 / weight_of(x) + 1 / weight_of(y));
}

bool ctl_tenant_may_wait(const struct hd_controller *c, const struct ctl_transfer *t) {
	const struct ctl_tenant *own = t->job->tenant;
	const double amount = (double)t->bytes;
	double most = 0;

	for (uint32_t i = 0; i < c->tenant_count; i++)
		most = fmax(most, fmax(fabs(c->tenants[i]->deficit), c->tenants[i]->deficit_most));
	for (uint32_t i = 0; own && t->direction == HD_PUSH && i < c->tenant_count; i++) {
		const struct ctl_tenant *other = c->tenants[i];

		if (other != own && c->scratch.tenant_turns[i]
		    && deficit_more(other, own, amount, most))
			return true;
	}
	return false;
}
