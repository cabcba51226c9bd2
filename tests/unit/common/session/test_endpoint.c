/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions over a network that loses, repeats and reorders: every message once, in order; clocks;
 * fragments; limits. */
#include "endpoint_net.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct net_node_config server_config = {
	.name = "server",
	.role = HD_ROLE_SERVER,
	.accepts = true,
};
static const struct net_node_config client_config = {.name = "client", .role = HD_ROLE_WORKER};

/* A numbered message: `round` counts; some are long, with bytes that follow from the number. */
struct stream {
	uint32_t sent, received, wanted;
	uint8_t *blob;
};

static uint32_t length_of(uint32_t number) {
	return number % 7 == 0 ? (number * 7919) % 40000 : 0;
}

static int send_number(struct node *node, struct hd_session *session, uint32_t number) {
	struct stream *stream = node->user;
	struct hd_message message = {.kind = HD_MSG_JOIN};

	message.join.last_round = number;
	message.join.spec.bytes = length_of(number);
	message.join.spec.data = stream->blob;
	memset(stream->blob, (int)(number & 0xff), message.join.spec.bytes);
	return hd_session_send(session, &message, node_now(node), &node->sink);
}

static void fill(struct node *node) {
	struct stream *stream = node->user;

	while (node->session && stream->sent < stream->wanted
	       && send_number(node, node->session, stream->sent + 1) == 0)
		stream->sent++;
}

static void stream_opened(struct node *node, struct hd_session *session, hd_ns now) {
	(void)session;
	(void)now;
	fill(node);
}

static void stream_message(
	struct node *node,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now
) {
	struct stream *stream = node->user;

	(void)session;
	(void)now;
	assert_int_equal(message->kind, HD_MSG_JOIN);
	assert_int_equal(message->join.last_round, stream->received + 1);
	stream->received++;
	assert_int_equal(message->join.spec.bytes, length_of(stream->received));
	for (uint32_t i = 0; i < message->join.spec.bytes; i++)
		assert_int_equal(message->join.spec.data[i], stream->received & 0xff);
	fill(node);
}

static void start_stream(struct node *node, struct stream *stream, uint32_t wanted) {
	*stream = (struct stream){.wanted = wanted, .blob = malloc(65536)};
	assert_non_null(stream->blob);
	node->user = stream;
	node->on_opened = stream_opened;
	node->on_message = stream_message;
}

struct weather {
	uint64_t seed;
	double loss, duplicate;
	hd_ns delay, jitter;
};

/* Both directions at once, thousands of messages, some of many fragments. */
static void pour(const struct weather *weather, struct hd_endpoint_stats stats[2]) {
	struct net net;
	struct node *server, *client;
	struct stream up, down;

	net_init(&net, weather->seed);
	net.loss = weather->loss;
	net.duplicate = weather->duplicate;
	net.delay = weather->delay;
	net.jitter = weather->jitter;
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	start_stream(client, &up, 1500);
	start_stream(server, &down, 1000);
	assert_non_null(net_connect(client, server));
	for (int i = 0; i < 600 && (up.received < 1000 || down.received < 1500); i++) {
		net_run(&net, net.now + 100 * HD_MS);
		fill(client);
		fill(server);
	}
	assert_int_equal(down.received, 1500); /* received counts what the other side sent */
	assert_int_equal(up.received, 1000);
	assert_int_equal(client->closed, 0);
	assert_int_equal(server->closed, 0);
	stats[0] = *hd_endpoint_stats(server->endpoint);
	stats[1] = *hd_endpoint_stats(client->endpoint);
	assert_int_equal(stats[0].drop_malformed + stats[1].drop_malformed, 0);
	assert_int_equal(stats[0].drop_tag + stats[1].drop_tag, 0);
	free(up.blob);
	free(down.blob);
	net_fini(&net);
}

static void test_clean_network(void **state) {
	struct hd_endpoint_stats stats[2];
	struct weather fair = {.seed = 1, .delay = 100 * HD_US};

	(void)state;
	pour(&fair, stats);
	assert_int_equal(stats[0].resent + stats[1].resent, 0);
	assert_int_equal(stats[0].drop_replay + stats[1].drop_replay, 0);
}

static void test_rough_networks(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct hd_endpoint_stats stats[2];
		struct weather rough = {
			.seed = seed,
			.loss = (double)(seed % 4) * 0.07,
			.duplicate = (double)(seed % 3) * 0.1,
			.delay = 50 * HD_US * seed,
			.jitter = seed % 2 ? 3 * HD_MS : 0,
		};

		pour(&rough, stats);
		if (rough.loss > 0)
			assert_true(stats[0].resent + stats[1].resent > 0);
		if (rough.duplicate > 0)
			assert_true(stats[0].drop_replay > 0 && stats[1].drop_replay > 0);
	}
}

static void test_same_seed_same_packets(void **state) {
	struct hd_endpoint_stats first[2], second[2];
	struct weather rough = {3, 0.1, 0.1, 200 * HD_US, HD_MS};

	(void)state;
	pour(&rough, first);
	pour(&rough, second);
	assert_memory_equal(first, second, sizeof first);
}

/* One percent of loss must not cost timeouts: three later ones tell it. */
static void test_loss_is_repaired_within_round_trips(void **state) {
	struct net net;
	struct node *server, *client;
	struct stream up, down;
	hd_ns began;

	(void)state;
	net_init(&net, 5);
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	start_stream(client, &up, 4000);
	start_stream(server, &down, 0);
	net.loss = 0.01;
	net.delay = HD_MS;
	net_connect(client, server);
	net_run(&net, net.now + 100 * HD_MS);
	began = net.now;
	while (down.received < 4000 && net.now < began + 20 * HD_SECOND) {
		net_run(&net, net.now + HD_MS);
		fill(client);
	}
	/* About 18,000 fragments, 32 in a round trip of 2 ms: 1.1 s without loss. */
	assert_int_equal(down.received, 4000);
	assert_true(net.now - began < 3 * HD_SECOND);
	free(up.blob);
	free(down.blob);
	net_fini(&net);
}

static void burst(struct node *node, unsigned count) {
	struct hd_message message = {.kind = HD_MSG_GO};

	for (unsigned i = 0; i < count; i++)
		assert_int_equal(
			hd_session_send(node->session, &message, node_now(node), &node->sink), 0
		);
}

/* Long before the timeout: as soon as the third later one is acknowledged. */
static void test_three_later_ones_tell_a_loss(void **state) {
	struct net net;
	struct node *server, *client;
	hd_ns began;

	(void)state;
	net_init(&net, 1);
	net.delay = 10 * HD_MS;
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	net_connect(client, server);
	net_run(&net, net.now + HD_SECOND);
	began = net.now;
	net.loss = 1;
	burst(client, 1);
	net.loss = 0;
	net_run(&net, began + 5 * HD_MS);
	burst(client, 2);
	net_run(&net, began + 10 * HD_MS);
	burst(client, 1);
	/* The third is told at 30 ms. The timer began again at 25 ms, for 20.5 ms at least. */
	net_run(&net, began + 24 * HD_MS);
	assert_int_equal(hd_endpoint_stats(client->endpoint)->resent, 0);
	net_run(&net, began + 35 * HD_MS);
	assert_int_equal(hd_endpoint_stats(client->endpoint)->resent, 1);
	net_run(&net, began + 43 * HD_MS);
	assert_int_equal(server->messages, 4);
	net_fini(&net);
}

static void test_timeouts_back_off(void **state) {
	struct net_node_config patient = client_config;
	struct net net;
	struct node *server, *client;

	(void)state;
	patient.dead_us = 60000000;
	net_init(&net, 1);
	server = net_add(&net, &server_config);
	client = net_add(&net, &patient);
	net_connect(client, server);
	net_run(&net, net.now + HD_SECOND);
	server->cut = true;
	burst(client, 1);
	net_run(&net, net.now + 10 * HD_SECOND);
	/* 2 ms doubled nine times is a second, and then once a second. */
	assert_in_range(hd_endpoint_stats(client->endpoint)->resent, 10, 20);
	net_fini(&net);
}

static void assert_clock(struct node *node, struct node *peer, hd_ns bound) {
	struct hd_clock clock = hd_session_clock(node->session);
	int64_t offset = (int64_t)(node_now(peer) - node_now(node));
	uint64_t error = (uint64_t)llabs(offset - clock.offset_ns);

	assert_true(clock.valid);
	assert_true(error <= clock.error_ns);
	assert_true(clock.error_ns <= bound);
	assert_true(
		llabs((int64_t
		)(hd_session_from_peer_time(node->session, node_now(peer), 0) - node_now(node)))
		<= (int64_t)bound
	);
}

static void test_clock_offset_with_skew(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct net_node_config skewed = client_config;
		struct net net;
		struct node *server, *client;

		skewed.clock_offset_ns
			= seed % 2 ? 3600 * (int64_t)HD_SECOND : -900 * (int64_t)HD_MS;
		skewed.clock_ppm = seed % 3 == 0 ? -50 : 50;
		net_init(&net, seed);
		net.delay = 200 * HD_US;
		net.jitter = 300 * HD_US;
		net.loss = 0.02;
		server = net_add(&net, &server_config);
		client = net_add(&net, &skewed);
		net_connect(client, server);
		net_run(&net, net.now + 200 * HD_MS);
		assert_non_null(client->session);
		assert_int_equal(hd_session_from_peer_time(client->session, 5, 77) != 77, 1);
		for (int i = 0; i < 40; i++) {
			net_run(&net, net.now + 250 * HD_MS);
			assert_clock(client, server, HD_MS);
		}
		assert_clock(server, client, 2 * HD_MS);
		assert_in_range(hd_session_rtt(client->session), 400 * HD_US, 2 * HD_MS);
		assert_in_range(hd_session_rtt_least(client->session), 400 * HD_US, HD_MS);
		net_fini(&net);
	}
}

/* Hardly any delay: then only the age of an exchange makes its error. */
static void test_clock_error_grows_with_age(void **state) {
	struct net_node_config skewed = client_config;
	struct net net;
	struct node *server, *client;

	(void)state;
	skewed.clock_ppm = 90;
	net_init(&net, 1);
	net.delay = 2 * HD_US;
	server = net_add(&net, &server_config);
	client = net_add(&net, &skewed);
	net_connect(client, server);
	net_run(&net, net.now + 500 * HD_MS);
	for (int i = 0; i < 300; i++) {
		net_run(&net, net.now + 33 * HD_MS);
		assert_clock(client, server, 300 * HD_US);
		assert_clock(server, client, 2 * HD_MS);
	}
	net_fini(&net);
}

static void test_clock_unknown_before_first_pong(void **state) {
	struct net net;
	struct node *server, *client;
	struct hd_session *session;

	(void)state;
	net_init(&net, 1);
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	session = net_connect(client, server);
	assert_false(hd_session_clock(session).valid);
	assert_int_equal(hd_session_from_peer_time(session, 5, 77), 77);
	assert_int_equal(hd_session_rtt(session), 0);
	assert_false(hd_session_is_open(session));
	net_fini(&net);
}

static void test_close_is_notified(void **state) {
	struct net net;
	struct node *server, *client;

	(void)state;
	net_init(&net, 1);
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	net_connect(client, server);
	net_run(&net, net.now + 100 * HD_MS);
	hd_session_close(
		client->session, HD_REASON_LEFT, "done\nfor today", node_now(client), &client->sink
	);
	net_run(&net, net.now + HD_MS);
	assert_int_equal(server->closed, 1);
	assert_int_equal(server->reason, HD_REASON_CLOSED);
	assert_string_equal(server->text, "done?for today");
	assert_int_equal(client->closed, 0);
	assert_int_equal(hd_endpoint_deadline(client->endpoint), HD_NEVER);
	assert_int_equal(hd_endpoint_deadline(server->endpoint), HD_NEVER);
	net_fini(&net);
}

static void test_failing_send_changes_nothing(void **state) {
	struct net net;
	struct node *server, *client;
	struct hd_message message = {.kind = HD_MSG_GO};
	struct hd_session *session;
	static uint8_t big[HD_MESSAGE_BYTES_MAX];
	struct stream down, up;
	unsigned packets, accepted = 0;

	(void)state;
	net_init(&net, 1);
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	session = net_connect(client, server);
	assert_int_equal(
		hd_session_send(session, &message, node_now(client), &client->sink), -ENOTCONN
	);
	assert_int_equal(
		hd_session_send_once(session, &message, node_now(client), &client->sink), -ENOTCONN
	);
	net_run(&net, net.now + 100 * HD_MS);
	packets = client->sent_packets;
	message = (struct hd_message){.kind = 99};
	assert_int_equal(
		hd_session_send(session, &message, node_now(client), &client->sink), -EINVAL
	);
	message = (struct hd_message){.kind = HD_MSG_JOIN};
	message.join.spec = (struct hd_blob){big, sizeof big};
	assert_int_equal(
		hd_session_send(session, &message, node_now(client), &client->sink), -EMSGSIZE
	);
	message.join.spec.bytes = 2000;
	assert_int_equal(
		hd_session_send_once(session, &message, node_now(client), &client->sink), -EMSGSIZE
	);
	assert_int_equal(client->sent_packets, packets);

	/* Fill the queue to the brim, fail, then everything accepted arrives once and in order. */
	start_stream(server, &down, 0);
	start_stream(client, &up, 100000);
	server->cut = true;
	fill(client);
	accepted = up.sent;
	assert_true(accepted > 100 && accepted < 4096);
	for (int i = 0; i < 5; i++)
		assert_int_equal(send_number(client, session, accepted + 1), -ENOBUFS);
	server->cut = false;
	up.wanted = accepted;
	net_run(&net, net.now + 5 * HD_SECOND);
	assert_int_equal(down.received, accepted);
	free(up.blob);
	free(down.blob);
	net_fini(&net);
}

/* An acknowledgement that nothing carries leaves by itself, soon. */
static void test_unsolicited_data_is_acknowledged_soon(void **state) {
	struct net net;
	struct node *server, *client;
	struct hd_message message = {.kind = HD_MSG_GO};

	(void)state;
	net_init(&net, 1);
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	net_connect(client, server);
	net_run(&net, net.now + 100 * HD_MS);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(
			hd_session_send(client->session, &message, node_now(client), &client->sink),
			0
		);
		net_run(&net, net.now + 5 * HD_MS);
	}
	assert_int_equal(server->messages, 50);
	assert_int_equal(hd_endpoint_stats(client->endpoint)->resent, 0);
	net_fini(&net);
}

static void
echo(struct node *node, struct hd_session *session, const struct hd_message *message, hd_ns now) {
	hd_session_send(session, message, now, &node->sink);
}

/* Request and answer: the acknowledgement rides on the answer. */
static void test_acknowledgement_rides_on_the_answer(void **state) {
	struct net net;
	struct node *server, *client;
	struct hd_message message = {.kind = HD_MSG_GO};
	unsigned before;

	(void)state;
	net_init(&net, 1);
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	server->on_message = echo;
	net_connect(client, server);
	net_run(&net, net.now + 100 * HD_MS);
	before = server->sent_packets;
	for (int i = 0; i < 20; i++) {
		hd_session_send(client->session, &message, node_now(client), &client->sink);
		net_run(&net, net.now + 10 * HD_MS);
	}
	assert_int_equal(client->messages, 20);
	assert_in_range(server->sent_packets - before, 20, 24); /* and a few PONGs */
	net_fini(&net);
}

static void close_at_once(
	struct node *node,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now
) {
	(void)message;
	hd_session_close(session, HD_REASON_LEFT, "enough", now, &node->sink);
	assert_int_equal(hd_session_send(session, message, now, &node->sink), -ENOTCONN);
}

static void
close_when_closed(struct node *node, struct hd_session *session, enum hd_reason reason) {
	(void)reason;
	hd_session_close(session, HD_REASON_LEFT, "me too", node_now(node), &node->sink);
}

static void test_close_inside_callbacks(void **state) {
	struct net net;
	struct node *server, *client;
	struct hd_message message = {.kind = HD_MSG_GO};

	(void)state;
	net_init(&net, 1);
	server = net_add(&net, &server_config);
	client = net_add(&net, &client_config);
	server->on_message = close_at_once;
	client->on_closed = close_when_closed;
	net_connect(client, server);
	net_run(&net, net.now + 100 * HD_MS);
	for (int i = 0; i < 3; i++)
		hd_session_send(client->session, &message, node_now(client), &client->sink);
	net_run(&net, net.now + 5 * HD_SECOND);
	assert_int_equal(server->messages, 1);
	assert_int_equal(client->closed, 1);
	assert_string_equal(client->text, "enough");
	assert_int_equal(client->opened, 1); /* its owner closed it: no HELLO again */
	assert_int_equal(hd_endpoint_deadline(client->endpoint), HD_NEVER);
	net_fini(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean_network),
		cmocka_unit_test(test_rough_networks),
		cmocka_unit_test(test_same_seed_same_packets),
		cmocka_unit_test(test_loss_is_repaired_within_round_trips),
		cmocka_unit_test(test_clock_offset_with_skew),
		cmocka_unit_test(test_three_later_ones_tell_a_loss),
		cmocka_unit_test(test_timeouts_back_off),
		cmocka_unit_test(test_clock_error_grows_with_age),
		cmocka_unit_test(test_clock_unknown_before_first_pong),
		cmocka_unit_test(test_close_is_notified),
		cmocka_unit_test(test_failing_send_changes_nothing),
		cmocka_unit_test(test_unsolicited_data_is_acknowledged_soon),
		cmocka_unit_test(test_acknowledgement_rides_on_the_answer),
		cmocka_unit_test(test_close_inside_callbacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
