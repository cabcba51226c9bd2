/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The native switch in memory, on one core: chunks of four members in bursts of 32, each sum completed by the fourth.
 * Beside it, over the same packets and cells: a copy of the values, and hd_add_fixed() or hd_add_f32() of them alone,
 * which is the cost without lookups. "hot": packets and cells stay in the second cache; "cool": 13 MB of packets,
 * written just before, come from the third. Best and median of the rounds; headers are rewritten outside of the timed
 * part.
 */
#include "hd_kernels.h"
#include "hd_limits.h"
#include "switch_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEMBERS 4
#define BURST 32
#define ROUNDS 31
#define ROOM 1600 /* of a packet in memory */
#define SERVICE 0x0a000001

enum work {
	WORK_SWITCH, /* the core */
	WORK_HEADERS, /* and each result's headers for four receivers that share the values */
	WORK_COPIES, /* and four whole frames */
	WORK_ADD,
	WORK_COPY,
	WORKS
};
static const char *const works[WORKS]
	= {"switch", "switch, 4 headers", "switch, 4 frames", "add alone", "copy alone"};

struct shape {
	const char *name;
	uint8_t dtype;
	uint16_t count;
	size_t packets; /* a round */
	double aim; /* Mpps; 0: none */
};
static const struct shape shapes[] = {
	{"256 bytes, hot", HD_DTYPE_FIXED32, 64, 256, 20},
	{"256 bytes, cool", HD_DTYPE_FIXED32, 64, 8192, 0},
	{"1,400 bytes, hot", HD_DTYPE_FIXED32, 350, 256, 8},
	{"1,400 bytes, cool", HD_DTYPE_FIXED32, 350, 8192, 0},
	{"1,400 bytes fp32, hot", HD_DTYPE_FP32, 350, 256, 8},
};

struct bench {
	const struct shape *shape;
	struct hd_switch_core *core;
	struct hd_switch_self self;
	struct hd_switch_member members[MEMBERS];
	uint8_t *memory, *cells;
	struct hd_switch_packet *packets;
	uint32_t round;
	uint8_t copies[MEMBERS][ROOM];
};

static double now_s(void) {
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void *memory_of(size_t bytes) {
	void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!memory) {
		(void)fprintf(stderr, "bench_switch: no memory\n");
		exit(1);
	}
	memset(memory, 0, bytes);
	return memory;
}

/* Packet i is of member i % 4 and chunk i / 4, in a lease with as many slots as there are chunks. */
static size_t slots_of(const struct shape *shape) {
	return shape->packets / MEMBERS;
}

static void set_up(struct bench *bench) {
	struct hd_switch_core_config config
		= {.self = {.mac = {2}, .ipv4 = SERVICE, .udp_port = HD_SWITCH_UDP_PORT},
		   .hash_key = {0x1234567, 0x89abcdef},
		   .memory_bytes = 1 << 28};
	struct hd_switch_lease lease = {
		.job = 1,
		.dtype = bench->shape->dtype,
		.count = bench->shape->count,
		.slot_count = (uint16_t)slots_of(bench->shape),
		.waits = (1 << MEMBERS) - 1,
		.member_count = MEMBERS,
		.members = bench->members,
	};
	char error[HD_TEXT_BYTES_MAX];

	for (uint32_t i = 0; i < MEMBERS; i++)
		bench->members[i] = (struct hd_switch_member
		){.token = 0x9e3779b97f4a7c15 * (i + 1),
		  .worker = (uint16_t)i,
		  .copy = {.port = (uint16_t)i, .ipv4 = 0x0a000010 + i, .udp_port = 4773}};
	bench->self = config.self;
	if (hd_switch_core_create(&config, &bench->core, error, sizeof error) < 0
	    || hd_switch_core_lease_set(bench->core, &lease, error, sizeof error) < 0) {
		(void)fprintf(stderr, "bench_switch: %s\n", error);
		exit(1);
	}
	bench->round = 0;
	bench->memory = memory_of(bench->shape->packets * ROOM);
	bench->cells = memory_of(slots_of(bench->shape) * ROOM);
	bench->packets = memory_of(bench->shape->packets * sizeof *bench->packets);
}

static void tear_down(struct bench *bench) {
	hd_switch_core_destroy(bench->core);
	free(bench->memory);
	free(bench->cells);
	free(bench->packets);
}

/* Rewrites the headers; the values are those that the last round left. */
static void make_packets(struct bench *bench) {
	struct frame_ends ends = {.destination = SERVICE, .destination_port = HD_SWITCH_UDP_PORT};
	size_t payload = HD_CHUNK_HEADER_BYTES + 4u * bench->shape->count;

	bench->round++;
	for (size_t i = 0; i < bench->shape->packets; i++) {
		uint8_t *data = bench->memory + i * ROOM;
		struct hd_chunk_header header = {
			.job = 1,
			.worker = i % MEMBERS,
			.round = bench->round,
			.dtype = bench->shape->dtype,
			.slot = (uint16_t)(i / MEMBERS),
			.chunk = (uint32_t)(i / MEMBERS),
			.count = bench->shape->count,
			.token = bench->members[i % MEMBERS].token,
		};

		hd_chunk_encode(&header, data + FRAME_CHUNK);
		bench->packets[i] = (struct hd_switch_packet
		){.data = data, .bytes = frame_put_udp(data, &ends, payload)};
	}
}

static void
copy_result(struct bench *bench, const struct hd_switch_packet *packet, enum work work) {
	const struct hd_switch_copy *copies;
	size_t count = hd_switch_core_copies(bench->core, packet, &copies);
	size_t bytes = work == WORK_COPIES ? packet->bytes : FRAME_HEADERS;

	for (size_t i = 0; i < count; i++) {
		memcpy(bench->copies[i], packet->data, bytes);
		hd_switch_address(&bench->self, &copies[i], bench->copies[i]);
	}
}

static void do_switch(struct bench *bench, enum work work) {
	for (size_t i = 0; i < bench->shape->packets; i += BURST) {
		hd_switch_core_burst(bench->core, bench->packets + i, BURST);
		for (size_t j = i; work != WORK_SWITCH && j < i + BURST; j++)
			if (bench->packets[j].verdict == HD_SWITCH_COPY)
				copy_result(bench, &bench->packets[j], work);
	}
}

static bool do_values(struct bench *bench, enum work work) {
	bool overflow = false;

	for (size_t i = 0; i < bench->shape->packets; i++) {
		void *sum = bench->cells + i / MEMBERS * ROOM;
		const void *values = bench->packets[i].data + FRAME_HEADERS;

		if (work == WORK_COPY)
			memcpy(sum, values, (size_t)4 * bench->shape->count);
		else if (bench->shape->dtype == HD_DTYPE_FP32)
			hd_add_f32(sum, values, bench->shape->count);
		else
			overflow |= hd_add_fixed(sum, values, bench->shape->count);
	}
	return overflow;
}

/* Nanoseconds a packet. */
static double time_round(struct bench *bench, enum work work) {
	size_t passes = 1 + 16384 / bench->shape->packets;
	double spent = 0;

	for (size_t pass = 0; pass < passes; pass++) {
		double began;

		make_packets(bench);
		began = now_s();
		if (work <= WORK_COPIES)
			do_switch(bench, work);
		else
			(void)do_values(bench, work);
		spent += now_s() - began;
	}
	return spent * 1e9 / (double)(passes * bench->shape->packets);
}

static int by_size(const void *a, const void *b) {
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void check(const struct bench *bench) {
	uint64_t counters[HD_SWITCH_COUNTER_COUNT];

	hd_switch_core_counters(bench->core, counters);
	if (counters[HD_SWITCH_COUNTER_absorbed] != 3 * counters[HD_SWITCH_COUNTER_completed]
	    || counters[HD_SWITCH_COUNTER_completed] == 0) {
		(void)fprintf(stderr, "bench_switch: not every fourth packet completed a sum\n");
		exit(1);
	}
}

static void measure(const struct shape *shape) {
	static struct bench bench;
	static double spent[WORKS][ROUNDS];

	bench.shape = shape;
	set_up(&bench);
	for (int round = 0; round < ROUNDS; round++)
		for (enum work work = 0; work < WORKS; work++)
			spent[work][round] = time_round(&bench, work);
	check(&bench);
	for (enum work work = 0; work < WORKS; work++) {
		double best, middle;

		qsort(spent[work], ROUNDS, sizeof(double), by_size);
		best = spent[work][0];
		middle = spent[work][ROUNDS / 2];
		printf("%-22s %-18s best %6.1f ns %6.2f Mpps %6.1f Gbit/s, median %6.2f Mpps",
		       shape->name,
		       works[work],
		       best,
		       1e3 / best,
		       32.0 * shape->count / best,
		       1e3 / middle);
		if (work == WORK_SWITCH && shape->aim > 0)
			printf(" (aim: %.0f)", shape->aim);
		printf("\n");
	}
	tear_down(&bench);
}

int main(void) {
	printf("%s; Gbit/s of values\n", hd_kernels_name());
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		measure(&shapes[i]);
	return 0;
}
