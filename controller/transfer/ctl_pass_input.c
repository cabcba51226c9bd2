/* SPDX-License-Identifier: BSD-3-Clause */
/* The input of a planning pass: all pending transfers that may be planned, and the rates that the reservations leave on
 * each link. */
#include "ctl_base.h"
#include "ctl_copies.h"
#include "ctl_grouping.h"
#include "ctl_requests.h"
#include "ctl_transfers.h"

#include <math.h>
#include <string.h>

#define AGEING_PLANS 8
#define AGEING_LEAST_S 0.1

/* Theta never drops two pushes of a worker in a row, nor more than the permitted share of them. */
static bool guarded(const struct hd_controller *c, const struct ctl_node *node) {
	uint64_t after = (node->guard.idles + 1) * 1000;

	if (node->guard.last_was_idles)
		return true;
	return after > (node->guard.decided + 1) * c->config.drop_permille_max;
}

static void input_item(struct hd_controller *c, struct ctl_transfer *t, uint32_t index) {
	struct hd_plan_item *item = &c->scratch.items[index];
	const struct ctl_node *node = ctl_worker(t->job, t->worker);

	*item = (struct hd_plan_item){
		.id = t->id,
		.job = ctl_job_index(c, t->job),
		.direction = t->direction == HD_PUSH ? HD_PLAN_PUSH : HD_PLAN_PULL,
		/* A base in the future is invalid: the newest version is used. */
		.version = hd_version_counter(t->base) < ctl_job_v_init(t->job) ?
			hd_version_counter(t->base) :
			ctl_job_v_init(t->job),
		.amount = (double)t->bytes,
		.waited = ctl_waited(c, t),
		.keep = !node || guarded(c, node),
		.kind = t->dtype,
		.room = t->dtype == HD_DTYPE_SPARSE32 ? ctl_group_room(t->job) : 0,
		.apart = t->job->apart,
		.path_count = t->path_count,
	};
	memcpy(item->path, t->path, t->path_count * sizeof t->path[0]);
	c->scratch.item_transfer[index] = t;
	t->item = index;
	t->item_pass = c->scratch.pass;
}

static void input_jobs(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;

	for (uint32_t i = 0; i < c->tenant_count; i++)
		s->tenants[i] = (struct hd_plan_tenant){
			.weight = c->tenants[i]->weight > 0 ? c->tenants[i]->weight : 1,
			.deficit = c->tenants[i]->deficit,
			.deficit_most = c->tenants[i]->deficit_most,
		};
	for (uint32_t i = 0; i < c->job_count; i++) {
		const struct ctl_job *job = c->jobs[i];
		uint32_t tenant = 0;

		while (tenant + 1 < c->tenant_count && c->tenants[tenant] != job->tenant)
			tenant++;
		s->jobs[i] = (struct hd_plan_job){
			.tenant = tenant,
			.v_init = ctl_job_v_init(job),
			.tau_max = ctl_job_tau(job),
			.theta = c->config.theta > 0 ? c->config.theta : INFINITY,
		};
	}
}

/* When all granted updates will have been committed, by their reservations. */
static void input_server_free(struct hd_controller *c) {
	const struct ctl_transfer *t;

	TAILQ_FOREACH (t, &c->open, entry) {
		struct hd_plan_job *job = &c->scratch.jobs[ctl_job_index(c, t->job)];
		hd_ns end = t->reserved_count ? t->reserved[t->reserved_count - 1].end : 0;

		if (t->direction == HD_PUSH && end > c->now)
			job->server_free = fmax(job->server_free, (double)(end - c->now) / 1e9);
	}
}

/* A transfer that waits this many times longer than all pending ones take is overtaken again and again by later ones
 * that seem to be shorter. If the estimate of its link is too low, no transfer would ever correct it. */
static double ageing_s(const struct hd_controller *c) {
	if (isinf(c->config.ageing_s))
		return c->config.ageing_s;
	return fmin(c->config.ageing_s, fmax(AGEING_PLANS * c->scratch.covers_s, AGEING_LEAST_S));
}

int ctl_pass_input(struct hd_controller *c) {
	struct ctl_scratch *s = &c->scratch;
	struct ctl_transfer *t;
	uint32_t count = 0;
	int status = ctl_scratch_items(s, c->pending_count);

	s->entry_count = 0;
	s->pass++;
	if (!status)
		status = ctl_reserve_project(c);
	if (status)
		return status;
	input_jobs(c);
	input_server_free(c);
	TAILQ_FOREACH (t, &c->pending, entry)
		if (!ctl_waits_for(c, t)[0] && ctl_transfer_route(c, t) && ctl_copy_may_go(c, t)
		    && ctl_sync_takes(c, t))
			input_item(c, t, count++);
	s->input = (struct hd_plan_input){
		.link_count = s->link_capacity,
		.capacity = s->capacity,
		.busy_count = s->busy_count,
		.busy = s->busy,
		.tenant_count = c->tenant_count,
		.tenants = s->tenants,
		.job_count = c->job_count,
		.jobs = s->jobs,
		.item_count = count,
		.items = s->items,
		.ageing_s = ageing_s(c),
		.share_min = HD_PLAN_SHARE_MIN,
	};
	return 0;
}
