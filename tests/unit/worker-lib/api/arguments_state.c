/* SPDX-License-Identifier: BSD-3-Clause */
/* NULL and nonsense for the state from another worker. */
#include "arguments.h"

#include <stdint.h>

static void state_items(struct arguments_scene *s) {
	struct heddle_state_item items[2] = {{"a", s->data, 4}, {"b", s->data + 1, 4}};
	uint64_t version = 3;

	refused(heddle_share_state(s->fabric, NULL, 1, &version, NULL, -1, NULL), "items: NULL");
	refused(heddle_share_state(s->fabric, items, 0, &version, NULL, -1, NULL), "count: 0");
	refused(heddle_share_state(s->fabric, items, SIZE_MAX, &version, NULL, -1, NULL), "count");
	items[1].name = "";
	refused(heddle_share_state(s->fabric, items, 2, &version, NULL, -1, NULL),
		"name of item 1");
	items[1].name = NULL;
	refused(heddle_share_state(s->fabric, items, 2, &version, NULL, -1, NULL),
		"name of item 1");
	items[1].name = "b";
	items[1].data = NULL;
	refused(heddle_share_state(s->fabric, items, 2, &version, NULL, -1, NULL), "(b) is NULL");
	items[1].data = s->data;
	items[1].bytes = 0;
	refused(heddle_share_state(s->fabric, items, 2, &version, NULL, -1, NULL), "0 bytes");
	items[1].bytes = UINT64_MAX;
	refused(heddle_share_state(s->fabric, items, 2, &version, NULL, -1, NULL), "bytes");
	assert_int_equal(version, 3);
}

static void share_state(struct arguments_scene *s) {
	struct heddle_state_options options = HEDDLE_STATE_OPTIONS_INIT;
	struct heddle_status status = HEDDLE_STATUS_INIT;
	const struct heddle_state_item item = {"a", s->data, 4};
	uint64_t version = HEDDLE_STATE_VERSIONS_MAX;

	state_items(s);
	refused(heddle_share_state(NULL, &item, 1, &version, NULL, -1, NULL), "handle: NULL");
	refused(heddle_share_state(s->fabric, &item, 1, NULL, NULL, -1, NULL), "version: NULL");
	refused(heddle_share_state(s->fabric, &item, 1, &version, NULL, -1, NULL), "version: 2814");
	version = HEDDLE_STATE_NONE;
	options.size--;
	refused(heddle_share_state(s->fabric, &item, 1, &version, &options, -1, NULL), "options");
	options.size++;
	options.part_bytes = UINT64_MAX;
	refused(heddle_share_state(s->fabric, &item, 1, &version, &options, -1, NULL),
		"part_bytes");
	options.part_bytes = 0;
	options.exact = HEDDLE_WORKERS_MAX + 1;
	refused(heddle_share_state(s->fabric, &item, 1, &version, &options, -1, NULL), "exact");
	status.version = 7;
	says(heddle_share_state(s->fabric, &item, 1, &version, NULL, -1, &status),
	     -EDESTADDRREQ,
	     "controller: ");
	assert_int_equal(status.version, 7);
	assert_true(version == HEDDLE_STATE_NONE);
	status.size = 0;
	refused(heddle_share_state(s->fabric, &item, 1, &version, NULL, -1, &status),
		"status: size");
}

const struct arguments_row arguments_state[] = {
	{"heddle_share_state", share_state},
	{0},
};
