/* SPDX-License-Identifier: BSD-3-Clause */
/* Replayed and forged packets of sessions; lives that end and begin again. */
#include "endpoint_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEPT_MAX 4096

static const struct net_node_config server_config = {
	.name = "server",
	.role = HD_ROLE_SERVER,
	.accepts = true,
};
static const struct net_node_config client_config = {.name = "client", .role = HD_ROLE_WORKER};

/* Copies of packets, as an attacker on the path could keep them. */
struct kept {
	struct flight flight[KEPT_MAX];
	size_t count;
	bool off;
};

static void keep(struct net *net, const struct flight *flight) {
	struct kept *kept = net->tap_user;
	struct flight copy = *flight;

	if (kept->off || kept->count == KEPT_MAX)
		return;
	copy.data = malloc(flight->bytes);
	assert_non_null(copy.data);
	memcpy(copy.data, flight->data, flight->bytes);
	kept->flight[kept->count++] = copy;
}

static void forget(struct kept *kept) {
	for (size_t i = 0; i < kept->count; i++)
		free(kept->flight[i].data);
	kept->count = 0;
}

static struct kept *tap(struct net *net) {
	struct kept *kept = calloc(1, sizeof *kept);

	assert_non_null(kept);
	net->tap = keep;
	net->tap_user = kept;
	return kept;
}

static void send_go(struct node *node, uint64_t token) {
	struct hd_message message = {.kind = HD_MSG_GO, .go = {.token = token}};

	assert_int_equal(hd_session_send(node->session, &message, node_now(node), &node->sink), 0);
}

struct pair {
	struct net net;
	struct node *server, *client;
	struct kept *kept;
};

static void open_pair(struct pair *pair, uint64_t seed) {
	net_init(&pair->net, seed);
	pair->kept = tap(&pair->net);
	pair->server = net_add(&pair->net, &server_config);
	pair->client = net_add(&pair->net, &client_config);
	assert_non_null(net_connect(pair->client, pair->server));
	net_run(&pair->net, pair->net.now + 100 * HD_MS);
	assert_int_equal(pair->client->opened, 1);
	assert_int_equal(pair->server->opened, 1);
}

static void close_pair(struct pair *pair) {
	forget(pair->kept);
	free(pair->kept);
	net_fini(&pair->net);
}

static void test_replay_changes_nothing(void **state) {
	struct pair p;
	struct hd_endpoint_stats before, after;
	unsigned sent;

	(void)state;
	open_pair(&p, 1);
	for (int i = 0; i < 300; i++) {
		send_go(p.client, (uint64_t)i);
		net_run(&p.net, p.net.now + HD_MS);
	}
	assert_int_equal(p.server->messages, 300);
	p.kept->off = true;
	before = *hd_endpoint_stats(p.server->endpoint);
	sent = p.server->sent_packets;
	for (size_t i = 0; i < p.kept->count; i++)
		if (hd_addr_equal(p.kept->flight[i].from, p.client->addr))
			net_inject(
				&p.net,
				p.client->addr,
				p.server->addr,
				p.kept->flight[i].data,
				p.kept->flight[i].bytes
			);
	net_run(&p.net, p.net.now + HD_MS);
	after = *hd_endpoint_stats(p.server->endpoint);
	assert_int_equal(p.server->messages, 300);
	assert_in_range(p.server->sent_packets - sent, 0, 2); /* its own PINGs at most */
	assert_true(after.drop_replay - before.drop_replay > 300);
	assert_int_equal(after.drop_tag, 0);
	assert_string_equal(p.server->order, "o");
	close_pair(&p);
}

static void test_every_changed_byte_is_noticed(void **state) {
	struct pair p;
	struct flight *genuine;
	uint8_t changed[1500];

	(void)state;
	open_pair(&p, 2);
	forget(p.kept);
	p.server->cut = true;
	send_go(p.client, 42);
	net_run(&p.net, p.net.now + HD_MS);
	p.server->cut = false;
	genuine = &p.kept->flight[0];
	for (size_t i = 0; i < genuine->bytes; i++)
		for (int bit = 0; bit < 8; bit++) {
			memcpy(changed, genuine->data, genuine->bytes);
			changed[i] ^= (uint8_t)(1 << bit);
			net_inject(&p.net, p.client->addr, p.server->addr, changed, genuine->bytes);
		}
	for (size_t cut = 0; cut < genuine->bytes; cut++)
		net_inject(&p.net, p.client->addr, p.server->addr, genuine->data, cut);
	net_run(&p.net, p.net.now + HD_MS);
	assert_int_equal(p.server->messages, 0);
	assert_string_equal(p.server->order, "o");
	assert_string_equal(p.client->order, "o"); /* no REFUSE was believed */
	assert_true(hd_endpoint_stats(p.server->endpoint)->drop_tag > 300);
	net_inject(&p.net, p.client->addr, p.server->addr, genuine->data, genuine->bytes);
	net_run(&p.net, p.net.now + HD_MS);
	assert_int_equal(p.server->messages, 1);
	close_pair(&p);
}

/* A sender that has the key but is on the wrong side is a mirror. */
static void test_reflected_packets_are_refused(void **state) {
	struct pair p;
	uint8_t key[HD_KEY_BYTES], packet[200], go[12] = {0};
	struct hd_control_header header = {
		.type = HD_PACKET_CONTROL,
		.kind = HD_MSG_GO,
		.key_id = 7,
		.sequence = 1000000,
	};
	size_t bytes;

	(void)state;
	open_pair(&p, 3);
	net_session_key(&p.net, key);
	header.session = p.net.hello.session;
	bytes = net_forge(key, &header, go, sizeof go, packet);
	net_inject(&p.net, p.server->addr, p.client->addr, packet, bytes);
	net_run(&p.net, p.net.now + HD_MS);
	assert_int_equal(p.client->messages, 0);
	assert_int_equal(hd_endpoint_stats(p.client->endpoint)->drop_tag, 1);
	header.flags = HD_CONTROL_ANSWERER;
	bytes = net_forge(key, &header, go, sizeof go, packet);
	net_inject(&p.net, p.server->addr, p.client->addr, packet, bytes);
	net_run(&p.net, p.net.now + HD_MS);
	assert_int_equal(p.client->messages, 1);
	close_pair(&p);
}

static void inject_number(struct pair *p, const uint8_t *key, uint64_t sequence, uint32_t number) {
	uint8_t packet[200], go[12] = {0};
	struct hd_control_header header = {
		.type = HD_PACKET_CONTROL,
		.kind = HD_MSG_GO,
		.key_id = 7,
		.session = p->net.welcome.session,
		.sequence = sequence,
		.message = number,
	};
	size_t bytes = net_forge(key, &header, go, sizeof go, packet);

	net_inject(&p->net, p->client->addr, p->server->addr, packet, bytes);
	net_run(&p->net, p->net.now + HD_MS);
}

static void test_window_of_sequences(void **state) {
	struct pair p;
	const struct hd_endpoint_stats *stats;
	uint8_t key[HD_KEY_BYTES];

	(void)state;
	open_pair(&p, 4);
	p.client->cut = true;
	net_session_key(&p.net, key);
	stats = hd_endpoint_stats(p.server->endpoint);
	inject_number(&p, key, 100000, 0);
	inject_number(&p, key, 100000 - 1023, 0); /* the oldest that fits */
	assert_int_equal(p.server->messages, 2);
	inject_number(&p, key, 100000 - 1023, 0);
	assert_int_equal(stats->drop_replay, 1);
	inject_number(&p, key, 100000 - 1024, 0);
	inject_number(&p, key, 0, 0);
	assert_int_equal(stats->drop_out_of_window, 2);
	inject_number(&p, key, 100001, 0); /* takes the place of 100001 - 1024 */
	inject_number(&p, key, 100001 - 1023, 0);
	assert_int_equal(p.server->messages, 4);
	for (uint64_t i = 0; i < 3000; i++) /* every residue, in pairs of late and early */
		inject_number(&p, key, 200000 + (i ^ 1), 0);
	assert_int_equal(p.server->messages, 3004);
	assert_int_equal(stats->drop_replay, 1);
	close_pair(&p);
}

static void test_fragment_numbers_out_of_reach(void **state) {
	struct pair p;
	const struct hd_endpoint_stats *stats;
	uint8_t key[HD_KEY_BYTES];

	(void)state;
	open_pair(&p, 5);
	p.client->cut = true;
	net_session_key(&p.net, key);
	stats = hd_endpoint_stats(p.server->endpoint);
	inject_number(&p, key, 1000, 33);
	inject_number(&p, key, 1001, UINT32_MAX);
	assert_int_equal(stats->drop_out_of_window, 2);
	for (uint32_t number = 32; number > 1; number--)
		inject_number(&p, key, 2000 - number, number);
	assert_int_equal(p.server->messages, 0);
	inject_number(&p, key, 2000, 1);
	assert_int_equal(p.server->messages, 32);
	inject_number(&p, key, 2001, 1);
	assert_int_equal(p.server->messages, 32);
	close_pair(&p);
}

struct part {
	uint64_t sequence;
	uint32_t number;
	uint8_t flags, kind;
	size_t bytes;
};

static void inject_part(struct pair *p, const uint8_t *key, struct part part, const void *body) {
	uint8_t packet[HD_CONTROL_HEADER_BYTES + HD_FRAGMENT_BYTES_MAX + HD_TAG_BYTES];
	struct hd_control_header header = {
		.type = HD_PACKET_CONTROL,
		.flags = part.flags,
		.kind = part.kind,
		.key_id = 7,
		.session = p->net.welcome.session,
		.sequence = part.sequence,
		.message = part.number,
	};
	size_t bytes = net_forge(key, &header, body, part.bytes, packet);

	net_inject(&p->net, p->client->addr, p->server->addr, packet, bytes);
	net_run(&p->net, p->net.now + HD_MS);
}

/* A peer with the key that puts together more than a message may have, or parts of two kinds. */
static void test_messages_that_cannot_be_put_together(void **state) {
	static const uint8_t body[HD_FRAGMENT_BYTES_MAX];
	struct pair p;
	const struct hd_endpoint_stats *stats;
	uint8_t key[HD_KEY_BYTES];
	uint32_t number = 1;

	(void)state;
	open_pair(&p, 20);
	p.client->cut = true;
	net_session_key(&p.net, key);
	stats = hd_endpoint_stats(p.server->endpoint);
	for (; number < 100; number++) {
		struct part part
			= {1000 + number, number, HD_CONTROL_MORE, HD_MSG_TABLE, sizeof body};

		inject_part(&p, key, part, body);
	}
	inject_part(&p, key, (struct part){2000, number++, 0, HD_MSG_TABLE, sizeof body}, body);
	assert_int_equal(stats->drop_malformed, 1);
	inject_part(&p, key, (struct part){2001, number++, HD_CONTROL_MORE, HD_MSG_GO, 6}, body);
	inject_part(&p, key, (struct part){2002, number++, 0, HD_MSG_DURABLE, 6}, body);
	assert_int_equal(stats->drop_malformed, 2);
	assert_int_equal(p.server->messages, 0);
	inject_part(&p, key, (struct part){2003, number++, HD_CONTROL_MORE, HD_MSG_GO, 6}, body);
	inject_part(&p, key, (struct part){2004, number++, 0, HD_MSG_GO, 6}, body);
	assert_int_equal(stats->drop_malformed, 2);
	assert_int_equal(p.server->messages, 1);
	close_pair(&p);
}

static void test_lying_pong_moves_no_clock(void **state) {
	struct pair p;
	struct hd_clock before;
	struct hd_message pong = {.kind = HD_MSG_PONG};
	uint8_t key[HD_KEY_BYTES], body[24];

	(void)state;
	open_pair(&p, 21);
	p.client->cut = true;
	net_session_key(&p.net, key);
	before = hd_session_clock(p.server->session);
	for (uint64_t i = 0; i < 3; i++) {
		pong.pong.sent_ns = i == 0 ? UINT64_MAX : p.net.now - HD_MS;
		pong.pong.received_ns = i == 1 ? 2 * HD_SECOND : HD_SECOND; /* after the reply */
		pong.pong.replied_ns
			= HD_SECOND + (i == 2 ? 5 * HD_MS : 1); /* longer than it took */
		assert_int_equal(hd_message_encode(&pong, body, sizeof body), sizeof body);
		inject_part(&p, key, (struct part){5000 + i, 0, 0, HD_MSG_PONG, sizeof body}, body);
	}
	assert_true(before.valid);
	assert_int_equal(hd_session_clock(p.server->session).offset_ns, before.offset_ns);
	assert_int_equal(hd_session_clock(p.server->session).error_ns, before.error_ns);
	close_pair(&p);
}

/* A burst need not wait for the delayed acknowledgement: 32 may be in flight, 8 are answered. */
static void test_window_is_acknowledged_before_it_is_full(void **state) {
	struct pair p;
	unsigned before;

	(void)state;
	open_pair(&p, 22);
	before = p.server->sent_packets;
	for (uint64_t i = 0; i < 8; i++)
		send_go(p.client, i);
	net_run(&p.net, p.net.now + 110 * HD_US); /* there after 100; the delay would be 500 */
	assert_int_equal(p.server->messages, 8);
	assert_int_equal(p.server->sent_packets - before, 1);
	close_pair(&p);
}

static void test_restart_of_server_is_noticed_at_once(void **state) {
	struct pair p;
	hd_ns began;

	(void)state;
	open_pair(&p, 6);
	net_run(&p.net, p.net.now + HD_SECOND);
	net_restart(p.server, 1);
	began = p.net.now;
	send_go(p.client, 1);
	net_run(&p.net, began + HD_MS);
	assert_int_equal(p.client->closed, 1);
	assert_int_equal(p.client->reason, HD_REASON_CLOSED);
	net_run(&p.net, began + 100 * HD_MS);
	assert_string_equal(p.client->order, "oco");
	send_go(p.client, 2);
	net_run(&p.net, p.net.now + HD_MS);
	assert_int_equal(p.server->messages, 1); /* what was queued for the old life is discarded */
	close_pair(&p);
}

static void test_restart_of_client_replaces_its_session(void **state) {
	struct pair p;

	(void)state;
	open_pair(&p, 7);
	net_run(&p.net, p.net.now + HD_SECOND);
	net_restart(p.client, 1);
	p.client->opened = 0;
	net_connect(p.client, p.server);
	net_run(&p.net, p.net.now + 100 * HD_MS);
	assert_string_equal(p.server->order, "oco");
	assert_int_equal(p.server->reason, HD_REASON_DUPLICATE);
	send_go(p.client, 1);
	net_run(&p.net, p.net.now + HD_MS);
	assert_int_equal(p.server->messages, 1);
	close_pair(&p);
}

/* HELLO of a new incarnation, but the key is never proven: the old session goes on. */
static void test_unproven_hello_disturbs_nothing(void **state) {
	struct pair p;
	size_t hellos;

	(void)state;
	open_pair(&p, 8);
	p.kept->off = true;
	net_restart(p.client, 1); /* a life whose HELLO is recorded and never answered */
	p.kept->off = false;
	forget(p.kept);
	net_connect(p.client, p.server);
	p.server->cut = true;
	net_run(&p.net, p.net.now + 300 * HD_MS);
	hellos = p.kept->count;
	assert_true(hellos >= 2);
	p.server->cut = false;
	net_stop(p.client);

	/* Another pair of the same addresses is open; an attacker replays those HELLOs. */
	p.kept->off = true;
	net_restart(p.client, 2);
	net_connect(p.client, p.server);
	net_run(&p.net, p.net.now + 200 * HD_MS);
	assert_non_null(p.client->session);
	memset(p.server->order, 0, sizeof p.server->order);
	for (size_t i = 0; i < hellos; i++)
		net_inject(
			&p.net,
			p.client->addr,
			p.server->addr,
			p.kept->flight[i].data,
			p.kept->flight[i].bytes
		);
	for (int i = 0; i < 20; i++) {
		send_go(p.client, (uint64_t)i);
		net_run(&p.net, p.net.now + 500 * HD_MS);
	}
	assert_string_equal(p.server->order, "");
	assert_int_equal(p.server->messages, 20);
	close_pair(&p);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay_changes_nothing),
		cmocka_unit_test(test_every_changed_byte_is_noticed),
		cmocka_unit_test(test_reflected_packets_are_refused),
		cmocka_unit_test(test_window_of_sequences),
		cmocka_unit_test(test_fragment_numbers_out_of_reach),
		cmocka_unit_test(test_messages_that_cannot_be_put_together),
		cmocka_unit_test(test_lying_pong_moves_no_clock),
		cmocka_unit_test(test_window_is_acknowledged_before_it_is_full),
		cmocka_unit_test(test_restart_of_server_is_noticed_at_once),
		cmocka_unit_test(test_restart_of_client_replaces_its_session),
		cmocka_unit_test(test_unproven_hello_disturbs_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
