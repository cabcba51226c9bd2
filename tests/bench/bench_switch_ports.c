/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch as a process, on one core: chunks of four members, each on its own port (rings in memory), through the
 * ports, the executor and the replication engine. Beside it the executor alone on the same frames. The rings are
 * filled and emptied outside of what is timed: with 32 frames of each member, and with 256, which the second cache
 * does not hold, so that each frame is fetched from farther away. Best and median of the rounds.
 *
 *     bench_switch_ports [SPEC...]     with SPEC: the P4 program on DPDK's pipeline, too; interpreted (.spec),
 *                                      or as machine code (.so)
 */
#include "hd_dpdk_port.h"
#include "hd_ports.h"
#include "hd_swx.h"
#include "hd_wait.h"
#include "switch_frames.h"

#include <rte_eth_ring.h>
#include <rte_ring.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 4
#define EACH 256 /* frames of a member and round */
#define EACH_FEW 32 /* all of them fit the second cache, as frames do that were just received */
#define ROUNDS 201
#define SERVICE 0x0a000001
#define RING 2048

struct shape {
	const char *name;
	uint16_t count;
	double aim; /* Mpps of the native executor; 0: none */
};

static const struct shape shapes[]
	= {{"226 bytes (32 lanes)", 32, 0}, {"354 bytes", 64, 0}, {"1,498 bytes", 350, 0}};

static struct rte_ring *in[MEMBERS], *out[MEMBERS];
static struct rte_mempool *pool;
static struct hd_ports *ports;
static struct hd_switch_member members[MEMBERS];

static void die(const char *what) {
	(void)fprintf(stderr, "bench_switch_ports: %s\n", what);
	exit(1);
}

static void put_chunk(
	uint8_t *data,
	uint32_t *bytes,
	uint16_t count,
	uint32_t round,
	uint32_t chunk,
	uint32_t member
) {
	const struct frame_ends ends
		= {.destination = SERVICE, .destination_port = HD_SWITCH_UDP_PORT};
	const struct hd_chunk_header header = {
		.job = 1,
		.worker = (uint16_t)member,
		.round = round,
		.dtype = HD_DTYPE_FIXED32,
		.slot = (uint16_t)chunk,
		.chunk = chunk,
		.count = count,
		.token = members[member].token,
	};

	hd_chunk_encode(&header, data + FRAME_CHUNK);
	*bytes = frame_put_udp(data, &ends, HD_CHUNK_HEADER_BYTES + 4u * count);
}

static void lease(const struct hd_switch_executor *x, uint16_t count) {
	const struct hd_switch_lease lease = {
		.id = 1,
		.job = 1,
		.dtype = HD_DTYPE_FIXED32,
		.count = count,
		.slot_count = EACH,
		.waits = (1 << MEMBERS) - 1,
		.member_count = MEMBERS,
		.members = members,
	};
	char error[200];

	if (x->ops->lease_set(x->self, &lease, error, sizeof error) < 0)
		die(error);
}

static void end_lease(const struct hd_switch_executor *x) {
	char error[200];

	if (x->ops->lease_end(x->self, 1, error, sizeof error) < 0)
		die(error);
}

/* --- through the ports --- */

static void fill(uint16_t count, uint32_t each, uint32_t round) {
	for (uint32_t i = 0; i < each * MEMBERS; i++) {
		struct rte_mbuf *frame = rte_pktmbuf_alloc(pool);
		uint32_t bytes;

		if (!frame)
			die("no buffer");
		put_chunk(
			rte_pktmbuf_mtod(frame, uint8_t *),
			&bytes,
			count,
			round,
			i / MEMBERS,
			i % MEMBERS
		);
		frame->data_len = (uint16_t)bytes;
		frame->pkt_len = bytes;
		if (rte_ring_enqueue(in[i % MEMBERS], frame) != 0)
			die("a full ring");
	}
}

static uint32_t empty(void) {
	uint32_t frames = 0;

	for (int i = 0; i < MEMBERS; i++) {
		void *frame;

		while (rte_ring_dequeue(out[i], &frame) == 0) {
			rte_pktmbuf_free(frame);
			frames++;
		}
	}
	return frames;
}

static double time_ports(uint16_t count, uint32_t each, uint32_t round) {
	hd_ns began;
	double spent;

	fill(count, each, round);
	began = hd_wait_now();
	for (int i = 0; i < 3; i++)
		(void)hd_ports_poll(ports, 0);
	spent = (double)(hd_wait_now() - began);
	if (empty() != each * MEMBERS)
		die("not every result came");
	return spent / (each * MEMBERS);
}

/* --- the executor alone --- */

static double time_executor(const struct hd_switch_executor *x, uint16_t count, uint32_t round) {
	static uint8_t memory[EACH * MEMBERS][2048];
	static struct hd_switch_packet packets[EACH * MEMBERS];
	uint32_t completed = 0;
	hd_ns began;
	double spent;

	for (uint32_t i = 0; i < EACH * MEMBERS; i++) {
		packets[i] = (struct hd_switch_packet
		){.data = memory[i] + HD_SWITCH_HEADROOM_BYTES, .port = (uint16_t)(i % MEMBERS)};
		put_chunk(
			packets[i].data, &packets[i].bytes, count, round, i / MEMBERS, i % MEMBERS
		);
	}
	began = hd_wait_now();
	for (uint32_t i = 0; i < EACH * MEMBERS; i += 64)
		x->ops->burst(x->self, packets + i, 64);
	spent = (double)(hd_wait_now() - began);
	for (uint32_t i = 0; i < EACH * MEMBERS; i++)
		completed += packets[i].verdict == HD_SWITCH_COPY;
	if (completed != EACH)
		die("not every sum is complete");
	return spent / (EACH * MEMBERS);
}

/* --- rounds --- */

static int compare(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
print_result(const char *executor, const char *shape, const char *how, double ns[ROUNDS]) {
	qsort(ns, ROUNDS, sizeof ns[0], compare);
	printf("%-8s %-22s %-25s %6.1f ns best %6.1f median  %6.2f Mpps in (median)\n",
	       executor,
	       shape,
	       how,
	       ns[0],
	       ns[ROUNDS / 2],
	       1e3 / ns[ROUNDS / 2]);
}

static void bench_alone(const struct hd_switch_executor *x, const struct shape *shape) {
	double ns[ROUNDS];

	lease(x, shape->count);
	for (uint32_t round = 0; round < ROUNDS; round++)
		ns[round] = time_executor(x, shape->count, round + 1);
	end_lease(x);
	print_result(x->ops->name, shape->name, "alone", ns);
}

static void
bench_ports(const struct hd_switch_executor *x, const struct shape *shape, uint32_t each) {
	double ns[ROUNDS];
	char how[32];

	(void)snprintf(how, sizeof how, "with ports, %u frames", each * MEMBERS);
	lease(x, shape->count);
	for (uint32_t round = 0; round < ROUNDS; round++)
		ns[round] = time_ports(shape->count, each, round + 1);
	end_lease(x);
	print_result(x->ops->name, shape->name, how, ns);
}

/* --- setting up --- */

static void make_rings(void) {
	for (uint32_t i = 0; i < MEMBERS; i++) {
		char name[16];

		(void)snprintf(name, sizeof name, "in%u", i);
		in[i] = rte_ring_create(name, RING, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
		(void)snprintf(name, sizeof name, "out%u", i);
		out[i] = rte_ring_create(name, RING, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
		(void)snprintf(name, sizeof name, "b%u", i);
		if (!in[i] || !out[i] || rte_eth_from_rings(name, &in[i], 1, &out[i], 1, 0) < 0)
			die("rings");
		members[i] = (struct hd_switch_member
		){.token = 0x9e3779b97f4a7c15 * (i + 1),
		  .worker = (uint16_t)i,
		  .copy
		  = {.port = (uint16_t)i,
		     .mac = {2, 0, 0, 0, 0, (uint8_t)i},
		     .ipv4 = 0x0a000010 + i,
		     .udp_port = 4773,
		     .token = 0x9e3779b97f4a7c15 * (i + 1)}};
	}
	pool = rte_pktmbuf_pool_create("bench", 8191, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, -1);
	if (!pool)
		die("buffers");
}

static void open_all(void) {
	const struct dpdk_eal eal = {.prefix = "heddle-bench", .memory_bytes = 512 << 20};
	struct hd_switch_link links[MEMBERS];
	const struct hd_ports_config config = {
		.links = links,
		.count = MEMBERS,
		.self
		= {.mac = {2, 0, 0, 0, 1, 0}, .ipv4 = SERVICE, .udp_port = HD_SWITCH_UDP_PORT},
	};
	char error[200] = "", text[64];

	if (dpdk_start_eal(&eal, error, sizeof error) < 0)
		die(error);
	make_rings();
	for (int i = 0; i < MEMBERS; i++) {
		(void)snprintf(text, sizeof text, "net_ring_b%d", i);
		if (hd_switch_link_read(text, &links[i], error, sizeof error) < 0)
			die(error);
	}
	if (hd_ports_open(&config, &ports, error, sizeof error) < 0)
		die(error);
}

static void bench_all(struct hd_switch_executor *x, size_t count) {
	hd_ports_set_executor(ports, x);
	for (size_t i = 0; i < count; i++) {
		bench_alone(x, &shapes[i]);
		bench_ports(x, &shapes[i], EACH_FEW);
		bench_ports(x, &shapes[i], EACH);
	}
	x->ops->destroy(x->self);
}

int main(int argc, char **argv) {
	struct hd_switch_core_config core
		= {.hash_key = {0x1234567, 0x89abcdef}, .memory_bytes = 1 << 28};
	struct hd_switch_executor x;
	char error[200];

	open_all();
	core.self = *hd_ports_self(ports);
	if (hd_switch_native(&core, &x, error, sizeof error) < 0)
		die(error);
	bench_all(&x, sizeof shapes / sizeof shapes[0]);
	for (int i = 1; i < argc; i++) {
		if (hd_swx_open(argv[i], "bench", &core.self, &x, error, sizeof error) < 0)
			die(error);
		printf("%s:\n", argv[i]);
		bench_all(&x, 1);
	}
	hd_ports_close(ports);
	return 0;
}
