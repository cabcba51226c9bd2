/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attacker without a key whose copies of packets come before the packets, from addresses of its choice, and that
 * replays the HELLO of a node that has left: no session ends, and none is kept from opening.
 */
#include "endpoint_scene.h"
#include "hd_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void send_go(struct node *node, uint64_t token) {
	struct hd_message message = {.kind = HD_MSG_GO, .go = {.token = token}};

	assert_int_equal(hd_session_send(node->session, &message, node_now(node), &node->sink), 0);
}

/* Its copies of all packets of sessions come first, from somewhere else. */
static void race(struct net *net, const struct flight *flight) {
	if ((flight->data[2] & 0x0f) == HD_PACKET_CONTROL)
		net_inject(
			net,
			(struct hd_addr){0x0c000001, 999},
			flight->to,
			flight->data,
			flight->bytes
		);
}

/* Its copies come first, from the address of a peer that has a session. */
static void race_as_client(struct net *net, const struct flight *flight) {
	if ((flight->data[2] & 0x0f) == HD_PACKET_CONTROL
	    && !hd_addr_equal(flight->from, scene.client->addr)
	    && hd_addr_equal(flight->to, scene.server->addr))
		net_inject(net, scene.client->addr, flight->to, flight->data, flight->bytes);
}

/* The same, with a RESET behind each copy, and the GONE that the QUERY for it has brought. */
static void race_with_reset(struct net *net, const struct flight *flight) {
	static const uint8_t zeros[HD_KEY_BYTES];
	const struct hd_control_header header = {.type = HD_PACKET_HELLO, .kind = HD_MSG_RESET};
	const struct flight *gone = scene_newest(HD_MSG_GONE, scene.client, scene.server);
	struct hd_addr from = scene.client->addr, to = scene.server->addr;
	uint8_t packet[200], body[4];

	scene_see(net, flight);
	race_as_client(net, flight);
	if ((flight->data[2] & 0x0f) != HD_PACKET_CONTROL || !hd_addr_equal(flight->to, to))
		return;
	hd_put32(body, net->hello.session);
	net_inject(net, from, to, packet, net_forge(zeros, &header, body, sizeof body, packet));
	if (gone)
		scene_inject(from, to, gone);
}

/* The copies come from the address of a worker that has the same name in another job: that one would say that it knows
 * no such session. */
static void test_query_of_a_namesake(void **state) {
	struct net_node_config config = scene_client_config;
	struct node *namesake;

	(void)state;
	config.process = 3;
	namesake = net_add(&scene.net, &config);
	scene_open();
	assert_non_null(net_connect(namesake, scene.server));
	scene_pass(100 * HD_MS);
	scene.net.tap = race_with_reset;
	for (int i = 0; i < 30; i++) {
		send_go(namesake, 1);
		scene_pass(100 * HD_MS);
		assert_string_equal(scene.server->order, "oo");
		assert_string_equal(namesake->order, "o");
	}
	assert_string_equal(scene.client->order, "o");
}

/* The same to an idle session. */
static void test_copies_in_an_idle_session(void **state) {
	(void)state;
	scene_open();
	scene.net.tap = race;
	scene_pass(10 * HD_SECOND);
	assert_string_equal(scene.server->order, "o");
	assert_string_equal(scene.client->order, "o");
}

/* Some packets are lost, their copies are not: what the peer says of one address says nothing of another. */
static void test_copies_of_lost_packets(void **state) {
	(void)state;
	scene_open();
	scene.net.tap = race;
	scene.net.loss = 0.3;
	scene_pass(60 * HD_SECOND);
	assert_string_equal(scene.server->order, "o");
	assert_string_equal(scene.client->order, "o");
}

/* Also the copy of the first packet, whose original comes from where the cookie was: the peer is there. */
static void test_copy_of_the_first_packet(void **state) {
	(void)state;
	scene.net.tap = race;
	assert_non_null(net_connect(scene.client, scene.server));
	for (int i = 0; i < 1000 && !scene.server->session; i++)
		scene_pass(10 * HD_US);
	scene_pass(2 * HD_US); /* the original comes behind its copy */
	assert_non_null(scene.server->session);
	assert_true(hd_addr_equal(hd_session_peer(scene.server->session), scene.client->addr));
}

/* A session that starts ends no other one. */
static void test_newcomer_at_a_peers_address(void **state) {
	static const struct net_node_config config
		= {.name = "newcomer", .role = HD_ROLE_WORKER, .process = 3};
	struct node *newcomer = net_add(&scene.net, &config);

	(void)state;
	scene_open();
	scene.net.tap = race_as_client;
	assert_non_null(net_connect(newcomer, scene.server));
	scene_pass(HD_SECOND);
	assert_string_equal(newcomer->order, "o");
	assert_string_equal(scene.server->order, "oo");
	assert_string_equal(scene.client->order, "o");
}

/* The HELLO with a cookie of an opener that has left, which is good for a while: who opens is told WELCOME all the
 * same, and the opener's address hears little. */
static void test_replayed_hello_with_cookie(void **state) {
	const struct flight *hello;
	struct node *late;
	static const struct net_node_config config
		= {.name = "late", .role = HD_ROLE_WORKER, .process = 5};
	struct flight copy;
	uint8_t packet[1500];
	unsigned sent;

	(void)state;
	scene_open();
	hello = scene_newest(HD_MSG_HELLO, scene.client, scene.server);
	assert_non_null(hello);
	copy = *hello;
	memcpy(packet, hello->data, hello->bytes);
	copy.data = packet;
	scene_forget();
	scene.net.tap = NULL;
	net_stop(scene.client);
	scene_pass(2 * HD_SECOND);
	assert_string_equal(scene.server->order, "oc");
	sent = scene.server->sent_packets;
	late = net_add(&scene.net, &config);
	for (unsigned us = 0; us < 500000; us += 10) {
		scene_inject(scene.client->addr, scene.server->addr, &copy);
		if (us == 250000)
			assert_non_null(net_connect(late, scene.server));
		scene_pass(10 * HD_US);
	}
	assert_string_equal(late->order, "o");
	assert_in_range(scene.server->sent_packets - sent, 40, 120);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_query_of_a_namesake, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_copies_in_an_idle_session, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_copies_of_lost_packets, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_copy_of_the_first_packet, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_newcomer_at_a_peers_address, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_replayed_hello_with_cookie, scene_begin, scene_finish
		),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
