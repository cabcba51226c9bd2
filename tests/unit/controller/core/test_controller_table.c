/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell's tables: their rows, filters and pages, asked for by message. */
#include "controller_net.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct net_config plain = {.epoch = 3, .initial_bps = 80e6};

/* Asks by message; the caller frees. NULL: refused. */
static json_t *show(struct peer *shell, const char *table, const char *filter) {
	struct hd_message m = {.kind = HD_MSG_SHOW};

	(void)snprintf(m.show.table, sizeof m.show.table, "%s", table);
	(void)snprintf(m.show.filter, sizeof m.show.filter, "%s", filter);
	free(shell->json);
	shell->json = NULL;
	shell->refused[0] = '\0';
	post(shell, m);
	net_run(shell->net, 20 * HD_MS);
	return shell->json ? json_loads(shell->json, 0, NULL) : NULL;
}

static size_t row_count(const json_t *document) {
	return json_array_size(json_object_get(document, "rows"));
}

static const char *text(const json_t *document, size_t row, const char *field) {
	return json_string_value(
		json_object_get(json_array_get(json_object_get(document, "rows"), row), field)
	);
}

static json_int_t count(const json_t *document, size_t row, const char *field) {
	const json_t *value
		= json_object_get(json_array_get(json_object_get(document, "rows"), row), field);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static double real(const json_t *document, size_t row, const char *field) {
	const json_t *value
		= json_object_get(json_array_get(json_object_get(document, "rows"), row), field);

	assert_true(json_is_real(value));
	return json_real_value(value);
}

struct stage {
	struct net net;
	struct peer *server, *a, *b, *shell;
};

/* One push applied, one dropped, one running, and a pull. */
static void stage_open(struct stage *s) {
	net_open(&s->net, &plain);
	s->server = net_server(&s->net, "ps");
	s->a = net_worker(&s->net, "team", "mnist", 0, 1);
	s->b = net_worker(&s->net, "team", "mnist", 1, 1);
	s->shell = net_peer(&s->net, HD_ROLE_SHELL, "ctl");
	net_run(&s->net, 1200 * HD_MS); /* the restart's grace */
	post(s->a, net_push(s->a, 1, 2 * MB, 0)); /* 200 ms */
	net_run(&s->net, HD_MS);
	post(s->server, net_report(peer_grant(s->a, 0, 1), 10, 0));
	post(s->a, net_push(s->a, 2, MB, 5)); /* too old: the next is 11, its bound 6 */
	net_run(&s->net, 5 * HD_MS);
	post(s->a, net_push(s->a, 3, MB, 10));
	post(s->b, net_pull(s->b, 1));
	net_run(&s->net, 5 * HD_MS);
}

static void test_who_and_where(void **state) {
	struct stage s;
	json_t *table;

	(void)state;
	stage_open(&s);
	table = show(s.shell, "nodes", "");
	assert_int_equal(json_integer_value(json_object_get(table, "epoch")), 3);
	assert_int_equal(row_count(table), 4);
	json_decref(table);
	table = show(s.shell, "nodes", "role=worker worker=1");
	assert_int_equal(row_count(table), 1);
	assert_string_equal(text(table, 0, "job"), "mnist");
	assert_string_equal(text(table, 0, "tenant"), "team");
	assert_true(real(table, 0, "rtt_us") > 0);
	json_decref(table);

	table = show(s.shell, "jobs", "");
	assert_int_equal(row_count(table), 1);
	assert_string_equal(text(table, 0, "version"), "1.10");
	assert_string_equal(text(table, 0, "state"), "ready");
	assert_string_equal(text(table, 0, "warning"), "tau_max is below the number of workers");
	assert_int_equal(count(table, 0, "applied"), 1);
	assert_int_equal(count(table, 0, "granted"), 2);
	assert_int_equal(count(table, 0, "dropped"), 0);
	assert_int_equal(count(table, 0, "ungranted"), 1);
	assert_int_equal(count(table, 0, "running"), 1);
	assert_int_equal(count(table, 0, "pulls_granted"), 1);
	assert_int_equal(count(table, 0, "pulls_running"), 1);
	json_decref(table);

	table = show(s.shell, "links", ">ps");
	assert_int_equal(row_count(table), 1);
	assert_true(real(table, 0, "estimate_mbps") > 79 && real(table, 0, "estimate_mbps") < 81);
	assert_true(real(table, 0, "reserved_mbps") > 79);
	assert_int_equal(count(table, 0, "running"), 1);
	json_decref(table);
	net_close(&s.net);
}

/* An estimate says whether any sample of the link stands behind it. */
static void test_guesses(void **state) {
	static const char *const tables[] = {"links", "estimates"};
	struct stage s;

	(void)state;
	stage_open(&s);
	post(s.server, net_report(peer_grant(s.a, 0, 3), 11, 8 * MB));
	net_run(&s.net, 200 * HD_MS);
	for (int i = 0; i < 2; i++) {
		json_t *table = show(s.shell, tables[i], "");
		size_t guesses = 0;

		for (size_t row = 0; row < row_count(table); row++) {
			const json_t *line = json_array_get(json_object_get(table, "rows"), row);
			bool guess = json_is_true(json_object_get(line, "guess"));

			assert_int_equal(guess, count(table, row, "samples") == 0);
			assert_int_equal(guess, json_is_null(json_object_get(line, "age_s")));
			guesses += guess;
		}
		assert_in_range(guesses, 1, row_count(table) - 1);
		json_decref(table);
	}
	net_close(&s.net);
}

/* The node that is to receive a train reports its arrival. Returns how many did. */
static uint32_t answer_probes(struct net *net, uint16_t moments, uint64_t duration_ns) {
	uint32_t answered = 0;

	for (uint32_t i = 0; i < net->peer_count; i++) {
		struct peer *peer = &net->peers[i];

		for (uint32_t k = 0; k < peer->count; k++)
			if (peer->log[k].kind == HD_MSG_PROBE && !peer->log[k].probe.send
			    && peer->log[k].probe.token) {
				struct hd_message m = {.kind = HD_MSG_PROBED};

				m.probed.token = peer->log[k].probe.token;
				m.probed.packets = moments;
				m.probed.moments = moments;
				m.probed.duration_ns = duration_ns;
				peer->log[k].probe.token = 0; /* once */
				post(peer, m);
				answered++;
			}
	}
	return answered;
}

/* For ten seconds. */
static uint32_t answer_all(struct net *net, uint16_t moments, uint64_t duration_ns) {
	uint32_t answered = 0;

	for (int i = 0; i < 200; i++) {
		net_run(net, 50 * HD_MS);
		answered += answer_probes(net, moments, duration_ns);
	}
	return answered;
}

/* A train that its receiver found in one piece says nothing: no estimate grows by it. One that came faster than can
 * be told is a sample, so that what grew is no guess. */
static void test_guesses_do_not_grow(void **state) {
	const size_t links = 7;
	struct stage s;
	json_t *table;
	size_t grown = 0;

	(void)state;
	stage_open(&s);
	/* They used their links, and told nothing of them. */
	post(s.server, net_report(peer_grant(s.a, 0, 3), 11, 0));
	post(s.b, net_report(peer_grant(s.server, 1, 1), 11, 0));
	assert_true(answer_all(&s.net, 0, 0) > 5);
	table = show(s.shell, "links", "");
	assert_int_equal(row_count(table), links);
	for (size_t row = 0; row < links; row++) {
		assert_int_equal(count(table, row, "samples"), 0);
		assert_true(real(table, row, "estimate_mbps") == 80);
	}
	json_decref(table);
	assert_true(answer_all(&s.net, 20, 100 * HD_US) > 5);
	table = show(s.shell, "links", "");
	for (size_t row = 0; row < links; row++)
		grown += count(table, row, "samples") > 0 && real(table, row, "estimate_mbps") > 99;
	assert_true(grown > 0);
	json_decref(table);
	net_close(&s.net);
}

static void test_what_and_why(void **state) {
	struct stage s;
	json_t *table;

	(void)state;
	stage_open(&s);
	table = show(s.shell, "transfers", "direction=push");
	assert_int_equal(row_count(table), 1);
	assert_string_equal(text(table, 0, "state"), "running");
	assert_string_equal(text(table, 0, "rule"), "shortest");
	assert_int_equal(count(table, 0, "position"), 2);
	assert_int_equal(count(table, 0, "deadline"), 1);
	json_decref(table);
	/* A token lets its holder write into a transfer: it is never shown. */
	assert_null(strstr(s.shell->json, "token"));

	table = show(s.shell, "drops", "");
	assert_int_equal(row_count(table), 1);
	assert_string_equal(text(table, 0, "reason"), "bound");
	assert_string_equal(text(table, 0, "rule"), "drop-bound");
	assert_int_equal(count(table, 0, "round"), 2);
	json_decref(table);

	table = show(s.shell, "counters", "counter=grants");
	assert_int_equal(count(table, 0, "value"), 3);
	json_decref(table);
	table = show(s.shell, "counters", "ended_bound");
	assert_int_equal(count(table, 0, "value"), 1);
	json_decref(table);
	net_close(&s.net);
}

static void test_bad_questions(void **state) {
	struct peer *shell;
	struct net net;
	json_t *table;

	(void)state;
	net_open(&net, &plain);
	shell = net_peer(&net, HD_ROLE_SHELL, "ctl");
	assert_null(show(shell, "secrets", ""));
	assert_non_null(strstr(shell->refused, "secrets: no such table"));
	assert_null(show(shell, "nodes", "from=x"));
	assert_non_null(strstr(shell->refused, "from: not a number"));
	assert_null(show(shell, "nodes", "from=-1"));
	assert_null(show(shell, "nodes", "from=+1"));
	assert_null(show(shell, "nodes", "a b c d e f g h i j k l m n o p q"));
	assert_non_null(strstr(shell->refused, "more than 16 words"));
	assert_null(show(shell, "nodes", "from=99999999999999999999"));
	table = show(shell, "nodes", "from=4294967295");
	assert_int_equal(row_count(table), 0);
	json_decref(table);
	net_close(&net);
}

/* Together the pages have every row once; each fits into one message. */
static void test_pages(void **state) {
	struct peer *worker[8], *shell;
	unsigned from = 0, rows = 0, pages = 0;
	char filter[32];
	bool *seen;
	struct net net;
	json_t *table;

	(void)state;
	net_open(&net, &plain);
	net_server(&net, "ps");
	for (uint16_t i = 0; i < 8; i++)
		worker[i] = net_worker(&net, "t", "j", i, 5000);
	shell = net_peer(&net, HD_ROLE_SHELL, "ctl");
	net_run(&net, 1200 * HD_MS);
	for (uint32_t round = 1; round <= 150; round++)
		for (int i = 0; i < 8; i++)
			post(worker[i], net_push(worker[i], round, MB, 0));
	net_run(&net, 50 * HD_MS);
	seen = calloc(1201, 1);
	for (;;) {
		(void)snprintf(filter, sizeof filter, "from=%u", from);
		table = show(shell, "transfers", filter);
		assert_non_null(table);
		assert_true(strlen(shell->json) < HD_MESSAGE_BYTES_MAX);
		assert_int_equal(json_integer_value(json_object_get(table, "total")), 1200);
		for (size_t i = 0; i < row_count(table); i++) {
			json_int_t id = count(table, i, "id");

			assert_true(id >= 1 && id <= 1200);
			assert_false(seen[id]);
			seen[id] = true;
			rows++;
		}
		if (json_is_null(json_object_get(table, "next")))
			break;
		/* The next page begins where this one ends. */
		assert_int_equal(json_integer_value(json_object_get(table, "next")), rows);
		from = rows;
		pages++;
		json_decref(table);
	}
	json_decref(table);
	assert_int_equal(rows, 1200);
	assert_true(pages >= 5 && pages <= 12);
	free(seen);
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_and_where),
		cmocka_unit_test(test_guesses),
		cmocka_unit_test(test_guesses_do_not_grow),
		cmocka_unit_test(test_what_and_why),
		cmocka_unit_test(test_bad_questions),
		cmocka_unit_test(test_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
