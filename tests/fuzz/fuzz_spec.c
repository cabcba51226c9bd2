/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of a pipeline: any bytes give one whose parts are within it, or an error in words. */
#include "fuzz.h"
#include "hd_switch_priority.h"
#include "hd_switch_spec.h"

#include <string.h>

static size_t check_tables(const struct hd_spec *spec) {
	size_t letters = 0;

	for (uint32_t i = 0; i < spec->table_count; i++) {
		const struct hd_spec_table *table = &spec->tables[i];

		letters += strlen(table->name) + strlen(table->default_action);
		for (uint32_t k = 0; k < table->key_count; k++)
			letters += strlen(table->keys[k].field);
		for (uint32_t k = 0; k < table->choice_count; k++) {
			letters += strlen(table->choices[k].action);
			CHECK(table->choices[k].for_entries || table->choices[k].for_default);
		}
	}
	return letters;
}

static size_t check(const struct hd_spec *spec) {
	size_t letters = strlen(spec->metadata);

	CHECK(spec->line_count > 0);
	for (uint32_t i = 0; i < spec->line_count; i++)
		letters += strlen(spec->lines[i]);
	for (uint32_t i = 0; i < spec->action_count; i++)
		for (uint32_t k = 0; k < spec->actions[i].line_count; k++)
			letters += strlen(spec->actions[i].lines[k]);
	for (uint32_t i = 0; i < spec->struct_count; i++) {
		CHECK(spec->structs[i].field_count > 0);
		for (uint32_t k = 0; k < spec->structs[i].field_count; k++) {
			letters += strlen(spec->structs[i].fields[k].name);
			CHECK(spec->structs[i].fields[k].bits % 8 == 0);
		}
	}
	return letters + check_tables(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct hd_spec_error error = {0};
	struct hd_spec *spec;
	uint8_t *frame = malloc(bytes ? bytes : 1);

	if (!frame)
		return 0;
	memcpy(frame, data, bytes);
	(void)hd_switch_class_of(frame, bytes);
	(void)hd_switch_mark_congestion(frame, bytes);
	free(frame);
	if (hd_spec_read((const char *)data, bytes, &spec, &error) < 0) {
		CHECK(error.what != NULL);
		return 0;
	}
	/* Each word is stored once: together they are no longer than the input. */
	CHECK(check(spec) <= bytes);
	hd_spec_free(spec);
	return 0;
}
