/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two sockets of one host give far more to a slow link at once than its queue can hold. All chunks leave nevertheless,
 * each socket's in order, and packets of sessions overtake them. So they do beside chunks for a host whose address the
 * kernel does not find, and keeps for a while:
 *
 *      2 x CHUNKS chunks --> [queue of 128 kB] -- 100 Mbit/s -->
 *
 * Needs root; in a network namespace of its own.
 */
#include "hd_bytes.h"
#include "hd_limits.h"
#include "hd_udp.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HERE 0x0a090001u
#define PEER 0x0a090002u
#define ABSENT 0x0a090003u
#define SOCKETS 2
#define CHUNKS 1200u /* of each socket */
#define FOR_ABSENT 400u /* with the first of these, one of ten */
#define A_TICK 10u /* chunks of one tick, and one packet of a session */
#define HEAD 56
#define CHUNK (HEAD + HD_CHUNK_BYTES_DEFAULT)
#define LONGEST (4 * HD_SECOND) /* the link needs 0.3 s */

struct node {
	struct hd_udp *udp;
	uint32_t chunks; /* sent */
	uint32_t seen, sessions; /* left: chunks, packets of sessions */
	uint32_t before; /* chunks that left before the last of those */
};

static void check(bool good, const char *what, unsigned long long value) {
	if (good)
		return;
	(void)fprintf(stderr, "FAILED: %s: %llu\n", what, value);
	exit(1);
}

static void on_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {}

static void on_tick(void *core, hd_ns now, struct hd_sink *sink) {
	static const uint8_t payload[HD_CHUNK_BYTES_DEFAULT];
	const struct hd_addr peer = {PEER, HD_PORT}, absent = {ABSENT, HD_PORT};
	struct node *node = core;
	uint8_t head[HEAD] = {0};

	for (uint32_t i = 0; i < A_TICK && node->chunks < CHUNKS; i++) {
		hd_put32(head, node->chunks++);
		sink->send(sink, peer, head, sizeof head, payload, sizeof payload);
	}
	if (node->chunks <= FOR_ABSENT)
		sink->send(sink, absent, head, sizeof head, payload, sizeof payload);
	hd_put32(head, node->chunks / A_TICK);
	sink->send(sink, peer, head, sizeof head, NULL, 0);
}

static hd_ns deadline(const void *core) {
	return ((const struct node *)core)->chunks < CHUNKS ? 0 : HD_NEVER;
}

static const struct hd_core_ops node_ops = {on_receive, on_tick, deadline};

static void make_network(void) {
	if (unshare(CLONE_NEWNET) < 0) {
		(void)printf("skipped: needs root: it makes a network namespace\n");
		exit(77);
	}
	check(system("ip link set lo up && ip link add e0 type veth peer name e1 && ip link set e1 up && "
		     "ip link set e0 up && ip addr add 10.9.0.1/16 dev e0 && "
		     "ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev e0 && "
		     "tc qdisc add dev e0 root tbf rate 100mbit burst 15k limit 128k"
	      ) == 0,
	      "a network",
	      0);
}

/* One datagram, or a train of them. */
static void take(struct node *node, const uint8_t *data, size_t bytes) {
	if (bytes == HEAD) {
		check(hd_get32(data) == ++node->sessions, "order of sessions", hd_get32(data));
		node->before = node->seen;
		return;
	}
	check(bytes % CHUNK == 0, "bytes of a train", bytes);
	for (; bytes > 0; bytes -= CHUNK, data += CHUNK)
		check(hd_get32(data) == node->seen++, "order of chunks", hd_get32(data));
}

static void look(int sniffer, struct node *nodes) {
	uint8_t frame[65536];
	struct sockaddr_storage from;
	socklen_t length = sizeof from;
	ssize_t n;

	while ((n = recvfrom(
			sniffer,
			frame,
			sizeof frame,
			MSG_DONTWAIT,
			(struct sockaddr *)&from,
			&length
		))
	       > 28)
		if (frame[9] == IPPROTO_UDP)
			take(&nodes[hd_get16(frame + 20) - HD_PORT], frame + 28, (size_t)n - 28);
}

static int open_sniffer(void) {
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP)), bytes = 16 << 20;

	check(fd >= 0, "a sniffer", 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
	return fd;
}

int main(void) {
	struct node nodes[SOCKETS] = {0};
	char error[128] = "";
	hd_ns began;
	int sniffer;

	make_network();
	sniffer = open_sniffer();
	for (uint16_t i = 0; i < SOCKETS; i++) {
		const struct hd_udp_config config = {.bind = {HERE, (uint16_t)(HD_PORT + i)}};

		check(hd_udp_open(&config, &nodes[i].udp, error, sizeof error) == 0, error, 0);
	}
	began = hd_udp_now();
	while (nodes[0].seen + nodes[1].seen < SOCKETS * CHUNKS && hd_udp_now() < began + LONGEST) {
		for (int i = 0; i < SOCKETS; i++)
			check(hd_udp_poll(
				      nodes[i].udp,
				      (struct hd_node){&node_ops, &nodes[i]},
				      hd_udp_now() + HD_MS / 4
			      ) == 0,
			      "a poll",
			      0);
		look(sniffer, nodes);
	}
	for (int i = 0; i < SOCKETS; i++) {
		const struct hd_udp_stats *stats = hd_udp_stats(nodes[i].udp);

		check(nodes[i].seen == CHUNKS, "chunks that left", nodes[i].seen);
		check(nodes[i].sessions == CHUNKS / A_TICK, "packets of sessions", nodes[i].sessions
		);
		check(stats->send_errors == 0, "packets lost", stats->send_errors);
		check(stats->waited > 0, "chunks that waited", stats->waited);
		check(nodes[i].before < CHUNKS / 2, "chunks before sessions", nodes[i].before);
		hd_udp_close(nodes[i].udp);
	}
	close(sniffer);
	return 0;
}
