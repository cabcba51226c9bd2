/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums at the server: one transfer, one commit, several rounds; their bounds, their order, their reports. */
#include "hd_kernels.h"
#include "hd_runs.h"
#include "server_sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_server_config plain;

static const struct hd_msg_report *
report_of(struct sums *s, uint64_t token, enum hd_outcome outcome) {
	for (size_t i = 0; i < s->controller->inbox_count; i++) {
		const struct hd_message *message = &s->controller->inbox[i];

		if (message->kind == HD_MSG_REPORT && message->report.token == token
		    && message->report.outcome == outcome)
			return &message->report;
	}
	return NULL;
}

/* How often its end was reported. */
static size_t reports(const struct sums *s, uint64_t token) {
	size_t count = 0;

	for (size_t i = 0; i < s->controller->inbox_count; i++) {
		const struct hd_message *message = &s->controller->inbox[i];

		count += message->kind == HD_MSG_REPORT && message->report.token == token
				&& message->report.outcome != HD_OUTCOME_PENDING ?
			1 :
			0;
	}
	return count;
}

static uint64_t counter(const struct sums *s) {
	return hd_version_counter(hd_server_version(s->net.server, s->job));
}

struct commit {
	const float *update;
	uint32_t parts; /* steps of its mean */
};

/* The model after these commits, bit for bit. */
static void assert_model(const struct sums *s, const struct commit *commits, size_t count) {
	float *mean = malloc(SUM_BYTES);
	const struct hd_sgd sgd = {s->spec.learning_rate, s->spec.momentum, s->spec.weight_decay};
	float *model = malloc(SUM_BYTES), *momentum = calloc(SUM_VALUES, sizeof(float));
	uint64_t values;

	hd_jobspec_initialize(&s->spec, model);
	for (size_t i = 0; i < count; i++) {
		hd_scale_f32(mean, commits[i].update, SUM_VALUES, 1.0F / (float)commits[i].parts);
		for (uint32_t k = 0; k < commits[i].parts; k++)
			hd_sgd_apply_scalar(model, momentum, mean, SUM_VALUES, &sgd);
	}
	assert_memory_equal(hd_server_model(s->net.server, s->job, &values), model, SUM_BYTES);
	assert_memory_equal(hd_server_momentum(s->net.server, s->job), momentum, SUM_BYTES);
	free(model);
	free(momentum);
	free(mean);
}

/* The whole story of one sum. */
static void test_one_commit_for_all(void **state) {
	struct sums *s = sums_open(16, &plain);
	const struct commit commits[] = {{s->sum, 3}};
	const struct hd_msg_report *report;
	struct hd_commit log[4];

	sums_make(s, "021", 5);
	s->list[1].weight = 0.5F;
	sums_send(s, "021");
	sums_push(s, "021", 5);
	for (uint16_t i = 0; i < 3; i++) {
		uint16_t worker = s->list[i].worker;
		const struct hd_msg_outcome *outcome = fake_outcome(s->worker[worker], 1);
		const struct hd_event *event = net_event(&s->net, HD_EVENT_COMMITTED, i);

		assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
		assert_int_equal(outcome->version, s->base + 1 + i);
		assert_int_equal(outcome->delay, 1 + i);
		assert_int_equal(event->worker, worker);
		assert_int_equal(event->more, 2 - i);
		assert_int_equal(event->version, outcome->version);
		assert_int_equal(event->aux, outcome->delay);
		assert_int_equal(event->position, 5 + i);
		assert_int_equal(event->token, PART_TOKEN + 5 + i);
		assert_true(event->value == (i == 1 ? 0.5 : 1.0));
	}
	sums_run_ms(s, 5);
	assert_int_equal(counter(s), 3);
	assert_model(s, commits, 1);
	assert_int_equal(hd_server_stats(s->net.server)->committed, 3);
	assert_int_equal(hd_server_stats(s->net.server)->sums, 1);
	report = report_of(s, SUM_TOKEN + 5, HD_OUTCOME_APPLIED);
	assert_non_null(report);
	assert_int_equal(report->version, s->base + 3);
	assert_int_equal(report->position, 5);
	assert_int_equal(report->worker, HD_GROUP_WORKER);
	assert_int_equal(report->bytes, SUM_BYTES);
	assert_int_equal(reports(s, SUM_TOKEN + 5), 1);
	assert_int_equal(hd_server_log(s->net.server, s->job, log, 4), 3);
	for (uint16_t i = 0; i < 3; i++) {
		assert_int_equal(log[i].version, s->base + 1 + i);
		assert_int_equal(log[i].worker, s->list[i].worker);
		assert_int_equal(log[i].more, 2 - i);
	}
	assert_int_equal(net_events(&s->net, HD_EVENT_RECV_END), 1);
	assert_int_equal(net_event(&s->net, HD_EVENT_RECV_END, 0)->worker, HD_GROUP_WORKER);
	sums_close(s);
}

/* Sums and single updates are one order. */
static void test_among_others(void **state) {
	struct sums *s = sums_open(16, &plain);
	struct hd_msg_expect single = {
		.job = s->job,
		.worker = 3,
		.round = 1,
		.attempt = 1,
		.epoch = 3,
		.token = 0x500,
		.position = 4,
		.base = s->base,
		.bytes = SUM_BYTES,
		.weight = 1,
	};
	float *first = malloc(SUM_BYTES);
	const struct commit commits[] = {{first, 2}, {s->g[3], 1}, {s->sum, 1}};

	sums_tell(s, "01", 2);
	fake_expect(s->controller, &single);
	sums_push_whole(s, "01", 2);
	memcpy(first, s->sum, SUM_BYTES);
	fake_push(s->worker[3], 0x500, 1, 1, s->g[3], SUM_VALUES);
	(void)fake_outcome(s->worker[3], 1);
	sums_tell(s, "2", 5); /* a sum of one is one, too */
	sums_push_whole(s, "2", 5);
	(void)fake_outcome(s->worker[2], 1);
	assert_int_equal(counter(s), 4);
	assert_model(s, commits, 3);
	free(first);
	sums_close(s);
}

/* Each part has the bound at its own place: the third of three is the one that breaks it. */
static void test_bound_of_each(void **state) {
	struct sums *s = sums_open(4, &plain);

	sums_advance(s, 2);
	sums_tell(s, "012", 10); /* would be 3, 4 and 5 after the first version */
	assert_int_equal(hd_server_stats(s->net.server)->expected, 0);
	assert_int_equal(report_of(s, SUM_TOKEN + 10, HD_OUTCOME_FAILED)->reason, HD_REASON_LATE);
	for (uint16_t i = 0; i < 3; i++) { /* none of them is late alone */
		assert_int_equal(sums_withdrawn(s, i, 10 + i), 1);
		assert_int_equal(fake_count(s->worker[i], HD_MSG_OUTCOME), 0);
	}
	sums_tell(s, "01", 20);
	sums_push(s, "01", 20);
	assert_int_equal(fake_outcome(s->worker[0], 1)->delay, 3);
	assert_int_equal(fake_outcome(s->worker[1], 1)->delay, 4);
	sums_close(s);
}

/* A part that is late by itself ends; the others' workers ask again. */
static void test_late_part(void **state) {
	struct sums *s = sums_open(4, &plain);

	sums_advance(s, 3);
	sums_make(s, "012", 10);
	s->list[0].base = s->list[1].base = hd_server_version(s->net.server, s->job);
	sums_send(s, "012"); /* worker 2 would be 6 after its base */
	sums_run_ms(s, 5);
	assert_int_equal(sums_withdrawn(s, 2, 12), 1); /* alone it would be 4 */
	sums_advance(s, 1);
	sums_make(s, "012", 20);
	s->list[0].base = s->list[1].base = hd_server_version(s->net.server, s->job);
	sums_send(s, "012");
	assert_int_equal(fake_outcome(s->worker[2], 1)->reason, HD_REASON_LATE);
	assert_int_equal(fake_outcome(s->worker[2], 1)->outcome, HD_OUTCOME_DROPPED);
	assert_int_equal(sums_withdrawn(s, 0, 20), 1);
	assert_int_equal(sums_withdrawn(s, 1, 21), 1);
	sums_close(s);
}

/* Commits that go ahead make it too late: it ends at once, not when it is complete. */
static void test_too_late_while_it_comes(void **state) {
	struct sums *s = sums_open(4, &plain);

	sums_tell(s, "01", 10);
	sums_advance(s, 2); /* now it would be 3 and 4: one more may not go ahead of it */
	s->base = hd_server_version(s->net.server, s->job);
	assert_int_equal(net_events(&s->net, HD_EVENT_DROPPED), 0);
	fake_request_push(s->worker[3], 20, 1, s->base, SUM_BYTES);
	fake_push(
		s->worker[3],
		fake_wait(s->worker[3], HD_MSG_GRANT, 2)->grant.token,
		20,
		1,
		s->g[3],
		SUM_VALUES
	);
	sums_run_ms(s, 50);
	sums_assert_order(s, "33");
	sums_push(s, "01", 10);
	(void)fake_outcome(s->worker[3], 20);
	sums_assert_order(s, "33013");
	sums_close(s);
}

/* A complete sum of three goes ahead of one that still comes only if that one may come fourth. */
static void overtaking(uint32_t tau_max, const char *order) {
	struct sums *s = sums_open(tau_max, &plain);
	struct hd_msg_expect single = {
		.job = s->job,
		.worker = 3,
		.round = 1,
		.attempt = 1,
		.epoch = 3,
		.token = 0x500,
		.position = 1,
		.base = s->base,
		.bytes = SUM_BYTES,
		.weight = 1,
	};

	fake_expect(s->controller, &single);
	sums_run_ms(s, 1);
	sums_tell(s, "012", 2);
	sums_push_whole(s, "012", 2);
	sums_run_ms(s, 5);
	sums_assert_order(s, tau_max > 3 ? "012" : "");
	/* Held whole, but it waits: the network that it took is free. */
	assert_true(tau_max > 3 || report_of(s, SUM_TOKEN + 2, HD_OUTCOME_PENDING));
	fake_push(s->worker[3], 0x500, 1, 1, s->g[3], SUM_VALUES);
	sums_run_ms(s, 20);
	sums_assert_order(s, order);
	sums_close(s);
}

static void test_overtakes(void **state) {
	overtaking(4, "0123");
}

/* With 3 the sum waits for the single one; then its own third part is fourth, and the sum ends. */
static void test_does_not_overtake(void **state) {
	overtaking(3, "3");
}

/* A sum that still comes counts as many as it has. */
static void sum_before(uint32_t tau_max, bool goes) {
	struct sums *s = sums_open(tau_max, &plain);
	struct hd_msg_expect single = {
		.job = s->job,
		.worker = 3,
		.round = 1,
		.attempt = 1,
		.epoch = 3,
		.token = 0x500,
		.position = 9,
		.base = s->base,
		.bytes = SUM_BYTES,
		.weight = 1,
	};

	sums_tell(s, "012", 2);
	fake_expect(s->controller, &single);
	sums_run_ms(s, 1);
	fake_push(s->worker[3], 0x500, 1, 1, s->g[3], SUM_VALUES);
	sums_run_ms(s, 20);
	sums_assert_order(s, goes ? "3" : "");
	sums_close(s);
}

static void test_is_overtaken(void **state) {
	sum_before(4, true);
	sum_before(3, false);
}

/* 16 bits are a matter of the aggregator; here a sum of them is like any other. */
static void test_half(void **state) {
	struct sums *s = sums_open(16, &plain);
	const struct hd_sgd sgd = {s->spec.learning_rate, s->spec.momentum, s->spec.weight_decay};
	float *model = malloc(SUM_BYTES), *momentum = calloc(SUM_VALUES, sizeof(float));
	float mean[SUM_VALUES];
	uint16_t half[SUM_VALUES];
	uint64_t values;

	hd_half_from_f32(HD_DTYPE_BF16, half, s->g[2], SUM_VALUES, 1);
	sums_make(s, "01", 1);
	s->message.dtype = HD_DTYPE_BF16;
	s->message.bytes = sizeof half;
	sums_send(s, "01");
	s->aggregator->dtype = HD_DTYPE_BF16;
	fake_push(s->aggregator, SUM_TOKEN + 1, 77, 3, half, SUM_VALUES); /* whatever it calls it */
	assert_int_equal(fake_outcome(s->worker[1], 1)->delay, 2);
	hd_jobspec_initialize(&s->spec, model);
	hd_half_to_f32(HD_DTYPE_BF16, mean, half, SUM_VALUES);
	hd_scale_f32(mean, mean, SUM_VALUES, 0.5F);
	hd_sgd_apply_scalar(model, momentum, mean, SUM_VALUES, &sgd);
	hd_sgd_apply_scalar(model, momentum, mean, SUM_VALUES, &sgd);
	assert_memory_equal(hd_server_model(s->net.server, s->job, &values), model, SUM_BYTES);
	free(model);
	free(momentum);
	sums_close(s);
}

/* --- go, acknowledgements ---------------------------------------------------------------------- */

static void test_go_to_the_aggregator(void **state) {
	struct sums *s = sums_open(16, &plain);

	sums_tell(s, "01", 1);
	sums_make(s, "23", 3);
	s->message.after = SUM_TOKEN + 1;
	sums_send(s, "23");
	assert_int_equal(fake_count(s->aggregator, HD_MSG_GO), 0);
	sums_push_whole(s, "01", 1);
	assert_int_equal(
		fake_wait(s->aggregator, HD_MSG_GO, 0)->go.token, (uint64_t)(SUM_TOKEN + 3)
	);
	sums_push_whole(s, "23", 3);
	sums_run_ms(s, 5);
	sums_assert_order(s, "0123");
	sums_close(s);
}

/* MEMBERS was faster than its session: go is said when there is one. */
static void test_go_when_its_session_opens(void **state) {
	struct sums *s = sums_open(16, &plain);
	struct hd_addr address = fake_address(s->aggregator);

	fake_close(s->aggregator);
	s->aggregator = NULL;
	sums_run_ms(s, 2000); /* its session ends */
	s->aggregator = fake_worker(&s->net, 99); /* for its address alone, at first */
	sums_make(s, "01", 1);
	fake_close(s->aggregator);
	s->message.peer_ipv4 = address.ipv4;
	s->message.peer_port = address.port;
	s->message.after = 0x777; /* has ended already, or never was */
	sums_send(s, "01");
	s->aggregator = fake_aggregator(&s->net, 1);
	s->aggregator->job = s->job;
	assert_int_equal(
		fake_wait(s->aggregator, HD_MSG_GO, 0)->go.token, (uint64_t)(SUM_TOKEN + 1)
	);
	sums_push_whole(s, "01", 1);
	sums_run_ms(s, 5);
	sums_assert_order(s, "01");
	sums_close(s);
}

/* The last acknowledgement is lost: chunks that still come are answered. */
static bool lose_from_server(struct net *net, const struct net_packet *packet) {
	uint64_t chunks = (SUM_BYTES - 1) / HD_CHUNK_BYTES_DEFAULT + 1;

	return packet->from.ipv4 == SERVER_IP && packet->to.ipv4 == 0x0a000201
		&& hd_server_stats(net->server)->chunks >= chunks && net->lost < 3;
}

static void test_answers_after_the_end(void **state) {
	struct sums *s = sums_open(16, &plain);

	sums_tell(s, "01", 1);
	s->net.lose = lose_from_server;
	sums_push_whole(s, "01", 1);
	assert_true(hd_server_stats(s->net.server)->duplicates > 0);
	sums_close(s);
}

/* --- relayed pulls ----------------------------------------------------------------------------- */

static bool is_pulled(void *what) {
	return ((struct fake *)what)->pulled_done;
}

/* A granted pull that names an aggregator's address goes there: state, chunks; acknowledgements come from there. */
static void test_pull_to_an_aggregator(void **state) {
	struct sums *s = sums_open(16, &plain);
	struct hd_message grant = {.kind = HD_MSG_GRANT};
	const struct hd_msg_pull_state *sent;
	float *into = malloc(SUM_BYTES);
	uint64_t values;

	sums_tell(s, "01", 1);
	sums_push_whole(s, "01", 1);
	s->aggregator->rank = 2;
	fake_pull_into(s->aggregator, into, SUM_VALUES, 9);
	grant.grant = (struct hd_msg_grant){
		.job = s->job,
		.worker = 2,
		.round = 9,
		.direction = HD_PULL,
		.attempt = 1,
		.epoch = 3,
		.token = 0x4444,
		.cc_weight = 1,
		.peer_ipv4 = s->message.peer_ipv4,
		.peer_port = s->message.peer_port,
		.bytes = SUM_BYTES,
	};
	fake_send(s->controller, &grant);
	sent = &fake_wait(s->aggregator, HD_MSG_PULL_STATE, 0)->pull_state;
	assert_int_equal(sent->token, 0x4444);
	assert_int_equal(sent->version, s->base + 2);
	net_run_until(&s->net, is_pulled, s->aggregator, HD_SECOND);
	assert_memory_equal(into, hd_server_model(s->net.server, s->job, &values), SUM_BYTES);
	assert_int_equal(fake_count(s->worker[2], HD_MSG_PULL_STATE), 0);
	sums_run_ms(s, 50);
	assert_int_equal(hd_server_stats(s->net.server)->pulls_delivered, 1);
	/* Granted before its session is there, it waits for that. */
	fake_kill(s->aggregator);
	s->aggregator = NULL;
	sums_run_ms(s, 3000);
	grant.grant.token = 0x4445;
	grant.grant.worker = HD_GROUP_WORKER;
	fake_send(s->controller, &grant);
	sums_run_ms(s, 20);
	s->aggregator = fake_aggregator(&s->net, 1);
	sent = &fake_wait(s->aggregator, HD_MSG_PULL_STATE, 0)->pull_state;
	assert_int_equal(sent->token, 0x4445);
	assert_int_equal(sent->worker, HD_GROUP_WORKER);
	fake_pull_into(s->aggregator, into, SUM_VALUES, 9);
	net_run_until(&s->net, is_pulled, s->aggregator, HD_SECOND);
	/* Its session ends: so do its pulls. */
	grant.grant.token = 0x5555;
	fake_send(s->controller, &grant);
	sums_run_ms(s, 0);
	fake_kill(s->aggregator);
	s->aggregator = NULL;
	sums_run_ms(s, 3000);
	assert_int_equal(hd_server_stats(s->net.server)->pulls_failed, 1);
	free(into);
	sums_close(s);
}

/* --- merged sums of sparse updates --------------------------------------------------------------- */

/* Room for twice as much was announced; it ends where it ends. Only what it names is stepped. */
static void test_merged(void **state) {
	static const struct hd_run runs[3] = {{5, 40}, {700, 900}, {5990, 10}};
	struct sums *s = sums_open(16, &plain);
	const struct hd_sgd sgd = {s->spec.learning_rate, s->spec.momentum, s->spec.weight_decay};
	uint64_t bytes = hd_runs_bytes(runs, 3, HD_CHUNK_BYTES_DEFAULT), values;
	float *model = malloc(SUM_BYTES), *momentum = calloc(SUM_VALUES, sizeof(float));
	uint8_t *wire = malloc(bytes);
	const float *x = s->g[2];

	(void)state;
	hd_runs_encode(runs, 3, x, 1, HD_CHUNK_BYTES_DEFAULT, wire);
	sums_make(s, "012", 5);
	s->message.dtype = HD_DTYPE_SPARSE32;
	s->message.bytes = 2 * bytes;
	sums_send(s, "012");
	s->aggregator->dtype = HD_DTYPE_SPARSE32;
	s->aggregator->total = (uint32_t)bytes;
	fake_push(s->aggregator, SUM_TOKEN + 5, 0, 0, wire, bytes / 4);
	for (uint16_t i = 0; i < 3; i++) {
		assert_int_equal(fake_outcome(s->worker[i], 1)->outcome, HD_OUTCOME_APPLIED);
		assert_int_equal(net_event(&s->net, HD_EVENT_COMMITTED, i)->bytes, bytes);
	}
	sums_run_ms(s, 5);
	assert_int_equal(report_of(s, SUM_TOKEN + 5, HD_OUTCOME_APPLIED)->bytes, bytes);
	hd_jobspec_initialize(&s->spec, model);
	for (size_t i = 0; i < 3; i++) {
		hd_sgd_apply(
			model + runs[i].first, momentum + runs[i].first, x, runs[i].count, &sgd
		);
		x += runs[i].count;
	}
	assert_memory_equal(hd_server_model(s->net.server, s->job, &values), model, SUM_BYTES);
	assert_memory_equal(hd_server_momentum(s->net.server, s->job), momentum, SUM_BYTES);
	free(wire);
	free(model);
	free(momentum);
	sums_close(s);
}

/* Not what it should be: an end beyond what was announced is no chunk of it; runs outside of the model end it. */
static void test_broken_merged(void **state) {
	static const struct hd_run outside = {SUM_VALUES, 10};
	struct sums *s = sums_open(16, &plain);
	uint64_t bytes = hd_runs_bytes(&outside, 1, HD_CHUNK_BYTES_DEFAULT);
	uint8_t wire[64] __attribute__((aligned(8)));

	(void)state;
	hd_runs_encode(&outside, 1, s->g[0], 1, HD_CHUNK_BYTES_DEFAULT, wire);
	sums_make(s, "01", 5);
	s->message.dtype = HD_DTYPE_SPARSE32;
	s->message.bytes = 48;
	sums_send(s, "01");
	s->aggregator->dtype = HD_DTYPE_SPARSE32;
	s->aggregator->total = 1000;
	fake_push(s->aggregator, SUM_TOKEN + 5, 0, 0, wire, bytes / 4);
	sums_run_ms(s, 20);
	assert_true(hd_server_stats(s->net.server)->drop_mismatch > 0);
	assert_int_equal(reports(s, SUM_TOKEN + 5), 0);
	s->aggregator->total = (uint32_t)bytes;
	fake_push(s->aggregator, SUM_TOKEN + 5, 0, 0, wire, bytes / 4);
	sums_run_ms(s, 20);
	assert_int_equal(report_of(s, SUM_TOKEN + 5, HD_OUTCOME_FAILED)->reason, HD_REASON_REFUSED);
	assert_int_equal(counter(s), 0);
	/* More than a dense one would have is none. */
	sums_make(s, "01", 8);
	s->message.dtype = HD_DTYPE_SPARSE32;
	s->message.bytes = SUM_BYTES + 4;
	sums_send(s, "01");
	assert_int_equal(report_of(s, SUM_TOKEN + 8, HD_OUTCOME_FAILED)->reason, HD_REASON_REFUSED);
	sums_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_commit_for_all),
		cmocka_unit_test(test_merged),
		cmocka_unit_test(test_broken_merged),
		cmocka_unit_test(test_among_others),
		cmocka_unit_test(test_bound_of_each),
		cmocka_unit_test(test_late_part),
		cmocka_unit_test(test_too_late_while_it_comes),
		cmocka_unit_test(test_overtakes),
		cmocka_unit_test(test_does_not_overtake),
		cmocka_unit_test(test_is_overtaken),
		cmocka_unit_test(test_half),
		cmocka_unit_test(test_go_to_the_aggregator),
		cmocka_unit_test(test_go_when_its_session_opens),
		cmocka_unit_test(test_answers_after_the_end),
		cmocka_unit_test(test_pull_to_an_aggregator),
	};

	return cmocka_run_group_tests_name("server-sum", tests, NULL, NULL);
}
