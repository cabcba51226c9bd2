/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of counters: snapshots and OpenMetrics; and the writer of text under it. */
#include "hd_limits.h"
#include "hd_stat_groups.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void is_written(struct hd_out *out, const char *want) {
	assert_string_equal(hd_out_string(out), want);
	out->bytes = 0;
}

static void test_out(void **state) {
	struct hd_out out = {0};

	(void)state;
	hd_out_u64(&out, 0);
	hd_out_char(&out, ' ');
	hd_out_u64(&out, UINT64_MAX);
	is_written(&out, "0 18446744073709551615");
	hd_out_i64(&out, INT64_MIN);
	is_written(&out, "-9223372036854775808");
	hd_out_milli(&out, 1.0005);
	hd_out_char(&out, ' ');
	hd_out_milli(&out, -0.0001);
	hd_out_char(&out, ' ');
	hd_out_milli(&out, -12.34);
	hd_out_char(&out, ' ');
	hd_out_milli(&out, 99.9999);
	is_written(&out, "1.001 0.0 -12.34 100.0");
	hd_out_milli(&out, NAN);
	hd_out_char(&out, ' ');
	hd_out_milli(&out, 1e300);
	is_written(&out, "null 1e+300");
	hd_out_real(&out, 0.1);
	hd_out_char(&out, ' ');
	hd_out_real(&out, 1.0 / 3);
	hd_out_char(&out, ' ');
	hd_out_real(&out, -INFINITY);
	is_written(&out, "0.1 0.33333333333333331 -Inf");
	hd_out_json(&out, "a\"b\\c\nd\x01é");
	is_written(&out, "\"a\\\"b\\\\c\\u000ad\\u0001é\"");
	hd_out_fini(&out);
}

static void test_openmetrics(void **state) {
	static const char *const first[] = {"eth0", "udp"}, *const second[] = {"a\"b\\\n", "udp"};
	struct hd_port_stats one = {.rx_packets = 7, .tx_bytes = UINT64_MAX},
			     two = {.rx_packets = 9};
	struct hd_process_stats process = {.uptime_seconds = 1.5};
	struct hd_stats *stats = hd_stats_create();
	struct hd_out out = {0};
	const char *text;

	(void)state;
	hd_stats_add(stats, &hd_port_group, first, &one);
	hd_stats_add(stats, &hd_port_group, second, &two);
	hd_stats_add(stats, &hd_process_group, NULL, &process);
	assert_int_equal(hd_stats_count(stats), 3);
	hd_stats_openmetrics(stats, &out);
	text = hd_out_string(&out);
	/* A family stands together, its words before its samples. */
	assert_non_null(
		strstr(text,
		       "# TYPE heddle_port_rx_packets counter\n"
		       "# HELP heddle_port_rx_packets packets received (packets)\n"
		       "heddle_port_rx_packets_total{port=\"eth0\",driver=\"udp\"} 7\n"
		       "heddle_port_rx_packets_total{port=\"a\\\"b\\\\\\n\",driver=\"udp\"} 9\n")
	);
	assert_non_null(strstr(
		text,
		"# TYPE heddle_port_tx_bytes counter\n"
		"# UNIT heddle_port_tx_bytes bytes\n"
		"# HELP heddle_port_tx_bytes payload bytes sent\n"
		"heddle_port_tx_bytes_total{port=\"eth0\",driver=\"udp\"} 18446744073709551615\n"
	));
	assert_non_null(strstr(text, "\nheddle_process_uptime_seconds 1.5\n"));
	assert_string_equal(text + strlen(text) - 6, "# EOF\n");
	hd_stats_clear(stats);
	out.bytes = 0;
	hd_stats_openmetrics(stats, &out);
	is_written(&out, "# EOF\n");
	hd_stats_destroy(stats);
	hd_out_fini(&out);
}

static void test_limit(void **state) {
	static const char *const label[] = {"0"};
	struct hd_core_stats core = {0};
	struct hd_stats *stats = hd_stats_create();

	(void)state;
	for (size_t i = 0; i < HD_STATS_ROWS_MAX + 3; i++)
		hd_stats_add(stats, &hd_core_group, label, &core);
	assert_int_equal(hd_stats_count(stats), HD_STATS_ROWS_MAX);
	assert_int_equal(hd_stats_left_out(stats), 3);
	hd_stats_destroy(stats);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_out),
		cmocka_unit_test(test_openmetrics),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
