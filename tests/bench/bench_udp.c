/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The udp driver alone, one end of bench_udp.sh: a core that offers packets without end, or one that
 * counts them. No transfer layer and no congestion control, so what counts is what arrives.
 */
#include "hd_udp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 2
#define BURST 64
#define HEAD_BYTES 56
#define PAYLOAD_BYTES 1408
#define SENDER_IPV4 0x0a4d0001u /* 10.77.0.1 */
#define RECEIVER_IPV4 0x0a4d0002u
#define PORT 4773

struct blaster {
	struct hd_addr peer;
	const uint8_t *payload;
};

static void
ignore(void *core, hd_ns now, const struct hd_packet *packets, size_t count, struct hd_sink *sink) {
}

static void blast(void *core, hd_ns now, struct hd_sink *sink) {
	struct blaster *blaster = core;
	uint8_t head[HEAD_BYTES] = {0};

	for (int i = 0; i < BURST; i++)
		sink->send(
			sink,
			blaster->peer,
			head,
			sizeof head,
			blaster->payload + (size_t)i * PAYLOAD_BYTES,
			PAYLOAD_BYTES
		);
}

static hd_ns blast_deadline(const void *core) {
	return 0;
}

static const struct hd_core_ops blast_ops = {ignore, blast, blast_deadline};

struct counter {
	uint64_t bytes, packets;
	hd_ns first, last;
};

static void
count(void *core, hd_ns now, const struct hd_packet *packets, size_t n, struct hd_sink *sink) {
	struct counter *counter = core;

	if (counter->packets == 0)
		counter->first = now;
	counter->last = now;
	counter->packets += n;
	for (size_t i = 0; i < n; i++)
		counter->bytes += packets[i].bytes;
}

static void no_tick(void *core, hd_ns now, struct hd_sink *sink) {}

static hd_ns never(const void *core) {
	return HD_NEVER;
}

static const struct hd_core_ops count_ops = {count, no_tick, never};

static struct hd_udp *open_at(uint32_t ipv4, uint16_t port, bool plain) {
	struct hd_udp_config config = {
		.bind = {.ipv4 = ipv4, .port = port},
		.no_gso = plain,
		.no_gro = plain,
		.receive_buffer_bytes = 32u << 20,
	};
	struct hd_udp *udp = NULL;
	char error[128];

	if (hd_udp_open(&config, &udp, error, sizeof error) < 0)
		printf("udp: %s\n", error);
	return udp;
}

/* Counts for a little longer than the sender sends. */
static int run_receiver(bool plain) {
	struct hd_udp *udp = open_at(RECEIVER_IPV4, PORT, plain);
	struct counter counter = {0};
	hd_ns end = hd_udp_now() + (SECONDS + 1) * HD_SECOND;
	double seconds;

	if (!udp)
		return EXIT_FAILURE;
	while (hd_udp_now() < end)
		(void)hd_udp_poll(udp, (struct hd_node){&count_ops, &counter}, end);
	seconds = (double)(counter.last - counter.first) * 1e-9;
	printf("udp driver %s received %6.1f Gbit/s in packets of %d bytes\n",
	       plain ? "plain    " : "GSO + GRO",
	       seconds > 0 ? (double)counter.bytes * 8e-9 / seconds : 0,
	       HEAD_BYTES + PAYLOAD_BYTES);
	hd_udp_close(udp);
	return EXIT_SUCCESS;
}

static int run_sender(bool plain) {
	static uint8_t payload[(size_t)BURST * PAYLOAD_BYTES];
	struct blaster blaster = {.peer = {RECEIVER_IPV4, PORT}, .payload = payload};
	struct hd_udp *udp = open_at(SENDER_IPV4, 0, plain);
	hd_ns end = hd_udp_now() + SECONDS * HD_SECOND;

	if (!udp)
		return EXIT_FAILURE;
	while (hd_udp_now() < end)
		(void)hd_udp_poll(udp, (struct hd_node){&blast_ops, &blaster}, 0);
	printf("udp driver %s offered  %6.1f Gbit/s\n",
	       plain ? "plain    " : "GSO + GRO",
	       (double)hd_udp_stats(udp)->sent_bytes * 8e-9 / SECONDS);
	hd_udp_close(udp);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
	bool plain = argc > 2 && strcmp(argv[2], "plain") == 0;

	if (argc > 1 && strcmp(argv[1], "receive") == 0)
		return run_receiver(plain);
	if (argc > 1 && strcmp(argv[1], "send") == 0)
		return run_sender(plain);
	(void)fprintf(stderr, "usage: bench_udp send|receive [plain]  (bench_udp.sh runs both)\n");
	return EXIT_FAILURE;
}
