/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of the dataplane: nodes are polled while a shell looks, and their answers are bounded. */
#include "controller_net.h"
#include "ctl_core.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 4 /* and the controller */

struct scene {
	struct net net;
	struct peer *server, *aggregator, *workers[2], *shell;
	json_t *document; /* the newest */
};

static struct scene *open_scene(void) {
	const struct net_config config = {.epoch = 3, .initial_bps = 80e6};
	struct scene *s = calloc(1, sizeof *s);

	assert_non_null(s);
	net_open(&s->net, &config);
	s->server = net_server(&s->net, "ps");
	s->net.beside = s->server;
	s->aggregator = net_aggregator(&s->net, "ps", 1 << 20);
	s->workers[0] = net_worker(&s->net, "t", "digits", 0, 8);
	s->workers[1] = net_worker(&s->net, "t", "digits", 1, 8);
	s->shell = net_peer(&s->net, HD_ROLE_SHELL, "ctl");
	net_run(&s->net, SETTLED);
	return s;
}

static void close_scene(struct scene *s) {
	json_decref(s->document);
	net_close(&s->net);
	free(s);
}

static const struct ctl_counters *counted(struct scene *s) {
	return counters(&s->net);
}

/* Its rows, until the next one is asked for. */
static const json_t *show(struct scene *s, const char *table, const char *filter) {
	struct hd_message m = {.kind = HD_MSG_SHOW};

	(void)snprintf(m.show.table, sizeof m.show.table, "%s", table);
	(void)snprintf(m.show.filter, sizeof m.show.filter, "%s", filter);
	free(s->shell->json);
	s->shell->json = NULL;
	post(s->shell, m);
	net_run(&s->net, 20 * HD_MS);
	assert_non_null(s->shell->json);
	json_decref(s->document);
	s->document = json_loads(s->shell->json, 0, NULL);
	return json_object_get(s->document, "rows");
}

static json_t *field(const json_t *rows, size_t row, const char *name) {
	json_t *value = json_object_get(json_array_get(rows, row), name);

	assert_non_null(value);
	return value;
}

static json_int_t number(const json_t *rows, size_t row, const char *name) {
	assert_true(json_is_integer(field(rows, row, name)));
	return json_integer_value(field(rows, row, name));
}

static const char *text(const json_t *rows, size_t row, const char *name) {
	return json_string_value(field(rows, row, name));
}

static void send_once(struct peer *peer, const struct hd_message *m) {
	struct net *net = peer->net;

	net->sender = peer->addr;
	assert_int_equal(hd_session_send_once(peer->session, m, net->now, &net->sink), 0);
	net_run(net, HD_MS);
}

/* The node's answer to the newest POLL that it has heard. */
static void answer(struct peer *peer, hd_ns at, const struct hd_dataplane *d) {
	const struct hd_message *poll = peer_last(peer, HD_MSG_POLL);
	struct hd_message m = {.kind = HD_MSG_STATS};
	uint8_t values[HD_DATAPLANE_BYTES_MAX];

	assert_non_null(poll);
	m.stats.mark = poll->poll.mark;
	m.stats.at_ns = at;
	m.stats.values = (struct hd_blob){values, (uint32_t)hd_dataplane_encode(d, values)};
	send_once(peer, &m);
}

static struct hd_dataplane sample(uint64_t k) {
	return (struct hd_dataplane){
		.rx_packets = 100 * k,
		.rx_bytes = 125000 * k,
		.tx_packets = 10 * k,
		.tx_bytes = 1250 * k,
		.chunks_resent = k,
		.processor_us = 500000 * k,
		.queue_bytes = 77,
		.drop_token = 2 * k,
		.drop_mac = k,
	};
}

static void answer_all(struct scene *s, hd_ns at, uint64_t k) {
	const struct hd_dataplane d = sample(k);
	struct peer *peers[NODES] = {s->server, s->aggregator, s->workers[0], s->workers[1]};

	for (int i = 0; i < NODES; i++)
		answer(peers[i], at, &d);
}

/* --- tests --- */

static void test_asks_while_a_shell_looks(void **state) {
	struct scene *s = open_scene();
	uint64_t polls;

	(void)state;
	net_run(&s->net, 5 * HD_SECOND);
	assert_int_equal(counted(s)->polls, 0); /* no shell has looked */
	(void)show(s, "nodes", "");
	net_run(&s->net, 2 * HD_SECOND);
	assert_int_equal(counted(s)->polls, 0);
	(void)show(s, "dataplane", "");
	assert_int_equal(counted(s)->polls, NODES); /* registered ones only, at once */
	assert_int_equal(peer_count(s->server, HD_MSG_POLL), 1);
	assert_int_equal(peer_count(s->shell, HD_MSG_POLL), 0);
	net_run(&s->net, 10 * HD_SECOND);
	polls = counted(s)->polls;
	assert_in_range(polls, 3 * NODES, 5 * NODES); /* each second, for three */
	net_run(&s->net, 10 * HD_SECOND);
	assert_int_equal(counted(s)->polls, polls);
	close_scene(s);
}

static void test_rows(void **state) {
	struct scene *s = open_scene();
	const json_t *rows = show(s, "dataplane", "");

	(void)state;
	assert_int_equal(json_array_size(rows), 1 + NODES);
	assert_string_equal(text(rows, 0, "role"), "controller");
	assert_true(json_is_null(field(rows, 0, "age_s"))
	); /* its own are read with the first question */
	assert_string_equal(text(rows, 1, "role"), "server");
	assert_true(json_is_null(field(rows, 1, "age_s"))); /* it has not answered */
	assert_true(json_is_null(field(rows, 1, "drops")));
	assert_null(json_object_get(json_array_get(rows, 1), "rx_packets"));
	answer_all(s, HD_SECOND, 1);
	rows = show(s, "dataplane", "role=controller");
	assert_true(json_is_real(field(rows, 0, "age_s")));
	assert_true(number(rows, 0, "control_sent") > 0);
	rows = show(s, "dataplane", "role=worker");
	assert_int_equal(json_array_size(rows), 2);
	assert_string_equal(text(rows, 1, "job"), "digits");
	assert_int_equal(number(rows, 1, "worker"), 1);
	assert_int_equal(number(rows, 1, "rx_bytes"), 125000);
	assert_int_equal(number(rows, 1, "queue_bytes"), 77);
	assert_int_equal(number(rows, 1, "drops"), 3);
	assert_string_equal(text(rows, 1, "drop_reason"), "token");
	assert_true(json_is_null(field(rows, 1, "rx_mbps")));
	net_run(&s->net, HD_SECOND);
	answer_all(s, 3 * HD_SECOND, 3); /* in two seconds of their clocks */
	rows = show(s, "dataplane", "host=ps");
	assert_int_equal(json_array_size(rows), 2);
	assert_true(json_real_value(field(rows, 0, "rx_mbps")) == 1);
	assert_true(json_real_value(field(rows, 0, "tx_pps")) == 10);
	assert_true(json_real_value(field(rows, 0, "resent_pps")) == 1);
	assert_true(json_real_value(field(rows, 0, "cpu_percent")) == 50);
	/* Silent ones grow old, and have no rates. */
	net_run(&s->net, 4 * HD_SECOND);
	rows = show(s, "dataplane", "host=ps");
	assert_true(json_real_value(field(rows, 0, "age_s")) > 4);
	assert_true(json_is_null(field(rows, 0, "rx_mbps")));
	assert_int_equal(number(rows, 0, "rx_packets"), 300);
	close_scene(s);
}

static void test_sums(void **state) {
	struct scene *s = open_scene();
	const json_t *rows;

	(void)state;
	(void)show(s, "dataplane", ""); /* who looks has the nodes asked */
	answer_all(s, HD_SECOND, 1);
	rows = show(s, "dataplane-hosts", "");
	assert_int_equal(json_array_size(rows), 3);
	assert_string_equal(text(rows, 2, "host"), "ps");
	assert_int_equal(number(rows, 2, "nodes"), 2);
	assert_int_equal(number(rows, 2, "silent"), 0);
	assert_int_equal(number(rows, 2, "rx_packets"), 200);
	assert_int_equal(number(rows, 2, "drops"), 6);
	rows = show(s, "dataplane-jobs", "");
	assert_int_equal(json_array_size(rows), 1);
	assert_int_equal(number(rows, 0, "workers"), 2);
	assert_int_equal(number(rows, 0, "rx_packets"), 200);
	rows = show(s, "dataplane-links", "host=ps");
	assert_int_equal(json_array_size(rows), 2);
	assert_string_equal(text(rows, 0, "direction"), "out");
	assert_int_equal(number(rows, 0, "packets"), 20);
	assert_int_equal(number(rows, 1, "bytes"), 250000);
	assert_int_equal(number(rows, 1, "drops"), 6);
	close_scene(s);
}

static void clear(struct scene *s) {
	struct hd_message m = {.kind = HD_MSG_COMMAND};

	m.command.request = 5;
	m.command.verb = HD_VERB_CLEAR;
	(void)snprintf(m.command.object, sizeof m.command.object, "dataplane");
	post(s->shell, m);
	net_run(&s->net, 20 * HD_MS);
	assert_int_equal(peer_last(s->shell, HD_MSG_DONE)->done.reason, HD_REASON_NONE);
	assert_int_equal(peer_last(s->shell, HD_MSG_DONE)->done.affected, 1 + NODES);
}

static void test_clear(void **state) {
	struct scene *s = open_scene();
	const json_t *rows;

	(void)state;
	clear(s); /* before any shell has looked */
	answer_all(s, HD_SECOND, 5);
	rows = show(s, "dataplane", "role=server");
	assert_int_equal(number(rows, 0, "rx_packets"), 0);
	assert_int_equal(number(rows, 0, "queue_bytes"), 77); /* no counter */
	assert_true(json_is_real(field(rows, 0, "cleared_s")));
	net_run(&s->net, HD_SECOND);
	answer_all(s, 2 * HD_SECOND, 7);
	rows = show(s, "dataplane", "role=server");
	assert_int_equal(number(rows, 0, "rx_packets"), 200);
	assert_int_equal(number(rows, 0, "drops"), 6);
	clear(s);
	answer_all(s, 3 * HD_SECOND, 8);
	rows = show(s, "dataplane-hosts", "host=ps");
	assert_int_equal(number(rows, 0, "rx_packets"), 0);
	/* A node that counts from zero again has no base any more. */
	net_run(&s->net, HD_SECOND);
	answer_all(s, 4 * HD_SECOND, 2);
	rows = show(s, "dataplane", "role=server");
	assert_int_equal(number(rows, 0, "rx_packets"), 200);
	assert_true(json_is_null(field(rows, 0, "rx_mbps")));
	assert_true(json_is_null(field(rows, 0, "cleared_s")));
	close_scene(s);
}

static void
send_stats(struct peer *peer, uint32_t mark, hd_ns at, const void *data, uint32_t bytes) {
	const struct hd_message m = {
		.kind = HD_MSG_STATS,
		.stats = {.mark = mark, .at_ns = at, .values = {data, bytes}},
	};

	send_once(peer, &m);
}

/* A node that needs longer than there is between two rounds is seen all the same. */
static void test_slow(void **state) {
	struct scene *s = open_scene();
	struct hd_dataplane d = sample(1);
	uint8_t values[HD_DATAPLANE_BYTES_MAX];
	uint32_t bytes = (uint32_t)hd_dataplane_encode(&d, values), mark;
	const json_t *rows;
	struct peer *late;

	(void)state;
	(void)show(s, "dataplane", "");
	mark = peer_last(s->server, HD_MSG_POLL)->poll.mark;
	for (uint32_t i = 1; i <= 9; i++) {
		net_run(&s->net, 250 * HD_MS);
		(void)show(s, "dataplane", "");
		assert_int_equal(peer_last(s->server, HD_MSG_POLL)->poll.mark, mark + i);
	}
	send_stats(s->server, mark + 1, 3, values, bytes); /* the newest but eight */
	assert_int_equal(counted(s)->stats_unasked, 1);
	send_stats(s->server, mark + 2, 4, values, bytes);
	send_stats(s->server, mark + 8, 5, values, bytes);
	assert_int_equal(counted(s)->stats, 2);
	send_stats(s->server, mark + 7, 6, values, bytes); /* overtaken */
	send_stats(s->server, mark + 8, 7, values, bytes); /* twice */
	assert_int_equal(counted(s)->stats_unasked, 3);
	/* The answer to a poll from before `clear` is shown, but is not the new base. */
	clear(s);
	send_stats(s->server, mark + 9, 8, values, bytes);
	rows = show(s, "dataplane", "role=server");
	assert_int_equal(number(rows, 0, "rx_packets"), 100);
	assert_true(json_is_null(field(rows, 0, "cleared_s")));
	d = sample(2);
	answer(s->server, 9, &d);
	rows = show(s, "dataplane", "role=server");
	assert_int_equal(number(rows, 0, "rx_packets"), 0);
	assert_true(json_is_real(field(rows, 0, "cleared_s")));
	assert_int_equal(counted(s)->stats, 4);
	/* A node that joins later was not polled before. */
	late = net_worker(&s->net, "t", "digits", 2, 8);
	net_run(&s->net, 300 * HD_MS);
	send_stats(late, mark + 10, 5, values, bytes);
	(void)show(s, "dataplane", "");
	send_stats(late, mark + 10, 6, values, bytes);
	assert_int_equal(counted(s)->stats_unasked, 5);
	answer(late, 7, &d);
	assert_int_equal(counted(s)->stats, 5);
	close_scene(s);
}

static bool unreadable;

static void gather(void *owner, struct hd_stats *stats) {
	(void)owner;
	if (unreadable)
		hd_stats_leave_out(stats);
}

/* The controller's own counters are taken whole or not at all. */
static void test_incomplete(void **state) {
	struct scene *s = open_scene();
	struct hd_controller_ops ops = *s->net.controller->config.ops;
	const json_t *rows;

	(void)state;
	ops.gather = gather;
	s->net.controller->config.ops = &ops;
	(void)show(s, "dataplane", "");
	unreadable = true;
	net_run(&s->net, 2500 * HD_MS);
	rows = show(s, "dataplane", "role=controller");
	assert_true(json_real_value(field(rows, 0, "age_s")) > 2);
	unreadable = false;
	net_run(&s->net, HD_SECOND);
	rows = show(s, "dataplane", "role=controller");
	assert_true(json_real_value(field(rows, 0, "age_s")) < 1);
	close_scene(s);
}

static void test_hostile(void **state) {
	struct scene *s = open_scene();
	struct hd_dataplane d = sample(1);
	uint32_t mark;
	const json_t *rows;

	(void)state;
	send_stats(s->server, 0, 5, NULL, 0);
	send_stats(s->server, 1, 5, NULL, 0);
	assert_int_equal(counted(s)->stats_unasked, 2); /* not polled */
	(void)show(s, "dataplane", "");
	mark = peer_last(s->server, HD_MSG_POLL)->poll.mark;
	send_stats(s->server, mark + 1, 5, NULL, 0);
	assert_int_equal(counted(s)->stats_unasked, 3);
	send_stats(s->server, mark, 5, "\0", 1); /* no value */
	assert_int_equal(counted(s)->hostile_value, 1);
	send_stats(s->server, mark, 5, NULL, 0); /* and there is one answer only */
	assert_int_equal(counted(s)->stats_unasked, 4);
	answer(s->workers[0], 0, &d); /* a clock that stands */
	assert_int_equal(counted(s)->hostile_value, 2);
	answer(s->workers[1], HD_NEVER, &d);
	assert_int_equal(counted(s)->hostile_value, 3);
	assert_int_equal(counted(s)->stats, 0);
	/* The greatest values that can be said: sums stop, and the document can be read. */
	for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++)
		*hd_dataplane_at(&d, i) = HD_DATAPLANE_VALUE_MAX;
	net_run(&s->net, HD_SECOND);
	answer(s->server, HD_SECOND, &d);
	answer(s->aggregator, HD_SECOND, &d);
	rows = show(s, "dataplane-hosts", "host=ps");
	assert_int_equal(number(rows, 0, "rx_packets"), HD_DATAPLANE_VALUE_MAX);
	assert_int_equal(number(rows, 0, "drops"), HD_DATAPLANE_VALUE_MAX);
	assert_int_equal(counted(s)->stats, 2);
	/* A node answers for itself only: the other worker has not answered. A shell never does. */
	answer(s->workers[1], HD_SECOND, &d);
	assert_int_equal(counted(s)->stats, 3);
	rows = show(s, "dataplane", "role=worker");
	assert_true(json_is_null(field(rows, 0, "age_s")));
	assert_null(json_object_get(json_array_get(rows, 0), "rx_packets"));
	assert_int_equal(number(rows, 1, "rx_packets"), HD_DATAPLANE_VALUE_MAX);
	send_stats(s->shell, mark, 5, NULL, 0);
	assert_int_equal(counted(s)->hostile_role, 1);
	close_scene(s);
}

/* A filter may name a counter that the first row has not got yet. */
static void test_filter(void **state) {
	struct scene *s = open_scene();
	const char *error = NULL;
	char *document;

	(void)state;
	document = hd_controller_table(s->net.controller, "dataplane", "rx_packets=5", &error);
	assert_non_null(document);
	free(document);
	assert_null(hd_controller_table(s->net.controller, "dataplane", "no_such=5", &error));
	close_scene(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_asks_while_a_shell_looks),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_clear),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_incomplete),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
