/* SPDX-License-Identifier: BSD-3-Clause */
/* Promotions that follow one another: two nodes that are slow by turns do not exchange the job all the time. */
#include "controller_stage.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The server has begun the job, and the other one, which keeps it, has caught up. */
static void
keep_up(struct stage *t, struct peer *server, struct peer *keeper, uint16_t incarnation) {
	struct hd_message m = stage_state(t->worker, 30, 40);

	m.state.version = hd_version_make(incarnation, 30);
	m.state.generation = stage_order(server)->generation;
	post(server, m);
	net_run(&t->net, SETTLED);
	assert_int_equal(stage_order(server)->order, HD_REPLICA_KEEP);
	m = stage_follow(t, 30);
	m.follow.generation = stage_order(server)->generation;
	m.follow.state = HD_FOLLOW_CAUGHT_UP;
	m.follow.version = hd_version_make(incarnation, 30);
	m.follow.peer_ipv4 = keeper->addr.ipv4;
	m.follow.peer_port = keeper->addr.port;
	post(server, m);
	net_run(&t->net, 5 * HD_MS);
	assert_true(t->net.controller->jobs[0]->replica.caught_up);
}

static void assert_server(struct stage *t, const struct peer *peer) {
	const struct ctl_job *job = t->net.controller->jobs[0];

	if (!peer) {
		assert_null(job->server);
		return;
	}
	assert_non_null(job->server);
	assert_string_equal(job->server->host, peer->host);
}

/* The server was cut off, its replica took over, the first one keeps the job for it by now. */
static void open_swung(struct stage *t) {
	stage_open(t);
	keep_up(t, t->server, t->replica, 1);
	t->server->cut = true;
	net_run(&t->net, HD_SECOND);
	assert_int_equal(counters(&t->net)->promotions, 1);
	assert_int_equal(counters(&t->net)->promotions_held, 0);
	t->server->cut = false;
	net_run(&t->net, 2 * HD_SECOND);
	post(t->server, net_register_server(t->server));
	net_run(&t->net, 5 * HD_MS);
	keep_up(t, t->replica, t->server, 3);
	assert_server(t, t->replica);
}

/* Its time is not over yet: it goes on as if nothing had been, with the replica that it had. */
static void test_is_not_given_back(void **state) {
	uint64_t generation, served;
	struct hd_message m;
	struct stage t;

	(void)state;
	open_swung(&t);
	generation = t.net.controller->jobs[0]->replica.generation;
	for (int away = 1; away <= 3; away++) {
		t.replica->cut = true;
		net_run(&t.net, 3 * HD_SECOND);
		assert_server(&t, NULL);
		assert_int_equal(counters(&t.net)->promotions_held, away);
		t.replica->cut = false;
		net_run(&t.net, 500 * HD_MS);
		served = stage_order(t.replica)->generation;
		post(t.replica, stage_register_replica(&t));
		m = stage_state(t.worker, 30, 40);
		m.state.version = hd_version_make(3, 30);
		m.state.generation = served;
		post(t.replica, m);
		net_run(&t.net, SETTLED);
		assert_server(&t, t.replica);
		assert_int_equal(stage_order(t.replica)->order, HD_REPLICA_SERVE);
		assert_true(stage_order(t.replica)->generation > served);
		assert_true(t.net.controller->jobs[0]->replica.caught_up);
		assert_int_equal(t.net.controller->jobs[0]->replica.generation, generation);
	}
	assert_int_equal(counters(&t.net)->promotions, 1);
	net_close(&t.net);
}

/* A server that is away for longer is replaced, each time after four times as long; after a calm minute at once. */
static void test_is_gone_for_longer(void **state) {
	static const hd_ns waits[] = {4, 16, 64, 64, 0};
	struct peer *at, *other;
	struct stage t;

	(void)state;
	open_swung(&t);
	at = t.replica;
	other = t.server;
	for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
		if (waits[i] == 0)
			net_run(&t.net, 61 * HD_SECOND);
		at->cut = true;
		net_run(&t.net, waits[i] * HD_SECOND);
		assert_int_equal(counters(&t.net)->promotions, 1 + i);
		net_run(&t.net, HD_SECOND);
		assert_int_equal(counters(&t.net)->promotions, 2 + i);
		assert_server(&t, other);
		at->cut = false;
		net_run(&t.net, 2 * HD_SECOND);
		post(at, at == t.server ? net_register_server(at) : stage_register_replica(&t));
		net_run(&t.net, 5 * HD_MS);
		keep_up(&t, other, at, (uint16_t)(5 + i));
		at = other;
		other = other == t.server ? t.replica : t.server;
	}
	net_close(&t.net);
}

/* A new process has less than its replica: it is not waited for. Neither is one that reports that it leaves. */
static void test_is_another_incarnation(void **state) {
	for (int leaves = 0; leaves < 2; leaves++) {
		struct stage t;

		(void)state;
		open_swung(&t);
		if (leaves) {
			t.net.sender = t.replica->addr;
			hd_session_close(
				t.replica->session, HD_REASON_CLOSED, "", t.net.now, &t.net.sink
			);
		} else {
			peer_restart(t.replica);
			net_run(&t.net, 100 * HD_MS);
			assert_int_equal(counters(&t.net)->promotions, 1);
			post(t.replica, stage_register_replica(&t));
		}
		net_run(&t.net, 5 * HD_MS);
		assert_int_equal(counters(&t.net)->promotions, 2);
		assert_server(&t, t.server);
		net_close(&t.net);
	}
}

/* The replica goes as well: the server is notified when it is back that it is alone. */
static void test_both_are_away(void **state) {
	struct stage t;

	(void)state;
	open_swung(&t);
	t.replica->cut = true;
	net_run(&t.net, HD_SECOND);
	t.server->cut = true;
	net_run(&t.net, 8 * HD_SECOND);
	assert_server(&t, NULL);
	t.replica->cut = false;
	net_run(&t.net, 500 * HD_MS);
	assert_int_equal(stage_order(t.replica)->order, HD_REPLICA_KEEP);
	post(t.replica, stage_register_replica(&t));
	net_run(&t.net, 5 * HD_MS);
	assert_server(&t, t.replica);
	assert_int_equal(stage_order(t.replica)->order, HD_REPLICA_ALONE);
	assert_int_equal(counters(&t.net)->promotions, 1);
	net_close(&t.net);
}

/* It gives its session up, of which the controller does not hear, and opens another one. */
static void begin_session(struct peer *peer) {
	struct net *net = peer->net;

	peer->cut = true;
	net->sender = peer->addr;
	hd_session_close(peer->session, HD_REASON_CLOSED, "", net->now, &net->sink);
	peer->cut = false;
	assert_int_equal(
		hd_endpoint_connect(peer->endpoint, net->addr, net->now, &peer->session), 0
	);
	net_run(net, 100 * HD_MS);
}

/* A server that has a new session may be the process that it was: then it stays the server. */
static void test_session_begins_again(void **state) {
	struct stage t;

	(void)state;
	stage_open(&t);
	keep_up(&t, t.server, t.replica, 1);
	begin_session(t.server);
	assert_server(&t, NULL);
	post(t.server, net_register_server(t.server));
	net_run(&t.net, 5 * HD_MS);
	assert_server(&t, t.server);
	net_run(&t.net, HD_SECOND);
	assert_int_equal(counters(&t.net)->promotions, 0);
	assert_true(t.net.controller->jobs[0]->replica.caught_up);
	/* One that does not say who it is has not long. */
	begin_session(t.server);
	assert_int_equal(counters(&t.net)->promotions, 0);
	net_run(&t.net, 200 * HD_MS);
	assert_int_equal(counters(&t.net)->promotions, 1);
	net_close(&t.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_is_not_given_back),
		cmocka_unit_test(test_is_gone_for_longer),
		cmocka_unit_test(test_is_another_incarnation),
		cmocka_unit_test(test_both_are_away),
		cmocka_unit_test(test_session_begins_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
