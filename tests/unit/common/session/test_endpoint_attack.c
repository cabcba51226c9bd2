/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attacker without a key who sees every packet and sends from any address, against the handshake and against
 * open sessions: it can make nodes answer, and nothing that they answer ends a session or an attempt to open one.
 */
#include "endpoint_net.h"
#include "hd_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEPT_MAX 8192

static const struct net_node_config server_config = {
	.name = "server",
	.role = HD_ROLE_SERVER,
	.accepts = true,
};
static const struct net_node_config other_config = {
	.name = "other",
	.role = HD_ROLE_SERVER,
	.accepts = true,
};
static const struct net_node_config client_config = {.name = "client", .role = HD_ROLE_WORKER};

struct scene {
	struct net net;
	struct node *server, *other, *client;
	/* What the attacker has seen. */
	struct flight seen[KEPT_MAX];
	size_t count;
};

static struct scene scene;

static void see(struct net *net, const struct flight *flight) {
	struct flight copy = *flight;

	if (scene.count == KEPT_MAX)
		return;
	copy.data = malloc(flight->bytes);
	assert_non_null(copy.data);
	memcpy(copy.data, flight->data, flight->bytes);
	scene.seen[scene.count++] = copy;
}

static void forget(void) {
	for (size_t i = 0; i < scene.count; i++)
		free(scene.seen[i].data);
	scene.count = 0;
}

static int begin(void **state) {
	(void)state;
	net_init(&scene.net, 77);
	scene.net.tap = see;
	scene.server = net_add(&scene.net, &server_config);
	scene.other = net_add(&scene.net, &other_config);
	scene.client = net_add(&scene.net, &client_config);
	return 0;
}

static int finish(void **state) {
	(void)state;
	forget();
	net_fini(&scene.net);
	return 0;
}

static void pass(hd_ns time) {
	net_run(&scene.net, scene.net.now + time);
}

static void open_session(void) {
	assert_non_null(net_connect(scene.client, scene.server));
	pass(100 * HD_MS);
	assert_string_equal(scene.client->order, "o");
	assert_string_equal(scene.server->order, "o");
}

static bool is(const struct flight *flight, uint8_t type, uint8_t kind) {
	return (flight->data[2] & 0x0f) == type && flight->data[28] == kind;
}

/* The newest packet of this kind that went from one to the other; NULL: none. */
static const struct flight *newest(uint8_t kind, const struct node *from, const struct node *to) {
	for (size_t i = scene.count; i-- > 0;)
		if (is(&scene.seen[i], HD_PACKET_HELLO, kind)
		    && hd_addr_equal(scene.seen[i].from, from->addr)
		    && (!to || hd_addr_equal(scene.seen[i].to, to->addr)))
			return &scene.seen[i];
	return NULL;
}

static void inject(struct hd_addr from, struct hd_addr to, const struct flight *flight) {
	net_inject(&scene.net, from, to, flight->data, flight->bytes);
}

/* Gets answers to a HELLO that was changed, in these three ways, from both servers, and plays them to the opener
 * from the server's address, from the other's, and from nobody's. */
static void harvest_and_play(void) {
	const struct flight *hello = newest(HD_MSG_HELLO, scene.client, scene.server);
	struct node *askers[] = {scene.server, scene.other};
	struct hd_addr nobody = {0x0c000001, 999};

	assert_non_null(hello);
	for (int way = 0; way < 3; way++)
		for (int i = 0; i < 2; i++) {
			struct flight changed = *hello;
			uint8_t packet[1500];
			const struct flight *answer;

			memcpy(packet, hello->data, hello->bytes);
			changed.data = packet;
			if (way == 0)
				packet[hello->bytes - 1] ^= 1; /* tag */
			else if (way == 1)
				hd_put16(packet + 29, 99); /* key */
			else
				packet[2] = (uint8_t)(2 << 4 | HD_PACKET_HELLO);
			inject(nobody, askers[i]->addr, &changed);
			pass(HD_MS);
			answer = newest(HD_MSG_REFUSE, askers[i], NULL);
			assert_non_null(answer);
			assert_true(answer->bytes <= hello->bytes);
			for (size_t b = answer->bytes - HD_TAG_BYTES; b < answer->bytes; b++)
				assert_int_equal(answer->data[b], 0); /* signed by nobody */
			inject(scene.server->addr, scene.client->addr, answer);
			inject(scene.other->addr, scene.client->addr, answer);
			inject(nobody, scene.client->addr, answer);
			pass(HD_MS);
		}
}

static void test_refusals_end_no_opening(void **state) {
	(void)state;
	scene.server->cut = true; /* its answers are late */
	assert_non_null(net_connect(scene.client, scene.server));
	pass(10 * HD_MS);
	scene.server->cut = false;
	harvest_and_play();
	assert_string_equal(scene.client->order, "c"); /* one hint */
	assert_int_not_equal(scene.client->reason, HD_REASON_REFUSED);
	pass(500 * HD_MS);
	assert_string_equal(scene.client->order, "co");
}

static void test_refusals_end_no_session(void **state) {
	(void)state;
	open_session();
	harvest_and_play();
	pass(2 * HD_SECOND);
	assert_string_equal(scene.client->order, "o");
	assert_string_equal(scene.server->order, "o");
}

static void send_go(struct node *node, uint64_t token) {
	struct hd_message message = {.kind = HD_MSG_GO, .go = {.token = token}};

	assert_int_equal(hd_session_send(node->session, &message, node_now(node), &node->sink), 0);
}

/* Somebody on the path shows each packet of the session to a node that does not know the session, also under another
 * index to the one that does, and passes on what they answer, whatever it is, under the peer's address. */
static void test_resets_end_no_session(void **state) {
	size_t from = 0;

	(void)state;
	open_session();
	for (unsigned round = 0; round < 300; round++) { /* more than 90 a second */
		send_go(scene.client, round);
		pass(HD_MS);
		for (size_t i = from, until = scene.count; i < until; i++) {
			struct flight other = scene.seen[i];
			uint8_t packet[1500];

			assert_true(other.bytes <= sizeof packet);
			memcpy(packet, other.data, other.bytes);
			other.data = packet;
			inject(scene.client->addr, scene.other->addr, &other);
			packet[7] ^= 0x55; /* an index that nobody has */
			inject(scene.client->addr, scene.server->addr, &other);
			inject(scene.server->addr, scene.client->addr, &other);
		}
		pass(HD_MS);
		for (size_t i = from, until = scene.count; i < until; i++) {
			struct flight answer = scene.seen[i];
			uint8_t packet[1500];

			if ((answer.data[2] & 0x0f) != HD_PACKET_HELLO)
				continue;
			memcpy(packet, answer.data, answer.bytes);
			answer.data = packet;
			/* A RESET that names the session; a QUERY to the wrong one; its GONE, if there is one. */
			if (is(&answer, HD_PACKET_HELLO, HD_MSG_RESET))
				hd_put32(
					packet + HD_CONTROL_HEADER_BYTES, scene.net.welcome.session
				);
			if (is(&answer, HD_PACKET_HELLO, HD_MSG_QUERY))
				inject(scene.client->addr, scene.other->addr, &answer);
			inject(scene.server->addr, scene.client->addr, &answer);
		}
		if (scene.count > KEPT_MAX / 2)
			forget();
		from = scene.count;
		pass(8 * HD_MS);
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
	pass(10 * HD_MS);
	hello = newest(HD_MSG_HELLO, scene.client, scene.server);
	assert_non_null(hello);
	inject(scene.client->addr, scene.other->addr, hello);
	pass(HD_MS);
	assert_null(newest(HD_MSG_COOKIE, scene.other, NULL));
	assert_null(newest(HD_MSG_WELCOME, scene.other, NULL));
	assert_int_equal(hd_endpoint_stats(scene.other->endpoint)->drop_address, 1);
	scene.server->cut = false;
	pass(500 * HD_MS);
	assert_string_equal(scene.client->order, "o"); /* nor was its hint heard */
}

static void test_welcome_from_elsewhere(void **state) {
	const struct flight *welcome = NULL;
	uint64_t dropped;

	(void)state;
	assert_non_null(net_connect(scene.client, scene.server));
	for (int i = 0; i < 100 && !welcome; i++) {
		pass(20 * HD_US);
		welcome = newest(HD_MSG_WELCOME, scene.server, scene.client);
	}
	assert_non_null(welcome);
	dropped = hd_endpoint_stats(scene.client->endpoint)->drop_address;
	scene.net.delay = HD_US; /* faster than the true one */
	inject(scene.other->addr, scene.client->addr, welcome);
	pass(10 * HD_US);
	assert_int_equal(hd_endpoint_stats(scene.client->endpoint)->drop_address, dropped + 1);
	assert_int_equal(scene.client->opened, 0);
	pass(10 * HD_MS);
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
	open_session();
	hello = newest(HD_MSG_HELLO, scene.client, scene.server);
	assert_non_null(hello);
	copy = *hello;
	memcpy(packet, hello->data, hello->bytes);
	copy.data = packet;
	forget();
	sent = scene.server->sent_packets;
	late = net_add(&scene.net, &client_config);
	for (unsigned ms = 0; ms < 2000; ms++) { /* 5,000 a second */
		for (unsigned i = 0; i < 5; i++)
			inject((struct hd_addr){0x0d000000 + (ms * 5 + i) % 1000, 4773},
			       scene.server->addr,
			       &copy);
		if (ms == 500)
			assert_non_null(net_connect(late, scene.server));
		if (ms % 50 == 0)
			send_go(scene.client, ms);
		pass(HD_MS);
	}
	assert_string_equal(scene.client->order, "o");
	assert_string_equal(late->order, "o");
	assert_string_equal(scene.server->order, "oo");
	assert_int_equal(scene.server->messages, 40);
	assert_int_equal(hd_endpoint_stats(scene.server->endpoint)->drop_candidates, 0);
	assert_true(scene.server->sent_packets - sent < 10000 + 200);
	for (size_t i = 0; i < scene.count; i++)
		if (hd_addr_equal(scene.seen[i].from, scene.server->addr)
		    && is(&scene.seen[i], HD_PACKET_HELLO, HD_MSG_WELCOME))
			assert_true(hd_addr_equal(scene.seen[i].to, late->addr));
}

/* A cookie is of one address, and not for ever. */
static void test_cookies_are_bound(void **state) {
	const struct flight *hello;
	struct flight copy;
	uint8_t packet[1500];
	uint64_t cookies;

	(void)state;
	open_session();
	hello = newest(HD_MSG_HELLO, scene.client, scene.server);
	copy = *hello;
	memcpy(packet, hello->data, hello->bytes);
	copy.data = packet;
	cookies = hd_endpoint_stats(scene.server->endpoint)->cookies;
	inject((struct hd_addr){scene.client->addr.ipv4 + 9, scene.client->addr.port},
	       scene.server->addr,
	       &copy);
	inject((struct hd_addr){scene.client->addr.ipv4, 4000}, scene.server->addr, &copy);
	pass(HD_MS);
	assert_int_equal(hd_endpoint_stats(scene.server->endpoint)->cookies, cookies + 2);
	inject(scene.client->addr, scene.server->addr, &copy
	); /* its own: a replay of the open session's */
	pass(HD_MS);
	assert_int_equal(hd_endpoint_stats(scene.server->endpoint)->cookies, cookies + 2);
	pass((hd_ns)2 * HD_COOKIE_US * HD_US + HD_SECOND);
	inject(scene.client->addr, scene.server->addr, &copy);
	pass(HD_MS);
	assert_int_equal(hd_endpoint_stats(scene.server->endpoint)->cookies, cookies + 3);
	assert_string_equal(scene.server->order, "o");
}

/* COOKIEs that were made for other addresses reach the opener first: it goes on until the right one is used. */
static void test_cookies_of_others(void **state) {
	const struct flight *hello, *cookie;

	(void)state;
	scene.server->cut = true;
	assert_non_null(net_connect(scene.client, scene.server));
	pass(10 * HD_MS);
	scene.server->cut = false;
	hello = newest(HD_MSG_HELLO, scene.client, scene.server);
	assert_non_null(hello);
	inject((struct hd_addr){0x0c000001, 999}, scene.server->addr, hello);
	pass(HD_MS);
	cookie = newest(HD_MSG_COOKIE, scene.server, NULL);
	assert_non_null(cookie);
	for (int i = 0; i < 50; i++) {
		inject(scene.server->addr, scene.client->addr, cookie);
		pass(100 * HD_US);
	}
	pass(300 * HD_MS);
	assert_string_equal(scene.client->order, "o");
}

/* A server that has restarted is noticed within round trips, by the QUERY that only it can answer. */
static void test_restart_is_still_noticed(void **state) {
	hd_ns began;

	(void)state;
	open_session();
	pass(HD_SECOND);
	net_restart(scene.server, 9);
	began = scene.net.now;
	send_go(scene.client, 1);
	pass(600 * HD_US); /* packet, RESET, QUERY, GONE: four ways */
	assert_string_equal(scene.client->order, "oc");
	assert_int_equal(scene.client->reason, HD_REASON_CLOSED);
	net_run(&scene.net, began + 100 * HD_MS);
	assert_string_equal(scene.client->order, "oco");
}

/* So is a worker that has restarted, by the server's next packet to it. */
static void test_restart_of_opener_is_noticed(void **state) {
	(void)state;
	open_session();
	pass(HD_SECOND);
	net_restart(scene.client, 9);
	send_go(scene.server, 1);
	pass(600 * HD_US);
	assert_string_equal(scene.server->order, "oc");
	assert_int_equal(scene.server->reason, HD_REASON_CLOSED);
}

/* Two workers of a host share its name. What the server asks the one, the other does not answer, though it is bound to
 * any address and knows nothing but its port. */
static void test_query_of_a_neighbour(void **state) {
	static const uint8_t zeros[HD_KEY_BYTES];
	struct hd_control_header header = {.type = HD_PACKET_HELLO, .kind = HD_MSG_RESET};
	struct node *neighbour = net_add(&scene.net, &client_config);
	uint8_t packet[200], body[4];
	struct flight reset = {.data = packet};
	const struct flight *query;

	(void)state;
	neighbour->any = true;
	neighbour->addr.port = 5000;
	open_session();
	scene.client->cut = true; /* the attacker is faster */
	hd_put32(body, scene.net.hello.session);
	reset.bytes = net_forge(zeros, &header, body, sizeof body, packet);
	inject(scene.client->addr, scene.server->addr, &reset);
	pass(HD_MS);
	query = newest(HD_MSG_QUERY, scene.server, scene.client);
	assert_non_null(query);
	inject(scene.server->addr, neighbour->addr, query);
	pass(HD_MS);
	assert_null(newest(HD_MSG_GONE, neighbour, NULL));
	assert_int_equal(hd_endpoint_stats(neighbour->endpoint)->drop_address, 1);
	scene.client->cut = false;
	pass(HD_SECOND);
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
	open_session();
	scene.net.tap = race;
	for (int i = 0; i < 30; i++) {
		send_go(scene.server, 1);
		send_go(scene.client, 1);
		pass(100 * HD_MS);
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

/* What the answerer said before it ended came from somewhere else first: it is looked for where it was asked. */
static void test_opener_keeps_to_the_address(void **state) {
	(void)state;
	open_session();
	scene.net.tap = race_to_opener;
	send_go(scene.server, 1);
	pass(HD_MS);
	net_stop(scene.server);
	pass(2 * HD_SECOND);
	assert_null(scene.client->session);
	net_restart(scene.server, 9);
	pass(HD_SECOND);
	assert_string_equal(scene.client->order, "oco");
}

/* A peer that moves after it has moved, and what it said before is played again from where it was. */
static void test_moved_peer_stays_moved(void **state) {
	struct hd_addr old = scene.client->addr;

	(void)state;
	open_session();
	scene.client->addr.port = 50000; /* what a NAT does */
	send_go(scene.client, 1);
	pass(2 * HD_SECOND);
	assert_int_equal(hd_session_peer(scene.server->session).port, 50000);
	for (size_t i = 0; i < scene.count; i++)
		if (hd_addr_equal(scene.seen[i].to, scene.server->addr))
			inject(old, scene.server->addr, &scene.seen[i]);
	pass(HD_MS);
	assert_int_equal(hd_session_peer(scene.server->session).port, 50000);
	assert_string_equal(scene.server->order, "o");
}

/* A QUERY of a session that has ended is answered as often as it is played, but at nobody's cost. */
static void test_replayed_query(void **state) {
	static const uint8_t zeros[HD_KEY_BYTES];
	struct hd_control_header header = {.type = HD_PACKET_HELLO, .kind = HD_MSG_RESET};
	struct node *newcomer = net_add(&scene.net, &client_config);
	uint8_t packet[200], body[4];
	struct flight reset = {.data = packet};
	const struct flight *query;

	(void)state;
	open_session();
	hd_put32(body, scene.net.welcome.session);
	reset.bytes = net_forge(zeros, &header, body, sizeof body, packet);
	inject(scene.server->addr, scene.client->addr, &reset);
	pass(HD_MS);
	query = newest(HD_MSG_QUERY, scene.client, scene.server);
	assert_non_null(query);
	scene.net.tap = NULL;
	net_stop(scene.client);
	pass(2 * HD_SECOND);
	for (int i = 0; i < 7000; i++) {
		inject((struct hd_addr){0x0c000001, 999}, scene.server->addr, query);
		if (i == 5000)
			assert_non_null(net_connect(newcomer, scene.server));
		pass(10 * HD_US);
	}
	assert_string_equal(newcomer->order, "o");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_refusals_end_no_opening, begin, finish),
		cmocka_unit_test_setup_teardown(test_refusals_end_no_session, begin, finish),
		cmocka_unit_test_setup_teardown(test_resets_end_no_session, begin, finish),
		cmocka_unit_test_setup_teardown(test_hello_led_astray, begin, finish),
		cmocka_unit_test_setup_teardown(test_welcome_from_elsewhere, begin, finish),
		cmocka_unit_test_setup_teardown(test_replayed_hello, begin, finish),
		cmocka_unit_test_setup_teardown(test_cookies_are_bound, begin, finish),
		cmocka_unit_test_setup_teardown(test_cookies_of_others, begin, finish),
		cmocka_unit_test_setup_teardown(test_restart_is_still_noticed, begin, finish),
		cmocka_unit_test_setup_teardown(test_restart_of_opener_is_noticed, begin, finish),
		cmocka_unit_test_setup_teardown(test_query_of_a_neighbour, begin, finish),
		cmocka_unit_test_setup_teardown(test_copies_that_come_first, begin, finish),
		cmocka_unit_test_setup_teardown(test_opener_keeps_to_the_address, begin, finish),
		cmocka_unit_test_setup_teardown(test_moved_peer_stays_moved, begin, finish),
		cmocka_unit_test_setup_teardown(test_replayed_query, begin, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
