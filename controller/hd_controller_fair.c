/* SPDX-License-Identifier: BSD-3-Clause */
/* Fairness between tenants: what each is owed. */
#include "hd_controller_core.h"

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
			c->tenants[i]->deficit += amount * c->tenants[i]->weight / weights;
	tenant->deficit -= amount;
}

void ctl_tenants_mark(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;

	for (uint32_t i = 0; i < c->tenant_count; i++) {
		s->tenant_busy[i] = false;
		for (uint32_t j = 0; j < c->job_count; j++)
			if (c->jobs[j]->tenant == c->tenants[i]
			    && (c->jobs[j]->pending || c->jobs[j]->open > c->jobs[j]->credits))
				s->tenant_busy[i] = true;
		if (!s->tenant_busy[i])
			c->tenants[i]->deficit = 0;
	}
}
