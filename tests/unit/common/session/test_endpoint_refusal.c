/* SPDX-License-Identifier: BSD-3-Clause */
/* HELLO and REFUSE under attack, keys and versions that differ, more peers than there is room for. */
#include "endpoint_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct net_node_config server_config = {
	.name = "server",
	.role = HD_ROLE_SERVER,
	.accepts = true,
};
static const struct net_node_config client_config = {.name = "client", .role = HD_ROLE_WORKER};

struct pair {
	struct net net;
	struct node *server, *client;
};

static void open_pair(struct pair *pair, uint64_t seed) {
	net_init(&pair->net, seed);
	pair->server = net_add(&pair->net, &server_config);
	pair->client = net_add(&pair->net, &client_config);
	assert_non_null(net_connect(pair->client, pair->server));
	net_run(&pair->net, pair->net.now + 100 * HD_MS);
	assert_int_equal(pair->client->opened, 1);
	assert_int_equal(pair->server->opened, 1);
}

static void close_pair(struct pair *pair) {
	net_fini(&pair->net);
}

static void send_go(struct node *node, uint64_t token) {
	struct hd_message message = {.kind = HD_MSG_GO, .go = {.token = token}};

	assert_int_equal(hd_session_send(node->session, &message, node_now(node), &node->sink), 0);
}

/* A HELLO that was said to the server, with the key. */
static size_t forge_hello(struct pair *p, uint32_t number, uint8_t *packet) {
	struct hd_message hello = {.kind = HD_MSG_HELLO};
	struct hd_control_header header = {
		.type = HD_PACKET_HELLO,
		.kind = HD_MSG_HELLO,
		.key_id = 7,
		.sequence = number,
	};
	uint8_t body[300];
	int bytes;

	hello.hello.boot = 1000000 + number;
	memcpy(hello.hello.nonce, &number, sizeof number);
	hello.hello.role = HD_ROLE_WORKER;
	hello.hello.session = 1;
	hello.hello.asked_ipv4 = p->server->addr.ipv4;
	hello.hello.asked_port = p->server->addr.port;
	bytes = hd_message_encode(&hello, body, sizeof body);
	assert_true(bytes > 0);
	return net_forge(
		hd_keyring_find(&p->net.keys, 7)->secret, &header, body, (size_t)bytes, packet
	);
}

/* From addresses that do not answer: nothing is kept, and the answers are shorter than the questions. */
static void test_flood_of_hellos(void **state) {
	struct pair p;
	struct node *late;
	uint8_t packet[400];
	const struct hd_endpoint_stats *stats;
	uint64_t asked = 0, answered;

	(void)state;
	open_pair(&p, 9);
	answered = p.server->sent_bytes;
	for (uint32_t i = 0; i < 5000; i++) {
		struct hd_addr from = {0xc0000000 + i, 999};
		size_t bytes = forge_hello(&p, i, packet);

		asked += bytes;
		net_inject(&p.net, from, p.server->addr, packet, bytes);
	}
	net_run(&p.net, p.net.now + HD_MS);
	stats = hd_endpoint_stats(p.server->endpoint);
	assert_int_equal(stats->drop_candidates, 0);
	assert_true(stats->cookies >= 5000);
	assert_true(p.server->sent_bytes - answered < asked);
	assert_int_equal(p.net.welcome.peer_boot, p.net.hello.boot); /* the client's: no other */
	send_go(p.client, 1);
	net_run(&p.net, p.net.now + HD_MS);
	assert_int_equal(p.server->messages, 1);
	late = net_add(&p.net, &client_config);
	net_connect(late, p.server);
	net_run(&p.net, p.net.now + 100 * HD_MS);
	assert_int_equal(late->opened, 1);
	assert_int_equal(p.client->closed, 0);
	assert_int_equal(p.server->closed, 0);
	close_pair(&p);
}

static void test_refusals_do_not_amplify(void **state) {
	struct pair p;
	uint8_t packet[400];
	uint64_t asked = 0, answered;

	(void)state;
	open_pair(&p, 10);
	answered = p.server->sent_bytes;
	for (uint32_t i = 0; i < 10000; i++) {
		struct hd_addr from = {0xc0000000 + i, 999};
		size_t bytes = forge_hello(&p, i, packet);

		if (i % 2)
			packet[bytes - 1] ^= 1; /* wrong tag */
		else
			packet[2] ^= 0x30; /* another version */
		asked += bytes;
		net_inject(&p.net, from, p.server->addr, packet, bytes);
	}
	net_run(&p.net, p.net.now + HD_MS);
	answered = p.server->sent_bytes - answered;
	assert_true(answered > 0);
	assert_true(answered < asked / 10);
	assert_int_equal(hd_endpoint_stats(p.server->endpoint)->drop_version, 5000);
	assert_int_equal(hd_endpoint_stats(p.server->endpoint)->drop_tag, 5000);
	close_pair(&p);
}

static size_t forge_refuse(
	struct net *net,
	const uint8_t *key,
	uint8_t reason,
	const char *text,
	uint8_t *packet
) {
	struct hd_message refuse = {.kind = HD_MSG_REFUSE};
	struct hd_control_header header = {
		.type = HD_PACKET_HELLO,
		.kind = HD_MSG_REFUSE,
		.key_id = 7,
		.session = net->hello.session,
	};
	uint8_t body[700];
	int bytes;

	refuse.refuse.reason = reason;
	memcpy(refuse.refuse.peer_nonce, net->hello.nonce, sizeof(hd_nonce));
	(void)snprintf(refuse.refuse.text, sizeof refuse.refuse.text, "%s", text);
	bytes = hd_message_encode(&refuse, body, sizeof body);
	assert_true(bytes > 0);
	return net_forge(key, &header, body, (size_t)bytes, packet);
}

static void test_forged_refusal_is_only_a_hint(void **state) {
	struct net net;
	struct node *server, *client;
	uint8_t packet[800], wrong[HD_KEY_BYTES] = {1};
	size_t bytes;

	(void)state;
	net_init(&net, 11);
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	server->cut = true;
	net_connect(client, server);
	net_run(&net, net.now + 10 * HD_MS);
	bytes = forge_refuse(&net, wrong, HD_REASON_REFUSED, "go away", packet);
	for (int i = 0; i < 3; i++)
		net_inject(&net, server->addr, client->addr, packet, bytes);
	net_run(&net, net.now + 10 * HD_MS);
	assert_int_equal(client->closed, 1); /* told once */
	assert_int_equal(client->reason, HD_REASON_UNKNOWN_KEY);
	assert_string_equal(client->text, "go away (not authenticated)");
	server->cut = false;
	net_run(&net, net.now + 2 * HD_SECOND);
	assert_string_equal(client->order, "co");
	net_fini(&net);
}

static void test_other_version_is_notified_in_words(void **state) {
	struct net net;
	struct node *server, *client;
	uint8_t packet[800];
	const uint8_t *secret;
	size_t bytes;

	(void)state;
	net_init(&net, 12);
	secret = hd_keyring_find(&net.keys, 7)->secret;
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	server->cut = true;
	net_connect(client, server);
	net_run(&net, net.now + 10 * HD_MS);
	/* The answer of a node of version 2. */
	bytes = forge_refuse(&net, secret, HD_REASON_VERSION_MISMATCH, "version 2 here", packet);
	packet[2] = (uint8_t)(2 << 4 | HD_PACKET_HELLO);
	hd_auth_sign(secret, packet, bytes - HD_TAG_BYTES, packet + bytes - HD_TAG_BYTES);
	net_inject(&net, server->addr, client->addr, packet, bytes);
	net_run(&net, net.now + 10 * HD_MS);
	assert_string_equal(client->order, "c");
	assert_int_equal(client->reason, HD_REASON_VERSION_MISMATCH);
	assert_string_equal(client->text, "version 2 here (not authenticated)");
	server->cut = false; /* it was not true: HELLO has gone on */
	net_run(&net, net.now + 2 * HD_SECOND);
	assert_string_equal(client->order, "co");
	net_fini(&net);
}

static void keys_differ(const char *client_keys, uint16_t key_id, const char *words) {
	struct net_node_config config = client_config;
	struct hd_keyring other;
	struct net net;
	struct node *server, *client;
	char error[100];

	net_init(&net, 13);
	assert_int_equal(hd_keyring_parse(client_keys, &other, error, sizeof error), 0);
	config.keys = &other;
	config.key_id = key_id;
	server = net_add(&net, &server_config);
	client = net_add(&net, &config);
	net_connect(client, server);
	net_run(&net, net.now + 5 * HD_SECOND);
	assert_int_equal(server->opened + client->opened, 0);
	assert_string_equal(client->order, "c"); /* told once, though HELLO goes on */
	assert_int_equal(client->reason, HD_REASON_UNKNOWN_KEY);
	assert_string_equal(client->text, words);
	net_fini(&net);
	hd_keyring_fini(&other);
}

static void test_unknown_key_is_notified_in_words(void **state) {
	(void)state;
	keys_differ(
		"9 ee0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
		9,
		"key 9: unknown here (not authenticated)"
	);
	keys_differ(
		"7 ee0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
		7,
		"key 7: secrets differ (not authenticated)"
	);
}

static void test_second_key_of_the_ring(void **state) {
	struct net_node_config config = client_config;
	struct net net;
	struct node *server, *client;

	(void)state;
	config.key_id = 8;
	net_init(&net, 14);
	server = net_add(&net, &server_config);
	client = net_add(&net, &config);
	net_connect(client, server);
	net_run(&net, net.now + 100 * HD_MS);
	assert_int_equal(server->opened, 1);
	assert_int_equal(client->opened, 1);
	net_fini(&net);
}

static void test_more_peers_than_room(void **state) {
	struct net_node_config small = server_config;
	struct net net;
	struct node *server, *client[6];
	unsigned open = 0, reported = 0;

	(void)state;
	small.sessions_max = 4;
	net_init(&net, 15);
	server = net_add(&net, &small);
	for (int i = 0; i < 6; i++) {
		client[i] = net_add(&net, &client_config);
		net_connect(client[i], server);
		net_run(&net, net.now + 10 * HD_MS);
	}
	net_run(&net, net.now + 500 * HD_MS);
	for (int i = 0; i < 6; i++) {
		open += client[i]->session != NULL;
		reported += client[i]->reason == HD_REASON_NO_MEMORY;
	}
	assert_int_equal(open, 4);
	assert_int_equal(reported, 2);
	assert_int_equal(server->opened, 4);
	hd_session_close(
		client[0]->session, HD_REASON_LEFT, "", node_now(client[0]), &client[0]->sink
	);
	net_run(&net, net.now + 3 * HD_SECOND);
	assert_int_equal(server->opened, 5);
	assert_int_equal(server->closed, 1);
	net_fini(&net);
}

/* A full node has room for a new incarnation of a peer that it knows, also while it thinks that the old one has
 * moved. */
static void test_new_process_at_a_full_node(void **state) {
	struct net_node_config small = server_config;
	struct node *server, *client;
	struct net net;
	uint16_t home;

	(void)state;
	small.sessions_max = 1;
	net_init(&net, 17);
	server = net_add(&net, &small);
	client = net_add(&net, &client_config);
	net_connect(client, server);
	net_run(&net, net.now + 100 * HD_MS);
	assert_int_equal(server->opened, 1);
	home = client->addr.port;
	client->addr.port = 50000;
	send_go(client, 1);
	client->addr.port = home;
	net_run(&net, net.now + 2 * HD_MS);
	assert_int_equal(hd_session_peer(server->session).port, 50000);
	net_restart(client, 2);
	net_connect(client, server);
	net_run(&net, net.now + 200 * HD_MS);
	assert_int_equal(server->opened, 2);
	assert_int_equal(client->reason, HD_REASON_NONE);
	net_fini(&net);
}

static void test_peer_moves_to_another_port(void **state) {
	struct pair p;

	(void)state;
	open_pair(&p, 16);
	p.client->addr.port = 50000; /* what a NAT does */
	send_go(p.client, 1);
	net_run(&p.net, p.net.now + HD_MS);
	assert_int_equal(p.server->messages, 1);
	assert_int_equal(hd_session_peer(p.server->session).port, 50000);
	send_go(p.server, 2);
	net_run(&p.net, p.net.now + HD_MS);
	assert_int_equal(p.client->messages, 1);
	close_pair(&p);
}

static void test_creation_refuses_bad_configuration(void **state) {
	struct net net;
	struct hd_endpoint *endpoint = (struct hd_endpoint *)&net;
	struct hd_endpoint_config config = {.role = HD_ROLE_WORKER, .key_id = 7, .name = "w"};

	(void)state;
	net_init(&net, 1);
	config.keys = &net.keys;
	config.key_id = 99;
	assert_true(hd_endpoint_create(&config, &endpoint) < 0);
	config.key_id = 7;
	config.role = HD_ROLE_COUNT;
	assert_true(hd_endpoint_create(&config, &endpoint) < 0);
	config.role = HD_ROLE_WORKER;
	config.name = "a\nb";
	assert_true(hd_endpoint_create(&config, &endpoint) < 0);
	config.name = "12345678901234567890123456789012345678901234567890123456789012345";
	assert_true(hd_endpoint_create(&config, &endpoint) < 0);
	config.name = "w";
	config.sessions_max = HD_SESSIONS_MAX + 1;
	assert_true(hd_endpoint_create(&config, &endpoint) < 0);
	assert_ptr_equal(endpoint, &net);
	config.sessions_max = 0;
	assert_int_equal(hd_endpoint_create(&config, &endpoint), 0);
	hd_endpoint_destroy(endpoint);
	net_fini(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flood_of_hellos),
		cmocka_unit_test(test_refusals_do_not_amplify),
		cmocka_unit_test(test_forged_refusal_is_only_a_hint),
		cmocka_unit_test(test_other_version_is_notified_in_words),
		cmocka_unit_test(test_unknown_key_is_notified_in_words),
		cmocka_unit_test(test_second_key_of_the_ring),
		cmocka_unit_test(test_more_peers_than_room),
		cmocka_unit_test(test_new_process_at_a_full_node),
		cmocka_unit_test(test_peer_moves_to_another_port),
		cmocka_unit_test(test_creation_refuses_bad_configuration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
