/* SPDX-License-Identifier: BSD-3-Clause */
/* Pulls: one version bit for bit, shared snapshots, limits, conditional pulls, chains. */
#include "hd_kernels.h"
#include "server_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES UINT64_C(30000)
#define BYTES (VALUES * sizeof(float))
#define WORKERS_MAX 20

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *controller, *worker[WORKERS_MAX];
	uint16_t workers;
	hd_version base;
	uint32_t round;
	float g[VALUES];
	float history[64][VALUES]; /* the model at each version counter */
	float got[WORKERS_MAX][VALUES];
};

static bool is_registered(void *what) {
	return fake_count(what, HD_MSG_REGISTER) > 0;
}

static void remember(struct fixture *f) {
	uint64_t values;
	uint32_t job = f->worker[0]->job;
	uint64_t counter = hd_version_counter(hd_server_version(f->net.server, job));

	memcpy(f->history[counter], hd_server_model(f->net.server, job, &values), BYTES);
}

static struct fixture *open_fixture(uint16_t workers, uint64_t memory, bool controlled) {
	struct fixture *f = calloc(1, sizeof *f);

	net_open(&f->net);
	spec_make(&f->spec, f->tensors, VALUES);
	f->spec.tau_max = 60;
	f->workers = workers;
	f->config.memory_bytes = memory;
	if (controlled) {
		f->controller = fake_controller(&f->net, 3);
		f->config.controller = f->controller->node.addr;
	}
	net_server(&f->net, &f->config);
	if (controlled)
		net_run_until(&f->net, is_registered, f->controller, HD_SECOND);
	for (uint16_t i = 0; i < workers; i++) {
		f->worker[i] = fake_worker(&f->net, i);
		f->base = fake_joined(f->worker[i], &f->spec)->version;
	}
	remember(f);
	return f;
}

static void close_fixture(struct fixture *f) {
	for (uint16_t i = 0; i < f->workers; i++)
		fake_close(f->worker[i]);
	if (f->controller)
		fake_close(f->controller);
	net_close(&f->net);
	free(f);
}

/* One more version. */
static void commit(struct fixture *f) {
	f->round++;
	for (size_t i = 0; i < VALUES; i++)
		f->g[i] = (float)((i * 7 + (size_t)f->round * 13) % 101) * 0.01F;
	assert_int_equal(
		fake_push_direct(f->worker[0], f->round, f->base, f->g, VALUES)->outcome,
		HD_OUTCOME_APPLIED
	);
	remember(f);
}

static bool is_pulled(void *what) {
	return ((struct fake *)what)->pulled_done;
}

static void assert_pulled(struct fixture *f, uint16_t worker, uint64_t counter) {
	const struct fake *fake = f->worker[worker];

	assert_true(fake->pulled_done);
	assert_false(fake->mixed);
	assert_int_equal(hd_version_counter(fake->pulled_version), counter);
	assert_memory_equal(f->got[worker], f->history[counter], BYTES);
}

static void ask(struct fixture *f, uint16_t worker, uint32_t round) {
	fake_pull_into(f->worker[worker], f->got[worker], VALUES, round);
	fake_request_pull(f->worker[worker], round, 0, false);
}

static bool lose_some(struct net *net, const struct net_packet *packet) {
	return net->sent % 11 == 5;
}

static void test_direct_pull_under_loss(void **state) {
	struct fixture *f = open_fixture(2, 0, false);
	const struct hd_msg_pull_state *pull;

	commit(f);
	f->net.lose = lose_some;
	ask(f, 1, 1);
	net_run_until(&f->net, is_pulled, f->worker[1], 5 * HD_SECOND);
	assert_pulled(f, 1, 1);
	pull = &fake_wait(f->worker[1], HD_MSG_PULL_STATE, 0)->pull_state;
	assert_int_equal(pull->reason, HD_REASON_NONE);
	assert_int_equal(pull->bytes, BYTES);
	assert_int_equal(pull->version, f->base + 1);
	net_run(&f->net, HD_SECOND);
	assert_int_equal(hd_server_stats(f->net.server)->pulls_delivered, 1);
	assert_int_equal(net_events(&f->net, HD_EVENT_SEND_END), 1);
	close_fixture(f);
}

static void test_conditional(void **state) {
	struct fixture *f = open_fixture(2, 0, false);

	commit(f);
	fake_pull_into(f->worker[1], f->got[1], VALUES, 1);
	fake_request_pull(f->worker[1], 1, f->base + 1, true);
	assert_int_equal(
		fake_wait(f->worker[1], HD_MSG_PULL_STATE, 0)->pull_state.reason,
		HD_REASON_NOT_MODIFIED
	);
	net_run(&f->net, 50 * HD_MS);
	assert_int_equal(net_events(&f->net, HD_EVENT_SEND_START), 0);
	fake_pull_into(f->worker[1], f->got[1], VALUES, 2);
	fake_request_pull(f->worker[1], 2, f->base, true);
	net_run_until(&f->net, is_pulled, f->worker[1], HD_SECOND);
	assert_pulled(f, 1, 1);
	/* A worker's version from another history is never "not modified". */
	fake_pull_into(f->worker[1], f->got[1], VALUES, 3);
	fake_request_pull(f->worker[1], 3, f->base + 1 + (UINT64_C(1) << 48), true);
	net_run_until(&f->net, is_pulled, f->worker[1], HD_SECOND);
	assert_pulled(f, 1, 1);
	close_fixture(f);
}

/* Commits go on while a pull is in flight: it stays the version that it started with. */
static void test_a_pull_is_one_version(void **state) {
	struct fixture *f = open_fixture(4, 0, false);
	const struct hd_server_stats *stats = hd_server_stats(f->net.server);

	for (uint16_t i = 1; i < 4; i++) {
		f->worker[i]->node.down = false;
		ask(f, i, 1);
	}
	net_run(&f->net, 250 * HD_US); /* begun, not ended */
	assert_int_equal(stats->snapshots, 1); /* all three share it */
	for (uint16_t i = 1; i < 4; i++)
		f->worker[i]->node.down = true;
	for (int i = 0; i < 3; i++)
		commit(f);
	assert_int_equal(stats->copies, 1);
	for (uint16_t i = 1; i < 4; i++)
		f->worker[i]->node.down = false;
	for (uint16_t i = 1; i < 4; i++) {
		net_run_until(&f->net, is_pulled, f->worker[i], 5 * HD_SECOND);
		assert_pulled(f, i, 0);
	}
	ask(f, 1, 2);
	net_run_until(&f->net, is_pulled, f->worker[1], HD_SECOND);
	assert_pulled(f, 1, 3);
	net_run(&f->net, HD_SECOND);
	assert_int_equal(stats->pulls_delivered, 4);
	commit(f); /* no reader: no copy */
	assert_int_equal(stats->copies, 1);
	close_fixture(f);
}

static bool lose_chunks_to_workers(struct net *net, const struct net_packet *packet) {
	/* A full data packet from the server: pulls begin, and do not end. */
	return packet->from.ipv4 == SERVER_IP && packet->bytes > HD_CHUNK_BYTES_DEFAULT;
}

/* More versions in demand than may be pinned: the newest pinned one serves. */
static void test_at_most_so_many_snapshots(void **state) {
	struct fixture *f = open_fixture(HD_SNAPSHOTS_MAX + 3, 0, false);
	const struct hd_server_stats *stats = hd_server_stats(f->net.server);

	f->net.lose = lose_chunks_to_workers;
	for (uint16_t i = 1; i < f->workers; i++) {
		ask(f, i, 1);
		net_run(&f->net, 250 * HD_US);
		if (i < f->workers - 1)
			commit(f);
	}
	assert_int_equal(stats->snapshots, HD_SNAPSHOTS_MAX);
	assert_int_equal(stats->pulls_older, 2);
	f->net.lose = NULL;
	for (uint16_t i = 1; i < f->workers; i++) {
		uint64_t counter = i <= HD_SNAPSHOTS_MAX ? i - 1U : HD_SNAPSHOTS_MAX - 1U;

		net_run_until(&f->net, is_pulled, f->worker[i], 5 * HD_SECOND);
		assert_pulled(f, i, counter);
	}
	close_fixture(f);
}

/* No memory for another version: who has the pinned one already waits, then gets a newer one. */
static void test_pulls_wait_for_memory(void **state) {
	struct fixture *f = open_fixture(3, 4 * (BYTES + 64), false);

	ask(f, 1, 1);
	net_run(&f->net, 250 * HD_US);
	f->worker[1]->node.down = true;
	commit(f); /* takes the last two buffers: the copy, the update */
	fake_request_push(f->worker[0], 50, 1, f->base, BYTES); /* keeps the last buffer */
	fake_wait(f->worker[0], HD_MSG_GRANT, 1);
	fake_pull_into(f->worker[2], f->got[2], VALUES, 1);
	fake_request_pull(f->worker[2], 1, f->base, true);
	net_run(&f->net, 100 * HD_MS);
	assert_int_equal(fake_count(f->worker[2], HD_MSG_PULL_STATE), 0);
	f->worker[1]->node.down = false;
	net_run_until(&f->net, is_pulled, f->worker[1], 5 * HD_SECOND);
	assert_pulled(f, 1, 0);
	net_run_until(&f->net, is_pulled, f->worker[2], 5 * HD_SECOND);
	assert_pulled(f, 2, 1);
	close_fixture(f);
}

static struct hd_message granted(const struct fixture *f, uint16_t worker, uint64_t token) {
	struct hd_message message = {.kind = HD_MSG_GRANT};

	message.grant = (struct hd_msg_grant){
		.job = f->worker[0]->job,
		.worker = worker,
		.round = 1,
		.direction = HD_PULL,
		.attempt = 1,
		.epoch = 3,
		.token = token,
		.cc_weight = 1,
		.peer_ipv4 = f->worker[worker]->node.addr.ipv4,
		.peer_port = f->worker[worker]->node.addr.port,
		.bytes = BYTES,
	};
	return message;
}

/* Granted: the second starts when the first is nearly through, and pins its version only then. */
static void test_a_chain_of_pulls(void **state) {
	struct fixture *f = open_fixture(3, 0, true);
	struct hd_message first = granted(f, 1, 0x51), second = granted(f, 2, 0x52);
	hd_ns ended;

	second.grant.after = 0x51;
	f->worker[1]->node.down = true;
	fake_pull_into(f->worker[1], f->got[1], VALUES, 1);
	fake_pull_into(f->worker[2], f->got[2], VALUES, 1);
	fake_send(f->controller, &first);
	fake_send(f->controller, &second);
	net_run(&f->net, 20 * HD_MS);
	assert_int_equal(net_events(&f->net, HD_EVENT_SNAPSHOT), 1);
	commit(f);
	f->worker[1]->node.down = false;
	net_run_until(&f->net, is_pulled, f->worker[1], 5 * HD_SECOND);
	assert_pulled(f, 1, 0);
	ended = f->net.now;
	net_run_until(&f->net, is_pulled, f->worker[2], 5 * HD_SECOND);
	assert_pulled(f, 2, 1);
	assert_true(net_event(&f->net, HD_EVENT_SNAPSHOT, 1)->at <= ended + HD_MS);
	close_fixture(f);
}

/* Segments name the moment; before it nothing is pinned. */
static void test_starts_by_the_clock(void **state) {
	struct fixture *f = open_fixture(2, 0, true);
	struct hd_message message = granted(f, 1, 0x51);
	hd_ns begin;

	net_run(&f->net, 2 * HD_SECOND); /* clocks are exchanged */
	begin = f->net.now;
	message.grant.origin_ns = begin;
	message.grant.segments.count = 1;
	message.grant.segments.item[0]
		= (struct hd_segment){50 * HD_MS, UINT64_C(100000000), BYTES};
	fake_pull_into(f->worker[1], f->got[1], VALUES, 1);
	fake_send(f->controller, &message);
	net_run_until(&f->net, is_pulled, f->worker[1], 5 * HD_SECOND);
	assert_pulled(f, 1, 0);
	assert_in_range(
		net_event(&f->net, HD_EVENT_SNAPSHOT, 0)->at, begin + 49 * HD_MS, begin + 52 * HD_MS
	);
	/* 120 kB at 100 Mbit/s, probing up to 1.25 of it: 7.7 ms at least. */
	assert_true(f->net.now >= begin + 57 * HD_MS);
	close_fixture(f);
}

static void test_refusals_cancel_and_death(void **state) {
	struct fixture *f = open_fixture(3, 0, true);
	struct hd_message old = granted(f, 1, 0x51), cancel = {.kind = HD_MSG_CANCEL};
	struct hd_message sack = {.kind = HD_MSG_SACK};
	const struct hd_server_stats *stats = hd_server_stats(f->net.server);

	old.grant.epoch = 2;
	fake_send(f->controller, &old);
	assert_int_equal(
		fake_wait(f->worker[1], HD_MSG_PULL_STATE, 0)->pull_state.reason, HD_REASON_EPOCH
	);
	fake_send(f->worker[1], &old); /* workers grant nothing */
	ask(f, 1, 2);
	net_run(&f->net, 250 * HD_US);
	assert_int_equal(stats->refused_messages, 2);
	f->worker[1]->node.down = true;
	net_run(&f->net, HD_MS);
	f->worker[1]->node.down = false;
	/* Another worker's acknowledgement of this pull is ignored. */
	sack.sack.token = fake_wait(f->worker[1], HD_MSG_PULL_STATE, 1)->pull_state.token;
	sack.sack.done = 1;
	sack.sack.held = 86;
	fake_send(f->worker[2], &sack);
	net_run(&f->net, 300 * HD_US);
	assert_int_equal(stats->pulls_delivered, 0);
	assert_int_equal(stats->refused_messages, 3);
	cancel.cancel = (struct hd_msg_cancel
	){.job = f->worker[1]->job, .worker = 1, .round = 2, .attempt = 1, .direction = HD_PULL};
	fake_send(f->worker[1], &cancel);
	net_run(&f->net, 100 * HD_MS);
	assert_int_equal(stats->pulls_failed, 1);
	assert_false(f->worker[1]->pulled_done);
	/* A worker that dies in the middle gives its snapshot back. */
	ask(f, 2, 3);
	net_run(&f->net, 250 * HD_US);
	fake_kill(f->worker[2]);
	f->workers = 2;
	net_run(&f->net, 4 * HD_SECOND);
	assert_int_equal(stats->pulls_failed, 2);
	commit(f);
	assert_int_equal(stats->copies, 0);
	close_fixture(f);
}

/* Several big pulls at once share the turns: they end close together. */
static void test_pulls_take_turns(void **state) {
	struct fixture *f = open_fixture(4, 0, false);
	hd_ns first, last;

	for (uint16_t i = 1; i < 4; i++)
		ask(f, i, 1);
	net_run_until(&f->net, is_pulled, f->worker[1], HD_SECOND);
	first = f->net.now;
	net_run_until(&f->net, is_pulled, f->worker[2], HD_SECOND);
	net_run_until(&f->net, is_pulled, f->worker[3], HD_SECOND);
	last = f->net.now;
	assert_true(last - first < 2 * HD_MS);
	close_fixture(f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_direct_pull_under_loss),
		cmocka_unit_test(test_conditional),
		cmocka_unit_test(test_a_pull_is_one_version),
		cmocka_unit_test(test_at_most_so_many_snapshots),
		cmocka_unit_test(test_pulls_wait_for_memory),
		cmocka_unit_test(test_a_chain_of_pulls),
		cmocka_unit_test(test_starts_by_the_clock),
		cmocka_unit_test(test_refusals_cancel_and_death),
		cmocka_unit_test(test_pulls_take_turns),
	};

	return cmocka_run_group_tests_name("server-pull", tests, NULL, NULL);
}
