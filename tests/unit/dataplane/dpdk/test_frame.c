/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames as a node without a kernel socket reads and writes them: each form, each reason to drop. */
#include "hd_bytes.h"
#include "hd_frame.h"
#include "hd_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define US 0x0a4d0001u /* 10.77.0.1 */
#define PEER 0x0a4d0002u
#define PORT 4773
#define FRAME_MAX 9100

static const struct hd_frame_self us = {{{2, 0, 0, 0, 0, 1}}, US, PORT, false};
static const struct hd_frame_self peer = {{{2, 0, 0, 0, 0, 2}}, PEER, 50000, false};
static const struct hd_frame_to to_us = {{{2, 0, 0, 0, 0, 1}}, US, PORT};

/* As RFC 1071 says it, 16 bits at a time. */
static uint16_t slow_checksum(const uint8_t *data, size_t bytes, uint32_t sum) {
	for (size_t i = 0; i < bytes; i++)
		sum += i % 2 ? data[i] : (uint32_t)data[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint32_t slow_pseudo(const uint8_t *ip, size_t udp_bytes) {
	uint32_t sum = 17 + (uint32_t)udp_bytes;

	for (size_t i = 12; i < 20; i += 2)
		sum += hd_get16(ip + i);
	return sum;
}

/* A UDP packet of the peer's to us, with a payload that follows from its size. */
static size_t make_udp(uint8_t *frame, size_t payload, unsigned offload) {
	for (size_t i = 0; i < payload; i++)
		frame[HD_FRAME_UDP_BYTES + i] = (uint8_t)(i * 7 + payload);
	hd_frame_put_udp(&peer, &to_us, frame, payload, offload);
	return HD_FRAME_UDP_BYTES + payload;
}

/* After a change of the IPv4 header: its checksum, and the UDP one off. */
static void repair(uint8_t *frame) {
	uint8_t *ip = frame + 14;
	size_t header = (size_t)(ip[0] & 15) * 4;

	hd_put16(ip + 10, 0);
	hd_put16(ip + 10, slow_checksum(ip, header, 0));
	if (ip[9] == 17)
		hd_put16(ip + header + 6, 0);
}

static void expect_drop(const uint8_t *frame, size_t bytes, enum hd_frame_reason reason) {
	uint8_t *exact = malloc(bytes + 1); /* so that a sanitizer sees what lies behind it read */
	struct hd_frame got;

	memcpy(exact, frame, bytes);
	assert_int_equal(hd_frame_parse(&us, exact, bytes, 0, &got), HD_FRAME_DROP);
	assert_string_equal(hd_frame_reason_name(got.reason), hd_frame_reason_name(reason));
	free(exact);
}

static void test_udp(void **state) {
	static uint8_t frame[FRAME_MAX];
	struct hd_frame got;

	for (size_t payload = 0; payload <= 8972; payload += payload < 80 ? 1 : 1111) {
		size_t bytes = make_udp(frame, payload, 0);
		const uint8_t *ip = frame + 14;

		assert_int_equal(slow_checksum(ip, 20, 0), 0);
		assert_int_equal(
			slow_checksum(ip + 20, 8 + payload, slow_pseudo(ip, 8 + payload)), 0
		);
		assert_int_equal(hd_get16(ip + 6), 0x4000);
		assert_int_equal(hd_frame_parse(&us, frame, bytes, 0, &got), HD_FRAME_UDP);
		assert_int_equal(got.reason, HD_FRAME_OK);
		assert_int_equal(got.source, PEER);
		assert_int_equal(got.source_port, 50000);
		assert_memory_equal(&got.source_mac, &peer.mac, 6);
		assert_ptr_equal(got.data, frame + HD_FRAME_UDP_BYTES);
		assert_int_equal(got.bytes, payload);
		assert_false(got.unfinished);
	}
}

static void test_padding_and_options(void **state) {
	uint8_t frame[FRAME_MAX] = {0};
	struct hd_frame got;
	size_t bytes = make_udp(frame, 3, 0);

	memset(frame + bytes, 0xee, 60 - bytes); /* Ethernet's least frame */
	assert_int_equal(hd_frame_parse(&us, frame, 60, 0, &got), HD_FRAME_UDP);
	assert_int_equal(got.bytes, 3);
	/* Eight bytes of no-operation options. */
	memmove(frame + 42, frame + 34, 11);
	memset(frame + 34, 1, 8);
	frame[14] = 0x47;
	hd_put16(frame + 16, 28 + 11);
	repair(frame);
	assert_int_equal(hd_frame_parse(&us, frame, 60, 0, &got), HD_FRAME_UDP);
	assert_ptr_equal(got.data, frame + 50);
	assert_int_equal(got.bytes, 3);
}

static void test_checksums(void **state) {
	struct hd_frame_self virtual_port = us;
	uint8_t frame[FRAME_MAX];
	struct hd_frame got;
	size_t bytes = make_udp(frame, 100, 0);

	frame[77] ^= 0x10;
	expect_drop(frame, bytes, HD_FRAME_UDP_CHECKSUM);
	assert_int_equal(hd_frame_parse(&us, frame, bytes, HD_FRAME_L4_GOOD, &got), HD_FRAME_UDP);
	/* Checksums that a kernel leaves to hardware: accepted only on virtual ports, and only those. */
	bytes = make_udp(frame, 100, HD_FRAME_OFFLOAD_UDP);
	expect_drop(frame, bytes, HD_FRAME_UDP_CHECKSUM);
	virtual_port.unfinished_sums = true;
	assert_int_equal(hd_frame_parse(&virtual_port, frame, bytes, 0, &got), HD_FRAME_UDP);
	assert_true(got.unfinished);
	frame[41] ^= 1;
	assert_int_equal(hd_frame_parse(&virtual_port, frame, bytes, 0, &got), HD_FRAME_DROP);
	/* Without one; and one that comes out as 0 is sent as 0xffff. */
	hd_put16(frame + 40, 0);
	assert_int_equal(hd_frame_parse(&us, frame, bytes, 0, &got), HD_FRAME_UDP);
	bytes = make_udp(frame, 2, 0);
	hd_put16(frame + 42, (uint16_t)(hd_get16(frame + 42) + hd_get16(frame + 40)));
	hd_frame_put_udp(&peer, &to_us, frame, 2, 0);
	assert_int_not_equal(hd_get16(frame + 40), 0);
	assert_int_equal(hd_frame_parse(&us, frame, bytes, 0, &got), HD_FRAME_UDP);
	/* The header's */
	bytes = make_udp(frame, 100, HD_FRAME_OFFLOAD_IP);
	expect_drop(frame, bytes, HD_FRAME_IP_CHECKSUM);
	assert_int_equal(hd_frame_parse(&us, frame, bytes, HD_FRAME_IP_GOOD, &got), HD_FRAME_UDP);
}

/* Every sum that can come out, 0 among them, in both of its forms. */
static void test_zero_checksum(void **state) {
	uint8_t frame[FRAME_MAX];
	struct hd_frame got;
	bool seen = false;

	for (uint32_t value = 0; value <= UINT16_MAX; value++) {
		hd_put16(frame + HD_FRAME_UDP_BYTES, (uint16_t)value);
		hd_frame_put_udp(&peer, &to_us, frame, 2, 0);
		assert_int_not_equal(hd_get16(frame + 40), 0);
		seen |= hd_get16(frame + 40) == UINT16_MAX;
		assert_int_equal(hd_frame_parse(&us, frame, 44, 0, &got), HD_FRAME_UDP);
	}
	assert_true(seen);
}

static void set8(uint8_t *frame, size_t at, uint8_t value) {
	frame[at] = value;
	repair(frame);
}

static void set16(uint8_t *frame, size_t at, uint16_t value) {
	hd_put16(frame + at, value);
	repair(frame);
}

static void set32(uint8_t *frame, size_t at, uint32_t value) {
	hd_put32(frame + at, value);
	repair(frame);
}

static void test_ethernet_drops(void **state) {
	static const uint8_t group[6] = {1, 0, 0x5e, 0, 0, 1}, zeros[6];
	uint8_t frame[FRAME_MAX];
	size_t bytes = make_udp(frame, 20, 0);

	for (size_t cut = 0; cut < 14; cut++)
		expect_drop(frame, cut, HD_FRAME_RUNT);
	for (size_t cut = 14; cut < 34; cut++)
		expect_drop(frame, cut, HD_FRAME_RUNT);
	for (size_t cut = 34; cut < bytes; cut++)
		expect_drop(frame, cut, HD_FRAME_TRUNCATED);
	memset(frame, 0xff, 6); /* UDP to the broadcast address */
	expect_drop(frame, bytes, HD_FRAME_OTHER_MAC);
	memcpy(frame, group, 6);
	expect_drop(frame, bytes, HD_FRAME_OTHER_MAC);
	(void)make_udp(frame, 20, 0);
	memcpy(frame + 6, group, 6);
	expect_drop(frame, bytes, HD_FRAME_SOURCE_MAC);
	memcpy(frame + 6, zeros, 6);
	expect_drop(frame, bytes, HD_FRAME_SOURCE_MAC);
	memcpy(frame + 6, us.mac.bytes, 6);
	expect_drop(frame, bytes, HD_FRAME_SOURCE_MAC);
	(void)make_udp(frame, 20, 0);
	hd_put16(frame + 12, 0x8100); /* VLAN */
	expect_drop(frame, bytes, HD_FRAME_ETHERTYPE);
	hd_put16(frame + 12, 0x86dd);
	expect_drop(frame, bytes, HD_FRAME_ETHERTYPE);
}

static void test_ip_drops(void **state) {
	static const uint32_t no_host[]
		= {0, 0x00000001, 0x7f000001, 0xe0000001, 0xf0000001, 0xffffffff, US};
	uint8_t frame[FRAME_MAX];
	size_t bytes = make_udp(frame, 20, 0);

	set8(frame, 14, 0x65);
	expect_drop(frame, bytes, HD_FRAME_IP_HEADER);
	frame[14] = 0x44;
	expect_drop(frame, bytes, HD_FRAME_IP_HEADER);
	(void)make_udp(frame, 20, 0);
	set16(frame, 16, 19);
	expect_drop(frame, bytes, HD_FRAME_IP_HEADER);
	set16(frame, 16, 49);
	expect_drop(frame, bytes, HD_FRAME_TRUNCATED);
	set16(frame, 16, 65535); /* what a superframe looks like */
	expect_drop(frame, bytes, HD_FRAME_TRUNCATED);
	(void)make_udp(frame, 20, 0);
	frame[22] ^= 1;
	expect_drop(frame, bytes, HD_FRAME_IP_CHECKSUM);
	(void)make_udp(frame, 20, 0);
	set16(frame, 20, 0x2000);
	expect_drop(frame, bytes, HD_FRAME_FRAGMENT);
	set16(frame, 20, 0x0001);
	expect_drop(frame, bytes, HD_FRAME_FRAGMENT);
	(void)make_udp(frame, 20, 0);
	set32(frame, 30, US + 5);
	expect_drop(frame, bytes, HD_FRAME_OTHER_IP);
	set32(frame, 30, 0xffffffff);
	expect_drop(frame, bytes, HD_FRAME_OTHER_IP);
	for (size_t i = 0; i < sizeof no_host / sizeof no_host[0]; i++) {
		(void)make_udp(frame, 20, 0);
		set32(frame, 26, no_host[i]);
		expect_drop(frame, bytes, HD_FRAME_SOURCE_IP);
	}
	(void)make_udp(frame, 20, 0);
	set8(frame, 23, 6);
	expect_drop(frame, bytes, HD_FRAME_PROTOCOL);
}

static void test_udp_drops(void **state) {
	uint8_t frame[FRAME_MAX];
	size_t bytes = make_udp(frame, 20, 0);

	set16(frame, 38, 7);
	expect_drop(frame, bytes, HD_FRAME_UDP_LENGTH);
	set16(frame, 38, 29);
	expect_drop(frame, bytes, HD_FRAME_UDP_LENGTH);
	set16(frame, 38, 28);
	set16(frame, 36, PORT + 1);
	expect_drop(frame, bytes, HD_FRAME_UDP_PORT);
	set16(frame, 36, PORT);
	set16(frame, 34, 0);
	expect_drop(frame, bytes, HD_FRAME_UDP_PORT);
	(void)make_udp(frame, 20, 0);
	set16(frame, 16, 27); /* no room for a UDP header, by its own word */
	expect_drop(frame, bytes, HD_FRAME_RUNT);
}

static size_t make_echo(uint8_t *frame, size_t payload) {
	uint8_t *icmp = frame + 34;
	size_t bytes = make_udp(frame, payload, 0);

	memset(icmp, 0, 8);
	icmp[0] = 8;
	hd_put32(icmp + 4, 0x12345678);
	hd_put16(icmp + 2, slow_checksum(icmp, 8 + payload, 0));
	set8(frame, 23, 1);
	return bytes;
}

static void test_echo(void **state) {
	uint8_t frame[FRAME_MAX], answer[FRAME_MAX];
	struct hd_frame got;

	for (size_t payload = 0; payload < 60; payload++) {
		size_t bytes = make_echo(frame, payload);

		assert_int_equal(hd_frame_parse(&us, frame, bytes, 0, &got), HD_FRAME_ECHO);
		assert_int_equal(hd_frame_put_echo_reply(&us, &got, answer, bytes - 1), 0);
		assert_int_equal(hd_frame_put_echo_reply(&us, &got, answer, bytes), bytes);
		assert_memory_equal(answer, peer.mac.bytes, 6);
		assert_memory_equal(answer + 6, us.mac.bytes, 6);
		assert_int_equal(hd_get32(answer + 26), US);
		assert_int_equal(hd_get32(answer + 30), PEER);
		assert_int_equal(slow_checksum(answer + 14, 20, 0), 0);
		assert_int_equal(answer[34], 0);
		assert_int_equal(slow_checksum(answer + 34, 8 + payload, 0), 0);
		assert_memory_equal(answer + 38, frame + 38, 4 + payload);
	}
	(void)make_echo(frame, 20);
	frame[50] ^= 1;
	expect_drop(frame, 62, HD_FRAME_ICMP_CHECKSUM);
	frame[34] = 0; /* an answer: we asked for none */
	expect_drop(frame, 62, HD_FRAME_ICMP_TYPE);
	(void)make_echo(frame, 20);
	set16(frame, 16, 27);
	expect_drop(frame, 62, HD_FRAME_RUNT);
}

static void test_arp(void **state) {
	static const struct hd_mac peers = {{2, 0, 0, 0, 0, 2}};
	uint8_t frame[HD_FRAME_ARP_BYTES];
	struct hd_frame got;

	hd_frame_put_arp_request(&peer, US, NULL, frame);
	assert_memory_equal(frame, "\xff\xff\xff\xff\xff\xff", 6);
	assert_int_equal(hd_frame_parse(&us, frame, sizeof frame, 0, &got), HD_FRAME_ARP);
	assert_true(got.request);
	assert_int_equal(got.source, PEER);
	assert_int_equal(got.target, US);
	assert_memory_equal(&got.source_mac, &peers, 6);
	hd_frame_put_arp_request(&peer, US, &us.mac, frame); /* to us alone */
	assert_int_equal(hd_frame_parse(&us, frame, sizeof frame, 0, &got), HD_FRAME_ARP);
	hd_frame_put_arp_reply(&peer, US, &us.mac, frame);
	assert_int_equal(hd_frame_parse(&us, frame, 42, 0, &got), HD_FRAME_ARP);
	assert_false(got.request);
	assert_int_equal(got.target, US);

	for (size_t cut = 14; cut < 42; cut++)
		expect_drop(frame, cut, HD_FRAME_RUNT);
	for (size_t at = 14; at < 22; at++) { /* each byte of the form, and the operation */
		hd_frame_put_arp_reply(&peer, US, &us.mac, frame);
		frame[at] ^= 0x40;
		expect_drop(frame, 42, HD_FRAME_ARP_FORM);
	}
	hd_frame_put_arp_reply(&peer, US, &us.mac, frame);
	frame[27] ^= 1; /* speaks for another station */
	expect_drop(frame, 42, HD_FRAME_ARP_SENDER);
	hd_frame_put_arp_reply(&peer, US, &us.mac, frame);
	hd_put32(frame + 28, US); /* claims our address */
	expect_drop(frame, 42, HD_FRAME_ARP_SENDER);
	hd_put32(frame + 28, 0xe0000001);
	expect_drop(frame, 42, HD_FRAME_ARP_SENDER);
}

/* Seeded damage to good frames: never beyond the frame, never a kind with a reason. */
static void test_damage(void **state) {
	uint8_t frame[200];
	struct hd_random r;
	uint32_t kinds[4] = {0};

	hd_random_init(&r, 7);
	for (int i = 0; i < 200000; i++) {
		size_t bytes = i % 2 ? make_udp(frame, 60, 0) : make_echo(frame, 60);
		struct hd_frame got;
		uint8_t *exact;

		for (uint64_t n = hd_random_below(&r, 4); n > 0; n--)
			frame[hd_random_below(&r, bytes)] = (uint8_t)hd_random_u64(&r);
		bytes = hd_random_below(&r, 4) ? bytes : hd_random_below(&r, bytes + 1);
		exact = malloc(bytes + 1);
		memcpy(exact, frame, bytes);
		(void)hd_frame_parse(&us, exact, bytes, 0, &got);
		assert_int_equal(got.kind == HD_FRAME_DROP, got.reason != HD_FRAME_OK);
		assert_true(
			!got.data || (got.data >= exact && got.data + got.bytes <= exact + bytes)
		);
		kinds[got.kind]++;
		free(exact);
	}
	assert_true(kinds[HD_FRAME_DROP] > 1000 && kinds[HD_FRAME_UDP] > 1000);
	assert_true(kinds[HD_FRAME_ECHO] > 1000);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_udp),
		cmocka_unit_test(test_padding_and_options),
		cmocka_unit_test(test_checksums),
		cmocka_unit_test(test_zero_checksum),
		cmocka_unit_test(test_ethernet_drops),
		cmocka_unit_test(test_ip_drops),
		cmocka_unit_test(test_udp_drops),
		cmocka_unit_test(test_echo),
		cmocka_unit_test(test_arp),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
