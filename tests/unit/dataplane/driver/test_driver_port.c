/* SPDX-License-Identifier: BSD-3-Clause */
/* Each packet that a driver drops is in one counter of its port, and in the right direction. */
#include "hd_driver_private.h"
#include "hd_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct hd_port_stats port_of(const char *name, uint64_t value) {
	const struct hd_driver_counter counters[] = {
		{"received_packets", "", "", 1000},
		{name, "", "", value},
		{"polls", "", "", 5000},
	};
	struct hd_port_stats port = {.rx_errors = 99};

	hd_driver_port_stats(counters, sizeof counters / sizeof counters[0], &port);
	assert_int_equal(port.rx_packets, 1000);
	return port;
}

static uint64_t drops(const struct hd_port_stats *port) {
	return port->rx_missed + port->rx_errors + port->rx_no_buffer + port->tx_errors;
}

static void test_what_could_not_leave(void **state) {
	static const char *const names[] = {
		"send_errors",
		"send_too_long",
		"send_no_route",
		"send_unresolved",
		"send_strangers",
		"no_buffer",
		"drop_strangers",
	};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct hd_port_stats port = port_of(names[i], 7);

		assert_int_equal(port.tx_errors, 7);
		assert_int_equal(drops(&port), 7);
	}
}

static void test_what_came(void **state) {
	struct hd_port_stats port = port_of("receive_overflow", 3);

	(void)state;
	assert_int_equal(port.rx_missed, 3);
	assert_int_equal(drops(&port), 3);
	port = port_of("drop_segmented", 4);
	assert_int_equal(port.rx_errors, 4);
	port = port_of("truncated", 5);
	assert_int_equal(port.rx_errors, 5);
	port = port_of("waited", 6); /* these left later */
	assert_int_equal(drops(&port), 0);
	port = port_of("echo_limited", 7); /* answers that were never made */
	assert_int_equal(drops(&port), 0);
}

/* Frames that were meant for others are no fault; all others are. */
static void test_frames(void **state) {
#define NAME(reason, text, help) [HD_FRAME_##reason] = "drop_" #text,
	static const char *const names[HD_FRAME_REASON_COUNT] = {HD_FRAME_REASONS(NAME)};
#undef NAME
	static const bool foreign[HD_FRAME_REASON_COUNT] = {
		[HD_FRAME_OTHER_MAC] = true,
		[HD_FRAME_ETHERTYPE] = true,
		[HD_FRAME_OTHER_IP] = true,
		[HD_FRAME_PROTOCOL] = true,
		[HD_FRAME_UDP_PORT] = true,
		[HD_FRAME_ICMP_TYPE] = true,
	};

	(void)state;
	for (int i = HD_FRAME_OK + 1; i < HD_FRAME_REASON_COUNT; i++) {
		struct hd_port_stats port = port_of(names[i], 9);

		assert_int_equal(port.rx_errors, foreign[i] ? 0 : 9);
		assert_int_equal(drops(&port), port.rx_errors);
	}
}

/* As the driver itself says it: whatever is lost of the counters of its kernel socket. */
static void test_udp(void **state) {
	const struct hd_driver_config config = {.bind = {.ipv4 = 0x7f000001}};
	struct hd_driver_counter counters[HD_DRIVER_COUNTERS_MAX];
	struct hd_driver *driver;
	struct hd_port_stats port;
	char error[200] = "";
	size_t count;

	(void)state;
	assert_int_equal(hd_driver_open(&config, &driver, error, sizeof error), 0);
	count = hd_driver_counters(driver, counters);
	for (size_t i = 0; i < count; i++)
		counters[i].value = strstr(counters[i].name, "receive") ? 1 : 100;
	hd_driver_port_stats(counters, count, &port);
	assert_int_equal(port.rx_packets + port.rx_bytes + port.rx_calls + port.rx_missed, 4);
	assert_int_equal(port.rx_errors, 100); /* truncated */
	assert_int_equal(port.tx_errors, 200); /* send_errors and drop_strangers */
	assert_int_equal(port.tx_packets + port.tx_bytes + port.tx_calls, 300);
	hd_driver_close(driver);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_could_not_leave),
		cmocka_unit_test(test_what_came),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_udp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
