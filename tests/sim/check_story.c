/* SPDX-License-Identifier: BSD-3-Clause */
#include "check_story.h"
#include "hd_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void begin(struct story *story) {
	*story = (struct story){.incarnation = 1};
	assert_int_equal(hd_check_create(VALUES, TAU, &story->check), 0);
}

void expect(struct story *story, const char *violation) {
	const char *failure = hd_check_failure(story->check);

	if (!violation) {
		assert_null(failure);
	} else {
		assert_non_null(failure);
		if (!strstr(failure, violation))
			fail_msg("'%s' does not say '%s'", failure, violation);
	}
	hd_check_destroy(story->check);
}

hd_version version_of(const struct story *story) {
	return hd_version_make(story->incarnation, story->counter);
}

void push_at(struct story *story, uint32_t worker, uint32_t round, hd_version base) {
	story->round[worker] = round;
	hd_check_push(
		story->check,
		&(struct hd_check_pushed
		){.worker = worker,
		  .round = round,
		  .salt = ++story->salt,
		  .base = base,
		  .bytes = VALUES * sizeof(float)}
	);
}

uint64_t push(struct story *story, uint32_t worker) {
	push_at(story, worker, story->round[worker] + 1, version_of(story));
	return story->salt;
}

void apply(struct story *story, uint64_t salt) {
	hd_check_fill(salt, story->update, VALUES);
	for (int i = 0; i < VALUES; i++)
		story->model[i] -= story->update[i];
}

struct hd_event
commit_event(struct story *story, uint32_t worker, uint32_t round, hd_version base) {
	story->counter++;
	return (struct hd_event){
		.kind = HD_EVENT_COMMITTED,
		.worker = (uint16_t)worker,
		.round = round,
		.version = version_of(story),
		.base = base,
		.bytes = VALUES * sizeof(float),
		.aux = story->counter - hd_version_counter(base),
		.value = 1,
	};
}

void feed(struct story *story, struct hd_event event) {
	hd_check_event(story->check, &event);
}

void look(struct story *story) {
	hd_check_model(story->check, story->model, version_of(story));
}

void commit(struct story *story, uint32_t worker, uint64_t salt, hd_version base) {
	feed(story, commit_event(story, worker, story->round[worker], base));
	apply(story, salt);
	assert_true(hd_check_failure(story->check) || hd_check_dirty(story->check));
	look(story);
}

void outcome(struct story *story, uint32_t worker, enum hd_outcome what, hd_version version) {
	feed(story,
	     (struct hd_event){
		     .kind = HD_EVENT_OUTCOME,
		     .worker = (uint16_t)worker,
		     .direction = HD_PUSH,
		     .round = story->round[worker],
		     .version = version,
		     .aux = what,
		     .reason = what == HD_OUTCOME_DROPPED ? HD_REASON_LATE : HD_REASON_NONE,
	     });
}

void whole(struct story *story, uint32_t worker) {
	hd_version base = version_of(story);
	uint64_t salt = push(story, worker);

	commit(story, worker, salt, base);
	outcome(story, worker, HD_OUTCOME_APPLIED, version_of(story));
}
