/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of all nodes as metrics: each sample once, whatever nodes are called, and few steps for many nodes. */
#include "ctl_dataplane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 8000
#define COMPARED_MAX (NODES * 13 * 3 * 2) /* log2(NODES) is 13; 3 labels; qsort may need more */

static struct world {
	struct hd_controller controller;
	struct ctl_node nodes[NODES];
	struct ctl_readings readings[NODES];
	char names[NODES][16];
	uint32_t count;
} * world;

/* Sessions of nodes are places in `names`. */
const char *__wrap_hd_session_peer_name(const struct hd_session *session);
const char *__wrap_hd_session_peer_name(const struct hd_session *session) {
	return (const char *)session;
}

static uint64_t compared;

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b) {
	compared++;
	return __real_strcmp(a, b);
}

static int set_up(void **state) {
	(void)state;
	world = calloc(1, sizeof *world);
	assert_non_null(world);
	TAILQ_INIT(&world->controller.nodes);
	return 0;
}

static int tear_down(void **state) {
	(void)state;
	free(world);
	return 0;
}

/* A node that has answered; rx_packets is its number, from 1. */
static struct ctl_node *add(uint8_t role, const char *name, const char *host) {
	uint32_t index = world->count++;
	struct ctl_node *node = &world->nodes[index];

	assert_true(index < NODES);
	(void)snprintf(world->names[index], sizeof world->names[index], "%s", name);
	(void)snprintf(node->host, sizeof node->host, "%s", host);
	node->role = role;
	node->session = (struct hd_session *)(void *)world->names[index];
	node->readings = &world->readings[index];
	node->readings->taken = 1;
	node->readings->last.rx_packets = index + 1;
	TAILQ_INSERT_TAIL(&world->controller.nodes, node, entry);
	world->controller.node_count++;
	return node;
}

static struct hd_stats *gather(void) {
	struct hd_stats *stats = hd_stats_create();

	assert_non_null(stats);
	ctl_dataplane_stats(&world->controller, stats);
	assert_int_equal(hd_stats_left_out(stats), 0);
	return stats;
}

static void check_row(
	const struct hd_stats *stats,
	size_t index,
	const char *name,
	const char *role,
	const char *host,
	uint64_t packets
) {
	struct hd_stats_row row = hd_stats_row(stats, index);

	assert_string_equal(row.label[0], name);
	assert_string_equal(row.label[1], role);
	assert_string_equal(row.label[2], host);
	assert_int_equal(row.value[0].u64, packets);
}

static void test_labels(void **state) {
	struct hd_stats *stats;

	(void)state;
	(void)add(HD_ROLE_SERVER, "ps", "h2");
	(void)add(HD_ROLE_SERVER, "ps", "h1");
	(void)add(HD_ROLE_AGGREGATOR, "ps", "h1");
	(void)add(HD_ROLE_SERVER, "ps", "h1"); /* the second one of these labels */
	(void)add(HD_ROLE_NONE, "ps", "h3");
	add(HD_ROLE_SERVER, "ps", "h4")->readings->taken = 0; /* it has not answered */
	stats = gather();
	assert_int_equal(hd_stats_count(stats), 3);
	check_row(stats, 0, "ps", "aggregator", "h1", 3);
	check_row(stats, 1, "ps", "server", "h1", 2);
	check_row(stats, 2, "ps", "server", "h2", 1);
	hd_stats_destroy(stats);
}

/* A name may have the sign that joins names. */
static void test_joined_names(void **state) {
	static struct ctl_job jobs[]
		= {{.tenant_name = "a/b", .name = "c"}, {.tenant_name = "a", .name = "b/c"}};
	struct hd_stats *stats;

	(void)state;
	for (uint16_t i = 0; i < 4; i++) {
		struct ctl_node *node = add(HD_ROLE_WORKER, "w", "h1");

		node->job = &jobs[i / 2];
		node->worker = i % 2;
	}
	stats = gather();
	assert_int_equal(hd_stats_count(stats), 2);
	check_row(stats, 0, "a/b/c/0", "worker", "h1", 1);
	check_row(stats, 1, "a/b/c/1", "worker", "h1", 2);
	hd_stats_destroy(stats);
}

static void test_many(void **state) {
	struct hd_stats *stats;
	char name[16];

	(void)state;
	for (uint32_t i = 0; i < NODES; i++) {
		(void)snprintf(name, sizeof name, "n%u", i * 7919 % NODES / 2); /* each twice */
		(void)add(HD_ROLE_MONITOR, name, "h");
	}
	compared = 0;
	stats = gather();
	assert_in_range(compared, NODES, COMPARED_MAX);
	assert_int_equal(hd_stats_count(stats), NODES / 2);
	hd_stats_destroy(stats);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_labels, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_joined_names, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
