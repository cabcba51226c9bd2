/* SPDX-License-Identifier: BSD-3-Clause */
#include "switch_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- the world ------------------------------------------------------------------------------- */

static bool is_registered(void *what) {
	return fake_count(what, HD_MSG_REGISTER) > 0;
}

void world_restart(struct world *world, uint16_t epoch) {
	world->controller = fake_controller_at(&world->net, epoch, CONTROLLER_IP);
	net_run_until(&world->net, is_registered, world->controller, 5 * HD_SECOND);
	net_run(&world->net, 10 * HD_MS);
}

void world_lose(struct world *world) {
	fake_kill(world->controller);
	world->controller = NULL;
	net_run(&world->net, (hd_ns)HD_DETECTION_US * HD_US);
}

struct world *world_open(uint16_t slots) {
	struct world *world = calloc(1, sizeof *world);
	struct hd_switch_agent_config config = {
		.name = "switch",
		.host = "s1",
		.keys = &world->net.keys,
		.key_id = 7,
		.controller = {CONTROLLER_IP, HD_PORT},
		.data = {SWITCH_IP, HD_PORT},
		.slots = slots,
		.count_min = 1,
		.count_max = 2224,
		.dtypes = 1 << HD_DTYPE_FIXED32 | 1 << HD_DTYPE_FP32,
		.ops = &executor_ops,
		.owner = &world->executor,
	};

	net_open(&world->net);
	memset(config.seed, 0xdd, sizeof config.seed);
	assert_int_equal(hd_switch_agent_create(&config, &world->agent), 0);
	world->node = (struct net_node){.node = {&hd_switch_agent_core, world->agent}};
	net_add(&world->net, &world->node, SWITCH_IP);
	world_restart(world, 3);
	return world;
}

void world_close(struct world *world) {
	if (world->controller)
		fake_kill(world->controller);
	hd_switch_agent_destroy(world->agent);
	net_close(&world->net);
	free(world);
}

const struct hd_switch_agent_stats *stats_of(const struct world *world) {
	return hd_switch_agent_stats(world->agent);
}

/* --- words ----------------------------------------------------------------------------------- */

struct plan plan_make(uint64_t lease, uint32_t members, uint16_t slots) {
	struct plan plan = {
		.seat_count = members,
		.message = {
			.job = JOB,
			.lease = lease,
			.epoch = 3,
			.attempt = 1,
			.dtype = HD_DTYPE_FIXED32,
			.count = 352,
			.slots = slots,
			.waits = members == 64 ? UINT64_MAX : (UINT64_C(1) << members % 64) - 1,
			.expires_us = LEASE_US,
		},
	};

	for (uint32_t i = 0; i < members; i++)
		plan.seats[i] = (struct hd_group_seat){
			.worker = (uint16_t)i,
			.token = 0x1000 * lease + i,
			.result_token = 0x2000 * lease + i,
			.ipv4 = MEMBER_IP + i,
			.port = HD_PORT,
		};
	return plan;
}

void plan_send(struct world *world, struct plan *plan) {
	static uint8_t seats[HD_GROUP_SEAT_BYTES * (HD_SWITCH_MEMBERS_MAX + 1)];
	static uint8_t receivers[HD_GROUP_RECEIVER_BYTES * (HD_SWITCH_RECEIVERS_MAX + 1)];
	struct hd_message message = {.kind = HD_MSG_SLOTS};

	message.slots = plan->message;
	message.slots.members.data = seats;
	message.slots.members.bytes
		= (uint32_t)hd_group_put_seats(plan->seats, plan->seat_count, seats, sizeof seats);
	message.slots.receivers.data = receivers;
	message.slots.receivers.bytes = (uint32_t
	)hd_group_put_receivers(plan->receivers, plan->receiver_count, receivers, sizeof receivers);
	fake_send(world->controller, &message);
	net_run(&world->net, 2 * HD_MS);
}

void send_void(struct world *world, uint64_t lease) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = JOB;
	message.void_.token = lease;
	fake_send(world->controller, &message);
	net_run(&world->net, 2 * HD_MS);
}

const struct hd_msg_report *answer_of(const struct world *world, uint64_t lease) {
	const struct fake *controller = world->controller;

	for (size_t i = controller->inbox_count; i-- > 0;)
		if (controller->inbox[i].kind == HD_MSG_REPORT
		    && controller->inbox[i].report.token == lease)
			return &controller->inbox[i].report;
	return NULL;
}

void assert_answer(
	const struct world *world,
	uint64_t lease,
	enum hd_outcome outcome,
	enum hd_reason reason
) {
	const struct hd_msg_report *answer = answer_of(world, lease);

	assert_non_null(answer);
	assert_int_equal(answer->job, JOB);
	assert_int_equal(answer->direction, HD_REDUCE);
	assert_int_equal(answer->outcome, outcome);
	assert_int_equal(answer->reason, reason);
}

const struct hd_msg_register_ *registration(const struct world *world) {
	const struct fake *controller = world->controller;

	for (size_t i = controller->inbox_count; i-- > 0;)
		if (controller->inbox[i].kind == HD_MSG_REGISTER)
			return &controller->inbox[i].register_;
	fail_msg("no REGISTER");
	return NULL;
}
