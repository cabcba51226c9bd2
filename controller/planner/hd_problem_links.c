/* SPDX-License-Identifier: BSD-3-Clause */
/* Links of a problem, and existing reservations. */
#include "hd_problem_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int read_link(const struct hd_problem_reader *reader, json_t *object, size_t index) {
	static const char *const keys[] = {"name", "capacity", NULL};
	struct hd_problem *s = reader->problem;
	char prefix[64];
	const struct hd_json_object in = {&reader->json, object, prefix};
	const char *name = NULL;

	(void)snprintf(prefix, sizeof prefix, "links[%zu]", index);
	const struct hd_json_wanted wanted[] = {
		{"capacity",
		 {.least = 1e-9, .most = UNITS_MAX, .required = true},
		 &s->capacity[index]},
	};
	int rc = hd_json_known(&in, keys);
	if (rc == 0)
		rc = hd_json_name(&in, "name", true, &name);
	if (rc == 0)
		rc = READ_NUMBERS(&in, wanted);
	if (rc < 0)
		return rc;
	return hd_problem_add_name(reader, prefix, s->links, name);
}

int hd_problem_read_links(
	const struct hd_problem_reader *reader,
	const struct hd_json_object *root
) {
	struct hd_problem *s = reader->problem;
	json_t *list = NULL, *object;
	size_t i;
	int rc = hd_json_array(root, "links", true, HD_LINKS_MAX, &list);

	if (rc < 0)
		return rc;
	s->capacity = calloc(json_array_size(list) + 1, sizeof *s->capacity);
	if (!s->capacity)
		return -ENOMEM;
	s->input.capacity = s->capacity;
	s->input.link_count = (uint32_t)json_array_size(list);
	json_array_foreach(list, i, object) {
		rc = read_link(reader, object, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int hd_problem_link(
	const struct hd_problem_reader *reader,
	const char *field,
	const json_t *value
) {
	const char *name = json_string_value(value);
	const int link = !name ? -ENOENT : hd_problem_find_name(reader->problem->links, name);

	if (link < 0)
		return hd_json_fail(&reader->json, field, "must be the name of a link");
	return link;
}

static int read_busy_one(const struct hd_problem_reader *reader, json_t *object, size_t index) {
	static const char *const keys[] = {"link", "start", "end", "rate", "token", NULL};
	struct hd_plan_busy *busy = &reader->problem->busy[index];
	char prefix[64], field[80];
	const struct hd_json_object in = {&reader->json, object, prefix};
	double token = 0;

	(void)snprintf(prefix, sizeof prefix, "busy[%zu]", index);
	(void)snprintf(field, sizeof field, "%s.link", prefix);
	const struct hd_json_wanted wanted[] = {
		{"start", {.least = -SECONDS_MAX, .most = SECONDS_MAX}, &busy->start},
		{"end", {.least = -SECONDS_MAX, .most = SECONDS_MAX, .required = true}, &busy->end},
		{"rate", {.least = 0, .most = UNITS_MAX, .required = true}, &busy->rate},
		{"token", {.least = 0, .most = 9007199254740992.0, .whole = true}, &token},
	};
	int rc = hd_json_known(&in, keys);
	if (rc == 0)
		rc = READ_NUMBERS(&in, wanted);
	if (rc < 0)
		return rc;
	if (busy->end < busy->start)
		return hd_json_fail(&reader->json, prefix, "ends before it starts");
	rc = hd_problem_link(reader, field, json_object_get(object, "link"));
	if (rc < 0)
		return rc;
	busy->link = (uint32_t)rc;
	busy->token = (uint64_t)token;
	return 0;
}

int hd_problem_read_busy(
	const struct hd_problem_reader *reader,
	const struct hd_json_object *root
) {
	struct hd_problem *s = reader->problem;
	json_t *list = NULL, *object;
	size_t i;
	int rc = hd_json_array(root, "busy", false, HD_PLAN_BUSY_MAX, &list);

	if (rc < 0 || !list)
		return rc;
	s->busy = calloc(json_array_size(list) + 1, sizeof *s->busy);
	if (!s->busy)
		return -ENOMEM;
	s->input.busy = s->busy;
	s->input.busy_count = (uint32_t)json_array_size(list);
	json_array_foreach(list, i, object) {
		rc = read_busy_one(reader, object, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}
