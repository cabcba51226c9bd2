/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_number.h"
#include "hd_telemetry.h"

#include <rte_telemetry.h>

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "/heddle/"
#define GROUPS_MAX 32
#define TIMEOUT_MS 2000
/* Telemetry truncates answers at 16 KiB, silently; they include the command. */
#define ROWS_BYTES_MAX (15 << 10)
#define ROWS_MAX (RTE_TEL_MAX_DICT_ENTRIES - 1) /* besides next_row */
#define WORDS_BYTES 256

/* A telemetry callback has no argument for its owner, so these belong to the process. */
static struct {
	pthread_rwlock_t lock; // write: start, stop; read: the callbacks
	struct hd_stats_query *query;
	size_t count;
	struct {
		char command[64];
		const char *name, *help;
	} groups[GROUPS_MAX];
} telemetry = {.lock = PTHREAD_RWLOCK_INITIALIZER};

struct question {
	const char *group; /* its name */
	const char *text; /* part of a label; "": any */
	uint64_t from; /* the first of these rows to answer */
	uint64_t index; /* of the next row */
	size_t rows, bytes; /* of the answer */
	struct rte_tel_data *data;
	int status;
};

static void
add_value(struct rte_tel_data *data, const struct hd_stat *stat, const union hd_stat_value *value) {
	char text[32];

	if (stat->type == HD_STAT_U64) {
		(void)rte_tel_data_add_dict_u64(data, stat->name, value->u64);
		return;
	}
	(void)snprintf(text, sizeof text, "%.9g", value->f64);
	(void)rte_tel_data_add_dict_string(data, stat->name, text);
}

static void add_row(struct rte_tel_data *data, const struct hd_stats_row *row) {
	const struct hd_stat_group *group = row->group;

	(void)rte_tel_data_start_dict(data);
	for (int i = 0; i < HD_STAT_LABELS_MAX && group->label[i]; i++)
		(void)rte_tel_data_add_dict_string(data, group->label[i], row->label[i]);
	for (uint16_t i = 0; i < group->count; i++)
		add_value(data, &group->stats[i], &row->value[i]);
}

static bool wanted(const struct hd_stats_row *row, const char *text) {
	if (!text[0])
		return true;
	for (int i = 0; i < HD_STAT_LABELS_MAX && row->group->label[i]; i++)
		if (strstr(row->label[i], text))
			return true;
	return false;
}

/* The row's labels as a name that telemetry allows: letters, digits, '_' and '/'. */
static void row_name(const struct hd_stats_row *row, char *name, size_t bytes) {
	size_t used = 0;

	for (int i = 0; i < HD_STAT_LABELS_MAX && row->group->label[i]; i++) {
		if (used && used + 1 < bytes)
			name[used++] = '/';
		for (const char *at = row->label[i]; *at && used + 1 < bytes; at++)
			name[used++] = isalnum((unsigned char)*at) ? *at : '_';
	}
	name[used] = '\0';
}

/* At most this many bytes of JSON: each label twice, with its characters escaped; numbers of 20 digits. */
static size_t row_bytes(const struct hd_stats_row *row) {
	const struct hd_stat_group *group = row->group;
	size_t bytes = 8;

	for (int i = 0; i < HD_STAT_LABELS_MAX && group->label[i]; i++)
		bytes += strlen(group->label[i]) + 3 * strlen(row->label[i]) + 8;
	for (uint16_t i = 0; i < group->count; i++)
		bytes += strlen(group->stats[i].name) + 26;
	return bytes;
}

/* Appends one row under its name; telemetry frees it with the rest. False: no room. */
static bool append(struct question *q, const struct hd_stats_row *row) {
	size_t bytes = row_bytes(row);
	char name[RTE_TEL_MAX_STRING_LEN];
	struct rte_tel_data *item;

	if (q->rows == ROWS_MAX || q->bytes + bytes > ROWS_BYTES_MAX)
		return false;
	item = rte_tel_data_alloc();
	if (!item)
		return false;
	add_row(item, row);
	row_name(row, name, sizeof name);
	if (rte_tel_data_add_dict_container(q->data, name, item, 0) < 0) {
		rte_tel_data_free(item);
		return false;
	}
	q->rows++;
	q->bytes += bytes;
	return true;
}

/* False: the answer is full, and has the row to continue from. */
static bool visit_row(struct question *q, const struct hd_stats_row *row) {
	if (!wanted(row, q->text))
		return true;
	if (q->index >= q->from && !append(q, row)) {
		(void)rte_tel_data_add_dict_u64(q->data, "next_row", q->index);
		return false;
	}
	q->index++;
	return true;
}

static void visit(void *owner, const struct hd_stats *stats) {
	struct question *q = owner;

	for (size_t i = 0; i < hd_stats_count(stats); i++) {
		struct hd_stats_row row = hd_stats_row(stats, i);

		if (strcmp(row.group->name, q->group) != 0)
			continue;
		if (!row.group->label[0]) {
			add_row(q->data, &row);
			q->status = 0;
			return;
		}
		if (q->status)
			(void)rte_tel_data_start_dict(q->data);
		q->status = 0;
		if (!visit_row(q, &row))
			return;
	}
}

static const char *group_of(const char *command) {
	for (size_t i = 0; i < telemetry.count; i++)
		if (strcmp(telemetry.groups[i].command, command) == 0)
			return telemetry.groups[i].name;
	return NULL;
}

/* "TEXT", "from=N", or both separated by blanks, as in heddlectl. Splits words in place. 0 or -EINVAL. */
static int read_words(char words[WORDS_BYTES], struct question *q) {
	char *save = NULL;

	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save))
		if (strncmp(word, "from=", 5) != 0)
			q->text = word;
		else if (hd_number_whole(word + 5, 0, UINT32_MAX, &q->from) < 0)
			return -EINVAL;
	return 0;
}

static int on_group(const char *command, const char *parameters, struct rte_tel_data *data) {
	struct question q = {.text = "", .data = data, .status = -ENOENT};
	char words[WORDS_BYTES];
	int status = -ENOENT;

	if (snprintf(words, sizeof words, "%s", parameters ? parameters : "") >= WORDS_BYTES
	    || read_words(words, &q) < 0)
		return -EINVAL;

	pthread_rwlock_rdlock(&telemetry.lock);
	q.group = group_of(command);
	if (q.group && telemetry.query)
		status = hd_stats_query_read(telemetry.query, TIMEOUT_MS, visit, &q);
	pthread_rwlock_unlock(&telemetry.lock);
	return status ? status : q.status;
}

static int on_groups(const char *command, const char *parameters, struct rte_tel_data *data) {
	(void)command;
	(void)parameters;
	(void)rte_tel_data_start_dict(data);
	pthread_rwlock_rdlock(&telemetry.lock);
	for (size_t i = 0; i < telemetry.count; i++)
		(void)rte_tel_data_add_dict_string(
			data, telemetry.groups[i].name, telemetry.groups[i].help
		);
	pthread_rwlock_unlock(&telemetry.lock);
	return 0;
}

static int register_group(const struct hd_stat_group *group) {
	char *command = telemetry.groups[telemetry.count].command;
	char help[RTE_TEL_MAX_STRING_LEN];

	(void)snprintf(command, sizeof telemetry.groups[0].command, PREFIX "%s", group->name);
	(void)snprintf(
		help,
		sizeof help,
		"Counters of %s%s",
		group->help,
		group->label[0] ? ". Parameters: part of a name, from=ROW" : ""
	);
	telemetry.groups[telemetry.count].name = group->name;
	telemetry.groups[telemetry.count].help = group->help;
	telemetry.count++;
	return rte_telemetry_register_cmd(command, on_group, help);
}

int hd_telemetry_start(struct hd_stats_query *query, const struct hd_stat_group *const *groups) {
	int status = 0;

	pthread_rwlock_wrlock(&telemetry.lock);
	telemetry.query = query;
	if (telemetry.count == 0)
		status = rte_telemetry_register_cmd(
			PREFIX "groups",
			on_groups,
			"Groups of Heddle's counters. Takes no parameters"
		);
	/* A second service of this process has the same groups. */
	for (bool first = telemetry.count == 0; first && *groups && status == 0; groups++)
		status = telemetry.count < GROUPS_MAX ? register_group(*groups) : -ENOSPC;
	pthread_rwlock_unlock(&telemetry.lock);
	return status;
}

void hd_telemetry_stop(void) {
	pthread_rwlock_wrlock(&telemetry.lock);
	telemetry.query = NULL;
	pthread_rwlock_unlock(&telemetry.lock);
}
