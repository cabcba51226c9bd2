/* SPDX-License-Identifier: BSD-3-Clause */
#include "switch_net.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- the executor ---------------------------------------------------------------------------- */

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "executor: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static int on_neighbour(
	void *owner,
	uint32_t ipv4,
	struct hd_switch_copy *copy,
	char *error,
	size_t error_bytes
) {
	struct executor *e = owner;

	e->asked++;
	if (e->unknown > 0) {
		e->unknown--;
		return -EAGAIN;
	}
	if (e->fail_neighbour) {
		(void)snprintf(error, error_bytes, "no way there");
		return e->fail_neighbour;
	}
	copy->port = (uint16_t)(ipv4 & 0x3f);
	memcpy(copy->mac, &(uint8_t[]){2, 0, 0, 0, 0, (uint8_t)ipv4}, 6);
	return 0;
}

static void check_against(const struct executor *e, const struct hd_switch_lease *new) {
	for (uint32_t id = 0; id < HD_SWITCH_LEASES_MAX; id++) {
		const struct hd_switch_lease *old = &e->lease[id];

		if (!e->held[id])
			continue;
		MUST(new->first_slot + new->slot_count <= old->first_slot
		     || old->first_slot + old->slot_count <= new->first_slot);
		for (uint32_t i = 0; i < old->member_count; i++)
			for (uint32_t k = 0; k < new->member_count; k++)
				MUST(old->members[i].token != new->members[k].token);
	}
}

static int
on_set(void *owner, const struct hd_switch_lease *lease, char *error, size_t error_bytes) {
	struct executor *e = owner;
	uint64_t all
		= lease->member_count == 64 ? UINT64_MAX : (UINT64_C(1) << lease->member_count) - 1;

	if (e->fail_set)
		return e->fail_set;
	MUST(lease->id < HD_SWITCH_LEASES_MAX && !e->held[lease->id]);
	MUST(lease->slot_count > 0 && lease->first_slot + lease->slot_count <= HD_SWITCH_SLOTS);
	MUST(lease->member_count > 0 && lease->member_count <= HD_SWITCH_MEMBERS_MAX);
	MUST(lease->receiver_count <= HD_SWITCH_RECEIVERS_MAX);
	MUST(lease->waits == all);
	for (uint32_t i = 0; i < lease->member_count; i++)
		MUST(lease->members[i].token != 0
		     && lease->members[i].copy.port == (lease->members[i].copy.ipv4 & 0x3f));
	check_against(e, lease);
	e->held[lease->id] = true;
	e->lease[lease->id] = *lease;
	memcpy(e->members[lease->id], lease->members, lease->member_count * sizeof(*lease->members)
	);
	if (lease->receiver_count > 0)
		memcpy(e->receivers[lease->id],
		       lease->receivers,
		       lease->receiver_count * sizeof(*lease->receivers));
	e->lease[lease->id].members = e->members[lease->id];
	e->lease[lease->id].receivers = e->receivers[lease->id];
	e->count++;
	e->sets++;
	return 0;
}

static int on_waits(void *owner, uint16_t id, uint64_t waits, char *error, size_t error_bytes) {
	struct executor *e = owner;

	MUST(id < HD_SWITCH_LEASES_MAX && e->held[id]);
	MUST(waits != 0 && (waits & ~e->lease[id].waits) == 0);
	if (e->fail_waits)
		return e->fail_waits;
	e->lease[id].waits = waits;
	return 0;
}

static int on_end(void *owner, uint16_t id, char *error, size_t error_bytes) {
	struct executor *e = owner;

	MUST(id < HD_SWITCH_LEASES_MAX && e->held[id]);
	e->held[id] = false;
	e->count--;
	e->ends++;
	return 0;
}

static int on_counters(
	void *owner,
	uint64_t counters[HD_SWITCH_COUNTER_COUNT],
	char *error,
	size_t error_bytes
) {
	counters[HD_SWITCH_COUNTER_drop_token] = 5;
	return 0;
}

static const struct hd_switch_agent_ops executor_ops = {
	.neighbour = on_neighbour,
	.lease_set = on_set,
	.lease_waits = on_waits,
	.lease_end = on_end,
	.counters = on_counters,
};

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
	net_run(&world->net, (hd_ns)HD_LEASE_US * HD_US);
}

struct world *world_open(uint16_t slots) {
	struct world *world = calloc(1, sizeof(*world));
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
	memset(config.seed, 0xdd, sizeof(config.seed));
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

void plan_say(struct world *world, struct plan *plan) {
	static uint8_t seats[HD_GROUP_SEAT_BYTES * (HD_SWITCH_MEMBERS_MAX + 1)];
	static uint8_t receivers[HD_GROUP_RECEIVER_BYTES * (HD_SWITCH_RECEIVERS_MAX + 1)];
	struct hd_message message = {.kind = HD_MSG_SLOTS};

	message.slots = plan->message;
	message.slots.members.data = seats;
	message.slots.members.bytes
		= (uint32_t)hd_group_put_seats(plan->seats, plan->seat_count, seats, sizeof(seats));
	message.slots.receivers.data = receivers;
	message.slots.receivers.bytes = (uint32_t)hd_group_put_receivers(
		plan->receivers, plan->receiver_count, receivers, sizeof(receivers)
	);
	fake_send(world->controller, &message);
	net_run(&world->net, 2 * HD_MS);
}

void say_void(struct world *world, uint64_t lease) {
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
