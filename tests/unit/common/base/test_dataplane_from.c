/* SPDX-License-Identifier: BSD-3-Clause */
/* The source counters of a dataplane's sums exist: a stat that was renamed would be summed as 0. */
#include "hd_aggregator.h"
#include "hd_dataplane.h"
#include "hd_endpoint.h"
#include "hd_server.h"
#include "hd_switch_agent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define FROM(name, unit, help, kind, from) from,
static const char *const from_of[] = {HD_DATAPLANE_STATS(FROM)};

static const struct hd_stat_group *const groups[] = {
	&hd_port_group,
	&hd_queue_group,
	&hd_core_group,
	&hd_transfer_group,
	&hd_endpoint_group,
	&hd_server_group,
	&hd_aggregator_group,
	&hd_switch_agent_group,
	&hd_switch_counter_group,
};
#define GROUPS (sizeof groups / sizeof groups[0])

static const struct hd_stat *find(const struct hd_stat_group *group, const char *name) {
	for (uint16_t i = 0; i < group->count; i++)
		if (strcmp(group->stats[i].name, name) == 0)
			return &group->stats[i];
	return NULL;
}

/* In how many groups GROUP.STAT, or *.STAT, is a stat of this kind. */
static unsigned places_of(const char *word, uint8_t kind) {
	const char *point = strchr(word, '.');
	unsigned places = 0;

	assert_non_null(point);
	for (size_t g = 0; g < GROUPS; g++) {
		size_t bytes = strlen(groups[g]->name);
		bool named = (size_t)(point - word) == bytes
			&& memcmp(word, groups[g]->name, bytes) == 0;
		const struct hd_stat *stat = find(groups[g], point + 1);

		if ((named || word[0] == '*') && stat && stat->kind == kind)
			places++;
	}
	return places;
}

static void test_each_is_there(void **state) {
	unsigned words = 0;

	(void)state;
	for (size_t i = 0; i < HD_DATAPLANE_COUNT; i++)
		for (const char *at = from_of[i]; *at; at += at[0] == ' ') {
			size_t bytes = strcspn(at, " ");
			char word[64];

			assert_in_range(bytes, 3, sizeof word - 1);
			memcpy(word, at, bytes);
			word[bytes] = '\0';
			if (places_of(word, hd_dataplane_stats[i].kind) == 0)
				fail_msg(
					"%s: from %s, which is nowhere",
					hd_dataplane_stats[i].name,
					word
				);
			words++;
			at += bytes;
		}
	assert_true(words > HD_DATAPLANE_COUNT);
}

/* The check itself. */
static void test_wrong_words(void **state) {
	(void)state;
	assert_int_equal(places_of("port.rx_packets", HD_STAT_COUNTER), 1);
	assert_int_equal(places_of("port.rx_packets", HD_STAT_GAUGE), 0);
	assert_int_equal(places_of("port.rx_packet", HD_STAT_COUNTER), 0);
	assert_int_equal(places_of("ports.rx_packets", HD_STAT_COUNTER), 0);
	assert_true(places_of("*.drop_token", HD_STAT_COUNTER) > 2);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_is_there),
		cmocka_unit_test(test_wrong_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
