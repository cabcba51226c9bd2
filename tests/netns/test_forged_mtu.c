/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attacker off the path and without the key claims by ICMP that the path to a peer has a small MTU: packets to it
 * still leave whole, and those of one size together. Where the MTU is small for a while they leave one by one, and then
 * together again.
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
#define CHUNKS 8
#define NARROW 600 /* bytes */
#define IPV4_FRAGMENT 0x3fff /* more fragments follow, or the offset */

struct node {
	bool due;
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
	const struct hd_addr peer = {PEER, HD_PORT};
	struct node *node = core;
	uint8_t head[56] = {0};

	node->due = false;
	for (int i = 0; i < CHUNKS; i++)
		sink->send(sink, peer, head, sizeof head, payload, sizeof payload);
}

static hd_ns deadline(const void *core) {
	return ((const struct node *)core)->due ? 0 : HD_NEVER;
}

static const struct hd_core_ops node_ops = {on_receive, on_tick, deadline};

static void make_network(void) {
	if (unshare(CLONE_NEWNET) < 0) {
		(void)printf("skipped: needs root: it makes a network namespace\n");
		exit(77);
	}
	check(system("ip link set lo up && ip link add e0 type veth peer name e1 && ip link set e1 up && "
		     "ip link set e0 up && ip addr add 10.9.0.1/16 dev e0 && "
		     "ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev e0"
	      ) == 0,
	      "a network",
	      0);
}

static uint16_t sum(const uint8_t *data, size_t bytes) {
	uint32_t total = 0;

	for (size_t i = 0; i < bytes; i += 2)
		total += hd_get16(data + i);
	total = (total & 0xffff) + (total >> 16);
	return (uint16_t) ~(total + (total >> 16));
}

/* "Fragmentation needed" for a packet that this host could have sent there. */
static void forge(void) {
	const struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(HERE)};
	uint8_t icmp[8 + 20 + 8] = {3, 4}, *ip = icmp + 8, *udp = ip + 20;
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);

	hd_put16(icmp + 6, NARROW);
	ip[0] = 0x45;
	hd_put16(ip + 2, 1492);
	hd_put16(ip + 6, 0x4000); /* not to be fragmented */
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	hd_put32(ip + 12, HERE);
	hd_put32(ip + 16, PEER);
	hd_put16(ip + 10, sum(ip, 20));
	hd_put16(udp, HD_PORT);
	hd_put16(udp + 2, HD_PORT);
	hd_put16(udp + 4, 1472);
	hd_put16(icmp + 2, sum(icmp, sizeof icmp));
	check(sendto(fd, icmp, sizeof icmp, 0, (const struct sockaddr *)&here, sizeof here)
		      == sizeof icmp,
	      "ICMP",
	      0);
	close(fd);
	usleep(50000);
}

struct seen {
	uint64_t bytes; /* of UDP and IP */
	unsigned packets, fragments; /* what left together is one */
};

/* The packets to the peer when all chunks are to be sent once. */
static struct seen step(struct hd_udp *udp, struct node *node, int sniffer) {
	uint8_t frame[65536];
	struct seen seen = {0};
	ssize_t n;

	node->due = true;
	check(hd_udp_poll(udp, (struct hd_node){&node_ops, node}, 0) == 0, "a step", 0);
	usleep(50000);
	while ((n = recv(sniffer, frame, sizeof frame, MSG_DONTWAIT)) > 0) {
		if (n < 28 || frame[9] != IPPROTO_UDP || hd_get32(frame + 16) != PEER)
			continue;
		seen.bytes += (uint64_t)n;
		seen.packets++;
		seen.fragments += (hd_get16(frame + 6) & IPV4_FRAGMENT) != 0;
	}
	check(seen.bytes > (size_t)CHUNKS * 1408, "bytes that leave", seen.bytes);
	return seen;
}

static void check_narrow_for_a_while(struct hd_udp *udp, struct node *node, int sniffer) {
	struct seen seen;
	int tries = 0;

	check(system("ip link set e0 mtu 1000") == 0, "a narrow link", 0);
	seen = step(udp, node, sniffer);
	check(seen.fragments == 2 * CHUNKS, "fragments on a narrow link", seen.fragments);
	check(system("ip link set e0 mtu 1500") == 0, "a link as before", 0);
	while (seen.packets > 1 && tries++ < 200)
		seen = step(udp, node, sniffer);
	check(seen.packets == 1, "packets when they leave together again", seen.packets);
}

int main(void) {
	const struct hd_udp_config config = {.bind = {HERE, HD_PORT}};
	struct node node = {0};
	struct hd_udp *udp;
	char error[128] = "";
	int sniffer;

	make_network();
	sniffer = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));
	check(sniffer >= 0, "a sniffer", 0);
	check(hd_udp_open(&config, &udp, error, sizeof error) == 0, error, 0);
	for (int round = 0; round < 3; round++) {
		struct seen seen = step(udp, &node, sniffer);

		check(seen.fragments == 0, "fragments", seen.fragments);
		check(seen.packets == 1, "packets", seen.packets);
		if (round == 0)
			forge();
	}
	check_narrow_for_a_while(udp, &node, sniffer);
	check(hd_udp_stats(udp)->send_errors == 0, "packets lost", hd_udp_stats(udp)->send_errors);
	hd_udp_close(udp);
	close(sniffer);
	return 0;
}
