/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker and histories: a server that comes back from its checkpoint, and a replica with what that lacked. */
#include "check_story.h"
#include "hd_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Versions 1..2 are in the checkpoint, 3 is lost. */
static void restart(struct story *story, float checkpoint[VALUES]) {
	begin(story);
	whole(story, 0);
	whole(story, 1);
	memcpy(checkpoint, story->model, VALUES * sizeof(float));
	hd_check_checkpoint(story->check, checkpoint, version_of(story));
	whole(story, 2);
	hd_check_restore(story->check, checkpoint, hd_version_make(1, 2));
	memcpy(story->model, checkpoint, VALUES * sizeof(float));
	story->incarnation = 2;
	story->counter = 2;
}

static void test_restart(void **state) {
	struct story story;
	float checkpoint[VALUES];

	restart(&story, checkpoint);
	assert_int_equal(hd_check_stats(story.check)->rolled_back, 1);
	/* The lost one is applied again, once. */
	push_at(&story, 3, 1, hd_version_make(1, 2));
	commit(&story, 3, story.salt, hd_version_make(1, 2));
	outcome(&story, 3, HD_OUTCOME_APPLIED, version_of(&story));
	feed(&story, commit_event(&story, 2, 1, hd_version_make(1, 2)));
	apply(&story, 3);
	look(&story);
	hd_check_settled(story.check);
	expect(&story, NULL);
}

/* A replica of before the restart takes over: the lost version counts again, and what followed the restart is lost. */
static void test_lost_history_is_back(void **state) {
	struct story story;
	float checkpoint[VALUES];

	restart(&story, checkpoint);
	whole(&story, 4);
	memcpy(story.model, checkpoint, sizeof checkpoint);
	apply(&story, 3);
	hd_check_restore(story.check, story.model, hd_version_make(1, 3));
	assert_true(hd_check_committed(story.check, 1, 1) == hd_version_make(1, 2));
	assert_true(hd_check_committed(story.check, 2, 1) == hd_version_make(1, 3));
	assert_true(hd_check_committed(story.check, 4, 1) == 0);
	story.incarnation = 3;
	story.counter = 3;
	whole(&story, 0);
	feed(&story, commit_event(&story, 2, 1, hd_version_make(1, 2)));
	expect(&story, "applied twice: as 3 and 5");
}

static void test_lost_base(void **state) {
	struct story story;
	float checkpoint[VALUES];

	restart(&story, checkpoint);
	push_at(&story, 3, 1, hd_version_make(1, 3));
	feed(&story, commit_event(&story, 3, 1, hd_version_make(1, 3)));
	expect(&story, "lost history");
}

static void test_applied_again_after_restart(void **state) {
	struct story story;
	float checkpoint[VALUES];

	restart(&story, checkpoint);
	feed(&story, commit_event(&story, 1, 1, hd_version_make(1, 1)));
	expect(&story, "applied twice");
}

static void test_same_incarnation(void **state) {
	struct story story;
	float checkpoint[VALUES];

	restart(&story, checkpoint);
	story.incarnation = 1;
	push_at(&story, 3, 1, hd_version_make(1, 2));
	feed(&story, commit_event(&story, 3, 1, hd_version_make(1, 2)));
	expect(&story, "incarnation 1 again");
}

static void test_wrong_checkpoint(void **state) {
	struct story story;
	float checkpoint[VALUES];

	begin(&story);
	whole(&story, 0);
	memcpy(checkpoint, story.model, sizeof checkpoint);
	checkpoint[0] = 0;
	hd_check_checkpoint(story.check, checkpoint, version_of(&story));
	expect(&story, "is not that version");
	begin(&story);
	whole(&story, 0);
	hd_check_restore(story.check, checkpoint, version_of(&story));
	expect(&story, "is not that version");
}

/* The server, life 1, is cut off at version 2; its replica takes its place as life 5, and makes version 3. */
static void part(struct story *story, float at_two[VALUES]) {
	begin(story);
	whole(story, 0);
	whole(story, 1);
	memcpy(at_two, story->model, VALUES * sizeof(float));
	hd_check_restore(story->check, at_two, version_of(story));
	story->incarnation = 5;
	whole(story, 2);
}

static void commit_apart(struct story *story, uint32_t worker, hd_version version) {
	struct hd_event event = commit_event(story, worker, 1, hd_version_make(1, 2));

	story->counter--;
	event.version = version;
	hd_check_lost(story->check, &event);
}

/* The one that was cut off comes back as the server, with what it made since: that is the history now, and no other. */
static void test_comes_back_with_a_lost_history(void **state) {
	struct story story;
	float model[VALUES];

	part(&story, model);
	push_at(&story, 3, 1, hd_version_make(1, 2));
	commit_apart(&story, 3, hd_version_make(1, 3));
	memcpy(story.model, model, sizeof model);
	apply(&story, story.salt);
	hd_check_pull(story.check, 3, story.model, hd_version_make(1, 3));
	hd_check_restore(story.check, story.model, hd_version_make(1, 3));
	assert_true(hd_check_committed(story.check, 1, 1) == hd_version_make(1, 2));
	assert_true(hd_check_committed(story.check, 2, 1) == 0);
	assert_true(hd_check_committed(story.check, 3, 1) == hd_version_make(1, 3));
	outcome(&story, 3, HD_OUTCOME_APPLIED, hd_version_make(1, 3));
	story.incarnation = 6;
	story.counter = 3;
	push_at(&story, 4, 1, hd_version_make(1, 3));
	commit(&story, 4, story.salt, hd_version_make(1, 3));
	outcome(&story, 4, HD_OUTCOME_APPLIED, version_of(&story));
	push_at(&story, 5, 1, hd_version_make(5, 3));
	feed(&story, commit_event(&story, 5, 1, hd_version_make(5, 3)));
	expect(&story, "lost history");
}

/* A server that comes back holds what it showed before, and nothing that it never made. */
static void test_wrong_lost_history(void **state) {
	struct story story;
	float model[VALUES];

	part(&story, model);
	push_at(&story, 3, 1, hd_version_make(1, 2));
	commit_apart(&story, 3, hd_version_make(1, 3));
	hd_check_pull(story.check, 3, story.model, hd_version_make(1, 3));
	hd_check_restore(story.check, model, hd_version_make(1, 3));
	expect(&story, "1/3 is not that version");
	part(&story, model);
	hd_check_restore(story.check, model, hd_version_make(1, 3));
	expect(&story, "1/3 is not that version");
	part(&story, model);
	push_at(&story, 3, 1, hd_version_make(1, 2));
	commit_apart(&story, 3, hd_version_make(1, 4));
	expect(&story, "1/4 was committed apart, where 3 was next");
}

/* It began a life of its own there, from its checkpoint. */
static void test_begins_apart(void **state) {
	struct story story;
	float model[VALUES];

	part(&story, model);
	hd_check_former(story.check, hd_version_make(1, 2));
	push_at(&story, 3, 1, hd_version_make(1, 2));
	commit_apart(&story, 3, hd_version_make(2, 3));
	hd_check_restore(story.check, story.model, hd_version_make(2, 3));
	assert_true(hd_check_committed(story.check, 0, 1) == hd_version_make(1, 1));
	assert_true(hd_check_committed(story.check, 2, 1) == 0);
	assert_true(hd_check_committed(story.check, 3, 1) == hd_version_make(2, 3));
	story.incarnation = 5;
	push_at(&story, 4, 1, hd_version_make(2, 3));
	feed(&story, commit_event(&story, 4, 1, hd_version_make(2, 3)));
	expect(&story, "incarnation 5 again");
}

/* part(), and the one that was cut off begins alone: from its checkpoint of version 1. */
static void part_alone(struct story *story) {
	float model[VALUES];

	part(story, model);
	hd_check_former(story->check, hd_version_make(1, 1));
	hd_check_lost(
		story->check,
		&(struct hd_event){.kind = HD_EVENT_FALLBACK, .version = hd_version_make(2, 1)}
	);
}

/* A worker hears once more what became of its first push. */
static void
outcome_again(struct story *story, uint32_t worker, enum hd_outcome what, hd_version version) {
	feed(story,
	     (struct hd_event){
		     .kind = HD_EVENT_OUTCOME,
		     .worker = (uint16_t)worker,
		     .direction = HD_PUSH,
		     .round = 1,
		     .version = version,
		     .aux = what,
		     .reason = HD_REASON_LOST_BASE,
		     .value = 1,
	     });
}

/* There a worker is notified that an update of the present history is dropped; in that history it stays applied. */
static void test_dropped_apart(void **state) {
	struct story story;

	(void)state;
	part_alone(&story);
	outcome_again(&story, 1, HD_OUTCOME_DROPPED, hd_version_make(2, 1));
	outcome_again(&story, 2, HD_OUTCOME_DROPPED, hd_version_make(2, 1));
	assert_true(hd_check_outcome_apart(story.check, 1, 1));
	assert_true(hd_check_outcome_apart(story.check, 2, 1));
	assert_false(hd_check_outcome_apart(story.check, 0, 1));
	assert_true(hd_check_committed(story.check, 1, 1) == hd_version_make(1, 2));
	assert_int_equal(hd_check_stats(story.check)->applied, 1);
	assert_int_equal(hd_check_stats(story.check)->dropped, 2);
	whole(&story, 3);
	hd_check_settled(story.check);
	feed(&story, commit_event(&story, 2, 1, hd_version_make(1, 2)));
	expect(&story, "applied twice");
}

/* A server may drop neither updates of its own history, nor by a version that no server started; nor may the present
 * server drop any. */
static void test_dropped_by_no_server(void **state) {
	static const struct {
		uint32_t worker;
		uint16_t incarnation;
		uint64_t counter;
	} lies[] = {{0, 2, 1}, {1, 3, 1}, {1, 5, 3}, {1, 1, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
		struct story story;

		part_alone(&story);
		outcome_again(
			&story,
			lies[i].worker,
			HD_OUTCOME_DROPPED,
			hd_version_make(lies[i].incarnation, lies[i].counter)
		);
		expect(&story, "was replaced by dropped, and nothing was lost");
	}
}

/* A server starts again and is still alive when its replica takes over, with updates that the checkpoint lacked: it
 * still drops them. A dead server drops nothing. */
static void test_dropped_after_takeover(void **state) {
	for (int processes = 0; processes < 2; processes++) {
		struct story story;
		float checkpoint[VALUES];

		(void)state;
		restart(&story, checkpoint);
		whole(&story, 4);
		memcpy(story.model, checkpoint, sizeof checkpoint);
		apply(&story, 3);
		if (processes)
			hd_check_goes_on(story.check);
		hd_check_restore(story.check, story.model, hd_version_make(1, 3));
		outcome_again(&story, 2, HD_OUTCOME_DROPPED, hd_version_make(2, 3));
		if (processes)
			hd_check_settled(story.check);
		expect(&story, processes ? NULL : "dropped (lost-base), but it is in the model");
	}
}

/* Updates that both histories have are applied at the version of either, and at no other. */
static void test_applied_in_both(void **state) {
	for (uint64_t counter = 1; counter <= 2; counter++) {
		struct story story;
		struct hd_event event;

		(void)state;
		part_alone(&story);
		push_at(&story, 3, 1, hd_version_make(1, 1));
		commit(&story, 3, story.salt, hd_version_make(1, 1));
		event = commit_event(&story, 3, 1, hd_version_make(1, 1));
		story.counter--;
		event.version = hd_version_make(2, 2);
		hd_check_lost(story.check, &event);
		outcome(&story, 3, HD_OUTCOME_APPLIED, hd_version_make(2, counter));
		if (counter == 2)
			hd_check_settled(story.check);
		expect(&story, counter == 2 ? NULL : "applied at 2/1, committed at 5/4");
	}
}

/* Only there may a worker's new incarnation restart its count of rounds. */
static void test_counts_again(void **state) {
	for (int apart = 0; apart < 2; apart++) {
		struct hd_check_pushed again = {.worker = 2, .round = 1, .process = 1, .salt = 99};
		struct story story;
		float model[VALUES];

		(void)state;
		part(&story, model);
		if (apart)
			hd_check_former(story.check, 0);
		hd_check_worker_gone(story.check, 2);
		again.base = apart ? hd_version_make(8, 0) : hd_version_make(5, 3);
		again.bytes = VALUES * sizeof(float);
		hd_check_push(story.check, &again);
		expect(&story, apart ? NULL : "which is in the model");
	}
}

/* The same at a server that started again, and does not know yet that its replica, with all earlier updates, has taken
 * over. */
static void test_counts_again_at_former(void **state) {
	for (int processes = 0; processes < 2; processes++) {
		struct hd_check_pushed again = {.worker = 1, .round = 1, .process = 1, .salt = 99};
		struct story story;
		float at_two[VALUES];

		(void)state;
		begin(&story);
		whole(&story, 0);
		whole(&story, 1);
		memcpy(at_two, story.model, sizeof at_two);
		hd_check_restore(story.check, NULL, 0);
		memset(story.model, 0, sizeof story.model);
		story.incarnation = 2;
		story.counter = 0;
		whole(&story, 4);
		hd_check_worker_gone(story.check, 1);
		if (processes)
			hd_check_goes_on(story.check);
		hd_check_restore(story.check, at_two, hd_version_make(1, 2));
		again.base = version_of(&story);
		again.bytes = VALUES * sizeof(float);
		hd_check_push(story.check, &again);
		expect(&story, processes ? NULL : "which is in the model");
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_lost_history_is_back),
		cmocka_unit_test(test_lost_base),
		cmocka_unit_test(test_applied_again_after_restart),
		cmocka_unit_test(test_same_incarnation),
		cmocka_unit_test(test_wrong_checkpoint),
		cmocka_unit_test(test_comes_back_with_a_lost_history),
		cmocka_unit_test(test_wrong_lost_history),
		cmocka_unit_test(test_begins_apart),
		cmocka_unit_test(test_dropped_apart),
		cmocka_unit_test(test_dropped_by_no_server),
		cmocka_unit_test(test_dropped_after_takeover),
		cmocka_unit_test(test_applied_in_both),
		cmocka_unit_test(test_counts_again),
		cmocka_unit_test(test_counts_again_at_former),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
