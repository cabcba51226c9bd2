/* SPDX-License-Identifier: BSD-3-Clause */
/* A push whose bytes a packer makes, into the slots of a switch: packed whole before the first chunk, and copied out of
 * the packer's memory, as the transfer to a replica outlives the push. */
#include "hd_kernels.h"
#include "hd_switch_numbers.h"
#include "worker_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SLOTS 8
#define COUNT ((size_t)32)
#define OUT 501

static const struct hd_worker_config plain;

/* A switch that only listens. */
static struct {
	int node;
	uint64_t chunks, wrong;
	uint32_t expected[VALUES];
} fake;

/* The packer's output, which it overwrites when it was called and has returned. */
static uint32_t packed[VALUES];
static const float *values;
static bool was_whole;

static void fake_tick(void *core, hd_ns now, struct hd_sink *sink) {
	(void)core;
}

static hd_ns fake_deadline(const void *core) {
	(void)core;
	return HD_NEVER;
}

static void fake_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	(void)core;
	for (size_t i = 0; i < count; i++) {
		struct hd_chunk_header header;
		const uint8_t *payload;
		size_t bytes;

		if (hd_chunk_decode(packets[i].data, packets[i].bytes, &header, &payload, &bytes)
		    < 0)
			continue;
		fake.chunks++;
		fake.wrong += memcmp(payload, &fake.expected[header.chunk * COUNT], bytes) != 0;
	}
}

static const struct hd_core_ops fake_ops
	= {.receive = fake_receive, .tick = fake_tick, .deadline = fake_deadline};

static int pack(void *user, float weight, int16_t exponent, bool whole, const void **payload) {
	was_whole = whole;
	(void)hd_fixed_from_f32(packed, values, VALUES, weight, exponent);
	memcpy(fake.expected, packed, sizeof packed);
	*payload = packed;
	return 0;
}

static int64_t ready(void *user) {
	return sizeof packed;
}

static struct world *open_world(void) {
	struct hd_sim_link link = {.rate_bps = 1000000000, .latency = 50000};
	struct hd_sim_node_config node = {0};
	struct world *world = build(SCHEDULED, &plain);

	memset(&fake, 0, sizeof fake);
	world->controller.silent = true;
	node.host = hd_sim_host(world->sim, &link);
	fake.node = hd_sim_node(world->sim, &node);
	hd_sim_node_start(world->sim, fake.node, (struct hd_node){&fake_ops, &fake});
	run_ms(world, 20);
	return world;
}

static void push_packed(struct world *world) {
	const struct hd_packer packer
		= {.norm = 1,
		   .peak = hd_peak_f32(world->data[0], VALUES),
		   .pack = pack,
		   .ready = ready};
	struct hd_push_args args
		= {.packer = &packer, .values = VALUES, .base = 1, .dtype = HD_DTYPE_FIXED32};
	uint32_t round;

	values = world->data[0];
	assert_int_equal(
		hd_worker_push(
			world->worker,
			hd_sim_node_now(world->sim, world->node),
			&args,
			hd_sim_node_sink(world->sim, world->node),
			&round
		),
		0
	);
	hd_sim_node_poke(world->sim, world->node);
	run_ms(world, 10);
}

static void grant(struct world *world) {
	const struct hd_addr address = hd_sim_node_address(world->sim, fake.node);
	const struct hd_msg_request *asked
		= &peer_last(&world->controller, HD_MSG_REQUEST)->request;
	struct hd_message message = {.kind = HD_MSG_GRANT};

	message.grant = (struct hd_msg_grant){
		.job = asked->job,
		.worker = asked->worker,
		.round = asked->round,
		.direction = HD_PUSH,
		.attempt = asked->attempt,
		.token = OUT,
		.result_token = OUT + 1,
		.weight = 1,
		.cc_weight = 1,
		.bytes = asked->bytes,
		.exponent = (uint16_t)hd_fixed_exponent((double)asked->peak, 2),
		.peer_ipv4 = address.ipv4,
		.peer_port = address.port,
		.slots = SLOTS,
		.count = COUNT,
		.members = 2,
		.receivers = 1,
		.origin_ns = hd_sim_node_now(world->sim, world->controller.node),
		.segments = {1, {{0, 100000000, asked->bytes}}},
	};
	peer_send(&world->controller, &message);
}

static void test_lanes_are_the_packers(void **state) {
	struct world *world = open_world();

	push_packed(world);
	grant(world);
	run_ms(world, 1);
	assert_true(world->ticket[HD_PUSH][1].state >= HD_TICKET_GRANTED);
	assert_true(was_whole);
	memset(packed, 0xee, sizeof packed); /* the push may be over, its slots not */
	run_ms(world, 2000);
	assert_true(fake.chunks >= SLOTS);
	assert_int_equal(fake.wrong, 0);
	destroy(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_lanes_are_the_packers)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
