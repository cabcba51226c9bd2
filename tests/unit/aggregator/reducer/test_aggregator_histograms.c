/* SPDX-License-Identifier: BSD-3-Clause */
/* The aggregator's histograms: how long members take to begin, a sum to be collected, and receivers to have it. */
#include "aggregator_net.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 60000
#define BYTES (VALUES * sizeof(float))
#define GROUP 0x51
#define SUM_TOKEN 0x900

static float update[VALUES];

/* How many values there are; in ms the least and the greatest that they can be, by their buckets. */
struct seen {
	json_int_t count;
	double above, most;
};

static json_t *shown(const struct world *world, const char *filter) {
	const char *error = NULL;
	char *text = hd_aggregator_table(
		world->aggregator, world->net.now, "histograms", filter, &error
	);
	json_t *document;

	assert_non_null(text);
	document = json_loads(text, 0, NULL);
	assert_non_null(document);
	free(text);
	return document;
}

static struct seen look(const struct world *world, const char *histogram, const char *of) {
	struct seen seen = {0, -1, 0};
	char filter[64];
	json_t *document, *bucket;
	const json_t *row;
	json_int_t before = 0;
	double below = 0;
	size_t index;

	(void)snprintf(filter, sizeof filter, "histogram=%s of=%s", histogram, of);
	document = shown(world, filter);
	assert_int_equal(json_array_size(json_object_get(document, "rows")), 1);
	row = json_array_get(json_object_get(document, "rows"), 0);
	json_array_foreach(json_object_get(row, "buckets"), index, bucket) {
		const json_t *bound = json_object_get(bucket, "le");
		const json_int_t count = json_integer_value(json_object_get(bucket, "count"));
		const double le = json_is_null(bound) ? 1e9 : json_real_value(bound);

		if (count > before && seen.above < 0)
			seen.above = below;
		if (count > before)
			seen.most = le;
		before = count;
		below = le;
	}
	seen.count = json_integer_value(json_object_get(row, "count"));
	assert_int_equal(seen.count, before);
	json_decref(document);
	return seen;
}

static void
expect(const struct world *world,
       const char *histogram,
       const char *of,
       json_int_t count,
       double above,
       double most) {
	const struct seen seen = look(world, histogram, of);

	if (seen.count != count || seen.above < above || seen.most > most)
		fail_msg(
			"%s of a %s: %lld within %g to %g ms, not %lld within %g to %g",
			histogram,
			of,
			(long long)seen.count,
			seen.above,
			seen.most,
			(long long)count,
			above,
			most
		);
}

/* One member comes 30 ms after the group's word, the other 300 ms: both waits, and that of the sum. */
static void test_sum(void **state) {
	struct world *world = world_open(2, NULL);
	struct plan plan;

	(void)state;
	expect(world, "first_chunk", "sum", 0, -1, 0);
	plan_make(&plan, GROUP, 2, BYTES);
	plan_to(&plan, world->server, SUM_TOKEN);
	end_expect(world->server, SUM_TOKEN, BYTES);
	plan_send(world, &plan);
	world_run(world, 30 * HD_MS);
	plan_push(world, &plan, 0, update);
	world_run(world, 270 * HD_MS);
	expect(world, "first_chunk", "sum", 1, 20, 50);
	expect(world, "collected", "sum", 0, -1, 0);
	plan_push(world, &plan, 1, update);
	world_run(world, HD_SECOND);
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	expect(world, "first_chunk", "sum", 2, 20, 500);
	expect(world, "collected", "sum", 1, 200, 500);
	expect(world, "passed_on", "sum", 1, 0, 100);
	assert_int_equal(look(world, "first_chunk", "relay").count, 0);
	assert_int_equal(look(world, "passed_on", "relay").count, 0);
	world_close(world);
}

/* Of a relayed model each receiver counts; one that comes 400 ms later has it so much later. */
static void test_relay(void **state) {
	struct hd_message message = {.kind = HD_MSG_PULL_STATE};
	struct hd_chunk_header header = {
		.job = JOB,
		.worker = HD_GROUP_WORKER,
		.round = 5,
		.attempt = 1,
		.version = hd_version_make(1, 12),
	};
	struct world *world = world_open(2, NULL);
	struct plan plan;
	struct end *late;

	(void)state;
	plan_make(&plan, GROUP, 1, BYTES);
	plan.inputs[0].worker = HD_GROUP_WORKER;
	plan.message.peer_ipv4 = SERVER_IP;
	plan.message.peer_port = HD_PORT;
	for (uint32_t i = 0; i < 2; i++) {
		plan_to(&plan, world->worker[i], 0x700 + i);
		end_expect(world->worker[i], 0x700 + i, BYTES);
	}
	late = end_open(world, HD_ROLE_WORKER, WORKER_IP + 8);
	late->rank = 8;
	plan_to(&plan, late, 0x708);
	end_expect(late, 0x708, BYTES);
	plan_send(world, &plan);
	world_run(world, 50 * HD_MS);
	message.pull_state = (struct hd_msg_pull_state){
		.job = JOB,
		.worker = HD_GROUP_WORKER,
		.round = 5,
		.attempt = 1,
		.token = plan.inputs[0].token,
		.version = hd_version_make(1, 12),
		.bytes = BYTES,
	};
	end_send_message(world->server, &message);
	world_run(world, HD_MS);
	header.token = plan.inputs[0].token;
	end_send(world->server, &header, update, BYTES);
	world_run(world, 400 * HD_MS);
	expect(world, "first_chunk", "relay", 1, 50, 100);
	expect(world, "collected", "relay", 1, 50, 500);
	expect(world, "passed_on", "relay", 2, 0, 200);
	world->worker[world->workers++] = late;
	end_connect(world, late);
	world_run(world, HD_SECOND);
	assert_int_equal(world_stats(world)->outputs_delivered, 3);
	expect(world, "passed_on", "relay", 3, 0, 1000);
	assert_true(look(world, "passed_on", "relay").most > 200);
	assert_int_equal(look(world, "collected", "sum").count, 0);
	world_close(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_relay),
	};

	return cmocka_run_group_tests_name("aggregator-histograms", tests, NULL, NULL);
}
