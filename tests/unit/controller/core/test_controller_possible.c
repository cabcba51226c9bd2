/* SPDX-License-Identifier: BSD-3-Clause */
/* Words that cannot be true, of nodes that have the key: each is refused, and a job outlives it, restarts too. */
#include "reduce_scene.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EPOCH_BITS 48
#define FAR UINT32_MAX

static const struct net_config first = {.epoch = 1, .initial_bps = 80e6};
static const struct net_config second = {.epoch = 2, .initial_bps = 80e6};

struct fixture {
	struct net net;
	struct peer *server, *other, *worker;
};

static struct hd_message state_of(const struct fixture *f, uint64_t generation) {
	struct hd_message m = {.kind = HD_MSG_STATE};

	m.state.job = net_job(f->worker);
	m.state.version = hd_version_make(1, 30);
	m.state.position = 40;
	m.state.tau_max = 8;
	m.state.model_bytes = NET_MODEL_BYTES;
	m.state.generation = generation;
	return m;
}

static const struct hd_msg_replica *order(const struct peer *peer) {
	return &peer_last(peer, HD_MSG_REPLICA)->replica;
}

static struct ctl_job *job_of(struct fixture *f) {
	return ctl_job_find(f->net.controller, net_job(f->worker));
}

static void send_and_run(struct peer *peer, struct hd_message m) {
	post(peer, m);
	net_run(peer->net, 5 * HD_MS);
}

static void open_fixture(struct fixture *f, const struct net_config *config) {
	*f = (struct fixture){0};
	net_open(&f->net, config);
	f->server = net_server(&f->net, "ps");
	f->worker = net_worker(&f->net, "t", "j", 0, 8);
	f->other = net_server(&f->net, "ps2");
	net_run(&f->net, SETTLED);
	send_and_run(f->server, state_of(f, order(f->server)->generation));
}

/* The controller's next incarnation, with the state that this one kept. */
static void next_process(struct fixture *f, const struct net_config *config) {
	char *kept = f->net.kept, error[256];

	f->net.kept = NULL;
	net_restart(&f->net, config);
	if (hd_controller_restore(f->net.controller, kept, error, sizeof error))
		fail_msg("%s", error);
	free(kept);
	net_run(&f->net, 400 * HD_MS);
}

static void restart(struct fixture *f, const struct net_config *config) {
	next_process(f, config);
	send_and_run(f->server, net_register_server(f->server));
	send_and_run(f->other, net_register_server(f->other));
	send_and_run(f->worker, net_register_worker(f->worker, 8, 1));
}

static json_t *show_jobs(struct fixture *f) {
	struct hd_message m = {.kind = HD_MSG_SHOW};
	struct peer *shell = net_peer(&f->net, HD_ROLE_SHELL, "ops");

	(void)snprintf(m.show.table, sizeof m.show.table, "jobs");
	post(shell, m);
	net_run(&f->net, 20 * HD_MS);
	return shell->json ? json_loads(shell->json, 0, NULL) : NULL;
}

static void check_serves(struct fixture *f, uint32_t round) {
	assert_string_equal(job_of(f)->server_host, "ps");
	send_and_run(f->worker, net_push(f->worker, round, MB, hd_version_make(1, 30)));
	assert_non_null(peer_grant(f->worker, 0, round));
	assert_true(peer_grant(f->worker, 0, round)->position < HD_POSITION_MAX);
}

/* A report of a generation that no controller can have given counts as none. */
static void test_generations(void **state) {
	static const uint64_t wild[] = {
		UINT64_MAX,
		UINT64_MAX >> 1,
		UINT64_C(2) << EPOCH_BITS | 1,
		(UINT64_C(1) << EPOCH_BITS) + HD_GENERATIONS_MAX + 1,
		5,
	};

	(void)state;
	for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
		struct fixture f;
		uint64_t serving;

		open_fixture(&f, &first);
		serving = order(f.server)->generation;
		send_and_run(f.other, state_of(&f, wild[i]));
		assert_int_equal(counters(&f.net)->hostile_value, 1);
		assert_int_equal(order(f.other)->order, HD_REPLICA_RETIRE);
		check_serves(&f, 1);
		restart(&f, &second);
		send_and_run(f.server, state_of(&f, serving));
		send_and_run(f.other, state_of(&f, UINT64_MAX));
		assert_int_equal(counters(&f.net)->hostile_value, 1);
		check_serves(&f, 2);
		net_close(&f.net);
	}
}

/* In a later epoch also those of this one that were not given. */
static void test_generations_of_now(void **state) {
	struct fixture f;
	uint64_t serving;

	(void)state;
	open_fixture(&f, &first);
	restart(&f, &second);
	send_and_run(f.server, state_of(&f, UINT64_C(1) << EPOCH_BITS | 1));
	serving = job_of(&f)->serving;
	send_and_run(f.other, state_of(&f, (UINT64_C(2) << EPOCH_BITS) + 1000));
	assert_int_equal(counters(&f.net)->hostile_value, 1);
	assert_true(job_of(&f)->serving == serving);
	assert_string_equal(job_of(&f)->server_host, "ps");
	net_close(&f.net);
}

/* Without a state directory every life is the first: the newest words are of a former one, and ours go on behind. */
static void test_forgetful(void **state) {
	const uint64_t former = (UINT64_C(1) << EPOCH_BITS) + 77;
	struct fixture f;

	(void)state;
	open_fixture(&f, &first);
	send_and_run(f.other, state_of(&f, former));
	assert_int_equal(counters(&f.net)->hostile_value, 0);
	assert_string_equal(job_of(&f)->server_host, "ps2");
	assert_int_equal(order(f.server)->order, HD_REPLICA_RETIRE);
	assert_true(order(f.server)->generation > former);
	net_close(&f.net);
}

/* A former controller's impossible generation is not believed again: any true report is newer. */
static void test_kept(void **state) {
	struct fixture f;
	char *kept, *number;

	(void)state;
	open_fixture(&f, &first);
	net_run(&f.net, 2 * HD_SECOND);
	kept = f.net.kept;
	assert_non_null(kept);
	number = strstr(kept, "\"serving-epoch\":");
	assert_non_null(number);
	number = strchr(number, '1');
	assert_non_null(number);
	*number = '9';
	next_process(&f, &second);
	send_and_run(f.other, net_register_server(f.other));
	send_and_run(f.other, state_of(&f, (UINT64_C(1) << EPOCH_BITS) + 50));
	assert_int_equal(order(f.other)->order, HD_REPLICA_SERVE);
	assert_string_equal(job_of(&f)->server_host, "ps2");
	net_close(&f.net);
}

/* Each field of STATE that has a limit. */
static void test_state(void **state) {
	struct fixture f;
	struct hd_message m[5];
	json_t *jobs;

	(void)state;
	open_fixture(&f, &first);
	for (int i = 0; i < 5; i++)
		m[i] = state_of(&f, order(f.server)->generation);
	m[0].state.position = UINT64_C(1) << 63;
	m[1].state.position = HD_POSITION_MAX + 1;
	m[2].state.tau_max = HD_TAU_MAX_LIMIT + 1;
	m[3].state.model_bytes = HD_MODEL_BYTES_MAX + 1;
	m[4].state.inflight = HD_TRANSFERS_MAX + 1;
	for (int i = 0; i < 5; i++)
		send_and_run(f.server, m[i]);
	assert_int_equal(counters(&f.net)->hostile_value, 5);
	assert_int_equal(job_of(&f)->position, 40);
	check_serves(&f, 1);
	jobs = show_jobs(&f);
	assert_non_null(jobs);
	json_decref(jobs);
	net_close(&f.net);
}

static void test_inflight(void **state) {
	struct hd_message m = {.kind = HD_MSG_INFLIGHT};
	struct fixture f;

	(void)state;
	open_fixture(&f, &first);
	m.inflight.job = net_job(f.worker);
	m.inflight.round = m.inflight.attempt = 1;
	m.inflight.token = 9;
	m.inflight.bytes = MB;
	m.inflight.position = UINT64_C(1) << 63;
	send_and_run(f.server, m);
	assert_int_equal(counters(&f.net)->hostile_value, 1);
	assert_int_equal(job_of(&f)->position, 40);
	assert_int_equal(f.net.controller->open_count, 0);
	net_close(&f.net);
}

/* Whatever a counter has come to, operators can read the table. */
static void test_tables(void **state) {
	struct fixture f;
	json_t *jobs;

	(void)state;
	open_fixture(&f, &first);
	job_of(&f)->position = UINT64_MAX;
	job_of(&f)->granted = UINT64_C(1) << 63;
	jobs = show_jobs(&f);
	assert_non_null(jobs);
	assert_int_equal(
		json_integer_value(json_object_get(
			json_array_get(json_object_get(jobs, "rows"), 0), "position"
		)),
		INT64_MAX
	);
	json_decref(jobs);
	net_close(&f.net);
}

/* --- all-reduces --- */

static void round_of_all(struct scene *s, uint32_t round) {
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(s, i, round, 1);
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_int_equal(reduce_sent(s, i)->round, round);
		done(s, i, HD_OUTCOME_APPLIED);
	}
}

static struct peer *newcomer(struct scene *s) {
	struct peer *peer = net_peer(&s->net, HD_ROLE_WORKER, "h77");

	peer->worker = 7;
	(void)snprintf(peer->tenant, sizeof peer->tenant, "%s", s->workers[0]->tenant);
	(void)snprintf(peer->job, sizeof peer->job, "%s", s->workers[0]->job);
	return peer;
}

static void refused_as(struct scene *s, struct hd_message m, const char *field) {
	struct peer *wild = newcomer(s);

	send_and_run(wild, m);
	assert_ptr_equal(strstr(wild->refused, field), wild->refused);
	assert_int_equal(peer_count(wild, HD_MSG_REGISTERED), 0);
}

/* A newcomer says that it is far ahead: the others go on as if it had not come. */
static void test_wild_register(void **state) {
	struct hd_message m;
	struct scene s;

	(void)state;
	open_scene(&s);
	round_of_all(&s, 1);
	for (int i = 0; i < 4; i++) {
		m = registration(newcomer(&s), 0);
		if (i == 0)
			m.register_.reduce_round = FAR;
		else if (i == 1)
			m.register_.reduce_round = 1 + (uint32_t)i + HD_TICKETS_MAX + 1;
		else if (i == 2)
			m.register_.reduce_from = FAR;
		else
			m.register_.world = HD_WORKERS_MAX + 1;
		refused_as(&s, m, i < 2 ? "reduce_round: " : i == 2 ? "reduce_from: " : "world: ");
		round_of_all(&s, 2 + (uint32_t)i);
	}
	net_close(&s.net);
}

/* The first of all may be as far as it says, but others can count on from there. */
static void test_wild_first(void **state) {
	struct hd_message m;
	struct scene s;

	(void)state;
	open_scene(&s);
	m = registration(newcomer(&s), 0);
	m.register_.reduce_round = HD_ROUND_MAX + 1;
	refused_as(&s, m, "reduce_round: ");
	round_of_all(&s, 1);
	net_close(&s.net);
}

/* Of one that takes part: its request is refused, its report counts for nothing. */
static void test_wild_member(void **state) {
	struct hd_message m = {.kind = HD_MSG_REPORT};
	struct scene s;

	(void)state;
	open_scene(&s);
	round_of_all(&s, 1);
	ask(&s, 1, FAR, 1);
	assert_int_equal(drops(&s, 1, HD_REASON_REFUSED), 1);
	m.report.job = net_job(s.workers[1]);
	m.report.worker = 1;
	m.report.round = FAR;
	m.report.attempt = 1;
	m.report.direction = HD_REDUCE;
	m.report.outcome = HD_OUTCOME_APPLIED;
	send_and_run(s.workers[1], m);
	assert_int_equal(counters(&s.net)->hostile_value, 1);
	round_of_all(&s, 2);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generations),
		cmocka_unit_test(test_generations_of_now),
		cmocka_unit_test(test_forgetful),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_state),
		cmocka_unit_test(test_inflight),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_wild_register),
		cmocka_unit_test(test_wild_first),
		cmocka_unit_test(test_wild_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
