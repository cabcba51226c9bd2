/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shape of a row: one list of its fields, from which the struct to fill, the printed JSON (hd_rows.h, the shell)
 * and docs/heddlectl.schema.json are made.
 *
 *   #define THINGS(F, row) \
 *       F(row, name, TEXT, "what it is called") \
 *       F(row, age_s, REAL_OR_NULL, "since it was made; null: it is to come")
 *   HD_ROW_SHAPE(thing_shape, thing_row, THINGS, "things", "what there is");
 *
 * declares struct thing_row and defines thing_shape. Fields are printed in the order of the list. Names end in their
 * unit. A field whose name no member can have: F##_AS(row, member, "name", type, help). A text with only a few possible
 * values: F##_OF(row, name, "one other", help).
 */
#ifndef HD_ROW_SHAPE_H
#define HD_ROW_SHAPE_H

#include "hd_stats.h"

/* A histogram with the bounds of its buckets. */
struct hd_row_histogram {
	const struct hd_scale *scale;
	const struct hd_histogram *histogram;
};

/* A value, whole or real, with its stat. */
struct hd_row_number {
	const struct hd_stat *stat;
	union hd_stat_value value;
};

/* How a field is kept in the struct, and shown. */
enum hd_row_type {
	HD_ROW_TEXT, /* never NULL */
	HD_ROW_TEXT_OR_NULL,
	HD_ROW_COUNT,
	HD_ROW_COUNT_OR_NULL, /* null: HD_ROW_NONE */
	HD_ROW_REAL, /* three decimals */
	HD_ROW_REAL_OR_NULL, /* null: not finite */
	HD_ROW_EXACT, /* a real that is not rounded */
	HD_ROW_EXACT_OR_NULL,
	HD_ROW_NUMBER,
	HD_ROW_BOOL,
	HD_ROW_TRUE, /* a bool that is never false */
	HD_ROW_VERSION, /* as text, INCARNATION.COUNT */
	HD_ROW_ADDRESS, /* as text, ADDR:PORT */
	HD_ROW_BUCKETS /* a list of {"le", "count"}, cumulative as in OpenMetrics; le in the shell's unit, null: no bound */
};
#define HD_ROW_NONE UINT64_MAX

typedef const char *hd_row_TEXT;
typedef const char *hd_row_TEXT_OR_NULL;
typedef uint64_t hd_row_COUNT;
typedef uint64_t hd_row_COUNT_OR_NULL;
typedef double hd_row_REAL;
typedef double hd_row_REAL_OR_NULL;
typedef double hd_row_EXACT;
typedef double hd_row_EXACT_OR_NULL;
typedef struct hd_row_number hd_row_NUMBER;
typedef bool hd_row_BOOL;
typedef bool hd_row_TRUE;
typedef hd_version hd_row_VERSION;
typedef struct hd_addr hd_row_ADDRESS;
typedef struct hd_row_histogram hd_row_BUCKETS;

struct hd_row_field {
	const char *name;
	const char *help; /* one line, no full stop */
	const char *words; /* values of a text, separated by spaces; NULL: any */
	uint16_t type; /* enum hd_row_type */
	uint16_t offset; /* of the value in the struct */
};

struct hd_row_shape {
	const char *name; /* of the table */
	const char *help;
	const struct hd_row_field *fields;
	uint16_t count;
	/* Printed after the fields: a text for each label, then a number for each stat. NULL: none. */
	const struct hd_stat_group *group;
	bool partial; /* the group's fields may be missing, all together */
};

#define HD_ROW_MEMBER(row, name, type, help) hd_row_##type name;
#define HD_ROW_MEMBER_AS(row, member, name, type, help) hd_row_##type member;
#define HD_ROW_MEMBER_OF(row, name, words, help) hd_row_TEXT name;
#define HD_ROW_FIELD(row, name, type, help) HD_ROW_FIELD_AS(row, name, #name, type, help)
#define HD_ROW_FIELD_AS(row, member, name, type, help)                                             \
	{name, help, NULL, HD_ROW_##type, offsetof(struct row, member)},
#define HD_ROW_FIELD_OF(row, name, words, help)                                                    \
	{#name, help, words, HD_ROW_TEXT, offsetof(struct row, name)},

#define HD_ROW_STRUCT(row, LIST)                                                                   \
	struct row {                                                                               \
		LIST(HD_ROW_MEMBER, row)                                                           \
	}
/* For a struct that is declared already. More designated initializers of the shape may follow. */
#define HD_ROW_SHAPE_OF(shape, row, LIST, table, about, ...)                                       \
	static const struct hd_row_field row##_fields[] = {LIST(HD_ROW_FIELD, row)};               \
	const struct hd_row_shape shape                                                            \
		= {.name = (table),                                                                \
		   .help = (about),                                                                \
		   .fields = row##_fields,                                                         \
		   .count = sizeof row##_fields / sizeof row##_fields[0],                          \
		   __VA_ARGS__}
/* Declares the struct and defines the shape. */
#define HD_ROW_SHAPE(shape, row, LIST, ...)                                                        \
	HD_ROW_STRUCT(row, LIST);                                                                  \
	HD_ROW_SHAPE_OF(shape, row, LIST, __VA_ARGS__)

#endif
