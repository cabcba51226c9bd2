/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are silent: quiet, gone, stopped, back. */
#include "endpoint_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct net_node_config server_config = {
	.name = "server",
	.role = HD_ROLE_SERVER,
	.accepts = true,
};
static const struct net_node_config client_config = {.name = "client", .role = HD_ROLE_WORKER};

static void test_idle_session_is_quiet_and_stays(void **state) {
	struct net net;
	struct node *server, *client;
	unsigned before;

	(void)state;
	net_init(&net, 1);
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	net_connect(client, server);
	net_run(&net, net.now + HD_SECOND);
	before = client->sent_packets;
	net_run(&net, net.now + 10 * HD_SECOND);
	assert_int_equal(client->closed + server->closed, 0);
	/* Four PINGs a second, and an answer to one a second of the server's. */
	assert_in_range(client->sent_packets - before, 40, 60);
	net_fini(&net);
}

static void test_silence_ends_both_sides(void **state) {
	struct net net;
	struct node *server, *client;
	hd_ns cut;
	unsigned before;

	(void)state;
	net_init(&net, 1);
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	net_connect(client, server);
	net_run(&net, net.now + HD_SECOND);
	client->cut = true;
	cut = net.now;
	before = client->sent_packets;
	net_run(&net, cut + HD_SILENCE_US * HD_US - HD_KEEPALIVE_US * HD_US);
	assert_int_equal(client->closed + server->closed, 0);
	net_run(&net, cut + HD_SILENCE_US * HD_US + HD_MS);
	assert_int_equal(client->closed + server->closed, 2);
	assert_int_equal(server->reason, HD_REASON_TIMEOUT);
	assert_int_equal(client->reason, HD_REASON_TIMEOUT);
	assert_int_equal(client->closed, 1);
	/* The client asked every 31 ms, so that 30 % loss of all packets rarely ends a session. */
	assert_in_range(client->sent_packets - before, 16, 20);
	client->cut = false; /* ours says HELLO again by itself, and soon also after a long while */
	net_run(&net, net.now + HD_DETECTION_US * HD_US / 4 + HD_MS);
	assert_int_equal(client->opened, 2);
	assert_int_equal(server->opened, 2);
	assert_string_equal(client->order, "oco");
	assert_string_equal(server->order, "oco");
	net_fini(&net);
}

/* A node that was stopped itself (a laptop's lid) finds all silent: it asks before it gives up. */
static void test_stopped_node_asks_first(void **state) {
	struct net_node_config patient = server_config;
	struct net net;
	struct node *server, *client;

	(void)state;
	patient.dead_us = 60000000;
	net_init(&net, 1);
	server = net_add(&net, &patient);
	client = net_add(&net, &client_config);
	net_connect(client, server);
	net_run(&net, net.now + HD_SECOND);
	net.now += 10 * HD_SECOND; /* no node ticks */
	net_run(&net, net.now + HD_SECOND);
	assert_int_equal(client->closed + server->closed, 0);
	net_fini(&net);
}

/* The time from a peer's last message until it is given up. */
static hd_ns patience(struct net *net, struct node *node, struct node *peer) {
	hd_ns cut = net->now;
	unsigned closed = node->closed;

	peer->cut = true;
	while (node->closed == closed && net->now < cut + 20 * HD_SECOND)
		net_run(net, net->now + 10 * HD_MS);
	return net->now - cut;
}

/* A node that runs late itself waits longer for others, for a while: four times its lateness beyond 50 ms, up to a
 * limit. A little more lateness makes it a little more patient. A single lateness counts as 250 ms at most. */
static void test_late_node_is_patient(void **state) {
	static const struct {
		unsigned times;
		hd_ns late, since, least, most;
	} cases[] = {
		{1, 40 * HD_MS, 0, 0, 0},
		{1, 60 * HD_MS, 0, 40 * HD_MS, 40 * HD_MS},
		{1, 200 * HD_MS, 0, 600 * HD_MS, 600 * HD_MS},
		{2, 400 * HD_MS, HD_SECOND, 200 * HD_MS, 700 * HD_MS},
		{1, 200 * HD_MS, 5 * HD_SECOND, 0, 0},
		{1, 2 * HD_SECOND, 0, 800 * HD_MS, 800 * HD_MS}, /* it was stopped */
		{3, 600 * HD_MS, 0, 2100 * HD_MS, 2200 * HD_MS},
		{2, 2 * HD_SECOND, 0, 4 * HD_SECOND, 4 * HD_SECOND},
	};
	const hd_ns usual = HD_SILENCE_US * HD_US;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct node *server, *client;
		struct net net;
		hd_ns took;

		net_init(&net, 1 + i);
		server = net_add(&net, &server_config);
		client = net_add(&net, &client_config);
		net_connect(client, server);
		net_run(&net, net.now + HD_SECOND);
		for (unsigned k = 0; k < cases[i].times; k++) {
			net.now += hd_endpoint_deadline(server->endpoint) - node_now(server)
				+ cases[i].late;
			net_run(&net, net.now + 10 * HD_MS);
		}
		net_run(&net, net.now + cases[i].since);
		took = patience(&net, server, client);
		assert_in_range(
			took,
			usual - HD_KEEPALIVE_US * HD_US + cases[i].least,
			usual + 20 * HD_MS + cases[i].most
		);
		net_fini(&net);
	}
}

/* So does who has a slow peer. */
static void test_slow_peer_has_time(void **state) {
	struct node *server, *client;
	struct net net;

	(void)state;
	net_init(&net, 1);
	net.delay = 150 * HD_MS; /* each way */
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	net_connect(client, server);
	net_run(&net, net.now + 5 * HD_SECOND);
	assert_in_range(
		patience(&net, client, server),
		HD_SILENCE_US * HD_US + 650 * HD_MS,
		HD_SILENCE_US * HD_US + 1200 * HD_MS
	);
	net_fini(&net);
}

static uint64_t resent(const struct node *node) {
	return hd_endpoint_stats(node->endpoint)->resent;
}

/* A peer that answers after 1.5 s, as one that has too much to do, is not made later by questions and by copies of what
 * it has yet to read. */
static void test_slow_peer_is_left_alone(void **state) {
	struct hd_message message = {.kind = HD_MSG_GO};
	struct node *server, *client;
	unsigned before;
	struct net net;

	(void)state;
	net_init(&net, 1);
	net.delay = 750 * HD_MS; /* each way */
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	net_connect(client, server);
	while (!client->opened || !server->opened)
		net_run(&net, net.now + 10 * HD_MS);
	for (int i = 0; i < 20; i++) {
		struct node *from = i % 2 ? server : client;

		assert_int_equal(
			hd_session_send(from->session, &message, node_now(from), &from->sink), 0
		);
		net_run(&net, net.now + 500 * HD_MS);
	}
	assert_int_equal(client->messages + server->messages, 19); /* one is in flight */
	assert_int_equal(resent(client) + resent(server), 0);
	before = client->sent_packets + server->sent_packets;
	net_run(&net, net.now + 20 * HD_SECOND);
	assert_in_range(client->sent_packets + server->sent_packets - before, 20, 100);
	assert_int_equal(client->closed + server->closed, 0);
	net_fini(&net);
}

/* A node that answers HELLO and refuses sessions is asked less and less often. */
static void test_full_peer_is_asked_less(void **state) {
	struct net_node_config small = server_config;
	struct node *server, *client;
	struct net net;

	(void)state;
	small.sessions_max = 1;
	net_init(&net, 1);
	server = net_add(&net, &small);
	net_connect(net_add(&net, &client_config), server);
	net_run(&net, net.now + HD_SECOND);
	client = net_add(&net, &client_config);
	net_connect(client, server);
	net_run(&net, net.now + 20 * HD_SECOND);
	assert_int_equal(client->opened, 0);
	assert_in_range(client->sent_packets, 15, 30);
	net_fini(&net);
}

/* A message that was sent while the path was cut arrives soon after it is repaired: the timeout has doubled to at least
 * half of the cut's length by then, and is not waited for. */
static void test_said_while_cut(void **state) {
	(void)state;
	for (unsigned ms = 300; ms <= 460; ms += 20) {
		for (int down = 0; down < 2; down++) {
			struct hd_message message = {.kind = HD_MSG_GO};
			struct node *server, *client, *from, *to;
			struct net net;

			net_init(&net, ms);
			server = net_add(&net, &server_config);
			client = net_add(&net, &client_config);
			net_connect(client, server);
			net_run(&net, net.now + HD_SECOND);
			from = down ? server : client;
			to = down ? client : server;
			client->cut = true;
			assert_int_equal(
				hd_session_send(
					from->session, &message, node_now(from), &from->sink
				),
				0
			);
			net_run(&net, net.now + ms * HD_MS);
			assert_int_equal(to->messages, 0);
			client->cut = false;
			/* Asked again every 62.5 ms. */
			net_run(&net, net.now + 70 * HD_MS);
			assert_int_equal(to->messages, 1);
			assert_int_equal(client->closed + server->closed, 0);
			net_fini(&net);
		}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idle_session_is_quiet_and_stays),
		cmocka_unit_test(test_silence_ends_both_sides),
		cmocka_unit_test(test_stopped_node_asks_first),
		cmocka_unit_test(test_late_node_is_patient),
		cmocka_unit_test(test_slow_peer_has_time),
		cmocka_unit_test(test_slow_peer_is_left_alone),
		cmocka_unit_test(test_full_peer_is_asked_less),
		cmocka_unit_test(test_said_while_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
