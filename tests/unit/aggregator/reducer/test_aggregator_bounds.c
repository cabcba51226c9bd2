/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of an aggregator: memory that jobs share, hostile packets and messages, epochs; and its reports. */
#include "aggregator_net.h"
#include "hd_limits.h"
#include "hd_random.h"
#include "hd_reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 60000
#define BYTES (VALUES * sizeof(float))

static float update[WORLD_WORKERS_MAX][VALUES], sum[VALUES];

static void fill(uint32_t workers) {
	memset(sum, 0, sizeof sum);
	for (uint32_t w = 0; w < workers; w++)
		for (uint32_t i = 0; i < VALUES; i++) {
			update[w][i] = (float)((i * 31 + w * 17) % 1000);
			sum[i] += update[w][i];
		}
}

static void send_group(struct world *world, uint64_t group, uint32_t job, uint64_t bytes) {
	struct plan plan;

	plan_make(&plan, group, 2, bytes);
	plan.message.job = job;
	plan_to(&plan, world->server, group);
	plan_send(world, &plan);
}

static uint8_t refusal(const struct world *world, uint64_t group) {
	const struct hd_msg_report *report = end_report(world->controller, group);

	if (!report)
		return HD_REASON_NONE;
	assert_int_equal(report->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(report->worker, HD_GROUP_WORKER);
	return report->reason;
}

static struct hd_addr greeted;
static uint64_t hellos;

static bool count_hello(struct net *net, const struct net_packet *packet) {
	(void)net;
	hellos += hd_addr_equal(packet->to, greeted);
	return false;
}

/* Packets to this address in the next five seconds. */
static uint64_t greetings(struct world *world, struct hd_addr addr) {
	greeted = addr;
	hellos = 0;
	world->net.lose = count_hello;
	world_run(world, 5 * HD_SECOND);
	return hellos;
}

static void test_memory_is_shared(void **state) {
	struct hd_aggregator_config config = {.memory_bytes = 100 << 20, .early_bytes = 1 << 20};
	struct world *world = world_open(0, &config);
	struct hd_message message = {.kind = HD_MSG_VOID};
	struct end *other;

	(void)state;
	/* Alone, a job may have it all. */
	send_group(world, 1, JOB, 60 << 20);
	assert_int_equal(refusal(world, 1), HD_REASON_NONE);
	send_group(world, 2, JOB, 50 << 20);
	assert_int_equal(refusal(world, 2), HD_REASON_NO_MEMORY);
	send_group(world, 3, JOB, 20 << 20);
	assert_int_equal(refusal(world, 3), HD_REASON_NONE);
	/* Another one is here: what comes free of its half is kept for it. */
	other = end_open(world, HD_ROLE_WORKER, WORKER_IP + 50);
	world->worker[world->workers++] = other;
	end_connect(world, other);
	end_join(world, other, JOB + 1, 0);
	message.void_ = (struct hd_msg_void_){.job = JOB, .token = 1, .reason = HD_REASON_LEASE};
	end_send_message(world->controller, &message);
	world_run(world, 10 * HD_MS);
	assert_int_equal(world_stats(world)->groups_open, 1);
	send_group(world, 4, JOB, 40 << 20);
	assert_int_equal(refusal(world, 4), HD_REASON_NO_MEMORY);
	send_group(world, 5, JOB + 1, 40 << 20);
	assert_int_equal(refusal(world, 5), HD_REASON_NONE);
	send_group(world, 6, JOB, 20 << 20);
	assert_int_equal(refusal(world, 6), HD_REASON_NONE);
	send_group(world, 7, JOB + 1, 20 << 20); /* beyond its own */
	assert_int_equal(refusal(world, 7), HD_REASON_NO_MEMORY);
	assert_true(world_stats(world)->memory_bytes <= config.memory_bytes);
	assert_int_equal(world_stats(world)->jobs, 2);
	world_close(world);
}

/* The memory that a group of two updates of `bytes` each counts with. */
static uint64_t memory_of(uint64_t bytes, uint64_t early_bytes) {
	const struct hd_reduce_config config = {
		.order = HD_GROUP_RANKED,
		.bytes = bytes,
		.input_count = 2,
		.early_bytes = early_bytes,
	};

	return hd_reduce_memory_bytes(&config);
}

/* A controller that counts with what was told, by the same function, is never refused: neither for early chunks of
 * groups before, nor for buffers that are used again. */
static void test_memory_is_as_notified(void **state) {
	const uint64_t each = memory_of(BYTES, 0);
	struct hd_aggregator_config config = {
		.memory_bytes = 9 * each * 8 / 7,
		.early_bytes = 300000,
	};
	struct world *world = world_open(0, &config);
	uint64_t sent = end_message(world->controller, HD_MSG_REGISTER, 0)->register_.memory_bytes;
	struct hd_message message = {.kind = HD_MSG_VOID};
	uint64_t group = 0;

	(void)state;
	assert_true(sent >= 9 * each && sent < 10 * each);
	for (int times = 0; times < 2; times++) {
		while (group < 9U + 10U * times)
			send_group(world, ++group, JOB, BYTES);
		assert_int_equal(world_stats(world)->groups_open, 9);
		send_group(world, ++group, JOB, BYTES);
		assert_int_equal(refusal(world, group), HD_REASON_NO_MEMORY);
		assert_true(
			world_stats(world)->memory_bytes > 9 * each
		); /* some have early chunks */
		assert_true(world_stats(world)->memory_bytes <= config.memory_bytes);
		/* Others take their place, and their buffers. */
		for (uint64_t t = 1; times == 0 && t <= 9; t++) {
			message.void_ = (struct hd_msg_void_
			){.job = JOB, .token = t, .reason = HD_REASON_LEASE};
			end_send_message(world->controller, &message);
		}
		world_run(world, 10 * HD_MS);
	}
	world_close(world);
}

/* A group of two that goes to server and replica, of whom only the server takes it now. */
static void for_both(struct world *world, uint64_t group, bool taken) {
	struct plan plan;

	plan_make(&plan, group, 2, BYTES);
	plan_to(&plan, world->server, group);
	plan_to(&plan, world->replica, 0x1000 + group);
	if (taken)
		end_expect(world->server, group, BYTES);
	plan_send(world, &plan);
	for (uint32_t i = 0; i < 2; i++)
		plan_push(world, &plan, i, update[i]);
	world_run(world, 100 * HD_MS);
}

/* A sum that only a replica still needs gives way to the next group, the oldest first; one for the server does not. */
static void test_replicas_make_room(void **state) {
	const uint64_t each = memory_of(BYTES, 0);
	struct hd_aggregator_config config
		= {.memory_bytes = 2 * each * 8 / 7 + 64, .hold_us = 10000000};
	struct world *world = world_open(2, &config);

	(void)state;
	fill(2);
	for_both(world, 1, true);
	for_both(world, 2, true);
	assert_int_equal(world_stats(world)->groups_open, 2);
	assert_int_equal(end_voids(world->replica, 0x1001), 0);
	/* Not to one that would not fit without them either. */
	send_group(world, 9, JOB, 100 * BYTES);
	assert_int_equal(refusal(world, 9), HD_REASON_NO_MEMORY);
	assert_int_equal(world_stats(world)->groups_open, 2);
	for_both(world, 3, false);
	assert_int_equal(refusal(world, 3), HD_REASON_NONE);
	assert_int_equal(world_stats(world)->groups_open, 2);
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	assert_int_equal(end_voids(world->replica, 0x1001), 1);
	assert_int_equal(end_voids(world->replica, 0x1002), 0);
	assert_int_equal(refusal(world, 0x1001), HD_REASON_NO_MEMORY);
	send_group(world, 4, JOB, BYTES);
	assert_int_equal(refusal(world, 4), HD_REASON_NONE);
	assert_int_equal(refusal(world, 0x1002), HD_REASON_NO_MEMORY);
	/* Both that are left wait for the server. */
	send_group(world, 5, JOB, BYTES);
	assert_int_equal(refusal(world, 5), HD_REASON_NO_MEMORY);
	assert_int_equal(end_voids(world->replica, 0x1003), 0);
	assert_int_equal(world_stats(world)->groups_open, 2);
	assert_true(world_stats(world)->memory_bytes <= config.memory_bytes);
	world_close(world);
}

static void test_refuses_groups(void **state) {
	struct world *world = world_open(0, NULL);
	struct hd_message message = {.kind = HD_MSG_GROUP};
	struct plan good, bad;
	uint64_t group = 10;

	(void)state;
	plan_make(&good, 1, 2, BYTES);
	plan_to(&good, world->server, 1);
	plan_send(world, &good);
	assert_int_equal(world_stats(world)->groups, 1);
#define BAD(change, why)                                                                           \
	plan_make(&bad, ++group, 2, BYTES);                                                        \
	plan_to(&bad, world->server, group);                                                       \
	bad.change;                                                                                \
	plan_send(world, &bad);                                                                    \
	assert_int_equal(refusal(world, bad.message.group), why);
	BAD(message.epoch = 2, HD_REASON_EPOCH)
	BAD(message.dtype = HD_DTYPE_SPARSE32, HD_REASON_REFUSED)
	BAD(message.dtype = 200, HD_REASON_REFUSED)
	BAD(message.order = 7, HD_REASON_REFUSED)
	BAD(message.op = HD_REDUCE_OP_COUNT, HD_REASON_REFUSED)
	BAD(message.bytes = 0, HD_REASON_REFUSED)
	BAD(message.bytes = 3, HD_REASON_REFUSED)
	BAD(message.bytes = UINT64_MAX, HD_REASON_REFUSED)
	BAD(message.group = 0, HD_REASON_REFUSED)
	BAD(inputs[1].token = 0, HD_REASON_REFUSED)
	BAD(inputs[1].token = bad.inputs[0].token, HD_REASON_REFUSED)
	BAD(inputs[1].token = good.inputs[0].token, HD_REASON_REFUSED)
	BAD(outputs[0].token = 0, HD_REASON_REFUSED)
	BAD(outputs[0].port = 0, HD_REASON_REFUSED)
#undef BAD
	message.group = (struct hd_msg_group){.job = JOB, .group = 99, .epoch = 3, .bytes = 400};
	end_send_message(world->controller, &message); /* empty lists */
	world_run(world, HD_MS);
	assert_int_equal(refusal(world, 99), HD_REASON_REFUSED);
	assert_int_equal(world_stats(world)->groups, 1);
	assert_int_equal(world_stats(world)->groups_open, 1);
	assert_int_equal(world_stats(world)->groups_refused, 15);
	/* A newer epoch is the present one from here on; the older group goes on. */
	plan_make(&bad, 200, 2, BYTES);
	plan_to(&bad, world->server, 200);
	bad.message.epoch = 4;
	plan_send(world, &bad);
	assert_int_equal(world_stats(world)->groups_open, 2);
	plan_make(&bad, 201, 2, BYTES);
	plan_to(&bad, world->server, 201);
	plan_send(world, &bad);
	assert_int_equal(refusal(world, 201), HD_REASON_EPOCH);
	world_close(world);
}

/* A group in which nothing happens does not keep its memory. */
static void test_idle_group(void **state) {
	struct world *world = world_open(2, NULL);

	(void)state;
	send_group(world, 1, JOB, BYTES);
	world_run(world, 119 * HD_SECOND);
	assert_int_equal(world_stats(world)->groups_open, 1);
	world_run(world, 2 * HD_SECOND);
	assert_int_equal(refusal(world, 1), HD_REASON_TIMEOUT);
	assert_int_equal(end_voids(world->worker[0], 0x100), 1);
	assert_int_equal(world_stats(world)->memory_bytes, 0);
	world_close(world);
}

/* A receiver that does not answer: its groups fail, and it is not greeted for ever. One that comes back is. */
static void test_unreachable(void **state) {
	struct world *world = world_open(2, NULL);
	struct hd_addr stranger = {0x0a0000ee, HD_PORT};
	struct plan plan;

	(void)state;
	for (uint64_t group = 1; group <= 3; group++) {
		plan_make(&plan, group, 2, BYTES);
		plan_to(&plan, world->server, group);
		plan.outputs[0].ipv4 = stranger.ipv4 + (group == 3);
		plan_send(world, &plan);
	}
	plan_make(&plan, 4, 1, BYTES); /* a model without a sender */
	plan.inputs[0].worker = HD_GROUP_WORKER;
	plan.message.peer_ipv4 = stranger.ipv4;
	plan.message.peer_port = stranger.port;
	plan_to(&plan, world->worker[0], 4);
	plan_send(world, &plan);
	assert_int_equal(world_stats(world)->groups_open, 4);
	world_run(world, 1900 * HD_MS);
	assert_int_equal(world_stats(world)->groups_open, 4);
	world_run(world, 200 * HD_MS);
	for (uint64_t group = 1; group <= 4; group++)
		assert_int_equal(refusal(world, group), HD_REASON_TIMEOUT);
	assert_int_equal(world_stats(world)->groups_open, 0);
	assert_int_equal(greetings(world, stranger), 0);
	/* The same for one that was there once; it is found again when it is needed. */
	world->server->node.down = true;
	world_run(world, 2 * HD_SECOND);
	assert_int_equal(greetings(world, world->server->node.addr), 0);
	world->server->node.down = false;
	fill(2);
	plan_make(&plan, 5, 2, BYTES);
	plan_to(&plan, world->server, 5);
	end_expect(world->server, 5, BYTES);
	plan_send(world, &plan);
	for (uint32_t i = 0; i < 2; i++)
		plan_push(world, &plan, i, update[i]);
	world_run(world, 2 * HD_SECOND);
	assert_true(end_received(world->server, 5)->done);
	world_close(world);
}

/* --- hostile ------------------------------------------------------------------------------------ */

static void deliver(struct world *world, const void *data, size_t bytes) {
	struct hd_packet packet = {.peer = {0x0b000001, HD_PORT}, .data = data, .bytes = bytes};

	hd_aggregator_ops.receive(world->aggregator, world->net.now, &packet, 1, &world->node.sink);
}

/* Packets of any bytes, and true ones with a few bytes changed, while a sum is made: it comes out right. */
static void test_hostile_packets(void **state) {
	uint8_t packet[HD_CHUNK_HEADER_BYTES + HD_CHUNK_BYTES_DEFAULT];
	struct world *world = world_open(3, NULL);
	struct hd_random random;
	struct end_recv *got;
	struct plan plan;

	(void)state;
	fill(3);
	hd_random_init(&random, 5);
	plan_make(&plan, 1, 3, BYTES);
	plan_to(&plan, world->server, 1);
	got = end_expect(world->server, 1, BYTES);
	plan_send(world, &plan);
	for (uint32_t i = 0; i < 3; i++)
		plan_push(world, &plan, i, update[i]);
	for (size_t i = 0; i < 20000; i++) {
		struct hd_chunk_header header = {
			.job = JOB,
			.worker = 0,
			.round = 5,
			.attempt = 1,
			.token = hd_random_u64(&random) & ~HD_TOKEN_SEALED, /* a guess */
			.chunk = (uint32_t)hd_random_below(&random, 200),
			.count = HD_CHUNK_BYTES_DEFAULT / 4,
		};
		size_t bytes = hd_random_below(&random, sizeof packet + 1);

		for (size_t b = 0; b < sizeof packet; b++)
			packet[b] = (uint8_t)hd_random_u64(&random);
		if (i % 3 != 0) {
			hd_chunk_encode(&header, packet);
			bytes = i % 3 == 1 ? sizeof packet : bytes;
		}
		deliver(world, packet, bytes);
		if (i % 400 == 0)
			world_run(world, 100 * HD_US);
	}
	world_run(world, 2 * HD_SECOND);
	assert_true(got->done);
	assert_memory_equal(got->data, sum, BYTES);
	assert_true(world_stats(world)->drop_token > 6000);
	assert_true(world_stats(world)->drop_malformed > 6000);
	assert_int_equal(world_stats(world)->groups_delivered, 1);
	world_close(world);
}

/* The right token and anything else: no other group, and no other job, feels it. */
static void test_hostile_member(void **state) {
	struct world *world = world_open(4, NULL);
	struct hd_message message = {.kind = HD_MSG_GO};
	struct end_recv *got;
	struct plan mine, theirs;

	(void)state;
	fill(2);
	plan_make(&theirs, 2, 2, BYTES);
	theirs.message.job = JOB + 1;
	theirs.inputs[0].worker = 2;
	theirs.inputs[1].worker = 3;
	plan_to(&theirs, world->server, 2);
	plan_send(world, &theirs);
	plan_make(&mine, 1, 2, BYTES);
	plan_to(&mine, world->server, 1);
	got = end_expect(world->server, 1, BYTES);
	plan_send(world, &mine);
	for (uint32_t i = 0; i < 4; i++) {
		struct hd_chunk_header header = {
			.job = i == 0 ? JOB : JOB + 1,
			.worker = i == 1 ? 7 : 2,
			.round = i == 2 ? 6 : 5,
			.attempt = i == 3 ? 2 : 1,
			.token = theirs.inputs[0].token,
		};

		end_send(world->worker[2], &header, update[0], BYTES);
	}
	message.go.job = JOB;
	message.go.token = 1;
	end_send_message(world->worker[3], &message); /* not a receiver's to say */
	world_run(world, 50 * HD_MS);
	assert_true(world_stats(world)->drop_source > 0); /* it is no member of theirs */
	assert_int_equal(world_stats(world)->drop_mismatch, 0);
	end_join(world, world->worker[2], JOB + 1, 2);
	plan_push(world, &mine, 0, update[0]);
	plan_push(world, &mine, 1, update[1]);
	world_run(world, 2 * HD_SECOND);
	assert_true(got->done);
	assert_memory_equal(got->data, sum, BYTES);
	assert_true(world_stats(world)->drop_mismatch > 0);
	assert_int_equal(world_stats(world)->refused_messages, 1);
	message = (struct hd_message){.kind = HD_MSG_JOIN}; /* no role: no job here */
	for (uint32_t job = 0; job < 2 * HD_JOBS_MAX; job++) {
		message.join.job = 1000 + job;
		message.join.worker = HD_GROUP_WORKER;
		end_send_message(world->worker[3], &message);
	}
	world_run(world, 10 * HD_MS);
	assert_int_equal(world_stats(world)->jobs, 2);
	world_close(world);
}

static void test_not_finite_is_flagged(void **state) {
	struct world *world = world_open(2, NULL);
	struct end_recv *got;
	struct plan plan;

	(void)state;
	fill(2);
	update[1][100] = (float)(1e308 * 10);
	plan_make(&plan, 1, 2, BYTES);
	plan_to(&plan, world->server, 1);
	got = end_expect(world->server, 1, BYTES);
	plan_send(world, &plan);
	plan_push(world, &plan, 0, update[0]);
	plan_push(world, &plan, 1, update[1]);
	world_run(world, HD_SECOND);
	assert_true(got->done);
	assert_int_equal(got->flags & HD_CHUNK_NOT_FINITE, HD_CHUNK_NOT_FINITE);
	assert_int_equal(world_stats(world)->groups_not_finite, 1);
	world_close(world);
}

/* --- a tree ------------------------------------------------------------------------------------- */

/* The core under test sends its sum to another one, which adds a third update: on the same network. */
static void test_tree(void **state) {
	struct world *world = world_open(3, NULL);
	struct hd_aggregator_config config = world->config;
	struct hd_aggregator *upper;
	struct net_node node;
	struct end *root = end_open(world, HD_ROLE_CONTROLLER, 0x0a000011), *was;
	struct end_recv *got;
	struct plan low, high;

	(void)state;
	fill(3);
	config.name = config.host = "upper";
	config.controller = root->node.addr;
	config.data = (struct hd_addr){AGGREGATOR_IP + 1, HD_PORT};
	memset(config.seed, 0xdd, sizeof config.seed);
	assert_int_equal(hd_aggregator_create(&config, &upper), 0);
	node = (struct net_node){.node = {&hd_aggregator_ops, upper}};
	net_add(&world->net, &node, AGGREGATOR_IP + 1);
	world_run(world, 50 * HD_MS);
	/* upper: the sum of workers 0 and 1, and worker 2 by way of a relay of one input */
	plan_make(&high, 2, 2, BYTES);
	high.inputs[0] = (struct hd_group_input
	){.token = 0x701, .worker = HD_GROUP_WORKER, .round = 9, .attempt = 1};
	high.inputs[1] = (struct hd_group_input
	){.token = 0x702, .worker = HD_GROUP_WORKER, .round = 9, .attempt = 1};
	plan_to(&high, world->server, 2);
	got = end_expect(world->server, 2, BYTES);
	was = world->controller;
	world->controller = root;
	plan_send(world, &high);
	world->controller = was;
	plan_make(&low, 1, 2, BYTES);
	low.outputs[low.output_count++] = (struct hd_group_output){
		.token = 0x701,
		.role = HD_ROLE_AGGREGATOR,
		.worker = HD_GROUP_WORKER,
		.round = 9,
		.attempt = 1,
		.ipv4 = AGGREGATOR_IP + 1,
		.port = HD_PORT,
		.cc_weight = 1,
	};
	plan_send(world, &low);
	plan_push(world, &low, 0, update[0]);
	plan_push(world, &low, 1, update[1]);
	plan_make(&low, 3, 1, BYTES);
	low.inputs[0].worker = 2;
	low.outputs[low.output_count++] = (struct hd_group_output){
		.token = 0x702,
		.role = HD_ROLE_AGGREGATOR,
		.worker = HD_GROUP_WORKER,
		.round = 9,
		.attempt = 1,
		.ipv4 = AGGREGATOR_IP + 1,
		.port = HD_PORT,
		.cc_weight = 1,
	};
	plan_send(world, &low);
	plan_push(world, &low, 0, update[2]);
	world_run(world, 2 * HD_SECOND);
	assert_true(got->done);
	assert_memory_equal(got->data, sum, BYTES);
	assert_int_equal(world_stats(world)->groups_delivered, 2);
	assert_int_equal(hd_aggregator_stats(upper)->groups_delivered, 1);
	net_remove(&world->net, &node);
	hd_aggregator_destroy(upper);
	end_kill(world, root);
	world_close(world);
}

/* --- what it tells ------------------------------------------------------------------------------ */

static void test_tables(void **state) {
	struct world *world = world_open(1, NULL);
	struct end *shell = end_open(world, HD_ROLE_SHELL, WORKER_IP + 60);
	struct hd_message message = {.kind = HD_MSG_SHOW};
	const char *error = NULL;
	char *json;

	(void)state;
	send_group(world, 0xabc, JOB, BYTES);
	json = hd_aggregator_table(world->aggregator, world->net.now, "sums", NULL, &error);
	assert_non_null(json);
	assert_non_null(strstr(json, "\"group\":\"0000000000000abc\""));
	assert_non_null(strstr(json, "\"inputs\":2"));
	assert_non_null(strstr(json, "\"total\":1"));
	free(json);
	json = hd_aggregator_table(world->aggregator, world->net.now, "counters", "groups", &error);
	assert_non_null(json);
	assert_non_null(strstr(json, "groups_failed"));
	free(json);
	assert_null(hd_aggregator_table(world->aggregator, world->net.now, "jobs", NULL, &error));
	assert_non_null(strstr(error, "sums"));
	end_connect(world, shell);
	memcpy(message.show.table, "sums", 5);
	end_send_message(shell, &message);
	message = (struct hd_message){.kind = HD_MSG_COMMAND};
	end_send_message(shell, &message);
	world_run(world, 10 * HD_MS);
	assert_int_equal(end_heard(shell, HD_MSG_TABLE), 1);
	assert_non_null(
		strstr(end_message(shell, HD_MSG_REFUSE, 0)->refuse.text, "takes no commands")
	);
	end_kill(world, shell);
	world_close(world);
}

/* The end of the process: all nodes are notified. */
static void test_drain(void **state) {
	struct world *world = world_open(2, NULL);

	(void)state;
	send_group(world, 1, JOB, BYTES);
	hd_aggregator_drain(world->aggregator, world->net.now, &world->node.sink);
	world_run(world, 10 * HD_MS);
	assert_int_equal(end_voids(world->worker[1], 0x101), 1);
	assert_false(world->worker[0]->open);
	assert_false(world->server->open);
	assert_false(world->controller->open);
	assert_int_equal(world_stats(world)->groups_open, 0);
	world_close(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_is_shared),
		cmocka_unit_test(test_memory_is_as_notified),
		cmocka_unit_test(test_replicas_make_room),
		cmocka_unit_test(test_refuses_groups),
		cmocka_unit_test(test_idle_group),
		cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_hostile_packets),
		cmocka_unit_test(test_hostile_member),
		cmocka_unit_test(test_not_finite_is_flagged),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_drain),
	};

	return cmocka_run_group_tests_name("aggregator-bounds", tests, NULL, NULL);
}
