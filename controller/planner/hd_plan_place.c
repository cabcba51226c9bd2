/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_plan_internal.h"

#include <math.h>

uint64_t hd_plan_stamp(const struct hd_plan *plan, uint32_t item) {
	const struct hd_plan_class *class = &plan->classes[plan->states[item].class];
	uint64_t stamp = 1;

	for (uint8_t k = 0; k < class->count; k++)
		stamp += plan->profiles[class->links[k]].changes;
	return stamp;
}

static struct hd_profile_path
path_of_class(const struct hd_plan *plan, const struct hd_plan_class *class) {
	return (struct hd_profile_path){
		.profiles = plan->profiles,
		.links = class->links,
		.count = class->count,
		.least = class->least,
		.from = class->from,
	};
}

static struct hd_profile_path path_of(const struct hd_plan *plan, uint32_t item) {
	return path_of_class(plan, &plan->classes[plan->states[item].class]);
}

void hd_plan_evaluate(struct hd_plan *plan, uint32_t item) {
	struct hd_plan_state *state = &plan->states[item];
	const uint64_t stamp = hd_plan_stamp(plan, item);

	if (state->stamp == stamp)
		return;
	struct hd_profile_path path = path_of(plan, item);
	state->finish = hd_profile_finish(&path, plan->in->items[item].amount);
	state->key = hd_plan_key(state->finish);
	state->stamp = stamp;
	plan->classes[state->class].from = path.from;
}

bool hd_plan_before(const struct hd_plan *plan, uint32_t a, uint32_t b) {
	const struct hd_plan_item *x = &plan->in->items[a], *y = &plan->in->items[b];
	const double left = plan->states[a].key, right = plan->states[b].key;

	return left != right ? left < right : hd_plan_tie(x, y);
}

bool hd_plan_goes_before(const struct hd_plan *plan, uint32_t a, uint32_t b) {
	const struct hd_plan_item *x = &plan->in->items[a], *y = &plan->in->items[b];

	if (plan->states[a].aged != plan->states[b].aged)
		return plan->states[a].aged;
	if (!plan->states[a].aged)
		return hd_plan_before(plan, a, b);
	return x->waited != y->waited ? x->waited > y->waited : hd_plan_tie(x, y);
}

int64_t hd_plan_deadline(const struct hd_plan *plan, uint32_t item) {
	const struct hd_plan_item *it = &plan->in->items[item];
	const struct hd_plan_job *job = &plan->in->jobs[it->job];

	return (int64_t)it->version + job->tau_max - (int64_t)job->v_init;
}

struct hd_plan_entry *hd_plan_decide(
	struct hd_plan *plan,
	uint32_t item,
	uint8_t rule,
	uint32_t runner_up,
	int64_t place
) {
	struct hd_plan_entry *entry = &plan->entries[plan->entry_count++];
	struct hd_plan_owner *owner = &plan->owners[plan->in->items[item].job];

	hd_plan_evaluate(plan, item);
	*entry = (struct hd_plan_entry){
		.item = item,
		.dropped = rule == HD_PLAN_DROP_BOUND || rule == HD_PLAN_DROP_IDLES,
		.bottleneck = HD_PLAN_NONE,
		.after = HD_PLAN_NONE,
		.why = {.finish = plan->states[item].finish, .rule = rule},
	};
	if (runner_up != HD_PLAN_NONE) {
		entry->why.runner_up = plan->in->items[runner_up].id;
		entry->why.runner_up_finish = plan->states[runner_up].finish;
	}
	if (plan->in->items[item].direction == HD_PLAN_PUSH) {
		const int64_t deadline = hd_plan_deadline(plan, item);

		entry->why.slack = (double)(deadline - place);
		entry->why.deadline = deadline < 0 ? 0 :
			deadline > UINT32_MAX      ? UINT32_MAX :
						     (uint32_t)deadline;
	}
	plan->states[item].gone = true;
	plan->classes[plan->states[item].class].pending--;
	owner->pending--;
	owner->pick = HD_PLAN_NONE;
	plan->tenant_pending[plan->in->jobs[plan->in->items[item].job].tenant]--;
	return entry;
}

struct hop {
	uint32_t link;
	double now; /* residual at the start */
	double earlier; /* just before it */
	uint32_t by; /* the transfer that ends there */
	double load;
};

static struct hop look(const struct hd_profile_path *path, uint32_t link, double start) {
	const struct hd_profile *profile = &path->profiles[link];
	const double rounding = HD_PROFILE_EQUAL * start;
	const uint32_t k = hd_profile_find(profile, start + rounding);
	const struct hd_profile_piece *piece = &profile->pieces[k];
	const bool begins = piece->at >= start - rounding && k > 0;
	double earlier = begins ? piece[-1].free : piece->free;

	if (earlier < path->least * (1 - HD_PROFILE_EQUAL))
		earlier = 0;
	return (struct hop){
		.link = link,
		.now = hd_plan_key(piece->free),
		.earlier = earlier,
		.by = begins ? piece->by : HD_PLAN_NONE,
		.load = hd_plan_key(profile->load),
	};
}

void hd_plan_find_bottleneck(
	const struct hd_profile_path *path,
	const struct hd_plan_busy *busy,
	struct hd_plan_entry *entry
) {
	struct hop best = {.link = HD_PLAN_NONE};

	for (uint8_t k = 0; k < path->count; k++) {
		const struct hop hop = look(path, path->links[k], entry->start);
		const bool waited = hop.earlier <= 0, best_waited = best.earlier <= 0;

		if (best.link != HD_PLAN_NONE) {
			if (waited != best_waited ? best_waited : !waited && hop.now > best.now)
				continue;
			const bool equal = waited == best_waited && (waited || hop.now == best.now);
			if (equal
			    && (hop.load < best.load
				|| (hop.load == best.load && hop.link > best.link)))
				continue;
		}
		best = hop;
	}
	entry->bottleneck = best.link;
	if (best.link == HD_PLAN_NONE || best.earlier > 0 || best.by == HD_PLAN_NONE)
		return;
	if ((best.by & HD_PROFILE_BUSY) != 0)
		entry->after_token = busy[best.by & ~HD_PROFILE_BUSY].token;
	else
		entry->after = best.by;
}

/* Merges pieces that no pending item can use any more: profiles stay short. */
static void tidy(struct hd_plan *plan, uint32_t link) {
	double from = INFINITY;

	for (uint32_t k = plan->link_first[link]; k < plan->link_first[link + 1]; k++) {
		struct hd_plan_class *class = &plan->classes[plan->link_classes[k]];

		if (class->pending == 0)
			continue;
		struct hd_profile_path path = path_of_class(plan, class);
		hd_profile_start(&path);
		class->from = path.from;
		from = fmin(from, class->from);
	}
	if (from < INFINITY)
		hd_profile_forget(&plan->profiles[link], from);
}

int hd_plan_place(struct hd_plan *plan, struct hd_plan_entry *entry) {
	const struct hd_profile_path path = path_of(plan, entry->item);
	const uint32_t index = (uint32_t)(entry - plan->entries);

	entry->segment_count
		= hd_profile_segments(&path, plan->in->items[entry->item].amount, entry->segment);
	if (entry->segment_count > 0) {
		entry->start = entry->segment[0].start;
		entry->finish = entry->segment[entry->segment_count - 1].end;
	}
	hd_plan_find_bottleneck(&path, plan->in->busy, entry);
	for (uint8_t s = 0; s < entry->segment_count; s++) {
		const uint32_t by = s + 1 == entry->segment_count ? index : HD_PLAN_NONE;

		for (uint8_t k = 0; k < path.count; k++) {
			const int rc = hd_profile_take(
				&plan->profiles[path.links[k]], &entry->segment[s], by
			);
			if (rc < 0)
				return rc;
		}
	}
	for (uint8_t k = 0; k < path.count; k++)
		if (plan->profiles[path.links[k]].count >= plan->profiles[path.links[k]].tidy)
			tidy(plan, path.links[k]);
	return 0;
}
