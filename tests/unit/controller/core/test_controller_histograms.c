/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller's histograms: each grant's wait and each applied update's delay is in them once, and nothing else. */
#include "controller_net.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct stage {
	struct net net;
	struct peer *server, *worker, *shell;
	uint32_t request;
};

static void stage_open(struct stage *s) {
	memset(s, 0, sizeof *s);
	net_open(&s->net, &net_plain);
	s->server = net_server(&s->net, "ps");
	s->worker = net_worker(&s->net, "team", "mnist", 0, 1000);
	s->shell = net_peer(&s->net, HD_ROLE_SHELL, "ctl");
	net_run(&s->net, SETTLED);
}

static void command(struct stage *s, uint8_t verb) {
	struct hd_message m = {.kind = HD_MSG_COMMAND};

	m.command.request = ++s->request;
	m.command.verb = verb;
	(void)snprintf(m.command.object, sizeof m.command.object, "all");
	post(s->shell, m);
	net_run(&s->net, 5 * HD_MS);
	assert_int_equal(peer_last(s->shell, HD_MSG_DONE)->done.reason, HD_REASON_NONE);
}

static json_t *show(struct stage *s, const char *filter) {
	const char *error = NULL;
	char *text = hd_controller_table(s->net.controller, "histograms", filter, &error);
	json_t *document;

	assert_non_null(text);
	document = json_loads(text, 0, NULL);
	assert_non_null(document);
	free(text);
	return document;
}

/* How many values the histogram has; how many of them are not above le (0: all) and above the bound before. */
static json_int_t counted(struct stage *s, const char *filter, double le) {
	json_t *document = show(s, filter), *rows = json_object_get(document, "rows"), *row,
	       *bucket;
	json_int_t before = 0, last = 0, found = -1;
	size_t index;

	assert_int_equal(json_array_size(rows), 1);
	row = json_array_get(rows, 0);
	json_array_foreach(json_object_get(row, "buckets"), index, bucket) {
		const json_t *bound = json_object_get(bucket, "le");

		last = json_integer_value(json_object_get(bucket, "count"));
		assert_true(last >= before);
		if (json_is_real(bound) && fabs(json_real_value(bound) - le) < 1e-9)
			found = last - before;
		before = last;
	}
	assert_int_equal(json_integer_value(json_object_get(row, "count")), last);
	json_decref(document);
	return le > 0 ? found : last;
}

static double cell(struct stage *s, const char *filter, const char *field) {
	json_t *document = show(s, filter);
	const json_t *row = json_array_get(json_object_get(document, "rows"), 0);
	double value;

	assert_true(json_is_real(json_object_get(row, field)));
	value = json_real_value(json_object_get(row, field));
	json_decref(document);
	return value;
}

static void add_up(struct stage *s) {
	char error[256] = "";

	if (!hd_controller_adds_up(s->net.controller, error, sizeof error))
		fail_msg("%s", error);
}

static void ask_while_paused(struct stage *s, const struct hd_message *asked, hd_ns span) {
	command(s, HD_VERB_PAUSE);
	post(s->worker, *asked);
	net_run(&s->net, span);
	command(s, HD_VERB_RESUME);
}

static void test_waits(void **state) {
	struct hd_message asked, cancel = {.kind = HD_MSG_CANCEL};
	struct stage s;

	(void)state;
	stage_open(&s);
	assert_int_equal(counted(&s, "of=push", 0), 0);
	/* A request that waits for nothing is granted in the call that it came with. */
	post(s.worker, net_push(s.worker, 1, MB, 0));
	net_run(&s.net, 5 * HD_MS);
	assert_int_equal(counted(&s, "of=push", 0.01), 1);
	asked = net_push(s.worker, 2, MB, 0);
	ask_while_paused(&s, &asked, 30 * HD_MS);
	asked = net_pull(s.worker, 1);
	ask_while_paused(&s, &asked, 300 * HD_MS);
	assert_int_equal(counted(&s, "of=push", 50), 1);
	assert_int_equal(counted(&s, "of=push", 0), 2);
	assert_int_equal(counted(&s, "of=pull", 500), 1);
	assert_int_equal(counted(&s, "of=pull", 0), 1);
	assert_int_equal(counted(&s, "of=replicate", 0), 0);
	assert_in_range(cell(&s, "of=push", "max"), 30, 36);
	assert_in_range(cell(&s, "of=push", "mean"), 15, 18);
	/* Asked again, it is granted once; withdrawn, never. */
	post(s.worker, net_push(s.worker, 2, MB, 0));
	command(&s, HD_VERB_PAUSE);
	post(s.worker, net_push(s.worker, 3, MB, 0));
	net_run(&s.net, 5 * HD_MS);
	cancel.cancel.job = net_job(s.worker);
	cancel.cancel.round = 3;
	cancel.cancel.reason = HD_REASON_CANCELLED;
	post(s.worker, cancel);
	command(&s, HD_VERB_RESUME);
	assert_int_equal(counters(&s.net)->cancels, 1);
	assert_int_equal(counted(&s, "of=push", 0), 2);
	assert_int_equal(counters(&s.net)->grants, 3);
	add_up(&s);
	net_close(&s.net);
}

static void push_ended(struct stage *s, uint32_t round, uint64_t version, enum hd_outcome outcome) {
	struct hd_message m;

	post(s->worker, net_push(s->worker, round, MB, 0));
	net_run(&s->net, 5 * HD_MS);
	m = net_report(peer_grant(s->worker, 0, round), version, 0);
	m.report.outcome = outcome;
	post(s->server, m);
	net_run(&s->net, 5 * HD_MS);
}

static void test_delays(void **state) {
	const char *filter = "of=team/mnist";
	struct stage s;

	(void)state;
	stage_open(&s);
	push_ended(&s, 1, 1, HD_OUTCOME_APPLIED);
	push_ended(&s, 2, 2, HD_OUTCOME_APPLIED);
	push_ended(&s, 3, 7, HD_OUTCOME_APPLIED);
	push_ended(&s, 4, 8, HD_OUTCOME_APPLIED);
	push_ended(&s, 5, 9, HD_OUTCOME_DROPPED);
	push_ended(&s, 6, 10, HD_OUTCOME_FAILED);
	push_ended(&s, 7, 300, HD_OUTCOME_APPLIED);
	assert_int_equal(counted(&s, filter, 1), 1);
	assert_int_equal(counted(&s, filter, 2), 1);
	assert_int_equal(counted(&s, filter, 4), 0);
	assert_int_equal(counted(&s, filter, 8), 2);
	assert_int_equal(counted(&s, filter, 256), 0);
	assert_int_equal(counted(&s, filter, 0), 5);
	assert_int_equal(s.net.controller->jobs[0]->applied, 5);
	assert_int_equal(lround(cell(&s, filter, "max")), 300);
	assert_int_equal(lround(cell(&s, filter, "mean") * 10), 636);
	assert_int_equal(
		lround(cell(&s, filter, "p50") * 100), 575
	); /* the 2.5th: between 5 and 8 */
	assert_int_equal(counted(&s, "of=push", 0), 7);
	add_up(&s);
	net_close(&s.net);
}

/* The same numbers in the text for Prometheus. */
static void test_metrics(void **state) {
	struct hd_stats *stats = hd_stats_create();
	struct hd_out out = {0};
	const char *text;
	struct stage s;

	(void)state;
	stage_open(&s);
	push_ended(&s, 1, 3, HD_OUTCOME_APPLIED);
	hd_controller_stats(s.net.controller, stats);
	hd_stats_openmetrics(stats, &out);
	text = hd_out_string(&out);
	assert_non_null(
		strstr(text, "\nheddle_controller_grant_wait_seconds_count{direction=\"push\"} 1\n")
	);
	assert_non_null(
		strstr(text, "\nheddle_controller_grant_wait_seconds_count{direction=\"pull\"} 0\n")
	);
	assert_non_null(
		strstr(text,
		       "\nheddle_job_staleness_bucket{tenant=\"team\",job=\"mnist\",le=\"2.0\"} 0\n"
		       "heddle_job_staleness_bucket{tenant=\"team\",job=\"mnist\",le=\"4.0\"} 1\n")
	);
	assert_non_null(
		strstr(text, "\nheddle_job_staleness_sum{tenant=\"team\",job=\"mnist\"} 3\n")
	);
	hd_out_fini(&out);
	hd_stats_destroy(stats);
	net_close(&s.net);
}

/* Lines of metrics that begin with this. */
static unsigned lines_of(const char *text, const char *start) {
	unsigned count = 0;

	while (text) {
		count += strncmp(text, start, strlen(start)) == 0;
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return count;
}

/* Jobs that only their server has reported have no names: each sample is there once all the same. */
static void test_metrics_of_nameless_jobs(void **state) {
	struct hd_out out = {0};
	struct hd_stats *stats = hd_stats_create();
	struct stage s;

	(void)state;
	assert_non_null(stats);
	stage_open(&s);
	for (uint32_t job = 0xa1; job < 0xa3; job++) {
		struct hd_message m = {.kind = HD_MSG_STATE};

		m.state.job = job;
		m.state.version = hd_version_make(1, 7);
		m.state.tau_max = 8;
		m.state.model_bytes = NET_MODEL_BYTES;
		post(s.server, m);
	}
	net_run(&s.net, 5 * HD_MS);
	assert_int_equal(s.net.controller->job_count, 3);
	hd_controller_stats(s.net.controller, stats);
	hd_stats_openmetrics(stats, &out);
	hd_out_char(&out, '\0');
	assert_false(out.failed);
	assert_int_equal(lines_of(out.data, "heddle_job_staleness_count{"), 3);
	assert_int_equal(lines_of(out.data, "heddle_job_version{"), 3);
	for (uint32_t job = 0xa1; job < 0xa3; job++) {
		char start[96];

		(void)snprintf(
			start,
			sizeof start,
			"heddle_job_staleness_count{tenant=\"\",job=\"%08x\"} ",
			(unsigned)job
		);
		assert_int_equal(lines_of(out.data, start), 1);
		(void)snprintf(
			start,
			sizeof start,
			"heddle_job_version{tenant=\"\",job=\"%08x\"} ",
			(unsigned)job
		);
		assert_int_equal(lines_of(out.data, start), 1);
	}
	hd_out_fini(&out);
	hd_stats_destroy(stats);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_metrics_of_nameless_jobs),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_delays),
		cmocka_unit_test(test_metrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
