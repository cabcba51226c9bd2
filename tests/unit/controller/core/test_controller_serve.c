/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of several nodes is a job's server: the one that was told so by the newest word. */
#include "controller_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define EVENTS_BYTES 4096
#define FIRST_EPOCH (UINT64_C(1) << 48) /* in a generation */

/* A job stays where it was told to be: who begins it elsewhere, as a server that was cut off may, is told to forget it,
 * whatever version it says, also while the job's server is away. */
static void test_begun_elsewhere(void **state) {
	struct peer *server, *other, *worker;
	struct hd_message m;
	uint64_t serving;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	assert_int_equal(stage_order(server)->order, HD_REPLICA_SERVE);
	serving = stage_order(server)->generation;
	assert_true(serving > 0);
	other = net_server(&net, "ps2");
	net_run(&net, SETTLED);
	m = stage_state(worker, 30, 40);
	m.state.generation = serving;
	post(server, m);
	net_run(&net, 5 * HD_MS);
	for (int away = 0; away < 2; away++) {
		if (away) {
			server->cut = true;
			net_run(&net, 2 * HD_SECOND);
			assert_null(net.controller->jobs[0]->server);
		}
		m = stage_state(worker, 0, 0);
		m.state.version = hd_version_make(9, 0);
		post(other, m);
		net_run(&net, 5 * HD_MS);
		assert_int_equal(peer_count(other, HD_MSG_REPLICA), (unsigned)away + 1);
		assert_int_equal(stage_order(other)->order, HD_REPLICA_RETIRE);
		assert_true(stage_order(other)->generation > serving);
		assert_string_equal(net.controller->jobs[0]->server_host, "ps");
		assert_int_equal(counters(&net)->rolled_back, 0);
	}
	server->cut = false;
	net_run(&net, 2 * HD_SECOND);
	post(server, net_register_server(server));
	net_run(&net, 5 * HD_MS);
	assert_int_equal(stage_order(server)->order, HD_REPLICA_SERVE);
	assert_true(stage_order(server)->generation > serving);
	assert_true(net.controller->jobs[0]->server->role == HD_ROLE_SERVER);
	net_close(&net);
}

/* After a restart only the generation tells which of two servers has the job by the newer order, in any order of
 * arrival. */
static void test_newer_word_wins(void **state) {
	for (int first = 0; first < 2; first++) {
		struct net_config second = net_plain;
		struct peer *servers[2], *worker;
		struct net net;

		(void)state;
		net_open(&net, &net_plain);
		servers[0] = net_server(&net, "ps");
		worker = net_worker(&net, "t", "j", 0, 8);
		servers[1] = net_server(&net, "ps2");
		net_run(&net, SETTLED);
		second.epoch = 2;
		net_restart(&net, &second);
		for (uint32_t i = 0; i < net.peer_count; i++)
			peer_restart(&net.peers[i]);
		net_run(&net, 100 * HD_MS);
		post(worker, net_register_worker(worker, 8, 0));
		for (int i = 0; i < 2; i++) {
			int which = i ^ first;
			struct hd_message m = stage_state(worker, 30, 40);

			m.state.generation = FIRST_EPOCH + 100 + (uint64_t)which;
			m.state.version = hd_version_make((uint16_t)(9 - which), 30);
			post(servers[which], net_register_server(servers[which]));
			post(servers[which], m);
			net_run(&net, 5 * HD_MS);
		}
		assert_string_equal(net.controller->jobs[0]->server_host, "ps2");
		assert_int_equal(stage_order(servers[0])->order, HD_REPLICA_RETIRE);
		assert_int_equal(stage_order(servers[1])->order, HD_REPLICA_SERVE);
		assert_int_equal(stage_order(servers[1])->generation, FIRST_EPOCH + 101);
		net_close(&net);
	}
}

/* The controller's log of nodes, a line each: kind, host, name, address, job. */
static void note_who(struct net *net, const struct hd_event *event) {
	const struct hd_who *who = event->who;
	char *text = net->user;
	size_t used = strlen(text);

	if (!who)
		return;
	assert_non_null(event->who->host);
	(void)snprintf(
		text + used,
		EVENTS_BYTES - used,
		"%s %s %s %08x:%u %s/%s\n",
		hd_event_name(event->kind),
		who->host,
		who->name,
		who->address.ipv4,
		who->address.port,
		who->tenant ? who->tenant : "",
		who->job ? who->job : ""
	);
}

static void
assert_event(const char *events, const char *kind, const struct peer *peer, const char *job) {
	char line[160];

	(void)snprintf(
		line,
		sizeof line,
		"%s %s %s %08x:%u %s\n",
		kind,
		peer->host,
		peer->host,
		peer->addr.ipv4,
		peer->addr.port,
		job
	);
	if (!strstr(events, line))
		fail_msg("no '%s' in:\n%s", line, events);
}

/* The server dies, its replica takes over and dies, the old one is back empty and has started the job again for a
 * worker that was cut off: the job waits for the replica, which has it. */
static void test_promoted_one_is_away(void **state) {
	struct peer *server, *replica, *worker;
	char events[EVENTS_BYTES] = "";
	struct hd_message m;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	net.on_event = note_who;
	net.user = events;
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	replica = net_peer(&net, HD_ROLE_REPLICA, "h2");
	m = net_register_server(replica);
	m.register_.role = HD_ROLE_REPLICA;
	m.register_.data_ipv4 = replica->addr.ipv4;
	m.register_.data_port = replica->addr.port;
	post(replica, m);
	net_run(&net, SETTLED);
	m = stage_state(worker, 30, 40);
	m.state.generation = stage_order(server)->generation;
	post(server, m);
	net_run(&net, SETTLED);
	assert_int_equal(stage_order(server)->order, HD_REPLICA_KEEP);
	m = (struct hd_message){.kind = HD_MSG_FOLLOW};
	m.follow = (struct hd_msg_follow){
		.job = net_job(worker),
		.generation = stage_order(server)->generation,
		.state = HD_FOLLOW_CAUGHT_UP,
		.version = hd_version_make(1, 30),
		.peer_ipv4 = replica->addr.ipv4,
		.peer_port = replica->addr.port,
	};
	post(server, m);
	net_run(&net, 5 * HD_MS);
	server->cut = true;
	net_run(&net, 2 * HD_SECOND);
	assert_int_equal(counters(&net)->promotions, 1);
	assert_int_equal(stage_order(replica)->order, HD_REPLICA_SERVE);
	assert_event(events, "node-up", server, "/");
	assert_event(events, "node-up", worker, "t/j");
	assert_event(events, "node-down", server, "/");
	assert_event(events, "promoted", replica, "t/j");
	m = stage_state(worker, 30, 40);
	m.state.version = hd_version_make(3, 30);
	m.state.generation = stage_order(replica)->generation;
	post(replica, m);
	net_run(&net, 5 * HD_MS);
	replica->cut = true;
	server->cut = false;
	net_run(&net, 2 * HD_SECOND);
	post(server, net_register_server(server));
	m = stage_state(worker, 0, 0);
	m.state.version = hd_version_make(700, 0);
	post(server, m);
	net_run(&net, 5 * HD_MS);
	assert_int_equal(stage_order(server)->order, HD_REPLICA_RETIRE);
	assert_null(net.controller->jobs[0]->server);
	assert_string_equal(net.controller->jobs[0]->server_host, "h2");
	assert_int_equal(counters(&net)->rolled_back, 0);
	net_close(&net);
}

/* --- a server that comes back with less than its replica holds --- */

/* FOLLOW of the replica itself, when it has registered. */
static struct hd_message held_by(const struct stage *t, uint64_t version) {
	struct hd_message m = {.kind = HD_MSG_FOLLOW};

	m.follow.job = net_job(t->worker);
	m.follow.generation = 5;
	m.follow.state = HD_FOLLOW_CAUGHT_UP;
	m.follow.version = hd_version_make(1, version);
	return m;
}

/* It is killed, and begins the job from this version. */
static void come_back(struct stage *t, uint16_t incarnation, uint64_t version) {
	struct hd_message m = stage_state(t->worker, version, 0);

	peer_restart(t->server);
	net_run(&t->net, 100 * HD_MS);
	assert_int_equal(counters(&t->net)->promotions, 0);
	post(t->server, net_register_server(t->server));
	net_run(&t->net, 5 * HD_MS);
	assert_int_equal(stage_order(t->server)->order, HD_REPLICA_SERVE);
	m.state.version = hd_version_make(incarnation, version);
	post(t->server, m);
	net_run(&t->net, 5 * HD_MS);
}

/* The replica is the server: at 20, where the one before it was at 30. */
static void assert_taken_over(struct stage *t, uint64_t lost) {
	struct hd_message m = stage_state(t->worker, 20, 0);

	assert_int_equal(counters(&t->net)->promotions, 1);
	assert_int_equal(stage_order(t->server)->order, HD_REPLICA_RETIRE);
	assert_int_equal(stage_order(t->replica)->order, HD_REPLICA_SERVE);
	assert_string_equal(t->net.controller->jobs[0]->server_host, "h2");
	m.state.version = hd_version_make(3, 20);
	m.state.generation = stage_order(t->replica)->generation;
	post(t->replica, m);
	net_run(&t->net, 5 * HD_MS);
	assert_int_equal(counters(&t->net)->rolled_back, lost);
	/* Its former server is its replica now. */
	net_run(&t->net, SETTLED);
	assert_int_equal(stage_order(t->replica)->order, HD_REPLICA_KEEP);
	assert_int_equal(stage_order(t->server)->order, HD_REPLICA_RETIRE);
}

static void test_comes_back_with_less(void **state) {
	static const struct {
		uint16_t incarnation;
		uint64_t version;
	} begun[] = {{700, 0}, {2, 19}};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct stage t;

		stage_open(&t);
		post(t.server, stage_follow(&t, 20));
		net_run(&t.net, 5 * HD_MS);
		come_back(&t, begun[i].incarnation, begun[i].version);
		assert_taken_over(&t, 10);
		net_close(&t.net);
	}
}

/* Then it goes on, and its replica follows it again: the replica was not told to drop its state. */
static void test_comes_back_with_as_much(void **state) {
	struct stage t;

	(void)state;
	stage_open(&t);
	post(t.server, stage_follow(&t, 20));
	net_run(&t.net, 5 * HD_MS);
	come_back(&t, 2, 20);
	assert_int_equal(counters(&t.net)->promotions, 0);
	assert_int_equal(counters(&t.net)->rolled_back, 10);
	assert_int_equal(stage_order(t.server)->order, HD_REPLICA_SERVE);
	net_run(&t.net, SETTLED);
	assert_int_equal(stage_order(t.server)->order, HD_REPLICA_KEEP);
	assert_int_equal(peer_count(t.replica, HD_MSG_REPLICA), 0);
	net_close(&t.net);
}

/* A server that goes on in the same incarnation has more, even if its messages were lost. */
static void test_is_the_same_incarnation(void **state) {
	struct hd_message m;
	struct stage t;

	(void)state;
	stage_open(&t);
	post(t.server, stage_follow(&t, 20));
	net_run(&t.net, 5 * HD_MS);
	come_back(&t, 1, 0);
	assert_int_equal(counters(&t.net)->promotions, 0);
	/* A new incarnation that the controller has answered already may report less than others hold of another
	 * history. */
	post(t.replica, held_by(&t, 50));
	m = stage_state(t.worker, 3, 0);
	m.state.version = hd_version_make(9, 3);
	m.state.generation = stage_order(t.server)->generation;
	post(t.server, m);
	net_run(&t.net, 5 * HD_MS);
	assert_int_equal(counters(&t.net)->promotions, 0);
	net_close(&t.net);
}

/* A new controller hears from the replica itself what it holds. */
static void test_replica_says_what_it_holds(void **state) {
	struct net_config second = net_plain;
	struct stage t;

	(void)state;
	stage_open(&t);
	second.epoch = 2;
	net_restart(&t.net, &second);
	for (uint32_t i = 0; i < t.net.peer_count; i++)
		peer_restart(&t.net.peers[i]);
	net_run(&t.net, 100 * HD_MS);
	post(t.replica, stage_register_replica(&t));
	post(t.replica, held_by(&t, 20));
	net_run(&t.net, 5 * HD_MS);
	post(t.worker, net_register_worker(t.worker, 8, 0));
	post(t.server, net_register_server(t.server));
	net_run(&t.net, 2 * HD_SECOND);
	come_back(&t, 700, 0);
	assert_taken_over(&t, 0); /* nothing is known of what is lost */
	net_close(&t.net);
}

/* One that is gone, too, or has another one's place: the server goes on, and that one is told to forget it. */
static void test_replica_is_gone_too(void **state) {
	for (int second = 0; second < 2; second++) {
		struct peer *other;
		struct stage t;

		(void)state;
		stage_open(&t);
		post(t.server, stage_follow(&t, 20));
		net_run(&t.net, 5 * HD_MS);
		peer_restart(t.replica);
		net_run(&t.net, 100 * HD_MS);
		if (second) {
			other = t.replica;
			t.replica = net_peer(&t.net, HD_ROLE_REPLICA, "h3");
			post(t.replica, stage_register_replica(&t));
			net_run(&t.net, SETTLED);
			post(other, stage_register_replica(&(struct stage){.replica = other}));
			post(other, held_by(&t, 20));
			net_run(&t.net, 5 * HD_MS);
			assert_int_equal(stage_order(other)->order, HD_REPLICA_RETIRE);
		}
		come_back(&t, 700, 0);
		assert_int_equal(counters(&t.net)->promotions, 0);
		assert_int_equal(stage_order(t.server)->order, HD_REPLICA_SERVE);
		assert_int_equal(counters(&t.net)->rolled_back, 30);
		net_close(&t.net);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comes_back_with_less),
		cmocka_unit_test(test_comes_back_with_as_much),
		cmocka_unit_test(test_is_the_same_incarnation),
		cmocka_unit_test(test_replica_says_what_it_holds),
		cmocka_unit_test(test_replica_is_gone_too),
		cmocka_unit_test(test_begun_elsewhere),
		cmocka_unit_test(test_newer_word_wins),
		cmocka_unit_test(test_promoted_one_is_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
