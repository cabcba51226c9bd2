/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_dataplane.h"
#include "hd_limits.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define NONE SIZE_MAX
#define DROP "drop_"

#define STAT(name, unit, help, kind, from)                                                         \
	{#name, unit, help, HD_STAT_##kind, HD_STAT_U64, offsetof(struct hd_dataplane, name)},
const struct hd_stat hd_dataplane_stats[HD_DATAPLANE_COUNT] = {HD_DATAPLANE_STATS(STAT)};

#define FROM(name, unit, help, kind, from) from,
static const char *const from_of[] = {HD_DATAPLANE_STATS(FROM)};

static_assert(HD_DATAPLANE_COUNT <= HD_STAT_VALUES_MAX, "they are the stats of one group");
static_assert(HD_DATAPLANE_COUNT <= UINT8_MAX, "an id is one byte");
static_assert(HD_DATAPLANE_BYTES_MAX + 16 <= HD_FRAGMENT_BYTES_MAX, "STATS is one packet");

const struct hd_stat_group hd_dataplane_group = {
	.name = "node",
	.help = "nodes whose counters the controller has requested",
	.stats = hd_dataplane_stats,
	.count = HD_DATAPLANE_COUNT,
};

const char *hd_dataplane_reason(size_t index) {
	const char *name = hd_dataplane_stats[index].name;

	return strncmp(name, DROP, sizeof DROP - 1) == 0 ? name + sizeof DROP - 1 : NULL;
}

/* --- sums ------------------------------------------------------------------------------------ */

/* Whether a term, GROUP.STAT or *.STAT, names this stat. */
static bool
word_is(const char *word, size_t bytes, const struct hd_stat_group *group, const char *stat) {
	const char *point = memchr(word, '.', bytes);
	size_t head = point ? (size_t)(point - word) : bytes, tail = bytes - head;

	if (!point || strlen(stat) != tail - 1 || memcmp(point + 1, stat, tail - 1) != 0)
		return false;
	return (head == 1 && word[0] == '*')
		|| (strlen(group->name) == head && memcmp(group->name, word, head) == 0);
}

/* The index of the value to which this stat is added. */
static size_t place_of(const struct hd_stat_group *group, const char *stat) {
	for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++)
		for (const char *at = from_of[i]; *at; at += at[0] == ' ') {
			size_t bytes = strcspn(at, " ");

			if (word_is(at, bytes, group, stat))
				return i;
			at += bytes;
		}
	return NONE;
}

static uint64_t whole(const struct hd_stat *stat, union hd_stat_value value) {
	if (stat->type == HD_STAT_U64)
		return value.u64;
	return value.f64 > 0 && value.f64 < 1e12 ? (uint64_t)(value.f64 * 1e6) : 0;
}

void hd_dataplane_sum(struct hd_dataplane *dataplane, const struct hd_stats *stats) {
	const struct hd_stat_group *group = NULL;
	size_t place[HD_STAT_VALUES_MAX] = {0};

	for (size_t i = 0; i < hd_stats_count(stats); i++) {
		struct hd_stats_row row = hd_stats_row(stats, i);

		assert(row.group);
		if (row.group != group) {
			group = row.group;
			for (uint16_t j = 0; j < group->count; j++)
				place[j] = place_of(group, group->stats[j].name);
		}
		for (uint16_t j = 0; j < row.group->count; j++)
			if (place[j] != NONE)
				hd_dataplane_add(
					hd_dataplane_at(dataplane, place[j]),
					whole(&row.group->stats[j], row.value[j])
				);
	}
}

/* --- on the wire ----------------------------------------------------------------------------- */

size_t
hd_dataplane_encode(const struct hd_dataplane *dataplane, uint8_t data[HD_DATAPLANE_BYTES_MAX]) {
	size_t bytes = 0;

	for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++) {
		uint64_t value = hd_dataplane_get(dataplane, i);

		if (value == 0)
			continue;
		value = value < HD_DATAPLANE_VALUE_MAX ? value : HD_DATAPLANE_VALUE_MAX;
		data[bytes++] = (uint8_t)i;
		for (; value > 0x7f; value >>= 7)
			data[bytes++] = (uint8_t)(value | 0x80);
		data[bytes++] = (uint8_t)value;
	}
	return bytes;
}

/* The number of bytes read; 0: malformed. */
static size_t take_varint(const uint8_t *data, size_t bytes, uint64_t *value) {
	*value = 0;
	for (size_t i = 0; i < bytes && i < 9; i++) {
		*value |= (uint64_t)(data[i] & 0x7f) << 7 * i;
		if ((data[i] & 0x80) == 0)
			return data[i] != 0 && *value <= HD_DATAPLANE_VALUE_MAX ? i + 1 : 0;
	}
	return 0;
}

int hd_dataplane_decode(struct hd_dataplane *dataplane, const uint8_t *data, size_t bytes) {
	int last = -1;

	memset(dataplane, 0, sizeof *dataplane);
	for (size_t at = 0; at < bytes;) {
		uint8_t id = data[at++];
		uint64_t value;
		size_t length = take_varint(data + at, bytes - at, &value);

		if (length == 0 || id <= last)
			return -EBADMSG;
		if (id < HD_DATAPLANE_COUNT)
			*hd_dataplane_at(dataplane, id) = value;
		last = id;
		at += length;
	}
	return 0;
}
