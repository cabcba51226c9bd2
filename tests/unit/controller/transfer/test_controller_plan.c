/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller under load: every decision's reason is recomputed from the state that was planned
 * over, reservations stay below the estimates, positions are given in order, tenants get their
 * shares, everything ends, and the same seed gives the same events.
 */
#include "controller_net.h"
#include "ctl_transfers.h"
#include "plan_reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS 12
#define ROUNDS 40
#define CAPACITY 10e6 /* bytes/s of every link, at first */

/* The input of the plan, copied when the PLAN event came, and the plan by the reference. */
struct problem {
	struct hd_plan_input input;
	struct hd_plan_entry *entries;
	void *parts[5];
};

static void *copy(const void *from, size_t bytes) {
	void *to = malloc(bytes ? bytes : 1);

	assert_non_null(to);
	if (bytes)
		memcpy(to, from, bytes);
	return to;
}

static void problem_free(struct problem *s) {
	for (size_t i = 0; i < 5; i++)
		free(s->parts[i]);
	free(s->entries);
	memset(s, 0, sizeof *s);
}

static void problem_take(struct problem *s, const struct hd_plan_input *in) {
	problem_free(s);
	s->input = *in;
	s->input.capacity = s->parts[0] = copy(in->capacity, in->link_count * sizeof(double));
	s->input.busy = s->parts[1] = copy(in->busy, in->busy_count * sizeof *in->busy);
	s->input.tenants = s->parts[2] = copy(in->tenants, in->tenant_count * sizeof *in->tenants);
	s->input.jobs = s->parts[3] = copy(in->jobs, in->job_count * sizeof *in->jobs);
	s->input.items = s->parts[4] = copy(in->items, in->item_count * sizeof *in->items);
	s->entries = calloc(in->item_count + 1, sizeof *s->entries);
	assert_non_null(s->entries);
	assert_int_equal(plan_reference(&s->input, s->entries), 0);
}

static const struct hd_plan_entry *problem_entry(const struct problem *s, uint64_t id) {
	for (uint32_t i = 0; i < s->input.item_count; i++)
		if (s->input.items[s->entries[i].item].id == id)
			return &s->entries[i];
	return NULL;
}

/* --- a load --- */

struct flight {
	hd_ns ends;
	struct hd_msg_grant grant;
	struct peer *receiver;
};

struct load {
	struct problem problem;
	struct peer *server, *workers[WORKERS];
	uint32_t asked[WORKERS], ended[WORKERS];
	uint64_t version, last_position;
	struct flight flights[4 * WORKERS];
	uint32_t flight_count;
	uint32_t granted, dropped, compared, behind_others;
	hd_ns free_at; /* of the server's link, in truth */
	double truth; /* bytes/s */
	uint64_t hash;
};

static void near(double a, double b) {
	if (isinf(a) && isinf(b))
		return;
	if (!(fabs(a - b) <= 1e-6 + 1e-6 * fabs(b)))
		fail_msg("%.9f is not %.9f", a, b);
}

static void why_equal(const struct hd_plan_why *why, const struct hd_plan_why *want) {
	near(why->finish, want->finish);
	assert_int_equal(why->runner_up, want->runner_up);
	if (want->runner_up)
		near(why->runner_up_finish, want->runner_up_finish);
	assert_int_equal(why->deadline, want->deadline);
	near(why->slack, want->slack);
	assert_int_equal(why->rule, want->rule);
}

/* From first principles, for what the reference plan shares with the planner by its definitions. */
static void first_principles(
	const struct load *load,
	const struct hd_plan_why *why,
	const struct ctl_transfer *t
) {
	const struct hd_plan_job *job = &load->problem.input.jobs[0];
	int64_t deadline
		= (int64_t)hd_version_counter(t->base) + job->tau_max - (int64_t)job->v_init;
	double bytes = 0;

	assert_int_equal(why->deadline, deadline < 0 ? 0 : deadline);
	near(why->slack, (double)deadline - (double)(t->planned - job->v_init));
	assert_true(t->planned <= hd_version_counter(t->base) + job->tau_max);
	for (uint8_t i = 0; i < t->reserved_count; i++)
		bytes += t->reserved[i].rate * (double)(t->reserved[i].end - t->reserved[i].start)
			/ 1e9;
	assert_true(fabs(bytes - (double)t->bytes) < 1e-3 * (double)t->bytes + 1);
	/* Beyond the segments of a grant the last one is widened: it ends later than the plan does. */
	if (t->reserved_count < HD_SEGMENTS_MAX)
		near(why->finish, (double)(t->finish - t->granted) / 1e9);
	else
		assert_true((double)(t->finish - t->granted) / 1e9 >= why->finish - 1e-6);
}

static void on_granted(struct net *net, struct load *load, const struct hd_event *event) {
	const struct ctl_transfer *t = ctl_transfer_by_token(net->controller, event->token);
	const struct hd_plan_entry *entry = problem_entry(&load->problem, t->id);

	assert_non_null(entry);
	assert_false(entry->dropped);
	why_equal(&t->why.plan, &entry->why);
	if (t->direction == HD_PUSH) {
		assert_int_equal(t->position, ++load->last_position);
		assert_int_equal(t->planned, entry->position);
		first_principles(load, &t->why.plan, t);
	}
	load->granted++;
	load->compared++;
	load->behind_others += t->after != 0;
}

static void on_dropped(struct net *net, struct load *load, const struct hd_event *event) {
	struct hd_controller *c = net->controller;
	const struct ctl_drop *drop = &c->drops[(c->drop_count - 1) % CTL_DROPS_KEPT];
	const struct ctl_transfer *t
		= ctl_transfer_find(c, c->jobs[0], event->worker, HD_PUSH, event->round);
	const struct hd_plan_entry *entry = problem_entry(&load->problem, t->id);

	assert_non_null(entry);
	assert_true(entry->dropped);
	why_equal(&drop->why.plan, &entry->why);
	load->dropped++;
	load->compared++;
}

/* FNV-1a over the fields, without the padding between them. */
static uint64_t hash_event(uint64_t hash, const struct hd_event *event) {
	uint64_t value,
		fields[] = {
			event->at,
			event->kind,
			event->reason,
			event->job,
			event->worker,
			event->direction,
			event->round,
			event->token,
			event->position,
			event->version,
			event->base,
			event->bytes,
			event->aux,
			0,
		};

	memcpy(&value, &event->value, sizeof value);
	fields[sizeof fields / sizeof fields[0] - 1] = value;
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
		for (int shift = 0; shift < 64; shift += 8)
			hash = (hash ^ (fields[i] >> shift & 0xff)) * UINT64_C(0x100000001b3);
	return hash;
}

static void on_event(struct net *net, const struct hd_event *event) {
	struct load *load = net->user;

	load->hash = hash_event(load->hash, event);
	if (event->kind == HD_EVENT_PLAN)
		problem_take(&load->problem, &net->controller->scratch.input);
	else if (event->kind == HD_EVENT_GRANTED)
		on_granted(net, load, event);
	else if (event->kind == HD_EVENT_DROPPED && event->direction == HD_PUSH)
		on_dropped(net, load, event);
}

/* Never more promised than was believed when it was promised. */
static void check_reservations(struct net *net) {
	struct hd_controller *c = net->controller;
	const struct ctl_transfer *t;

	TAILQ_FOREACH (t, &c->open, entry)
		for (uint8_t i = 0; i < t->reserved_count; i++)
			for (uint8_t j = 0; j < t->path_count; j++) {
				uint32_t link = t->path[j];
				hd_ns at = hd_ns_max(t->reserved[i].start, c->last_plan);
				double most = hd_controller_planned_bps(c, link) * 1.00001;

				if (at < t->reserved[i].end)
					assert_true(
						hd_controller_reserved_bps(c, link, at) <= most
					);
			}
}

/* New grants take off: they end one after another, as the truth of the server's link has it. */
static void take_off(struct net *net, struct load *load, struct peer *peer, uint32_t *seen) {
	for (; *seen < peer->count; ++*seen) {
		const struct hd_message *m = &peer->log[*seen];
		struct flight *flight;

		if (m->kind == HD_MSG_DROP)
			load->ended[m->drop.worker]++;
		if (m->kind != HD_MSG_GRANT)
			continue;
		assert_true(load->flight_count < 4 * WORKERS);
		flight = &load->flights[load->flight_count++];
		load->free_at = hd_ns_max(load->free_at, net->now)
			+ (hd_ns)((double)m->grant.bytes / load->truth * 1e9);
		flight->ends = load->free_at;
		flight->grant = m->grant;
		flight->receiver = m->grant.direction == HD_PUSH ? load->server :
								   load->workers[m->grant.worker];
	}
}

static void land(struct net *net, struct load *load) {
	for (uint32_t i = 0; i < load->flight_count; i++) {
		struct flight flight = load->flights[i];
		struct hd_message m;

		if (flight.ends > net->now)
			continue;
		load->flights[i--] = load->flights[--load->flight_count];
		load->version += flight.grant.direction == HD_PUSH;
		m = net_report(&flight.grant, load->version, (uint64_t)(load->truth * 8));
		assert_int_equal(peer_send(flight.receiver, &m), 0);
		load->ended[flight.grant.worker]++;
	}
}

static void ask(struct net *net, struct load *load, uint32_t i) {
	struct peer *peer = load->workers[i];
	uint32_t round = ++load->asked[i];
	uint64_t lag = hd_random_below(&net->random, WORKERS);
	uint64_t base = load->version > lag ? load->version - lag : 0;
	uint64_t bytes = 10000 + hd_random_below(&net->random, 300000);
	struct hd_message m
		= round % 3 ? net_push(peer, round, bytes, base) : net_pull(peer, round);

	assert_int_equal(peer_send(peer, &m), 0);
}

static uint64_t run_load(double theta, double truth, uint32_t *dropped) {
	struct net_config config = {
		.epoch = 1,
		.theta = theta,
		.initial_bps = CAPACITY * 8,
		.drop_permille_max = 300,
	};
	struct load load = {.truth = truth};
	uint32_t seen[WORKERS + 1] = {0}, left = WORKERS * ROUNDS;
	struct net net;

	net_open(&net, &config);
	load.server = net_server(&net, "ps");
	for (uint16_t i = 0; i < WORKERS; i++)
		load.workers[i] = net_worker(&net, "t", "j", i, 16);
	net_run(&net, SETTLED);
	net.user = &load;
	net.on_event = on_event;
	for (int step = 0; step < 1000000 && left; step++) {
		for (uint32_t i = 0; i < WORKERS; i++)
			if (load.asked[i] == load.ended[i] && load.asked[i] < ROUNDS
			    && hd_random_chance(&net.random, 0.05))
				ask(&net, &load, i);
		net_run(&net, HD_MS / 2);
		check_reservations(&net);
		take_off(&net, &load, load.server, &seen[WORKERS]);
		left = 0;
		for (uint32_t i = 0; i < WORKERS; i++) {
			take_off(&net, &load, load.workers[i], &seen[i]);
			left += ROUNDS - load.ended[i];
		}
		land(&net, &load);
	}
	net_run(&net, 10 * HD_MS);
	/* Everything ended, each in one way. */
	assert_int_equal(left, 0);
	assert_int_equal(net.controller->open_count + net.controller->pending_count, 0);
	assert_int_equal(load.granted + load.dropped, WORKERS * ROUNDS);
	assert_int_equal(load.compared, WORKERS * ROUNDS);
	assert_int_equal(net.controller->jobs[0]->applied, load.version);
	assert_int_equal(net.controller->counters.plan_errors, 0);
	assert_int_equal(net.controller->counters.requests, WORKERS * ROUNDS);
	assert_true(load.behind_others > 0);
	assert_int_equal(hd_version_counter(net.controller->jobs[0]->version), load.version);
	*dropped = load.dropped;
	problem_free(&load.problem);
	net_close(&net);
	return load.hash;
}

static void test_reasons_recomputed(void **state) {
	uint32_t dropped;

	(void)state;
	run_load(0, CAPACITY, &dropped);
	run_load(0.5, CAPACITY, &dropped);
	assert_true(dropped > 0);
}

/* The network is three times slower, or faster, than was believed at first. */
static void test_wrong_beliefs(void **state) {
	uint32_t dropped;

	(void)state;
	run_load(0, CAPACITY / 3, &dropped);
	run_load(0, CAPACITY * 3, &dropped);
}

static void test_same_seed_same_events(void **state) {
	uint32_t dropped;
	uint64_t first;

	(void)state;
	first = run_load(0.5, CAPACITY / 2, &dropped);
	assert_true(run_load(0.5, CAPACITY / 2, &dropped) == first);
}

/* --- tenants --- */

static struct peer *
tenant_worker(struct net *net, const char *tenant, uint16_t worker, float weight) {
	struct peer *peer;
	struct hd_message m;
	char host[16];

	(void)snprintf(host, sizeof host, "%s%u", tenant, worker);
	peer = net_peer(net, HD_ROLE_WORKER, host);
	peer->worker = worker;
	(void)snprintf(peer->tenant, sizeof peer->tenant, "%s", tenant);
	(void)snprintf(peer->job, sizeof peer->job, "j");
	m = net_register_worker(peer, 1000, weight);
	assert_int_equal(peer_send(peer, &m), 0);
	net_run(net, HD_MS);
	return peer;
}

/* Two tenants that always have something waiting share the server's link by their weights, though
 * one's updates are much shorter and would always go first. */
static void test_tenant_shares(void **state) {
	struct net_config config = {.epoch = 1, .initial_bps = CAPACITY * 8, .ageing_s = 1e6};
	struct peer *workers[6], *server;
	uint32_t next[6] = {0}, seen[6] = {0};
	uint64_t version = 0, bytes[2] = {0};
	struct net net;

	(void)state;
	net_open(&net, &config);
	server = net_server(&net, "ps");
	for (uint16_t i = 0; i < 6; i++)
		workers[i] = i < 3 ? tenant_worker(&net, "big", i, 1) :
				     tenant_worker(&net, "small", i, 3);
	net_run(&net, SETTLED);
	for (int step = 0; step < 3000; step++) {
		for (uint32_t i = 0; i < 6; i++) {
			struct hd_message m;

			if (next[i] > seen[i])
				continue;
			m = net_push(workers[i], ++next[i], i < 3 ? 900000 : 100000, version);
			assert_int_equal(peer_send(workers[i], &m), 0);
		}
		net_run(&net, 5 * HD_MS);
		for (uint32_t i = 0; i < 6; i++) {
			const struct hd_msg_grant *g
				= peer_grant(workers[i], workers[i]->worker, next[i]);
			const struct ctl_transfer *t
				= g ? ctl_transfer_by_token(net.controller, g->token) : NULL;
			struct hd_message m;

			if (!t || t->finish > net.now)
				continue;
			bytes[i >= 3] += t->bytes;
			m = net_report(g, 0, 0);
			assert_int_equal(peer_send(server, &m), 0);
			seen[i] = next[i];
		}
	}
	assert_true(bytes[0] + bytes[1] > 100000000);
	if (!(fabs((double)bytes[1] / (double)bytes[0] - 3) < 0.3))
		fail_msg("shares %.3f, wanted 3", (double)bytes[1] / (double)bytes[0]);
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reasons_recomputed),
		cmocka_unit_test(test_wrong_beliefs),
		cmocka_unit_test(test_same_seed_same_events),
		cmocka_unit_test(test_tenant_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
