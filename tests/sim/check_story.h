/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds by hand, for tests, a sequence of events that a server and its workers report to a checker. Tests plant wrong
 * events in it. */
#ifndef CHECK_STORY_H
#define CHECK_STORY_H

#include "hd_check.h"

#define VALUES 100
#define TAU 4

struct story {
	struct hd_check *check;
	float model[VALUES], update[VALUES];
	uint16_t incarnation;
	uint64_t counter;
	uint32_t round[8];
	uint64_t salt;
};

void begin(struct story *story);
/* Ends it: with this violation, or none (NULL). */
void expect(struct story *story, const char *violation);
hd_version version_of(const struct story *story);
/* A worker pushes; returns what fills its update. */
void push_at(struct story *story, uint32_t worker, uint32_t round, hd_version base);
uint64_t push(struct story *story, uint32_t worker);
/* The server's model, as it should be. */
void apply(struct story *story, uint64_t salt);
struct hd_event commit_event(struct story *story, uint32_t worker, uint32_t round, hd_version base);
void feed(struct story *story, struct hd_event event);
/* The checker looks at the model. */
void look(struct story *story);
void commit(struct story *story, uint32_t worker, uint64_t salt, hd_version base);
void outcome(struct story *story, uint32_t worker, enum hd_outcome what, hd_version version);
/* One whole life of an update of a worker. */
void whole(struct story *story, uint32_t worker);

#endif
