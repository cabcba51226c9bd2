/* SPDX-License-Identifier: BSD-3-Clause */
/* The number of workers of a job: messages, the workers that are told to leave, refused commands, state that stays. */
#include "controller_net.h"
#include "ctl_elastic.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS 4
#define TAU 16

struct stage {
	struct net net;
	struct peer *server, *worker[WORKERS], *shell;
	uint32_t request;
};

static void stage_open(struct stage *s) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, &net_plain);
	s->server = net_server(&s->net, "ps");
	for (uint16_t i = 0; i < WORKERS; i++)
		s->worker[i] = net_worker(&s->net, "team", "mnist", i, TAU);
	s->shell = net_peer(&s->net, HD_ROLE_SHELL, "ctl");
	net_run(&s->net, 2 * SETTLED);
}

static const struct hd_msg_done *command(struct stage *s, const char *object, const char *value) {
	struct hd_message m = {.kind = HD_MSG_COMMAND};

	m.command.request = ++s->request;
	m.command.verb = HD_VERB_ELASTIC;
	(void)snprintf(m.command.object, sizeof m.command.object, "%s", object);
	(void)snprintf(m.command.target, sizeof m.command.target, "mnist");
	(void)snprintf(m.command.value, sizeof m.command.value, "%s", value);
	post(s->shell, m);
	net_run(&s->net, 5 * HD_MS);
	assert_int_equal(peer_last(s->shell, HD_MSG_DONE)->done.request, s->request);
	return &peer_last(s->shell, HD_MSG_DONE)->done;
}

static void set(struct stage *s, const char *words) {
	const struct hd_msg_done *done = command(s, "set", words);

	if (done->reason != HD_REASON_NONE)
		fail_msg("refused: %s", done->text);
}

static struct ctl_job *job_of(struct stage *s) {
	return ctl_job_find(s->net.controller, net_job(s->worker[0]));
}

static const struct ctl_elastic *elastic_of(struct stage *s) {
	return job_of(s)->elastic;
}

static void leave(struct stage *s, uint16_t rank) {
	struct hd_message m = {.kind = HD_MSG_LEAVE};

	m.leave.job = net_job(s->worker[rank]);
	m.leave.worker = rank;
	post(s->worker[rank], m);
}

static struct hd_message report(const struct stage *s, uint16_t rank, uint32_t step, double loss) {
	struct hd_message m = {.kind = HD_MSG_OBSERVE};

	m.observe.job = net_job(s->worker[rank]);
	m.observe.worker = rank;
	m.observe.step = step;
	m.observe.loss_sum = loss * 32;
	m.observe.samples = 32;
	m.observe.step_ns = 20000000;
	m.observe.sent_norm = m.observe.held_norm = -1;
	return m;
}

static void report_all(struct stage *s, uint32_t step, double loss) {
	for (uint16_t w = 0; w < WORKERS; w++)
		post(s->worker[w], report(s, w, step, loss));
	net_run(&s->net, 2 * HD_MS);
}

static json_t *shown(struct stage *s) {
	const char *error = NULL;
	char *text = hd_controller_table(s->net.controller, "elastic", "mnist", &error);
	json_t *document, *row;

	assert_non_null(text);
	document = json_loads(text, 0, NULL);
	free(text);
	row = json_incref(json_array_get(json_object_get(document, "rows"), 0));
	json_decref(document);
	assert_non_null(row);
	return row;
}

/* All workers in `present` and the server have received the same newest change. */
static struct hd_msg_roster agreed(struct stage *s, unsigned present) {
	const struct hd_message *m = peer_last(s->server, HD_MSG_ROSTER);
	struct hd_msg_roster said;

	assert_non_null(m);
	said = m->roster;
	for (uint16_t w = 0; w < WORKERS; w++) {
		const struct hd_msg_roster *own;

		if (!(present >> w & 1))
			continue;
		own = &peer_last(s->worker[w], HD_MSG_ROSTER)->roster;
		assert_true(own->change == said.change);
		assert_int_equal(own->count, said.count);
		assert_int_equal(own->target, said.target);
		assert_int_equal(own->sync_count, said.sync_count);
		assert_int_equal(own->tau_max, said.tau_max);
		assert_memory_equal(&own->scale, &said.scale, sizeof said.scale);
	}
	return said;
}

/* Without a policy there is no target, and nothing is scaled. */
static void test_no_worker(void **state) {
	struct hd_msg_roster said;
	struct stage s;
	json_t *row;

	stage_open(&s);
	said = agreed(&s, 0xf);
	assert_int_equal(said.count, 4);
	assert_int_equal(said.target, 0);
	assert_int_equal(said.tau_max, 0);
	assert_float_equal(said.scale, 0, 0);
	report_all(&s, 1, 2.5);
	assert_null(elastic_of(&s));
	assert_int_equal(counters(&s.net)->observations, 4);
	row = shown(&s);
	assert_string_equal(json_string_value(json_object_get(row, "policy")), "");
	assert_int_equal(json_integer_value(json_object_get(row, "workers")), 4);
	json_decref(row);
	net_close(&s.net);
}

/* Two are surplus: those with the highest ranks are told to leave, once; all is one change. */
static void test_manual(void **state) {
	struct hd_msg_roster said, after;
	struct stage s;

	stage_open(&s);
	set(&s, "policy=manual n=2 notice=0.5 tau=3 scale=linear base=4");
	net_run(&s.net, 50 * HD_MS);
	said = agreed(&s, 0xf);
	assert_int_equal(said.count, 4);
	assert_int_equal(said.target, 2);
	assert_int_equal(said.tau_max, 6);
	assert_float_equal(said.scale, 0.5, 0);
	for (uint16_t w = 0; w < WORKERS; w++)
		assert_int_equal(peer_count(s.worker[w], HD_MSG_NOTICE), w >= 2);
	assert_int_equal(peer_last(s.worker[3], HD_MSG_NOTICE)->notice.left_us, 500000);
	assert_int_equal(peer_last(s.worker[3], HD_MSG_NOTICE)->notice.worker, 3);
	assert_int_equal(ctl_job_tau(job_of(&s)), 6);
	/* One leaves in time, the other is gone when its time is over. */
	leave(&s, 3);
	net_run(&s.net, 600 * HD_MS);
	after = agreed(&s, 0x3);
	assert_int_equal(after.count, 2);
	assert_int_equal(after.target, 2);
	assert_true(after.change > said.change);
	assert_int_equal(counters(&s.net)->sent_away, 2);
	assert_int_equal(counters(&s.net)->preempted, 1);
	/* Nothing changes any more: nothing is said. */
	net_run(&s.net, 3 * HD_SECOND);
	assert_true(agreed(&s, 0x3).change == after.change);
	assert_int_equal(peer_count(s.worker[0], HD_MSG_NOTICE), 0);
	net_close(&s.net);
}

/* A worker that is preempted anyway counts as gone, and an observer does not count. */
static void test_counts_who_leaves(void **state) {
	struct hd_message m = {.kind = HD_MSG_NOTICE};
	struct stage s;

	stage_open(&s);
	m.notice.job = net_job(s.worker[0]);
	m.notice.worker = 0;
	m.notice.left_us = 5000000;
	post(s.worker[0], m);
	net_run(&s.net, 5 * HD_MS);
	set(&s, "policy=manual n=3");
	net_run(&s.net, 50 * HD_MS);
	for (uint16_t w = 0; w < WORKERS; w++)
		assert_int_equal(peer_count(s.worker[w], HD_MSG_NOTICE), 0);
	set(&s, "n=2");
	net_run(&s.net, 50 * HD_MS);
	assert_int_equal(peer_count(s.worker[3], HD_MSG_NOTICE), 1);
	assert_int_equal(counters(&s.net)->sent_away, 1);
	net_close(&s.net);
}

static void test_refusals(void **state) {
	static const char *const wrong[][3] = {
		{"set", "policy=manual n=0", "n: '0' (a whole number from 1 to 4096)"},
		{"set", "policy=manual", "n: policy manual needs it"},
		{"set", "policy=magic n=2", "no such policy"},
		{"set", "n=2 colour=red", "colour: policy fixed has no such key"},
		{"set", "", "key=value is missing"},
		{"price", "free", "price: 'free'"},
		{"price", "nan", "price: 'nan'"},
		{"price", "-1", "price: '-1'"},
		{"unset", "n=2", "object: 'unset' (set JOB key=value..., or price JOB PRICE)"},
	};
	char before[HD_ELASTIC_WORDS_BYTES], after[HD_ELASTIC_WORDS_BYTES];
	const struct hd_msg_done *done;
	struct hd_message m;
	struct stage s;
	json_t *row;

	stage_open(&s);
	done = command(&s, "price", "0.3");
	assert_int_equal(done->reason, HD_REASON_REFUSED);
	assert_non_null(strstr(done->text, "has no policy"));
	done = command(&s, "set", "policy=manual n=0");
	assert_int_equal(done->reason, HD_REASON_REFUSED);
	assert_null(elastic_of(&s));
	set(&s, "policy=fixed n=4");
	hd_elastic_words(&elastic_of(&s)->owner, before, sizeof before);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		done = command(&s, wrong[i][0], wrong[i][1]);
		assert_int_equal(done->reason, HD_REASON_REFUSED);
		if (!strstr(done->text, wrong[i][2]))
			fail_msg("wanted '%s', got '%s'", wrong[i][2], done->text);
		hd_elastic_words(&elastic_of(&s)->owner, after, sizeof after);
		assert_string_equal(after, before);
		assert_int_equal(elastic_of(&s)->owner.target, 4);
	}
	/* Reports: of another's rank, without samples, of a loss that is none. */
	m = report(&s, 1, 1, 1);
	m.observe.worker = 2;
	post(s.worker[1], m);
	net_run(&s.net, 2 * HD_MS);
	assert_int_equal(counters(&s.net)->hostile_owner, 1);
	m = report(&s, 1, 1, NAN);
	post(s.worker[1], m);
	m = report(&s, 1, 1, 1);
	m.observe.samples = 0;
	post(s.worker[1], m);
	post(s.worker[1], report(&s, 1, 0, 1));
	net_run(&s.net, 2 * HD_MS);
	assert_int_equal(counters(&s.net)->hostile_value, 3);
	assert_int_equal(elastic_of(&s)->owner.account.step, 0);
	row = shown(&s);
	assert_int_equal(json_integer_value(json_object_get(row, "refused")), 3);
	assert_non_null(
		strstr(json_string_value(json_object_get(row, "refusal")), "worker 1, step 0")
	);
	json_decref(row);
	net_close(&s.net);
}

/* As many reports as workers are one observation; who died is not waited for beyond a second. */
static void test_growth(void **state) {
	struct stage s;
	json_t *row;

	stage_open(&s);
	set(&s, "policy=growth n=4 eta=1.5 n_max=12");
	assert_int_equal(elastic_of(&s)->owner.target, 4);
	for (uint16_t w = 0; w < 3; w++)
		post(s.worker[w], report(&s, w, 1, 2));
	net_run(&s.net, 5 * HD_MS);
	assert_int_equal(elastic_of(&s)->owner.account.step, 0);
	post(s.worker[3], report(&s, 3, 1, 4));
	net_run(&s.net, 5 * HD_MS);
	assert_int_equal(elastic_of(&s)->owner.account.step, 1);
	assert_float_equal(elastic_of(&s)->owner.seen.loss, 2.5, 1e-12);
	assert_float_equal(elastic_of(&s)->owner.seen.step_s, 0.02, 1e-9);
	assert_int_equal(elastic_of(&s)->owner.target, 6);
	net_run(&s.net, 50 * HD_MS);
	assert_int_equal(agreed(&s, 0xf).target, 6);
	post(s.worker[1], report(&s, 1, 2, 2));
	net_run(&s.net, 1200 * HD_MS);
	assert_int_equal(elastic_of(&s)->owner.account.step, 2);
	assert_int_equal(elastic_of(&s)->owner.target, 9);
	report_all(&s, 3, 1);
	assert_int_equal(elastic_of(&s)->owner.target, 12);
	row = shown(&s);
	assert_non_null(strstr(json_string_value(json_object_get(row, "reason")), "capped by n_max")
	);
	assert_int_equal(json_integer_value(json_object_get(row, "changes")), 4);
	json_decref(row);
	net_close(&s.net);
}

/* The controller ends, and a new one knows what it has kept. */
static void next_process(struct stage *s) {
	struct net_config again = net_plain;
	char error[256], *kept = s->net.kept;

	s->net.kept = NULL;
	again.epoch = 2;
	net_restart(&s->net, &again);
	assert_int_equal(hd_controller_restore(s->net.controller, kept, error, sizeof error), 0);
	free(kept);
	net_run(&s->net, 400 * HD_MS);
	post(s->server, net_register_server(s->server));
}

/* Worker time is counted by the workers that there are, and goes on counting in the next incarnation. */
static void test_next_process(void **state) {
	struct hd_msg_roster said;
	struct stage s;
	double used;

	stage_open(&s);
	set(&s, "policy=budget n=4 worker_s=60 n_min=2 scale=linear notice=30");
	assert_int_equal(command(&s, "price", "0.36")->reason, HD_REASON_NONE);
	net_run(&s.net, 10100 * HD_MS);
	used = elastic_of(&s)->owner.account.worker_s;
	assert_float_equal(used, 40.4, 0.5);
	assert_float_equal(elastic_of(&s)->owner.account.money, used * 0.36 / 3600, 1e-3);
	report_all(&s, 7, 1);
	command(&s, "set", "tau=2"); /* whatever was kept before */
	next_process(&s);
	assert_int_equal(elastic_of(&s)->owner.account.step, 7);
	assert_float_equal(elastic_of(&s)->owner.account.worker_s, used, 0.5);
	assert_float_equal(elastic_of(&s)->owner.price, 0.36, 0);
	assert_int_equal(elastic_of(&s)->owner.target, 4);
	for (uint16_t w = 0; w < WORKERS; w++)
		post(s.worker[w], net_register_worker(s.worker[w], TAU, 1));
	net_run(&s.net, HD_SECOND);
	said = agreed(&s, 0xf);
	assert_int_equal(hd_version_incarnation(said.change), 2);
	assert_int_equal(said.target, 4);
	assert_int_equal(said.tau_max, 8);
	assert_float_equal(said.scale, 1, 0);
	/* The budget is spent: down to n_min, and never to 0. */
	net_run(&s.net, 6 * HD_SECOND);
	assert_int_equal(elastic_of(&s)->owner.target, 2);
	said = agreed(&s, 0xf);
	assert_int_equal(said.target, 2);
	assert_float_equal(said.scale, 0.5, 0);
	assert_int_equal(counters(&s.net)->sent_away, 2);
	net_close(&s.net);
}

/* All take part, and have heard of this scale. */
static uint64_t scaled(struct stage *s, float scale) {
	net_run(&s->net, 50 * HD_MS);
	assert_float_equal(agreed(s, 0xf).scale, scale, 0);
	assert_int_equal(agreed(s, 0xf).target, WORKERS);
	return agreed(s, 0xf).change;
}

/* The scale falls with the reported steps: each fall is a change that all hear, the server too. */
static void test_scale_falls(void **state) {
	uint64_t before;
	struct stage s;

	stage_open(&s);
	set(&s, "policy=manual n=4 scale=falling scale_every=10");
	before = scaled(&s, 1);
	report_all(&s, 8, 2);
	assert_true(scaled(&s, 1) == before); /* the ninth step comes: nothing new to say */
	report_all(&s, 9, 2);
	assert_true(scaled(&s, 0.5f) > before);
	report_all(&s, 29, 2);
	(void)scaled(&s, 0.25f);
	net_close(&s.net);
}

/* Of new processes, or of those that were cut off. */
static void come(struct stage *s, bool again) {
	for (uint16_t w = 0; w < WORKERS; w++) {
		s->worker[w]->cut = false;
		if (again)
			peer_restart(s->worker[w]);
	}
	net_run(&s->net, 5 * HD_SECOND);
	for (uint16_t w = 0; w < WORKERS; w++)
		post(s->worker[w], net_register_worker(s->worker[w], TAU, 1));
	net_run(&s->net, HD_SECOND);
}

/* All workers go, and others come, who count their steps from 1: the factor goes on. In the next incarnation, too. */
static void test_scale_goes_on(void **state) {
	for (int restarts = 0; restarts < 2; restarts++) {
		struct stage s;

		stage_open(&s);
		set(&s, "policy=manual n=4 scale=falling scale_every=10");
		report_all(&s, 28, 2);
		/* The step that three of them have reported counts, though the fourth does not come to it. */
		for (uint16_t w = 0; w < 3; w++)
			post(s.worker[w], report(&s, w, 29, 2));
		for (uint16_t w = 0; w < WORKERS; w++)
			leave(&s, w);
		net_run(&s.net, 50 * HD_MS);
		assert_int_equal(job_of(&s)->roster.count, 0);
		if (restarts)
			next_process(&s);
		come(&s, true);
		(void)scaled(&s, 0.25f);
		report_all(&s, 1, 2);
		(void)scaled(&s, 0.25f);
		report_all(&s, 10, 2);
		(void)scaled(&s, 0.2f);
		assert_int_equal(elastic_of(&s)->owner.account.step, 10);
		net_close(&s.net);
	}
}

/* The controller is cut off from all of them for longer than their leases: they are the same, and count on. */
static void test_scale_after_a_cut(void **state) {
	struct stage s;

	stage_open(&s);
	set(&s, "policy=manual n=4 scale=falling scale_every=10");
	report_all(&s, 29, 2);
	for (uint16_t w = 0; w < WORKERS; w++)
		s.worker[w]->cut = true;
	net_run(&s.net, 5 * HD_SECOND);
	assert_int_equal(job_of(&s)->roster.count, 0);
	come(&s, false);
	report_all(&s, 38, 2);
	assert_int_equal(elastic_of(&s)->owner.account.steps, 38);
	(void)scaled(&s, 0.25f);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_worker),
		cmocka_unit_test(test_manual),
		cmocka_unit_test(test_scale_falls),
		cmocka_unit_test(test_scale_goes_on),
		cmocka_unit_test(test_scale_after_a_cut),
		cmocka_unit_test(test_counts_who_leaves),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_next_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
