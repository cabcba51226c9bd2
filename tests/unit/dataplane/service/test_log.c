/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs in text and JSON: levels, and what they say of events. */
#include "hd_message.h"
#include "tap.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static void test_log_text(void **state) {
	struct tap tap;

	(void)state;
	tap_open(&tap);
	hd_log_write(&tap.log, HD_LOG_INFO, "x", NULL, "%d things", 3);
	assert_string_equal(tap_read(&tap), "prog: 3 things\n");
	hd_log_write(&tap.log, HD_LOG_DEBUG, "x", NULL, "nothing");
	assert_int_equal(hd_log_set_level(&tap.log, "loud"), -EINVAL);
	assert_int_equal(hd_log_set_level(&tap.log, "debug"), 0);
	assert_string_equal(hd_log_level_name(&tap.log), "debug");
	hd_log_write(&tap.log, HD_LOG_DEBUG, "x", NULL, "something");
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

/* The line that a log of this level has of the event; "": none. */
static void assert_line(const char *level, const struct hd_event *event, const char *line) {
	struct tap tap;

	tap_open(&tap);
	assert_int_equal(hd_log_set_level(&tap.log, level), 0);
	hd_log_write(&tap.log, HD_LOG_ERROR, "x", NULL, "begin");
	hd_log_event(&tap.log, event);
	assert_int_equal(strncmp(tap_read(&tap), "prog: begin\n", 12), 0);
	assert_string_equal(tap.text + 12, line);
	tap_close(&tap);
}

static const struct hd_who who = {
	.host = "h3",
	.name = "w3",
	.address = {.ipv4 = 0x0a000003, .port = 4773},
	.tenant = "vision",
	.job = "resnet",
};

/* Nodes that come and go are logged with all that an operator needs to find them. */
static void test_log_nodes(void **state) {
	struct hd_event event = {
		.kind = HD_EVENT_NODE_UP,
		.job = 0xabcd,
		.worker = 3,
		.aux = HD_ROLE_WORKER,
		.who = &who,
	};

	(void)state;
	assert_line(
		"info",
		&event,
		"prog: node-up: worker 3 of job vision/resnet on host h3 (w3, 10.0.0.3:4773)\n"
	);
	assert_line("warning", &event, "");
	event.kind = HD_EVENT_NOTICE;
	event.aux = 0;
	event.value = 30;
	assert_line(
		"info",
		&event,
		"prog: notice: worker 3 of job vision/resnet on host h3 (w3, 10.0.0.3:4773) is preempted in 30.0 s\n"
	);
	event = (struct hd_event){
		.kind = HD_EVENT_NODE_DOWN,
		.reason = HD_REASON_LEASE,
		.aux = HD_ROLE_SERVER,
		.who = &who,
	};
	assert_line(
		"info", &event, "prog: node-down: server on host h3 (w3, 10.0.0.3:4773): lease\n"
	);
}

static void test_log_promoted(void **state) {
	const struct hd_who job_only = {.tenant = "vision", .job = "resnet"};
	struct hd_event event = {
		.kind = HD_EVENT_PROMOTED,
		.job = 0xabcd,
		.version = (hd_version)2 << 48 | 17,
		.who = &who,
	};

	(void)state;
	assert_line(
		"info",
		&event,
		"prog: promoted: job vision/resnet goes on from version 2.17 at the replica on host h3 (w3, 10.0.0.3:4773)\n"
	);
	/* The replica's own word. */
	event.aux = 3;
	event.who = &job_only;
	assert_line(
		"info",
		&event,
		"prog: promoted: job vision/resnet goes on from version 2.17, without 3 known commits\n"
	);
	event.kind = HD_EVENT_ROLLED_BACK;
	assert_line(
		"warning",
		&event,
		"prog: rolled-back: job vision/resnet lost 3 commits, goes on from 2.17\n"
	);
	event.who = NULL;
	assert_line(
		"warning",
		&event,
		"prog: rolled-back: job 0000abcd lost 3 commits, goes on from 2.17\n"
	);
}

/* heddlectl comes and goes with each command. */
static void test_log_shells(void **state) {
	const struct hd_who shell
		= {.name = "heddlectl", .address = {.ipv4 = 0x7f000001, .port = 9}};
	struct hd_event event = {.kind = HD_EVENT_NODE_UP, .aux = HD_ROLE_SHELL, .who = &shell};

	(void)state;
	assert_line("info", &event, "");
	assert_line("debug", &event, "prog: node-up: shell (heddlectl, 127.0.0.1:9)\n");
	event.kind = HD_EVENT_NODE_DOWN;
	assert_line("info", &event, "");
}

/* The pipe is not read: lines are lost and counted, and the program does not block. */
static void test_log_never_blocks(void **state) {
	struct tap tap;

	(void)state;
	tap_open(&tap);
	for (int i = 0; i < 5000; i++)
		hd_log_write(&tap.log, HD_LOG_ERROR, "x", NULL, "%0100d", i);
	assert_true(atomic_load(&tap.log.lost) > 4000);
	assert_int_equal(atomic_load(&tap.log.errors), 5000);
	tap_close(&tap);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_log_text),
		cmocka_unit_test(test_log_json),
		cmocka_unit_test(test_log_nodes),
		cmocka_unit_test(test_log_promoted),
		cmocka_unit_test(test_log_shells),
		cmocka_unit_test(test_log_never_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
