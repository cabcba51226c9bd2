/* SPDX-License-Identifier: BSD-3-Clause */
/* Credits at the controller, by messages: who is granted what in advance, and how it ends. */
#include "controller_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SMALL 8000 /* at 10 MB/s the way carries 11,000 bytes while one asks */
#define BIG 20000

struct stage {
	struct net net;
	struct peer *server, *worker[8], *shell;
	uint64_t version;
	uint32_t workers;
};

static void open_stage(struct stage *s, uint32_t workers, uint32_t tau_max) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, &net_plain);
	s->server = net_server(&s->net, "ps");
	for (uint32_t i = 0; i < workers; i++)
		s->worker[i] = net_worker(&s->net, "t", "j", (uint16_t)i, tau_max);
	s->workers = workers;
	s->shell = net_peer(&s->net, HD_ROLE_SHELL, "ctl");
	net_run(&s->net, SETTLED);
}

static struct ctl_job *job_of(struct stage *s) {
	return s->net.controller->jobs[0];
}

/* Asks for a push and has it applied. */
static void push(struct stage *s, uint32_t worker, uint32_t round, uint64_t bytes) {
	const struct hd_msg_grant *grant;

	post(s->worker[worker],
	     net_push(s->worker[worker], round, bytes, hd_version_make(1, s->version)));
	net_run(&s->net, 5 * HD_MS);
	grant = peer_grant(s->worker[worker], (uint16_t)worker, round);
	assert_non_null(grant);
	post(s->server, net_report(grant, ++s->version, 0));
	net_run(&s->net, HD_MS);
}

static const struct hd_msg_credit *credit(const struct peer *peer) {
	const struct hd_message *m = peer_last(peer, HD_MSG_CREDIT);

	return m ? &m->credit : NULL;
}

/* The server's word on a push that came on a credit. */
static struct hd_message spent(const struct hd_msg_credit *c, uint64_t version, uint64_t base) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report = (struct hd_msg_report){
		.job = c->job,
		.worker = c->worker,
		.round = c->round,
		.attempt = c->attempt,
		.token = c->token,
		.outcome = HD_OUTCOME_APPLIED,
		.bytes = SMALL,
		.version = hd_version_make(1, version),
		.position = c->position,
		.base = hd_version_make(1, base),
		.norm = 2.5f,
		.credited = 1,
	};
	return m;
}

static void test_next_push_is_granted(void **state) {
	const struct hd_msg_credit *mine, *servers;
	struct ctl_staleness *delays;
	struct stage s;
	uint32_t said;

	(void)state;
	open_stage(&s, 1, 8);
	push(&s, 0, 1, SMALL);
	mine = credit(s.worker[0]);
	servers = credit(s.server);
	assert_non_null(mine);
	assert_int_equal(mine->token, servers->token);
	assert_int_equal(mine->round, servers->round);
	assert_int_equal(mine->position, servers->position);
	assert_int_equal(mine->bytes, servers->bytes);
	assert_int_equal(mine->round, 2);
	assert_int_equal(mine->attempt, 1);
	assert_int_equal(mine->position, 2);
	assert_int_equal(mine->epoch, 1);
	assert_true(mine->weight == 1);
	assert_true(mine->bytes >= SMALL && mine->bytes < BIG);
	assert_true(mine->pull_bytes >= SMALL && mine->pull_bytes < BIG);
	assert_int_equal(mine->expires_us, HD_CREDIT_US);
	assert_int_equal(mine->peer_ipv4, s.server->addr.ipv4);
	assert_int_equal(mine->peer_port, s.server->addr.port);
	/* Its position counts as taken. */
	assert_int_equal(ctl_job_v_init(job_of(&s)), 2);
	assert_int_equal(job_of(&s)->credits, 1);
	/* Spent: the base comes with the report, and the next one follows. One message in, two out. */
	delays = &job_of(&s)->staleness;
	said = s.worker[0]->count + s.server->count;
	post(s.server, spent(mine, 3, 1));
	net_run(&s.net, HD_MS);
	assert_int_equal(s.worker[0]->count + s.server->count, said + 2);
	assert_int_equal(delays->count, 2);
	assert_int_equal(delays->delays[2], 1);
	assert_int_equal(job_of(&s)->applied, 2);
	assert_int_equal(job_of(&s)->granted, 2);
	assert_int_equal(counters(&s.net)->credits_spent, 1);
	assert_int_equal(counters(&s.net)->credited_bytes, SMALL);
	assert_int_equal(credit(s.worker[0])->round, 3);
	assert_int_equal(credit(s.worker[0])->position, 3);
	assert_int_equal(ctl_job_v_init(job_of(&s)), 4);
	net_close(&s.net);
}

static void expect_none(struct stage *s) {
	assert_null(credit(s->worker[0]));
	assert_null(credit(s->server));
	assert_int_equal(job_of(s)->credits, 0);
	net_close(&s->net);
}

static void test_not_for_all_workers(void **state) {
	struct stage s;

	(void)state;
	open_stage(&s, 1, 8);
	push(&s, 0, 1, BIG);
	expect_none(&s);
	open_stage(&s, 3, 5); /* tau_max leaves no room for a credit of each */
	push(&s, 0, 1, SMALL);
	expect_none(&s);
	open_stage(&s, 1, 8);
	job_of(&s)->staleness_rule = HD_STALENESS_INV_SQRT; /* its weight is not known ahead */
	push(&s, 0, 1, SMALL);
	expect_none(&s);
	open_stage(&s, 1, 8);
	s.net.controller->credit_bytes = SMALL - 1;
	push(&s, 0, 1, SMALL);
	expect_none(&s);
	open_stage(&s, 1, 8);
	s.net.controller->credit_bytes = 0;
	push(&s, 0, 1, SMALL);
	expect_none(&s);
}

/* Steps that take long gain nothing by a credit, which would have ended. */
static void test_not_for_the_slow(void **state) {
	struct stage s;

	(void)state;
	open_stage(&s, 1, 8);
	s.net.controller->credit_bytes = 1;
	push(&s, 0, 1, SMALL);
	s.net.controller->credit_bytes = SMALL;
	net_run(&s.net, HD_CREDIT_US * HD_US / 2);
	push(&s, 0, 2, SMALL);
	assert_null(credit(s.worker[0]));
	net_run(&s.net, HD_CREDIT_US * HD_US / 4);
	push(&s, 0, 3, SMALL);
	assert_int_equal(credit(s.worker[0])->round, 4);
	net_close(&s.net);
}

static void test_request_takes_its_place(void **state) {
	const struct hd_msg_grant *grant;
	const struct hd_message *void_;
	struct stage s;
	uint64_t token;

	(void)state;
	open_stage(&s, 1, 8);
	push(&s, 0, 1, SMALL);
	token = credit(s.server)->token;
	push(&s, 0, 2, BIG);
	void_ = peer_last(s.server, HD_MSG_VOID);
	assert_non_null(void_);
	assert_true(void_->void_.token == token);
	assert_int_equal(void_->void_.position, 2);
	assert_int_equal(void_->void_.reason, HD_REASON_CLOSED);
	grant = peer_grant(s.worker[0], 0, 2);
	assert_true(grant->token != token);
	assert_int_equal(grant->position, 3);
	assert_int_equal(counters(&s.net)->credits_unspent, 1);
	assert_int_equal(counters(&s.net)->voids, 0);
	assert_int_equal(job_of(&s)->open_pushes, 0);
	net_close(&s.net);
}

static uint32_t granted_events(const struct stage *s, uint64_t token) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < s->net.event_count; i++)
		count += s->net.events[i].kind == HD_EVENT_GRANTED
			&& s->net.events[i].token == token;
	return count;
}

/* A request that crosses its credit, also one that is spent already, is granted as any other: no GRANT has the token of
 * a credit, and each one is an event. */
static void test_no_grant_of_a_credit(void **state) {
	(void)state;
	for (uint8_t attempt = 1; attempt <= 2; attempt++)
		for (int held = 0; held < 2; held++) {
			struct hd_message request, report;
			const struct hd_msg_grant *grant;
			struct stage s;
			uint64_t token;

			open_stage(&s, 1, 8);
			push(&s, 0, 1, SMALL);
			token = credit(s.server)->token;
			report = spent(credit(s.server), 1, 1);
			report.report.outcome = HD_OUTCOME_PENDING;
			if (held)
				post(s.server, report);
			request = net_push(s.worker[0], 2, SMALL, hd_version_make(1, 1));
			request.request.attempt = attempt;
			post(s.worker[0], request);
			net_run(&s.net, 5 * HD_MS);
			grant = peer_grant(s.worker[0], 0, 2);
			assert_non_null(grant);
			assert_true(grant->token != token);
			assert_int_equal(granted_events(&s, grant->token), 1);
			assert_int_equal(granted_events(&s, token), 0);
			assert_true(peer_last(s.server, HD_MSG_VOID)->void_.token == token);
			/* Nor does asking once more bring it back. */
			post(s.worker[0], request);
			net_run(&s.net, 5 * HD_MS);
			assert_true(peer_grant(s.worker[0], 0, 2)->token != token);
			net_close(&s.net);
		}
}

static void test_unspent_credit(void **state) {
	struct hd_message m;
	struct stage s;

	(void)state;
	open_stage(&s, 1, 8);
	push(&s, 0, 1, SMALL);
	m = spent(credit(s.server), 0, 0);
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.reason = HD_REASON_EXPIRED;
	m.report.bytes = 0;
	post(s.server, m);
	net_run(&s.net, HD_MS);
	assert_int_equal(job_of(&s)->open_pushes, 0);
	assert_int_equal(job_of(&s)->credits, 0);
	assert_int_equal(job_of(&s)->failed, 0);
	assert_int_equal(counters(&s.net)->credits_unspent, 1);
	/* The worker asks as usual, and has credit again. */
	push(&s, 0, 2, SMALL);
	assert_int_equal(credit(s.worker[0])->round, 3);
	/* A server that never says a word: void in the end. */
	net_run(&s.net, 14 * HD_SECOND);
	assert_int_equal(job_of(&s)->credits, 0);
	assert_int_equal(counters(&s.net)->stuck, 1);
	net_close(&s.net);
}

/* Four workers with credits; a request with an old base would be dropped for the positions that they hold. */
static void test_bound_takes_them_back(void **state) {
	const struct hd_message *void_;
	struct stage s;

	(void)state;
	open_stage(&s, 4, 8);
	for (uint32_t i = 0; i < 3; i++)
		push(&s, i, 1, SMALL);
	s.version = 3;
	push(&s, 3, 1, BIG);
	assert_int_equal(job_of(&s)->credits, 3);
	assert_int_equal(ctl_job_v_init(job_of(&s)), 7);
	/* At version 4 its delay would be 5, or 8 after the credits: with one more it is too late. */
	post(s.worker[3], net_push(s.worker[3], 2, BIG, hd_version_make(1, 0)));
	net_run(&s.net, HD_MS);
	assert_int_equal(peer_count(s.server, HD_MSG_VOID), 0);
	assert_non_null(peer_grant(s.worker[3], 3, 2));
	post(s.worker[3], net_push(s.worker[3], 3, BIG, hd_version_make(1, 0)));
	net_run(&s.net, 5 * HD_MS);
	assert_int_equal(peer_count(s.server, HD_MSG_VOID), 3);
	void_ = peer_last(s.server, HD_MSG_VOID);
	assert_int_equal(void_->void_.reason, HD_REASON_EXPIRED);
	assert_null(peer_last(s.worker[3], HD_MSG_DROP));
	assert_non_null(peer_grant(s.worker[3], 3, 3));
	assert_int_equal(job_of(&s)->credits, 0);
	/* None for a second. */
	push(&s, 0, 2, SMALL);
	assert_int_equal(job_of(&s)->credits, 0);
	net_close(&s.net);
}

static void command(struct stage *s, uint8_t verb, const char *object, const char *value) {
	struct hd_message m = {.kind = HD_MSG_COMMAND};

	m.command.verb = verb;
	(void)snprintf(m.command.object, sizeof m.command.object, "%s", object);
	(void)snprintf(m.command.value, sizeof m.command.value, "%s", value);
	post(s->shell, m);
	net_run(&s->net, HD_MS);
	assert_int_equal(peer_last(s->shell, HD_MSG_DONE)->done.reason, HD_REASON_NONE);
}

static void test_operator_takes_them_back(void **state) {
	struct stage s;

	(void)state;
	open_stage(&s, 1, 8);
	push(&s, 0, 1, SMALL);
	command(&s, HD_VERB_SET, "drop-permille", "50"); /* changes nothing for them */
	assert_int_equal(job_of(&s)->credits, 1);
	command(&s, HD_VERB_PAUSE, "all", "");
	assert_int_equal(job_of(&s)->credits, 0);
	assert_int_equal(peer_last(s.server, HD_MSG_VOID)->void_.reason, HD_REASON_EXPIRED);
	assert_int_equal(credit(s.worker[0])->token, 0);
	assert_int_equal(credit(s.worker[0])->pull_bytes, 0);
	command(&s, HD_VERB_RESUME, "all", "");
	push(&s, 0, 2, SMALL);
	assert_int_equal(job_of(&s)->credits, 1);
	command(&s, HD_VERB_SET, "credit-bytes", "off");
	assert_int_equal(job_of(&s)->credits, 0);
	assert_int_equal(peer_count(s.server, HD_MSG_VOID), 2);
	command(&s, HD_VERB_SET, "credit-bytes", "8000");
	push(&s, 0, 3, SMALL);
	assert_int_equal(credit(s.worker[0])->bytes, 8000);
	net_close(&s.net);
}

static void test_sessions_end_them(void **state) {
	struct stage s;

	(void)state;
	open_stage(&s, 2, 8);
	push(&s, 0, 1, SMALL);
	push(&s, 1, 1, SMALL);
	s.worker[0]->cut = true;
	net_run(&s.net, 2 * HD_SECOND);
	assert_int_equal(peer_last(s.server, HD_MSG_VOID)->void_.reason, HD_REASON_LEASE);
	assert_int_equal(job_of(&s)->credits, 1);
	peer_restart(s.server);
	net_run(&s.net, HD_SECOND);
	assert_int_equal(peer_last(s.worker[1], HD_MSG_VOID)->void_.reason, HD_REASON_NO_SERVER);
	assert_int_equal(job_of(&s)->credits, 0);
	net_close(&s.net);
}

/* A worker with a small model begins without asking for anything. */
static void test_first_round(void **state) {
	struct hd_message m;
	struct peer *worker;
	struct stage s;

	(void)state;
	open_stage(&s, 0, 0);
	worker = s.worker[0] = net_peer(&s.net, HD_ROLE_WORKER, "h1");
	(void)snprintf(worker->tenant, sizeof worker->tenant, "t");
	(void)snprintf(worker->job, sizeof worker->job, "j");
	m = net_register_worker(worker, 8, 1);
	m.register_.model_bytes = SMALL;
	post(worker, m);
	net_run(&s.net, SETTLED);
	assert_int_equal(credit(worker)->token, 0);
	assert_true(credit(worker)->pull_bytes >= SMALL);
	assert_null(credit(s.server));
	m = (struct hd_message){.kind = HD_MSG_REPORT};
	m.report = (struct hd_msg_report){
		.job = job_of(&s)->id,
		.round = 1,
		.direction = HD_PULL,
		.attempt = 1,
		.token = 77,
		.outcome = HD_OUTCOME_APPLIED,
		.bytes = SMALL,
		.credited = 1,
	};
	post(worker, m);
	net_run(&s.net, HD_MS);
	assert_int_equal(job_of(&s)->pulls_delivered, 1);
	assert_int_equal(counters(&s.net)->credited_pulls, 1);
	assert_int_equal(credit(worker)->round, 1);
	assert_true(credit(worker)->token != 0 && credit(s.server)->token == credit(worker)->token);
	/* Not more pulls than were allowed, nor bigger ones than there are. */
	m.report.bytes = SMALL + 1;
	post(worker, m);
	m.report.bytes = SMALL;
	post(worker, m);
	post(worker, m);
	net_run(&s.net, HD_MS);
	assert_int_equal(counters(&s.net)->credited_pulls, 2);
	assert_int_equal(counters(&s.net)->reports_unknown, 2);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_next_push_is_granted),
		cmocka_unit_test(test_not_for_all_workers),
		cmocka_unit_test(test_not_for_the_slow),
		cmocka_unit_test(test_request_takes_its_place),
		cmocka_unit_test(test_no_grant_of_a_credit),
		cmocka_unit_test(test_unspent_credit),
		cmocka_unit_test(test_bound_takes_them_back),
		cmocka_unit_test(test_operator_takes_them_back),
		cmocka_unit_test(test_sessions_end_them),
		cmocka_unit_test(test_first_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
