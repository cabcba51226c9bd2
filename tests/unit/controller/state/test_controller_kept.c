/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators' settings and the servers of jobs in the next incarnation of the controller; and foreign texts. */
#include "controller_net.h"
#include "ctl_registry.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct net_config first = {.epoch = 1, .initial_bps = 80e6, .theta = 3, .logs = true};
static const struct net_config second = {.epoch = 2, .initial_bps = 80e6, .theta = 3, .logs = true};

static void
command(struct net *net,
	struct peer *shell,
	uint8_t verb,
	const char *object,
	const char *target,
	const char *value) {
	struct hd_message m = {.kind = HD_MSG_COMMAND};

	m.command.verb = verb;
	(void)snprintf(m.command.object, sizeof m.command.object, "%s", object);
	(void)snprintf(m.command.target, sizeof m.command.target, "%s", target);
	(void)snprintf(m.command.value, sizeof m.command.value, "%s", value);
	post(shell, m);
	net_run(net, 5 * HD_MS);
	if (peer_last(shell, HD_MSG_DONE)->done.reason != HD_REASON_NONE)
		fail_msg("%s", peer_last(shell, HD_MSG_DONE)->done.text);
}

/* The controller dies; its next incarnation gets the state that it kept, or nothing. All sessions are open again. */
static void restart(struct net *net, bool with_kept) {
	char *kept = net->kept, error[256];

	net->kept = NULL;
	net_restart(net, &second);
	if (with_kept && hd_controller_restore(net->controller, kept, error, sizeof error))
		fail_msg("%s", error);
	free(kept);
	net_run(net, 400 * HD_MS);
}

static struct ctl_job *job_of(struct net *net, const char *name) {
	for (uint32_t i = 0; i < net->controller->job_count; i++)
		if (strcmp(net->controller->jobs[i]->name, name) == 0)
			return net->controller->jobs[i];
	return NULL;
}

static void test_settings_survive(void **state) {
	struct peer *worker, *shell;
	struct net net;

	(void)state;
	net_open(&net, &first);
	net_server(&net, "ps");
	worker = net_worker(&net, "team", "mnist", 0, 8);
	net_worker(&net, "team", "cifar", 0, 8);
	shell = net_peer(&net, HD_ROLE_SHELL, "ctl");
	net_run(&net, SETTLED);
	command(&net, shell, HD_VERB_SET, "theta", "", "0.5");
	command(&net, shell, HD_VERB_SET, "interval-us", "", "250");
	command(&net, shell, HD_VERB_SET, "probe-percent", "", "off");
	command(&net, shell, HD_VERB_SET, "log-level", "", "debug");
	command(&net, shell, HD_VERB_SET, "tau", "mnist", "4");
	command(&net, shell, HD_VERB_SET, "weight", "mnist", "2.5");
	command(&net, shell, HD_VERB_SET, "div-max", "mnist", "0.25");
	command(&net, shell, HD_VERB_PAUSE, "job", "cifar", "");
	command(&net, shell, HD_VERB_DRAIN, "host", worker->host, "");
	command(&net, shell, HD_VERB_PAUSE, "all", "", "");
	net.log_level[0] = '\0';
	restart(&net, true);
	assert_true(net.controller->config.theta == 0.5);
	assert_int_equal(net.controller->config.interval_us, 250);
	assert_int_equal(net.controller->config.horizon_us, 0);
	assert_true(net.controller->probe_load == 0);
	assert_string_equal(net.log_level, "debug");
	assert_true(net.controller->paused);
	assert_int_equal(job_of(&net, "mnist")->tau_set, 4);
	assert_true(job_of(&net, "mnist")->weight_set == 2.5);
	assert_true(job_of(&net, "mnist")->replica.div_set == 0.25);
	assert_true(job_of(&net, "mnist")->replica.changed);
	assert_true(job_of(&net, "cifar")->replica.div_set < 0);
	assert_false(job_of(&net, "mnist")->paused);
	assert_true(job_of(&net, "cifar")->paused);
	assert_string_equal(job_of(&net, "cifar")->tenant_name, "team");
	/* A drained host's nodes are drained when they come. */
	post(worker, net_register_worker(worker, 8, 1));
	net_run(&net, 5 * HD_MS);
	assert_true(ctl_worker(job_of(&net, "mnist"), 0)->draining);
	assert_true(job_of(&net, "mnist")->tenant->weight == 2.5);
	/* Revoked settings are not there the next time. */
	command(&net, shell, HD_VERB_RESUME, "all", "", "");
	command(&net, shell, HD_VERB_UNDRAIN, "host", worker->host, "");
	command(&net, shell, HD_VERB_SET, "tau", "mnist", "off");
	command(&net, shell, HD_VERB_SET, "div-max", "mnist", "off");
	restart(&net, true);
	assert_true(job_of(&net, "mnist")->replica.div_set == 0); /* off is not the job's own */
	assert_false(net.controller->paused);
	assert_false(job_of(&net, "cifar")->paused);
	assert_int_equal(net.controller->drained_count, 0);
	assert_int_equal(job_of(&net, "mnist")->tau_set, 0);
	assert_true(net.controller->config.theta == 0.5);
	net_close(&net);
}

/* A job whose server is known from before has it at once, and no other server gets it meanwhile. */
static void test_jobs_come_home(void **state) {
	for (int with_kept = 0; with_kept < 2; with_kept++) {
		struct peer *ps, *other, *worker;
		struct net net;
		unsigned processes;

		net_open(&net, &first);
		ps = net_server(&net, "ps");
		worker = net_worker(&net, "team", "mnist", 0, 8);
		net_run(&net, SETTLED);
		other = net_peer(&net, HD_ROLE_SERVER, "ps2");
		net_run(&net, SETTLED);
		restart(&net, with_kept);
		processes = peer_count(worker, HD_MSG_REGISTERED);
		post(other, net_register_server(other));
		post(worker, net_register_worker(worker, 8, 1));
		net_run(&net, 100 * HD_MS);
		assert_int_equal(peer_count(worker, HD_MSG_REGISTERED), processes);
		post(ps, net_register_server(ps));
		net_run(&net, 5 * HD_MS);
		/* Without knowing, it waits for servers that may say that they have it. */
		assert_int_equal(peer_count(worker, HD_MSG_REGISTERED), processes + with_kept);
		net_run(&net, HD_SECOND);
		assert_int_equal(peer_count(worker, HD_MSG_REGISTERED), processes + 1);
		if (with_kept)
			assert_string_equal(job_of(&net, "mnist")->server_host, "ps");
		net_close(&net);
	}
	(void)state;
}

/* Another server reports that it has the job, by an order older or newer than the one that the controller kept, or by
 * none. */
static void test_former_servers(void **state) {
	for (int newer = -1; newer < 2; newer++) {
		struct hd_message m = {.kind = HD_MSG_STATE};
		struct peer *worker, *other;
		uint64_t serving;
		struct net net;

		(void)state;
		net_open(&net, &first);
		net_server(&net, "ps");
		worker = net_worker(&net, "team", "mnist", 0, 8);
		other = net_peer(&net, HD_ROLE_SERVER, "ps2");
		net_run(&net, SETTLED);
		serving = job_of(&net, "mnist")->serving;
		restart(&net, true);
		assert_true(job_of(&net, "mnist")->serving == serving);
		post(other, net_register_server(other));
		net_run(&net, 5 * HD_MS);
		m.state.job = net_job(worker);
		m.state.version = hd_version_make(1, 5);
		m.state.tau_max = 8;
		m.state.model_bytes = NET_MODEL_BYTES;
		m.state.generation = newer < 0 ? 0 : serving + (newer ? 1 : -1);
		post(other, m);
		net_run(&net, 5 * HD_MS);
		assert_int_equal(
			peer_last(other, HD_MSG_REPLICA)->replica.order,
			newer > 0 ? HD_REPLICA_SERVE : HD_REPLICA_RETIRE
		);
		assert_string_equal(job_of(&net, "mnist")->server_host, newer > 0 ? "ps2" : "ps");
		net_close(&net);
	}
}

/* Its server may be a replica in a new incarnation, which must know that before it is offered the state of the server
 * that it had replaced: it gets its order at once, even while the job's size is unknown. A server that has jobs reports
 * them before it gets an order. */
static void test_server_is_notified_at_once(void **state) {
	const struct hd_msg_replica *order;
	struct hd_message registration;
	size_t before;
	struct peer *server, *other, *worker;
	uint64_t serving;
	struct net net;

	(void)state;
	net_open(&net, &first);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "team", "mnist", 0, 8);
	other = net_peer(&net, HD_ROLE_SERVER, "ps2");
	net_run(&net, SETTLED);
	serving = job_of(&net, "mnist")->serving;
	restart(&net, true);
	post(other, net_register_server(other));
	before = peer_count(server, HD_MSG_REPLICA);
	post(server, net_register_server(server));
	net_run(&net, 5 * HD_MS);
	assert_int_equal(peer_count(server, HD_MSG_REPLICA), before);
	registration = net_register_server(server);
	registration.register_.incarnation = 0;
	registration.register_.flags = HD_REGISTER_KEEPS;
	post(server, registration);
	net_run(&net, 5 * HD_MS);
	order = &peer_last(server, HD_MSG_REPLICA)->replica;
	assert_int_equal(order->order, HD_REPLICA_SERVE);
	assert_int_equal(order->job, net_job(worker));
	assert_int_equal(order->epoch, second.epoch);
	assert_true(order->generation == serving);
	assert_int_equal(
		peer_find(server, HD_MSG_REPLICA), peer_find(server, HD_MSG_REGISTERED) - 1
	);
	assert_int_equal(peer_count(other, HD_MSG_REPLICA), 0);
	net_close(&net);
}

/* Only what must be kept is said, and only when it changes. */
static void test_said_when_changed(void **state) {
	struct peer *server, *worker, *shell;
	struct net net;
	unsigned before;

	(void)state;
	net_open(&net, &first);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "team", "mnist", 0, 8);
	shell = net_peer(&net, HD_ROLE_SHELL, "ctl");
	net_run(&net, SETTLED);
	assert_int_equal(net.keeps, 1);
	assert_non_null(strstr(net.kept, "\"server\": \"ps\""));
	for (uint32_t round = 1; round < 5; round++) {
		post(worker, net_push(worker, round, MB, 0));
		net_run(&net, 200 * HD_MS);
	}
	assert_int_equal(net.keeps, 1);
	peer_restart(server);
	net_run(&net, 2 * HD_SECOND);
	post(server, net_register_server(server));
	net_run(&net, 500 * HD_MS);
	assert_int_equal(net.keeps, 2); /* a new word to the server */
	before = net.keeps;
	command(&net, shell, HD_VERB_PAUSE, "all", "", "");
	assert_int_equal(net.keeps, before + 1);
	/* A job whose server is gone starts again elsewhere when an operator says so. */
	server->cut = true;
	net_run(&net, 2 * HD_SECOND);
	assert_string_equal(job_of(&net, "mnist")->server_host, "ps");
	command(&net, shell, HD_VERB_EVICT, "job", "mnist", "");
	assert_null(strstr(net.kept, "mnist"));
	net_close(&net);
}

static void test_wrong_texts(void **state) {
	static const struct {
		const char *text, *error;
	} wrong[] = {
		{"", "line 1: syntax"},
		{"{\"version\": 1,", "line 1: syntax"},
		{"[]", "line 1: file: must be an object"},
		{"{}", "line 1: version: is missing"},
		{"{\n\"version\": 2}", "line 2: version: must be from 1 to 1"},
		{"{\"version\": 1,\n\"pause\": true}", "line 2: pause: unknown field"},
		{"{\"version\": 1,\n\"paused\": 1}", "line 2: paused: must be true or false"},
		{"{\"version\": 1,\n\"log-level\": \"loud\"}", "line 2: log-level: must be error"},
		{"{\"version\": 1, \"settings\": {\n\"theta\": -1}}", "line 2: settings.theta"},
		{"{\"version\": 1, \"settings\": {\n\"theta\": 1e-9}}", "line 2: settings.theta"},
		{"{\"version\": 1, \"settings\": {\n\"interval-us\": 0.5}}",
		 "line 2: settings.interval-us: must be a whole number"},
		{"{\"version\": 1, \"settings\": {\n\"tau\": 3}}",
		 "line 2: settings.tau: unknown field"},
		{"{\"version\": 1, \"settings\": {\n\"log-level\": 3}}",
		 "line 2: settings.log-level: unknown field"},
		{"{\"version\": 1, \"settings\": 7}", "line 1: settings: must be an object"},
		{"{\"version\": 1, \"drained\": [\"a\",\n\"\"]}",
		 "line 2: drained[1]: must be a host"},
		{"{\"version\": 1, \"jobs\": [{\"tenant\": \"t\"}]}", "jobs[0].job: is missing"},
		{"{\"version\": 1, \"jobs\": [{\"tenant\": \"t\", \"job\": \"j\",\n\"tau\": 0}]}",
		 "line 2: jobs[0].tau: must be from 1 to 1000000"},
		{"{\"version\": 1, \"jobs\": [{\"tenant\": \"t\", \"job\": \"j\",\n\"weight\": 1e9}]}",
		 "line 2: jobs[0].weight"},
		{"{\"version\": 1, \"jobs\": [{\"tenant\": \"t\", \"job\": \"j\",\n\"div-max\": 1e-13}]}",
		 "line 2: jobs[0].div-max: must be 0 (off), or 1e-12 at least"},
		{"{\"version\": 1, \"jobs\": [{\"tenant\": \"t\", \"job\": \"j\",\n\"allreduce\": -1}]}",
		 "line 2: jobs[0].allreduce"},
		{"{\"version\": 1, \"jobs\": [{\"tenant\": \"t\", \"job\": \"j\",\n\"serving\": 300000000000000}]}",
		 "line 2: jobs[0].serving: must be from 0 to 281474976710655"},
		{"{\"version\": 1, \"jobs\": [{\"tenant\": \"t\", \"job\": \"j\",\n\"serving-epoch\": 0.5}]}",
		 "line 2: jobs[0].serving-epoch: must be a whole number"},
		{"{\"version\": 1, \"jobs\": [{\"tenant\": \"t\", \"job\":\n\"j\\u0007\"}]}",
		 "line 2: jobs[0].job: control characters"},
		{"{\"version\": 1, \"jobs\": [{\"tenant\": \"t\", \"job\": \"j\",\n\"left\": 1}]}",
		 "line 2: jobs[0].left: must be true or false"},
		{"{\"version\": 1, \"ended\": [{\"tenant\": \"t\", \"job\": \"j\"}]}",
		 "ended[0].server: is missing"},
		{"{\"version\": 1, \"ended\": [{\"tenant\": \"t\", \"job\": \"j\", \"server\": \"s\",\n"
		 "\"paused\": true}]}",
		 "line 2: ended[0].paused: unknown field"},
		/* All but the last of it is right: nothing of it is done. */
		{"{\"version\": 1, \"paused\": true, \"settings\": {\"theta\": 9}, \"drained\": [\"h\"],\n"
		 " \"jobs\": [{\"tenant\": \"t\", \"job\": \"j\", \"paused\": true}, 3]}",
		 "line 2: jobs[1]: must be an object"},
	};
	struct net net;

	(void)state;
	net_open(&net, &first);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		char error[256] = "";

		assert_int_equal(
			hd_controller_restore(net.controller, wrong[i].text, error, sizeof error),
			-EINVAL
		);
		if (!strstr(error, wrong[i].error))
			fail_msg("%s: got '%s', wanted '%s'", wrong[i].text, error, wrong[i].error);
		assert_false(net.controller->paused);
		assert_int_equal(net.controller->job_count + net.controller->drained_count, 0);
		assert_int_equal(net.controller->ended_count, 0);
		assert_true(net.controller->config.theta == 3);
	}
	net_close(&net);
}

/* In the next incarnation, too, a job that ended resumes where its checkpoint is, and one that was left is the first to
 * give way. */
static void test_ended_survive(void **state) {
	struct hd_message leave = {.kind = HD_MSG_LEAVE};
	struct peer *server, *a, *b;
	struct net net;

	(void)state;
	net_open(&net, &first);
	server = net_server(&net, "ps");
	a = net_worker(&net, "team", "gone", 0, 8);
	b = net_worker(&net, "team", "idle", 0, 8);
	net_run(&net, SETTLED);
	leave.leave.reason = HD_REASON_LEFT;
	leave.leave.job = net_job(b);
	post(b, leave);
	leave.leave.job = net_job(a);
	post(a, leave);
	net_run(&net, HD_MS);
	leave.leave.reason = HD_REASON_NONE; /* a checkpoint stays */
	post(server, leave);
	net_run(&net, 2 * HD_SECOND);
	assert_null(job_of(&net, "gone"));
	for (int process = 0; process < 2; process++) {
		restart(&net, true);
		assert_null(job_of(&net, "gone"));
		assert_int_equal(net.controller->ended_count, 1);
		assert_string_equal(net.controller->ended[0].host, "ps");
		assert_true(job_of(&net, "idle")->left);
		ctl_kept_changed(net.controller);
		net_run(&net, HD_SECOND);
	}
	post(a, net_register_worker(a, 8, 1));
	net_run(&net, HD_MS);
	assert_string_equal(job_of(&net, "gone")->server_host, "ps");
	assert_true(job_of(&net, "gone")->serving > 0);
	assert_int_equal(net.controller->ended_count, 0);
	net_close(&net);
}

/*
 * At the limit of jobs one that is kept gives way: what operators set of it is the last to be forgotten. Workers have
 * HD_JOB_AWAY_US to come back from when the controller began.
 */
static void test_limit_of_jobs(void **state) {
	char text[32 * HD_JOBS_MAX * 4], name[16], error[256];
	size_t used = 0;
	struct net net;

	(void)state;
	net_open(&net, &first);
	used += (size_t)snprintf(text, sizeof text, "{\"version\": 1, \"jobs\": [");
	for (int i = 0; i < HD_JOBS_MAX; i++)
		used += (size_t)snprintf(
			text + used,
			sizeof text - used,
			"%s{\"tenant\": \"t\", \"job\": \"j%d\", %s}",
			i ? "," : "",
			i,
			i < HD_JOBS_MAX - 1 ? "\"paused\": true" : "\"server\": \"ps\""
		);
	(void)snprintf(text + used, sizeof text - used, "]}");
	assert_int_equal(hd_controller_restore(net.controller, text, error, sizeof error), 0);
	assert_int_equal(net.controller->job_count, HD_JOBS_MAX);
	(void)snprintf(name, sizeof name, "j%d", HD_JOBS_MAX - 1);
	assert_null(ctl_job_get(net.controller, 12345, &net.sink));
	net.controller->now += HD_JOB_AWAY_US * HD_US;
	assert_non_null(ctl_job_get(net.controller, 12345, &net.sink));
	assert_null(job_of(&net, name));
	assert_non_null(job_of(&net, "j0"));
	/* The new one has nothing of an operator's either: it is the next. */
	net.controller->now += HD_JOB_AWAY_US * HD_US;
	assert_non_null(ctl_job_get(net.controller, 12346, &net.sink));
	assert_null(ctl_job_find(net.controller, 12345));
	ctl_job_find(net.controller, 12346)->paused = true;
	assert_non_null(ctl_job_get(net.controller, 12347, &net.sink));
	assert_null(job_of(&net, "j0"));
	assert_int_equal(net.controller->job_count, HD_JOBS_MAX);
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_settings_survive),
		cmocka_unit_test(test_jobs_come_home),
		cmocka_unit_test(test_former_servers),
		cmocka_unit_test(test_server_is_notified_at_once),
		cmocka_unit_test(test_said_when_changed),
		cmocka_unit_test(test_wrong_texts),
		cmocka_unit_test(test_ended_survive),
		cmocka_unit_test(test_limit_of_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
