/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker whose round goes through shared memory: what it says to the controller, and when it asks again. The memory
 * is scripted; hd_shared.h is tested in test_shared.c. The worker is rank 3; the members are ranks 0, 3 and 5. */
#include "reduce_peers.h"
#include "worker_core.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS 3
#define TOKEN 4711
#define SUM_ID 77

/* The core's calls, and their results. */
static struct memory {
	struct hd_shared_call call;
	uint32_t begun, stopped;
	int begins; /* the result of begin() */
	bool complete; /* stop() comes too late */
	uint64_t steps;
} memory;

static int begin_shared(void *owner, const struct hd_shared_call *call) {
	(void)owner;
	memory.call = *call;
	memory.begun++;
	return memory.begins;
}

static bool stop_shared(void *owner, uint64_t token, uint32_t turn, bool force) {
	(void)owner;
	assert_int_equal(token, memory.call.token);
	assert_int_equal(turn, memory.call.turn);
	memory.stopped++;
	return !memory.complete || force;
}

static uint64_t progress_shared(const void *owner) {
	(void)owner;
	return memory.steps;
}

static const struct hd_shared_ops ops
	= {.begin = begin_shared, .stop = stop_shared, .progress = progress_shared};

static struct scene *open_shared(void) {
	struct scene *s = open_scene(REDUCES);

	memset(&memory, 0, sizeof memory);
	s->world->worker->config.shared_ops = &ops;
	return s;
}

static void reduce_shared(struct scene *s, uint8_t attempt, uint32_t turn) {
	struct hd_message message = {.kind = HD_MSG_REDUCE, .reduce = {.scale = 1}};
	struct hd_msg_reduce *m = &message.reduce;
	struct hd_roster members = {0};

	for (uint16_t rank = 0; rank < 6; rank++)
		if (rank == 0 || rank == 3 || rank == 5)
			hd_roster_set(&members, rank, true);
	m->job = hd_job_id("t", "job");
	m->worker = 3;
	m->round = 1;
	m->attempt = attempt;
	m->dtype = HD_DTYPE_FP32;
	m->bytes = VALUES * sizeof(float);
	m->workers = MEMBERS;
	m->sum_id = SUM_ID;
	m->shared = TOKEN;
	m->turn = turn;
	m->members.data = members.ranks;
	m->members.bytes = (uint32_t)hd_roster_bytes(&members);
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

/* The memory says how the round has ended. */
static void end_shared(struct scene *s, int rc) {
	struct world *world = s->world;

	if (rc == 0)
		memcpy(s->out, s->in, sizeof s->out);
	hd_worker_shared_done(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		&memory.call,
		rc,
		hd_sim_node_sink(world->sim, world->node)
	);
	hd_sim_node_poke(world->sim, world->node);
	run_ms(world, 5);
}

static const struct hd_msg_request *request(const struct scene *s) {
	return &peer_last(&s->world->controller, HD_MSG_REQUEST)->request;
}

static struct scene *begin_round(void) {
	struct scene *s = open_shared();

	assert_int_equal(reduce(s, HD_DTYPE_FP32, HD_REDUCE_OP_SUM), 1);
	assert_int_equal(request(s)->by_network, 0);
	reduce_shared(s, 1, 0);
	assert_int_equal(memory.begun, 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	return s;
}

static void test_result(void **state) {
	struct scene *s = begin_round();
	const struct hd_msg_report *report;

	(void)state;
	assert_int_equal(memory.call.index, 1);
	assert_int_equal(memory.call.members, MEMBERS);
	assert_int_equal(memory.call.values, VALUES);
	assert_ptr_equal(memory.call.in, s->in);
	assert_ptr_equal(memory.call.out, s->out);
	end_shared(s, 0);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(ticket(s, 1)->delay, MEMBERS);
	assert_int_equal(hd_worker_stats(s->world->worker)->in_memory, 1);
	report = &peer_last(&s->world->controller, HD_MSG_REPORT)->report;
	assert_int_equal(report->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(report->token, SUM_ID);
	assert_int_equal(memory.stopped, 0);
	close_scene(s);
}

/* VOID: given up and asked for again, or complete already. */
static void test_void(void **state) {
	struct scene *s = begin_round();

	(void)state;
	send_void(s, &s->world->controller, TOKEN);
	assert_int_equal(memory.stopped, 1);
	assert_int_equal(request(s)->attempt, 2);
	assert_int_equal(request(s)->by_network, 0);
	reduce_shared(s, 2, 1);
	memory.complete = true;
	send_void(s, &s->world->controller, TOKEN);
	assert_int_equal(request(s)->attempt, 2);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	end_shared(s, 0);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	close_scene(s);
}

/* Another member has given it up: through memory again. This memory is no good: by the network from now on. */
static void test_no_result(void **state) {
	struct scene *s = begin_round();

	(void)state;
	end_shared(s, -ECANCELED);
	assert_int_equal(request(s)->attempt, 2);
	assert_int_equal(request(s)->by_network, 0);
	reduce_shared(s, 2, 0);
	end_shared(s, -EPROTO);
	assert_int_equal(request(s)->attempt, 3);
	assert_int_equal(request(s)->by_network, 1);
	assert_int_equal(reduce(s, HD_DTYPE_FP32, HD_REDUCE_OP_SUM), 2);
	assert_int_equal(request(s)->round, 2);
	assert_int_equal(request(s)->by_network, 1);
	assert_int_equal(memory.stopped, 0);
	close_scene(s);
}

static void test_cannot_begin(void **state) {
	struct scene *s = open_shared();

	(void)state;
	memory.begins = -ENOSPC;
	assert_int_equal(reduce(s, HD_DTYPE_FP32, HD_REDUCE_OP_SUM), 1);
	reduce_shared(s, 1, 0);
	assert_int_equal(request(s)->attempt, 2);
	assert_int_equal(request(s)->by_network, 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	close_scene(s);
}

/* A round whose root is no member is none. */
static void test_no_root(void **state) {
	struct scene *s = open_shared();
	struct hd_reduce_args args = {
		.collective = HD_COLLECTIVE_BROADCAST,
		.root = 1,
		.out = s->out,
		.values = VALUES,
	};

	(void)state;
	assert_int_equal(call(s, args), 1);
	reduce_shared(s, 1, 0);
	assert_int_equal(memory.begun, 0);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	close_scene(s);
}

/* As long as something moves it waits; then that round goes by the network. */
static void test_stall(void **state) {
	struct scene *s = begin_round();

	(void)state;
	for (int k = 0; k < 8; k++) {
		memory.steps++;
		run_ms(s->world, HD_STALL_US / 1000 / 2);
	}
	assert_int_equal(request(s)->attempt, 1);
	run_ms(s->world, HD_STALL_US / 1000 * 2);
	assert_int_equal(memory.stopped, 1);
	assert_int_equal(request(s)->attempt, 2);
	assert_int_equal(request(s)->by_network, 1);
	close_scene(s);
}

/* The buffers are the caller's again when the core ends a round that goes on. */
static void test_end(void **state) {
	struct scene *s = begin_round();

	(void)state;
	memory.complete = true;
	send_drop(s, 1, 1, HD_REASON_LATE, 1);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(memory.stopped, 1);
	end_shared(s, 0); /* a report that crosses makes no difference */
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	close_scene(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result),
		cmocka_unit_test(test_void),
		cmocka_unit_test(test_no_result),
		cmocka_unit_test(test_cannot_begin),
		cmocka_unit_test(test_stall),
		cmocka_unit_test(test_no_root),
		cmocka_unit_test(test_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
