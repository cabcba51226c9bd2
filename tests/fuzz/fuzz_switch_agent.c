/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent of a switch whose controller says what the input says: leases of any shape, ends, lists of any bytes. Its
 * executor (switch_net.c) aborts when two leases share a slot, an id or a token; at the end nothing is left.
 */
#include "fuzz.h"
#include "switch_net.h"

#include <errno.h>
#include <string.h>

#define STEPS_MAX 60

struct input {
	const uint8_t *data;
	size_t left;
};

static uint64_t take(struct input *input, size_t bytes) {
	uint64_t value = 0;

	while (bytes-- > 0) {
		uint8_t byte = 0;

		if (input->left > 0) {
			byte = *input->data++;
			input->left--;
		}
		value = value << 8 | byte;
	}
	return value;
}

static void any_lease(struct world *world, struct input *input) {
	uint8_t shape = (uint8_t)take(input, 1);
	struct plan plan = plan_make(
		1 + take(input, 1) % 6,
		(uint32_t)take(input, 1) % 66,
		(uint16_t)(take(input, 2) % 140)
	);

	if (shape & 1)
		plan.message.waits = take(input, 8);
	if (shape & 2)
		plan.message.epoch = (uint16_t)(2 + take(input, 1) % 3);
	if (shape & 4)
		plan.message.dtype = (uint8_t)take(input, 1);
	if (shape & 8)
		plan.message.count = (uint16_t)take(input, 2);
	if (shape & 16)
		plan.seats[take(input, 1) % 65].token = 0x1000 * (1 + take(input, 1) % 6);
	if (shape & 32) {
		plan.receiver_count = (uint32_t)take(input, 1) % 6;
		for (uint32_t i = 0; i < plan.receiver_count && i < 5; i++)
			plan.receivers[i].token = take(input, 2);
	}
	if (shape & 64)
		plan.message.expires_us = (uint32_t)take(input, 3);
	plan_send(world, &plan);
}

static void any_lists(struct world *world, struct input *input) {
	struct hd_message message = {.kind = HD_MSG_SLOTS};
	uint32_t bytes = (uint32_t)(input->left < 600 ? input->left : 600);

	message.slots = plan_make(1 + take(input, 1) % 6, 1, 4).message;
	message.slots.waits = take(input, 2);
	bytes = (uint32_t)(input->left < bytes ? input->left : bytes);
	message.slots.members = (struct hd_blob){input->data, bytes};
	message.slots.receivers = (struct hd_blob){input->data, take(input, 1) % 2 ? bytes : 0};
	fake_send(world->controller, &message);
	net_run(&world->net, HD_MS);
}

static void step(struct world *world, struct input *input) {
	static const int errors[] = {0, -ENOMEM, -EINVAL, -EIO};

	switch (take(input, 1) % 8) {
	case 0:
		net_run(&world->net, take(input, 1) * HD_MS);
		break;
	case 1:
		send_void(world, 1 + take(input, 1) % 6);
		break;
	case 2:
		world->executor.unknown = (uint32_t)take(input, 1) % 80;
		break;
	case 3:
		world->executor.fail_set = errors[take(input, 1) % 4];
		world->executor.fail_waits = errors[take(input, 1) % 4];
		break;
	case 4:
		any_lists(world, input);
		break;
	case 5:
		world_lose(world);
		world_restart(world, (uint16_t)(3 + take(input, 1) % 2));
		break;
	default:
		any_lease(world, input);
		break;
	}
	CHECK(stats_of(world)->slots_now <= stats_of(world)->slots_all);
	CHECK(stats_of(world)->leases_now >= world->executor.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct input input = {data, bytes};
	struct world *world = world_open(128);

	for (size_t i = 0; i < STEPS_MAX && input.left > 0; i++)
		step(world, &input);
	fake_kill(world->controller);
	world->controller = NULL;
	net_run(&world->net, 30 * HD_SECOND);
	CHECK(stats_of(world)->leases_now == 0);
	CHECK(stats_of(world)->slots_now == 0);
	CHECK(world->executor.count == 0);
	world_close(world);
	return 0;
}
