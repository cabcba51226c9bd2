/* SPDX-License-Identifier: BSD-3-Clause */
/* The digest by which two builds are compared: every field of an event counts, but not its token, and not the order of
 * a node's events at one instant. */
#include "hd_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define EVENTS_MAX 4
#define NODES 2

/* A simulator that has nothing but a clock and the nodes' callbacks. */
struct hd_sim {
	hd_ns now;
	struct hd_sim_node_config nodes[NODES];
	int count;
};

int __real_hd_sim_create(uint64_t seed, struct hd_sim **sim);
void __real_hd_sim_destroy(struct hd_sim *sim);
int __real_hd_sim_node(struct hd_sim *sim, const struct hd_sim_node_config *config);
int __wrap_hd_sim_create(uint64_t seed, struct hd_sim **sim);
void __wrap_hd_sim_destroy(struct hd_sim *sim);
int __wrap_hd_sim_node(struct hd_sim *sim, const struct hd_sim_node_config *config);

int __real_hd_sim_create(uint64_t seed, struct hd_sim **sim) {
	(void)seed;
	*sim = calloc(1, sizeof **sim);
	return *sim ? 0 : -1;
}

void __real_hd_sim_destroy(struct hd_sim *sim) {
	free(sim);
}

int __real_hd_sim_node(struct hd_sim *sim, const struct hd_sim_node_config *config) {
	sim->nodes[sim->count] = *config;
	return sim->count++;
}

hd_ns hd_sim_now(const struct hd_sim *sim) {
	return sim->now;
}

static char path[] = "/tmp/heddle-event-log-XXXXXX";

struct logged {
	int node;
	struct hd_event event;
};

static unsigned passed_on;

static void on_event(void *owner, int node, const struct hd_event *event) {
	(void)owner;
	(void)node;
	(void)event;
	passed_on++;
}

/* Plays the events, which are in order of their time, and returns what was written of it. */
static void play(const struct logged *logged, unsigned count, char line[128]) {
	const struct hd_sim_node_config config = {.event = on_event};
	char text[4096] = "";
	struct hd_sim *sim;
	FILE *file;
	size_t bytes;

	passed_on = 0;
	assert_int_equal(__wrap_hd_sim_create(1, &sim), 0);
	for (int i = 0; i < NODES; i++)
		assert_int_equal(__wrap_hd_sim_node(sim, &config), i);
	for (unsigned i = 0; i < count; i++) {
		sim->now = logged[i].event.at;
		sim->nodes[logged[i].node].event(
			sim->nodes[logged[i].node].owner, logged[i].node, &logged[i].event
		);
	}
	__wrap_hd_sim_destroy(sim);
	assert_int_equal(passed_on, count);
	file = fopen(path, "r");
	assert_non_null(file);
	bytes = fread(text, 1, sizeof text - 1, file);
	text[bytes] = '\0';
	(void)fclose(file);
	assert_int_equal(truncate(path, 0), 0);
	assert_non_null(strstr(text, " events "));
	(void)snprintf(line, 128, "%s", strstr(text, " events "));
}

static const struct logged story[EVENTS_MAX] = {
	{0, {.at = 5, .kind = HD_EVENT_PUSHED, .round = 1}},
	{0, {.at = 5, .kind = HD_EVENT_PUSHED, .round = 2}},
	{1, {.at = 5, .kind = HD_EVENT_COMMITTED, .version = 7}},
	{0, {.at = 9, .kind = HD_EVENT_OUTCOME, .round = 1, .value = 0.5}},
};

static void test_order(void **state) {
	struct logged other[EVENTS_MAX];
	char before[128], after[128];

	(void)state;
	play(story, EVENTS_MAX, before);
	play(story, EVENTS_MAX, after);
	assert_string_equal(before, after);
	memcpy(other, story, sizeof other);
	other[0] = story[2];
	other[1] = story[1];
	other[2] = story[0];
	play(other, EVENTS_MAX, after);
	assert_string_equal(before, after);
	/* Another node's, or another time's, is another story. */
	memcpy(other, story, sizeof other);
	other[1].node = 1;
	play(other, EVENTS_MAX, after);
	assert_string_not_equal(before, after);
	memcpy(other, story, sizeof other);
	other[3].event.at = 10;
	play(other, EVENTS_MAX, after);
	assert_string_not_equal(before, after);
	play(story, EVENTS_MAX - 1, after);
	assert_string_not_equal(before, after);
}

#define FIELD_TEST(name, number)                                                                   \
	do {                                                                                       \
		memcpy(other, story, sizeof other);                                                \
		other[1].event.name = (number);                                                    \
		play(other, EVENTS_MAX, after);                                                    \
		if (strcmp(before, after) == 0)                                                    \
			fail_msg("%s does not count", #name);                                      \
	} while (0)

static void test_fields(void **state) {
	struct logged other[EVENTS_MAX];
	char before[128], after[128];

	(void)state;
	play(story, EVENTS_MAX, before);
	FIELD_TEST(kind, HD_EVENT_PULLED);
	FIELD_TEST(reason, HD_REASON_LATE);
	FIELD_TEST(job, 1);
	FIELD_TEST(worker, 1);
	FIELD_TEST(direction, 1);
	FIELD_TEST(round, 3);
	FIELD_TEST(position, 1);
	FIELD_TEST(version, 1);
	FIELD_TEST(base, 1);
	FIELD_TEST(bytes, 1);
	FIELD_TEST(aux, 1);
	FIELD_TEST(value, 1);
	FIELD_TEST(more, 1);
	memcpy(other, story, sizeof other);
	other[1].event.token = 99;
	play(other, EVENTS_MAX, after);
	assert_string_equal(before, after);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_fields),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0 || close(fd) || setenv("HEDDLE_EVENT_LOG", path, 1))
		return 70;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path);
	return failed;
}
