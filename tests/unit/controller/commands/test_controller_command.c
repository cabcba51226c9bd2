/* SPDX-License-Identifier: BSD-3-Clause */
/* An operator's commands, by message: each one does what it says and no more, and a wrong one changes nothing and names
 * field and limit. */
#include "controller_net.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct net_config plain = {.epoch = 1, .initial_bps = 80e6}; /* 10 MB/s a link */

struct stage {
	struct net net;
	struct peer *server, *a, *b, *shell;
	uint32_t request;
};

static void stage_open(struct stage *s, uint32_t tau_max) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, &plain);
	s->server = net_server(&s->net, "ps");
	s->a = net_worker(&s->net, "team", "mnist", 0, tau_max);
	s->b = net_worker(&s->net, "team", "mnist", 1, tau_max);
	s->shell = net_peer(&s->net, HD_ROLE_SHELL, "ctl");
	net_run(&s->net, 150 * HD_MS);
}

/* The controller's answer. */
static const struct hd_msg_done *
command(struct stage *s, uint8_t verb, const char *object, const char *target, const char *value) {
	struct hd_message m = {.kind = HD_MSG_COMMAND};
	const struct hd_message *done;

	m.command.request = ++s->request;
	m.command.verb = verb;
	(void)snprintf(m.command.object, sizeof m.command.object, "%s", object);
	(void)snprintf(m.command.target, sizeof m.command.target, "%s", target);
	(void)snprintf(m.command.value, sizeof m.command.value, "%s", value);
	post(s->shell, m);
	net_run(&s->net, 5 * HD_MS);
	done = peer_last(s->shell, HD_MSG_DONE);
	assert_non_null(done);
	assert_int_equal(done->done.request, s->request);
	return &done->done;
}

static void
refused(struct stage *s,
	uint8_t verb,
	const char *object,
	const char *target,
	const char *value,
	const char *words) {
	uint64_t before = s->net.controller->counters.commands_refused;
	const struct hd_msg_done *done = command(s, verb, object, target, value);

	assert_int_equal(done->reason, HD_REASON_REFUSED);
	if (!strstr(done->text, words))
		fail_msg("wanted '%s', got '%s'", words, done->text);
	assert_int_equal(s->net.controller->counters.commands_refused, before + 1);
}

static void
did(struct stage *s, uint8_t verb, const char *object, const char *target, const char *value) {
	const struct hd_msg_done *done = command(s, verb, object, target, value);

	if (done->reason != HD_REASON_NONE)
		fail_msg("refused: %s", done->text);
}

static json_t *show(struct stage *s, const char *table, const char *filter) {
	const char *error = NULL;
	char *text = hd_controller_table(s->net.controller, table, filter, &error);
	json_t *document;

	assert_non_null(text);
	document = json_loads(text, 0, NULL);
	assert_non_null(document);
	free(text);
	return document;
}

static const char *cell(const json_t *document, size_t row, const char *field) {
	return json_string_value(
		json_object_get(json_array_get(json_object_get(document, "rows"), row), field)
	);
}

static void is_shown(
	struct stage *s,
	const char *table,
	const char *filter,
	const char *field,
	const char *want
) {
	json_t *document = show(s, table, filter);

	assert_non_null(cell(document, 0, field));
	assert_string_equal(cell(document, 0, field), want);
	json_decref(document);
}

static uint64_t grants(const struct stage *s) {
	return s->net.controller->counters.grants;
}

/* --- pause --- */

static void test_pause_and_resume(void **state) {
	struct stage s;

	(void)state;
	stage_open(&s, 8);
	post(s.a, net_push(s.a, 1, MB, 0));
	net_run(&s.net, 5 * HD_MS);
	assert_int_equal(grants(&s), 1);
	did(&s, HD_VERB_PAUSE, "job", "mnist", "");
	/* A running transfer goes on and is counted; a requested one waits, and is shown as waiting. */
	post(s.server, net_report(peer_grant(s.a, 0, 1), 1, 80000000));
	post(s.a, net_push(s.a, 2, MB, 1));
	post(s.b, net_pull(s.b, 1));
	net_run(&s.net, 500 * HD_MS);
	assert_int_equal(grants(&s), 1);
	assert_int_equal(s.net.controller->jobs[0]->applied, 1);
	is_shown(&s, "transfers", "direction=push", "waits_for", "paused");
	is_shown(&s, "jobs", "", "state", "paused");
	did(&s, HD_VERB_RESUME, "job", "team/mnist", "");
	assert_int_equal(grants(&s), 3);
	did(&s, HD_VERB_PAUSE, "all", "", "");
	post(s.b, net_push(s.b, 1, MB, 1));
	net_run(&s.net, 200 * HD_MS);
	assert_int_equal(grants(&s), 3);
	did(&s, HD_VERB_RESUME, "all", "", "");
	net_run(&s.net, 200 * HD_MS);
	assert_int_equal(grants(&s), 4);
	refused(&s, HD_VERB_PAUSE, "job", "cifar", "", "job: 'cifar': no such job");
	refused(&s, HD_VERB_PAUSE, "tenant", "x", "", "object: 'tenant' (all, or job JOB)");
	assert_int_equal(s.net.controller->counters.commands, 6);
	assert_int_equal(net_count_events(&s.net, HD_EVENT_COMMAND), 6);
	net_close(&s.net);
}

/* A paused job does not keep the controller awake. */
static void test_paused_sleeps(void **state) {
	struct stage s;
	uint64_t plans;

	(void)state;
	stage_open(&s, 8);
	did(&s, HD_VERB_PAUSE, "all", "", "");
	for (uint32_t round = 1; round <= 20; round++)
		post(s.a, net_push(s.a, round, MB, 0));
	net_run(&s.net, 50 * HD_MS);
	plans = s.net.controller->counters.plans;
	net_run(&s.net, HD_SECOND);
	assert_int_equal(s.net.controller->counters.plans, plans);
	assert_true(s.net.controller->plan_at == HD_NEVER);
	net_close(&s.net);
}

/* --- drain --- */

static void test_drain(void **state) {
	struct stage s;

	(void)state;
	stage_open(&s, 8);
	did(&s, HD_VERB_DRAIN, "host", s.a->host, "");
	post(s.a, net_push(s.a, 1, MB, 0));
	post(s.b, net_push(s.b, 1, MB, 0));
	net_run(&s.net, 50 * HD_MS);
	assert_null(peer_grant(s.a, 0, 1));
	assert_non_null(peer_grant(s.b, 1, 1));
	is_shown(&s, "transfers", "worker=0", "waits_for", "draining");
	did(&s, HD_VERB_UNDRAIN, "host", s.a->host, "");
	net_run(&s.net, 500 * HD_MS);
	assert_non_null(peer_grant(s.a, 0, 1));
	post(s.server, net_report(peer_grant(s.b, 1, 1), 1, 80000000));
	post(s.server, net_report(peer_grant(s.a, 0, 1), 2, 80000000));
	/* A drained server: its job waits, and a new job is not put there. */
	did(&s, HD_VERB_DRAIN, "host", "ps", "");
	post(s.b, net_push(s.b, 2, MB, 0));
	net_worker(&s.net, "team", "new", 5, 8);
	net_run(&s.net, 300 * HD_MS);
	assert_null(peer_grant(s.b, 1, 2));
	is_shown(&s, "jobs", "job=new", "state", "no-server");
	is_shown(&s, "jobs", "job=mnist", "state", "draining");
	did(&s, HD_VERB_UNDRAIN, "host", "ps", "");
	net_run(&s.net, 800 * HD_MS);
	assert_non_null(peer_grant(s.b, 1, 2));
	is_shown(&s, "jobs", "job=new", "state", "ready");
	refused(&s, HD_VERB_DRAIN, "host", "h99", "", "host: 'h99': no node is registered there");
	refused(&s, HD_VERB_UNDRAIN, "host", "ps", "", "host: 'ps': is not drained");
	refused(&s, HD_VERB_DRAIN, "rack", "r1", "", "object: 'rack' (host HOST)");
	net_close(&s.net);
}

/* --- evict --- */

static void test_evict(void **state) {
	struct stage s;

	(void)state;
	stage_open(&s, 8);
	post(s.a, net_push(s.a, 1, MB, 0));
	net_run(&s.net, 5 * HD_MS);
	assert_int_equal(s.net.controller->open_count, 1);
	did(&s, HD_VERB_EVICT, "worker", "mnist", "0");
	assert_non_null(strstr(s.a->refused, "worker 0 of job mnist: evicted by the operator"));
	assert_int_equal(s.net.controller->open_count, 0);
	assert_int_equal(s.net.controller->jobs[0]->worker_count, 1);
	assert_int_equal(peer_last(s.server, HD_MSG_VOID)->void_.reason, HD_REASON_LEFT);
	/* A new process of that rank is welcome. */
	post(s.a, net_register_worker(s.a, 8, 1));
	net_run(&s.net, 5 * HD_MS);
	assert_int_equal(s.net.controller->jobs[0]->worker_count, 2);
	refused(&s,
		HD_VERB_EVICT,
		"worker",
		"mnist",
		"7",
		"worker: 7 of job mnist is not registered");
	refused(&s, HD_VERB_EVICT, "worker", "mnist", "4096", "'4096' (a rank from 0 to 4095)");
	refused(&s, HD_VERB_EVICT, "worker", "mnist", "-1", "worker: '-1'");
	refused(&s, HD_VERB_EVICT, "worker", "mnist", "+1", "worker: '+1'");
	refused(&s, HD_VERB_SET, "theta", "", "+2", "theta: '+2'");
	refused(&s, HD_VERB_SET, "interval-us", "", "0x10", "interval-us: '0x10'");
	refused(&s, HD_VERB_EVICT, "all", "", "", "object: 'all' (job JOB, or worker JOB RANK)");
	did(&s, HD_VERB_EVICT, "job", "mnist", "");
	assert_int_equal(
		peer_last(s.shell, HD_MSG_DONE)->done.affected, 3
	); /* two workers, and it */
	assert_int_equal(s.net.controller->job_count, 0);
	assert_non_null(strstr(s.b->refused, "evicted"));
	assert_int_equal(peer_last(s.server, HD_MSG_REPLICA)->replica.order, HD_REPLICA_EVICT);
	is_shown(&s, "jobs", "", "state", "ended");
	/* It would resume where it was, until that is said to be of no use. */
	did(&s, HD_VERB_EVICT, "job", "team/mnist", "");
	assert_int_equal(peer_last(s.shell, HD_MSG_DONE)->done.affected, 1);
	refused(&s, HD_VERB_EVICT, "job", "mnist", "", "job: 'mnist': no such job");
	net_close(&s.net);
}

/* All workers have left: the server keeps the model, and an operator ends the job. */
static void test_evict_idle(void **state) {
	struct hd_message leave = {.kind = HD_MSG_LEAVE};
	struct stage s;

	(void)state;
	stage_open(&s, 8);
	leave.leave.job = net_job(s.a);
	leave.leave.reason = HD_REASON_LEFT;
	post(s.a, leave);
	leave.leave.worker = 1;
	post(s.b, leave);
	net_run(&s.net, 5 * HD_MS);
	is_shown(&s, "jobs", "", "state", "idle");
	did(&s, HD_VERB_EVICT, "job", "mnist", "");
	assert_int_equal(peer_last(s.shell, HD_MSG_DONE)->done.affected, 1);
	assert_non_null(strstr(peer_last(s.shell, HD_MSG_DONE)->done.text, "mnist has ended"));
	assert_int_equal(s.net.controller->job_count, 0);
	assert_int_equal(peer_last(s.server, HD_MSG_REPLICA)->replica.order, HD_REPLICA_EVICT);
	assert_int_equal(peer_last(s.server, HD_MSG_REPLICA)->replica.job, net_job(s.a));
	net_close(&s.net);
}

/* --- set --- */

static void test_set(void **state) {
	struct stage s;

	(void)state;
	stage_open(&s, 8);
	did(&s, HD_VERB_SET, "theta", "", "2.5");
	assert_true(s.net.controller->config.theta > 2.4 && s.net.controller->config.theta < 2.6);
	is_shown(&s, "settings", "setting=theta", "value", "2.5");
	did(&s, HD_VERB_SET, "theta", "", "off");
	is_shown(&s, "settings", "setting=theta", "value", "off");
	did(&s, HD_VERB_SET, "interval-us", "", "500");
	assert_int_equal(s.net.controller->config.interval_us, 500);
	did(&s, HD_VERB_SET, "weight", "mnist", "3");
	assert_true(s.net.controller->tenants[0]->weight > 2.9);
	did(&s, HD_VERB_SET, "weight", "mnist", "off");
	assert_true(s.net.controller->tenants[0]->weight < 1.1);
	/* A worker that comes later still agrees with what the job was registered with. */
	did(&s, HD_VERB_SET, "tau", "mnist", "3");
	net_worker(&s.net, "team", "mnist", 2, 8);
	assert_int_equal(s.net.controller->jobs[0]->worker_count, 3);
	refused(&s,
		HD_VERB_SET,
		"tau",
		"mnist",
		"9",
		"tau: '9' (a whole number from 1 to the job's tau_max, 8)");
	refused(&s, HD_VERB_SET, "tau", "mnist", "2.5", "a whole number from 1 to 1000000, or off");
	refused(&s, HD_VERB_SET, "tau", "", "3", "job: '': no such job");
	refused(&s, HD_VERB_SET, "theta", "mnist", "3", "theta: 'mnist': not of a job");
	refused(&s, HD_VERB_SET, "theta", "", "nan", "theta: 'nan' (a number from 1e-06");
	refused(&s,
		HD_VERB_SET,
		"interval-us",
		"",
		"0",
		"interval-us: '0' (a whole number from 1 to 1000000)");
	refused(&s, HD_VERB_SET, "warp", "", "9", "setting: 'warp': no such setting");
	refused(&s, HD_VERB_SET, "log-level", "", "debug", "log-level: this controller keeps no log"
	);
	refused(&s, 0, "", "", "", "verb: 0");
	refused(&s, 200, "", "", "", "verb: 200");
	net_close(&s.net);
}

/* A stricter tau drops what the job's own bound would still allow. */
static void test_set_tau_is_planned_with(void **state) {
	struct stage s;

	(void)state;
	stage_open(&s, 8);
	post(s.a, net_push(s.a, 1, MB, 0));
	net_run(&s.net, 5 * HD_MS);
	post(s.server, net_report(peer_grant(s.a, 0, 1), 5, 80000000));
	net_run(&s.net, 5 * HD_MS);
	did(&s, HD_VERB_SET, "tau", "mnist", "2");
	post(s.b, net_push(s.b, 1, MB, 1)); /* its delay would be 5 */
	net_run(&s.net, 20 * HD_MS);
	assert_non_null(peer_last(s.b, HD_MSG_DROP));
	did(&s, HD_VERB_SET, "tau", "mnist", "off");
	post(s.b, net_push(s.b, 2, MB, 1));
	net_run(&s.net, 20 * HD_MS);
	assert_non_null(peer_grant(s.b, 1, 2));
	net_close(&s.net);
}

/* Trains measure idle links that were used before, until they are told not to. */
static void test_set_probes(void **state) {
	struct stage s;
	uint64_t before;

	(void)state;
	stage_open(&s, 8);
	post(s.a, net_push(s.a, 1, MB, 0));
	net_run(&s.net, 5 * HD_MS);
	post(s.server, net_report(peer_grant(s.a, 0, 1), 1, 80000000));
	net_run(&s.net, 5 * HD_MS);
	post(s.b, net_pull(s.b, 1));
	net_run(&s.net, 5 * HD_MS);
	post(s.b, net_report(peer_grant(s.server, 1, 1), 1, 80000000));
	did(&s, HD_VERB_SET, "probe-percent", "", "off");
	is_shown(&s, "settings", "setting=probe-percent", "value", "off");
	net_run(&s.net, 10 * HD_SECOND);
	assert_int_equal(s.net.controller->counters.probes, 0);
	did(&s, HD_VERB_SET, "probe-percent", "", "0.5");
	is_shown(&s, "settings", "setting=probe-percent", "value", "0.5");
	net_run(&s.net, 10 * HD_SECOND);
	before = s.net.controller->counters.probes;
	assert_true(before > 0);
	did(&s, HD_VERB_SET, "probe-percent", "", "off");
	net_run(&s.net, 10 * HD_SECOND);
	assert_int_equal(s.net.controller->counters.probes, before);
	refused(&s,
		HD_VERB_SET,
		"probe-percent",
		"",
		"2",
		"probe-percent: '2' (a number from 0.001 to 1, or off)");
	net_close(&s.net);
}

/* Two tenants with jobs of one name. */
static void test_ambiguous_job(void **state) {
	struct stage s;

	(void)state;
	stage_open(&s, 8);
	net_worker(&s.net, "other", "mnist", 0, 8);
	refused(&s, HD_VERB_PAUSE, "job", "mnist", "", "write TENANT/JOB");
	did(&s, HD_VERB_PAUSE, "job", "other/mnist", "");
	assert_false(s.net.controller->jobs[0]->paused);
	assert_true(s.net.controller->jobs[1]->paused);
	net_close(&s.net);
}

/* Only shells steer. */
static void test_role(void **state) {
	struct hd_message m
		= {.kind = HD_MSG_COMMAND, .command = {.verb = HD_VERB_PAUSE, .object = "all"}};
	struct stage s;

	(void)state;
	stage_open(&s, 8);
	post(s.a, m);
	net_run(&s.net, 5 * HD_MS);
	assert_int_equal(s.net.controller->counters.hostile_role, 1);
	assert_false(s.net.controller->paused);
	net_close(&s.net);
}

/* --- all of it at once --- */

#define STORM_WORKERS 6
#define STORM_STEPS 1500

struct storm {
	struct stage stage;
	struct peer *worker[STORM_WORKERS];
	uint32_t asked[STORM_WORKERS], ended[STORM_WORKERS]; /* rounds */
	uint64_t version;
	struct hd_random random;
};

static void storm_command(struct storm *t) {
	static const struct {
		uint8_t verb;
		const char *object, *target, *value;
	} words[] = {
		{HD_VERB_PAUSE, "all", "", ""},
		{HD_VERB_RESUME, "all", "", ""},
		{HD_VERB_PAUSE, "job", "mnist", ""},
		{HD_VERB_RESUME, "job", "mnist", ""},
		{HD_VERB_DRAIN, "host", "ps", ""},
		{HD_VERB_UNDRAIN, "host", "ps", ""},
		{HD_VERB_DRAIN, "host", "h2", ""},
		{HD_VERB_UNDRAIN, "host", "h2", ""},
		{HD_VERB_SET, "tau", "mnist", "500"},
		{HD_VERB_SET, "tau", "mnist", "off"},
		{HD_VERB_SET, "weight", "mnist", "7"},
		{HD_VERB_SET, "interval-us", "", "200"},
		{HD_VERB_SET, "horizon-us", "", "50000"},
		{HD_VERB_SET, "horizon-us", "", "0"},
		{HD_VERB_SET, "theta", "", "3"},
		{HD_VERB_SET, "theta", "", "off"},
	};
	size_t i = hd_random_below(&t->random, sizeof words / sizeof words[0]);

	(void)command(&t->stage, words[i].verb, words[i].object, words[i].target, words[i].value);
}

/* A worker's oldest open round: ends it if it was granted or dropped. */
static void storm_report(struct storm *t, uint16_t w) {
	uint32_t round = t->ended[w] + 1;
	const struct hd_msg_grant *grant;
	const struct hd_message *drop = peer_last(t->worker[w], HD_MSG_DROP);

	if (t->ended[w] == t->asked[w])
		return;
	grant = peer_grant(t->worker[w], w, round);
	if (grant) {
		post(t->stage.server, net_report(grant, ++t->version, 80000000));
		t->ended[w]++;
	} else if (drop && drop->drop.round >= round) {
		t->ended[w]++;
	}
}

static void storm_step(struct storm *t) {
	const struct hd_controller *c = t->stage.net.controller;
	uint16_t w = (uint16_t)hd_random_below(&t->random, STORM_WORKERS);
	bool held = c->paused || c->jobs[0]->paused || c->jobs[0]->server->draining;
	uint64_t before = c->counters.grants;
	uint64_t what = hd_random_below(&t->random, 10);

	if (what < 4 && t->asked[w] < t->ended[w] + 20)
		post(t->worker[w],
		     net_push(
			     t->worker[w],
			     ++t->asked[w],
			     1000 + hd_random_below(&t->random, 200000),
			     t->version
		     ));
	else if (what == 9 && hd_random_below(&t->random, 4) == 0)
		storm_command(t);
	else
		storm_report(t, w);
	net_run(&t->stage.net, hd_random_below(&t->random, 4 * HD_MS));
	/* Still held: nothing was granted meanwhile. */
	if (held && (c->paused || c->jobs[0]->paused || c->jobs[0]->server->draining)
	    && !(what == 9))
		assert_int_equal(c->counters.grants, before);
}

/* Commands and work in any order: what is held is not granted, and once nothing is, everything ends. */
static void storm(uint64_t seed) {
	struct storm *t = calloc(1, sizeof *t);
	uint32_t left = 1;

	stage_open(&t->stage, 1000);
	hd_random_init(&t->random, seed);
	t->worker[0] = t->stage.a;
	t->worker[1] = t->stage.b;
	for (uint16_t i = 2; i < STORM_WORKERS; i++)
		t->worker[i] = net_worker(&t->stage.net, "team", "mnist", i, 1000);
	for (int i = 0; i < STORM_STEPS; i++)
		storm_step(t);
	did(&t->stage, HD_VERB_RESUME, "all", "", "");
	(void)command(&t->stage, HD_VERB_UNDRAIN, "host", "ps", "");
	(void)command(&t->stage, HD_VERB_UNDRAIN, "host", "h2", "");
	for (int i = 0; i < 3000 && left; i++) {
		left = 0;
		net_run(&t->stage.net, 10 * HD_MS);
		for (uint16_t w = 0; w < STORM_WORKERS; w++) {
			storm_report(t, w);
			left += t->asked[w] - t->ended[w];
		}
	}
	assert_int_equal(left, 0);
	assert_int_equal(t->stage.net.controller->pending_count, 0);
	assert_true(t->version > 50 && t->stage.net.controller->counters.commands > 15);
	net_close(&t->stage.net);
	free(t);
}

static void test_storm(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++)
		storm(seed);
}

/* --- the new tables --- */

static void test_plan_and_staleness(void **state) {
	struct stage s;
	json_t *table, *row;

	(void)state;
	stage_open(&s, 8);
	post(s.a, net_push(s.a, 1, 4 * MB, 0));
	net_run(&s.net, 5 * HD_MS);
	post(s.b, net_push(s.b, 1, 2 * MB, 0));
	post(s.b, net_push(s.b, 2, MB, 0));
	net_run(&s.net, 10 * HD_MS);
	table = show(&s, "plan", "");
	assert_true(json_array_size(json_object_get(table, "rows")) >= 1);
	row = json_array_get(json_object_get(table, "rows"), 0);
	assert_true(json_integer_value(json_object_get(row, "order")) == 1);
	assert_true(strlen(json_string_value(json_object_get(row, "why"))) > 10);
	assert_true(
		json_real_value(json_object_get(row, "finish_ms"))
		> json_real_value(json_object_get(row, "start_ms"))
	);
	json_decref(table);
	/* The one that was granted ends: nothing that has ended is shown. */
	post(s.server, net_report(peer_grant(s.a, 0, 1), 3, 80000000));
	net_run(&s.net, 5 * HD_MS);
	table = show(&s, "plan", "worker=0");
	assert_int_equal(json_array_size(json_object_get(table, "rows")), 0);
	json_decref(table);
	table = show(&s, "staleness", "");
	row = json_array_get(json_object_get(table, "rows"), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "updates")), 1);
	assert_int_equal(json_integer_value(json_object_get(row, "max")), 3);
	assert_int_equal(json_integer_value(json_object_get(row, "p99")), 3);
	assert_int_equal(json_integer_value(json_object_get(row, "bound")), 8);
	json_decref(table);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pause_and_resume),
		cmocka_unit_test(test_paused_sleeps),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_evict),
		cmocka_unit_test(test_evict_idle),
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_set_tau_is_planned_with),
		cmocka_unit_test(test_set_probes),
		cmocka_unit_test(test_ambiguous_job),
		cmocka_unit_test(test_role),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_plan_and_staleness),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
