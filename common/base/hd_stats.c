/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_assert.h"
#include "hd_limits.h"
#include "hd_stats.h"

#include <stdlib.h>
#include <string.h>

struct row {
	const struct hd_stat_group *group;
	uint32_t value; /* index of its first */
	uint32_t label[HD_STAT_LABELS_MAX]; /* offset in texts */
};

struct histogram {
	const struct hd_histogram_family *family;
	uint32_t label[HD_STAT_LABELS_MAX]; /* as in a row */
	struct hd_histogram value;
};

struct hd_stats {
	struct row *rows;
	union hd_stat_value *values;
	struct histogram *histograms;
	struct hd_out texts; /* label values, each with its NUL */
	uint32_t row_count, row_capacity, value_count, value_capacity;
	uint32_t histogram_count, histogram_capacity;
	size_t left_out;
};

struct hd_stats *hd_stats_create(void) {
	return calloc(1, sizeof(struct hd_stats));
}

void hd_stats_destroy(struct hd_stats *stats) {
	if (!stats)
		return;
	hd_out_fini(&stats->texts);
	free(stats->rows);
	free(stats->values);
	free(stats->histograms);
	free(stats);
}

void hd_stats_clear(struct hd_stats *stats) {
	stats->row_count = stats->value_count = stats->histogram_count = 0;
	stats->texts.bytes = 0;
	stats->texts.failed = false;
	stats->left_out = 0;
}

static bool grow(void **array, uint32_t *capacity, uint32_t need, size_t size) {
	uint32_t more = *capacity ? *capacity : 64;
	void *grown;

	if (need <= *capacity)
		return true;
	while (more < need)
		more *= 2;
	grown = realloc(*array, more * size);
	if (!grown)
		return false;
	*array = grown;
	*capacity = more;
	return true;
}

/* Stores the values of the labels in the texts. False: no memory. */
static bool keep_labels(
	struct hd_stats *stats,
	const char *const *names,
	const char *const *values,
	uint32_t offsets[HD_STAT_LABELS_MAX]
) {
	for (int i = 0; i < HD_STAT_LABELS_MAX && names[i]; i++) {
		offsets[i] = (uint32_t)stats->texts.bytes;
		hd_out_bytes(&stats->texts, values[i], strlen(values[i]) + 1);
	}
	return !stats->texts.failed;
}

static union hd_stat_value read_value(const struct hd_stat *stat, const void *values) {
	union hd_stat_value value;

	static_assert(sizeof value == 8, "both types have 8 bytes");
	memcpy(&value, (const char *)values + stat->offset, sizeof value);
	return value;
}

void hd_stats_add(
	struct hd_stats *stats,
	const struct hd_stat_group *group,
	const char *const *labels,
	const void *values
) {
	uint32_t values_need = stats->value_count + group->count;
	struct row *row;

	hd_assert(group->count <= HD_STAT_VALUES_MAX);
	if (stats->row_count >= HD_STATS_ROWS_MAX || stats->texts.failed
	    || !grow((void **)&stats->rows, &stats->row_capacity, stats->row_count + 1, sizeof *row)
	    || !grow(
		    (void **)&stats->values,
		    &stats->value_capacity,
		    values_need,
		    sizeof(union hd_stat_value)
	    )) {
		stats->left_out++;
		return;
	}
	row = &stats->rows[stats->row_count];
	row->group = group;
	row->value = stats->value_count;
	if (!keep_labels(stats, group->label, labels, row->label)) {
		stats->left_out++;
		return;
	}
	for (uint16_t i = 0; i < group->count; i++)
		stats->values[row->value + i] = read_value(&group->stats[i], values);
	stats->value_count = values_need;
	stats->row_count++;
}

void hd_stats_add_histogram(
	struct hd_stats *stats,
	const struct hd_histogram_family *family,
	const char *const *labels,
	const struct hd_histogram *value
) {
	uint32_t count = stats->histogram_count;
	struct histogram *histogram;

	if (count >= HD_STATS_HISTOGRAMS_MAX || stats->texts.failed
	    || !grow(
		    (void **)&stats->histograms,
		    &stats->histogram_capacity,
		    count + 1,
		    sizeof *histogram
	    )) {
		stats->left_out++;
		return;
	}
	histogram = &stats->histograms[count];
	histogram->family = family;
	histogram->value = *value;
	if (!keep_labels(stats, family->label, labels, histogram->label)) {
		stats->left_out++;
		return;
	}
	stats->histogram_count++;
}

size_t hd_stats_count(const struct hd_stats *stats) {
	return stats->row_count;
}

void hd_stats_leave_out(struct hd_stats *stats) {
	stats->left_out++;
}

size_t hd_stats_left_out(const struct hd_stats *stats) {
	return stats->left_out;
}

struct hd_stats_row hd_stats_row(const struct hd_stats *stats, size_t index) {
	const struct row *row = &stats->rows[index];
	struct hd_stats_row view = {.group = row->group, .value = &stats->values[row->value]};

	for (int i = 0; i < HD_STAT_LABELS_MAX && row->group->label[i]; i++)
		view.label[i] = stats->texts.data + row->label[i];
	return view;
}

size_t hd_stats_histogram_count(const struct hd_stats *stats) {
	return stats->histogram_count;
}

struct hd_stats_histogram hd_stats_histogram(const struct hd_stats *stats, size_t index) {
	const struct histogram *histogram = &stats->histograms[index];
	const struct hd_histogram_family *family = histogram->family;
	struct hd_stats_histogram view = {.family = family, .histogram = &histogram->value};

	for (int i = 0; i < HD_STAT_LABELS_MAX && family->label[i]; i++)
		view.label[i] = stats->texts.data + histogram->label[i];
	return view;
}

/* --- OpenMetrics ----------------------------------------------------------------------------- */

/* The specification names only these of our units; the metric's name must end in one. */
static const char *metric_unit(const struct hd_stat *stat) {
	static const char *const units[] = {"bytes", "seconds", "ratio"};
	size_t length = strlen(stat->name);

	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		size_t bytes = strlen(units[i]);

		if (strcmp(stat->unit, units[i]) == 0 && length >= bytes
		    && strcmp(stat->name + length - bytes, units[i]) == 0)
			return units[i];
	}
	return NULL;
}

/* HELP texts and label values: backslash, newline and quotes are escaped. */
static void put_escaped(struct hd_out *out, const char *text) {
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			hd_out_char(out, '\\');
		if (*text == '\n')
			hd_out_text(out, "\\n");
		else
			hd_out_char(out, *text);
	}
}

static void
put_name(struct hd_out *out, const struct hd_stat_group *group, const struct hd_stat *stat) {
	hd_out_text(out, "heddle_");
	hd_out_text(out, group->name);
	hd_out_char(out, '_');
	hd_out_text(out, stat->name);
}

static void
put_meta(struct hd_out *out, const struct hd_stat_group *group, const struct hd_stat *stat) {
	const char *unit = metric_unit(stat);

	hd_out_text(out, "# TYPE ");
	put_name(out, group, stat);
	hd_out_text(out, stat->kind == HD_STAT_COUNTER ? " counter\n" : " gauge\n");
	if (unit) {
		hd_out_text(out, "# UNIT ");
		put_name(out, group, stat);
		hd_out_char(out, ' ');
		hd_out_text(out, unit);
		hd_out_char(out, '\n');
	}
	hd_out_text(out, "# HELP ");
	put_name(out, group, stat);
	hd_out_char(out, ' ');
	put_escaped(out, stat->help);
	if (!unit && stat->unit[0]) {
		hd_out_text(out, " (");
		put_escaped(out, stat->unit);
		hd_out_char(out, ')');
	}
	hd_out_char(out, '\n');
}

/* le: of a bucket; NULL: none. */
static void put_labels(
	struct hd_out *out,
	const char *const *names,
	const char *const *values,
	const char *le
) {
	char before = '{';

	for (int i = 0; i < HD_STAT_LABELS_MAX && names[i]; i++, before = ',') {
		hd_out_char(out, before);
		hd_out_text(out, names[i]);
		hd_out_text(out, "=\"");
		put_escaped(out, values[i]);
		hd_out_char(out, '"');
	}
	if (le) {
		hd_out_char(out, before);
		hd_out_text(out, "le=\"");
		hd_out_text(out, le);
		hd_out_char(out, '"');
		before = ',';
	}
	hd_out_text(out, before == ',' ? "} " : " ");
}

static void put_sample(struct hd_out *out, const struct hd_stats_row *row, uint16_t index) {
	const struct hd_stat *stat = &row->group->stats[index];

	put_name(out, row->group, stat);
	if (stat->kind == HD_STAT_COUNTER)
		hd_out_text(out, "_total");
	put_labels(out, row->group->label, row->label, NULL);
	if (stat->type == HD_STAT_F64)
		hd_out_real(out, row->value[index].f64);
	else
		hd_out_u64(out, row->value[index].u64);
	hd_out_char(out, '\n');
}

/* --- histograms --- */

static bool is_of_times(const struct hd_histogram_family *family) {
	return family->scale == &hd_scale_time;
}

static void put_family_name(struct hd_out *out, const struct hd_histogram_family *family) {
	hd_out_text(out, "heddle_");
	hd_out_text(out, family->group);
	hd_out_char(out, '_');
	hd_out_text(out, family->name);
	if (is_of_times(family)) {
		hd_out_char(out, '_');
		hd_out_text(out, family->scale->metric_unit);
	}
}

static void put_family(struct hd_out *out, const struct hd_histogram_family *family) {
	const char *unit = family->scale->metric_unit;

	hd_out_text(out, "# TYPE ");
	put_family_name(out, family);
	hd_out_text(out, " histogram\n");
	if (is_of_times(family)) {
		hd_out_text(out, "# UNIT ");
		put_family_name(out, family);
		hd_out_char(out, ' ');
		hd_out_text(out, unit);
		hd_out_char(out, '\n');
	}
	hd_out_text(out, "# HELP ");
	put_family_name(out, family);
	hd_out_char(out, ' ');
	put_escaped(out, family->help);
	if (!is_of_times(family)) {
		hd_out_text(out, " (");
		hd_out_text(out, unit);
		hd_out_char(out, ')');
	}
	hd_out_char(out, '\n');
}

static void put_histogram(struct hd_out *out, const struct hd_stats_histogram *view) {
	const struct hd_histogram_family *family = view->family;
	const struct hd_scale *scale = family->scale;

	for (uint8_t i = 0; i <= scale->count; i++) {
		put_family_name(out, family);
		hd_out_text(out, "_bucket");
		put_labels(
			out,
			family->label,
			view->label,
			i < scale->count ? scale->bounds[i].text : "+Inf"
		);
		hd_out_u64(out, hd_histogram_count_to(view->histogram, i));
		hd_out_char(out, '\n');
	}
	put_family_name(out, family);
	hd_out_text(out, "_count");
	put_labels(out, family->label, view->label, NULL);
	hd_out_u64(out, view->histogram->count);
	hd_out_char(out, '\n');
	put_family_name(out, family);
	hd_out_text(out, "_sum");
	put_labels(out, family->label, view->label, NULL);
	hd_out_real(out, (double)view->histogram->sum * scale->metric_size);
	hd_out_char(out, '\n');
}

static void put_histograms(struct hd_out *out, const struct hd_stats *stats) {
	const struct hd_histogram_family *last = NULL;

	for (size_t i = 0; i < stats->histogram_count; i++) {
		struct hd_stats_histogram view = hd_stats_histogram(stats, i);

		if (view.family != last)
			put_family(out, view.family);
		last = view.family;
		put_histogram(out, &view);
	}
}

void hd_stats_openmetrics(const struct hd_stats *stats, struct hd_out *out) {
	for (size_t first = 0, next; first < stats->row_count; first = next) {
		const struct hd_stat_group *group = stats->rows[first].group;

		for (next = first; next < stats->row_count && stats->rows[next].group == group;)
			next++;
		for (uint16_t i = 0; i < group->count; i++) {
			put_meta(out, group, &group->stats[i]);
			for (size_t j = first; j < next; j++) {
				struct hd_stats_row row = hd_stats_row(stats, j);

				put_sample(out, &row, i);
			}
		}
	}
	put_histograms(out, stats);
	hd_out_text(out, "# EOF\n");
}
