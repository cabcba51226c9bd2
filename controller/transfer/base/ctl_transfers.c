/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of transfers: bounded, found by (job, worker, direction, round) and by token; and their links. */
#include "ctl_base.h"
#include "ctl_transfers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Each transfer is in one list, and counted once in all and once for its job. */
static void check_counts(const struct hd_controller *c, const struct ctl_job *job) {
	assert(!c->pending_count == TAILQ_EMPTY(&c->pending));
	assert(!c->open_count == TAILQ_EMPTY(&c->open));
	assert(job->pending <= c->pending_count && job->open <= c->open_count);
	assert(job->open_pushes + job->open_pulls + job->replica.sums <= job->open);
	assert(job->unspent <= job->open_pushes);
}

struct ctl_transfer *ctl_transfer_add(struct hd_controller *c, const struct ctl_transfer *like) {
	struct ctl_job *job = like->job;
	struct ctl_node *node = ctl_worker(job, like->worker);
	struct ctl_transfer *t;

	assert(like->state == CTL_PENDING);
	if (c->pending_count >= HD_PENDING_MAX || c->open_count >= HD_TRANSFERS_MAX)
		return NULL;
	t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	*t = *like;
	t->id = ++c->next_id;
	t->asked = c->now;
	t->cc_weight = 1;
	TAILQ_INSERT_TAIL(&c->pending, t, entry);
	LIST_INSERT_HEAD(
		&c->by_key[ctl_key_bucket(job->id, t->worker, t->direction, t->round)], t, by_key
	);
	c->pending_count++;
	job->pending++;
	check_counts(c, job);
	t->tracked = node != NULL;
	if (node)
		node->tracked++;
	return t;
}

uint64_t ctl_token(struct hd_controller *c, const struct ctl_job *job, bool between_hosts) {
	return hd_token_draw(&c->entropy, between_hosts && !job->unsealed);
}

void ctl_transfer_enter(struct ctl_transfer *t, enum ctl_transfer_state state) {
	/* The states from which each state may be entered. */
	static const uint8_t from[] = {
		[CTL_PENDING] = 0,
		[CTL_CREDITED] = 1u << CTL_PENDING,
		[CTL_GRANTED] = 1u << CTL_PENDING | 1u << CTL_CREDITED,
		[CTL_HELD] = 1u << CTL_GRANTED,
	};

	assert(from[state] >> t->state & 1);
	assert(state != CTL_CREDITED || (t->credit && t->direction == HD_PUSH && !t->group));
	assert(state != CTL_GRANTED || t->state == CTL_CREDITED || !t->credit);
	t->job->unspent += state == CTL_CREDITED;
	t->job->unspent -= t->state == CTL_CREDITED;
	t->state = state;
}

void ctl_transfer_open(struct hd_controller *c, struct ctl_transfer *t, uint64_t token) {
	ctl_transfer_enter(t, t->credit ? CTL_CREDITED : CTL_GRANTED);
	TAILQ_REMOVE(&c->pending, t, entry);
	c->pending_count--;
	t->job->pending--;
	t->token = token;
	t->granted = c->now;
	TAILQ_INSERT_TAIL(&c->open, t, entry);
	LIST_INSERT_HEAD(&c->by_token[ctl_token_bucket(token)], t, by_token);
	c->open_count++;
	t->job->open++;
	if (t->direction == HD_PUSH && !t->is_sum)
		t->job->open_pushes++;
	if (t->direction == HD_PULL && !t->is_sum)
		t->job->open_pulls++;
	if (t->direction == HD_COPY && t->is_sum)
		t->job->replica.sums++;
	check_counts(c, t->job);
	ctl_check_by(c, c->now + CTL_CHECK_NS);
}

static void path_use(struct hd_controller *c, const struct ctl_transfer *t, bool add) {
	for (uint8_t i = 0; i < t->path_count; i++) {
		assert(add || c->link_use[t->path[i]] > 0);
		c->scratch.link_probe[t->path[i]].used = c->now;
		if (add)
			c->link_use[t->path[i]]++;
		else
			c->link_use[t->path[i]]--;
		if (t->direction == HD_COPY && add)
			c->link_copies[t->path[i]]++;
		else if (t->direction == HD_COPY)
			c->link_copies[t->path[i]]--;
	}
}

void ctl_transfer_unroute(struct hd_controller *c, struct ctl_transfer *t) {
	path_use(c, t, false);
	t->path_count = 0;
}

void ctl_transfer_reroute(
	struct hd_controller *c,
	struct ctl_transfer *t,
	const struct hd_plan_path *path
) {
	ctl_transfer_unroute(c, t);
	t->path_count = path->count;
	memcpy(t->path, path->links, path->count * sizeof t->path[0]);
	path_use(c, t, true);
}

bool ctl_transfer_route(struct hd_controller *c, struct ctl_transfer *t) {
	const struct ctl_node *from = ctl_sender(t), *to = ctl_receiver(t);
	int count;

	if (t->path_count)
		return true;
	if (!from || !to)
		return false;
	count = ctl_path(c, from->host_index, to->host_index, t->path);
	if (count < 0)
		return false;
	t->path_count = (uint8_t)count;
	path_use(c, t, true);
	return true;
}

void ctl_credit_freed(struct ctl_transfer *t) {
	struct ctl_node *worker = ctl_worker(t->job, t->worker);

	assert(t->credit && t->job->credits);
	t->job->credits--;
	if (worker && worker->credit == t)
		worker->credit = NULL;
}

void ctl_transfer_free(struct hd_controller *c, struct ctl_transfer *t) {
	struct ctl_node *node = ctl_worker(t->job, t->worker);

	LIST_REMOVE(t, by_key);
	if (t->state == CTL_PENDING) {
		TAILQ_REMOVE(&c->pending, t, entry);
		c->pending_count--;
		t->job->pending--;
	} else {
		LIST_REMOVE(t, by_token);
		TAILQ_REMOVE(&c->open, t, entry);
		c->open_count--;
		t->job->open--;
		if (t->direction == HD_PUSH && !t->is_sum)
			t->job->open_pushes--;
		if (t->direction == HD_PULL && !t->is_sum)
			t->job->open_pulls--;
		t->job->unspent -= t->state == CTL_CREDITED;
		if (t->direction == HD_COPY && t->is_sum) {
			t->job->replica.sums--;
			ctl_check_by(c, c->now); /* a lease may keep slots for it */
		}
		if (t->job->sync != HD_SYNC_NONE && t->job->pending)
			ctl_plan_soon(c); /* another transfer may take its place in the step */
	}
	check_counts(c, t->job);
	if (node && t->tracked)
		node->tracked--;
	if (t->credit)
		ctl_credit_freed(t);
	if (t->item_pass && t->item_pass == c->scratch.pass)
		c->scratch.item_transfer[t->item] = NULL; /* not shown in the plan any more */
	path_use(c, t, false);
	if (t->group)
		ctl_group_detach(c, t);
	assert(!node || node->credit != t);
	free(t);
}
