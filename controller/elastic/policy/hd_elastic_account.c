/* SPDX-License-Identifier: BSD-3-Clause */
/* The account of a job: time, workers, money, steps. */
#include "hd_elastic.h"

#include <errno.h>
#include <math.h>

void hd_elastic_count(struct hd_elastic *e, double now, uint32_t workers) {
	double passed = e->last >= 0 && now > e->last ? now - e->last : 0;

	e->account.ran_s += passed;
	e->account.worker_s += passed * e->workers;
	if (e->price > 0)
		e->account.money += passed * e->workers * e->price / 3600;
	if (e->last < now)
		e->last = now;
	if (workers == 0 && e->workers > 0) {
		e->former = e->account.steps_before;
		e->account.steps_before = e->account.steps;
	}
	e->workers = workers;
}

void hd_elastic_back(struct hd_elastic *e) {
	e->account.steps_before = e->former;
}

int hd_elastic_price(struct hd_elastic *e, double now, double price) {
	if (!isfinite(price) || price < 0)
		return -EINVAL;
	hd_elastic_count(e, now, e->workers);
	e->price = price;
	return 0;
}

int hd_elastic_observe(struct hd_elastic *e, double now, const struct hd_elastic_observation *o) {
	struct hd_elastic_account *account = &e->account;
	uint64_t steps = account->steps_before;

	if (!isfinite(o->loss) || o->samples == 0 || o->workers > HD_WORKERS_MAX || o->step == 0
	    || isnan(o->price) || isnan(o->step_s))
		return -EINVAL;
	e->seen = *o;
	account->step = o->step;
	steps = o->step < HD_ELASTIC_STEPS_MAX - steps ? steps + o->step : HD_ELASTIC_STEPS_MAX;
	if (steps > account->steps)
		account->steps = steps;
	hd_elastic_count(e, now, o->workers);
	if (e->policy && e->policy->observe)
		e->policy->observe(e, o);
	return 0;
}
