/* SPDX-License-Identifier: BSD-3-Clause */
/* The server under a controller: positions, overtaking, hold, void, go, epochs, reports. */
#include "hd_kernels.h"
#include "server_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 30000
#define BYTES (VALUES * sizeof(float))
#define CHUNKS 86
#define WORKERS 4

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *controller, *worker[WORKERS];
	hd_version base;
	float g[WORKERS][VALUES];
};

static bool is_registered(void *what) {
	return fake_count(what, HD_MSG_REGISTER) > 0;
}

static struct fixture *open_fixture(uint32_t tau_max, uint32_t hold_us) {
	struct fixture *f = calloc(1, sizeof *f);

	net_open(&f->net);
	spec_make(&f->spec, f->tensors, VALUES);
	f->spec.tau_max = tau_max;
	f->controller = fake_controller(&f->net, 3);
	f->config.controller = f->controller->node.addr;
	f->config.hold_us = hold_us;
	net_server(&f->net, &f->config);
	net_run_until(&f->net, is_registered, f->controller, HD_SECOND);
	for (uint16_t i = 0; i < WORKERS; i++) {
		f->worker[i] = fake_worker(&f->net, i);
		f->base = fake_joined(f->worker[i], &f->spec)->version;
		for (size_t k = 0; k < VALUES; k++)
			f->g[i][k] = (float)(i + 1) * 0.25F + (float)(k % 17) * 0.125F;
	}
	return f;
}

static void close_fixture(struct fixture *f) {
	for (uint16_t i = 0; i < WORKERS; i++)
		fake_close(f->worker[i]);
	fake_close(f->controller);
	net_close(&f->net);
	free(f);
}

static struct hd_msg_expect
expectation(const struct fixture *f, uint16_t worker, uint64_t position) {
	return (struct hd_msg_expect){
		.job = f->worker[0]->job,
		.worker = worker,
		.round = 1,
		.attempt = 1,
		.epoch = 3,
		.token = 0x1000 + position,
		.position = position,
		.base = f->base,
		.bytes = BYTES,
		.weight = 1,
	};
}

static void expect(struct fixture *f, uint16_t worker, uint64_t position) {
	struct hd_msg_expect message = expectation(f, worker, position);

	fake_expect(f->controller, &message);
	net_run(&f->net, HD_MS);
}

/* The same on the newest version, not on the first one. */
static void expect_fresh(struct fixture *f, uint16_t worker, uint64_t position) {
	struct hd_msg_expect message = expectation(f, worker, position);

	message.base = hd_server_version(f->net.server, f->worker[0]->job);
	fake_expect(f->controller, &message);
	net_run(&f->net, HD_MS);
}

/* Commits before those that the test is about: worker 3's, so that base falls behind. */
static void advance(struct fixture *f, uint32_t commits) {
	for (uint32_t round = 11; round < 11 + commits; round++) {
		hd_version newest = hd_server_version(f->net.server, f->worker[0]->job);

		assert_int_equal(
			fake_push_direct(f->worker[3], round, newest, f->g[3], VALUES)->outcome,
			HD_OUTCOME_APPLIED
		);
	}
}

static void push(struct fixture *f, uint16_t worker, uint64_t position) {
	fake_push(f->worker[worker], 0x1000 + position, 1, 1, f->g[worker], VALUES);
}

static bool is_sent(void *what) {
	return hd_send_stats(what)->state == HD_SEND_DONE;
}

/* Sends all of an update; it is then held whole. */
static void push_whole(struct fixture *f, uint16_t worker, uint64_t position) {
	struct hd_send *send
		= fake_push(f->worker[worker], 0x1000 + position, 1, 1, f->g[worker], VALUES);

	net_run_until(&f->net, is_sent, send, HD_SECOND);
}

/* Workers in the order in which they were committed. */
static void assert_order(const struct fixture *f, const char *order) {
	char found[64] = "";

	for (size_t i = 0; i < net_events(&f->net, HD_EVENT_COMMITTED); i++)
		found[i] = (char)('0' + net_event(&f->net, HD_EVENT_COMMITTED, i)->worker);
	assert_string_equal(found, order);
}

static void test_registers_and_reports(void **state) {
	struct fixture *f = open_fixture(16, 0);
	const struct hd_msg_register_ *reg
		= &fake_wait(f->controller, HD_MSG_REGISTER, 0)->register_;
	const struct hd_msg_report *report;
	const struct hd_msg_state *job;

	assert_int_equal(reg->role, HD_ROLE_SERVER);
	assert_string_equal(reg->host, "ps");
	assert_int_equal(reg->memory_bytes, UINT64_C(1) << 30);
	job = &fake_wait(f->controller, HD_MSG_STATE, 0)->state;
	assert_int_equal(job->job, f->worker[0]->job);
	assert_int_equal(job->version, f->base);
	assert_int_equal(job->model_bytes, BYTES);
	expect(f, 2, 1);
	push_whole(f, 2, 1);
	report = &fake_wait(f->controller, HD_MSG_REPORT, 0)->report;
	assert_int_equal(report->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(report->token, 0x1001);
	assert_int_equal(report->position, 1);
	assert_int_equal(report->bytes, BYTES);
	assert_int_equal(report->version, f->base + 1);
	assert_true(report->duration_ns > 0 && report->rate_bps > 0);
	assert_int_equal(report->limited_permille, 0);
	assert_int_equal(fake_outcome(f->worker[2], 1)->version, f->base + 1);
	close_fixture(f);
}

/* A sender that its grant held back says so in its chunks, and the report with it. */
static void test_reports_pacing(void **state) {
	struct fixture *f = open_fixture(16, 0);
	const struct hd_msg_report *report;

	(void)state;
	f->worker[2]->granted_bps = 10000000;
	expect(f, 2, 1);
	push_whole(f, 2, 1);
	report = &fake_wait(f->controller, HD_MSG_REPORT, 0)->report;
	assert_int_equal(report->bytes, BYTES);
	assert_true(report->rate_bps > 9000000 && report->rate_bps < 14000000);
	assert_in_range(report->limited_permille, 900, 1000);
	close_fixture(f);
}

/* tau_max 3, two ahead: worker 0 is due now (0 + 3), nothing may go before it. */
static void test_commits_in_order_of_positions(void **state) {
	struct fixture *f = open_fixture(3, 0);
	const struct hd_msg_report *report;

	advance(f, 2);
	expect(f, 0, 1);
	expect_fresh(f, 1, 2);
	expect_fresh(f, 2, 3);
	push_whole(f, 2, 3);
	assert_order(f, "33");
	/* The network is free again, and the controller told: once. Two reports are of advance(). */
	report = &fake_wait(f->controller, HD_MSG_REPORT, 2)->report;
	assert_int_equal(report->outcome, HD_OUTCOME_PENDING);
	assert_int_equal(report->token, 0x1003);
	assert_int_equal(report->bytes, BYTES);
	push_whole(f, 1, 2);
	assert_order(f, "33");
	push_whole(f, 0, 1);
	net_run(&f->net, HD_MS);
	assert_order(f, "33012");
	assert_int_equal(fake_count(f->controller, HD_MSG_REPORT), 2 + 2 + 3);
	assert_int_equal(fake_outcome(f->worker[0], 1)->delay, 3);
	assert_int_equal(fake_outcome(f->worker[2], 1)->delay, 3);
	assert_int_equal(hd_server_stats(f->net.server)->overtaken, 0);
	close_fixture(f);
}

/* tau_max 4, one commit ahead of base: an update that goes before 0 and 1 leaves them delays of
 * 1 + 1 + 0 + 1 = 3 and 1 + 1 + 1 + 1 = 4: allowed. The next one would leave 1 with 5. */
static void test_overtakes_what_still_meets_its_bound(void **state) {
	struct fixture *f = open_fixture(4, 0);

	advance(f, 1);
	expect(f, 0, 1);
	expect(f, 1, 2);
	expect_fresh(f, 3, 3);
	expect_fresh(f, 2, 4);
	push_whole(f, 3, 3);
	net_run(&f->net, HD_MS);
	assert_order(f, "33");
	push_whole(f, 2, 4);
	net_run(&f->net, HD_MS);
	assert_order(f, "33");
	push_whole(f, 0, 1);
	net_run(&f->net, HD_MS);
	assert_order(f, "330");
	push_whole(f, 1, 2);
	net_run(&f->net, HD_MS);
	assert_order(f, "33012");
	assert_int_equal(fake_outcome(f->worker[1], 1)->delay, 4);
	assert_int_equal(hd_server_stats(f->net.server)->overtaken, 1);
	close_fixture(f);
}

/* A direct update that completes stands behind those that are expected, and may overtake too. */
static void test_direct_among_scheduled(void **state) {
	struct fixture *f = open_fixture(2, 0);
	uint64_t token;

	expect(f, 0, 1);
	expect(f, 1, 2);
	fake_request_push(f->worker[3], 1, 1, f->base, BYTES);
	token = fake_wait(f->worker[3], HD_MSG_GRANT, 0)->grant.token;
	fake_push(f->worker[3], token, 1, 1, f->g[3], VALUES);
	net_run(&f->net, 20 * HD_MS);
	assert_order(f, "");
	push_whole(f, 0, 1);
	push_whole(f, 1, 2);
	net_run(&f->net, 5 * HD_MS);
	assert_order(f, "01");
	assert_int_equal(fake_outcome(f->worker[3], 1)->reason, HD_REASON_LATE);
	close_fixture(f);
}

static void test_hold_gives_a_silent_position_up(void **state) {
	struct fixture *f = open_fixture(2, 50000);
	const struct hd_event *event;
	hd_ns complete;

	advance(f, 1);
	expect(f, 0, 1);
	expect_fresh(f, 1, 2);
	net_run(&f->net, 200 * HD_MS); /* no push waits: nothing is given up */
	assert_int_equal(net_events(&f->net, HD_EVENT_VOIDED), 0);
	push_whole(f, 1, 2);
	complete = net_event(&f->net, HD_EVENT_RECV_END, 1)->at;
	net_run(&f->net, 40 * HD_MS);
	assert_order(f, "3");
	net_run(&f->net, 20 * HD_MS);
	assert_order(f, "31");
	event = net_event(&f->net, HD_EVENT_VOIDED, 0);
	assert_int_equal(event->reason, HD_REASON_HOLD);
	assert_int_equal(event->at, complete + 50 * HD_MS);
	assert_int_equal(fake_outcome(f->worker[0], 1)->outcome, HD_OUTCOME_DROPPED);
	assert_int_equal(fake_outcome(f->worker[0], 1)->reason, HD_REASON_HOLD);
	assert_int_equal(fake_wait(f->controller, HD_MSG_REPORT, 2)->report.reason, HD_REASON_HOLD);
	/* Its later chunks are dropped. */
	push(f, 0, 1);
	net_run(&f->net, 50 * HD_MS);
	assert_order(f, "31");
	assert_true(hd_server_stats(f->net.server)->drop_token > 0);
	close_fixture(f);
}

/* A slow update that still comes is no missing one, however long it takes. */
static void test_hold_spares_what_moves(void **state) {
	struct fixture *f = open_fixture(2, 20000);
	struct hd_sink *sink = &f->worker[0]->node.sink;
	struct hd_chunk_header header = {
		.job = f->worker[0]->job,
		.round = 1,
		.attempt = 1,
		.token = 0x1001,
		.count = HD_CHUNK_BYTES_DEFAULT / 4,
	};
	uint8_t head[HD_CHUNK_HEADER_BYTES];

	advance(f, 1);
	expect(f, 0, 1);
	expect_fresh(f, 1, 2);
	push_whole(f, 1, 2);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		/* Nothing is committed before the last one is there. */
		assert_order(f, "3");
		header.chunk = i;
		header.packet = i;
		if (i == CHUNKS - 1) {
			header.flags = HD_CHUNK_LAST;
			header.count = VALUES - i * (HD_CHUNK_BYTES_DEFAULT / 4);
		}
		hd_chunk_encode(&header, head);
		sink->send(
			sink,
			f->net.server_node.addr,
			head,
			sizeof head,
			f->g[0] + (size_t)i * (HD_CHUNK_BYTES_DEFAULT / 4),
			header.count * sizeof(float)
		);
		net_run(&f->net, 10 * HD_MS);
	}
	assert_int_equal(net_events(&f->net, HD_EVENT_VOIDED), 0);
	assert_order(f, "301");
	close_fixture(f);
}

static void test_void_moves_on(void **state) {
	struct fixture *f = open_fixture(2, 0);
	struct hd_message message = {.kind = HD_MSG_VOID};

	advance(f, 1);
	expect(f, 0, 1);
	expect_fresh(f, 1, 2);
	push_whole(f, 1, 2);
	net_run(&f->net, HD_MS);
	assert_order(f, "3");
	message.void_ = (struct hd_msg_void_
	){.job = f->worker[0]->job, .position = 1, .token = 0x1001, .reason = HD_REASON_VOID};
	fake_send(f->controller, &message);
	net_run(&f->net, 5 * HD_MS);
	assert_order(f, "31");
	assert_int_equal(fake_outcome(f->worker[0], 1)->reason, HD_REASON_VOID);
	/* The lease of a worker that we still hear: its round is not decided, it may ask again. */
	expect_fresh(f, 2, 3);
	message.void_ = (struct hd_msg_void_
	){.job = f->worker[0]->job, .position = 3, .token = 0x1003, .reason = HD_REASON_LEASE};
	fake_send(f->controller, &message);
	net_run(&f->net, 5 * HD_MS);
	assert_int_equal(fake_count(f->worker[2], HD_MSG_OUTCOME), 0);
	assert_int_equal(
		fake_push_direct(f->worker[2], 1, f->base + 1, f->g[2], VALUES)->outcome,
		HD_OUTCOME_APPLIED
	);
	close_fixture(f);
}

/* Predecessor 1 -> 2: go leaves while the last chunk of 1 is still in flight. */
static void test_go_one_window_before_the_end(void **state) {
	struct fixture *f = open_fixture(16, 0);
	struct hd_msg_expect second = expectation(f, 1, 2), third = expectation(f, 2, 3);
	const struct hd_event *go;

	expect(f, 0, 1);
	second.after = 0x1001;
	fake_expect(f->controller, &second);
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(net_events(&f->net, HD_EVENT_GO), 0);
	push_whole(f, 0, 1);
	assert_int_equal(fake_wait(f->worker[1], HD_MSG_GO, 0)->go.token, 0x1002);
	go = net_event(&f->net, HD_EVENT_GO, 0);
	assert_int_equal(go->worker, 1);
	assert_true(go->at > net_event(&f->net, HD_EVENT_RECV_START, 0)->at);
	assert_true(go->at <= net_event(&f->net, HD_EVENT_RECV_END, 0)->at);
	/* After one that has ended, and after an unknown one: at once. */
	third.after = 0x1001;
	fake_expect(f->controller, &third);
	assert_int_equal(fake_wait(f->worker[2], HD_MSG_GO, 0)->go.token, 0x1003);
	third = expectation(f, 3, 4);
	third.after = 0xdead;
	fake_expect(f->controller, &third);
	assert_int_equal(fake_wait(f->worker[3], HD_MSG_GO, 0)->go.token, 0x1004);
	close_fixture(f);
}

static void test_go_when_the_predecessor_is_void(void **state) {
	struct fixture *f = open_fixture(16, 0);
	struct hd_msg_expect second = expectation(f, 1, 2);
	struct hd_message message = {.kind = HD_MSG_VOID};

	expect(f, 0, 1);
	second.after = 0x1001;
	fake_expect(f->controller, &second);
	message.void_ = (struct hd_msg_void_){.job = f->worker[0]->job, .token = 0x1001};
	fake_send(f->controller, &message);
	assert_int_equal(fake_wait(f->worker[1], HD_MSG_GO, 0)->go.token, 0x1002);
	close_fixture(f);
}

static void test_expectations_that_do_not_fit(void **state) {
	struct fixture *f = open_fixture(16, 0);
	struct hd_msg_expect e = expectation(f, 0, 1);
	uint64_t refused = hd_server_stats(f->net.server)->refused_messages;
	static const uint8_t reasons[]
		= {HD_REASON_EPOCH,
		   HD_REASON_NO_SERVER,
		   HD_REASON_NO_SERVER,
		   HD_REASON_REFUSED,
		   HD_REASON_REFUSED,
		   HD_REASON_REFUSED};
	struct hd_msg_expect wrong[6];

	for (size_t i = 0; i < 6; i++) {
		wrong[i] = e;
		wrong[i].token = 0x2000 + i;
	}
	wrong[0].epoch = 2; /* of a controller that is no more */
	wrong[1].job ^= 1;
	wrong[2].worker = 77; /* never joined */
	wrong[3].bytes -= 4;
	wrong[4].position = 0;
	wrong[5].dtype = HD_DTYPE_FP16;
	for (size_t i = 0; i < 6; i++) {
		const struct hd_msg_report *report;

		fake_expect(f->controller, &wrong[i]);
		report = &fake_wait(f->controller, HD_MSG_REPORT, i)->report;
		assert_int_equal(report->outcome, HD_OUTCOME_FAILED);
		assert_int_equal(report->reason, reasons[i]);
		assert_int_equal(report->token, 0x2000 + i);
	}
	assert_int_equal(hd_server_stats(f->net.server)->refused_messages, refused + 6);
	/* The worker, where there is one, is notified that its grant is void. */
	net_run(&f->net, 5 * HD_MS);
	assert_int_equal(fake_count(f->worker[0], HD_MSG_VOID), 4);
	assert_int_equal(fake_wait(f->worker[0], HD_MSG_VOID, 0)->void_.token, 0x2000);
	assert_int_equal(fake_wait(f->worker[0], HD_MSG_VOID, 0)->void_.reason, HD_REASON_EPOCH);
	/* A worker may not tell us what to expect. */
	fake_expect(f->worker[0], &e);
	net_run(&f->net, 5 * HD_MS);
	assert_int_equal(hd_server_stats(f->net.server)->refused_messages, refused + 7);
	assert_int_equal(hd_server_stats(f->net.server)->expected, 0);
	close_fixture(f);
}

/* The same round granted twice: the newer token counts, unless the older copy is held whole. */
static void test_attempts_of_one_round(void **state) {
	struct fixture *f = open_fixture(2, 0);
	struct hd_msg_expect again = expectation(f, 0, 2);
	const struct hd_msg_report *report;
	struct hd_send *send;

	expect(f, 0, 1);
	again.attempt = 2;
	fake_expect(f->controller, &again);
	expect(f, 1, 3);
	push(f, 0, 1);
	net_run(&f->net, 20 * HD_MS);
	assert_int_equal(net_events(&f->net, HD_EVENT_RECV_START), 0);
	expect(f, 2, 4);
	push_whole(f, 2, 4); /* held: 2 and 3 stand before it */
	again = expectation(f, 2, 5);
	again.attempt = 2;
	fake_expect(f->controller, &again);
	report = &fake_wait(f->controller, HD_MSG_REPORT, 1)->report;
	assert_int_equal(report->token, 0x1005);
	assert_int_equal(report->reason, HD_REASON_DUPLICATE);
	/* Its sender is told `done` without sending it all. */
	send = fake_push(f->worker[2], 0x1005, 1, 2, f->g[2], VALUES);
	net_run_until(&f->net, is_sent, send, HD_SECOND);
	send = fake_push(f->worker[0], 0x1002, 1, 2, f->g[0], VALUES);
	net_run_until(&f->net, is_sent, send, HD_SECOND);
	push_whole(f, 1, 3);
	net_run(&f->net, 5 * HD_MS);
	assert_order(f, "01");
	assert_int_equal(fake_outcome(f->worker[2], 1)->reason, HD_REASON_LATE);
	assert_int_equal(hd_server_stats(f->net.server)->replaced, 1);
	close_fixture(f);
}

/* The first controller's grant was lost with it: the next one's, of the same attempt, counts. */
static void test_the_same_attempt_granted_again(void **state) {
	struct fixture *f = open_fixture(16, 0);
	struct hd_msg_expect again = expectation(f, 0, 2);
	struct hd_message cancel = {.kind = HD_MSG_CANCEL};

	expect(f, 0, 1);
	again.epoch = 4;
	fake_expect(f->controller, &again);
	net_run(&f->net, HD_MS);
	/* A late word on the older grant is not about this one. */
	cancel.cancel = (struct hd_msg_cancel
	){.job = f->worker[0]->job, .round = 1, .attempt = 1, .token = 0x1001};
	fake_send(f->worker[0], &cancel);
	net_run(&f->net, HD_MS);
	assert_int_equal(fake_count(f->worker[0], HD_MSG_OUTCOME), 0);
	push_whole(f, 0, 2);
	assert_int_equal(fake_outcome(f->worker[0], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_order(f, "0");
	close_fixture(f);
}

/* A new controller learns what is open, and what an older one granted is still taken. */
static void test_controller_restart(void **state) {
	struct fixture *f = open_fixture(16, 0);
	const struct hd_msg_inflight *inflight;
	const struct hd_msg_state *job;
	struct hd_msg_expect e;

	expect(f, 0, 7);
	push(f, 0, 7);
	net_run(&f->net, 250 * HD_US); /* its first chunks are there */
	fake_kill(f->controller);
	f->controller = fake_controller(&f->net, 4);
	f->worker[0]->node.down = true;
	job = &fake_wait(f->controller, HD_MSG_STATE, 0)->state;
	assert_int_equal(job->position, 7);
	assert_int_equal(job->inflight, 1);
	inflight = &fake_wait(f->controller, HD_MSG_INFLIGHT, 0)->inflight;
	assert_int_equal(inflight->token, 0x1007);
	assert_int_equal(inflight->position, 7);
	assert_int_equal(inflight->base, f->base);
	assert_int_equal(inflight->bytes, BYTES);
	f->worker[0]->node.down = false;
	assert_int_equal(fake_outcome(f->worker[0], 1)->outcome, HD_OUTCOME_APPLIED);
	e = expectation(f, 1, 8); /* epoch 3 */
	fake_expect(f->controller, &e);
	net_run(&f->net, 5 * HD_MS);
	assert_int_equal(hd_server_stats(f->net.server)->expected, 1);
	e.epoch = 4;
	fake_expect(f->controller, &e);
	net_run(&f->net, 5 * HD_MS);
	assert_int_equal(hd_server_stats(f->net.server)->expected, 2);
	close_fixture(f);
}

/* Refused for good: the server goes on without, and asks no more. */
static void test_refused_by_the_controller(void **state) {
	struct fixture *f = open_fixture(16, 0);
	struct fake *controller = f->controller;

	hd_session_close(
		controller->session,
		HD_REASON_REFUSED,
		"not here",
		f->net.now,
		&controller->node.sink
	);
	net_run(&f->net, 3 * HD_SECOND);
	assert_int_equal(fake_count(controller, HD_MSG_REGISTER), 1);
	assert_int_equal(net_event(&f->net, HD_EVENT_NODE_DOWN, 0)->reason, HD_REASON_REFUSED);
	assert_int_equal(
		fake_push_direct(f->worker[1], 1, f->base, f->g[1], VALUES)->outcome,
		HD_OUTCOME_APPLIED
	);
	close_fixture(f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers_and_reports),
		cmocka_unit_test(test_reports_pacing),
		cmocka_unit_test(test_commits_in_order_of_positions),
		cmocka_unit_test(test_overtakes_what_still_meets_its_bound),
		cmocka_unit_test(test_direct_among_scheduled),
		cmocka_unit_test(test_hold_gives_a_silent_position_up),
		cmocka_unit_test(test_hold_spares_what_moves),
		cmocka_unit_test(test_void_moves_on),
		cmocka_unit_test(test_go_one_window_before_the_end),
		cmocka_unit_test(test_go_when_the_predecessor_is_void),
		cmocka_unit_test(test_expectations_that_do_not_fit),
		cmocka_unit_test(test_attempts_of_one_round),
		cmocka_unit_test(test_the_same_attempt_granted_again),
		cmocka_unit_test(test_controller_restart),
		cmocka_unit_test(test_refused_by_the_controller),
	};

	return cmocka_run_group_tests_name("server-order", tests, NULL, NULL);
}
