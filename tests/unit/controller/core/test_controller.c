/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller core by messages: registration, order, repeated requests, drops. */
#include "controller_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- registration --- */

static void test_worker_waits_for_server(void **state) {
	struct net net;
	struct peer *worker, *server;
	const struct hd_message *m;

	(void)state;
	net_open(&net, &net_plain);
	worker = net_worker(&net, "t", "j", 3, 8);
	assert_null(peer_last(worker, HD_MSG_REGISTERED));
	server = net_server(&net, "ps");
	m = peer_last(server, HD_MSG_REGISTERED);
	assert_non_null(m);
	assert_int_equal(m->registered.epoch, 1);
	assert_int_equal(m->registered.job, 0);
	net_run(&net, HD_MS);
	m = peer_last(worker, HD_MSG_REGISTERED);
	assert_non_null(m);
	assert_int_equal(m->registered.job, net_job(worker));
	assert_int_equal(m->registered.server_ipv4, server->addr.ipv4);
	assert_int_equal(m->registered.server_port, server->addr.port);
	assert_int_equal(m->registered.scheduled, 1);
	assert_int_equal(m->registered.lease_us, HD_DETECTION_US);
	assert_int_equal(net_count_events(&net, HD_EVENT_NODE_UP), 2);
	/* The same words again are answered again, and change nothing. */
	post(worker, net_register_worker(worker, 8, 1));
	net_run(&net, HD_MS);
	assert_int_equal(peer_count(worker, HD_MSG_REGISTERED), 2);
	assert_int_equal(net_count_events(&net, HD_EVENT_NODE_UP), 2);
	net_close(&net);
}

static void refused(struct net *net, struct peer *peer, struct hd_message m, const char *words) {
	uint64_t before = counters(net)->register_refused;

	peer->refused[0] = '\0';
	post(peer, m);
	net_run(net, HD_MS);
	if (!strstr(peer->refused, words))
		fail_msg("wanted '%s', got '%s'", words, peer->refused);
	assert_int_equal(counters(net)->register_refused, before + 1);
}

static void test_register_refused(void **state) {
	struct net_config config = net_plain;
	struct net net;
	struct peer *worker, *other, *server;
	struct hd_message m;

	(void)state;
	config.topology
		= "{\"hosts\": [\"h0\", \"h1\", \"ps\"], \"switches\": [\"s1\"], \"links\": "
		  "[[\"h0\", \"s1\"], [\"h1\", \"s1\"], [\"ps\", \"s1\"]]}";
	net_open(&net, &config);
	worker = net_worker(&net, "t", "j", 0, 8);
	other = net_peer(&net, HD_ROLE_WORKER, "h1");
	(void)snprintf(other->tenant, sizeof other->tenant, "t");
	(void)snprintf(other->job, sizeof other->job, "j");
	other->worker = 1;
#define REFUSED(change, words)                                                                     \
	do {                                                                                       \
		m = net_register_worker(other, 8, 1);                                              \
		change;                                                                            \
		refused(&net, other, m, words);                                                    \
	} while (0)
	REFUSED(m.register_.job++, "job: not the id");
	REFUSED(m.register_.role = HD_ROLE_SERVER, "role: not that of the session");
	REFUSED(m.register_.role = HD_ROLE_SHELL, "role: only workers, servers");
	REFUSED((void)snprintf(m.register_.host, sizeof m.register_.host, "h9"),
		"host: 'h9' is not in the topology");
	REFUSED(m.register_.host[0] = '\0', "host: empty");
	REFUSED(m.register_.worker = HD_WORKERS_MAX, "HD_WORKERS_MAX");
	REFUSED(m.register_.model_bytes = 0, "model_bytes");
	REFUSED(m.register_.model_bytes = HD_MODEL_BYTES_MAX + 1, "HD_MODEL_BYTES_MAX");
	REFUSED(m.register_.model_bytes = 8, "model_bytes: 8, the job has 4000000");
	REFUSED(m.register_.tau_max = 0, "HD_TAU_MAX_LIMIT");
	REFUSED(m.register_.tau_max = 9, "tau_max: 9, the job has 8");
	REFUSED(m.register_.staleness_rule = 9, "staleness_rule: unknown");
	REFUSED(m.register_.staleness_rule = 1, "staleness_rule: 1, the job has 0");
	REFUSED(m.register_.staleness_c = 2, "staleness_c: 2, the job has 1");
	REFUSED(m.register_.staleness_c = (float)strtod("nan", NULL), "staleness_c: not a finite");
	REFUSED(m.register_.job_weight = -1, "job_weight");
	REFUSED(m.register_.job_weight = 2, "job_weight: 2, the job has 1");
#undef REFUSED
	assert_int_equal(net_count_events(&net, HD_EVENT_NODE_UP), 1);
	/* No node was harmed: correct messages are still accepted. */
	server = net_server(&net, "ps");
	post(other, net_register_worker(other, 8, 1));
	net_run(&net, HD_MS);
	assert_non_null(peer_last(other, HD_MSG_REGISTERED));
	assert_non_null(peer_last(worker, HD_MSG_REGISTERED));
	(void)server;
	net_close(&net);
}

static void test_unscheduled(void **state) {
	struct net_config config = net_plain;
	struct peer *worker;
	struct net net;

	(void)state;
	config.unscheduled = true;
	net_open(&net, &config);
	net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	assert_int_equal(peer_last(worker, HD_MSG_REGISTERED)->registered.scheduled, 0);
	net_run(&net, SETTLED);
	post(worker, net_push(worker, 1, MB, 0));
	net_run(&net, HD_MS);
	assert_int_equal(peer_last(worker, HD_MSG_DROP)->drop.reason, HD_REASON_REFUSED);
	assert_int_equal(counters(&net)->plans, 0);
	net_close(&net);
}

/* --- order --- */

/* Three pushes of 4, 3 and 1 MB over a server link of 10 MB/s. The first goes at once; the shortest
 * of the others is queued behind it; the last stays pending until there is room behind. */
static void test_order_and_horizon(void **state) {
	struct peer *server, *a, *b, *c;
	const struct hd_msg_grant *ga, *gb, *gc;
	const struct hd_msg_expect *e;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	a = net_worker(&net, "t", "j", 0, 8);
	b = net_worker(&net, "t", "j", 1, 8);
	c = net_worker(&net, "t", "j", 2, 8);
	net_run(&net, SETTLED);
	post(a, net_push(a, 1, 4 * MB, 0));
	post(b, net_push(b, 1, 3 * MB, 0));
	post(c, net_push(c, 1, 1 * MB, 0));
	net_run(&net, 5 * HD_MS);
	ga = peer_grant(a, 0, 1);
	gc = peer_grant(c, 2, 1);
	assert_non_null(ga);
	assert_non_null(gc);
	assert_null(peer_grant(b, 1, 1));
	assert_int_equal(ga->position, 1);
	assert_int_equal(gc->position, 2);
	assert_true(gc->after == ga->token);
	assert_int_equal(ga->after, 0);
	assert_int_equal(ga->segments.count, 1);
	assert_int_equal(ga->segments.item[0].bytes, 4 * MB);
	assert_int_equal(ga->segments.item[0].rate_bps, 80000000);
	assert_int_equal(ga->peer_ipv4, server->addr.ipv4);
	/* b is queued behind c on the server's link. */
	assert_true(gc->cc_weight > 1.9f && gc->cc_weight < 2.1f);
	e = peer_expect(server, 2, 1);
	assert_non_null(e);
	assert_true(e->token == gc->token && e->after == ga->token && e->position == 2);
	assert_int_equal(peer_count(server, HD_MSG_EXPECT), 2);
	/* A shorter newcomer goes before b, which has waited longer but holds no grant. */
	post(a, net_push(a, 2, MB / 2, 0));
	net_run(&net, 2 * HD_MS);
	post(server, net_report(ga, 1, 0));
	net_run(&net, 2 * HD_MS);
	assert_non_null(peer_grant(a, 0, 2));
	assert_int_equal(peer_grant(a, 0, 2)->position, 3);
	assert_null(peer_grant(b, 1, 1));
	post(server, net_report(gc, 2, 0));
	net_run(&net, 2 * HD_MS);
	gb = peer_grant(b, 1, 1);
	assert_non_null(gb);
	assert_int_equal(gb->position, 4);
	assert_true(gb->after == peer_grant(a, 0, 2)->token);
	net_close(&net);
}

/* An idle path is granted in the same call: the answer is one network round trip away. */
static void test_grant_at_once(void **state) {
	struct peer *worker, *server;
	struct net net;
	hd_ns asked;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, SETTLED);
	for (uint32_t round = 1; round < 20; round++) {
		asked = net.now;
		post(worker, net_push(worker, round, MB, round - 1));
		net_run(&net, 2 * NET_LATENCY);
		assert_non_null(peer_grant(worker, 0, round));
		assert_true(net.now - asked <= 100 * HD_US);
		post(server, net_report(peer_grant(worker, 0, round), round, 80000000));
		net_run(&net, 2 * NET_LATENCY);
	}
	net_close(&net);
}

/* The worker waits for the answer: its packet leaves before the server's, of a push and of a pull. */
static void test_worker_is_notified_first(void **state) {
	struct peer *worker;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	for (int pull = 0; pull < 2; pull++) {
		net_run(&net, SETTLED);
		post(worker, pull ? net_pull(worker, 1) : net_push(worker, 1, MB, 0));
		net_run(&net, NET_LATENCY);
		assert_true(hd_addr_equal(net_next(&net), worker->addr));
		net_run(&net, NET_LATENCY);
		assert_true(pull ? !!peer_expect(worker, 0, 1) : !!peer_grant(worker, 0, 1));
	}
	net_close(&net);
}

/* Server and workers on one host: no transfer waits for another, and no rate is set; positions are given. */
static void test_local(void **state) {
	struct peer *worker, *server;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "h1");
	worker = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, SETTLED);
	for (uint32_t round = 1; round <= 5; round++)
		post(worker, net_push(worker, round, MB, 0));
	net_run(&net, 2 * NET_LATENCY);
	for (uint32_t round = 1; round <= 5; round++) {
		const struct hd_msg_grant *grant = peer_grant(worker, 0, round);

		assert_non_null(grant);
		assert_int_equal(grant->segments.count, 0);
		assert_int_equal(grant->after, 0);
		assert_int_equal(grant->position, round);
		assert_true(grant->cc_weight == 1);
	}
	/* `local` shows the bytes of the first transfer, and the next is granted as freely. */
	post(server, net_report(peer_grant(worker, 0, 1), 1, 80000000));
	post(worker, net_push(worker, 6, MB, 0));
	net_run(&net, 2 * NET_LATENCY);
	assert_int_equal(peer_grant(worker, 0, 6)->segments.count, 0);
	net_close(&net);
}

static void test_pull(void **state) {
	struct peer *worker, *server;
	const struct hd_msg_expect *e;
	const struct hd_msg_grant *g;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, SETTLED);
	post(worker, net_pull(worker, 1));
	net_run(&net, HD_MS);
	/* The server sends: it has the grant, and the worker's address. */
	g = peer_grant(server, 0, 1);
	e = peer_expect(worker, 0, 1);
	assert_non_null(g);
	assert_non_null(e);
	assert_int_equal(g->direction, HD_PULL);
	assert_int_equal(g->position, 0);
	assert_int_equal(g->bytes, NET_MODEL_BYTES);
	assert_int_equal(g->peer_ipv4, worker->addr.ipv4);
	assert_true(e->token == g->token);
	/* The server may not report a pull; its receiver may. */
	post(server, net_report(g, 5, 80000000));
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->hostile_owner, 1);
	assert_int_equal(net.controller->open_count, 1);
	post(worker, net_report(g, 5, 80000000));
	net_run(&net, HD_MS);
	assert_int_equal(net.controller->open_count, 0);
	assert_int_equal(net.controller->jobs[0]->pulls_delivered, 1);
	/* The versions that a worker reports do not count. */
	assert_int_equal(net.controller->jobs[0]->version, 0);
	net_close(&net);
}

/* --- repeated requests --- */

static void test_idempotent(void **state) {
	struct peer *server, *a, *b;
	struct hd_message again;
	uint64_t first;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	a = net_worker(&net, "t", "j", 0, 8);
	b = net_worker(&net, "t", "j", 1, 8);
	net_run(&net, SETTLED);
	for (int i = 0; i < 3; i++)
		post(a, net_push(a, 1, MB, 0));
	net_run(&net, HD_MS);
	first = peer_grant(a, 0, 1)->token;
	assert_int_equal(counters(&net)->grants, 1);
	assert_int_equal(counters(&net)->requests_repeated, 2);
	for (uint32_t i = 0; i < a->count; i++)
		if (a->log[i].kind == HD_MSG_GRANT)
			assert_true(a->log[i].grant.token == first);
	/* Pending and repeated: still once. */
	post(b, net_push(b, 1, 4 * MB, 0));
	post(b, net_push(b, 2, 4 * MB, 0));
	post(b, net_push(b, 2, 4 * MB, 0));
	net_run(&net, 3 * HD_MS);
	assert_int_equal(counters(&net)->grants, 2);
	assert_int_equal(net.controller->pending_count, 1);
	/* A newer attempt voids the older grant, and an older one changes nothing. */
	again = net_push(a, 1, MB, 0);
	again.request.attempt = 2;
	post(a, again);
	net_run(&net, 5 * HD_MS);
	assert_int_equal(peer_count(server, HD_MSG_VOID), 1);
	assert_true(peer_last(server, HD_MSG_VOID)->void_.token == first);
	assert_int_equal(peer_last(server, HD_MSG_VOID)->void_.reason, HD_REASON_CLOSED);
	assert_true(peer_grant(a, 0, 1)->token != first);
	assert_int_equal(peer_grant(a, 0, 1)->attempt, 2);
	post(a, net_push(a, 1, MB, 0));
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->requests_stale, 1);
	net_close(&net);
}

static void test_cancel(void **state) {
	struct hd_message cancel = {.kind = HD_MSG_CANCEL};
	struct peer *server, *a, *b;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	a = net_worker(&net, "t", "j", 0, 8);
	b = net_worker(&net, "t", "j", 1, 8);
	net_run(&net, SETTLED);
	post(a, net_push(a, 1, 4 * MB, 0));
	post(a, net_push(a, 2, 4 * MB, 0));
	post(a, net_push(a, 3, 4 * MB, 0));
	net_run(&net, 5 * HD_MS);
	assert_int_equal(net.controller->open_count, 2);
	cancel.cancel.job = net_job(a);
	/* Another worker may not. */
	cancel.cancel.round = 1;
	post(b, cancel);
	net_run(&net, 2 * HD_MS);
	assert_int_equal(counters(&net)->hostile_owner, 1);
	assert_int_equal(net.controller->open_count, 2);
	cancel.cancel.round = 3; /* pending: no node needs a notice */
	post(a, cancel);
	net_run(&net, 2 * HD_MS);
	assert_int_equal(net.controller->pending_count, 0);
	assert_int_equal(peer_count(server, HD_MSG_VOID), 0);
	cancel.cancel.round = 1;
	post(a, cancel);
	net_run(&net, 2 * HD_MS);
	assert_int_equal(peer_last(server, HD_MSG_VOID)->void_.position, 1);
	assert_int_equal(peer_last(server, HD_MSG_VOID)->void_.reason, HD_REASON_CANCELLED);
	assert_int_equal(net.controller->open_count, 1);
	net_close(&net);
}

/* --- drops --- */

static void test_drop_bound(void **state) {
	struct peer *server, *worker;
	const struct hd_msg_drop *d;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 4);
	net_run(&net, SETTLED);
	post(worker, net_push(worker, 1, MB, 0));
	net_run(&net, HD_MS);
	post(server, net_report(peer_grant(worker, 0, 1), 20, 80000000));
	net_run(&net, HD_MS);
	/* From version 16 with tau_max 4 the next position (21) comes too late by one. */
	post(worker, net_push(worker, 2, MB, 16));
	post(worker, net_push(worker, 3, MB, 17));
	net_run(&net, 5 * HD_MS);
	assert_null(peer_grant(worker, 0, 2));
	assert_non_null(peer_grant(worker, 0, 3));
	d = &peer_last(worker, HD_MSG_DROP)->drop;
	assert_int_equal(d->round, 2);
	assert_int_equal(d->reason, HD_REASON_BOUND);
	assert_int_equal(d->deadline, 0);
	assert_true(d->slack_s < 0);
	assert_int_equal(counters(&net)->drops_bound, 1);
	assert_int_equal(net.controller->jobs[0]->dropped_for[HD_REASON_BOUND], 1);
	/* Asked again (the DROP crossed a repeated request): the same answer, not another decision. */
	post(worker, net_push(worker, 2, MB, 16));
	net_run(&net, 2 * HD_MS);
	assert_int_equal(peer_count(worker, HD_MSG_DROP), 2);
	assert_int_equal(counters(&net)->drops_bound, 1);
	net_close(&net);
}

static void set_estimate(struct net *net, const char *name, double bps) {
	double beside[1] = {0};

	for (uint32_t link = 0; link < hd_controller_link_count(net->controller); link++) {
		struct hd_view_sample sample = {
			.at = net->now,
			.bytes = 10 * MB,
			.rate_bps = bps,
			.path_count = 1,
			.path = &link,
			.beside_bps = beside,
		};

		if (strcmp(hd_controller_link_name(net->controller, link), name) == 0)
			hd_view_sample(net->controller->view, &sample);
	}
}

/* Grants the next push and has it reported so; returns the least estimate of its path. */
static double sample_push(struct net *net, uint32_t round, uint64_t bps, hd_ns duration) {
	struct peer *worker = &net->peers[1], *server = &net->peers[0];
	const struct ctl_transfer *t;
	struct hd_message report;
	uint32_t path[2];

	post(worker, net_push(worker, round, MB, round - 1));
	net_run(net, HD_MS);
	t = TAILQ_FIRST(&net->controller->open);
	assert_non_null(t);
	assert_int_equal(t->path_count, 2);
	memcpy(path, t->path, sizeof path);
	report = net_report(peer_grant(worker, 0, round), round, bps);
	report.report.duration_ns = duration;
	net_run(net, duration);
	post(server, report);
	net_run(net, HD_MS);
	return 8
		* fmin(ctl_estimate_bytes(net->controller, path[0]),
		       ctl_estimate_bytes(net->controller, path[1]));
}

/* A sample that looks like a burst out of a socket's buffer raises no estimate by more than a sender can probe, and a
 * sample of a millisecond lowers none. */
static void test_implausible_samples(void **state) {
	struct net_config config = net_plain;
	struct net net;
	double seen;

	(void)state;
	config.topology = "{\"hosts\": [\"h1\", \"ps\"], \"switches\": [\"s\"], \"links\": "
			  "[[\"h1\", \"s\"], [\"ps\", \"s\"]]}";
	net_open(&net, &config);
	net_server(&net, "ps");
	net_worker(&net, "t", "j", 0, 8);
	net_run(&net, SETTLED);
	set_estimate(&net, "s>ps", 80e6);
	set_estimate(&net, "h1>s", 80e6);
	assert_true(fabs(sample_push(&net, 1, 10000000, HD_MS) - 80e6) < 1);
	seen = sample_push(&net, 2, UINT64_C(50000000000), 10 * HD_US);
	assert_true(seen > 90e6 && seen <= 100.001e6);
	/* With its time to it, the same as the first one counts. */
	sample_push(&net, 3, 10000000, MB * 8 * HD_SECOND / 10000000);
	assert_true(sample_push(&net, 4, 10000000, MB * 8 * HD_SECOND / 10000000) < 15e6);
	net_close(&net);
}

/* Case 3 of the paper's notes through messages: a slow update that is due first would idle the
 * server's link; theta drops it. The guard saves the next one of the same worker. */
static void test_theta_and_guard(void **state) {
	struct net_config config = net_plain;
	struct peer *server, *slow, *fast, *first;
	struct net net;
	uint32_t drops = 0;

	(void)state;
	config.theta = 1;
	config.drop_permille_max = 600;
	config.topology
		= "{\"hosts\": [\"h1\", \"h2\", \"h3\", \"ps\"], \"switches\": [\"s\"], \"links\": "
		  "[[\"h1\", \"s\"], [\"h2\", \"s\"], [\"h3\", \"s\"], [\"ps\", \"s\"]]}";
	net_open(&net, &config);
	server = net_server(&net, "ps");
	first = net_worker(&net, "t", "j", 0, 4);
	fast = net_worker(&net, "t", "j", 1, 4);
	slow = net_worker(&net, "t", "j", 2, 4);
	net_run(&net, SETTLED);
	set_estimate(&net, "s>ps", 80e6);
	set_estimate(&net, "h1>s", 80e6);
	set_estimate(&net, "h2>s", 80e6);
	set_estimate(&net, "h3>s", 8e6);
	for (uint32_t round = 1; round <= 8; round++) {
		uint64_t version = UINT64_C(10) * round;
		struct ctl_node *node = net.controller->jobs[0]->workers[2];
		bool kept = node->guard.last_was_idles;

		/* A long transfer runs; then two wait, of which the slow one is due at once. */
		net.controller->jobs[0]->version = hd_version_make(1, version);
		post(first, net_push(first, round, 4 * MB, version));
		net_run(&net, HD_MS);
		post(slow, net_push(slow, round, 4 * MB, version - 2));
		post(fast, net_push(fast, round, MB, version));
		net_run(&net, 4 * HD_MS);
		if (kept)
			assert_int_not_equal(net.controller->drops[drops - 1].round, round);
		if (peer_count(slow, HD_MSG_DROP) > drops) {
			drops++;
			assert_int_equal(
				peer_last(slow, HD_MSG_DROP)->drop.reason, HD_REASON_IDLES
			);
			assert_int_equal(peer_last(slow, HD_MSG_DROP)->drop.round, round);
			assert_false(kept);
		}
		for (int i = 0; i < 3; i++) {
			struct ctl_transfer *t = TAILQ_FIRST(&net.controller->open);
			struct hd_msg_grant g = {0};

			if (!t)
				break;
			g.job = t->job->id;
			g.worker = t->worker;
			g.round = t->round;
			g.token = t->token;
			g.attempt = 1;
			post(server, net_report(&g, 0, 0));
			net_run(&net, 3 * HD_MS);
		}
		assert_int_equal(net.controller->open_count + net.controller->pending_count, 0);
	}
	/* Never two in a row, and some were dropped. */
	assert_true(drops >= 2 && drops <= 4);
	assert_int_equal(counters(&net)->drops_idles, drops);
	net_close(&net);
}

/* No transfer may overtake a push that is due: its weight includes those that wait. One with time has only its own. */
static void test_due_push_weighs(void **state) {
	const struct net_config config = {.epoch = 1, .initial_bps = 100e6};
	static const struct {
		uint32_t tau_max;
		float weight;
	} cases[] = {{2, 3}, {8, 1}};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct peer *workers[4];
		struct hd_message push;
		struct net net;

		net_open(&net, &config);
		(void)net_server(&net, "ps");
		for (uint16_t w = 0; w < 4; w++)
			workers[w] = net_worker(&net, "t", "j", w, cases[i].tau_max);
		net_run(&net, 200 * HD_MS);
		push = net_push(workers[0], 1, NET_MODEL_BYTES, 0);
		assert_int_equal(peer_send(workers[0], &push), 0);
		net_run(&net, 5 * HD_MS);
		assert_non_null(peer_grant(workers[0], 0, 1));
		/* At position 1 it has tau_max - 1 to spare; that many of the three others may pass. */
		assert_true(
			fabsf(peer_grant(workers[0], 0, 1)->cc_weight - cases[i].weight) < 1e-6f
		);
		net_close(&net);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worker_waits_for_server),
		cmocka_unit_test(test_register_refused),
		cmocka_unit_test(test_unscheduled),
		cmocka_unit_test(test_order_and_horizon),
		cmocka_unit_test(test_grant_at_once),
		cmocka_unit_test(test_worker_is_notified_first),
		cmocka_unit_test(test_local),
		cmocka_unit_test(test_pull),
		cmocka_unit_test(test_idempotent),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_drop_bound),
		cmocka_unit_test(test_implausible_samples),
		cmocka_unit_test(test_theta_and_guard),
		cmocka_unit_test(test_due_push_weighs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
