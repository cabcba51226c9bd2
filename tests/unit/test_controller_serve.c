/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of several nodes is a job's server: the one that was told so by the newest word. */
#include "controller_net.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct hd_message
server_state(const struct peer *worker, uint64_t version, uint64_t position) {
	struct hd_message m = {.kind = HD_MSG_STATE};

	m.state.job = net_job(worker);
	m.state.version = hd_version_make(1, version);
	m.state.position = position;
	m.state.tau_max = 8;
	m.state.model_bytes = NET_MODEL_BYTES;
	return m;
}

static const struct hd_msg_replica *newest_order(const struct peer *peer) {
	return &peer_last(peer, HD_MSG_REPLICA)->replica;
}

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
	assert_int_equal(newest_order(server)->order, HD_REPLICA_SERVE);
	serving = newest_order(server)->generation;
	assert_true(serving > 0);
	other = net_server(&net, "ps2");
	net_run(&net, SETTLED);
	m = server_state(worker, 30, 40);
	m.state.generation = serving;
	say(server, m);
	net_run(&net, 5 * HD_MS);
	for (int away = 0; away < 2; away++) {
		if (away) {
			server->cut = true;
			net_run(&net, 2 * HD_SECOND);
			assert_null(net.controller->jobs[0]->server);
		}
		m = server_state(worker, 0, 0);
		m.state.version = hd_version_make(9, 0);
		say(other, m);
		net_run(&net, 5 * HD_MS);
		assert_int_equal(peer_count(other, HD_MSG_REPLICA), (unsigned)away + 1);
		assert_int_equal(newest_order(other)->order, HD_REPLICA_RETIRE);
		assert_true(newest_order(other)->generation > serving);
		assert_string_equal(net.controller->jobs[0]->server_host, "ps");
		assert_int_equal(counters(&net)->rolled_back, 0);
	}
	server->cut = false;
	net_run(&net, 2 * HD_SECOND);
	say(server, net_register_server(server));
	net_run(&net, 5 * HD_MS);
	assert_int_equal(newest_order(server)->order, HD_REPLICA_SERVE);
	assert_true(newest_order(server)->generation > serving);
	assert_true(net.controller->jobs[0]->server->role == HD_ROLE_SERVER);
	net_close(&net);
}

/* After a restart only the generation tells which of two has the job by the newer word, whoever comes first. */
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
		say(worker, net_register_worker(worker, 8, 0));
		for (int i = 0; i < 2; i++) {
			int which = i ^ first;
			struct hd_message m = server_state(worker, 30, 40);

			m.state.generation = 100 + (uint64_t)which;
			m.state.version = hd_version_make((uint16_t)(9 - which), 30);
			say(servers[which], net_register_server(servers[which]));
			say(servers[which], m);
			net_run(&net, 5 * HD_MS);
		}
		assert_string_equal(net.controller->jobs[0]->server_host, "ps2");
		assert_int_equal(newest_order(servers[0])->order, HD_REPLICA_RETIRE);
		assert_int_equal(newest_order(servers[1])->order, HD_REPLICA_SERVE);
		assert_int_equal(newest_order(servers[1])->generation, 101);
		net_close(&net);
	}
}

/* The server dies, its replica takes over and dies, the old one is back with nothing and has begun the job anew for a
 * worker that was cut off: the job waits for the replica, which has it. */
static void test_promoted_one_is_away(void **state) {
	struct peer *server, *replica, *worker;
	struct hd_message m;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	replica = net_peer(&net, HD_ROLE_REPLICA, "h2");
	m = net_register_server(replica);
	m.register_.role = HD_ROLE_REPLICA;
	m.register_.data_ipv4 = replica->addr.ipv4;
	m.register_.data_port = replica->addr.port;
	say(replica, m);
	net_run(&net, SETTLED);
	m = server_state(worker, 30, 40);
	m.state.generation = newest_order(server)->generation;
	say(server, m);
	net_run(&net, SETTLED);
	assert_int_equal(newest_order(server)->order, HD_REPLICA_KEEP);
	m = (struct hd_message){.kind = HD_MSG_FOLLOW};
	m.follow = (struct hd_msg_follow){
		.job = net_job(worker),
		.generation = newest_order(server)->generation,
		.state = HD_FOLLOW_STEP,
		.version = hd_version_make(1, 30),
		.peer_ipv4 = replica->addr.ipv4,
		.peer_port = replica->addr.port,
	};
	say(server, m);
	net_run(&net, 5 * HD_MS);
	server->cut = true;
	net_run(&net, 2 * HD_SECOND);
	assert_int_equal(counters(&net)->promotions, 1);
	assert_int_equal(newest_order(replica)->order, HD_REPLICA_SERVE);
	m = server_state(worker, 30, 40);
	m.state.version = hd_version_make(3, 30);
	m.state.generation = newest_order(replica)->generation;
	say(replica, m);
	net_run(&net, 5 * HD_MS);
	replica->cut = true;
	server->cut = false;
	net_run(&net, 2 * HD_SECOND);
	say(server, net_register_server(server));
	m = server_state(worker, 0, 0);
	m.state.version = hd_version_make(700, 0);
	say(server, m);
	net_run(&net, 5 * HD_MS);
	assert_int_equal(newest_order(server)->order, HD_REPLICA_RETIRE);
	assert_null(net.controller->jobs[0]->server);
	assert_string_equal(net.controller->jobs[0]->server_host, "h2");
	assert_int_equal(counters(&net)->rolled_back, 0);
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begun_elsewhere),
		cmocka_unit_test(test_newer_word_wins),
		cmocka_unit_test(test_promoted_one_is_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
