/* SPDX-License-Identifier: BSD-3-Clause */
/* A link monitor's core and a controller's: what the one has counted stands in the other's table. */
#include "controller_net.h"
#include "hd_monitor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int read_counts(void *owner, struct hd_monitor_counts counts[HD_COUNTS_DIRECTIONS]) {
	(void)owner;
	memset(counts, 0, HD_COUNTS_DIRECTIONS * sizeof *counts);
	return 0;
}

static void gather(void *owner, struct hd_stats *stats) {
	const char *const labels[] = {"0", "udp"};
	const struct hd_port_stats port = {.rx_packets = 11, .rx_errors = 2};

	(void)owner;
	hd_stats_add(stats, &hd_port_group, labels, &port);
}

static void polled(void **state) {
	static const struct hd_monitor_source source = {read_counts};
	const struct net_config plain = {.epoch = 3, .initial_bps = 80e6};
	struct hd_monitor_config config = {
		.name = "m",
		.host = "h1",
		.seed = {2},
		.source = &source,
		.gather = gather,
	};
	struct hd_message show = {.kind = HD_MSG_SHOW};
	struct hd_monitor *monitor;
	struct peer *shell;
	struct net net;

	(void)state;
	net_open(&net, &plain);
	config.keys = &net.keys;
	config.key_id = net.keys.keys[0].id;
	config.controller = net.addr;
	assert_int_equal(hd_monitor_create(&config, &monitor), 0);
	(void)net_core(&net, (struct hd_node){&hd_monitor_ops, monitor});
	shell = net_peer(&net, HD_ROLE_SHELL, "ctl");
	net_run(&net, SETTLED);
	(void)snprintf(show.show.table, sizeof show.show.table, "dataplane");
	(void)snprintf(show.show.filter, sizeof show.show.filter, "role=monitor");
	post(shell, show);
	net_run(&net, 20 * HD_MS);
	assert_int_equal(net.controller->counters.stats, 1);
	post(shell, show);
	net_run(&net, 20 * HD_MS);
	assert_non_null(shell->json);
	assert_non_null(strstr(shell->json, "\"host\":\"h1\""));
	assert_non_null(strstr(shell->json, "\"rx_packets\":11,"));
	assert_non_null(strstr(shell->json, "\"drops\":2,\"drop_reason\":\"broken\""));
	assert_null(strstr(shell->json, "\"control_sent\":0,"));
	hd_monitor_destroy(monitor);
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(polled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
