/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller core by messages: leases, restarts, late transfers, limits, hostility. */
#include "controller_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- leases and restarts --- */

static void test_worker_lease(void **state) {
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
	a->cut = true;
	post(b, net_push(b, 1, 4 * MB, 0));
	net_run(&net, 3 * HD_SECOND);
	assert_int_equal(peer_count(server, HD_MSG_VOID), 2);
	assert_int_equal(peer_last(server, HD_MSG_VOID)->void_.reason, HD_REASON_LEASE);
	assert_int_equal(peer_last(server, HD_MSG_VOID)->void_.position, 2);
	assert_int_equal(net_count_events(&net, HD_EVENT_NODE_DOWN), 1);
	assert_int_equal(net_count_events(&net, HD_EVENT_VOIDED), 2);
	/* Nothing of it is left, and who waited behind it runs. */
	assert_int_equal(net.controller->pending_count, 0);
	assert_int_equal(net.controller->open_count, 1);
	assert_non_null(peer_grant(b, 1, 1));
	assert_int_equal(net.controller->jobs[0]->worker_count, 1);
	/* It comes back. */
	a->cut = false;
	net_run(&net, 3 * HD_SECOND);
	post(a, net_register_worker(a, 8, 1));
	net_run(&net, 10 * HD_MS);
	assert_int_equal(net.controller->jobs[0]->worker_count, 2);
	net_close(&net);
}

static struct hd_message
server_state(const struct peer *worker, uint64_t version, uint64_t position, uint32_t inflight) {
	struct hd_message m = {.kind = HD_MSG_STATE};

	m.state.job = net_job(worker);
	m.state.version = hd_version_make(1, version);
	m.state.position = position;
	m.state.tau_max = 8;
	m.state.model_bytes = NET_MODEL_BYTES;
	m.state.inflight = inflight;
	return m;
}

static void test_server_restart(void **state) {
	struct peer *server, *other, *worker;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	other = net_server(&net, "ps2");
	net_run(&net, SETTLED);
	post(worker, net_push(worker, 1, 4 * MB, 0));
	post(worker, net_push(worker, 2, 4 * MB, 0));
	post(worker, net_push(worker, 3, 4 * MB, 0));
	net_run(&net, 5 * HD_MS);
	assert_int_equal(net.controller->open_count, 2);
	peer_restart(server);
	net_run(&net, 200 * HD_MS);
	/* Its transfers are void, the request waits, and no other server gets the job. */
	assert_int_equal(net.controller->open_count, 0);
	assert_int_equal(net.controller->pending_count, 1);
	assert_int_equal(peer_count(worker, HD_MSG_VOID), 2);
	assert_int_equal(peer_count(other, HD_MSG_EXPECT), 0);
	assert_int_equal(net.controller->jobs[0]->state, CTL_JOB_WAITING);
	post(server, net_register_server(server));
	post(server, server_state(worker, 3, 40, 0));
	net_run(&net, 5 * HD_MS);
	assert_int_equal(peer_count(worker, HD_MSG_REGISTERED), 2);
	assert_int_equal(peer_grant(worker, 0, 3)->position, 41);
	assert_int_equal(ctl_job_v_init(net.controller->jobs[0]), 4);
	net_close(&net);
}

/* Versions that the old server had reported and its new incarnation lacks are reported and counted, once. */
static void test_rolled_back(void **state) {
	struct peer *server, *worker;
	struct hd_message m;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, SETTLED);
	m = server_state(worker, 30, 40, 0);
	post(server, m);
	net_run(&net, 5 * HD_MS);
	/* Its session alone was new: nothing is lost. */
	peer_restart(server);
	net_run(&net, 200 * HD_MS);
	post(server, net_register_server(server));
	post(server, m);
	net_run(&net, 5 * HD_MS);
	assert_int_equal(counters(&net)->rolled_back, 0);
	peer_restart(server);
	net_run(&net, 200 * HD_MS);
	post(server, net_register_server(server));
	m.state.version = hd_version_make(2, 23);
	post(server, m);
	net_run(&net, 5 * HD_MS);
	assert_int_equal(counters(&net)->rolled_back, 7);
	assert_int_equal(net_count_events(&net, HD_EVENT_ROLLED_BACK), 1);
	post(server, m);
	net_run(&net, 5 * HD_MS);
	assert_int_equal(counters(&net)->rolled_back, 7);
	net_close(&net);
}

static struct hd_message
inflight(const struct peer *worker, uint32_t round, uint64_t token, uint64_t position) {
	struct hd_message m = {.kind = HD_MSG_INFLIGHT};

	m.inflight.job = net_job(worker);
	m.inflight.worker = worker->worker;
	m.inflight.round = round;
	m.inflight.attempt = 1;
	m.inflight.token = token;
	m.inflight.position = position;
	m.inflight.bytes = 4 * MB;
	m.inflight.held_bytes = MB;
	return m;
}

/* A new controller learns what is open before it plans: positions go on, the link is taken. */
static void test_controller_restart(void **state) {
	struct net_config second = net_plain;
	struct peer *server, *a, *b;
	const struct hd_msg_grant *g;
	struct hd_msg_grant old = {0};
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	a = net_worker(&net, "t", "j", 0, 8);
	b = net_worker(&net, "t", "j", 1, 8);
	second.epoch = 2;
	net_restart(&net, &second);
	net_run(&net, 3 * HD_SECOND);
	assert_true(server->open && a->open && b->open);
	/* Workers first: without the server's word nothing is placed for the detection time. */
	post(a, net_register_worker(a, 8, 1));
	post(b, net_register_worker(b, 8, 1));
	post(b, net_push(b, 1, MB, 30));
	net_run(&net, 10 * HD_MS);
	assert_null(peer_grant(b, 1, 1));
	post(server, net_register_server(server));
	net_run(&net, HD_MS);
	post(server, server_state(a, 30, 36, 2));
	post(server, inflight(a, 5, 777, 35));
	net_run(&net, 10 * HD_MS);
	assert_null(peer_grant(b, 1, 1));
	post(server, inflight(a, 6, 778, 36));
	net_run(&net, 10 * HD_MS);
	assert_int_equal(counters(&net)->restored, 2);
	/* It was planned, and the link has one that runs and one behind it. */
	assert_int_equal(counters(&net)->plans, 1);
	assert_null(peer_grant(b, 1, 1));
	old.job = net_job(a);
	old.token = 777;
	old.round = 5;
	old.attempt = 1;
	post(server, net_report(&old, 31, 0));
	net_run(&net, 10 * HD_MS);
	g = peer_grant(b, 1, 1);
	assert_non_null(g);
	assert_int_equal(g->epoch, 2);
	assert_int_equal(g->position, 37);
	assert_true(g->after == 778);
	assert_int_equal(peer_last(b, HD_MSG_REGISTERED)->registered.epoch, 2);
	/* One update is open: this one should be version 33, after the 3 MB that are missing. */
	assert_int_equal(ctl_transfer_by_token(net.controller, g->token)->planned, 33);
	assert_true(g->segments.item[0].start_ns > 200 * HD_MS);
	assert_int_equal(net.controller->open_count, 2);
	assert_int_equal(counters(&net)->reports, 1);
	/* A worker that asks again from the first attempt is a new incarnation, which does not know the transfer that
	 * the server reported: that one ends, and the request is granted. */
	post(a, net_push(a, 6, 4 * MB, 30));
	net_run(&net, HD_MS);
	assert_int_equal(net.controller->open_count + net.controller->pending_count, 2);
	assert_int_equal(peer_last(server, HD_MSG_VOID)->void_.token, 778);
	assert_int_equal(peer_last(server, HD_MSG_VOID)->void_.reason, HD_REASON_CLOSED);
	old.token = peer_grant(b, 1, 1)->token;
	old.worker = 1;
	old.round = 1;
	post(server, net_report(&old, 32, 0));
	net_run(&net, HD_SECOND);
	assert_non_null(peer_grant(a, 0, 6));
	net_close(&net);
}

/* --- the reservation table --- */

/* A transfer that is late keeps its place; who is behind it moves; much later it is void. */
static void test_overrun(void **state) {
	struct peer *a, *b, *server;
	struct ctl_transfer *ta, *tb;
	struct net net;
	hd_ns planned;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	a = net_worker(&net, "t", "j", 0, 8);
	b = net_worker(&net, "t", "j", 1, 8);
	net_run(&net, SETTLED);
	post(a, net_push(a, 1, MB, 0)); /* 100 ms */
	post(b, net_push(b, 1, MB, 0));
	net_run(&net, 5 * HD_MS);
	post(b, net_push(b, 2, MB, 0)); /* keeps the rounds going */
	ta = ctl_transfer_by_token(net.controller, peer_grant(a, 0, 1)->token);
	tb = ctl_transfer_by_token(net.controller, peer_grant(b, 1, 1)->token);
	planned = tb->start;
	net_run(&net, 300 * HD_MS);
	assert_true(ta->overrun_since > 0);
	assert_true(ta->reserved[0].end > net.now - CTL_REPLAN_MAX_NS);
	assert_true(tb->reserved[0].start >= ta->reserved[0].end);
	assert_true(tb->reserved[0].start > planned + 150 * HD_MS);
	assert_int_equal(counters(&net)->overruns, 1);
	for (uint32_t link = 0; link < hd_controller_link_count(net.controller); link++)
		for (hd_ns at = net.now; at < net.now + HD_SECOND; at += HD_MS)
			assert_true(
				hd_controller_reserved_bps(net.controller, link, at)
				<= hd_controller_planned_bps(net.controller, link) * 1.00001
			);
	/* a ends at last: b moves up. */
	post(server, net_report(peer_grant(a, 0, 1), 1, 0));
	net_run(&net, 60 * HD_MS);
	assert_true(tb->reserved[0].start <= net.now);
	/* Held but not committed: the link is free, the position is not. */
	{
		struct hd_message m = net_report(peer_grant(b, 1, 1), 0, 80000000);

		m.report.outcome = HD_OUTCOME_PENDING;
		post(server, m);
		net_run(&net, 2 * HD_MS);
		assert_true(tb->state == CTL_HELD);
		assert_int_equal(tb->reserved_count, 0);
		assert_int_equal(ctl_job_v_init(net.controller->jobs[0]), 3);
	}
	net_run(&net, 30 * HD_SECOND);
	assert_int_equal(net.controller->open_count, 0);
	assert_int_equal(counters(&net)->stuck, 2);
	assert_int_equal(peer_last(server, HD_MSG_VOID)->void_.reason, HD_REASON_TIMEOUT);
	net_close(&net);
}

/* --- hostile and absurd --- */

static void test_limits(void **state) {
	struct peer *worker;
	struct hd_message m;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, SETTLED);
	post(worker, net_push(worker, 1, NET_MODEL_BYTES + 1, 0));
	net_run(&net, HD_MS);
	assert_int_equal(peer_last(worker, HD_MSG_DROP)->drop.reason, HD_REASON_REFUSED);
	post(worker, net_push(worker, 1, UINT64_MAX, 0));
	post(worker, net_push(worker, 1, 0, 0));
	m = net_push(worker, 1, MB, 0);
	m.request.dtype = 77;
	post(worker, m);
	m = net_push(worker, 0, MB, 0);
	post(worker, m);
	m = net_push(worker, 1, MB, 0);
	m.request.attempt = 0;
	post(worker, m);
	net_run(&net, HD_MS);
	assert_int_equal(peer_count(worker, HD_MSG_DROP), 6);
	assert_int_equal(counters(&net)->requests_refused, 6);
	assert_int_equal(counters(&net)->requests, 0);
	/* A base of the future is planned as what is newest. */
	m = net_push(worker, 1, MB, 0);
	m.request.base = UINT64_MAX;
	post(worker, m);
	net_run(&net, HD_MS);
	assert_non_null(peer_grant(worker, 0, 1));
	for (uint32_t round = 2; round < 400; round++) {
		post(worker, net_pull(worker, round)); /* a pull has no deadline: it waits */
		net_run(&net, 2 * HD_MS);
	}
	assert_true(
		net.controller->pending_count + net.controller->open_count <= CTL_WORKER_PENDING_MAX
	);
	assert_int_equal(peer_last(worker, HD_MSG_DROP)->drop.reason, HD_REASON_NO_MEMORY);
	net_close(&net);
}

static void test_hostile(void **state) {
	struct peer *server, *worker, *victim, *shell;
	struct hd_message m;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	victim = net_worker(&net, "t", "j", 1, 8);
	shell = net_peer(&net, HD_ROLE_SHELL, "ctl");
	net_run(&net, SETTLED);
	post(victim, net_push(victim, 1, MB, 0));
	net_run(&net, HD_MS);
	/* For another worker, for another job, before registering. */
	post(worker, net_push(victim, 2, MB, 0));
	m = net_push(worker, 1, MB, 0);
	m.request.job++;
	post(worker, m);
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->hostile_owner, 2);
	assert_non_null(strstr(worker->refused, "another job or worker"));
	post(shell, net_push(worker, 1, MB, 0));
	post(server, net_push(worker, 1, MB, 0));
	m = net_register_server(shell);
	post(shell, m);
	m = (struct hd_message){.kind = HD_MSG_SHOW};
	(void)snprintf(m.show.table, sizeof m.show.table, "nodes");
	post(worker, m);
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->hostile_role, 3);
	assert_int_equal(counters(&net)->register_refused, 1);
	/* All that while the victim's transfer was left alone, and nothing else was granted. */
	assert_int_equal(net.controller->open_count, 1);
	assert_int_equal(counters(&net)->grants, 1);
	assert_int_equal(counters(&net)->voids, 0);
	net_close(&net);
}

/* Reports, states and grants of those who may not say them, or of nonsense. */
static void test_hostile_reports(void **state) {
	struct peer *server, *other, *worker, *victim;
	struct hd_message m;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	other = net_server(&net, "zz");
	worker = net_worker(&net, "t", "j", 0, 8);
	victim = net_worker(&net, "t", "j", 1, 8);
	net_run(&net, SETTLED);
	post(victim, net_push(victim, 1, MB, 0));
	net_run(&net, HD_MS);
	/* A push's end by its own worker, by another server, of nonsense. */
	m = net_report(peer_grant(victim, 1, 1), 1000, 1);
	post(victim, m);
	post(other, m);
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->hostile_owner, 2);
	m.report.outcome = 99;
	post(server, m);
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->hostile_value, 1);
	m.report.outcome = HD_OUTCOME_APPLIED;
	m.report.token++;
	post(server, m);
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->reports_unknown, 1);
	/* Taking a busy job over; telling of transfers of a job that is elsewhere. */
	post(other, server_state(worker, 5, 5, 0));
	post(other, inflight(worker, 1, 5, 5));
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->hostile_owner, 3);
	assert_int_equal(peer_last(other, HD_MSG_REPLICA)->replica.order, HD_REPLICA_RETIRE);
	m = inflight(worker, 1, 0, 5);
	post(server, m);
	m = inflight(worker, 1, 5, 5);
	m.inflight.worker = HD_WORKERS_MAX;
	post(server, m);
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->hostile_value, 3);
	m = (struct hd_message){.kind = HD_MSG_GRANT};
	post(worker, m);
	m.kind = HD_MSG_VOID;
	post(server, m);
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->hostile_kind, 2);
	/* All that while the victim's transfer was left alone, and nothing else was granted. */
	assert_int_equal(net.controller->open_count, 1);
	assert_int_equal(counters(&net)->grants, 1);
	assert_int_equal(counters(&net)->voids, 0);
	net_close(&net);
}

/* Two processes of one host with one rank: the newer one has it, the older is told for good. */
static void test_same_rank(void **state) {
	struct peer *a, *b, *server;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	a = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, SETTLED);
	post(a, net_push(a, 1, MB, 0));
	net_run(&net, HD_MS);
	net.beside = a;
	b = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, HD_MS);
	assert_non_null(strstr(a->refused, "registered again from host"));
	assert_int_equal(peer_count(server, HD_MSG_VOID), 1);
	assert_non_null(peer_last(b, HD_MSG_REGISTERED));
	post(a, net_push(a, 2, MB, 0));
	net_run(&net, HD_MS);
	assert_int_equal(counters(&net)->grants, 1);
	assert_int_equal(net.controller->jobs[0]->worker_count, 1);
	net_close(&net);
}

/* Everything ends in spite of lost packets. */
static void test_loss(void **state) {
	struct peer *server, *worker;
	struct net net;
	uint64_t version = 0;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, SETTLED);
	net.loss = 0.2;
	for (uint32_t round = 1; round <= 100; round++) {
		post(worker, net_push(worker, round, MB, version));
		for (int i = 0; i < 200 && !peer_grant(worker, 0, round); i++)
			net_run(&net, 10 * HD_MS);
		assert_non_null(peer_grant(worker, 0, round));
		assert_int_equal(peer_grant(worker, 0, round)->position, round);
		post(server, net_report(peer_grant(worker, 0, round), ++version, 80000000));
	}
	net.loss = 0;
	net_run(&net, 3 * HD_SECOND);
	assert_int_equal(net.controller->open_count, 0);
	assert_int_equal(net.controller->jobs[0]->applied, 100);
	assert_int_equal(net.controller->jobs[0]->granted, 100);
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worker_lease),
		cmocka_unit_test(test_server_restart),
		cmocka_unit_test(test_rolled_back),
		cmocka_unit_test(test_controller_restart),
		cmocka_unit_test(test_overrun),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_hostile_reports),
		cmocka_unit_test(test_same_rank),
		cmocka_unit_test(test_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
