/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the tables of docs/wire.md and docs/heddle.lua as the code has them:
 * tests/unit/programs/check_wire_doc.py compares, and with --write puts them there. */
#include "hd_event.h"
#include "hd_message.h"
#include "hd_wire.h"

#include <stdio.h>
#include <string.h>

static void print_message(uint8_t kind) {
	const struct hd_field_info *f;

	printf("| %u | `%s` |", kind, hd_message_name(kind));
	for (size_t i = 0; (f = hd_message_field(kind, i)); i++)
		printf("%s `%s`:%s", i ? "," : "", f->name, f->type);
	printf(" |\n");
}

static void print_lua(uint8_t kind) {
	const struct hd_field_info *f;

	printf("\t[%u] = { \"%s\", {", kind, hd_message_name(kind));
	for (size_t i = 0; (f = hd_message_field(kind, i)); i++)
		printf("%s \"%s:%s\"", i ? "," : "", f->name, f->type);
	printf(" } },\n");
}

static void print_limits(void) {
	static const struct {
		const char *name;
		unsigned long value;
	} rows[] = {
		{"HD_PORT", HD_PORT},
		{"HD_PACKET_BYTES_MAX", HD_PACKET_BYTES_MAX},
		{"HD_CHUNK_BYTES_DEFAULT", HD_CHUNK_BYTES_DEFAULT},
		{"HD_CHUNK_BYTES_MAX", HD_CHUNK_BYTES_MAX},
		{"HD_FRAGMENT_BYTES_MAX", HD_FRAGMENT_BYTES_MAX},
		{"HD_MESSAGE_BYTES_MAX", HD_MESSAGE_BYTES_MAX},
		{"HD_NAME_BYTES_MAX", HD_NAME_BYTES_MAX},
		{"HD_TEXT_BYTES_MAX", HD_TEXT_BYTES_MAX},
		{"HD_SEGMENTS_MAX", HD_SEGMENTS_MAX},
		{"HD_SACK_RANGES_MAX", HD_SACK_RANGES_MAX},
		{"HD_FRAGMENTS_INFLIGHT_MAX", HD_FRAGMENTS_INFLIGHT_MAX},
		{"HD_MESSAGES_UNACKED_MAX", HD_MESSAGES_UNACKED_MAX},
		{"HD_SESSIONS_MAX", HD_SESSIONS_MAX},
		{"HD_CANDIDATES_MAX", HD_CANDIDATES_MAX},
		{"HD_WELCOMES_PER_S", HD_WELCOMES_PER_S},
		{"HD_GONES_PER_S", HD_GONES_PER_S},
		{"HD_REFUSALS_PER_S", HD_REFUSALS_PER_S},
		{"HD_ACK_DELAY_US", HD_ACK_DELAY_US},
		{"HD_RTO_INITIAL_US", HD_RTO_INITIAL_US},
		{"HD_RTO_MIN_US", HD_RTO_MIN_US},
		{"HD_RTO_MAX_US", HD_RTO_MAX_US},
		{"HD_HELLO_RETRY_US", HD_HELLO_RETRY_US},
		{"HD_HELLO_RETRY_MAX_US", HD_HELLO_RETRY_MAX_US},
		{"HD_HELLO_BUSY_US", HD_HELLO_BUSY_US},
		{"HD_CANDIDATE_US", HD_CANDIDATE_US},
		{"HD_KEEPALIVE_US", HD_KEEPALIVE_US},
		{"HD_SILENCE_US", HD_SILENCE_US},
		{"HD_DETECTION_US", HD_DETECTION_US},
	};

	printf("| name | value |\n|---|---|\n");
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		printf("| `%s` | %lu |\n", rows[i].name, rows[i].value);
}

int main(void) {
	printf("<!-- table: messages -->\n| kind | message | fields in order |\n|---|---|---|\n");
	for (unsigned kind = 0; kind < 256; kind++)
		if (hd_message_field((uint8_t)kind, 0))
			print_message((uint8_t)kind);
	printf("<!-- table: reasons -->\n| code | reason |\n|---|---|\n");
	for (int i = 0; i < HD_REASON_COUNT; i++)
		printf("| %d | %s |\n", i, hd_reason_name((enum hd_reason)i));
	printf("<!-- table: outcomes -->\n| code | outcome |\n|---|---|\n");
	for (int i = 0; i < HD_OUTCOME_COUNT; i++)
		printf("| %d | %s |\n", i, hd_outcome_name((enum hd_outcome)i));
	printf("<!-- table: roles -->\n| code | role |\n|---|---|\n");
	for (int i = 0; i < HD_ROLE_COUNT; i++)
		printf("| %d | %s |\n", i, hd_role_name((uint8_t)i));
	printf("<!-- table: verbs -->\n| code | verb |\n|---|---|\n");
	for (int i = 0; i < HD_VERB_COUNT; i++)
		printf("| %d | %s |\n", i, hd_verb_name((uint8_t)i));
	printf("<!-- table: limits -->\n");
	print_limits();
	printf("-- table: lua\n");
	for (unsigned kind = 0; kind < 256; kind++)
		if (hd_message_field((uint8_t)kind, 0))
			print_lua((uint8_t)kind);
	return 0;
}
