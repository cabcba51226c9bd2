/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's histograms: how long granted pushes take to begin, how late updates are applied, how long pulls take. */
#include "server_net.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 3000
#define BYTES (VALUES * sizeof(float))
#define WORKERS 3
#define TOKEN 0x1000

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *controller, *worker[WORKERS];
	hd_version base;
	float g[VALUES], got[VALUES];
};

static bool is_registered(void *what) {
	return fake_count(what, HD_MSG_REGISTER) > 0;
}

/* memory_bytes: 0 the usual */
static struct fixture *open_fixture(uint8_t sync, uint64_t memory_bytes) {
	struct fixture *f = calloc(1, sizeof *f);

	net_open(&f->net);
	spec_make(&f->spec, f->tensors, VALUES);
	f->spec.tau_max = 3;
	f->spec.sync = sync;
	f->config.memory_bytes = memory_bytes;
	f->controller = fake_controller(&f->net, 3);
	f->config.controller = f->controller->node.addr;
	net_server(&f->net, &f->config);
	net_run_until(&f->net, is_registered, f->controller, HD_SECOND);
	for (uint16_t i = 0; i < WORKERS; i++) {
		f->worker[i] = fake_worker(&f->net, i);
		f->base = fake_joined(f->worker[i], &f->spec)->version;
	}
	net_run(&f->net, HD_MS);
	return f;
}

static void close_fixture(struct fixture *f) {
	for (uint16_t i = 0; i < WORKERS; i++)
		fake_close(f->worker[i]);
	fake_close(f->controller);
	net_close(&f->net);
	free(f);
}

/* Expected, and sent only so much later; waits until it is committed. */
static void push(struct fixture *f, uint16_t worker, uint64_t position, hd_ns later) {
	const uint32_t round = (uint32_t)position;
	const struct hd_msg_expect message = {
		.job = f->worker[0]->job,
		.worker = worker,
		.round = round,
		.attempt = 1,
		.epoch = 3,
		.token = TOKEN + position,
		.position = position,
		.base = f->base,
		.bytes = BYTES,
		.weight = 1,
	};

	fake_expect(f->controller, &message);
	net_run(&f->net, later);
	fake_push(f->worker[worker], message.token, round, 1, f->g, VALUES);
	(void)fake_outcome(f->worker[worker], round);
}

static json_t *show(struct fixture *f, const char *filter) {
	const char *error = NULL;
	char *text = hd_server_table(f->net.server, f->net.now, "histograms", filter, &error);
	json_t *document;

	assert_non_null(text);
	document = json_loads(text, 0, NULL);
	assert_non_null(document);
	free(text);
	return document;
}

/* Values that are above one bound and not above the other, in the unit of the table. */
static json_int_t between(struct fixture *f, const char *filter, double above, double most) {
	json_t *document = show(f, filter), *bucket;
	const json_t *row = json_array_get(json_object_get(document, "rows"), 0);
	json_int_t found = 0, before = 0;
	size_t index;

	assert_int_equal(json_array_size(json_object_get(document, "rows")), 1);
	json_array_foreach(json_object_get(row, "buckets"), index, bucket) {
		const json_t *bound = json_object_get(bucket, "le");
		const json_int_t count = json_integer_value(json_object_get(bucket, "count"));
		const double le = json_is_null(bound) ? 1e9 : json_real_value(bound);

		assert_true(count >= before);
		if (le > above * 1.001 && le <= most * 1.001)
			found += count - before;
		before = count;
	}
	assert_int_equal(json_integer_value(json_object_get(row, "count")), before);
	json_decref(document);
	return found;
}

static json_int_t all(struct fixture *f, const char *filter) {
	json_t *document = show(f, filter);
	const json_t *row = json_array_get(json_object_get(document, "rows"), 0);
	const json_int_t count = json_integer_value(json_object_get(row, "count"));

	json_decref(document);
	return count;
}

#define FIRST_CHUNK "histogram=first_chunk"
#define STALENESS "histogram=staleness"
#define PULL "histogram=pull"

static void test_pushes(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_NONE, 0);
	const struct hd_server_stats *stats = hd_server_stats(f->net.server);

	(void)state;
	assert_int_equal(all(f, FIRST_CHUNK) + all(f, STALENESS) + all(f, PULL), 0);
	push(f, 0, 1, 3 * HD_MS);
	assert_int_equal(between(f, FIRST_CHUNK, 2, 5), 1);
	push(f, 1, 2, 30 * HD_MS);
	assert_int_equal(between(f, FIRST_CHUNK, 20, 50), 1);
	push(f, 0, 3, 3 * HD_MS);
	/* All on the first version, of which a fourth is too late: it is never told to come. */
	assert_int_equal(between(f, STALENESS, 0, 1), 1);
	assert_int_equal(between(f, STALENESS, 1, 2), 1);
	assert_int_equal(between(f, STALENESS, 2, 4), 1);
	push(f, 1, 4, 3 * HD_MS);
	assert_int_equal(stats->committed, 3);
	assert_int_equal(all(f, STALENESS), 3);
	assert_int_equal(all(f, FIRST_CHUNK), 3);
	/* Granted here: from then on, there and back. */
	f->base = hd_server_version(f->net.server, f->worker[0]->job);
	fake_push_direct(f->worker[0], 20, f->base, f->g, VALUES);
	assert_int_equal(between(f, FIRST_CHUNK, 0.1, 0.5), 1);
	assert_int_equal(between(f, STALENESS, 0, 1), 2);
	assert_int_equal(all(f, FIRST_CHUNK), stats->expected + stats->granted);
	close_fixture(f);
}

/* A push that waits for memory is not granted yet: that is no wait for a chunk. */
static void test_starved(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_NONE, 4 * (BYTES + 64)); /* two updates */

	(void)state;
	for (uint16_t i = 0; i < WORKERS; i++)
		fake_request_push(f->worker[i], 1, 1, f->base, BYTES);
	net_run(&f->net, 60 * HD_MS);
	assert_int_equal(fake_count(f->worker[2], HD_MSG_GRANT), 0);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct hd_msg_grant *grant = &fake_wait(f->worker[i], HD_MSG_GRANT, 0)->grant;

		fake_push(f->worker[i], grant->token, 1, 1, f->g, VALUES);
		assert_int_equal(fake_outcome(f->worker[i], 1)->outcome, HD_OUTCOME_APPLIED);
	}
	assert_int_equal(between(f, FIRST_CHUNK, 50, 100), 2);
	assert_int_equal(between(f, FIRST_CHUNK, 0, 5), 1);
	close_fixture(f);
}

/* The time when a credit will be spent is unknown: that is no wait. */
static void test_credit(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_NONE, 0);
	struct hd_message m = {.kind = HD_MSG_CREDIT};

	(void)state;
	m.credit = (struct hd_msg_credit){
		.job = f->worker[0]->job,
		.round = 1,
		.attempt = 1,
		.epoch = 3,
		.token = TOKEN,
		.position = 1,
		.weight = 1,
		.bytes = BYTES,
		.expires_us = 100000,
	};
	f->worker[0]->base = f->base;
	f->worker[0]->total = BYTES;
	fake_send(f->controller, &m);
	net_run(&f->net, 10 * HD_MS);
	fake_push(f->worker[0], TOKEN, 1, 1, f->g, VALUES);
	assert_int_equal(fake_outcome(f->worker[0], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(hd_server_stats(f->net.server)->credits_spent, 1);
	assert_int_equal(all(f, FIRST_CHUNK), 0);
	assert_int_equal(all(f, STALENESS), 1);
	close_fixture(f);
}

/* In a synchronous step no worker is late. */
static void test_step(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_ALL, 0);
	const struct hd_server_stats *stats = hd_server_stats(f->net.server);

	(void)state;
	for (uint16_t i = 0; i < WORKERS; i++)
		fake_request_push(f->worker[i], 1, 1, f->base, BYTES);
	for (uint16_t i = 0; i < WORKERS; i++) {
		const struct hd_msg_grant *grant = &fake_wait(f->worker[i], HD_MSG_GRANT, 0)->grant;

		fake_push(f->worker[i], grant->token, 1, 1, f->g, VALUES);
	}
	assert_int_equal(fake_outcome(f->worker[0], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(stats->committed, WORKERS);
	assert_int_equal(all(f, FIRST_CHUNK), WORKERS);
	assert_int_equal(all(f, STALENESS), 0);
	close_fixture(f);
}

static bool is_delivered(void *fixture) {
	return hd_server_stats(((const struct fixture *)fixture)->net.server)->pulls_delivered > 0;
}

static void test_pulls(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_NONE, 0);
	const struct hd_server_stats *stats = hd_server_stats(f->net.server);

	(void)state;
	fake_pull_into(f->worker[0], f->got, VALUES, 1);
	fake_request_pull(f->worker[0], 1, 0, false);
	net_run_until(&f->net, is_delivered, f, HD_SECOND);
	/* Its last chunk has been there, and the word that it was: 0.1 ms each way. */
	assert_int_equal(between(f, PULL, 0.1, 50), 1);
	/* Nothing newer is no pull. */
	fake_request_pull(f->worker[0], 2, f->base, true);
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(stats->pulls_not_modified, 1);
	assert_int_equal(all(f, PULL), stats->pulls_delivered);
	close_fixture(f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pushes),
		cmocka_unit_test(test_starved),
		cmocka_unit_test(test_credit),
		cmocka_unit_test(test_step),
		cmocka_unit_test(test_pulls),
	};

	return cmocka_run_group_tests_name("server-histograms", tests, NULL, NULL);
}
