/* SPDX-License-Identifier: BSD-3-Clause */
/* A file for a switch without a controller: what it sets, and how what is wrong in it is told. */
#include "hd_static.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct hd_switch_executor make(void) {
	const struct hd_switch_core_config config
		= {.self = {.mac = {2}, .ipv4 = 0x0a000064, .udp_port = 4773},
		   .memory_bytes = 1 << 20};
	struct hd_switch_executor x;
	char error[200];

	assert_int_equal(hd_switch_native(&config, &x, error, sizeof error), 0);
	return x;
}

/* Of the file that was loaded last. */
static struct hd_switch_stations *stations;

static int load(const struct hd_switch_executor *x, const char *text, char error[200]) {
	char path[] = "/tmp/heddle-static-XXXXXX";
	int fd = mkstemp(path), code;

	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	error[0] = '\0';
	hd_switch_stations_destroy(stations);
	assert_int_equal(hd_switch_stations_create(2, &stations), 0);
	code = hd_static_load(path, x, stations, error, 200);
	unlink(path);
	return code;
}

#define MEMBER(token, worker)                                                                      \
	"{\"token\": \"" token "\", \"worker\": " worker                                           \
	", \"port\": 1, \"mac\": \"02:00:00:00:00:01\", "                                          \
	"\"ipv4\": \"10.0.0.1\", \"udp_port\": 4773}"
#define LEASE(more, members)                                                                       \
	"{\"leases\": [{\"id\": 3, \"job\": 7, \"count\": 32, \"slots\": 4" more                   \
	", \"members\": [" members "]}]}"

static void test_sets(void **state) {
	struct hd_switch_executor x = make();
	struct hd_switch_lease_stats stats;
	char error[200];

	(void)state;
	assert_int_equal(
		load(&x,
		     "{\"macs\": [{\"mac\": \"02:00:00:00:00:AA\", \"port\": 3}],"
		     " \"routes\": [{\"prefix\": \"10.2.0.0/16\", \"port\": 1, \"mac\": \"02:00:00:00:00:02\"}],"
		     " \"simulate\": {\"seed\": 5, \"loss\": 0}}",
		     error),
		0
	);
	assert_int_equal(
		load(&x,
		     LEASE(", \"dtype\": \"fp32\"", MEMBER("ab", "0") "," MEMBER("cd", "5")),
		     error),
		0
	);
	assert_int_equal(x.ops->lease_stats(x.self, 3, &stats), 0);
	assert_int_equal(stats.waits, 3);
	assert_int_equal(stats.cells, 8);
	x.ops->destroy(x.self);
}

#define STATION(last, port)                                                                        \
	"{\"ipv4\": \"10.0.0." last "\", \"mac\": \"02:00:00:00:00:0" last "\", \"port\": " port "}"

/* Frames to a station, and copies of leases for its address, leave where the file says, whatever ARP says; of a file
 * that names none ARP is believed. */
static void test_stations(void **state) {
	/* "10.0.0.1 is at 02:00:00:00:00:66", by port 5. */
	static const uint8_t arp[42]
		= {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,    0,    0,    0,    0,  0x66, 8, 6,
		   0,    1,    8,    0,    6,    4,    0,    2,    2,    0,    0,  0,    0, 0x66,
		   10,   0,    0,    1,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 10, 0,    0, 1};
	struct hd_switch_executor x = make();
	struct hd_switch_packet packet;
	struct hd_switch_station found;
	uint8_t frame[128 + 64] = {0};
	char error[200];

	(void)state;
	assert_int_equal(load(&x, "{\"macs\": []}", error), 0);
	assert_true(hd_switch_stations_learn(stations, 0, 5, arp, sizeof arp));
	assert_int_equal(load(&x, "{\"stations\": [" STATION("1", "3") "]}", error), 0);
	assert_false(hd_switch_stations_learn(stations, 0, 5, arp, sizeof arp));
	assert_true(hd_switch_stations_find(stations, 0x0a000001, &found));
	assert_int_equal(found.port, 3);
	assert_int_equal(found.mac[5], 1);
	assert_false(hd_switch_stations_find(stations, 0x0a000002, &found));
	assert_false(hd_switch_stations_ask(stations, HD_SECOND, 0x0a000002));
	packet = (struct hd_switch_packet){.data = frame + 128, .bytes = 64, .port = 0};
	memcpy(packet.data, &(uint8_t[]){2, 0, 0, 0, 0, 1}, 6);
	x.ops->burst(x.self, &packet, 1);
	assert_int_equal(packet.verdict, HD_SWITCH_FORWARD);
	assert_int_equal(packet.port, 3);
	assert_int_equal(
		load(&x,
		     "{\"stations\": [" STATION("1", "3") "," STATION("2", "3") "," STATION(
			     "3", "3"
		     ) "]}",
		     error),
		-ENOSPC
	);
	assert_string_equal(error, "stations 2: ipv4: '10.0.0.3': there is no room for more");
	x.ops->destroy(x.self);
}

static void test_wrong(void **state) {
	static const struct {
		const char *text, *words;
	} wrong[] = {
		{"{", "line 1: "},
		{"[]", ""},
		{"{\"mac\": []}", "mac"},
		{"{\"macs\": {}}", "macs: not a list"},
		{"{\"stations\": {}}", "stations: not a list"},
		{"{\"stations\": [{\"ipv4\": \"10.0.0.1\", \"port\": 1}]}", "stations 0: an ipv4"},
		{"{\"stations\": [{\"ipv4\": \"10.0.0\", \"mac\": \"02:00:00:00:00:01\", \"port\": 1}]}",
		 "stations 0: ipv4: '10.0.0'"},
		{"{\"stations\": [{\"ipv4\": \"10.0.0.1\", \"mac\": \"2:0:0:0:0:1\", \"port\": 1}]}",
		 "stations 0: mac: "},
		{"{\"stations\": [{\"ipv4\": \"10.0.0.1\", \"mac\": \"01:00:00:00:00:01\", \"port\": 1}]}",
		 "stations 0: "},
		{"{\"stations\": [" STATION("1", "64") "]}", "stations 0: "},
		{"{\"macs\": [{\"mac\": \"02:00:00:00:00:01\"}]}", "macs 0: "},
		{"{\"macs\": [{\"mac\": \"2:0:0:0:0:1\", \"port\": 1}]}",
		 "macs 0: mac: '2:0:0:0:0:1'"},
		{"{\"macs\": [{\"mac\": \"02:00:00:00:00:01:02\", \"port\": 1}]}", "macs 0: mac: "},
		{"{\"macs\": [{\"mac\": \"02:00:00:00:00:01\", \"port\": -1}]}", "macs 0: "},
		{"{\"macs\": [{\"mac\": \"01:00:00:00:00:01\", \"port\": 1}]}", "macs 0: "},
		{"{\"macs\": [{\"mac\": \"02:00:00:00:00:01\", \"port\": 64}]}", "macs 0: "},
		{"{\"macs\": [{\"mac\": \"02:00:00:00:00:01\", \"port\": 1, \"more\": 1}]}",
		 "macs 0: "},
		{"{\"routes\": [{\"prefix\": \"10.0.0.0\", \"port\": 1, \"mac\": \"02:00:00:00:00:02\"}]}",
		 "routes 0: prefix"},
		{"{\"routes\": [{\"prefix\": \"10.0.0.0/33\", \"port\": 1, \"mac\": \"02:00:00:00:00:02\"}]}",
		 "routes 0: prefix"},
		{"{\"routes\": [{\"prefix\": \"10.0.0.1/8\", \"port\": 1, \"mac\": \"02:00:00:00:00:02\"}]}",
		 "routes 0: "},
		{"{\"simulate\": {\"seed\": 0, \"loss\": 0.1}}", "seed"},
		{"{\"simulate\": {\"seed\": 1, \"loss\": 1.1}}", "seed"},
		{LEASE("", ""), "leases 0: members: 1 to 64"},
		{LEASE("", MEMBER("0", "1")), "leases 0: token: '0'"},
		{LEASE("", MEMBER("12345678123456781", "1")), "leases 0: token: "},
		{LEASE("", MEMBER("xyz", "1")), "leases 0: token: "},
		{LEASE("", MEMBER("1", "65536")), "leases 0: "},
		{LEASE("", MEMBER("1", "1") "," MEMBER("1", "2")), "leases 0: "},
		{LEASE(", \"epoch\": 65536", MEMBER("1", "1")), "leases 0: a number"},
		{LEASE(", \"dtype\": \"bf16\"", MEMBER("1", "1")), "leases 0: dtype: 'bf16'"},
		{LEASE(", \"speed\": 3", MEMBER("1", "1")), "leases 0: "},
	};
	struct hd_switch_executor x = make();
	struct hd_switch_lease_stats stats;
	char error[200];

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		assert_true(load(&x, wrong[i].text, error) < 0);
		if (!strstr(error, wrong[i].words) || error[0] == '\0')
			fail_msg("%s: '%s'", wrong[i].text, error);
	}
	assert_int_equal(x.ops->lease_stats(x.self, 3, &stats), -ENOENT);
	assert_true(hd_static_load("/no/such/file", &x, stations, error, sizeof error) < 0);
	x.ops->destroy(x.self);
}

static int free_stations(void **state) {
	(void)state;
	hd_switch_stations_destroy(stations);
	return 0;
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_stations),
		cmocka_unit_test(test_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, free_stations);
}
