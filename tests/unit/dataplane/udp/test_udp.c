/* SPDX-License-Identifier: BSD-3-Clause */
/* The udp driver on the loopback device: two nodes in one thread, or one in a thread of its own. */
#include "hd_limits.h"
#include "hd_udp_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LOOPBACK 0x7f000001u
#define SEEN_MAX 65536

/* A core that records what it gets and sends what it is told at its next tick. */
struct probe {
	hd_ns deadline;
	uint32_t seen;
	uint32_t sizes[SEEN_MAX];
	uint32_t first_word[SEEN_MAX];
	uint32_t corrupt;
	uint32_t bursts, ticks;
	struct hd_addr last_peer;
	void (*on_tick)(struct probe *probe, struct hd_sink *sink);
	struct hd_addr peer;
	hd_ns ticked;
};

static uint8_t pattern(uint32_t number, size_t i) {
	return (uint8_t)((size_t)number * 31 + i * 7);
}

/* Packet: 8 bytes of header (number, size), then a pattern. */
static void check_packet(struct probe *probe, const struct hd_packet *packet) {
	uint32_t number, size;

	assert_true(probe->seen < SEEN_MAX);
	assert_true(packet->bytes >= 8);
	memcpy(&number, packet->data, 4);
	memcpy(&size, packet->data + 4, 4);
	if (size != packet->bytes)
		probe->corrupt++;
	for (size_t i = 8; i < packet->bytes; i++)
		probe->corrupt += packet->data[i] != pattern(number, i);
	probe->first_word[probe->seen] = number;
	probe->sizes[probe->seen++] = (uint32_t)packet->bytes;
	probe->last_peer = packet->peer;
}

static void probe_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct probe *probe = core;

	probe->bursts++;
	for (size_t i = 0; i < count; i++)
		check_packet(probe, &packets[i]);
}

static void probe_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct probe *probe = core;

	probe->ticks++;
	probe->ticked = now;
	probe->deadline = HD_NEVER;
	if (probe->on_tick)
		probe->on_tick(probe, sink);
}

static hd_ns probe_deadline(const void *core) {
	return ((const struct probe *)core)->deadline;
}

static const struct hd_core_ops probe_ops = {probe_receive, probe_tick, probe_deadline};

struct pair {
	struct hd_udp *from, *to;
	struct probe *sender, *receiver;
};

static void open_udp(struct hd_udp_config config, struct hd_udp **udp) {
	char error[128] = "";

	config.bind.ipv4 = LOOPBACK;
	assert_int_equal(hd_udp_open(&config, udp, error, sizeof error), 0);
}

static void open_pair(struct pair *pair, struct hd_udp_config config) {
	open_udp(config, &pair->from);
	open_udp(config, &pair->to);
	pair->sender = calloc(1, sizeof *pair->sender);
	pair->receiver = calloc(1, sizeof *pair->receiver);
	assert_non_null(pair->sender);
	assert_non_null(pair->receiver);
	pair->receiver->deadline = HD_NEVER;
	pair->sender->peer = hd_udp_bound(pair->to);
}

static void close_pair(struct pair *pair) {
	hd_udp_close(pair->from);
	hd_udp_close(pair->to);
	free(pair->sender);
	free(pair->receiver);
}

static void send_packet(
	struct hd_sink *sink,
	struct hd_addr peer,
	uint32_t number,
	uint32_t size,
	uint32_t head,
	uint8_t *scratch
) {
	memcpy(scratch, &number, 4);
	memcpy(scratch + 4, &size, 4);
	for (size_t i = 8; i < size; i++)
		scratch[i] = pattern(number, i);
	sink->send(sink, peer, scratch, head, size > head ? scratch + head : NULL, size - head);
}

/* Sizes that exercise every border of the grouping: runs, a shorter last one, growth, single ones,
 * runs beyond 64 segments and beyond 65,000 bytes. */
static uint32_t mixed_size(uint32_t i) {
	if (i < 100)
		return 1464;
	if (i < 110)
		return i % 2 ? 100 : 1464;
	if (i < 310)
		return 60;
	if (i < 320)
		return 9 + (i - 310) * 13;
	if (i < 340)
		return 8952;
	return 9 + i % 3;
}
#define MIXED_COUNT 400

static uint8_t mixed_data[MIXED_COUNT][HD_PACKET_BYTES_MAX];

static void send_mixed(struct probe *probe, struct hd_sink *sink) {
	for (uint32_t i = 0; i < MIXED_COUNT; i++)
		send_packet(
			sink,
			probe->peer,
			i,
			mixed_size(i),
			i < 100 ? mixed_size(i) : 8, /* control first, as it leaves first */
			mixed_data[i]
		);
}

static void receive_until(struct pair *pair, uint32_t count) {
	hd_ns limit = hd_udp_now() + 2 * HD_SECOND;

	while (pair->receiver->seen < count && hd_udp_now() < limit)
		assert_int_equal(
			hd_udp_poll(
				pair->to,
				(struct hd_node){&probe_ops, pair->receiver},
				hd_udp_now() + 10 * HD_MS
			),
			0
		);
}

static void step_sender(struct pair *pair) {
	pair->sender->deadline = 0;
	assert_int_equal(hd_udp_poll(pair->from, (struct hd_node){&probe_ops, pair->sender}, 0), 0);
}

static void check_mixed(struct hd_udp_config config) {
	struct pair pair;
	const struct hd_udp_stats *sent, *received;
	uint64_t bytes = 0;

	open_pair(&pair, config);
	pair.sender->on_tick = send_mixed;
	step_sender(&pair);
	receive_until(&pair, MIXED_COUNT);
	assert_int_equal(pair.receiver->seen, MIXED_COUNT);
	assert_int_equal(pair.receiver->corrupt, 0);
	for (uint32_t i = 0; i < MIXED_COUNT; i++) {
		assert_int_equal(pair.receiver->first_word[i], i);
		assert_int_equal(pair.receiver->sizes[i], mixed_size(i));
		bytes += mixed_size(i);
	}
	assert_true(hd_addr_equal(pair.receiver->last_peer, hd_udp_bound(pair.from)));
	sent = hd_udp_stats(pair.from);
	received = hd_udp_stats(pair.to);
	assert_int_equal(sent->sent_packets, MIXED_COUNT);
	assert_int_equal(sent->sent_bytes, bytes);
	assert_int_equal(sent->send_errors, 0);
	assert_int_equal(received->received_packets, MIXED_COUNT);
	assert_int_equal(received->received_bytes, bytes);
	assert_int_equal(received->truncated, 0);
	assert_int_equal(received->receive_overflow, 0);
	close_pair(&pair);
}

static void test_mixed_sizes(void **state) {
	check_mixed((struct hd_udp_config){0});
}

static void test_mixed_sizes_without_gso(void **state) {
	check_mixed((struct hd_udp_config){.no_gso = true});
}

static void test_mixed_sizes_without_gro(void **state) {
	check_mixed((struct hd_udp_config){.no_gro = true});
}

static void test_mixed_sizes_plain(void **state) {
	check_mixed((struct hd_udp_config){.no_gso = true, .no_gro = true});
}

#define LONG_COUNT 2000

/* More than one flush within one tick, all from one buffer, and GSO shows in the number of calls. */
static void send_long(struct probe *probe, struct hd_sink *sink) {
	static uint8_t data[LONG_COUNT][1464];

	for (uint32_t i = 0; i < LONG_COUNT; i++)
		send_packet(sink, probe->peer, i, 1464, 56, data[i]);
}

static void test_trains(void **state) {
	struct pair pair;

	open_pair(&pair, (struct hd_udp_config){.receive_buffer_bytes = 16u << 20});
	if (hd_udp_receive_window(pair.to) < (8u << 20)) {
		close_pair(&pair); /* unprivileged: the kernel's limit is too low for this burst */
		skip();
		return;
	}
	pair.sender->on_tick = send_long;
	step_sender(&pair);
	receive_until(&pair, LONG_COUNT);
	assert_int_equal(pair.receiver->seen, LONG_COUNT);
	assert_int_equal(pair.receiver->corrupt, 0);
	for (uint32_t i = 0; i < LONG_COUNT; i++)
		assert_int_equal(pair.receiver->first_word[i], i);
	/* 8 flushes, each in parts that double, as the device takes all at once */
	assert_true(hd_udp_stats(pair.from)->send_calls <= 48);
	assert_true(pair.receiver->bursts < LONG_COUNT / 20); /* whole trains, not packets */
	close_pair(&pair);
}

/* Sends one packet to a peer that refuses it between two good ones; nothing is sent twice. */
static void send_with_bad(struct probe *probe, struct hd_sink *sink) {
	static uint8_t data[4][64];
	struct hd_addr broadcast = {.ipv4 = 0xffffffffu, .port = 9};

	send_packet(sink, probe->peer, 0, 64, 8, data[0]);
	send_packet(sink, probe->peer, 1, 64, 8, data[1]);
	send_packet(sink, broadcast, 2, 64, 8, data[2]); /* EACCES without SO_BROADCAST */
	send_packet(sink, probe->peer, 3, 64, 8, data[3]);
	sink->send(sink, (struct hd_addr){0}, data[0], 8, NULL, 0);
	sink->send(sink, probe->peer, data[0], 8, data[0], HD_PACKET_BYTES_MAX);
}

static void test_failed_message_alone(void **state) {
	struct pair pair;

	open_pair(&pair, (struct hd_udp_config){0});
	pair.sender->on_tick = send_with_bad;
	step_sender(&pair);
	receive_until(&pair, 3);
	hd_udp_poll(
		pair.to, (struct hd_node){&probe_ops, pair.receiver}, hd_udp_now() + 20 * HD_MS
	);
	assert_int_equal(pair.receiver->seen, 3);
	assert_int_equal(pair.receiver->first_word[0], 0);
	assert_int_equal(pair.receiver->first_word[1], 1);
	assert_int_equal(pair.receiver->first_word[2], 3);
	assert_int_equal(hd_udp_stats(pair.from)->send_errors, 3);
	assert_int_equal(hd_udp_stats(pair.from)->sent_packets, 3);
	close_pair(&pair);
}

/* A socket buffer that is far too small makes the kernel say EAGAIN in the middle of a flush. On the
 * loopback device packets leave the sender's buffer when they are read, so the reader runs beside. */
struct reader {
	struct pair *pair;
	uint32_t count;
};

static void *read_beside(void *argument) {
	struct reader *reader = argument;

	receive_until(reader->pair, reader->count);
	return NULL;
}

/* Until the driver has nothing more that waits. */
static void step_until_sent(struct pair *pair) {
	const struct hd_udp_stats *stats = hd_udp_stats(pair->from);
	hd_ns limit = hd_udp_now() + 2 * HD_SECOND;

	while (stats->sent_packets + stats->send_errors < MIXED_COUNT && hd_udp_now() < limit)
		assert_int_equal(
			hd_udp_poll(
				pair->from,
				(struct hd_node){&probe_ops, pair->sender},
				hd_udp_now() + 10 * HD_MS
			),
			0
		);
}

static void test_full_socket(void **state) {
	struct pair pair;
	struct reader reader = {.pair = &pair, .count = MIXED_COUNT};
	struct probe *receiver;
	uint32_t newest[2] = {0, 0}; /* of packets without a payload, and with one: these wait */
	pthread_t thread;

	open_pair(&pair, (struct hd_udp_config){.send_buffer_bytes = 4096});
	receiver = pair.receiver;
	pair.sender->on_tick = send_mixed;
	assert_int_equal(pthread_create(&thread, NULL, read_beside, &reader), 0);
	step_sender(&pair);
	step_until_sent(&pair);
	pthread_join(thread, NULL);
	/* Each packet arrived at most once and in order; what did not is counted as given up. */
	for (uint32_t i = 0; i < receiver->seen; i++) {
		uint32_t number = receiver->first_word[i];
		uint32_t *last = &newest[number >= 100];

		assert_true(number == 0 || number > *last);
		*last = number;
	}
	assert_int_equal(receiver->corrupt, 0);
	assert_int_equal(
		hd_udp_stats(pair.from)->sent_packets + hd_udp_stats(pair.from)->send_errors,
		MIXED_COUNT
	);
	close_pair(&pair);
}

static void test_overflow_is_counted(void **state) {
	struct pair pair;

	open_pair(&pair, (struct hd_udp_config){.receive_buffer_bytes = 65536, .no_gso = true});
	pair.sender->on_tick = send_long;
	step_sender(&pair);
	receive_until(&pair, 10);
	/* The kernel attaches its counter to packets that come after the overflow. */
	pair.sender->on_tick = send_with_bad;
	step_sender(&pair);
	receive_until(&pair, pair.receiver->seen + 3);
	assert_true(hd_udp_stats(pair.to)->receive_overflow > 0);
	assert_int_equal(
		hd_udp_stats(pair.to)->receive_overflow + pair.receiver->seen, LONG_COUNT + 3
	);
	close_pair(&pair);
}

struct loop {
	struct hd_udp *udp;
	struct probe probe;
	uint32_t wakes;
	int result;
};

static void on_woken(void *owner, hd_ns now, struct hd_sink *sink) {
	((struct loop *)owner)->wakes++;
}

static void *run_loop(void *argument) {
	struct loop *loop = argument;

	loop->result = hd_udp_run(loop->udp, (struct hd_node){&probe_ops, &loop->probe});
	return NULL;
}

static void sleep_ms(long ms) {
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void test_wake_and_stop(void **state) {
	struct loop *loop = calloc(1, sizeof *loop);
	struct hd_udp_config config = {.woken = on_woken, .owner = loop};
	pthread_t thread;

	assert_non_null(loop);
	loop->probe.deadline = HD_NEVER;
	open_udp(config, &loop->udp);
	assert_int_equal(pthread_create(&thread, NULL, run_loop, loop), 0);
	for (int i = 0; i < 3; i++) {
		sleep_ms(10);
		hd_udp_wake(loop->udp);
	}
	sleep_ms(10);
	hd_udp_stop(loop->udp);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(loop->result, 0);
	assert_true(loop->wakes >= 1 && loop->wakes <= 3);
	assert_int_equal(loop->probe.ticks, 0);
	hd_udp_close(loop->udp);
	free(loop);
}

static void test_stop_before_run(void **state) {
	struct loop loop = {.probe = {.deadline = HD_NEVER}};

	open_udp((struct hd_udp_config){0}, &loop.udp);
	hd_udp_stop(loop.udp);
	run_loop(&loop);
	assert_int_equal(loop.result, 0);
	hd_udp_close(loop.udp);
}

/* Ticks are never early, and with a sharp timer not very late. */
static void test_deadline(void **state) {
	struct probe *probe = calloc(1, sizeof *probe);
	struct hd_udp *udp;
	hd_ns best = HD_NEVER;

	assert_non_null(probe);
	open_udp((struct hd_udp_config){0}, &udp);
	for (uint32_t i = 0; i < 50; i++) {
		hd_ns due = hd_udp_now() + 300 * HD_US;

		probe->deadline = due;
		while (probe->ticks <= i)
			assert_int_equal(
				hd_udp_poll(udp, (struct hd_node){&probe_ops, probe}, HD_NEVER), 0
			);
		assert_true(probe->ticked >= due);
		best = hd_ns_min(best, probe->ticked - due);
	}
	/* The best of 50, so that a loaded machine does not matter; the default slack gives 50 us. */
	assert_true(best < 40 * HD_US);
	hd_udp_close(udp);
	free(probe);
}

static double cpu_seconds(void) {
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec
		+ 1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* A node whose core wants a tick every 20 ms (far more than a keepalive) stays below 1 % of a core. */
static void test_idle_cpu(void **state) {
	struct probe *probe = calloc(1, sizeof *probe);
	struct hd_udp *udp;
	hd_ns start = hd_udp_now(), end = start + HD_SECOND;
	double cpu = cpu_seconds();

	assert_non_null(probe);
	open_udp((struct hd_udp_config){0}, &udp);
	for (hd_ns now = start; now < end; now = hd_udp_now()) {
		probe->deadline = now + 20 * HD_MS;
		assert_int_equal(hd_udp_poll(udp, (struct hd_node){&probe_ops, probe}, end), 0);
	}
	cpu = cpu_seconds() - cpu;
	assert_true(probe->ticks >= 10 && probe->ticks <= 60);
	assert_true(cpu <= 0.01);
	hd_udp_close(udp);
	free(probe);
}

static void test_open_errors(void **state) {
	struct hd_udp_config config = {.bind = {.ipv4 = 0xc0000201u /* 192.0.2.1: not ours */}};
	struct hd_udp *udp = NULL;
	char error[128] = "";

	assert_int_equal(hd_udp_open(&config, &udp, error, sizeof error), -EADDRNOTAVAIL);
	assert_null(udp);
	assert_non_null(strstr(error, "bind"));
	hd_udp_close(NULL);
}

static void test_resolve(void **state) {
	struct hd_addr addr = {1, 2};

	assert_int_equal(hd_udp_resolve("10.1.2.3", &addr), 0);
	assert_int_equal(addr.ipv4, 0x0a010203);
	assert_int_equal(addr.port, HD_PORT);
	assert_int_equal(hd_udp_resolve("127.0.0.1:65535", &addr), 0);
	assert_int_equal(addr.port, 65535);
	assert_int_equal(hd_udp_resolve("localhost:1", &addr), 0);
	assert_int_equal(addr.ipv4 >> 24, 127);
	addr = (struct hd_addr){1, 2};
	assert_int_equal(hd_udp_resolve("", &addr), -EINVAL);
	assert_int_equal(hd_udp_resolve(":80", &addr), -EINVAL);
	assert_int_equal(hd_udp_resolve("127.0.0.1:", &addr), -EINVAL);
	assert_int_equal(hd_udp_resolve("127.0.0.1:0", &addr), -EINVAL);
	assert_int_equal(hd_udp_resolve("127.0.0.1:65536", &addr), -EINVAL);
	assert_int_equal(hd_udp_resolve("127.0.0.1:-1", &addr), -EINVAL);
	assert_int_equal(hd_udp_resolve("127.0.0.1: 1", &addr), -EINVAL);
	assert_true(hd_udp_resolve("256.0.0.1.invalid.", &addr) < 0); /* or no answer came */
	assert_int_equal(addr.ipv4, 1);
	assert_int_equal(addr.port, 2);
}

#define RING_BYTES ((size_t)UDP_RECV_BUFFERS * UDP_RECV_BUFFER_BYTES)

/* Bytes of the receiver's buffers that are in memory. */
static size_t ring_resident(const struct hd_udp *udp) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE), held = 0;
	unsigned char *there = calloc(RING_BYTES / page, 1);

	assert_non_null(there);
	assert_int_equal(mincore(udp->receiver.buffers, RING_BYTES, there), 0);
	for (size_t i = 0; i < RING_BYTES / page; i++)
		held += there[i] & 1 ? page : 0;
	free(there);
	return held;
}

static void send_small(struct probe *probe, struct hd_sink *sink) {
	static uint8_t data[8];

	send_packet(sink, probe->peer, 0, 8, 8, data);
}

static void exchange_small(struct pair *pair) {
	uint32_t seen = pair->receiver->seen;

	pair->sender->on_tick = send_small;
	step_sender(pair);
	receive_until(pair, seen + 1);
	assert_int_equal(pair->receiver->seen, seen + 1);
}

/* Pages that long trains have touched are not kept for ever. */
static void test_pages_are_given_back(void **state) {
	struct pair pair = {0};

	open_pair(&pair, (struct hd_udp_config){0});
	memset(pair.to->receiver.buffers, 1, RING_BYTES);
	assert_int_equal(ring_resident(pair.to), RING_BYTES);
	pair.to->receiver.give_back_at = hd_udp_now() + HD_SECOND;
	exchange_small(&pair);
	assert_int_equal(ring_resident(pair.to), RING_BYTES);
	pair.to->receiver.give_back_at = hd_udp_now();
	exchange_small(&pair);
	assert_in_range(ring_resident(pair.to), 0, UDP_RECV_BUFFER_BYTES);
	assert_true(pair.to->receiver.give_back_at > hd_udp_now());
	exchange_small(&pair);
	close_pair(&pair);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mixed_sizes),
		cmocka_unit_test(test_mixed_sizes_without_gso),
		cmocka_unit_test(test_mixed_sizes_without_gro),
		cmocka_unit_test(test_mixed_sizes_plain),
		cmocka_unit_test(test_trains),
		cmocka_unit_test(test_pages_are_given_back),
		cmocka_unit_test(test_failed_message_alone),
		cmocka_unit_test(test_full_socket),
		cmocka_unit_test(test_overflow_is_counted),
		cmocka_unit_test(test_wake_and_stop),
		cmocka_unit_test(test_stop_before_run),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_idle_cpu),
		cmocka_unit_test(test_open_errors),
		cmocka_unit_test(test_resolve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
