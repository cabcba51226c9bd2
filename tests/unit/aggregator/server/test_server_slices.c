/* SPDX-License-Identifier: BSD-3-Clause */
/* Big updates: applied a slice a call, packets in between, and no reader sees half of one. */
#include "hd_kernels.h"
#include "server_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 30001
#define BYTES (VALUES * sizeof(float))
#define SLICE 1000
#define SLICES ((VALUES + SLICE - 1) / SLICE)

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *one, *two;
	hd_version base;
	float g[VALUES], w[VALUES], h[VALUES], got[VALUES];
};

static int setup(void **state) {
	struct fixture *f = calloc(1, sizeof *f);

	net_open(&f->net);
	f->config.apply_values = SLICE;
	net_server(&f->net, &f->config);
	spec_make(&f->spec, f->tensors, VALUES);
	f->one = fake_worker(&f->net, 0);
	f->two = fake_worker(&f->net, 1);
	f->base = fake_joined(f->one, &f->spec)->version;
	fake_joined(f->two, &f->spec);
	hd_jobspec_initialize(&f->spec, f->w);
	for (size_t i = 0; i < VALUES; i++)
		f->g[i] = (float)(i % 97) * 0.01F - 0.3F;
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct fixture *f = *state;

	fake_close(f->one);
	fake_close(f->two);
	net_close(&f->net);
	free(f);
	return 0;
}

static const float *model(struct fixture *f) {
	uint64_t values;

	return hd_server_model(f->net.server, f->one->job, &values);
}

static bool is_half_applied(void *what) {
	return !model(what);
}

static bool is_applied(void *what) {
	return model(what);
}

static bool is_pulled(void *what) {
	return ((struct fake *)what)->pulled_done;
}

static void tick(struct fixture *f) {
	hd_server_ops.tick(f->net.server, f->net.now, &f->net.server_node.sink);
}

static void apply(struct fixture *f) {
	const struct hd_sgd sgd = {f->spec.learning_rate, f->spec.momentum, f->spec.weight_decay};

	hd_sgd_apply_scalar(f->w, f->h, f->g, VALUES, &sgd);
}

/* Sends an update up to the moment at which its first step has been made. */
static void begin(struct fixture *f, uint32_t round, hd_version base) {
	size_t grants = fake_count(f->one, HD_MSG_GRANT);

	fake_request_push(f->one, round, 1, base, BYTES);
	fake_push(
		f->one, fake_wait(f->one, HD_MSG_GRANT, grants)->grant.token, round, 1, f->g, VALUES
	);
	net_run_until(&f->net, is_half_applied, f, HD_SECOND);
}

static void test_one_step_a_tick(void **state) {
	struct fixture *f = *state;
	const struct hd_server_stats *stats = hd_server_stats(f->net.server);
	const hd_ns *now = &f->net.now;
	uint64_t begun;

	begin(f, 1, f->base);
	begun = stats->steps;
	assert_in_range(
		begun, 1, 2
	); /* in the call that took the last chunk, and the tick after it */
	/* Packets come first: they are taken, and the update does not go on meanwhile. */
	hd_server_ops.receive(f->net.server, *now, NULL, 0, &f->net.server_node.sink);
	assert_int_equal(stats->steps, begun);
	for (uint64_t step = begun + 1; step < SLICES; step++) {
		assert_int_equal(hd_server_ops.deadline(f->net.server), 0);
		tick(f);
		assert_int_equal(stats->steps, step);
		assert_null(model(f));
		assert_null(hd_server_momentum(f->net.server, f->one->job));
		assert_int_equal(hd_server_version(f->net.server, f->one->job), f->base);
		assert_int_equal(net_events(&f->net, HD_EVENT_COMMITTED), 0);
	}
	tick(f);
	assert_int_equal(stats->steps, SLICES);
	assert_int_equal(net_events(&f->net, HD_EVENT_COMMITTED), 1);
	assert_int_equal(hd_server_version(f->net.server, f->one->job), f->base + 1);
	assert_true(hd_server_ops.deadline(f->net.server) > *now);
	apply(f);
	assert_memory_equal(model(f), f->w, BYTES);
	assert_memory_equal(hd_server_momentum(f->net.server, f->one->job), f->h, BYTES);
	assert_int_equal(fake_outcome(f->one, 1)->outcome, HD_OUTCOME_APPLIED);
}

static bool lose_chunks_to_two(struct net *net, const struct net_packet *packet) {
	return packet->to.ipv4 == 0x0a000101 && packet->bytes > 1000;
}

/* A pull that is requested meanwhile gets the whole new version; a pull of the old version goes on with it. */
static void test_pulls_see_whole_versions(void **state) {
	struct fixture *f = *state;
	const struct hd_server_stats *stats = hd_server_stats(f->net.server);

	begin(f, 1, f->base);
	fake_pull_into(f->two, f->got, VALUES, 1);
	fake_request_pull(f->two, 1, 0, false);
	while (stats->pulls == 0) { /* its request arrives between two steps */
		f->net.now = f->net.packets[f->net.first].at;
		net_deliver_one(&f->net);
	}
	assert_null(model(f));
	assert_int_equal(stats->snapshots, 0);
	net_run_until(&f->net, is_pulled, f->two, HD_SECOND);
	apply(f);
	assert_false(f->two->mixed);
	assert_int_equal(f->two->pulled_version, f->base + 1);
	assert_memory_equal(f->got, f->w, BYTES);

	/* Pinned before, by a reader to whom nothing comes through: the step goes into a copy. */
	fake_pull_into(f->two, f->got, VALUES, 2);
	fake_request_pull(f->two, 2, 0, false);
	f->net.lose = lose_chunks_to_two;
	fake_wait(f->two, HD_MSG_PULL_STATE, 1);
	begin(f, 2, f->base + 1);
	net_run_until(&f->net, is_applied, f, HD_SECOND);
	f->net.lose = NULL;
	assert_int_equal(hd_server_version(f->net.server, f->one->job), f->base + 2);
	assert_int_equal(stats->copies, 1);
	net_run_until(&f->net, is_pulled, f->two, 2 * HD_SECOND);
	assert_false(f->two->mixed);
	assert_int_equal(f->two->pulled_version, f->base + 1);
	assert_memory_equal(f->got, f->w, BYTES);
	apply(f);
	assert_memory_equal(model(f), f->w, BYTES);
}

/* The end comes in the middle: the update that was begun is finished, nothing else is. */
static void test_drains_in_the_middle(void **state) {
	struct fixture *f = *state;
	struct hd_sink *sink = &f->net.server_node.sink;
	uint64_t calls = 0;

	begin(f, 1, f->base);
	calls = hd_server_stats(f->net.server)->steps;
	while (!hd_server_drain(f->net.server, f->net.now, sink)) {
		tick(f);
		calls++;
	}
	assert_int_equal(calls, SLICES);
	apply(f);
	assert_memory_equal(model(f), f->w, BYTES);
	assert_int_equal(hd_server_version(f->net.server, f->one->job), f->base + 1);
}

/* And in the middle of one with copies: nothing leaks (a sanitizer's word). */
static void test_destroyed_in_the_middle(void **state) {
	struct fixture *f = *state;

	fake_pull_into(f->two, f->got, VALUES, 1);
	fake_request_pull(f->two, 1, 0, false);
	begin(f, 1, f->base);
	assert_null(model(f));
}

/* Two jobs with big updates: neither waits for the end of the other's. */
static void test_jobs_take_turns(void **state) {
	struct fixture *f = *state;
	struct fake *other = fake_worker(&f->net, 7);
	hd_version base;
	uint64_t values, token;

	hd_text_copy(f->spec.name, sizeof f->spec.name, "other");
	base = fake_joined(other, &f->spec)->version;
	fake_request_push(other, 1, 1, base, BYTES);
	token = fake_wait(other, HD_MSG_GRANT, 0)->grant.token;
	begin(f, 1, f->base);
	fake_push(other, token, 1, 1, f->g, VALUES);
	assert_int_equal(fake_outcome(other, 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(fake_outcome(f->one, 1)->outcome, HD_OUTCOME_APPLIED);
	apply(f);
	assert_memory_equal(model(f), f->w, BYTES);
	assert_non_null(hd_server_model(f->net.server, other->job, &values));
	assert_int_equal(hd_server_stats(f->net.server)->steps, 2 * SLICES);
	fake_close(other);
}

/* A NaN ends the transfer when its chunk comes, not when everything has come. */
static void test_not_finite_ends_at_once(void **state) {
	struct fixture *f = *state;
	uint64_t bytes;

	f->g[3] = INFINITY;
	f->one->granted_bps = UINT64_C(100000000); /* 9.6 ms for all of it */
	assert_int_equal(
		fake_push_direct(f->one, 1, f->base, f->g, VALUES)->reason, HD_REASON_NOT_FINITE
	);
	bytes = hd_server_stats(f->net.server)->chunk_bytes;
	assert_true(bytes > 0 && bytes < BYTES / 2);
	assert_memory_equal(model(f), f->w, BYTES);
	assert_int_equal(net_events(&f->net, HD_EVENT_RECV_END), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_step_a_tick, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pulls_see_whole_versions, setup, teardown),
		cmocka_unit_test_setup_teardown(test_drains_in_the_middle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_destroyed_in_the_middle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_jobs_take_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_finite_ends_at_once, setup, teardown),
	};

	return cmocka_run_group_tests_name("server-slices", tests, NULL, NULL);
}
