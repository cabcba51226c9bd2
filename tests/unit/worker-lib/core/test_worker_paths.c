/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes and pulls by way of an aggregator: its session, its words, and what happens when it is lost. */
#include "hd_kernels.h"
#include "worker_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_worker_config plain;

struct relayed {
	struct world *world;
	struct peer aggregator;
};

static struct hd_addr address(const struct peer *peer) {
	return hd_sim_node_address(peer->sim, peer->node);
}

/* Grants name the aggregator. */
static void name_it(struct relayed *r) {
	r->world->controller.via = &r->aggregator;
	r->world->controller.via_addr = address(&r->aggregator);
}

static void name_server(struct relayed *r) {
	r->world->controller.via = NULL;
	r->world->controller.via_addr = (struct hd_addr){0};
}

static struct relayed *open_configured(bool runs, const struct hd_worker_config *config) {
	struct relayed *r = calloc(1, sizeof *r);

	r->world = build(SCHEDULED, config);
	peer_init(&r->aggregator, r->world->sim, HD_ROLE_AGGREGATOR, VALUES);
	if (runs)
		peer_start(&r->aggregator);
	name_it(r);
	run_ms(r->world, 20);
	return r;
}

static struct relayed *open_relayed(bool runs) {
	return open_configured(runs, &plain);
}

static void close_relayed(struct relayed *r) {
	peer_stop(&r->aggregator);
	free(r->aggregator.model);
	destroy(r->world);
	free(r);
}

static const struct hd_ticket *ticket(const struct relayed *r, uint8_t direction, uint32_t round) {
	return &r->world->ticket[direction][round];
}

/* The values that the aggregator holds of a token, when it has all of them. */
static const float *held(struct relayed *r, uint64_t token) {
	for (uint32_t i = 0; i < PEER_TRANSFERS_MAX; i++) {
		const struct peer_transfer *transfer = &r->aggregator.transfers[i];

		if (transfer->token == token && transfer->recv
		    && hd_recv_missing(transfer->recv) == 0)
			return transfer->data;
	}
	return NULL;
}

static void send_void(struct peer *peer, uint64_t token, enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = hd_job_id("t", "job");
	message.void_.token = token;
	message.void_.reason = (uint8_t)reason;
	peer_send(peer, &message);
}

/* --- pushes ----------------------------------------------------------------------------------- */

static void test_push_by_an_aggregator(void **state) {
	struct relayed *r = open_relayed(true);
	const struct hd_worker_stats *stats = hd_worker_stats(r->world->worker);

	r->world->controller.weight = 0.5f;
	assert_int_equal(push(r->world, 0, 1), 1);
	assert_int_equal(push(r->world, 1, 1), 2);
	run_ms(r->world, 100);
	for (uint32_t round = 1; round <= 2; round++) {
		const float *data = held(r, 1000 + round);

		assert_int_equal(ticket(r, HD_PUSH, round)->state, HD_TICKET_HELD);
		assert_non_null(data);
		for (int i = 0; i < VALUES; i++)
			assert_float_equal(data[i], 0.5f * r->world->data[round - 1][i], 0);
		peer_outcome(&r->world->server, round, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	}
	run_ms(r->world, 20);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(r, HD_PUSH, 2)->state, HD_TICKET_APPLIED);
	assert_int_equal(stats->aggregated_bytes, sizeof(float) * 2 * VALUES);
	assert_int_equal(stats->granted_bytes, sizeof(float) * 2 * VALUES);
	/* The same worker's next one goes to the server itself. */
	name_server(r);
	assert_int_equal(push(r->world, 2, 1), 3);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, 3)->state, HD_TICKET_APPLIED);
	assert_int_equal(stats->aggregated_bytes, sizeof(float) * 2 * VALUES);
	check_sums(r->world, 0);
	close_relayed(r);
}

/* Fixed point: the request says the peak, the grant the exponent of the whole sum. */
static void test_fixed_point(void **state) {
	struct relayed *r = open_relayed(true);
	const struct hd_msg_request *request;
	const uint32_t *lanes;
	float back[VALUES];

	r->world->dtype = HD_DTYPE_FIXED32;
	r->world->data[0][77] = -1000;
	r->world->controller.weight = 0.5f;
	r->world->controller.exponent = -10;
	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 100);
	request = &peer_last(&r->world->controller, HD_MSG_REQUEST)->request;
	assert_float_equal(request->peak, 1000, 0);
	assert_int_equal(request->dtype, HD_DTYPE_FIXED32);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_HELD);
	lanes = (const void *)held(r, 1001);
	assert_non_null(lanes);
	hd_fixed_to_f32(back, lanes, VALUES, -10);
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(back[i], 0.5f * r->world->data[0][i], 0x1p-11);
	assert_float_equal(back[77], -500, 0);
	/* Too small a power: a value is beyond the lane, and the push fails. */
	r->world->controller.exponent = -24;
	assert_int_equal(push(r->world, 0, 1), 2);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, 2)->state, HD_TICKET_FAILED);
	assert_int_equal(ticket(r, HD_PUSH, 2)->reason, HD_REASON_NOT_FINITE);
	close_relayed(r);
}

/* The session is kept, and closed when it has been idle for long; then it is opened again. */
static void test_idle_session(void **state) {
	struct relayed *r = open_relayed(true);
	struct hd_session *session;

	assert_null(r->aggregator.session);
	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 100);
	session = r->aggregator.session;
	assert_non_null(session);
	run_ms(r->world, 60000); /* held whole there: it is needed */
	assert_ptr_equal(r->aggregator.session, session);
	assert_int_equal(peer_last(&r->aggregator, HD_MSG_JOIN)->join.worker, 3);
	assert_int_equal(peer_last(&r->aggregator, HD_MSG_JOIN)->join.job, hd_job_id("t", "job"));
	peer_outcome(&r->world->server, 1, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	run_ms(r->world, 31000);
	assert_null(r->aggregator.session);
	assert_int_equal(push(r->world, 1, 1), 2);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, 2)->state, HD_TICKET_HELD);
	assert_non_null(held(r, 1002));
	assert_true(hd_worker_stats(r->world->worker)->paths_lost == 0);
	close_relayed(r);
}

/* There is no aggregator: within a second the server is asked, and the controller is notified. */
static void test_no_session_in_time(void **state) {
	struct relayed *r = open_relayed(false);

	r->world->controller.via = NULL;
	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 400);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_GRANTED);
	assert_false(logged(r->world, HD_EVENT_SEND_START));
	run_ms(r->world, 800);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(r->world->server.applied[1], 1);
	assert_int_equal(peer_last(&r->world->server, HD_MSG_REQUEST)->request.attempt, 2);
	assert_int_equal(peer_count(&r->world->controller, HD_MSG_REQUEST), 1);
	assert_int_equal(
		peer_last(&r->world->controller, HD_MSG_CANCEL)->cancel.reason, HD_REASON_TIMEOUT
	);
	assert_int_equal(peer_last(&r->world->controller, HD_MSG_CANCEL)->cancel.token, 1001);
	assert_int_equal(hd_worker_stats(r->world->worker)->paths_lost, 1);
	close_relayed(r);
}

/* It comes up a little later: what waited goes. */
static void test_session_comes_late(void **state) {
	struct relayed *r = open_relayed(false);

	r->world->controller.via = NULL;
	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 200);
	peer_start(&r->aggregator);
	peer_expect(
		&r->aggregator, 1001, &peer_last(&r->world->controller, HD_MSG_REQUEST)->request
	);
	run_ms(r->world, 280);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_HELD);
	assert_int_equal(hd_worker_stats(r->world->worker)->asked_again, 0);
	close_relayed(r);
}

/* It dies while chunks come (at 1 Mbit/s), or when all are there: the server is asked what became of it. */
static void lost(bool whole, bool applied) {
	struct relayed *r = open_relayed(true);

	r->aggregator.deaf = !whole;
	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, whole ? HD_TICKET_HELD : HD_TICKET_SENDING);
	if (applied) { /* the sum is in the model, but that was not reported */
		r->world->server.applied[1] = 1;
		r->world->server.applied_version[1] = ++r->world->server.version;
	}
	peer_stop(&r->aggregator);
	run_ms(r->world, 2000);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(r->world->server.applied[1], 1);
	assert_int_equal(r->world->ends[HD_PUSH][1], 1);
	assert_int_equal(
		peer_last(&r->world->controller, HD_MSG_CANCEL)->cancel.reason, HD_REASON_CLOSED
	);
	assert_int_equal(peer_count(&r->world->controller, HD_MSG_REQUEST), 1);
	assert_int_equal(hd_worker_stats(r->world->worker)->paths_lost, 1);
	check_sums(r->world, 0);
	close_relayed(r);
}

static void test_lost_while_sending(void **state) {
	lost(false, false);
}

static void test_lost_when_it_held_all(void **state) {
	lost(true, false);
}

static void test_lost_after_the_sum_was_applied(void **state) {
	lost(true, true);
}

/* It has a session and takes nothing: a stall, as any. */
/* One that is applied, and kept until it is durable, has nothing more to do with its aggregator. */
static void test_lost_after_the_outcome(void **state) {
	struct hd_worker_config config = {.keep_bytes_max = (uint64_t)10 * VALUES * 4};
	struct relayed *r = open_configured(true, &config);

	r->world->server.applied_version[1] = 1;
	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_HELD);
	peer_outcome(&r->world->server, 1, HD_OUTCOME_APPLIED, HD_REASON_NONE);
	run_ms(r->world, 20);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_APPLIED);
	peer_stop(&r->aggregator);
	run_ms(r->world, 2000);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(peer_count(&r->world->server, HD_MSG_REQUEST), 0);
	assert_int_equal(hd_worker_stats(r->world->worker)->paths_lost, 0);
	close_relayed(r);
}

static void test_deaf(void **state) {
	struct relayed *r = open_relayed(true);

	r->aggregator.deaf = true;
	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 4000);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(peer_count(&r->world->server, HD_MSG_REQUEST), 1);
	close_relayed(r);
}

/* It was frozen until its machine's time was over, and an aggregator has not taken its push: what is still sent ends
 * before the path that it counts in. */
static void test_leaves_while_sending(void **state) {
	struct relayed *r = open_relayed(true);
	struct hd_worker *worker = r->world->worker;
	hd_ns now;

	r->aggregator.deaf = true;
	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_SENDING);
	now = hd_sim_node_now(r->world->sim, r->world->node);
	assert_int_equal(
		hd_worker_notice(
			worker, now, HD_MS, hd_sim_node_sink(r->world->sim, r->world->node)
		),
		0
	);
	for (int second = 1; second < 4; second++)
		(void)hd_worker_leave(
			worker,
			now + (hd_ns)second * HD_SECOND,
			hd_sim_node_sink(r->world->sim, r->world->node)
		);
	assert_true(hd_worker_stats(worker)->left);
	close_relayed(r); /* destroys the worker, and what it still has */
}

/* Its group failed: the controller plans it again. If it were dropped, the server is asked: it may be in the model. */
static void test_void_plans_again(void **state) {
	struct relayed *r = open_relayed(true);

	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_HELD);
	send_void(&r->aggregator, 999, HD_REASON_LEASE); /* of no transfer */
	send_void(&r->aggregator, 1001, HD_REASON_LEASE);
	run_ms(r->world, 50);
	assert_int_equal(peer_count(&r->world->controller, HD_MSG_REQUEST), 2);
	assert_int_equal(peer_last(&r->world->controller, HD_MSG_REQUEST)->request.attempt, 2);
	assert_int_equal(peer_count(&r->world->server, HD_MSG_REQUEST), 0);
	assert_non_null(held(r, 1002));
	r->world->controller.drop_reason = HD_REASON_BOUND;
	r->world->server.applied[1] = 1;
	r->world->server.applied_version[1] = ++r->world->server.version;
	send_void(&r->aggregator, 1002, HD_REASON_CLOSED);
	run_ms(r->world, 100);
	assert_int_equal(peer_count(&r->world->controller, HD_MSG_REQUEST), 3);
	assert_int_equal(peer_count(&r->world->server, HD_MSG_REQUEST), 1);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(r->world->server.applied[1], 1);
	/* A push that was never granted is dropped. */
	assert_int_equal(push(r->world, 1, 1), 2);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, 2)->state, HD_TICKET_DROPPED);
	check_sums(r->world, 0);
	close_relayed(r);
}

/* The server gives a sum up of which the aggregator holds this part; or the controller does. */
static void test_void_from_others(void **state) {
	struct relayed *r = open_relayed(true);

	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_HELD);
	send_void(&r->world->server, 1001, HD_REASON_TIMEOUT);
	run_ms(r->world, 50);
	assert_int_equal(peer_last(&r->world->controller, HD_MSG_REQUEST)->request.attempt, 2);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_HELD); /* once more */
	send_void(&r->world->controller, 1002, HD_REASON_LEASE);
	run_ms(r->world, 100);
	assert_int_equal(peer_count(&r->world->controller, HD_MSG_REQUEST), 2);
	assert_int_equal(peer_count(&r->world->server, HD_MSG_REQUEST), 1);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_APPLIED);
	close_relayed(r);
}

/* Go comes from the aggregator; acknowledgements of it by the server are ignored. */
static void test_go_and_acknowledgements(void **state) {
	struct relayed *r = open_relayed(true);
	struct hd_message message = {.kind = HD_MSG_GO};
	uint64_t late;

	r->world->controller.after = 99;
	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_GRANTED);
	late = hd_worker_stats(r->world->worker)->late_messages;
	message.kind = HD_MSG_SACK;
	message.sack.token = 1001;
	message.sack.done = 1;
	message.sack.held = 100;
	peer_send(&r->world->server, &message);
	run_ms(r->world, 20);
	assert_int_equal(hd_worker_stats(r->world->worker)->late_messages, late + 1);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_GRANTED);
	message.kind = HD_MSG_GO;
	message.go.job = hd_job_id("t", "job");
	message.go.token = 1001;
	peer_send(&r->aggregator, &message);
	run_ms(r->world, 50);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_HELD);
	/* Messages that an aggregator may not send. */
	message.kind = HD_MSG_OUTCOME;
	memset(&message.outcome, 0, sizeof message.outcome);
	message.outcome.job = hd_job_id("t", "job");
	message.outcome.worker = 3;
	message.outcome.round = 1;
	message.outcome.outcome = HD_OUTCOME_APPLIED;
	peer_send(&r->aggregator, &message);
	message.kind = HD_MSG_REFUSE;
	memset(&message.refuse, 0, sizeof message.refuse);
	peer_send(&r->aggregator, &message);
	run_ms(r->world, 20);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_HELD);
	assert_int_equal(r->world->refused, 0);
	close_relayed(r);
}

static void test_cancel(void **state) {
	struct relayed *r = open_relayed(true);

	r->world->controller.after = 99; /* nothing leaves */
	assert_int_equal(push(r->world, 0, 1), 1);
	run_ms(r->world, 50);
	assert_int_equal(cancel(r->world, HD_PUSH, 1), 0);
	run_ms(r->world, 20);
	assert_int_equal(ticket(r, HD_PUSH, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(peer_last(&r->aggregator, HD_MSG_CANCEL)->cancel.token, 1001);
	assert_int_equal(peer_last(&r->world->server, HD_MSG_CANCEL)->cancel.token, 1001);
	check_sums(r->world, 0);
	close_relayed(r);
}

/* More aggregators than places: idle ones give way, and none is there twice. */
static void test_places_are_taken_again(void **state) {
	struct relayed *r = open_relayed(true);
	uint64_t lost;

	for (uint32_t i = 0; i < HD_PATHS_MAX + 10; i++) {
		r->world->controller.via = NULL;
		r->world->controller.via_addr = (struct hd_addr){0x0b000000 + i, HD_PORT};
		assert_int_equal(push(r->world, 0, 1), (int)i + 1);
		run_ms(r->world, 1200);
		assert_int_equal(ticket(r, HD_PUSH, (i + 1) % 64)->state, HD_TICKET_APPLIED);
	}
	lost = hd_worker_stats(r->world->worker)->paths_lost;
	assert_int_equal(lost, HD_PATHS_MAX + 10);
	name_it(r);
	assert_int_equal(push(r->world, 0, 1), HD_PATHS_MAX + 11);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PUSH, (HD_PATHS_MAX + 11) % 64)->state, HD_TICKET_HELD);
	check_sums(r->world, 1);
	close_relayed(r);
}

/* --- pulls ------------------------------------------------------------------------------------- */

/* The aggregator has this version and relays it. */
static void serve(struct relayed *r, uint64_t token) {
	for (int i = 0; i < VALUES; i++)
		r->aggregator.model[i] = (float)i * 0.5f;
	r->aggregator.version = hd_version_make(1, 7);
	peer_serve(
		&r->aggregator, token, &peer_last(&r->world->controller, HD_MSG_REQUEST)->request
	);
}

static void assert_pulled(const struct relayed *r, int which, uint32_t round) {
	assert_int_equal(ticket(r, HD_PULL, round)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(r, HD_PULL, round)->version, hd_version_make(1, 7));
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(r->world->data[which][i], (float)i * 0.5f, 0);
}

static void test_relayed_pull(void **state) {
	struct relayed *r = open_relayed(true);
	const struct hd_msg_report *report;

	assert_int_equal(pull(r->world, 0, 0, false), 1);
	run_ms(r->world, 20); /* the session is open by now */
	assert_int_equal(ticket(r, HD_PULL, 1)->state, HD_TICKET_GRANTED);
	serve(r, 1001);
	run_ms(r->world, 100);
	assert_pulled(r, 0, 1);
	report = &peer_last(&r->world->controller, HD_MSG_REPORT)->report;
	assert_int_equal(report->token, 1001);
	assert_int_equal(report->outcome, HD_OUTCOME_APPLIED);
	/* The transfer ended there too: its acknowledgements arrived. */
	assert_int_equal(hd_send_stats(r->aggregator.transfers[0].send)->state, HD_SEND_DONE);
	assert_int_equal(peer_count(&r->world->server, HD_MSG_REQUEST), 0);
	close_relayed(r);
}

/* State and chunks are faster than the controller's word. */
static void test_relayed_pull_before_expect(void **state) {
	struct relayed *r = open_relayed(true);

	assert_int_equal(pull(r->world, 0, 0, false), 1);
	run_ms(r->world, 20);
	serve(r, 1001);
	run_ms(r->world, 100);
	r->world->controller.silent = true;
	assert_int_equal(pull(r->world, 1, 0, false), 2);
	run_ms(r->world, 20);
	serve(r, 1002);
	run_ms(r->world, 100);
	assert_pulled(r, 1, 2);
	close_relayed(r);
}

/* It dies before it served, or says that it cannot: the server does. */
static void test_relay_is_lost(void **state) {
	struct relayed *r = open_relayed(true);
	struct hd_message message = {.kind = HD_MSG_PULL_STATE};

	assert_int_equal(pull(r->world, 0, 0, false), 1);
	run_ms(r->world, 20);
	peer_stop(&r->aggregator);
	run_ms(r->world, 2000);
	assert_int_equal(ticket(r, HD_PULL, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(peer_last(&r->world->server, HD_MSG_REQUEST)->request.attempt, 2);
	assert_int_equal(
		peer_last(&r->world->controller, HD_MSG_CANCEL)->cancel.direction, HD_PULL
	);
	peer_start(&r->aggregator);
	run_ms(r->world, 2000);
	assert_int_equal(pull(r->world, 1, 0, false), 2);
	run_ms(r->world, 20);
	message.pull_state.job = hd_job_id("t", "job");
	message.pull_state.worker = 3;
	message.pull_state.round = 2;
	message.pull_state.attempt = 1;
	message.pull_state.token = peer_last(&r->world->controller, HD_MSG_REQUEST)->request.round;
	message.pull_state.reason = HD_REASON_NO_MEMORY;
	peer_send(&r->aggregator, &message);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PULL, 2)->state, HD_TICKET_APPLIED);
	assert_int_equal(peer_count(&r->world->server, HD_MSG_REQUEST), 2);
	/* And when it gives the transfer up. */
	assert_int_equal(pull(r->world, 1, 0, false), 3);
	run_ms(r->world, 20);
	send_void(&r->aggregator, 1003, HD_REASON_CLOSED);
	run_ms(r->world, 20);
	assert_int_equal(peer_last(&r->world->controller, HD_MSG_REQUEST)->request.attempt, 2);
	close_relayed(r);
}

/* The server's word on a pull that is to come from an aggregator is out of place. */
static void test_state_from_another(void **state) {
	struct relayed *r = open_relayed(true);
	const struct hd_msg_request *request;

	assert_int_equal(pull(r->world, 0, 0, false), 1);
	run_ms(r->world, 20);
	request = &peer_last(&r->world->controller, HD_MSG_REQUEST)->request;
	peer_serve(&r->world->server, 1001, request);
	run_ms(r->world, 100);
	assert_int_equal(ticket(r, HD_PULL, 1)->state, HD_TICKET_GRANTED);
	assert_true(hd_worker_stats(r->world->worker)->late_messages > 0);
	serve(r, 1001);
	run_ms(r->world, 2000);
	assert_pulled(r, 0, 1);
	close_relayed(r);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_push_by_an_aggregator),
		cmocka_unit_test(test_fixed_point),
		cmocka_unit_test(test_idle_session),
		cmocka_unit_test(test_no_session_in_time),
		cmocka_unit_test(test_session_comes_late),
		cmocka_unit_test(test_lost_while_sending),
		cmocka_unit_test(test_lost_when_it_held_all),
		cmocka_unit_test(test_lost_after_the_sum_was_applied),
		cmocka_unit_test(test_lost_after_the_outcome),
		cmocka_unit_test(test_deaf),
		cmocka_unit_test(test_leaves_while_sending),
		cmocka_unit_test(test_void_plans_again),
		cmocka_unit_test(test_void_from_others),
		cmocka_unit_test(test_go_and_acknowledgements),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_places_are_taken_again),
		cmocka_unit_test(test_relayed_pull),
		cmocka_unit_test(test_relayed_pull_before_expect),
		cmocka_unit_test(test_relay_is_lost),
		cmocka_unit_test(test_state_from_another),
	};

	return cmocka_run_group_tests_name("worker-ways", tests, NULL, NULL);
}
