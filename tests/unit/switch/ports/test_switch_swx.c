/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DPDK's pipeline made from a text, and run: frames in place, verdicts, tables that change, and texts that it refuses.
 * The whole program runs through the golden vectors.
 */
#include "hd_bytes.h"
#include "hd_dpdk_port.h"
#include "hd_swx.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define FRAMES 150
#define FRAME_BYTES (HD_SWITCH_HEADROOM_BYTES + 512)

static const char *small; /* the small program, as a text or as a shared object */
static const struct hd_switch_self self
	= {.mac = {2, 0, 0, 0, 0, 9}, .ipv4 = 0x0a000064, .udp_port = 4773};
static uint8_t frames[FRAMES][FRAME_BYTES];
static struct hd_switch_packet packets[FRAMES];

static struct hd_switch_executor open_small(void) {
	struct hd_switch_executor x = {0};
	char error[200] = "";
	int code = hd_swx_open(small, "test", &self, &x, error, sizeof error);

	if (code < 0)
		print_error("%s\n", error);
	assert_int_equal(code, 0);
	return x;
}

static void make(uint32_t i, uint8_t station, uint16_t type, uint32_t bytes) {
	uint8_t *data = frames[i] + HD_SWITCH_HEADROOM_BYTES;

	memset(frames[i], 0xee, FRAME_BYTES);
	memset(data, (int)i, bytes);
	memcpy(data, (uint8_t[6]){2, 0, 0, 0, 0, station}, 6);
	hd_put16(data + 12, type);
	packets[i] = (struct hd_switch_packet
	){.data = data, .bytes = bytes, .port = (uint16_t)(i % 5)};
}

/* The frame lies where it lay, with the bytes that it had. */
static void check_same(uint32_t i, uint8_t station, uint16_t type, uint32_t bytes) {
	uint8_t wanted[FRAME_BYTES];

	memset(wanted, (int)i, bytes);
	memcpy(wanted, (uint8_t[6]){2, 0, 0, 0, 0, station}, 6);
	hd_put16(wanted + 12, type);
	assert_ptr_equal(packets[i].data, frames[i] + HD_SWITCH_HEADROOM_BYTES);
	assert_int_equal(packets[i].bytes, bytes);
	assert_memory_equal(packets[i].data, wanted, bytes);
}

static void test_forwards(void **state) {
	struct hd_switch_executor x = open_small();
	uint64_t counters[HD_SWITCH_COUNTER_COUNT];
	char error[200];

	(void)state;
	for (uint8_t i = 1; i < 60; i++)
		assert_int_equal(
			x.ops->mac_set(x.self, (uint8_t[6]){2, 0, 0, 0, 0, i}, i, error, 200), 0
		);
	for (uint32_t i = 0; i < FRAMES; i++)
		make(i, (uint8_t)i, i % 7 == 0 ? 0x1234 : 0x0800, 14 + i);
	x.ops->burst(x.self, packets, FRAMES);
	for (uint32_t i = 0; i < FRAMES; i++) {
		bool dropped = i % 7 == 0, known = i >= 1 && i < 60;

		assert_int_equal(
			packets[i].verdict,
			dropped       ? HD_SWITCH_DROP :
				known ? HD_SWITCH_FORWARD :
					HD_SWITCH_FLOOD
		);
		if (dropped)
			continue;
		check_same(i, (uint8_t)i, 0x0800, 14 + i);
		assert_int_equal(packets[i].port, known ? i : i % 5);
	}
	x.ops->counters(x.self, counters);
	assert_int_equal(counters[HD_SWITCH_COUNTER_drop_simulated], (FRAMES + 6) / 7);
	/* A station moves. */
	assert_int_equal(x.ops->mac_set(x.self, (uint8_t[6]){2, 0, 0, 0, 0, 1}, 40, error, 200), 0);
	make(1, 1, 0x0800, 60);
	x.ops->burst(x.self, packets + 1, 1);
	assert_int_equal(packets[1].verdict, HD_SWITCH_FORWARD);
	assert_int_equal(packets[1].port, 40);
	x.ops->destroy(x.self);
}

static void test_copies(void **state) {
	struct hd_switch_executor x = open_small();
	const struct hd_switch_copy *copies = NULL;

	(void)state;
	make(0, 1, 0x1235, 300);
	x.ops->burst(x.self, packets, 1);
	assert_int_equal(packets[0].verdict, HD_SWITCH_COPY);
	assert_int_equal(packets[0].lease, 3);
	assert_int_equal(packets[0].copy, HD_SWITCH_COPY_MEMBERS);
	check_same(0, 1, 0x1235, 64);
	/* There is no such lease. */
	assert_int_equal(x.ops->copies(x.self, &packets[0], &copies), 0);
	x.ops->destroy(x.self);
}

/* A lease that the program has no table for is refused, and nothing of it stays. */
static void test_refused(void **state) {
	static const struct hd_switch_member member = {.token = 5};
	struct hd_switch_lease lease = {
		.id = 1,
		.dtype = HD_SWITCH_DTYPE_FIXED32,
		.count = HD_SWITCH_LANES,
		.slot_count = 4,
		.waits = 1,
		.member_count = 1,
		.members = &member,
	};
	struct hd_switch_executor x = open_small();
	char error[200] = "";

	(void)state;
	assert_int_equal(x.ops->lease_set(x.self, &lease, error, 200), -EINVAL);
	assert_string_equal(error, "spec: table leases does not take hold");
	assert_int_equal(x.ops->lease_end(x.self, 1, error, 200), -ENOENT);
	lease.count = 33;
	assert_int_equal(x.ops->lease_set(x.self, &lease, error, 200), -EINVAL);
	lease.count = 32;
	lease.slot_count = HD_SWITCH_SLOTS + 1;
	assert_int_equal(x.ops->lease_set(x.self, &lease, error, 200), -EINVAL);
	lease.slot_count = 4;
	lease.waits = 2;
	assert_int_equal(x.ops->lease_set(x.self, &lease, error, 200), -EINVAL);
	assert_int_equal(x.ops->simulate(x.self, 1, 1, error, 200), -EINVAL);
	assert_int_equal(
		x.ops->mac_set(x.self, (uint8_t[6]){1, 0, 0, 0, 0, 1}, 1, error, 200), -EINVAL
	);
	assert_int_equal(
		x.ops->mac_set(x.self, (uint8_t[6]){2, 0, 0, 0, 0, 1}, 64, error, 200), -EINVAL
	);
	x.ops->destroy(x.self);
}

static int open_text(const char *text, char error[200]) {
	char path[] = "/tmp/heddle-spec-XXXXXX";
	struct hd_switch_executor x;
	int fd = mkstemp(path), code;

	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	code = hd_swx_open(path, "wrong", &self, &x, error, 200);
	unlink(path);
	return code;
}

static void test_texts(void **state) {
	char error[200];

	(void)state;
	assert_int_equal(open_text("struct a {\n", error), -EINVAL);
	assert_int_equal(
		open_text(
			"struct a {\n\tbit<8> b\n}\nmetadata instanceof a\napply {\n\tno such word\n}\n",
			error
		),
		-EINVAL
	);
	assert_non_null(strstr(error, "instructions of 'apply'"));
	assert_int_equal(
		open_text("metadata instanceof a\napply {\n\trx m.b\n}\n", error), -EINVAL
	);
	assert_non_null(strstr(error, "metadata 'a'"));
	assert_int_equal(open_text("\177ELF and nothing more", error), -EINVAL);
	assert_non_null(strstr(error, "spec: /tmp/heddle-spec-"));
	assert_int_equal(hd_swx_open("/no/such/file", "wrong", &self, NULL, error, 200), -ENOENT);
}

static int start(void **state) {
	const struct dpdk_eal eal = {.prefix = "heddle-test-swx", .memory_bytes = 64 << 20};
	char error[200];

	(void)state;
	return dpdk_start_eal(&eal, error, sizeof error);
}

int main(int argc, char **argv) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forwards),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_texts),
	};

	if (argc != 2)
		return 64;
	small = argv[1];
	return cmocka_run_group_tests(tests, start, NULL);
}
