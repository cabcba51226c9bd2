/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface through which other threads read a node's numbers, and options of programs. */
#include "hd_number.h"
#include "hd_setup.h"
#include "hd_stat_groups.h"
#include "hd_stats_query.h"
#include "tap.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

/* --- the interface --- */

struct node {
	struct hd_stats_query *query;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool woken, end;
	double count; // the node's thread
};

static void node_wake(void *owner) {
	struct node *node = owner;

	pthread_mutex_lock(&node->lock);
	node->woken = true;
	pthread_cond_signal(&node->wake);
	pthread_mutex_unlock(&node->lock);
}

static void node_fill(void *owner, struct hd_stats *stats) {
	struct node *node = owner;
	struct hd_process_stats process = {.uptime_seconds = ++node->count, .open_fds = 7};

	hd_stats_add(stats, &hd_process_group, NULL, &process);
}

static void *node_run(void *argument) {
	struct node *node = argument;

	pthread_mutex_lock(&node->lock);
	while (!node->end) {
		while (!node->woken && !node->end)
			pthread_cond_wait(&node->wake, &node->lock);
		node->woken = false;
		pthread_mutex_unlock(&node->lock);
		hd_stats_query_serve(node->query, node_fill, node);
		pthread_mutex_lock(&node->lock);
	}
	pthread_mutex_unlock(&node->lock);
	return NULL;
}

static void take(void *owner, const struct hd_stats *stats) {
	double *last = owner;
	double value = hd_stats_row(stats, 0).value[0].f64;

	assert_int_equal(hd_stats_count(stats), 1);
	assert_true(value > *last);
	*last = value;
}

static void *reader(void *argument) {
	double last = 0;

	for (int i = 0; i < 300; i++)
		assert_int_equal(hd_stats_query_read(argument, 5000, take, &last), 0);
	return NULL;
}

static void test_stats_query(void **state) {
	struct node node = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
	pthread_t readers[3];

	(void)state;
	node.query = hd_stats_query_open(node_wake, &node);
	assert_int_equal(pthread_create(&node.thread, NULL, node_run, &node), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, reader, node.query), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(readers[i], NULL);
	pthread_mutex_lock(&node.lock);
	node.end = true;
	pthread_cond_signal(&node.wake);
	pthread_mutex_unlock(&node.lock);
	pthread_join(node.thread, NULL);
	assert_true(node.count >= 900);
	/* The node does not serve any more. */
	assert_int_equal(hd_stats_query_read(node.query, 30, take, &node.count), -ETIMEDOUT);
	hd_stats_query_close(node.query);
}

static void test_numbers(void **state) {
	static const char *const not_whole[]
		= {"", " 1", "+1", "-1", "1 ", "1.0", "1e3", "0x1", "18446744073709551616", "1K"};
	static const char *const not_bytes[]
		= {"", "K", "1KK", "1k", "-1K", "1 K", "17179869184G", "0"};
	static const char *const not_real[]
		= {"", "x", "1x", "nan", "inf", "-1", "1e999", "11", "+1", " 1", "0x1", "1 "};
	uint64_t whole = 7;
	double real = 7;

	(void)state;
	for (size_t i = 0; i < sizeof not_whole / sizeof not_whole[0]; i++)
		assert_int_equal(hd_number_whole(not_whole[i], 0, UINT64_MAX, &whole), -EINVAL);
	for (size_t i = 0; i < sizeof not_bytes / sizeof not_bytes[0]; i++)
		assert_int_equal(hd_number_bytes(not_bytes[i], 1, UINT64_MAX, &whole), -EINVAL);
	for (size_t i = 0; i < sizeof not_real / sizeof not_real[0]; i++)
		assert_int_equal(hd_number_real(not_real[i], 0, 10, &real), -EINVAL);
	assert_int_equal(hd_number_whole("9", 10, 20, &whole), -EINVAL);
	assert_int_equal(hd_number_whole("21", 10, 20, &whole), -EINVAL);
	assert_int_equal(hd_number_bytes("2K", 1, 2047, &whole), -EINVAL);
	assert_int_equal(whole, 7); /* as it was */
	assert_true(real == 7);
	assert_int_equal(hd_number_whole("18446744073709551615", 0, UINT64_MAX, &whole), 0);
	assert_true(whole == UINT64_MAX);
	assert_int_equal(hd_number_bytes("17179869183G", 1, UINT64_MAX, &whole), 0);
	assert_true(whole == UINT64_C(17179869183) << 30);
	assert_int_equal(hd_number_bytes("2K", 1, 2048, &whole), 0);
	assert_true(whole == 2048);
	assert_int_equal(hd_number_real("1e-3", 0, 10, &real), 0);
	assert_true(real == 1e-3);
}

/* A service whose log is tapped; tap_close() is due. */
static struct hd_setup_options setup_of(struct hd_service *service, struct tap *tap) {
	const struct hd_setup_options options = {.log = &service->log, .host = "n1"};

	memset(service, 0, sizeof *service);
	tap_open(tap);
	hd_log_init(&service->log, "prog", "n1");
	service->log.fd = tap->log.fd;
	return options;
}

static void write_key(char path[64]) {
	static const char line[]
		= "7 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
	int fd;

	(void)snprintf(path, 64, "/tmp/test_service.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, line, sizeof line - 1), sizeof line - 1);
	close(fd);
}

/* Each step of a program says on its log which option is wrong, and with which code to exit. */
static void test_setup(void **state) {
	struct hd_driver_config config = {0};
	struct hd_driver *driver = NULL;
	struct hd_setup_options options;
	struct hd_service service;
	struct hd_keyring keys;
	struct tap tap;

	(void)state;
	options = setup_of(&service, &tap);
	options.key_file = "/nonexistent/keys";
	assert_int_equal(hd_setup_begin(&service, &options, &keys), EX_NOINPUT);
	assert_non_null(strstr(tap_read(&tap), "--key-file: /nonexistent/keys: No such file"));
	assert_int_equal(hd_setup_end(&service, &options, &keys, NULL, EX_NOINPUT), EX_NOINPUT);
	options.key_file = "/proc/self/cmdline";
	assert_int_equal(hd_setup_begin(&service, &options, &keys), EX_DATAERR);
	assert_non_null(strstr(tap_read(&tap), "not a text file"));
	options.listen = "1.2.3.4:x";
	assert_int_equal(hd_setup_driver(&service, &options, &config, &driver), EX_USAGE);
	assert_non_null(strstr(tap_read(&tap), "--listen: '1.2.3.4:x': not an IPv4 address"));
	/* TEST-NET-1 is no address of this host. */
	options.listen = "192.0.2.1:0";
	assert_int_equal(hd_setup_driver(&service, &options, &config, &driver), EX_UNAVAILABLE);
	assert_non_null(strstr(tap_read(&tap), "--listen: 192.0.2.1:0: "));
	config.options.driver = "token-ring";
	options.listen = "127.0.0.1:0";
	assert_int_equal(hd_setup_driver(&service, &options, &config, &driver), EX_UNAVAILABLE);
	assert_string_equal(tap_read(&tap), "prog: --driver: 'token-ring' (udp or dpdk)\n");
	assert_null(driver);
	tap_close(&tap);
}

/* A service that starts also ends, with the first error as its status. */
static void test_setup_ends(void **state) {
	const struct hd_event event = {.kind = HD_EVENT_NODE_UP};
	struct hd_driver_config config = {0};
	struct hd_driver *driver = NULL;
	struct hd_setup_options options;
	struct hd_service service;
	struct hd_keyring keys;
	struct tap tap;
	char path[64];

	(void)state;
	write_key(path);
	options = setup_of(&service, &tap);
	options.key_file = path;
	options.listen = "127.0.0.1:0";
	options.events = "/nonexistent/events";
	assert_int_equal(hd_setup_begin(&service, &options, &keys), 0);
	assert_int_equal(hd_setup_events(&service, &options), EX_CANTCREAT);
	assert_non_null(strstr(tap_read(&tap), "--events: /nonexistent/events: No such file"));
	assert_int_equal(hd_setup_end(&service, &options, &keys, NULL, EX_CANTCREAT), EX_CANTCREAT);
	assert_int_equal(keys.count, 0);
	options.events = "/dev/full";
	for (int status = 0; status < 2; status++) {
		assert_int_equal(hd_setup_begin(&service, &options, &keys), 0);
		assert_int_equal(keys.count, 1);
		assert_int_equal(keys.keys[0].id, 7);
		assert_int_equal(hd_setup_driver(&service, &options, &config, &driver), 0);
		assert_int_equal(hd_setup_events(&service, &options), 0);
		hd_event_log_add(service.events, &event);
		assert_int_equal(
			hd_setup_end(&service, &options, &keys, driver, status),
			status ? status : EX_IOERR
		);
		assert_null(service.events);
		assert_int_equal(keys.count, 0);
		assert_non_null(strstr(tap_read(&tap), "--events: "));
	}
	options.events = NULL;
	assert_int_equal(hd_setup_begin(&service, &options, &keys), 0);
	assert_int_equal(hd_setup_end(&service, &options, &keys, NULL, 0), 0);
	(void)unlink(path);
	tap_close(&tap);
}

static void assert_file(const char *path, const char *text) {
	char read_[64] = "";
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	(void)fread(read_, 1, sizeof read_ - 1, file);
	(void)fclose(file);
	assert_string_equal(read_, text);
}

struct run {
	struct hd_service *service;
	bool served; /* it had its numbers while it ran */
	int times;
};

static int run_once(void *owner) {
	struct run *run = owner;

	run->served = run->service->metrics != NULL;
	run->times++;
	return 42;
}

/* Numbers are to be had as long as it runs; who cannot offer them does not run. */
static void test_setup_serves(void **state) {
	static const struct hd_stat_group *const no_groups[] = {NULL};
	struct hd_driver_config config = {0};
	struct hd_setup_options options;
	struct hd_driver *driver;
	struct hd_service service;
	struct hd_keyring keys;
	struct run run = {.service = &service};
	struct tap tap;
	char path[64];

	(void)state;
	write_key(path);
	options = setup_of(&service, &tap);
	options.key_file = path;
	assert_int_equal(hd_setup_begin(&service, &options, &keys), 0);
	options.listen = "127.0.0.1:0";
	assert_int_equal(hd_setup_driver(&service, &options, &config, &driver), 0);
	service.options.metrics = "127.0.0.1:x";
	assert_int_equal(
		hd_setup_serve(&service, &options, driver, no_groups, run_once, &run), EX_USAGE
	);
	assert_non_null(strstr(tap_read(&tap), "--metrics: '127.0.0.1:x': "));
	assert_int_equal(run.times, 0);
	service.options.metrics = "127.0.0.1:0";
	assert_int_equal(hd_setup_serve(&service, &options, driver, no_groups, run_once, &run), 42);
	assert_int_equal(run.times, 1);
	assert_true(run.served);
	assert_null(service.metrics);
	assert_int_equal(hd_setup_end(&service, &options, &keys, driver, 42), 42);
	(void)unlink(path);
	tap_close(&tap);
}

/* A program that is started a second time finds a port taken, and leaves the first one's events as they are. */
static void test_setup_twice(void **state) {
	static const struct hd_stat_group *const no_groups[] = {NULL};
	char events[64], address[HD_ADDR_TEXT_BYTES], metrics[HD_ADDR_TEXT_BYTES];
	struct hd_driver *driver = NULL, *second = NULL;
	struct hd_service service, first;
	struct hd_setup_options options;
	struct hd_driver_config config = {0}, again = {0};
	struct run run = {.service = &service};
	char error[256];
	struct tap tap;
	int fd;

	(void)state;
	options = setup_of(&first, &tap);
	tap_close(&tap);
	options = setup_of(&service, &tap);
	options.listen = "127.0.0.1:0";
	assert_int_equal(hd_setup_driver(&service, &options, &config, &driver), 0);
	first.log.fd = tap.log.fd;
	first.options.metrics = "127.0.0.1:0";
	assert_int_equal(hd_service_start(&first, driver, no_groups, error, sizeof error), 0);
	(void)snprintf(events, sizeof events, "/tmp/test_service.XXXXXX");
	fd = mkstemp(events);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "{}\n", 3), 3);
	close(fd);
	hd_driver_print_addr(hd_driver_bound(driver), address);
	hd_driver_print_addr(hd_metrics_bound(first.metrics), metrics);
	(void)tap_read(&tap);
	options.listen = address;
	options.events = events;
	assert_int_equal(hd_setup_driver(&service, &options, &again, &second), EX_UNAVAILABLE);
	assert_non_null(strstr(tap_read(&tap), "Address already in use"));
	assert_null(second);
	/* One that has another port, but not for its metrics. */
	options.listen = "127.0.0.1:0";
	service.options.metrics = metrics;
	assert_int_equal(hd_setup_driver(&service, &options, &again, &second), 0);
	assert_int_equal(
		hd_setup_serve(&service, &options, second, no_groups, run_once, &run),
		EX_UNAVAILABLE
	);
	assert_non_null(strstr(tap_read(&tap), "Address already in use"));
	assert_int_equal(run.times, 0);
	assert_null(service.events);
	assert_file(events, "{}\n");
	hd_service_stop(&first);
	hd_driver_close(driver);
	/* Its turn: the log starts again. */
	assert_int_equal(hd_setup_serve(&service, &options, second, no_groups, run_once, &run), 42);
	assert_file(events, "");
	hd_driver_close(second);
	assert_int_equal(hd_event_log_close(service.events), 0);
	(void)unlink(events);
	tap_close(&tap);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stats_query),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_setup),
		cmocka_unit_test(test_setup_ends),
		cmocka_unit_test(test_setup_twice),
		cmocka_unit_test(test_setup_serves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
