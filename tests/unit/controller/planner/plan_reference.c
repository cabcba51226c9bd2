/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan_order.h"
#include "plan_reference.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNSET UINT32_MAX
#define HELD_MAX(input)                                                                            \
	((input)->busy_count + (input)->item_count * HD_SEGMENTS_MAX * HD_PLAN_PATH_MAX)

/* One promised piece of one link. */
struct held {
	uint32_t link;
	double start, end, rate;
};

struct reference {
	const struct hd_plan_input *in;
	struct hd_plan_entry *entries;
	uint32_t entry_count;
	bool *done;
	struct held *held;
	uint32_t held_count;
	double *times; /* breakpoints of the path at hand */
	uint32_t time_count;
	double *finish; /* of each item, with this many held; only a reservation changes it */
	uint32_t *finish_held; /* held_count + 1, 0: never */
	double *load; /* of each link */
	uint64_t *next; /* of each job: next relative position, from 1 */
	double *commit; /* of each job */
	double *deficit; /* of each tenant */
};

static double residual(const struct reference *r, uint32_t link, double at) {
	double used = 0;

	for (uint32_t h = 0; h < r->held_count; h++)
		if (r->held[h].link == link && r->held[h].start <= at && at < r->held[h].end)
			used += r->held[h].rate;
	const double left = r->in->capacity[link] - used;
	return left < r->in->capacity[link] / 128 ? 0 : left;
}

/* The rate that counts as zero for an item: see share_min. */
static double least_of(const struct reference *r, const struct hd_plan_item *item) {
	double capacity = INFINITY;

	for (uint8_t k = 0; k < item->path_count; k++)
		capacity = fmin(capacity, r->in->capacity[item->path[k]]);
	return isfinite(capacity) ? r->in->share_min * capacity * (1 - 1e-12) : 0;
}

static double path_residual(const struct reference *r, const struct hd_plan_item *item, double at) {
	double least = INFINITY;

	for (uint8_t k = 0; k < item->path_count; k++)
		least = fmin(least, residual(r, item->path[k], at));
	return least < least_of(r, item) ? 0 : least;
}

static int compare_double(const void *a, const void *b) {
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* All moments at which the residual of the item's path may change, ascending, the last one INFINITY. */
static void collect_times(struct reference *r, const struct hd_plan_item *item) {
	uint32_t count = 0, kept = 0;

	r->times[count++] = 0;
	for (uint32_t h = 0; h < r->held_count; h++)
		for (uint8_t k = 0; k < item->path_count; k++)
			if (r->held[h].link == item->path[k]) {
				r->times[count++] = fmax(r->held[h].start, 0);
				r->times[count++] = fmax(r->held[h].end, 0);
			}
	r->times[count++] = INFINITY;
	qsort(r->times, count, sizeof *r->times, compare_double);
	for (uint32_t i = 0; i < count; i++)
		if (kept == 0 || r->times[i] > r->times[kept - 1])
			r->times[kept++] = r->times[i];
	r->time_count = kept;
}

/* The greedy filling. Returns its pieces, contiguous ones of one rate joined; the last ends at the finish. */
static uint32_t
fill(struct reference *r, const struct hd_plan_item *item, struct hd_plan_segment *pieces) {
	double left = item->amount;
	uint32_t count = 0;

	if (item->path_count == 0 || item->amount == 0)
		return 0;
	collect_times(r, item);
	for (uint32_t i = 0; i + 1 < r->time_count; i++) {
		const double from = r->times[i], to = r->times[i + 1];
		const double rate = path_residual(r, item, from);

		if (rate <= 0 || to - from <= 1e-12 * from)
			continue;
		const double room = rate * (to - from);
		const bool ends = room >= left - 1e-12 * item->amount;
		const bool snaps = ends && room <= left + 1e-12 * item->amount;
		const double end = !ends || snaps ? to : from + left / rate;

		if (count > 0 && rounded(pieces[count - 1].end) == rounded(from)
		    && rounded(pieces[count - 1].rate) == rounded(rate)) {
			pieces[count - 1].end = end;
			pieces[count - 1].rate = fmin(rate, pieces[count - 1].rate);
		} else
			pieces[count++] = (struct hd_plan_segment){from, end, rate};
		if (ends)
			break;
		left -= room;
	}
	return count;
}

static double finish_of(struct reference *r, const struct hd_plan_item *item) {
	const size_t index = (size_t)(item - r->in->items);

	if (r->finish_held[index] == r->held_count + 1)
		return r->finish[index];
	struct hd_plan_segment *pieces = malloc((HELD_MAX(r->in) * 2 + 2) * sizeof *pieces);
	const uint32_t count = fill(r, item, pieces);
	r->finish[index] = count == 0 ? 0 : pieces[count - 1].end;
	r->finish_held[index] = r->held_count + 1;
	free(pieces);
	return r->finish[index];
}

static struct order order_of(struct reference *r, uint32_t i) {
	const struct hd_plan_item *item = &r->in->items[i];

	return (struct order){finish_of(r, item), item};
}

/* Of all constant rates on one interval from `from` on, the one that carries `left` first. */
static struct hd_plan_segment
widen(struct reference *r, const struct hd_plan_item *item, double from, double left) {
	struct hd_plan_segment best = {0, INFINITY, 0};

	for (uint32_t s = 0; s + 1 < r->time_count; s++) {
		double rate = INFINITY;

		if (r->times[s] < from)
			continue;
		for (uint32_t e = s; e + 1 < r->time_count; e++) {
			if (r->times[e + 1] - r->times[e] <= 1e-12 * r->times[e])
				continue; /* of no length, as in fill() */
			rate = fmin(rate, path_residual(r, item, r->times[e]));
			if (rate <= 0)
				break;
			const double end = r->times[s] + left / rate;
			if (end <= r->times[e + 1] && rounded(end) < rounded(best.end))
				best = (struct hd_plan_segment){r->times[s], end, rate};
		}
	}
	return best;
}

static void
segments_of(struct reference *r, const struct hd_plan_item *item, struct hd_plan_entry *entry) {
	struct hd_plan_segment *pieces = malloc((HELD_MAX(r->in) * 2 + 2) * sizeof *pieces);
	uint32_t count = fill(r, item, pieces);

	if (count > HD_SEGMENTS_MAX) {
		double left = item->amount;

		count = HD_SEGMENTS_MAX;
		for (uint32_t k = 0; k + 1 < count; k++)
			left -= pieces[k].rate * (pieces[k].end - pieces[k].start);
		pieces[count - 1] = widen(r, item, pieces[count - 1].start, left);
	}
	entry->segment_count = (uint8_t)count;
	memcpy(entry->segment, pieces, count * sizeof *pieces);
	entry->start = count == 0 ? 0 : pieces[0].start;
	entry->finish = count == 0 ? 0 : pieces[count - 1].end;
	free(pieces);
}

/* The link's residual just before `at`: that of the last breakpoint before it; some differ by rounding only. */
static double residual_before(const struct reference *r, uint32_t link, double at) {
	double last = 0;

	at -= 1e-12 * at;
	for (uint32_t h = 0; h < r->held_count; h++) {
		if (r->held[h].link != link)
			continue;
		if (r->held[h].start < at)
			last = fmax(last, r->held[h].start);
		if (r->held[h].end < at)
			last = fmax(last, r->held[h].end);
	}
	return residual(r, link, last);
}

static void
find_bottleneck(struct reference *r, const struct hd_plan_item *item, struct hd_plan_entry *entry) {
	bool blocked[HD_PLAN_PATH_MAX] = {0}, any = false;
	const double now = entry->start * (1 + 1e-12);
	const double least = path_residual(r, item, now);
	uint32_t best = UNSET;

	for (uint8_t k = 0; k < item->path_count && entry->start > 0; k++) {
		const double left = residual_before(r, item->path[k], entry->start);

		blocked[k] = left <= 0 || left < least_of(r, item);
		any = any || blocked[k];
	}
	for (uint8_t k = 0; k < item->path_count; k++) {
		const uint32_t link = item->path[k];

		if (any ? !blocked[k] : rounded(residual(r, link, now)) != rounded(least))
			continue;
		if (best == UNSET || rounded(r->load[link]) > rounded(r->load[best])
		    || (rounded(r->load[link]) == rounded(r->load[best]) && link < best))
			best = link;
	}
	entry->bottleneck = best;
}

static void reserve(struct reference *r, const struct hd_plan_item *item, uint32_t index) {
	const struct hd_plan_entry *entry = &r->entries[index];

	for (uint8_t k = 0; k < item->path_count; k++)
		for (uint8_t s = 0; s < entry->segment_count; s++)
			r->held[r->held_count++] = (struct held){
				.link = item->path[k],
				.start = entry->segment[s].start,
				.end = entry->segment[s].end,
				.rate = entry->segment[s].rate,
			};
}

static int64_t deadline(const struct reference *r, const struct hd_plan_item *item) {
	const struct hd_plan_job *job = &r->in->jobs[item->job];

	return (int64_t)item->version + job->tau_max - (int64_t)job->v_init;
}

static uint32_t clamped(int64_t deadline) {
	return deadline < 0 ? 0 : deadline > UINT32_MAX ? UINT32_MAX : (uint32_t)deadline;
}

static void drop(struct reference *r, uint32_t i, uint8_t rule, uint32_t runner_up, int64_t place) {
	const struct hd_plan_item *item = &r->in->items[i];
	const int64_t dl = deadline(r, item);

	r->entries[r->entry_count++] = (struct hd_plan_entry){
		.item = i,
		.dropped = true,
		.bottleneck = HD_PLAN_NONE,
		.after = HD_PLAN_NONE,
		.why = {
			.finish = finish_of(r, item),
			.runner_up = runner_up == UNSET ? 0 : r->in->items[runner_up].id,
			.runner_up_finish
				= runner_up == UNSET ? 0 : finish_of(r, &r->in->items[runner_up]),
			.deadline = clamped(dl),
			.slack = (double)(dl - place),
			.rule = rule,
		},
	};
	r->done[i] = true;
}

static bool pending(const struct reference *r, uint32_t i, uint32_t job, uint8_t direction) {
	return !r->done[i] && r->in->items[i].job == job && r->in->items[i].direction == direction;
}

/* How many pending pushes of the job have deadlines up to `limit`. */
static int64_t due(const struct reference *r, uint32_t job, int64_t limit) {
	int64_t count = 0;

	for (uint32_t i = 0; i < r->in->item_count; i++)
		count += pending(r, i, job, HD_PLAN_PUSH) && deadline(r, &r->in->items[i]) <= limit;
	return count;
}

/* The last (or the one before the last) of the pushes due by limit, by order. */
static uint32_t longest(struct reference *r, uint32_t job, int64_t limit, uint32_t but) {
	uint32_t worst = UNSET;

	for (uint32_t i = 0; i < r->in->item_count; i++)
		if (i != but && pending(r, i, job, HD_PLAN_PUSH)
		    && deadline(r, &r->in->items[i]) <= limit
		    && (worst == UNSET || before(order_of(r, worst), order_of(r, i))))
			worst = i;
	return worst;
}

/* Drops items that no order can save: the longest of each prefix that does not fit. */
static void drop_lost(struct reference *r, uint32_t job) {
	for (int64_t limit = 1; limit <= r->in->item_count; limit++)
		while (due(r, job, limit) > limit) {
			const uint32_t worst = longest(r, job, limit, UNSET);

			drop(r, worst, HD_PLAN_DROP_BOUND, longest(r, job, limit, worst), limit + 1
			);
		}
}

static bool aged(const struct reference *r, uint32_t i) {
	return r->in->items[i].waited > r->in->ageing_s;
}

/* Whether a goes before b: aged first, those by their wait; then by finish, version, id. */
static bool goes_before(struct reference *r, uint32_t a, uint32_t b) {
	const struct hd_plan_item *x = &r->in->items[a], *y = &r->in->items[b];

	if (aged(r, a) != aged(r, b))
		return aged(r, a);
	if (aged(r, a) && x->waited != y->waited)
		return x->waited > y->waited;
	if (aged(r, a))
		return tie(x, y);
	return before(order_of(r, a), order_of(r, b));
}

/* The last deadline that may go now: that of the first prefix without slack. */
static int64_t tight(const struct reference *r, uint32_t job) {
	for (int64_t limit = (int64_t)r->next[job]; limit <= 2 * (int64_t)r->in->item_count;
	     limit++) {
		const int64_t count = due(r, job, limit);

		if (count > 0 && limit - (int64_t)r->next[job] + 1 == count)
			return limit;
	}
	return INT64_MAX;
}

static uint32_t first_push(struct reference *r, uint32_t job, int64_t limit) {
	uint32_t best = UNSET;

	for (uint32_t i = 0; i < r->in->item_count; i++)
		if (pending(r, i, job, HD_PLAN_PUSH) && deadline(r, &r->in->items[i]) <= limit
		    && (best == UNSET || goes_before(r, i, best)))
			best = i;
	return best;
}

static uint32_t pick_of_job(struct reference *r, uint32_t job) {
	uint32_t best = first_push(r, job, tight(r, job));

	for (uint32_t i = 0; i < r->in->item_count; i++)
		if (pending(r, i, job, HD_PLAN_PULL) && (best == UNSET || goes_before(r, i, best)))
			best = i;
	return best;
}

static uint32_t tenant_of(const struct reference *r, uint32_t i) {
	return r->in->jobs[r->in->items[i].job].tenant;
}

static double score(const struct reference *r, uint32_t i) {
	const uint32_t t = tenant_of(r, i);

	return (r->deficit[t] - r->in->items[i].amount) / r->in->tenants[t].weight;
}

/* Scores that are equal on paper: deficits are sums of shares, each rounded, and may have been greater. */
static bool same_score(const struct reference *r, uint32_t a, uint32_t b) {
	const struct hd_plan_tenant *tenants = r->in->tenants;
	double most = 0, amount = 0;

	for (uint32_t t = 0; t < r->in->tenant_count; t++)
		most = fmax(most, fmax(fabs(tenants[t].deficit), tenants[t].deficit_most));
	for (uint32_t i = 0; i < r->in->item_count; i++)
		amount = fmax(amount, r->in->items[i].amount);
	const double off = ldexp(most + amount, -36);
	return fabs(score(r, a) - score(r, b)) <= off / r->in->tenants[tenant_of(r, a)].weight
		+ off / r->in->tenants[tenant_of(r, b)].weight;
}

static uint32_t pick_of_tenant(struct reference *r, uint32_t tenant) {
	uint32_t best = UNSET;

	for (uint32_t j = 0; j < r->in->job_count; j++) {
		if (r->in->jobs[j].tenant != tenant)
			continue;
		const uint32_t pick = pick_of_job(r, j);
		if (pick != UNSET && (best == UNSET || goes_before(r, pick, best)))
			best = pick;
	}
	return best;
}

static uint32_t least_finish(struct reference *r, uint32_t best, uint32_t other, uint32_t chosen) {
	if (other == UNSET || other == chosen)
		return best;
	return best == UNSET || before(order_of(r, other), order_of(r, best)) ? other : best;
}

/* The least finish among what could have gone instead of `chosen`: its job's pulls and allowed pushes
 * (all when no other is allowed), and the other jobs' picks. */
static uint32_t instead(struct reference *r, uint32_t chosen) {
	const uint32_t job = r->in->items[chosen].job;
	int64_t limit = tight(r, job);
	uint32_t best = UNSET;

	if (due(r, job, limit) == (r->in->items[chosen].direction == HD_PLAN_PUSH))
		limit = INT64_MAX;
	for (uint32_t i = 0; i < r->in->item_count; i++)
		if (pending(r, i, job, HD_PLAN_PULL)
		    || (pending(r, i, job, HD_PLAN_PUSH) && deadline(r, &r->in->items[i]) <= limit))
			best = least_finish(r, best, i, chosen);
	for (uint32_t j = 0; j < r->in->job_count; j++)
		if (j != job)
			best = least_finish(r, best, pick_of_job(r, j), chosen);
	return best;
}

static void charge(struct reference *r, uint32_t i) {
	double weights = 0;
	bool *active = calloc(r->in->tenant_count + 1, sizeof *active);

	for (uint32_t k = 0; k < r->in->item_count; k++)
		if (!r->done[k])
			active[tenant_of(r, k)] = true;
	for (uint32_t t = 0; t < r->in->tenant_count; t++)
		weights += active[t] ? r->in->tenants[t].weight : 0;
	for (uint32_t t = 0; t < r->in->tenant_count; t++)
		if (active[t])
			r->deficit[t]
				+= r->in->items[i].amount * r->in->tenants[t].weight / weights;
	r->deficit[tenant_of(r, i)] -= r->in->items[i].amount;
	free(active);
}

static void place(struct reference *r, uint32_t i, uint8_t rule, uint32_t runner_up) {
	const struct hd_plan_item *item = &r->in->items[i];
	const struct hd_plan_job *job = &r->in->jobs[item->job];
	struct hd_plan_entry *entry = &r->entries[r->entry_count];

	*entry = (struct hd_plan_entry){
		.item = i,
		.why = {
			.finish = finish_of(r, item),
			.runner_up = runner_up == UNSET ? 0 : r->in->items[runner_up].id,
			.runner_up_finish
				= runner_up == UNSET ? 0 : finish_of(r, &r->in->items[runner_up]),
			.rule = rule,
		},
	};
	segments_of(r, item, entry);
	find_bottleneck(r, item, entry);
	entry->commit = entry->finish;
	if (item->direction == HD_PLAN_PUSH) {
		const int64_t dl = deadline(r, item);

		entry->why.deadline = clamped(dl);
		entry->why.slack = (double)(dl - (int64_t)r->next[item->job]);
		entry->position = job->v_init + r->next[item->job]++;
		entry->commit = fmax(entry->finish, r->commit[item->job]);
		r->commit[item->job] = entry->commit;
	}
	charge(r, i);
	reserve(r, item, r->entry_count++);
	r->done[i] = true;
}

/* MLfabric's drop rule, for g that goes only because it is due, before h. */
static bool idles(struct reference *r, uint32_t g, uint32_t h) {
	const struct hd_plan_item *item = &r->in->items[g];
	const double theta = r->in->jobs[item->job].theta, c = r->commit[item->job];
	const double f_g = fmax(finish_of(r, item), c);
	const double f_h = fmax(finish_of(r, &r->in->items[h]), c);

	return !item->keep && !isinf(theta) && f_g - f_h > theta * (f_h - c) + 1e-12 * f_g;
}

static void step(struct reference *r) {
	uint32_t chosen = UNSET, fastest = UNSET, most = UNSET, picks[HD_JOBS_MAX];

	for (uint32_t t = 0; t < r->in->tenant_count; t++) {
		const uint32_t pick = picks[t] = pick_of_tenant(r, t);

		fastest = least_finish(r, fastest, pick, UNSET);
		if (pick != UNSET && (most == UNSET || score(r, pick) > score(r, most)))
			most = pick;
	}
	for (uint32_t t = 0; t < r->in->tenant_count; t++)
		if (picks[t] != UNSET && same_score(r, picks[t], most)
		    && (chosen == UNSET || goes_before(r, picks[t], chosen)))
			chosen = picks[t];
	const struct hd_plan_item *item = &r->in->items[chosen];
	const uint32_t free_choice
		= item->direction == HD_PLAN_PUSH ? first_push(r, item->job, INT64_MAX) : chosen;
	if (free_choice != chosen && idles(r, chosen, free_choice)) {
		drop(r, chosen, HD_PLAN_DROP_IDLES, free_choice, (int64_t)r->next[item->job]);
		return;
	}
	if (chosen != fastest && tenant_of(r, chosen) != tenant_of(r, fastest)) {
		place(r, chosen, HD_PLAN_TENANT, fastest);
		return;
	}
	if (free_choice != chosen) {
		place(r, chosen, HD_PLAN_DEADLINE, free_choice);
		return;
	}
	const uint32_t other = instead(r, chosen);
	const bool pushed_in = other != UNSET && before(order_of(r, other), order_of(r, chosen));
	place(r, chosen, aged(r, chosen) && pushed_in ? HD_PLAN_AGED : HD_PLAN_SHORTEST, other);
}

static void hold_busy(struct reference *r) {
	for (uint32_t b = 0; b < r->in->busy_count; b++) {
		const struct hd_plan_busy *busy = &r->in->busy[b];

		r->held[r->held_count++] = (struct held){
			.link = busy->link,
			.start = fmax(busy->start, 0),
			.end = fmax(busy->end, 0),
			.rate = busy->rate,
		};
	}
}

static void prepare(struct reference *r) {
	hold_busy(r);
	for (uint32_t i = 0; i < r->in->item_count; i++)
		for (uint8_t k = 0; k < r->in->items[i].path_count; k++)
			r->load[r->in->items[i].path[k]] += r->in->items[i].amount
				/ r->in->capacity[r->in->items[i].path[k]];
	for (uint32_t j = 0; j < r->in->job_count; j++) {
		r->next[j] = 1;
		r->commit[j] = fmax(r->in->jobs[j].server_free, 0);
	}
	for (uint32_t t = 0; t < r->in->tenant_count; t++)
		r->deficit[t] = r->in->tenants[t].deficit;
}

int plan_reference(const struct hd_plan_input *input, struct hd_plan_entry *entries) {
	struct reference r = {
		.in = input,
		.entries = entries,
		.done = calloc(input->item_count + 1, sizeof(bool)),
		.held = calloc(HELD_MAX(input) + 1, sizeof(struct held)),
		.times = calloc(HELD_MAX(input) * 2 + 2, sizeof(double)),
		.finish = calloc(input->item_count + 1, sizeof(double)),
		.finish_held = calloc(input->item_count + 1, sizeof(uint32_t)),
		.load = calloc(input->link_count + 1, sizeof(double)),
		.next = calloc(input->job_count + 1, sizeof(uint64_t)),
		.commit = calloc(input->job_count + 1, sizeof(double)),
		.deficit = calloc(input->tenant_count + 1, sizeof(double)),
	};
	int rc = -ENOMEM;

	if (!r.done || !r.held || !r.times || !r.finish || !r.finish_held || !r.load || !r.next
	    || !r.commit || !r.deficit)
		goto out;
	prepare(&r);
	for (uint32_t i = 0; i < input->item_count; i++)
		if (input->items[i].direction == HD_PLAN_PUSH && deadline(&r, &input->items[i]) < 1)
			drop(&r, i, HD_PLAN_DROP_BOUND, UNSET, 1);
	for (uint32_t j = 0; j < input->job_count; j++)
		drop_lost(&r, j);
	while (r.entry_count < input->item_count)
		step(&r);
	rc = 0;
out:
	free(r.done);
	free(r.held);
	free(r.times);
	free(r.finish);
	free(r.finish_held);
	free(r.load);
	free(r.next);
	free(r.commit);
	free(r.deficit);
	return rc;
}
