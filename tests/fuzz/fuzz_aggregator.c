/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An aggregator with two workers, a server and a controller whose packets come from the input: packets of any bytes,
 * chunks under tokens that exist, messages of every kind that it takes. Its memory stays within the budget, and when
 * all nodes fall silent all of it is freed.
 */
#include "aggregator_net.h"
#include "fuzz.h"

#include <string.h>

#define WORKERS 2
#define STEPS_MAX 60
#define SILENCE_S 200
#define MEMORY (1u << 20)

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

/* Of few groups, so that words and chunks meet: inputs 0x100 g + i, outputs and groups g. */
static uint64_t any_token(struct input *input) {
	uint64_t group = 1 + take(input, 1) % 3;

	return take(input, 1) % 2 ? group : 0x100 * group + take(input, 1) % 3;
}

static void any_group(struct world *world, struct input *input) {
	uint8_t shape = (uint8_t)take(input, 1), kind;
	struct plan plan;

	plan_make(&plan, 1 + take(input, 1) % 3, 1 + shape % 2, 4 * (1 + take(input, 2)));
	plan.message.epoch = (uint16_t)(2 + take(input, 1) % 3);
	kind = (uint8_t)take(input, 1);
	plan.message.dtype = kind % (HD_DTYPE_COUNT + 1);
	plan.message.op = kind / (HD_DTYPE_COUNT + 1) % (HD_REDUCE_OP_COUNT + 1);
	plan.message.order = shape >> 1 & 1;
	plan.message.version = shape >> 2 & 1 ? take(input, 1) : 0;
	if (shape >> 3 & 1) {
		plan.inputs[0].worker = HD_GROUP_WORKER;
		plan.message.peer_ipv4 = SERVER_IP;
		plan.message.peer_port = HD_PORT;
	}
	plan.inputs[0].after = shape >> 4 & 1 ? any_token(input) : 0;
	plan_to(&plan, world->server, plan.message.group);
	if (shape >> 5 & 1)
		plan_to(&plan, world->worker[take(input, 1) % WORKERS], any_token(input));
	plan.outputs[0].after = shape >> 6 & 1;
	plan.outputs[0].rate_bps = take(input, 4);
	plan_send(world, &plan);
}

static void any_chunk(struct world *world, struct input *input) {
	uint8_t packet[HD_CHUNK_HEADER_BYTES + 4096] = {0};
	uint64_t token = any_token(input);
	struct hd_chunk_header header = {
		.job = JOB,
		.worker = (uint16_t)(token & 0xff),
		.round = 5 + (uint32_t)(token & 0xff),
		.attempt = 1,
		.dtype = (uint8_t)take(input, 1) % HD_DTYPE_COUNT,
		.flags = (uint8_t)take(input, 1),
		.chunk = (uint32_t)take(input, 1) % 40,
		.packet = (uint32_t)take(input, 1),
		.version = take(input, 1),
		.token = token,
	};
	size_t values = take(input, 2) % 512;
	struct hd_packet given
		= {.peer = {WORKER_IP + (uint32_t)take(input, 1) % 3, HD_PORT}, .data = packet};

	header.count = (uint16_t)values;
	hd_chunk_encode(&header, packet);
	given.bytes = HD_CHUNK_HEADER_BYTES + values * hd_dtype_bytes(header.dtype);
	hd_aggregator_ops.receive(world->aggregator, world->net.now, &given, 1, &world->node.sink);
}

static void any_bytes(struct world *world, struct input *input) {
	uint8_t packet[512];
	struct hd_packet given = {
		.peer = {WORKER_IP, HD_PORT},
		.data = packet,
		.bytes = input->left < 512 ? input->left : 512,
	};

	memcpy(packet, input->data, given.bytes);
	hd_aggregator_ops.receive(world->aggregator, world->net.now, &given, 1, &world->node.sink);
}

static void any_word(struct world *world, struct input *input) {
	static const uint8_t kinds[]
		= {HD_MSG_VOID,
		   HD_MSG_CANCEL,
		   HD_MSG_GO,
		   HD_MSG_PULL_STATE,
		   HD_MSG_SACK,
		   HD_MSG_JOIN,
		   HD_MSG_LEAVE,
		   HD_MSG_REFUSE};
	struct end *ends[] = {world->controller, world->server, world->worker[0], world->worker[1]};
	struct end *end = ends[take(input, 1) % 4];
	struct hd_message message = {.kind = kinds[take(input, 1) % sizeof kinds]};
	uint64_t token = any_token(input);

	switch (message.kind) {
	case HD_MSG_VOID:
		message.void_ = (struct hd_msg_void_){JOB, 0, token, (uint8_t)take(input, 1)};
		break;
	case HD_MSG_CANCEL:
		message.cancel.job = JOB;
		message.cancel.worker = (uint16_t)take(input, 1) % 3;
		message.cancel.token = token;
		break;
	case HD_MSG_GO:
		message.go = (struct hd_msg_go){JOB, token};
		break;
	case HD_MSG_PULL_STATE:
		message.pull_state.job = JOB;
		message.pull_state.token = token;
		message.pull_state.version = take(input, 1);
		message.pull_state.reason = (uint8_t)take(input, 1) % 24;
		message.pull_state.bytes = 4 * (1 + take(input, 2));
		break;
	case HD_MSG_SACK:
		message.sack.token = token;
		message.sack.held = (uint32_t)take(input, 1);
		message.sack.done = (uint8_t)take(input, 1) % 2;
		message.sack.packets.count = 1;
		message.sack.packets.item[0].last = (uint32_t)take(input, 1);
		break;
	case HD_MSG_JOIN:
		message.join.job = JOB + (uint32_t)take(input, 1) % 2;
		message.join.worker = (uint16_t)take(input, 2);
		break;
	default:
		break;
	}
	if (end->open)
		end_send_message(end, &message);
}

static void step(struct world *world, struct input *input) {
	switch (take(input, 1) % 8) {
	case 0:
		world_run(world, take(input, 1) * HD_MS);
		break;
	case 1:
		any_bytes(world, input);
		break;
	case 2:
	case 3:
		any_group(world, input);
		break;
	case 4:
		any_word(world, input);
		break;
	default:
		any_chunk(world, input);
		break;
	}
	CHECK(world_stats(world)->memory_bytes <= MEMORY);
}

static bool is_idle(const struct world *world) {
	const struct hd_aggregator_stats *stats = world_stats(world);

	return stats->groups_open == 0 && stats->memory_bytes == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	const struct hd_aggregator_config config = {.memory_bytes = MEMORY, .early_bytes = 4096};
	struct input input = {data, bytes};
	struct world *world = world_open(WORKERS, &config);

	for (size_t i = 0; i < STEPS_MAX && input.left > 0; i++)
		step(world, &input);
	/* Given up it is in minutes at most; most inputs leave nothing that would have to be. */
	for (int s = 0; s < SILENCE_S && !is_idle(world); s++)
		world_run(world, HD_SECOND);
	CHECK(world_stats(world)->groups_open == 0);
	CHECK(world_stats(world)->memory_bytes == 0);
	world_close(world);
	return 0;
}
