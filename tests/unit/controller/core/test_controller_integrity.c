/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs with and without a MAC at their chunks, at the controller: who says so, and that every token that it draws for
 * them is such a one. */
#include "ctl_transfers.h"
#include "group_peers.h"
#include "hd_group.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct stage {
	struct scene s;
	struct peer *replica;
};

/* --- stage ------------------------------------------------------------------------------------ */

static struct peer *peer_of(struct net *net, uint16_t rank) {
	char host[16];
	struct peer *peer;

	(void)snprintf(host, sizeof host, "h%u", rank + 1u);
	peer = net_peer(net, HD_ROLE_WORKER, host);
	peer->worker = rank;
	(void)snprintf(peer->tenant, sizeof peer->tenant, "t");
	(void)snprintf(peer->job, sizeof peer->job, "j");
	net_run(net, HD_MS);
	return peer;
}

static struct hd_message registration(const struct peer *peer, uint8_t flags) {
	struct hd_message m = net_register_worker(peer, 64, 1);

	m.register_.flags = flags;
	return m;
}

/* Six workers, a server, an aggregator, and a replica caught up. */
static void open_stage(struct stage *t, uint8_t flags) {
	memset(t, 0, sizeof *t);
	net_open(&t->s.net, &net_plain);
	t->s.server = net_server(&t->s.net, "ps");
	t->s.aggregator = net_aggregator(&t->s.net, "a1", MEMORY);
	t->replica = add_replica(&t->s);
	for (uint16_t w = 0; w < WORKERS; w++) {
		t->s.workers[w] = peer_of(&t->s.net, w);
		post(t->s.workers[w], registration(t->s.workers[w], flags));
	}
	net_run(&t->s.net, HD_SECOND);
	send_begun(&t->s);
	send_follow(&t->s, t->replica, HD_FOLLOW_CAUGHT_UP);
}

static void check_token(uint64_t token, bool sealed) {
	assert_true(token != 0);
	assert_int_equal(hd_token_is_sealed(token), sealed);
}

/* --- what is granted -------------------------------------------------------------------------- */

/* A group of pushes: its members', the sum's, and its copy's to the replica. */
static void check_group(struct stage *t, bool sealed) {
	const struct hd_msg_group *group;
	uint32_t direct = 0;

	push_all(&t->s, 1);
	group = newest_group(&t->s);
	assert_non_null(group);
	assert_int_equal(hd_group_count(&group->outputs, HD_GROUP_OUTPUT_BYTES), 2);
	for (int i = 0; i < inputs_of(group); i++)
		check_token(hd_group_get_input(&group->inputs, (uint32_t)i).token, sealed);
	for (uint32_t i = 0; i < 2; i++)
		check_token(hd_group_get_output(&group->outputs, i).token, sealed);
	check_token(newest_members(&t->s)->token, sealed);
	for (uint16_t w = 0; w < WORKERS; w++) {
		const struct hd_msg_grant *grant = peer_grant(t->s.workers[w], w, 1);

		if (grant)
			check_token(grant->token, sealed);
		direct += grant && grant->peer_ipv4 == t->s.server->addr.ipv4;
	}
	print_message("%d in the group, %u directly\n", inputs_of(group), direct);
}

static void check_pull(struct stage *t, bool sealed) {
	struct peer *worker = t->s.workers[1];

	post(worker, net_pull(worker, 1));
	net_run(&t->s.net, 5 * HD_MS);
	assert_non_null(peer_last(worker, HD_MSG_EXPECT));
	assert_int_equal(peer_last(worker, HD_MSG_EXPECT)->expect.direction, HD_PULL);
	check_token(peer_last(worker, HD_MSG_EXPECT)->expect.token, sealed);
}

/* Of one update, which its worker still has. */
static void check_copy(struct stage *t, bool sealed) {
	struct hd_message m = {.kind = HD_MSG_REQUEST};

	m.request.job = net_job(t->s.workers[0]);
	m.request.worker = 3;
	m.request.round = 5;
	m.request.direction = HD_COPY;
	m.request.attempt = 1;
	m.request.bytes = 64;
	post(t->replica, m);
	for (int i = 0; i < 100 && !peer_last(t->replica, HD_MSG_EXPECT); i++)
		net_run(&t->s.net, 20 * HD_MS);
	assert_non_null(peer_last(t->replica, HD_MSG_EXPECT));
	assert_int_equal(peer_last(t->replica, HD_MSG_EXPECT)->expect.direction, HD_COPY);
	check_token(peer_last(t->replica, HD_MSG_EXPECT)->expect.token, sealed);
}

static void test_groups_pulls_copies(void **state) {
	static const uint8_t flags[] = {0, HD_REGISTER_UNSEALED};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct stage t;

		open_stage(&t, flags[i]);
		check_copy(&t, flags[i] == 0);
		check_pull(&t, flags[i] == 0);
		check_group(&t, flags[i] == 0);
		net_close(&t.s.net);
	}
}

/* A push of its own, and one that is granted in advance. */
static void test_credits(void **state) {
	static const uint8_t flags[] = {0, HD_REGISTER_UNSEALED};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct hd_msg_grant *grant;
		struct peer *server, *worker;
		struct net net;

		net_open(&net, &net_plain);
		server = net_server(&net, "ps");
		worker = peer_of(&net, 0);
		post(worker, registration(worker, flags[i]));
		net_run(&net, SETTLED);
		post(worker, net_push(worker, 1, 8000, 0));
		net_run(&net, 5 * HD_MS);
		grant = peer_grant(worker, 0, 1);
		assert_non_null(grant);
		check_token(grant->token, flags[i] == 0);
		post(server, net_report(grant, 1, 0));
		net_run(&net, HD_MS);
		assert_non_null(peer_last(worker, HD_MSG_CREDIT));
		check_token(peer_last(worker, HD_MSG_CREDIT)->credit.token, flags[i] == 0);
		net_close(&net);
	}
}

static void test_reduce(void **state) {
	static const uint8_t flags[] = {0, HD_REGISTER_UNSEALED};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct hd_msg_reduce *reduce;
		struct peer *workers[2];
		struct hd_message m;
		struct net net;
		int shards;

		net_open(&net, &net_plain);
		net_aggregator(&net, "h1", 100 * MB);
		for (uint16_t w = 0; w < 2; w++) {
			workers[w] = peer_of(&net, w);
			m = registration(workers[w], flags[i]);
			m.register_.model_bytes = 0;
			m.register_.world = 2;
			post(workers[w], m);
		}
		net_run(&net, SETTLED);
		for (uint16_t w = 0; w < 2; w++) {
			m = net_push(workers[w], 1, MB, 0);
			m.request.direction = HD_REDUCE;
			post(workers[w], m);
		}
		net_run(&net, 5 * HD_MS);
		assert_non_null(peer_last(workers[0], HD_MSG_REDUCE));
		reduce = &peer_last(workers[0], HD_MSG_REDUCE)->reduce;
		shards = hd_group_count(&reduce->shards, HD_GROUP_SHARD_BYTES);
		assert_true(shards > 0);
		for (uint32_t k = 0; k < (uint32_t)shards; k++) {
			struct hd_group_shard shard = hd_group_get_shard(&reduce->shards, k);

			check_token(shard.in_token, flags[i] == 0);
			check_token(shard.out_token, flags[i] == 0);
		}
		net_close(&net);
	}
}

/* --- who says so ------------------------------------------------------------------------------ */

static void refused(struct peer *peer, uint8_t flags, const char *words) {
	peer->refused[0] = '\0';
	post(peer, registration(peer, flags));
	net_run(peer->net, HD_MS);
	if (!strstr(peer->refused, words))
		fail_msg("'%s', not '%s'", peer->refused, words);
}

/* "on" or "off" in the table of jobs. */
static void shown(struct net *net, const char *word) {
	const char *error = NULL;
	char *text = hd_controller_table(net->controller, "jobs", "", &error);
	json_t *table = json_loads(text, 0, NULL);
	const json_t *row = json_array_get(json_object_get(table, "rows"), 0);

	assert_string_equal(json_string_value(json_object_get(row, "integrity")), word);
	json_decref(table);
	free(text);
}

static void end_job(struct net *net) {
	struct peer *shell = net_peer(net, HD_ROLE_SHELL, "ctl");
	struct hd_message m = {.kind = HD_MSG_COMMAND};

	net_run(net, HD_MS);
	m.command.request = 1;
	m.command.verb = HD_VERB_EVICT;
	(void)snprintf(m.command.object, sizeof m.command.object, "job");
	(void)snprintf(m.command.target, sizeof m.command.target, "j");
	post(shell, m);
	net_run(net, HD_MS);
	assert_int_equal(net->controller->job_count, 0);
}

/* The first worker says it for all. */
static void test_workers_agree(void **state) {
	static const uint8_t flags[] = {0, HD_REGISTER_UNSEALED};
	static const char *const words[]
		= {"integrity: off, the job has on", "integrity: on, the job has off"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct peer *first, *other;
		struct net net;

		net_open(&net, &net_plain);
		net_server(&net, "ps");
		first = peer_of(&net, 0);
		other = peer_of(&net, 1);
		post(first, registration(first, flags[i]));
		net_run(&net, SETTLED);
		refused(other, flags[1 - i], words[i]);
		refused(other, flags[i] | 4, "flags: unknown bits");
		refused(other, flags[i] | 0x80, "flags: unknown bits");
		shown(&net, i ? "off" : "on");
		post(other, registration(other, flags[i] | HD_REGISTER_OBSERVER));
		net_run(&net, HD_MS);
		assert_non_null(peer_last(other, HD_MSG_REGISTERED));
		/* An observer is in no roster, whatever else it says. */
		assert_int_equal(net.controller->jobs[0]->worker_count, 2);
		assert_int_equal(net.controller->jobs[0]->roster.count, 1);
		end_job(&net);
		shown(&net, i ? "off" : "on"); /* of one that has ended, too */
		net_close(&net);
	}
}

/* A server's word on a job does not say how its chunks are: until a worker does they are sealed. So after a restart. */
static void test_known_from_a_server(void **state) {
	struct hd_message m = {.kind = HD_MSG_STATE};
	struct peer *server, *worker;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = peer_of(&net, 0);
	m.state.job = net_job(worker);
	m.state.version = hd_version_make(1, 5);
	m.state.model_bytes = NET_MODEL_BYTES;
	m.state.tau_max = 64;
	post(server, m);
	net_run(&net, HD_MS);
	assert_int_equal(net.controller->job_count, 1);
	check_token(ctl_token(net.controller, net.controller->jobs[0], true), true);
	check_token(ctl_token(net.controller, net.controller->jobs[0], false), false);
	shown(&net, "on");
	post(worker, registration(worker, HD_REGISTER_UNSEALED));
	net_run(&net, HD_MS);
	check_token(ctl_token(net.controller, net.controller->jobs[0], true), false);
	shown(&net, "off");
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups_pulls_copies),
		cmocka_unit_test(test_credits),
		cmocka_unit_test(test_reduce),
		cmocka_unit_test(test_workers_agree),
		cmocka_unit_test(test_known_from_a_server),
	};

	return cmocka_run_group_tests_name("controller_integrity", tests, NULL, NULL);
}
