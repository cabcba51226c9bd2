/* SPDX-License-Identifier: BSD-3-Clause */
/* Aligned text tables: texts to the left, numbers to the right, two spaces between. */
#include "heddlectl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS_MAX 64
#define CELL_BYTES 256

/* The default columns; --wide and --json show the rest. */
static const char *const usual[][2] = {
	{"nodes",
	 "name role host job worker address up_s heard_ms rtt_us clock_offset_us transfers draining preempted_in_s"},
	{"jobs",
	 "tenant job state server workers version tau_max pending running granted applied dropped "
	 "failed voided ungranted owed_bytes warning"},
	{"links",
	 "link estimate_mbps guess spread_mbps age_s samples reserved_mbps running queued pending"},
	{"estimates",
	 "link estimate_mbps guess share_mbps spread_mbps spread_percent age_s samples planned_mbps"},
	{"transfers",
	 "job worker direction round state waits_for bytes base position waited_ms start_ms "
	 "finish_ms rate_mbps rule runner_up deadline slack"},
	{"drops",
	 "ago_s job worker direction round reason base rule planned_finish_ms runner_up "
	 "runner_up_finish_ms deadline slack"},
	{"plan",
	 "order job worker direction round decision bytes start_ms finish_ms bottleneck after rule "
	 "runner_up deadline slack group aggregator"},
	{"plan-why", "order job worker direction round decision start_ms finish_ms why"},
	{"groups",
	 "group job kind aggregator state size open bytes position age_ms collected_ms limit_ms finish_ms "
	 "direct_ms members"},
	{"switches",
	 "name switch address state slots leased leases count_min count_max types up_s"},
	{"leases",
	 "tenant job switch state why type count slots wanted members waits rounds rate_mbps age_s idle_s"},
	{"slots",
	 "id job lease state epoch attempt type count first_slot slots members waits receivers age_s"},
	{"staleness",
	 "tenant job workers updates mean variance p50 p90 p99 max bound dropped_bound dropped_late"},
	{"elastic", "tenant job policy target workers leaving step loss worker_s money reason"},
	{"settings", "setting value unit least most help"},
	{"ports",
	 "port driver rx_packets rx_bytes rx_missed rx_errors tx_packets tx_bytes tx_errors"},
	{"queues", "port direction queue packets bytes drops backlog_bytes limit_bytes"},
	{"cores", "core user_seconds system_seconds wakeups preempted polls idle_polls"},
	{"counters", "counter value unit help"},
	{"histograms", "histogram of unit count mean p50 p90 p99 max help"},
	{"dataplane",
	 "name role host job worker age_s rx_packets rx_mbps tx_packets tx_mbps chunks_resent drops drop_reason "
	 "queue_bytes cpu_percent"},
	{"dataplane-hosts",
	 "host nodes silent rx_packets rx_bytes rx_mbps tx_packets tx_bytes tx_mbps chunks_resent drops drop_reason "
	 "queue_bytes cpu_percent"},
	{"dataplane-jobs",
	 "tenant job workers silent rx_packets rx_bytes rx_mbps tx_packets tx_bytes tx_mbps chunks_resent drops "
	 "drop_reason queue_bytes cpu_percent"},
	{"dataplane-links",
	 "link direction nodes silent packets bytes pps mbps estimate_mbps drops"},
};

const char *shell_usual(size_t index, const char **table) {
	if (index >= sizeof usual / sizeof usual[0])
		return NULL;
	*table = usual[index][0];
	return usual[index][1];
}

struct column {
	const char *name; /* not terminated */
	int name_bytes;
	int width;
	bool number;
};

/* Reads well with one digit after the point. */
static bool is_plain(const json_t *value) {
	const double size = fabs(json_real_value(value));

	return json_is_real(value) && size < 1e15 && (size >= 0.05 || fpclassify(size) == FP_ZERO);
}

static void cell_text(const json_t *value, char *text, size_t bytes) {
	if (json_is_string(value))
		(void)snprintf(text, bytes, "%s", json_string_value(value));
	else if (json_is_integer(value))
		(void)snprintf(text, bytes, "%lld", (long long)json_integer_value(value));
	else if (json_is_boolean(value))
		(void)snprintf(text, bytes, "%s", json_is_true(value) ? "yes" : "no");
	else if (is_plain(value))
		(void)snprintf(text, bytes, "%.1f", json_real_value(value));
	else if (json_is_real(value))
		(void)snprintf(text, bytes, "%g", json_real_value(value));
	else
		(void)snprintf(text, bytes, "-");
}

static const json_t *cell(const json_t *row, const struct column *column) {
	char name[64];

	(void)snprintf(name, sizeof name, "%.*s", column->name_bytes, column->name);
	return json_object_get(row, name);
}

static int usual_columns(const char *table, struct column *columns) {
	const char *at = "";
	int count = 0;

	for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
		if (strcmp(usual[i][0], table) == 0)
			at = usual[i][1];
	while (*at && count < COLUMNS_MAX) {
		int bytes = (int)strcspn(at, " ");

		columns[count++] = (struct column){at, bytes, bytes, true};
		at += bytes + (at[bytes] == ' ');
	}
	return count;
}

static bool is_column(const struct column *column, const char *name, int bytes) {
	return column->name_bytes == bytes && memcmp(column->name, name, (size_t)bytes) == 0;
}

/* Adds the columns that no earlier row had. Rows mostly have the same columns in the same order. */
static int add_columns(json_t *row, struct column *columns, int count) {
	const char *key;
	json_t *value;
	int at = 0;

	json_object_foreach(row, key, value) {
		const int bytes = (int)strlen(key), had = count;

		if (json_is_array(value)) /* for --json only */
			continue;
		if (at < had && is_column(&columns[at], key, bytes)) {
			at++;
			continue;
		}
		for (at = 0; at < had && !is_column(&columns[at], key, bytes);)
			at++;
		if (at == had && had < COLUMNS_MAX)
			columns[count++] = (struct column){key, bytes, bytes, true};
		at++;
	}
	return count;
}

static int all_columns(const json_t *rows, struct column *columns) {
	size_t index;
	json_t *row;
	int count = 0;

	json_array_foreach(rows, index, row) count = add_columns(row, columns, count);
	return count;
}

/* --- changes since the table before --- */

#define KEY_BYTES 512

/* Identifies a row: its first texts, a rank, an address. */
static void row_key(json_t *row, char key[KEY_BYTES]) {
	size_t used = 0;
	const char *name;
	bool leads = true;
	json_t *value;

	key[0] = '\0';
	json_object_foreach(row, name, value) {
		bool tells = strcmp(name, "worker") == 0 || strcmp(name, "address") == 0;
		char text[CELL_BYTES];
		int bytes;

		leads = leads && json_is_string(value);
		if (!leads && !tells)
			continue;
		cell_text(value, text, sizeof text);
		bytes = snprintf(key + used, KEY_BYTES - used, "%s\n", text);
		used += bytes > 0 && (size_t)bytes < KEY_BYTES - used ? (size_t)bytes : 0;
	}
}

/* For each row its predecessor in the table before, or null: none, or not a unique one. NULL: there is no such
 * table. */
static json_t *rows_before(const json_t *rows, const json_t *before) {
	const json_t *old = json_object_get(before, "rows");
	json_t *by_key, *found, *row;
	char key[KEY_BYTES];
	size_t index;

	if (!before)
		return NULL;
	by_key = json_object();
	found = json_array();
	json_array_foreach(old, index, row) {
		row_key(row, key);
		row = json_object_get(by_key, key) ? json_null() : json_incref(row);
		json_object_set_new(by_key, key, row);
	}
	json_array_foreach(rows, index, row) {
		row_key(row, key);
		row = json_object_get(by_key, key);
		json_array_append(found, row ? row : json_null());
	}
	json_decref(by_key);
	return found;
}

/* A value, and after a whole number its change since the table before. */
static void changed_text(
	const json_t *row,
	const json_t *before,
	const struct column *column,
	char *text,
	size_t bytes
) {
	const json_t *now = cell(row, column), *then = cell(before, column);
	json_int_t change = json_integer_value(now) - json_integer_value(then);
	size_t used;

	cell_text(now, text, bytes);
	if (!json_is_integer(now) || !json_is_integer(then) || change == 0)
		return;
	used = strlen(text);
	(void)snprintf(text + used, bytes - used, " (%+lld)", (long long)change);
}

/* Assumes one byte for each column of the screen: names are mostly ASCII. */
static void measure(const json_t *rows, const json_t *then, struct column *column) {
	char text[CELL_BYTES];
	size_t index;
	json_t *row;

	json_array_foreach(rows, index, row) {
		const json_t *value = cell(row, column);

		changed_text(row, json_array_get(then, index), column, text, sizeof text);
		if ((int)strlen(text) > column->width)
			column->width = (int)strlen(text);
		if (json_is_string(value) || json_is_boolean(value))
			column->number = false;
	}
}

static void print_cell(const struct column *column, const char *text, bool last) {
	if (column->number)
		(void)printf("%*s%s", column->width, text, last ? "\n" : "  ");
	else if (last)
		(void)printf("%s\n", text);
	else
		(void)printf("%-*s  ", column->width, text);
}

static void
print_rows(const json_t *rows, const json_t *then, const struct column *columns, int count) {
	char text[CELL_BYTES];
	size_t index;
	json_t *row;

	for (int i = 0; i < count; i++) {
		(void)snprintf(text, sizeof text, "%.*s", columns[i].name_bytes, columns[i].name);
		print_cell(&columns[i], text, i + 1 == count);
	}
	json_array_foreach(rows, index, row) for (int i = 0; i < count; i++) {
		changed_text(row, json_array_get(then, index), &columns[i], text, sizeof text);
		print_cell(&columns[i], text, i + 1 == count);
	}
}

void shell_print(const json_t *document, const json_t *before, const char *view, bool wide) {
	const char *table = json_string_value(json_object_get(document, "table"));
	const json_t *rows = json_object_get(document, "rows");
	json_t *then = rows_before(rows, before);
	struct column columns[COLUMNS_MAX];
	int count;

	if (json_array_size(rows) == 0) {
		(void)printf("no %s\n", table ? table : "rows");
		json_decref(then);
		return;
	}
	count = wide ? all_columns(rows, columns) :
		       usual_columns(
			       view          ? view :
				       table ? table :
					       "",
			       columns
		       );
	if (count == 0)
		count = all_columns(rows, columns);
	for (int i = 0; i < count; i++)
		measure(rows, then, &columns[i]);
	print_rows(rows, then, columns, count);
	json_decref(then);
}
