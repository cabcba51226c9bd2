/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aggregator core on one core of the processor, in memory: bursts of packets as a driver hands them over, the sum
 * streamed out to a sink that only counts, acknowledgements both ways. Only the core's calls are timed, in processor
 * time. Beside it what memory allows: the same payloads added to a sum of the same size in the same order, and
 * nothing else.
 */
#include "aggregator_net.h"
#include "hd_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK 1400
#define PACKET (HD_CHUNK_HEADER_BYTES + CHUNK)
#define CHUNKS 18000 /* 25.2 MB an update */
#define BYTES ((uint64_t)CHUNKS * CHUNK)
#define RUN 8 /* chunks of one input in a burst */
#define INPUTS_MAX 8
#define ROUNDS 5

/* Output of the core: chunks are counted, and so acknowledged; other packets are for sessions, which this bench does
 * not read. */
struct counting {
	struct hd_sink sink;
	uint64_t payload, token;
	uint32_t first, last; /* packet numbers since the last acknowledgement */
	bool any;
};

/* One packet from the server. */
struct caught {
	struct hd_sink sink;
	uint8_t data[2048];
	size_t bytes;
};

static double seconds(void) {
	struct timespec at;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void
count(struct hd_sink *sink,
      struct hd_addr peer,
      const void *head,
      size_t head_bytes,
      const void *payload,
      size_t payload_bytes) {
	struct counting *counting = (struct counting *)sink;

	if (payload_bytes == 0)
		return;
	counting->payload += payload_bytes;
	counting->last = (uint32_t)((const uint8_t *)head)[28] << 24
		| (uint32_t)((const uint8_t *)head)[29] << 16
		| (uint32_t)((const uint8_t *)head)[30] << 8 | ((const uint8_t *)head)[31];
	counting->any = true;
}

static void
capture(struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes) {
	struct caught *caught = (struct caught *)sink;

	memcpy(caught->data, head, head_bytes);
	caught->bytes = head_bytes;
}

static double
timed(struct world *world, const struct hd_packet *packets, size_t n, struct hd_sink *sink) {
	double began = seconds();

	hd_aggregator_ops.receive(world->aggregator, world->net.now, packets, n, sink);
	return seconds() - began;
}

/* The server holds everything that left so far. */
static double acknowledge(struct world *world, struct counting *counting) {
	struct hd_message message = {.kind = HD_MSG_SACK};
	struct caught caught = {.sink = {.send = capture}};
	struct hd_packet packet = {.peer = world->server->node.addr, .data = caught.data};

	if (!counting->any)
		return 0;
	counting->any = false;
	message.sack = (struct hd_msg_sack){
		.token = counting->token,
		.held = counting->last + 1,
		.done = counting->last + 1 == CHUNKS,
		.window_bytes = UINT32_MAX,
		.packets = {1, {{0, counting->last}}},
	};
	if (hd_session_send_once(world->server->session, &message, world->net.now, &caught.sink)
	    < 0)
		abort();
	packet.bytes = caught.bytes;
	return timed(world, &packet, 1, &counting->sink);
}

static void fill_burst(
	const struct plan *plan,
	uint8_t *data,
	struct hd_packet *packets,
	uint32_t first,
	uint32_t chunks
) {
	size_t n = 0, bytes = hd_dtype_bytes(plan->message.dtype), value = bytes > 0 ? bytes : 1;

	for (uint32_t i = 0; i < plan->input_count; i++) {
		for (uint32_t c = first; c < first + chunks; c++, n++) {
			struct hd_chunk_header header = {
				.job = JOB,
				.worker = (uint16_t)i,
				.round = plan->inputs[i].round,
				.attempt = 1,
				.dtype = plan->message.dtype,
				.token = plan->inputs[i].token,
				.chunk = c,
				.packet = c,
				.count = (uint16_t)(CHUNK / value),
				.flags = c == CHUNKS - 1 ? HD_CHUNK_LAST : 0,
			};

			packets[n] = (struct hd_packet
			){.peer = {WORKER_IP + i, HD_PORT},
			  .data = data + n * PACKET,
			  .bytes = PACKET};
			hd_chunk_encode(&header, data + n * PACKET);
		}
	}
}

/* Seconds that the core took for one group. */
static double one_group(struct world *world, uint32_t inputs, uint8_t dtype, uint8_t *data) {
	const uint64_t group = world_stats(world)->groups + 1;
	struct hd_packet packets[INPUTS_MAX * RUN];
	struct counting counting = {.sink = {.send = count}, .token = group};
	struct plan plan;
	double took = 0;

	plan_make(&plan, group, inputs, BYTES);
	plan.message.order = HD_GROUP_ARRIVAL;
	plan.message.dtype = dtype;
	plan_to(&plan, world->server, group);
	plan.outputs[0].rate_bps = UINT64_C(400000000000);
	plan_send(world, &plan);
	for (uint32_t c = 0; c < CHUNKS; c += RUN) {
		uint32_t chunks = c + RUN < CHUNKS ? RUN : CHUNKS - c;

		fill_burst(&plan, data, packets, c, chunks);
		world->net.now += 2 * HD_US;
		took += timed(world, packets, (size_t)chunks * inputs, &counting.sink);
		if (c % (4 * RUN) == 0)
			took += acknowledge(world, &counting);
	}
	while (world_stats(world)->groups_open > 0) {
		double began = seconds();

		world->net.now += 2 * HD_US;
		hd_aggregator_ops.tick(world->aggregator, world->net.now, &counting.sink);
		took += seconds() - began;
		took += acknowledge(world, &counting);
	}
	if (counting.payload != BYTES)
		abort();
	return took;
}

/* The same additions alone. */
static double bound(uint32_t inputs, uint8_t dtype, const uint8_t *data, uint8_t *sum) {
	size_t wide = hd_dtype_is_half(dtype) ? 2 : 1, values = CHUNK / hd_dtype_bytes(dtype);
	double began = seconds();

	for (uint32_t c = 0; c < CHUNKS; c++) {
		void *to = sum + (size_t)c * CHUNK * wide;

		for (uint32_t i = 0; i < inputs; i++) {
			const void *x = data + ((size_t)i * RUN + c % RUN) * PACKET
				+ HD_CHUNK_HEADER_BYTES;

			if (i == 0 && wide == 1)
				memcpy(to, x, CHUNK);
			else if (i == 0)
				hd_half_to_f32(dtype, to, x, values);
			else if (wide == 2)
				hd_add_half(dtype, to, x, values);
			else if (dtype == HD_DTYPE_FIXED32)
				(void)hd_add_fixed(to, x, values);
			else
				hd_add_f32(to, x, values);
		}
	}
	return seconds() - began;
}

static void measure(uint32_t inputs, uint8_t dtype, const char *name) {
	struct hd_aggregator_config config = {.memory_bytes = UINT64_C(1) << 30};
	struct world *world = world_open(inputs, &config);
	uint8_t *data = calloc((size_t)INPUTS_MAX * RUN, PACKET),
		*sum = aligned_alloc(64, (size_t)2 * BYTES + 64);
	double best = 1e9, least = 1e9, gbits = (double)BYTES * inputs * 8e-9;

	if (!data || !sum)
		abort();
	memset(sum, 0, 2 * BYTES);
	for (int round = 0; round < ROUNDS; round++) {
		double took = one_group(world, inputs, dtype, data);
		double alone = bound(inputs, dtype, data, sum);

		best = took < best ? took : best;
		least = alone < least ? alone : least;
	}
	printf("%-5s %u inputs of %.1f MB, %d bytes a chunk: %6.1f Gbit/s in, %5.0f ns a chunk; adding alone "
	       "%6.1f Gbit/s: %4.1f %% (aim: 60 Gbit/s)\n",
	       name,
	       inputs,
	       (double)BYTES * 1e-6,
	       CHUNK,
	       gbits / best,
	       best * 1e9 / ((double)CHUNKS * inputs),
	       gbits / least,
	       100 * least / best);
	free(data);
	free(sum);
	world_close(world);
}

int main(void) {
	measure(4, HD_DTYPE_FP32, "fp32");
	measure(8, HD_DTYPE_FP32, "fp32");
	measure(8, HD_DTYPE_FP16, "fp16");
	measure(8, HD_DTYPE_FIXED32, "int32");
	return 0;
}
