/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the text that p4c makes of a program for DPDK's pipeline (.spec) into the arguments of DPDK's configuration
 * calls. DPDK 22.11 itself reads such a text only to generate C code from it.
 *
 *   struct T {            header H instanceof T         action A args instanceof T {
 *       bit<48> field     metadata instanceof T             mov h.x.y t.z
 *   }                     regarray R size N initval V   }
 *                         metarray M size N
 *   table T {
 *       key {                      actions {            default_action A args none const
 *           h.x.y exact                A @tableonly     size 0x10000
 *       }                          }                }
 *   apply {
 *       rx m.port
 *       ...
 *   }
 *
 * Not supported: extern objects, selectors, learners, receive-side scaling. Source: DPDK's lib/pipeline (the grammar).
 */
#ifndef HD_SWITCH_SPEC_H
#define HD_SWITCH_SPEC_H

#include "hd_types.h"

#define HD_SPEC_TEXT_BYTES_MAX (1u << 20)
#define HD_SPEC_LINES_MAX 16384u
#define HD_SPEC_WORDS_MAX 128u /* of a line */

struct hd_spec_field {
	const char *name;
	uint32_t bits; /* a multiple of 8 */
};

struct hd_spec_struct {
	const char *name;
	const struct hd_spec_field *fields;
	uint32_t field_count;
	bool variable; /* the last field's size is a maximum */
};

struct hd_spec_header {
	const char *name, *type;
};

struct hd_spec_action {
	const char *name, *arguments; /* a struct's name, NULL: none */
	char **lines;
	uint32_t line_count;
};

enum hd_spec_match {
	HD_SPEC_EXACT,
	HD_SPEC_WILDCARD,
	HD_SPEC_LPM
};

struct hd_spec_key {
	const char *field;
	enum hd_spec_match match;
};

struct hd_spec_choice {
	const char *action;
	bool for_entries, for_default;
};

struct hd_spec_table {
	const char *name;
	const struct hd_spec_key *keys;
	uint32_t key_count;
	const struct hd_spec_choice *choices;
	uint32_t choice_count;
	const char *default_action;
	const char *default_arguments; /* NULL: none */
	bool default_const;
	const char *type, *hash, *options; /* NULL: DPDK's choice */
	uint32_t size;
};

/* Registers, and meters (which have no initial value). */
struct hd_spec_array {
	const char *name;
	uint32_t size;
	uint64_t initial;
};

struct hd_spec {
	const struct hd_spec_struct *structs;
	uint32_t struct_count;
	const struct hd_spec_header *headers;
	uint32_t header_count;
	const char *metadata; /* a struct's name */
	const struct hd_spec_array *registers;
	uint32_t register_count;
	const struct hd_spec_array *meters;
	uint32_t meter_count;
	const struct hd_spec_action *actions;
	uint32_t action_count;
	const struct hd_spec_table *tables;
	uint32_t table_count;
	char **lines; /* of apply */
	uint32_t line_count;
};

struct hd_spec_error {
	uint32_t line; /* from 1; 0: of no line */
	const char *what;
};

/* Accepts any bytes. 0 with *spec set, -EINVAL (*error has the place and reason), -E2BIG (a limit above) or -ENOMEM. */
int hd_spec_read(
	const char *text,
	size_t bytes,
	struct hd_spec **spec,
	struct hd_spec_error *error
);
void hd_spec_free(struct hd_spec *spec);

#endif
