/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs in text and JSON, and the desk where other threads read a node's numbers. */
#include "hd_desk.h"
#include "hd_log.h"
#include "hd_stat_groups.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What a log writes, through a pipe. */
struct tap {
	struct hd_log log;
	int read_fd;
	char text[8192];
};

static void tap_open(struct tap *tap) {
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	hd_log_init(&tap->log, "prog", "n\"1");
	tap->log.fd = fds[1];
	tap->read_fd = fds[0];
}

static const char *tap_read(struct tap *tap) {
	ssize_t bytes = read(tap->read_fd, tap->text, sizeof(tap->text) - 1);

	tap->text[bytes > 0 ? bytes : 0] = '\0';
	return tap->text;
}

static void tap_close(struct tap *tap) {
	close(tap->log.fd);
	close(tap->read_fd);
}

static void test_log_text(void **state) {
	struct tap tap;

	(void)state;
	tap_open(&tap);
	hd_log_say(&tap.log, HD_LOG_INFO, "x", NULL, "%d things", 3);
	assert_string_equal(tap_read(&tap), "prog: 3 things\n");
	hd_log_say(&tap.log, HD_LOG_DEBUG, "x", NULL, "nothing");
	assert_int_equal(hd_log_set_level(&tap.log, "loud"), -EINVAL);
	assert_int_equal(hd_log_set_level(&tap.log, "debug"), 0);
	assert_string_equal(hd_log_level_name(&tap.log), "debug");
	hd_log_say(&tap.log, HD_LOG_DEBUG, "x", NULL, "something");
	assert_string_equal(tap_read(&tap), "prog: something\n");
	tap_close(&tap);
}

static void test_log_json(void **state) {
	struct hd_event event = {
		.at = 5,
		.kind = HD_EVENT_NODE_DOWN,
		.reason = HD_REASON_LEASE,
		.job = 0xabcd,
		.worker = 3,
		.aux = 3,
	};
	struct tap tap;
	json_t *line;

	(void)state;
	tap_open(&tap);
	tap.log.json = true;
	hd_log_event(&tap.log, &event);
	line = json_loads(tap_read(&tap), 0, NULL);
	assert_non_null(line);
	assert_string_equal(json_string_value(json_object_get(line, "node")), "n\"1");
	assert_string_equal(json_string_value(json_object_get(line, "level")), "info");
	assert_int_equal(json_integer_value(json_object_get(line, "priority")), 6);
	assert_string_equal(json_string_value(json_object_get(line, "event")), "node-down");
	assert_string_equal(
		json_string_value(json_object_get(line, "message")),
		"node-down: worker 3 of job 0000abcd: lease"
	);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(line, "detail"), "reason")),
		"lease"
	);
	json_decref(line);
	tap_close(&tap);
}

/* Nobody reads: lines are lost and counted, and nobody waits. */
static void test_log_never_blocks(void **state) {
	struct tap tap;

	(void)state;
	tap_open(&tap);
	for (int i = 0; i < 5000; i++)
		hd_log_say(&tap.log, HD_LOG_ERROR, "x", NULL, "%0100d", i);
	assert_true(atomic_load(&tap.log.lost) > 4000);
	assert_int_equal(atomic_load(&tap.log.errors), 5000);
	tap_close(&tap);
}

/* --- the desk --- */

struct node {
	struct hd_desk *desk;
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
		hd_desk_serve(node->desk, node_fill, node);
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
		assert_int_equal(hd_desk_read(argument, 5000, take, &last), 0);
	return NULL;
}

static void test_desk(void **state) {
	struct node node = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
	pthread_t readers[3];

	(void)state;
	node.desk = hd_desk_open(node_wake, &node);
	assert_int_equal(pthread_create(&node.thread, NULL, node_run, &node), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, reader, node.desk), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(readers[i], NULL);
	pthread_mutex_lock(&node.lock);
	node.end = true;
	pthread_cond_signal(&node.wake);
	pthread_mutex_unlock(&node.lock);
	pthread_join(node.thread, NULL);
	assert_true(node.count >= 900);
	/* Nobody serves any more. */
	assert_int_equal(hd_desk_read(node.desk, 30, take, &node.count), -ETIMEDOUT);
	hd_desk_close(node.desk);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_log_text),
		cmocka_unit_test(test_log_json),
		cmocka_unit_test(test_log_never_blocks),
		cmocka_unit_test(test_desk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
