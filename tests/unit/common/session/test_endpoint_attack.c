/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attacker without a key who sees every packet and sends from any address, against the handshake and against
 * open sessions: it can make nodes answer, and nothing that they answer ends a session or an attempt to open one.
 */
#include "endpoint_scene.h"
#include "hd_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Gets answers to a HELLO that was changed, in these three ways, from both servers, and replays them to the opener from
 * the server's address, from the other's, and from an unused one. */
static void harvest_and_play(void) {
	const struct flight *hello = scene_newest(HD_MSG_HELLO, scene.client, scene.server);
	struct node *askers[] = {scene.server, scene.other};
	struct hd_addr stranger = {0x0c000001, 999};

	assert_non_null(hello);
	for (int kind = 0; kind < 3; kind++)
		for (int i = 0; i < 2; i++) {
			struct flight changed = *hello;
			uint8_t packet[1500];
			const struct flight *answer;

			memcpy(packet, hello->data, hello->bytes);
			changed.data = packet;
			if (kind == 0)
				packet[hello->bytes - 1] ^= 1; /* tag */
			else if (kind == 1)
				hd_put16(packet + 29, 99); /* key */
			else
				packet[2] = (uint8_t)(2 << 4 | HD_PACKET_HELLO);
			scene_inject(stranger, askers[i]->addr, &changed);
			scene_pass(HD_MS);
			answer = scene_newest(HD_MSG_REFUSE, askers[i], NULL);
			assert_non_null(answer);
			assert_true(answer->bytes <= hello->bytes);
			for (size_t b = answer->bytes - HD_TAG_BYTES; b < answer->bytes; b++)
				assert_int_equal(answer->data[b], 0); /* not signed */
			scene_inject(scene.server->addr, scene.client->addr, answer);
			scene_inject(scene.other->addr, scene.client->addr, answer);
			scene_inject(stranger, scene.client->addr, answer);
			scene_pass(HD_MS);
		}
}

static void test_refusals_end_no_opening(void **state) {
	(void)state;
	scene.server->cut = true; /* its answers are late */
	assert_non_null(net_connect(scene.client, scene.server));
	scene_pass(10 * HD_MS);
	scene.server->cut = false;
	harvest_and_play();
	assert_string_equal(scene.client->order, "c"); /* one hint */
	assert_int_not_equal(scene.client->reason, HD_REASON_REFUSED);
	scene_pass(500 * HD_MS);
	assert_string_equal(scene.client->order, "co");
}

static void test_refusals_end_no_session(void **state) {
	(void)state;
	scene_open();
	harvest_and_play();
	scene_pass(2 * HD_SECOND);
	assert_string_equal(scene.client->order, "o");
	assert_string_equal(scene.server->order, "o");
}

static void send_go(struct node *node, uint64_t token) {
	struct hd_message message = {.kind = HD_MSG_GO, .go = {.token = token}};

	assert_int_equal(hd_session_send(node->session, &message, node_now(node), &node->sink), 0);
}

/* An attacker on the path shows each packet of the session to a node that does not know the session, also under another
 * index to the one that does, and forwards any answers under the peer's address. */
static void test_resets_end_no_session(void **state) {
	size_t from = 0;

	(void)state;
	scene_open();
	for (unsigned round = 0; round < 300; round++) { /* more than 90 a second */
		send_go(scene.client, round);
		scene_pass(HD_MS);
		for (size_t i = from, until = scene.count; i < until; i++) {
			struct flight other = scene.seen[i];
			uint8_t packet[1500];

			assert_true(other.bytes <= sizeof packet);
			memcpy(packet, other.data, other.bytes);
			other.data = packet;
			scene_inject(scene.client->addr, scene.other->addr, &other);
			packet[7] ^= 0x55; /* an unused index */
			scene_inject(scene.client->addr, scene.server->addr, &other);
			scene_inject(scene.server->addr, scene.client->addr, &other);
		}
		scene_pass(HD_MS);
		for (size_t i = from, until = scene.count; i < until; i++) {
			struct flight answer = scene.seen[i];
			uint8_t packet[1500];

			if ((answer.data[2] & 0x0f) != HD_PACKET_HELLO)
				continue;
			memcpy(packet, answer.data, answer.bytes);
			answer.data = packet;
			/* A RESET that names the session; a QUERY to the wrong one; its GONE, if there is one. */
			if (scene_is(&answer, HD_PACKET_HELLO, HD_MSG_RESET))
				hd_put32(
					packet + HD_CONTROL_HEADER_BYTES, scene.net.welcome.session
				);
			if (scene_is(&answer, HD_PACKET_HELLO, HD_MSG_QUERY))
				scene_inject(scene.client->addr, scene.other->addr, &answer);
			scene_inject(scene.server->addr, scene.client->addr, &answer);
		}
		if (scene.count > SCENE_KEPT_MAX / 2)
			scene_forget();
		from = scene.count;
		scene_pass(8 * HD_MS);
	}
	assert_string_equal(scene.client->order, "o");
	assert_string_equal(scene.server->order, "o");
	assert_int_equal(scene.server->messages, 300);
	assert_true(
		hd_endpoint_stats(scene.other->endpoint)->drop_role > 0
	); /* QUERY did go astray */
}

/* The other server has the cluster's key. It answers no HELLO, and no QUERY, that was for the first one. */
static void test_hello_led_astray(void **state) {
	const struct flight *hello;

	(void)state;
	scene.server->cut = true;
	assert_non_null(net_connect(scene.client, scene.server));
	scene_pass(10 * HD_MS);
	hello = scene_newest(HD_MSG_HELLO, scene.client, scene.server);
	assert_non_null(hello);
	scene_inject(scene.client->addr, scene.other->addr, hello);
	scene_pass(HD_MS);
	assert_null(scene_newest(HD_MSG_COOKIE, scene.other, NULL));
	assert_null(scene_newest(HD_MSG_WELCOME, scene.other, NULL));
	assert_int_equal(hd_endpoint_stats(scene.other->endpoint)->drop_address, 1);
	scene.server->cut = false;
	scene_pass(500 * HD_MS);
	assert_string_equal(scene.client->order, "o"); /* nor was its hint heard */
}

static void test_welcome_from_elsewhere(void **state) {
	const struct flight *welcome = NULL;
	uint64_t dropped;

	(void)state;
	assert_non_null(net_connect(scene.client, scene.server));
	for (int i = 0; i < 100 && !welcome; i++) {
		scene_pass(20 * HD_US);
		welcome = scene_newest(HD_MSG_WELCOME, scene.server, scene.client);
	}
	assert_non_null(welcome);
	dropped = hd_endpoint_stats(scene.client->endpoint)->drop_address;
	scene.net.delay = HD_US; /* faster than the true one */
	scene_inject(scene.other->addr, scene.client->addr, welcome);
	scene_pass(10 * HD_US);
	assert_int_equal(hd_endpoint_stats(scene.client->endpoint)->drop_address, dropped + 1);
	assert_int_equal(scene.client->opened, 0);
	scene_pass(10 * HD_MS);
	assert_string_equal(scene.client->order, "o");
	assert_true(hd_addr_equal(hd_session_peer(scene.client->session), scene.server->addr));
}

/* One HELLO, with its cookie, again and again from a thousand addresses. */
static void test_replayed_hello(void **state) {
	const struct flight *hello;
	struct flight copy;
	struct node *late;
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
	sent = scene.server->sent_packets;
	late = net_add(&scene.net, &scene_client_config);
	for (unsigned ms = 0; ms < 2000; ms++) { /* 5,000 a second */
		for (unsigned i = 0; i < 5; i++)
			scene_inject(
				(struct hd_addr){0x0d000000 + (ms * 5 + i) % 1000, 4773},
				scene.server->addr,
				&copy
			);
		if (ms == 500)
			assert_non_null(net_connect(late, scene.server));
		if (ms % 50 == 0)
			send_go(scene.client, ms);
		scene_pass(HD_MS);
	}
	assert_string_equal(scene.client->order, "o");
	assert_string_equal(late->order, "o");
	assert_string_equal(scene.server->order, "oo");
	assert_int_equal(scene.server->messages, 40);
	assert_int_equal(hd_endpoint_stats(scene.server->endpoint)->drop_candidates, 0);
	assert_true(scene.server->sent_packets - sent < 10000 + 200);
	for (size_t i = 0; i < scene.count; i++)
		if (hd_addr_equal(scene.seen[i].from, scene.server->addr)
		    && scene_is(&scene.seen[i], HD_PACKET_HELLO, HD_MSG_WELCOME))
			assert_true(hd_addr_equal(scene.seen[i].to, late->addr));
}

/* A cookie is of one address, and not for ever. */
static void test_cookies_are_bound(void **state) {
	const struct flight *hello;
	struct flight copy;
	uint8_t packet[1500];
	uint64_t cookies;

	(void)state;
	scene_open();
	hello = scene_newest(HD_MSG_HELLO, scene.client, scene.server);
	copy = *hello;
	memcpy(packet, hello->data, hello->bytes);
	copy.data = packet;
	cookies = hd_endpoint_stats(scene.server->endpoint)->cookies;
	scene_inject(
		(struct hd_addr){scene.client->addr.ipv4 + 9, scene.client->addr.port},
		scene.server->addr,
		&copy
	);
	scene_inject((struct hd_addr){scene.client->addr.ipv4, 4000}, scene.server->addr, &copy);
	scene_pass(HD_MS);
	assert_int_equal(hd_endpoint_stats(scene.server->endpoint)->cookies, cookies + 2);
	scene_inject(
		scene.client->addr, scene.server->addr, &copy
	); /* its own: a replay of the open session's */
	scene_pass(HD_MS);
	assert_int_equal(hd_endpoint_stats(scene.server->endpoint)->cookies, cookies + 2);
	scene_pass((hd_ns)2 * HD_COOKIE_US * HD_US + HD_SECOND);
	scene_inject(scene.client->addr, scene.server->addr, &copy);
	scene_pass(HD_MS);
	assert_int_equal(hd_endpoint_stats(scene.server->endpoint)->cookies, cookies + 3);
	assert_string_equal(scene.server->order, "o");
}

/* COOKIEs that were made for other addresses reach the opener first: it goes on until the right one is used. */
static void test_cookies_of_others(void **state) {
	const struct flight *hello, *cookie;

	(void)state;
	scene.server->cut = true;
	assert_non_null(net_connect(scene.client, scene.server));
	scene_pass(10 * HD_MS);
	scene.server->cut = false;
	hello = scene_newest(HD_MSG_HELLO, scene.client, scene.server);
	assert_non_null(hello);
	scene_inject((struct hd_addr){0x0c000001, 999}, scene.server->addr, hello);
	scene_pass(HD_MS);
	cookie = scene_newest(HD_MSG_COOKIE, scene.server, NULL);
	assert_non_null(cookie);
	for (int i = 0; i < 50; i++) {
		scene_inject(scene.server->addr, scene.client->addr, cookie);
		scene_pass(100 * HD_US);
	}
	scene_pass(300 * HD_MS);
	assert_string_equal(scene.client->order, "o");
}

/* A server that has restarted is noticed within round trips, by the QUERY that only it can answer. */
static void test_restart_is_still_noticed(void **state) {
	hd_ns began;

	(void)state;
	scene_open();
	scene_pass(HD_SECOND);
	net_restart(scene.server, 9);
	began = scene.net.now;
	send_go(scene.client, 1);
	scene_pass(600 * HD_US); /* packet, RESET, QUERY, GONE: four ways */
	assert_string_equal(scene.client->order, "oc");
	assert_int_equal(scene.client->reason, HD_REASON_CLOSED);
	net_run(&scene.net, began + 100 * HD_MS);
	assert_string_equal(scene.client->order, "oco");
}

/* So is a worker that has restarted, by the server's next packet to it. */
static void test_restart_of_opener_is_noticed(void **state) {
	(void)state;
	scene_open();
	scene_pass(HD_SECOND);
	net_restart(scene.client, 9);
	send_go(scene.server, 1);
	scene_pass(600 * HD_US);
	assert_string_equal(scene.server->order, "oc");
	assert_int_equal(scene.server->reason, HD_REASON_CLOSED);
}

/* Two workers of a host share its name. The server's query to one of them is not answered by the other, though that one
 * is bound to any address and knows only its port. */
static void test_query_of_a_neighbour(void **state) {
	static const uint8_t zeros[HD_KEY_BYTES];
	struct hd_control_header header = {.type = HD_PACKET_HELLO, .kind = HD_MSG_RESET};
	struct node *neighbour = net_add(&scene.net, &scene_client_config);
	uint8_t packet[200], body[4];
	struct flight reset = {.data = packet};
	const struct flight *query;

	(void)state;
	neighbour->any = true;
	neighbour->addr.port = 5000;
	scene_open();
	scene.client->cut = true; /* the attacker is faster */
	hd_put32(body, scene.net.hello.session);
	reset.bytes = net_forge(zeros, &header, body, sizeof body, packet);
	scene_inject(scene.client->addr, scene.server->addr, &reset);
	scene_pass(HD_MS);
	query = scene_newest(HD_MSG_QUERY, scene.server, scene.client);
	assert_non_null(query);
	scene_inject(scene.server->addr, neighbour->addr, query);
	scene_pass(HD_MS);
	assert_null(scene_newest(HD_MSG_GONE, neighbour, NULL));
	assert_int_equal(hd_endpoint_stats(neighbour->endpoint)->drop_address, 1);
	scene.client->cut = false;
	scene_pass(HD_SECOND);
	assert_string_equal(scene.server->order, "o");
	assert_string_equal(scene.client->order, "o");
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

static void test_copies_that_come_first(void **state) {
	(void)state;
	scene_open();
	scene.net.tap = race;
	for (int i = 0; i < 30; i++) {
		send_go(scene.server, 1);
		send_go(scene.client, 1);
		scene_pass(100 * HD_MS);
		assert_string_equal(scene.server->order, "o");
		assert_string_equal(scene.client->order, "o");
	}
	assert_int_equal(scene.server->messages, 30);
	assert_int_equal(scene.client->messages, 30);
}

static void race_to_opener(struct net *net, const struct flight *flight) {
	if (hd_addr_equal(flight->to, scene.client->addr))
		race(net, flight);
}

/* A copy of the answerer's last packets came from another address first: the opener keeps the address it asked. */
static void test_opener_keeps_to_the_address(void **state) {
	(void)state;
	scene_open();
	scene.net.tap = race_to_opener;
	send_go(scene.server, 1);
	scene_pass(HD_MS);
	net_stop(scene.server);
	scene_pass(2 * HD_SECOND);
	assert_null(scene.client->session);
	net_restart(scene.server, 9);
	scene_pass(HD_SECOND);
	assert_string_equal(scene.client->order, "oco");
}

/* A peer that moves after it has moved, and what it said before is played again from where it was. */
static void test_moved_peer_stays_moved(void **state) {
	struct hd_addr old = scene.client->addr;

	(void)state;
	scene_open();
	scene.client->addr.port = 50000; /* what a NAT does */
	send_go(scene.client, 1);
	scene_pass(2 * HD_SECOND);
	assert_int_equal(hd_session_peer(scene.server->session).port, 50000);
	for (size_t i = 0; i < scene.count; i++)
		if (hd_addr_equal(scene.seen[i].to, scene.server->addr))
			scene_inject(old, scene.server->addr, &scene.seen[i]);
	scene_pass(HD_MS);
	assert_int_equal(hd_session_peer(scene.server->session).port, 50000);
	assert_string_equal(scene.server->order, "o");
}

/* A QUERY of a session that has ended is answered as often as it is replayed, but disturbs no session. */
static void test_replayed_query(void **state) {
	static const uint8_t zeros[HD_KEY_BYTES];
	struct hd_control_header header = {.type = HD_PACKET_HELLO, .kind = HD_MSG_RESET};
	struct node *newcomer = net_add(&scene.net, &scene_client_config);
	uint8_t packet[200], body[4];
	struct flight reset = {.data = packet};
	const struct flight *query;

	(void)state;
	scene_open();
	hd_put32(body, scene.net.welcome.session);
	reset.bytes = net_forge(zeros, &header, body, sizeof body, packet);
	scene_inject(scene.server->addr, scene.client->addr, &reset);
	scene_pass(HD_MS);
	query = scene_newest(HD_MSG_QUERY, scene.client, scene.server);
	assert_non_null(query);
	scene.net.tap = NULL;
	net_stop(scene.client);
	scene_pass(2 * HD_SECOND);
	for (int i = 0; i < 7000; i++) {
		scene_inject((struct hd_addr){0x0c000001, 999}, scene.server->addr, query);
		if (i == 5000)
			assert_non_null(net_connect(newcomer, scene.server));
		scene_pass(10 * HD_US);
	}
	assert_string_equal(newcomer->order, "o");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_refusals_end_no_opening, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_refusals_end_no_session, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_resets_end_no_session, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(test_hello_led_astray, scene_begin, scene_finish),
		cmocka_unit_test_setup_teardown(
			test_welcome_from_elsewhere, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(test_replayed_hello, scene_begin, scene_finish),
		cmocka_unit_test_setup_teardown(test_cookies_are_bound, scene_begin, scene_finish),
		cmocka_unit_test_setup_teardown(test_cookies_of_others, scene_begin, scene_finish),
		cmocka_unit_test_setup_teardown(
			test_restart_is_still_noticed, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_restart_of_opener_is_noticed, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_query_of_a_neighbour, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_copies_that_come_first, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_opener_keeps_to_the_address, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(
			test_moved_peer_stays_moved, scene_begin, scene_finish
		),
		cmocka_unit_test_setup_teardown(test_replayed_query, scene_begin, scene_finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
