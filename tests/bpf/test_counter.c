/* SPDX-License-Identifier: BSD-3-Clause */
/* The link monitor's BPF program: what it counts as the fabric's, what as others', and that all passes. In a
 * network namespace of its own, on its loopback. */
#include "hd_counter.h"

#include <bpf/bpf.h>

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PORT 4773
#define SKIP 77

static struct hd_counter *counter;
static char open_error[256];

struct frame {
	uint8_t data[1514];
	uint32_t bytes;
};

static struct frame ipv4(uint8_t protocol, uint16_t source, uint16_t destination, uint32_t bytes) {
	struct frame f = {.bytes = bytes};
	struct ethhdr *eth = (void *)f.data;
	struct iphdr *ip = (void *)(eth + 1);
	uint16_t ports[2] = {htons(source), htons(destination)};

	eth->h_proto = htons(ETH_P_IP);
	ip->version = 4;
	ip->ihl = 5;
	ip->protocol = protocol;
	ip->tot_len = htons((uint16_t)(bytes - sizeof(*eth)));
	ip->saddr = htonl(0x0a000001);
	ip->daddr = htonl(0x0a000002);
	memcpy(ip + 1, ports, sizeof(ports));
	return f;
}

static void send_frame(int direction, const struct frame *frame, uint32_t repeat) {
	LIBBPF_OPTS(
		bpf_test_run_opts,
		opts,
		.data_in = frame->data,
		.data_size_in = frame->bytes,
		.repeat = (int)repeat
	);

	if (bpf_prog_test_run_opts(hd_counter_program(counter, direction), &opts))
		fail_msg("%u bytes: %s", frame->bytes, strerror(errno));
	assert_int_equal((int)opts.retval, TC_ACT_UNSPEC);
}

struct seen {
	uint64_t ours, others;
	uint32_t flows; /* buckets with bytes */
};

static struct seen
seen_between(const struct hd_monitor_counts *before, const struct hd_monitor_counts *after) {
	struct seen seen = {.ours = after->ours - before->ours};

	for (uint32_t i = 0; i < HD_COUNTS_FLOWS; i++) {
		seen.others += after->flows[i] - before->flows[i];
		seen.flows += after->flows[i] != before->flows[i];
	}
	return seen;
}

/* The counts of both directions since the call before; there is no real traffic in the namespace. */
static void count(struct seen seen[HD_COUNTS_DIRECTIONS]) {
	static struct hd_monitor_counts before[HD_COUNTS_DIRECTIONS];
	struct hd_monitor_counts now[HD_COUNTS_DIRECTIONS];

	hd_counter_read(counter, now);
	for (int direction = 0; direction < HD_COUNTS_DIRECTIONS; direction++)
		seen[direction] = seen_between(&before[direction], &now[direction]);
	memcpy(before, now, sizeof(before));
}

static void fabric_and_others(void **state) {
	struct frame ours = ipv4(IPPROTO_UDP, 40000, PORT, 1506);
	struct frame back = ipv4(IPPROTO_UDP, PORT, 40000, 120);
	struct frame tcp = ipv4(IPPROTO_TCP, PORT, PORT, 1514);
	struct frame udp = ipv4(IPPROTO_UDP, 53, 40001, 300);
	struct seen seen[HD_COUNTS_DIRECTIONS];

	(void)state;
	count(seen);
	send_frame(HD_COUNTS_OUT, &ours, 10);
	send_frame(HD_COUNTS_OUT, &tcp, 3);
	send_frame(HD_COUNTS_IN, &back, 7);
	send_frame(HD_COUNTS_IN, &udp, 2);
	count(seen);
	assert_int_equal(seen[HD_COUNTS_OUT].ours, 15060);
	assert_int_equal(seen[HD_COUNTS_OUT].others, 4542);
	assert_int_equal(seen[HD_COUNTS_IN].ours, 840);
	assert_int_equal(seen[HD_COUNTS_IN].others, 600);
}

/* Flows are told apart by their ports; a few may share a counter, not many. */
static void flows_apart(void **state) {
	struct seen seen[HD_COUNTS_DIRECTIONS];

	(void)state;
	count(seen);
	for (uint16_t i = 0; i < 32; i++) {
		struct frame f = ipv4(IPPROTO_TCP, (uint16_t)(41000 + i), 5201, 1000);

		send_frame(HD_COUNTS_IN, &f, 1);
	}
	count(seen);
	assert_int_equal(seen[HD_COUNTS_IN].others, 32000);
	assert_in_range(seen[HD_COUNTS_IN].flows, 26, 32);
	assert_int_equal(seen[HD_COUNTS_OUT].others + seen[HD_COUNTS_OUT].ours, 0);
}

/* Frames cut off before the ports, or of other kinds: they count as others, and nothing is read past their end. */
static void odd_frames(void **state) {
	struct frame ours = ipv4(IPPROTO_UDP, 40000, PORT, 400);
	struct frame other = {.bytes = 60};
	struct ip6_hdr *six = (void *)(other.data + ETH_HLEN);
	struct seen seen[HD_COUNTS_DIRECTIONS];
	uint64_t sent = 0;

	(void)state;
	count(seen);
	for (uint32_t bytes = ETH_HLEN + 20; bytes < ETH_HLEN + 20 + 4; bytes++) {
		ours.bytes = bytes;
		send_frame(HD_COUNTS_IN, &ours, 1);
		sent += bytes;
	}
	ours = ipv4(IPPROTO_UDP, 40000, PORT, 400);
	((struct iphdr *)(ours.data + ETH_HLEN))->frag_off = htons(100); /* no ports in there */
	send_frame(HD_COUNTS_IN, &ours, 1);
	ours = ipv4(IPPROTO_UDP, 40000, PORT, 400);
	((struct iphdr *)(ours.data + ETH_HLEN))->ihl = 15; /* options: ports are further back */
	send_frame(HD_COUNTS_IN, &ours, 1);
	sent += 800;
	((struct ethhdr *)other.data)->h_proto = htons(ETH_P_ARP);
	send_frame(HD_COUNTS_IN, &other, 1);
	((struct ethhdr *)other.data)->h_proto = htons(ETH_P_IPV6);
	six->ip6_nxt = IPPROTO_TCP;
	send_frame(HD_COUNTS_IN, &other, 1);
	sent += 120;
	count(seen);
	assert_int_equal(seen[HD_COUNTS_IN].ours, 0);
	assert_int_equal(seen[HD_COUNTS_IN].others, sent);
}

static void no_such_card(void **state) {
	struct hd_counter *none = NULL;
	char error[256] = "";

	(void)state;
	assert_int_equal(hd_counter_open("nowhere0", PORT, &none, error, sizeof(error)), -ENODEV);
	assert_null(none);
	assert_non_null(strstr(error, "nowhere0"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fabric_and_others),
		cmocka_unit_test(flows_apart),
		cmocka_unit_test(odd_frames),
		cmocka_unit_test(no_such_card),
	};
	int status;

	if (unshare(CLONE_NEWNET)) {
		printf("SKIP: no network namespace of our own: %s\n", strerror(errno));
		return SKIP;
	}
	status = hd_counter_open("lo", PORT, &counter, open_error, sizeof(open_error));
	if (status == -EPERM || status == -EACCES) {
		printf("SKIP: %s\n", open_error);
		return SKIP;
	}
	if (status) {
		printf("%s\n", open_error);
		return 1;
	}
	status = cmocka_run_group_tests(tests, NULL, NULL);
	hd_counter_close(counter);
	return status;
}
