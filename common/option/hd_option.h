/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program's options as a table, one row each: name, argument, limits, destination of the value, text of --help.
 * getopt_long() splits the arguments; the table does the rest. Called once, from main().
 *
 *   static const struct hd_option table[] = {
 *     HD_OPTION_TEXT("key-file", "FILE", struct mine, key_file, "keys of the cluster"),
 *     HD_OPTION_U32("lease-ms", "N", struct mine, lease_ms, 10, 3600000, "how long ..."),
 *     HD_OPTION_TABLE(hd_driver_option_table, struct mine, driver),
 *     HD_OPTION_HELP,
 *     HD_OPTION_END,
 *   };
 */
#ifndef HD_OPTION_H
#define HD_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HD_OPTIONS_MAX 96 /* of a program, including those of included tables */
#define HD_OPTION_ERROR_BYTES 512

enum hd_option_kind {
	HD_OPTION_ENDS = 0, /* the table's last row */
	HD_OPTION_IS_TEXT, /* const char * */
	HD_OPTION_IS_NAME, /* const char * of 1 to HD_NAME_BYTES_MAX bytes, even if not given */
	HD_OPTION_IS_FLAG, /* bool */
	HD_OPTION_IS_REAL, /* double */
	HD_OPTION_IS_FLOAT,
	HD_OPTION_IS_U32,
	HD_OPTION_IS_U64,
	HD_OPTION_IS_BYTES, /* uint64_t; with K, M or G, 1024 each */
	HD_OPTION_IS_TAKEN, /* handled by take() */
	HD_OPTION_IS_HELP,
	HD_OPTION_IS_VERSION, /* every program's: handled by hd_options_read() */
	HD_OPTION_IS_TABLE, /* the rows of another table, with its values at `at` */
	HD_OPTION_IS_NOTE, /* no option: a line of --help */
};

struct hd_option {
	enum hd_option_kind kind;
	bool needed; /* text: required */
	char letter; /* short form, as -n; 0: none */
	const char *name; /* without the dashes */
	const char *value; /* its argument, as shown in --help; NULL: none */
	const char *help; /* its lines; NULL: described by another row */
	size_t at; /* offset of its value in the values */
	uint64_t least, most; /* of whole numbers and bytes */
	double low, high; /* of reals */
	/* 0; -1 when it has printed what was requested, like --help; or an exit code after it has reported an error. */
	int (*take)(void *values, const char *text);
	const struct hd_option *table;
};

#define HD_OPTION_TEXT(option, what, type, field, words)                                           \
	{                                                                                          \
		.kind = HD_OPTION_IS_TEXT, .name = (option), .value = (what), .help = (words),     \
		.at = offsetof(type, field)                                                        \
	}
#define HD_OPTION_NEEDED(option, what, type, field, words)                                         \
	{                                                                                          \
		.kind = HD_OPTION_IS_TEXT, .needed = true, .name = (option), .value = (what),      \
		.help = (words), .at = offsetof(type, field)                                       \
	}
#define HD_OPTION_NAME(option, type, field, words)                                                 \
	{                                                                                          \
		.kind = HD_OPTION_IS_NAME, .name = (option), .value = "NAME", .help = (words),     \
		.at = offsetof(type, field)                                                        \
	}
#define HD_OPTION_FLAG(option, type, field, words)                                                 \
	{                                                                                          \
		.kind = HD_OPTION_IS_FLAG, .name = (option), .help = (words),                      \
		.at = offsetof(type, field)                                                        \
	}
#define HD_OPTION_WITHIN(what_kind, option, what, type, field, from, to, words)                    \
	{                                                                                          \
		.kind = (what_kind), .name = (option), .value = (what), .help = (words),           \
		.at = offsetof(type, field), .low = (from), .high = (to)                           \
	}
#define HD_OPTION_REAL(option, what, type, field, from, to, words)                                 \
	HD_OPTION_WITHIN(HD_OPTION_IS_REAL, option, what, type, field, from, to, words)
#define HD_OPTION_FLOAT(option, what, type, field, from, to, words)                                \
	HD_OPTION_WITHIN(HD_OPTION_IS_FLOAT, option, what, type, field, from, to, words)
#define HD_OPTION_WHOLE(what_kind, option, what, type, field, from, to, words)                     \
	{                                                                                          \
		.kind = (what_kind), .name = (option), .value = (what), .help = (words),           \
		.at = offsetof(type, field), .least = (from), .most = (to)                         \
	}
#define HD_OPTION_U32(option, what, type, field, from, to, words)                                  \
	HD_OPTION_WHOLE(HD_OPTION_IS_U32, option, what, type, field, from, to, words)
#define HD_OPTION_U64(option, what, type, field, from, to, words)                                  \
	HD_OPTION_WHOLE(HD_OPTION_IS_U64, option, what, type, field, from, to, words)
#define HD_OPTION_BYTES(option, type, field, to, words)                                            \
	HD_OPTION_WHOLE(HD_OPTION_IS_BYTES, option, "BYTES", type, field, 1, to, words)
#define HD_OPTION_TAKE(option, what, call, words)                                                  \
	{                                                                                          \
		.kind = HD_OPTION_IS_TAKEN, .name = (option), .value = (what), .help = (words),    \
		.take = (call)                                                                     \
	}
#define HD_OPTION_TABLE(other, type, field)                                                        \
	{ .kind = HD_OPTION_IS_TABLE, .table = (other), .at = offsetof(type, field) }
#define HD_OPTION_NOTE(words)                                                                      \
	{ .kind = HD_OPTION_IS_NOTE, .help = (words) }
#define HD_OPTION_HELP                                                                             \
	{ .kind = HD_OPTION_IS_HELP, .name = "help", .help = "this text" }
#define HD_OPTION_END                                                                              \
	{ .kind = HD_OPTION_ENDS }

struct hd_option_program {
	const char *name; /* for errors */
	const char *usage; /* text of --help before the options */
	const struct hd_option *table;
	const char *after; /* text after the options; NULL: none */
	uint32_t column; /* of --help, where descriptions begin; 0: 25 */
	bool arguments; /* takes other arguments: argv from optind on; else they are errors */
	bool stops; /* stops at the first of them: the rest is another program's */
};

/* Receives errors: a sentence that names the option and its limits. Returns `code`. */
struct hd_option_errors {
	int (*tell)(void *owner, int code, const char *sentence);
	void *owner;
};

/*
 * Reads argv into `values`, whose other fields keep their defaults. Every program also has --version. errors: NULL
 * prints `NAME: sentence` to standard error. 0; -1 when --help or --version (or a take()) has printed its text; or
 * EX_USAGE (or take()'s exit code) after an error was reported.
 */
int hd_options_read(
	const struct hd_option_program *program,
	int argc,
	char **argv,
	void *values,
	const struct hd_option_errors *errors
);
/* Prints the text of --help. */
void hd_options_print_help(const struct hd_option_program *program);

#endif
