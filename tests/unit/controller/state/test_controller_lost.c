/* SPDX-License-Identifier: BSD-3-Clause */
/* The node to which a former incarnation of the controller gave a job is back without it. */
#include "controller_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct net_config first = {.epoch = 1, .initial_bps = 80e6, .theta = 3, .logs = true};

/* The controller dies and is back with the state that it kept. All sessions are open again. */
static void restart(struct net *net) {
	const struct net_config second
		= {.epoch = 2, .initial_bps = 80e6, .theta = 3, .logs = true};
	char *kept = net->kept, error[256];

	net->kept = NULL;
	net_restart(net, &second);
	if (hd_controller_restore(net->controller, kept, error, sizeof error))
		fail_msg("%s", error);
	free(kept);
	net_run(net, 400 * HD_MS);
}

/* A server that has the job at version 142, by a word before the newest. */
static struct hd_message state_of(const struct net *net, const struct peer *worker) {
	struct hd_message m = {.kind = HD_MSG_STATE};

	m.state.job = net_job(worker);
	m.state.version = hd_version_make(1, 142);
	m.state.tau_max = 8;
	m.state.model_bytes = NET_MODEL_BYTES;
	m.state.generation = net->controller->jobs[0]->serving - 1;
	return m;
}

/* A server that reports in time that it has the job goes on with it, by however old an order; else the node starts
 * again. With anything on its disk it may be the one that has it. */
static void test_server_has_lost_it(void **state) {
	static const struct {
		uint16_t flags;
		bool other_says;
	} cases[] = {{0, true}, {0, false}, {HD_REGISTER_KEEPS, true}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		bool goes = cases[i].other_says && !cases[i].flags;
		struct peer *server, *worker, *other;
		struct hd_message m, registration;
		struct net net;
		size_t before;

		net_open(&net, &first);
		server = net_server(&net, "ps");
		worker = net_worker(&net, "team", "mnist", 0, 8);
		other = net_peer(&net, HD_ROLE_SERVER, "ps2");
		net_run(&net, SETTLED);
		m = state_of(&net, worker);
		restart(&net);
		before = peer_count(server, HD_MSG_REPLICA);
		registration = net_register_server(server);
		registration.register_.incarnation = 0;
		registration.register_.flags = cases[i].flags;
		post(server, registration);
		post(worker, net_register_worker(worker, 8, 1));
		net_run(&net, 5 * HD_MS);
		assert_int_equal(peer_count(server, HD_MSG_REPLICA) > before, cases[i].flags != 0);
		if (cases[i].other_says) {
			post(other, net_register_server(other));
			post(other, m);
			net_run(&net, 5 * HD_MS);
			assert_int_equal(
				peer_last(other, HD_MSG_REPLICA)->replica.order,
				goes ? HD_REPLICA_SERVE : HD_REPLICA_RETIRE
			);
		}
		net_run(&net, 2 * HD_SECOND);
		assert_int_equal(peer_count(server, HD_MSG_REPLICA) > before, !goes);
		assert_string_equal(net.controller->jobs[0]->server_host, goes ? "ps2" : "ps");
		net_close(&net);
	}
}

/* The host's other node never had it, and may be the first to be back. */
static void test_one_of_two_nodes(void **state) {
	struct peer *server, *beside, *worker, *other;
	struct hd_message m, registration;
	struct net net;

	(void)state;
	net_open(&net, &first);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "team", "mnist", 0, 8);
	other = net_peer(&net, HD_ROLE_SERVER, "ps2");
	beside = net_peer(&net, HD_ROLE_REPLICA, "ps");
	net_run(&net, SETTLED);
	m = state_of(&net, worker);
	server->cut = true;
	restart(&net);
	server->cut = false;
	net_run(&net, 100 * HD_MS);
	registration = net_register_server(beside);
	registration.register_.role = HD_ROLE_REPLICA;
	registration.register_.incarnation = 0;
	post(beside, registration);
	net_run(&net, HD_MS);
	registration = net_register_server(server);
	registration.register_.incarnation = 0;
	registration.register_.flags = HD_REGISTER_KEEPS;
	peer_forget(server);
	post(server, registration);
	net_run(&net, HD_MS);
	assert_int_equal(peer_last(server, HD_MSG_REPLICA)->replica.order, HD_REPLICA_SERVE);
	post(other, net_register_server(other));
	post(other, m);
	net_run(&net, 5 * HD_MS);
	assert_int_equal(peer_last(other, HD_MSG_REPLICA)->replica.order, HD_REPLICA_RETIRE);
	assert_string_equal(net.controller->jobs[0]->server_host, "ps");
	net_close(&net);
}

/* A server that is back under the same controller hears SERVE ahead of REGISTERED; its next word follows when it is
 * placed. */
static void test_server_is_back(void **state) {
	struct hd_message registration;
	struct peer *server;
	uint64_t serving;
	struct net net;

	(void)state;
	net_open(&net, &first);
	server = net_server(&net, "ps");
	net_worker(&net, "team", "mnist", 0, 8);
	net_run(&net, SETTLED);
	serving = net.controller->jobs[0]->serving;
	peer_restart(server);
	net_run(&net, 2 * HD_SECOND);
	peer_forget(server);
	registration = net_register_server(server);
	registration.register_.incarnation = 0;
	post(server, registration);
	net_run(&net, 5 * HD_MS);
	assert_int_equal(peer_count(server, HD_MSG_REPLICA), 2);
	assert_int_equal(server->log[0].kind, HD_MSG_REPLICA);
	assert_int_equal(server->log[0].replica.order, HD_REPLICA_SERVE);
	assert_true(server->log[0].replica.generation == serving);
	assert_int_equal(server->log[1].kind, HD_MSG_REGISTERED);
	assert_true(peer_last(server, HD_MSG_REPLICA)->replica.generation > serving);
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_server_has_lost_it),
		cmocka_unit_test(test_one_of_two_nodes),
		cmocka_unit_test(test_server_is_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
