/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of counters: rows and OpenMetrics; and the writer of text under it. */
#include "hd_limits.h"
#include "hd_rows.h"
#include "hd_stat_groups.h"

#include <jansson.h>
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
	hd_out_version(&out, hd_version_make(UINT16_MAX, HD_VERSION_COUNTER_MAX));
	hd_out_char(&out, ' ');
	hd_out_version(&out, 7);
	is_written(&out, "65535.281474976710655 0.7");
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

static const struct hd_histogram_family wait_family = {
	.group = "test",
	.name = "wait",
	.help = "how \"long\"",
	.label = {"tenant", "job"},
	.scale = &hd_scale_time,
};

static const struct hd_histogram_family delay_family = {
	.group = "test",
	.name = "delay",
	.help = "how late",
	.scale = &hd_scale_delay,
};

static struct hd_stats *histograms_of(void) {
	static const char *const first[] = {"a", "b\""}, *const second[] = {"c", "d"};
	struct hd_histogram one = {0}, two = {0}, delay = {0};
	struct hd_stats *stats = hd_stats_create();
	struct hd_process_stats process = {0};

	hd_histogram_add(&one, &hd_scale_time, 15 * HD_US);
	hd_histogram_add(&one, &hd_scale_time, 1500 * HD_MS);
	hd_histogram_add(&one, &hd_scale_time, 101 * HD_SECOND);
	hd_histogram_add(&delay, &hd_scale_delay, 3);
	hd_stats_add(stats, &hd_process_group, NULL, &process);
	hd_stats_add_histogram(stats, &wait_family, first, &one);
	hd_stats_add_histogram(stats, &wait_family, second, &two);
	hd_stats_add_histogram(stats, &delay_family, NULL, &delay);
	assert_int_equal(hd_stats_count(stats), 1);
	assert_int_equal(hd_stats_histogram_count(stats), 3);
	return stats;
}

static void test_histograms(void **state) {
	struct hd_stats *stats = histograms_of();
	struct hd_out out = {0};
	const char *text;

	(void)state;
	hd_stats_openmetrics(stats, &out);
	text = hd_out_string(&out);
	assert_non_null(strstr(
		text,
		"# TYPE heddle_test_wait_seconds histogram\n"
		"# UNIT heddle_test_wait_seconds seconds\n"
		"# HELP heddle_test_wait_seconds how \\\"long\\\"\n"
		"heddle_test_wait_seconds_bucket{tenant=\"a\",job=\"b\\\"\",le=\"1e-05\"} 0\n"
		"heddle_test_wait_seconds_bucket{tenant=\"a\",job=\"b\\\"\",le=\"2e-05\"} 1\n"
	));
	assert_non_null(
		strstr(text,
		       ",le=\"1.0\"} 1\n"
		       "heddle_test_wait_seconds_bucket{tenant=\"a\",job=\"b\\\"\",le=\"2.0\"} 2\n")
	);
	assert_non_null(
		strstr(text,
		       ",le=\"100.0\"} 2\n"
		       "heddle_test_wait_seconds_bucket{tenant=\"a\",job=\"b\\\"\",le=\"+Inf\"} 3\n"
		       "heddle_test_wait_seconds_count{tenant=\"a\",job=\"b\\\"\"} 3\n"
		       "heddle_test_wait_seconds_sum{tenant=\"a\",job=\"b\\\"\"} 102.500015\n"
		       "heddle_test_wait_seconds_bucket{tenant=\"c\",job=\"d\",le=\"1e-05\"} 0\n")
	);
	assert_non_null(
		strstr(text,
		       "heddle_test_wait_seconds_sum{tenant=\"c\",job=\"d\"} 0\n"
		       "# TYPE heddle_test_delay histogram\n"
		       "# HELP heddle_test_delay how late (updates)\n"
		       "heddle_test_delay_bucket{le=\"0.0\"} 0\n"
		       "heddle_test_delay_bucket{le=\"1.0\"} 0\n"
		       "heddle_test_delay_bucket{le=\"2.0\"} 0\n"
		       "heddle_test_delay_bucket{le=\"4.0\"} 1\n")
	);
	assert_non_null(
		strstr(text, "\nheddle_test_delay_count 1\nheddle_test_delay_sum 3\n# EOF\n")
	);
	hd_stats_clear(stats);
	assert_int_equal(hd_stats_histogram_count(stats), 0);
	hd_stats_destroy(stats);
	hd_out_fini(&out);
}

static void test_histogram_rows(void **state) {
	struct hd_stats *stats = histograms_of();
	json_t *document, *row, *buckets;
	const char *error = NULL;
	struct hd_rows rows;
	char *text;

	(void)state;
	assert_null(hd_rows_begin(&rows, &hd_histograms_shape, "of=a/b\"", HD_SECOND, 2));
	assert_int_equal(hd_rows_histograms(&rows, stats), 3);
	text = hd_rows_end(&rows, 3, &error);
	assert_non_null(text);
	document = json_loads(text, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(document, "rows")), 1);
	row = json_array_get(json_object_get(document, "rows"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "histogram")), "wait");
	assert_string_equal(json_string_value(json_object_get(row, "unit")), "ms");
	assert_int_equal(json_integer_value(json_object_get(row, "count")), 3);
	assert_true(fabs(json_real_value(json_object_get(row, "max")) - 101000) < 1e-3);
	buckets = json_object_get(row, "buckets");
	assert_int_equal(json_array_size(buckets), hd_scale_time.count + 1);
	row = json_array_get(buckets, 1);
	assert_true(fabs(json_real_value(json_object_get(row, "le")) - 0.02) < 1e-9);
	assert_int_equal(json_integer_value(json_object_get(row, "count")), 1);
	row = json_array_get(buckets, hd_scale_time.count);
	assert_true(json_is_null(json_object_get(row, "le")));
	assert_int_equal(json_integer_value(json_object_get(row, "count")), 3);
	json_decref(document);
	free(text);
	hd_stats_destroy(stats);
}

/* Of no values there is no mean. */
static void test_histogram_of_nothing(void **state) {
	struct hd_stats *stats = histograms_of();
	const char *error = NULL;
	struct hd_rows rows;
	char *text;

	(void)state;
	assert_null(hd_rows_begin(&rows, &hd_histograms_shape, "of=c/d", HD_SECOND, 2));
	hd_rows_histograms(&rows, stats);
	text = hd_rows_end(&rows, 3, &error);
	assert_non_null(text);
	assert_non_null(strstr(
		text,
		"\"count\":0,\"mean\":null,\"p50\":null,\"p90\":null,\"p99\":null,\"max\":null,"
	));
	free(text);
	hd_stats_destroy(stats);
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
	for (size_t i = 0; i < HD_STATS_HISTOGRAMS_MAX + 2; i++)
		hd_stats_add_histogram(stats, &delay_family, NULL, &(struct hd_histogram){0});
	assert_int_equal(hd_stats_histogram_count(stats), HD_STATS_HISTOGRAMS_MAX);
	assert_int_equal(hd_stats_left_out(stats), 5);
	hd_stats_destroy(stats);
}

/* --- tables --- */

#define ROWS 5000

/* clang-format off */
#define NUMBERS(F, row) \
	F(row, name, TEXT, "what it is called") \
	F(row, number, COUNT, "itself") \
	F(row, half, REAL, "of it") \
	F(row, even, BOOL, "2 divides it") \
	F(row, nothing, COUNT_OR_NULL, "none has it")
/* clang-format on */

HD_ROW_SHAPE(numbers_shape, number_row, NUMBERS, "numbers", "some numbers");

/* One page of a table of numbers with names: its text, or NULL and why. */
static char *text_of(const char *words, uint64_t from, const char **error) {
	struct hd_rows rows;
	char filter[128], name[32];

	(void)snprintf(filter, sizeof filter, "from=%llu %s", (unsigned long long)from, words);
	assert_null(hd_rows_begin(&rows, &numbers_shape, filter, HD_SECOND, 2));
	for (unsigned i = 0; i < ROWS && !rows.full; i++) {
		if (!hd_row_begin(&rows))
			continue;
		if (i % 7 == 6) {
			hd_row_skip(&rows);
			continue;
		}
		(void)snprintf(name, sizeof name, "n\"%u", i);
		hd_row_put(
			&rows,
			&numbers_shape,
			&(struct number_row){name, i, i / 2.0, i % 2 == 0, HD_ROW_NONE}
		);
		hd_row_end(&rows);
	}
	return hd_rows_end(&rows, ROWS, error);
}

static json_t *page_of(const char *words, uint64_t from) {
	const char *error = NULL;
	char *text = text_of(words, from, &error);
	json_t *document;

	assert_non_null(text);
	assert_true(strlen(text) < HD_MESSAGE_BYTES_MAX);
	document = json_loads(text, 0, NULL);
	assert_non_null(document);
	free(text);
	return document;
}

/* Rows on all pages, each once and in order. */
static unsigned count_rows(const char *words, unsigned *pages) {
	json_int_t last = -1, from = 0;
	unsigned count = 0;

	for (*pages = 1;; ++*pages) {
		json_t *document = page_of(words, (uint64_t)from), *row, *next;
		size_t index;

		json_array_foreach(json_object_get(document, "rows"), index, row) {
			json_int_t number = json_integer_value(json_object_get(row, "number"));

			assert_true(number > last);
			last = number;
			count++;
		}
		next = json_object_get(document, "next");
		if (json_is_null(next)) {
			json_decref(document);
			return count;
		}
		assert_true(json_integer_value(next) > from);
		from = json_integer_value(next);
		json_decref(document);
	}
}

static void test_rows(void **state) {
	unsigned pages;

	(void)state;
	assert_int_equal(count_rows("", &pages), ROWS - ROWS / 7);
	assert_true(pages > 3);
	/* A filter that few rows pass is answered in parts, too: no other request is held up for all of them. */
	assert_int_equal(count_rows("number=4000", &pages), 1);
	assert_true(pages > 1);
	assert_int_equal(count_rows("half=2000.0", &pages), 1);
	assert_int_equal(count_rows("half=2e3", &pages), 1);
	assert_int_equal(count_rows("name=n\"5", &pages), 1);
	assert_int_equal(
		count_rows("\\", &pages), 0
	); /* JSON's backslashes are no part of the text */
	assert_int_equal(count_rows("even=true number=5", &pages), 0);
	assert_int_equal(count_rows("nothing=null number=5", &pages), 1);
	assert_int_equal(count_rows("1234", &pages), 1); /* a part of a text, not of a number */
}

static void test_filters(void **state) {
	static const char *const wrong[] = {
		"from=x",
		"from=",
		"from=-1",
		"from=+1",
		"from=4294967296",
		"a b c d e f g h i j k l m n o p q",
	};
	const char *error = NULL;
	struct hd_rows rows;

	(void)state;
	assert_null(text_of("even=true none=5", 3, &error));
	assert_non_null(strstr(error, "filter: "));
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		const char *why = hd_rows_begin(&rows, &numbers_shape, wrong[i], 0, 1);

		assert_non_null(why);
		assert_non_null(strstr(why, "filter: "));
	}
	assert_null(hd_rows_begin(&rows, &numbers_shape, NULL, 0, 1));
	free(hd_rows_end(&rows, 0, &error));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_out),
		cmocka_unit_test(test_openmetrics),
		cmocka_unit_test(test_histograms),
		cmocka_unit_test(test_histogram_rows),
		cmocka_unit_test(test_histogram_of_nothing),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_filters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
