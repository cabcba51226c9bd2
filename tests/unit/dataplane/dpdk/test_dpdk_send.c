/* SPDX-License-Identifier: BSD-3-Clause */
/* A port that takes nothing (memif without a peer): the node's thread does not wait for it, control goes before chunks,
 * and neither it nor strangers use up the buffers. */
#include "hd_dpdk_private.h"
#include "hd_limits.h"
#include "hd_wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define HERE 0x0a4f0001u
#define PEER 0x0a4f0100u
#define ADDRESSES 4000
#define PER_ADDRESS 4
#define CONTROL 100

/* Sends what `send_one` sends, once. */
struct node {
	void (*send_one)(struct hd_sink *sink);
	bool due;
};

static void on_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {}

static void on_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct node *node = core;

	node->due = false;
	node->send_one(sink);
}

static hd_ns deadline(const void *core) {
	return ((const struct node *)core)->due ? 0 : HD_NEVER;
}

static const struct hd_core_ops node_ops = {on_receive, on_tick, deadline};

static struct hd_dpdk *dpdk;
static char folder[] = "/tmp/heddle-dpdk-XXXXXX";

static int set_up(void **state) {
	struct hd_dpdk_config config = {
		.ipv4 = HERE,
		.prefix = 8,
		.udp_port = HD_PORT,
		.busy_poll = true,
	};
	char port[128], error[200] = "";

	assert_non_null(mkdtemp(folder));
	/* EAL's files. */
	assert_int_equal(setenv("RUNTIME_DIRECTORY", folder, 1), 0);
	(void)snprintf(
		port,
		sizeof port,
		"net_memif0,role=server,socket=%s/memif,socket-abstract=no",
		folder
	);
	config.port = port;
	if (hd_dpdk_open(&config, &dpdk, error, sizeof error) == 0)
		return 0;
	print_message("skipped: %s\n", error);
	exit(77);
}

static int tear_down(void **state) {
	char command[64];

	hd_dpdk_close(dpdk);
	(void)snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

/* Frames given up in all, before the last flush of to_askers(). */
static uint64_t lost_to_askers;

static uint64_t count_of(const char *name) {
	struct hd_dpdk_counter counters[HD_DPDK_COUNTERS_MAX];
	size_t count = hd_dpdk_counters(dpdk, counters);

	for (size_t i = 0; i < count; i++)
		if (strcmp(counters[i].name, name) == 0)
			return counters[i].value;
	fail_msg("no counter %s", name);
	return 0;
}

/* How often this thread has gone to sleep. */
static long sleeps(void) {
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

static void send_one(void (*words)(struct hd_sink *sink)) {
	struct node node = {.send_one = words, .due = true};
	long before;

	/* The first round registers the thread with EAL. */
	assert_int_equal(hd_dpdk_poll(dpdk, (struct hd_node){&node_ops, &(struct node){0}}, 0), 0);
	before = sleeps();
	assert_int_equal(hd_dpdk_poll(dpdk, (struct hd_node){&node_ops, &node}, 0), 0);
	assert_false(node.due);
	assert_true(sleeps() - before < 10); /* but for what the kernel does */
}

static void to_strangers(struct hd_sink *sink) {
	uint8_t packet[80] = {0};

	for (uint32_t i = 0; i < ADDRESSES * PER_ADDRESS; i++)
		hd_sink_send_stranger(
			sink, (struct hd_addr){PEER + i % ADDRESSES, HD_PORT}, packet, sizeof packet
		);
}

static void to_peers(struct hd_sink *sink) {
	static const uint8_t payload[1408];
	uint8_t head[56] = {0};

	for (uint32_t i = 0; i < ADDRESSES * PER_ADDRESS; i++)
		sink->send(
			sink,
			(struct hd_addr){PEER + ADDRESSES + i % ADDRESSES, HD_PORT},
			head,
			sizeof head,
			payload,
			sizeof payload
		);
}

/* Answers fill the ring; then the node itself has something to say, to whom it must ask for. */
static void to_askers(struct hd_sink *sink) {
	const struct hd_frame request = {.request = true, .source = PEER, .target = HERE};
	uint8_t packet[80] = {0};

	for (uint32_t i = 0; i < ADDRESSES; i++)
		dpdk_answer_arp((struct hd_dpdk *)sink, &request);
	for (uint32_t i = 0; i < CONTROL; i++)
		sink->send(
			sink,
			(struct hd_addr){PEER + 3 * ADDRESSES + i, HD_PORT},
			packet,
			sizeof packet,
			NULL,
			0
		);
	lost_to_askers = count_of("send_errors");
}

/* Packets to many unused addresses must not take the buffers of other peers, nor those of the receiver. */
static void test_strangers(void **state) {
	send_one(to_strangers);
	assert_int_equal(count_of("no_buffer"), 0);
	assert_in_range(count_of("arp_asked"), 1, 64);
	assert_true(count_of("send_strangers") >= ADDRESSES * PER_ADDRESS - 64);
}

static void test_peers(void **state) {
	uint64_t asked = count_of("arp_asked");

	send_one(to_peers);
	assert_int_equal(count_of("no_buffer"), 0);
	assert_int_equal(count_of("arp_asked") - asked, ADDRESSES);
	assert_true(count_of("send_errors") > 0); /* questions that the port does not take */
}

/* A packet that the port does not take for a while is given up. */
static void test_given_up(void **state) {
	struct node nothing = {.due = false};
	hd_ns limit = hd_wait_now() + 5 * HD_SECOND;
	uint64_t asked = count_of("arp_asked");

	while (count_of("send_errors") < asked && hd_wait_now() < limit)
		assert_int_equal(
			hd_dpdk_poll(
				dpdk, (struct hd_node){&node_ops, &nothing}, hd_wait_now() + HD_MS
			),
			0
		);
	assert_true(count_of("send_errors") >= asked);
	assert_int_equal(count_of("sent_frames"), 0);
}

/* Nor do those who ask for this node's address, over and over, leave no room in a full ring. */
static void test_askers(void **state) {
	uint64_t lost = count_of("send_errors"), asked = count_of("arp_asked");

	send_one(to_askers);
	assert_int_equal(count_of("arp_asked") - asked, CONTROL);
	assert_int_equal(lost_to_askers, lost);
	assert_int_equal(count_of("arp_answered") + count_of("arp_limited"), ADDRESSES);
	assert_in_range(count_of("arp_answered"), DPDK_ARP_WAITING, 2 * DPDK_SEND_BURST);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_peers),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_askers),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
