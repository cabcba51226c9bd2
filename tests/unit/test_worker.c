/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker core in virtual time, against peers that do what the test says. */
#include "worker_peers.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 5000
#define LOG_MAX 4096

struct world {
	struct hd_sim *sim;
	struct peer server, controller;
	struct hd_worker *worker;
	int node;
	struct hd_jobspec spec;
	struct hd_tensor tensor;
	float data[4][VALUES];
	/* What the worker told. */
	unsigned joined, refused, trouble, released, events;
	char text[128];
	struct hd_ticket ticket[2][64]; /* newest word, by direction and round */
	unsigned ends[2][64]; /* OUTCOME events */
	enum hd_event_kind log[LOG_MAX];
	uint64_t trace; /* a sum over every event */
};

static void on_joined(void *owner, hd_version version, uint32_t tau_max) {
	struct world *world = owner;

	assert_int_equal(tau_max, 7);
	world->joined++;
}

static void on_refused(void *owner, enum hd_reason reason, const char *text) {
	struct world *world = owner;

	world->refused++;
	strncpy(world->text, text, sizeof world->text - 1);
}

static void on_trouble(void *owner, enum hd_reason reason, const char *text) {
	struct world *world = owner;

	world->trouble++;
}

static void on_ticket(void *owner, const struct hd_ticket *ticket) {
	struct world *world = owner;

	world->ticket[ticket->direction][ticket->round % 64] = *ticket;
}

static void on_released(void *owner, uint32_t round, void *user) {
	struct world *world = owner;

	world->released++;
}

static const struct hd_worker_ops ops = {
	.joined = on_joined,
	.refused = on_refused,
	.trouble = on_trouble,
	.ticket = on_ticket,
	.released = on_released,
};

static void on_event(void *owner, int node, const struct hd_event *event) {
	struct world *world = owner;
	uint64_t word = event->at ^ event->token << 7 ^ (uint64_t)event->kind << 56 ^ event->bytes;

	if (world->events < LOG_MAX)
		world->log[world->events] = event->kind;
	world->events++;
	world->trace = (world->trace ^ word) * UINT64_C(0x100000001b3);
	if (event->kind == HD_EVENT_OUTCOME)
		world->ends[event->direction][event->round % 64]++;
}

static bool logged(const struct world *world, enum hd_event_kind kind) {
	for (unsigned i = 0; i < world->events && i < LOG_MAX; i++)
		if (world->log[i] == kind)
			return true;
	return false;
}

enum mode {
	DIRECT,
	SCHEDULED
};

static struct world *build(enum mode mode, const struct hd_worker_config *more) {
	struct world *world = calloc(1, sizeof *world);
	struct hd_sim_link link = {.rate_bps = 100000000, .queue_bytes = 1 << 18, .latency = 50000};
	struct hd_sim_node_config node = {.event = on_event, .owner = world};
	struct hd_worker_config config = *more;

	assert_int_equal(hd_sim_create(3, &world->sim), 0);
	peer_init(&world->server, world->sim, HD_ROLE_SERVER, VALUES);
	peer_init(&world->controller, world->sim, HD_ROLE_CONTROLLER, VALUES);
	world->controller.server = &world->server;
	world->controller.server_addr = hd_sim_node_address(world->sim, world->server.node);
	node.host = hd_sim_host(world->sim, &link);
	node.clock.offset_ns = 5 * HD_SECOND;
	world->node = hd_sim_node(world->sim, &node);
	strncpy(world->spec.tenant, "t", 2);
	strncpy(world->spec.name, "job", 4);
	world->tensor
		= (struct hd_tensor){.name = "w", .dimension_count = 1, .dimension = {VALUES}};
	world->spec.tau_max = 7;
	world->spec.learning_rate = 0.1f;
	world->spec.tensor_count = 1;
	world->spec.tensors = &world->tensor;
	config.name = "w3";
	config.host = "h4";
	config.rank = 3;
	config.keys = peer_keys();
	config.key_id = 1;
	config.seed[5] = 9;
	config.spec = &world->spec;
	config.ops = &ops;
	config.owner = world;
	if (mode == SCHEDULED)
		config.controller = hd_sim_node_address(world->sim, world->controller.node);
	else
		config.server = world->controller.server_addr;
	assert_int_equal(hd_worker_create(&config, &world->worker), 0);
	for (int k = 0; k < 4; k++)
		for (int i = 0; i < VALUES; i++)
			world->data[k][i] = (float)(k + 1) + (float)i * 0x1p-12f;
	peer_start(&world->server);
	if (mode == SCHEDULED)
		peer_start(&world->controller);
	hd_sim_node_start(world->sim, world->node, (struct hd_node){&hd_worker_ops, world->worker});
	return world;
}

static void destroy(struct world *world) {
	assert_null(hd_sim_failure(world->sim));
	if (hd_sim_node_runs(world->sim, world->node))
		hd_sim_node_stop(world->sim, world->node);
	hd_worker_destroy(world->worker);
	peer_fini(&world->server);
	peer_fini(&world->controller);
	hd_sim_destroy(world->sim);
	free(world);
}

static void run_ms(struct world *world, unsigned ms) {
	hd_sim_run(world->sim, hd_sim_now(world->sim) + ms * HD_MS);
}

static int push(struct world *world, int which, hd_version base) {
	struct hd_push_args args = {.data = world->data[which], .values = VALUES, .base = base};
	uint32_t round = 0;
	int rc = hd_worker_push(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		&args,
		hd_sim_node_sink(world->sim, world->node),
		&round
	);

	hd_sim_node_poke(world->sim, world->node);
	return rc < 0 ? rc : (int)round;
}

static int pull(struct world *world, int which, hd_version have, bool conditional) {
	struct hd_pull_args args = {
		.data = world->data[which],
		.values = VALUES,
		.have = have,
		.conditional = conditional,
	};
	uint32_t round = 0;
	int rc = hd_worker_pull(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		&args,
		hd_sim_node_sink(world->sim, world->node),
		&round
	);

	hd_sim_node_poke(world->sim, world->node);
	return rc < 0 ? rc : (int)round;
}

static int cancel(struct world *world, uint8_t direction, uint32_t round) {
	int rc = hd_worker_cancel(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		direction,
		round,
		hd_sim_node_sink(world->sim, world->node)
	);

	hd_sim_node_poke(world->sim, world->node);
	return rc;
}

static void check_sums(const struct world *world, unsigned pending) {
	const struct hd_worker_stats *stats = hd_worker_stats(world->worker);

	assert_int_equal(stats->pushed, stats->applied + stats->dropped + stats->failed + pending);
}

static const struct hd_worker_config plain;

static void test_direct_push_and_pull(void **state) {
	struct world *world = build(DIRECT, &plain);

	assert_int_equal(push(world, 0, 0), -EAGAIN);
	run_ms(world, 20);
	assert_int_equal(world->joined, 1);
	assert_int_equal(push(world, 0, 1), 1);
	assert_int_equal(push(world, 1, 2), 2);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	assert_false(world->ticket[HD_PUSH][1].granted);
	assert_int_equal(world->released, 2);
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(
			world->server.model[i], world->data[0][i] + world->data[1][i], 0
		);
	assert_int_equal(pull(world, 3, 0, false), 1);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->ticket[HD_PULL][1].version, world->server.version);
	assert_memory_equal(world->data[3], world->server.model, VALUES * sizeof(float));
	assert_int_equal(pull(world, 3, world->server.version, true), 2);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PULL][2].state, HD_TICKET_DROPPED);
	assert_int_equal(world->ticket[HD_PULL][2].reason, HD_REASON_NOT_MODIFIED);
	assert_int_equal(hd_worker_stats(world->worker)->direct_bytes, 3 * VALUES * 4);
	assert_int_equal(hd_worker_stats(world->worker)->granted_bytes, 0);
	assert_true(hd_worker_stats(world->worker)->direct);
	check_sums(world, 0);
	destroy(world);
}

static void test_refuses_bad_calls(void **state) {
	struct world *world = build(DIRECT, &plain);
	struct hd_push_args args = {.data = world->data[0], .values = VALUES - 1};
	uint32_t round = 77;

	run_ms(world, 20);
	assert_int_equal(
		hd_worker_push(
			world->worker,
			hd_sim_node_now(world->sim, world->node),
			&args,
			hd_sim_node_sink(world->sim, world->node),
			&round
		),
		-EINVAL
	);
	assert_int_equal(round, 77);
	world->data[0][VALUES - 1] = NAN;
	assert_int_equal(push(world, 0, 0), -EDOM);
	world->data[0][VALUES - 1] = INFINITY;
	assert_int_equal(push(world, 0, 0), -EDOM);
	assert_int_equal(cancel(world, HD_PUSH, 1), -ENOENT);
	assert_int_equal(hd_worker_stats(world->worker)->pushed, 0);
	destroy(world);
}

static void test_scheduled_push_and_pull(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	const struct hd_msg_report *report;

	run_ms(world, 20);
	assert_int_equal(world->joined, 1);
	assert_string_equal(peer_last(&world->controller, HD_MSG_REGISTER)->register_.host, "h4");
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_true(world->ticket[HD_PUSH][1].granted);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 0);
	assert_int_equal(pull(world, 3, 0, false), 1);
	run_ms(world, 200);
	assert_memory_equal(world->data[3], world->server.model, VALUES * sizeof(float));
	assert_int_equal(peer_count(&world->controller, HD_MSG_REPORT), 1);
	report = &peer_last(&world->controller, HD_MSG_REPORT)->report;
	assert_int_equal(report->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(report->bytes, VALUES * 4);
	assert_int_equal(report->direction, HD_PULL);
	assert_true(report->rate_bps > 10000000 && report->rate_bps < 200000000);
	assert_int_equal(hd_worker_stats(world->worker)->granted_bytes, 2 * VALUES * 4);
	assert_false(hd_worker_stats(world->worker)->direct);
	destroy(world);
}

static void test_weight_scales_once(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	float before = world->data[0][7];

	world->controller.weight = 0.5f;
	run_ms(world, 20);
	world->server.deaf = true; /* the first attempt stalls */
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	world->controller.weight = 0.25f; /* a later attempt keeps the first weight */
	run_ms(world, 3000);
	world->server.deaf = false;
	run_ms(world, 3000);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	/* What was granted once may be in the model: only the server is asked again. */
	assert_int_equal(peer_last(&world->controller, HD_MSG_REQUEST)->request.attempt, 1);
	assert_true(peer_last(&world->server, HD_MSG_REQUEST)->request.attempt >= 2);
	assert_float_equal(world->data[0][7], before, 0);
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(world->server.model[i], 0.5f * world->data[0][i], 0);
	assert_int_equal(world->ends[HD_PUSH][1], 1);
	destroy(world);
}

static void test_drop(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	world->controller.drop_reason = HD_REASON_BOUND;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_DROPPED);
	assert_int_equal(world->ticket[HD_PUSH][1].reason, HD_REASON_BOUND);
	world->controller.drop_reason = HD_REASON_NO_SERVER;
	assert_int_equal(push(world, 0, 1), 2);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_FAILED);
	assert_int_equal(world->released, 2);
	assert_false(logged(world, HD_EVENT_SEND_START));
	check_sums(world, 0);
	destroy(world);
}

/* With `after`, nothing leaves until go; without go, at the start time plus slack. */
static void test_go(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	struct hd_message go = {.kind = HD_MSG_GO};

	world->controller.after = 99;
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_GRANTED);
	go.go.job = hd_job_id("t", "job");
	go.go.token = 1001;
	peer_say(&world->server, &go);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	/* Go before its grant. */
	go.go.token = 1002;
	peer_say(&world->server, &go);
	run_ms(world, 10);
	assert_int_equal(push(world, 0, 1), 2);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	/* No go: the segment starts a second after the grant. */
	assert_int_equal(push(world, 0, 1), 3);
	run_ms(world, 900);
	assert_int_equal(world->ticket[HD_PUSH][3].state, HD_TICKET_GRANTED);
	run_ms(world, 200);
	assert_int_equal(world->ticket[HD_PUSH][3].state, HD_TICKET_APPLIED);
	destroy(world);
}

static void test_refused(void **state) {
	struct world *world = build(DIRECT, &plain);

	world->server.refuses = true;
	assert_int_equal(pull(world, 0, 0, false), 1);
	run_ms(world, 100);
	assert_int_equal(world->refused, 1);
	assert_string_equal(world->text, "tensor 0 differs");
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_FAILED);
	assert_int_equal(world->ticket[HD_PULL][1].reason, HD_REASON_REFUSED);
	assert_int_equal(pull(world, 0, 0, false), -ESHUTDOWN);
	assert_int_equal(push(world, 0, 0), -ESHUTDOWN);
	destroy(world);
}

/* A controller that never answers: after fallback_us to the configured server. */
static void test_fallback_without_answer(void **state) {
	struct hd_worker_config config = {.fallback_us = 400000};
	struct world *world;

	config.server = hd_sim_address(0, HD_PORT);
	world = build(SCHEDULED, &config);
	peer_stop(&world->controller);
	run_ms(world, 300);
	assert_int_equal(world->joined, 0);
	run_ms(world, 200);
	assert_int_equal(world->joined, 1);
	assert_true(logged(world, HD_EVENT_FALLBACK));
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_false(world->ticket[HD_PUSH][1].granted);
	/* It comes back: scheduled again. */
	peer_start(&world->controller);
	run_ms(world, 1500);
	assert_int_equal(push(world, 1, 1), 2);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	assert_true(world->ticket[HD_PUSH][2].granted);
	assert_int_equal(peer_count(&world->server, HD_MSG_JOIN), 1);
	destroy(world);
}

/* It goes away with a request in its hands: the server is asked. */
static void test_fallback_with_pending(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	world->controller.silent = true;
	assert_int_equal(push(world, 0, 1), 1);
	assert_int_equal(pull(world, 2, 0, false), 1);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_REQUESTED);
	peer_stop(&world->controller);
	run_ms(world, 1200);
	assert_int_equal(peer_count(&world->server, HD_MSG_REQUEST), 0);
	run_ms(world, 800);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
	assert_int_equal(hd_worker_stats(world->worker)->fallbacks, 1);
	assert_int_equal(world->ends[HD_PUSH][1], 1);
	check_sums(world, 0);
	destroy(world);
}

/* A new life of the controller before the fallback: it is asked again. */
static void test_controller_restart(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	world->controller.silent = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 20);
	peer_stop(&world->controller);
	world->controller.silent = false;
	peer_start(&world->controller);
	run_ms(world, 1400);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_true(world->ticket[HD_PUSH][1].granted);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 2);
	assert_int_equal(peer_last(&world->controller, HD_MSG_REQUEST)->request.attempt, 2);
	assert_int_equal(world->server.applied[1], 1);
	destroy(world);
}

static void test_unscheduled(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	world->controller.unscheduled = true;
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_false(world->ticket[HD_PUSH][1].granted);
	assert_int_equal(peer_count(&world->controller, HD_MSG_REQUEST), 0);
	assert_true(hd_worker_stats(world->worker)->direct);
	destroy(world);
}

/* The server restarts with round 1 in its model and round 2 lost on the way. */
static void test_server_restart(void **state) {
	struct world *world = build(DIRECT, &plain);

	run_ms(world, 20);
	world->server.no_outcome = true; /* held, applied, and the word is lost */
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	world->server.deaf = true;
	assert_int_equal(push(world, 1, 1), 2);
	run_ms(world, 50);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_HELD);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_SENDING);
	peer_stop(&world->server);
	world->server.no_outcome = world->server.deaf = false;
	run_ms(world, 300);
	peer_start(&world->server);
	run_ms(world, 3000);
	assert_int_equal(world->joined, 2);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	assert_int_equal(world->server.applied[1], 1);
	assert_int_equal(world->server.applied[2], 1);
	assert_int_equal(world->ends[HD_PUSH][1], 1);
	assert_int_equal(world->ends[HD_PUSH][2], 1);
	check_sums(world, 0);
	destroy(world);
}

/* Bytes are kept until they are durable, and pushed again to a server that lost them. */
static void test_keeps_until_durable(void **state) {
	struct hd_worker_config config = {.keep_bytes_max = (uint64_t)10 * VALUES * 4};
	struct world *world = build(DIRECT, &config);
	struct hd_message durable = {.kind = HD_MSG_DURABLE};

	run_ms(world, 20);
	for (int k = 0; k < 3; k++)
		assert_int_equal(push(world, k, 1), k + 1);
	run_ms(world, 300);
	assert_int_equal(hd_worker_stats(world->worker)->applied, 3);
	assert_int_equal(world->released, 0);
	durable.durable.job = hd_job_id("t", "job");
	durable.durable.version = world->server.applied_version[1];
	peer_say(&world->server, &durable);
	run_ms(world, 20);
	assert_int_equal(world->released, 1);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_DURABLE);
	/* Rounds 2 and 3 are lost with the old life; 3 is refused by the new one. */
	peer_stop(&world->server);
	world->server.applied[2] = world->server.applied[3] = 0;
	world->server.version = hd_version_make(2, 1);
	world->server.durable = world->server.version;
	world->server.silent = true;
	peer_start(&world->server);
	run_ms(world, 3000);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_REQUESTED);
	assert_int_equal(hd_worker_stats(world->worker)->applied, 3);
	world->server.applied_version[2] = hd_version_make(2, 2);
	peer_outcome(&world->server, 2, HD_OUTCOME_APPLIED, 0);
	peer_outcome(&world->server, 3, HD_OUTCOME_DROPPED, HD_REASON_LOST_BASE);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	assert_int_equal(world->ticket[HD_PUSH][3].state, HD_TICKET_DROPPED);
	assert_int_equal(hd_worker_stats(world->worker)->applied, 2);
	assert_int_equal(hd_worker_stats(world->worker)->dropped, 1);
	assert_int_equal(world->ends[HD_PUSH][2], 1);
	assert_int_equal(world->ends[HD_PUSH][3], 2);
	check_sums(world, 0);
	destroy(world);
}

static void test_keep_limit(void **state) {
	struct hd_worker_config config = {.keep_bytes_max = (uint64_t)2 * VALUES * 4};
	struct world *world = build(DIRECT, &config);

	run_ms(world, 20);
	for (int k = 0; k < 4; k++)
		assert_int_equal(push(world, k, 1), k + 1);
	run_ms(world, 300);
	assert_int_equal(hd_worker_stats(world->worker)->applied, 4);
	assert_int_equal(world->released, 2);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	destroy(world);
}

static void test_cancel(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	run_ms(world, 20);
	world->controller.silent = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 20);
	assert_int_equal(cancel(world, HD_PUSH, 1), 0);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_FAILED);
	assert_int_equal(world->ticket[HD_PUSH][1].reason, HD_REASON_CANCELLED);
	assert_int_equal(cancel(world, HD_PUSH, 1), -ENOENT);
	run_ms(world, 20);
	assert_int_equal(peer_last(&world->controller, HD_MSG_CANCEL)->cancel.round, 1);
	/* Half sent: the server has the last word. */
	world->controller.silent = false;
	world->server.deaf = true;
	assert_int_equal(push(world, 0, 1), 2);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_SENDING);
	assert_int_equal(cancel(world, HD_PUSH, 2), 0);
	assert_int_equal(cancel(world, HD_PUSH, 2), 0);
	run_ms(world, 20);
	assert_int_equal(peer_count(&world->server, HD_MSG_CANCEL), 1);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_SENDING);
	world->server.applied_version[2] = 42;
	peer_outcome(&world->server, 2, HD_OUTCOME_APPLIED, 0);
	run_ms(world, 20);
	assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
	/* And says nothing. */
	assert_int_equal(push(world, 0, 1), 3);
	run_ms(world, 20);
	assert_int_equal(cancel(world, HD_PUSH, 3), 0);
	run_ms(world, 4000);
	assert_int_equal(world->ticket[HD_PUSH][3].state, HD_TICKET_FAILED);
	assert_int_equal(world->ticket[HD_PUSH][3].reason, HD_REASON_CANCELLED);
	/* A pull. */
	world->controller.silent = true;
	assert_int_equal(pull(world, 1, 0, false), 1);
	assert_int_equal(cancel(world, HD_PULL, 1), 0);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_FAILED);
	check_sums(world, 0);
	destroy(world);
}

static void test_late_messages_change_nothing(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	struct hd_msg_request request;
	float copy[VALUES];

	run_ms(world, 20);
	world->controller.silent = true;
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 20);
	request = peer_last(&world->controller, HD_MSG_REQUEST)->request;
	request.attempt = 9;
	peer_grant(&world->controller, &request, 5);
	request.attempt = 1;
	request.round = 8;
	peer_grant(&world->controller, &request, 6);
	request.round = 1;
	request.worker = 4;
	peer_grant(&world->controller, &request, 7);
	request.worker = 3;
	peer_outcome(&world->server, 9, HD_OUTCOME_APPLIED, 0);
	request.direction = HD_PULL;
	peer_serve(&world->server, 33, &request);
	memcpy(copy, world->data[3], sizeof copy);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_REQUESTED);
	assert_int_equal(hd_worker_stats(world->worker)->late_messages, 5);
	assert_true(hd_worker_stats(world->worker)->drop_token > 0);
	assert_memory_equal(copy, world->data[3], sizeof copy);
	destroy(world);
}

/* Lost, duplicated and reordered packets: everything ends, once, with the same sums. */
static void lossy(double loss, uint64_t *trace) {
	struct world *world = build(SCHEDULED, &plain);
	struct hd_sim_faults faults = {.loss = loss, .duplicate = 0.02, .reorder = 0.02};
	uint32_t pushes = 0;

	hd_sim_set_faults(world->sim, &faults);
	run_ms(world, 2000);
	assert_true(world->joined >= 1);
	for (int round = 1; round <= 20; round++) {
		int rc = push(world, round % 2, 1);

		assert_true(rc > 0);
		pushes++;
		assert_true(pull(world, 2 + round % 2, 0, false) > 0);
		run_ms(world, 300);
	}
	run_ms(world, 20000);
	assert_int_equal(hd_worker_stats(world->worker)->applied, pushes);
	assert_int_equal(hd_worker_stats(world->worker)->delivered, 20);
	for (uint32_t round = 1; round <= pushes; round++) {
		assert_int_equal(world->server.applied[round], 1);
		assert_int_equal(world->ends[HD_PUSH][round], 1);
		assert_int_equal(world->ends[HD_PULL][round], 1);
	}
	check_sums(world, 0);
	*trace = world->trace;
	destroy(world);
}

static void test_lossy_and_replayable(void **state) {
	uint64_t first, second;

	lossy(0.05, &first);
	lossy(0.05, &second);
	assert_int_equal(first, second);
}

/* A rank's new life continues the rounds that the server has seen of it. */
static void test_rounds_continue(void **state) {
	struct world *world = build(DIRECT, &plain);

	world->server.last_round = 41;
	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 42);
	destroy(world);
}

static void test_tickets_limit(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	int rc = 0;

	run_ms(world, 20);
	world->controller.silent = true;
	for (int i = 0; i < HD_TICKETS_MAX; i++)
		assert_int_equal(push(world, 0, 1), i + 1);
	rc = push(world, 0, 1);
	assert_int_equal(rc, -ENOBUFS);
	assert_int_equal(hd_worker_stats(world->worker)->pushed, HD_TICKETS_MAX);
	assert_int_equal(cancel(world, HD_PUSH, 1), 0);
	assert_int_equal(push(world, 0, 1), HD_TICKETS_MAX + 1);
	destroy(world);
}

static void test_leave(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	bool left;

	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	left = hd_worker_leave(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		hd_sim_node_sink(world->sim, world->node)
	);
	hd_sim_node_poke(world->sim, world->node);
	assert_false(left);
	assert_int_equal(push(world, 0, 1), -ESHUTDOWN);
	run_ms(world, 300);
	assert_true(hd_worker_stats(world->worker)->left);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(peer_count(&world->server, HD_MSG_LEAVE), 1);
	assert_int_equal(peer_count(&world->controller, HD_MSG_LEAVE), 1);
	assert_null(world->server.session);
	destroy(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_direct_push_and_pull),
		cmocka_unit_test(test_refuses_bad_calls),
		cmocka_unit_test(test_scheduled_push_and_pull),
		cmocka_unit_test(test_weight_scales_once),
		cmocka_unit_test(test_drop),
		cmocka_unit_test(test_go),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_fallback_without_answer),
		cmocka_unit_test(test_fallback_with_pending),
		cmocka_unit_test(test_controller_restart),
		cmocka_unit_test(test_unscheduled),
		cmocka_unit_test(test_server_restart),
		cmocka_unit_test(test_keeps_until_durable),
		cmocka_unit_test(test_keep_limit),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_late_messages_change_nothing),
		cmocka_unit_test(test_lossy_and_replayable),
		cmocka_unit_test(test_rounds_continue),
		cmocka_unit_test(test_tickets_limit),
		cmocka_unit_test(test_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
