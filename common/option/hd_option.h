/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program's options as a table: name, what it takes, its limits, where the value goes and what --help says, one row
 * each. getopt_long() reads the words; the table does the rest. Called once, from main().
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

#define HD_OPTIONS_MAX 96 /* of a program, with those of tables in its table */
#define HD_OPTION_ERROR_BYTES 512

enum hd_option_kind {
	HD_OPTION_ENDS = 0, /* the table's last row */
	HD_OPTION_IS_TEXT, /* const char * */
	HD_OPTION_IS_NAME, /* const char * of 1 to HD_NAME_BYTES_MAX bytes, also when it is not given */
	HD_OPTION_IS_FLAG, /* bool */
	HD_OPTION_IS_REAL, /* double */
	HD_OPTION_IS_FLOAT,
	HD_OPTION_IS_U32,
	HD_OPTION_IS_U64,
	HD_OPTION_IS_BYTES, /* uint64_t; with K, M or G, 1024 each */
	HD_OPTION_IS_TAKEN, /* take() has it */
	HD_OPTION_IS_HELP,
	HD_OPTION_IS_VERSION, /* every program's: hd_options_read() has it */
	HD_OPTION_IS_TABLE, /* the rows of another table, whose values lie at `at` */
	HD_OPTION_IS_NOTE, /* no option: a line of --help */
};

struct hd_option {
	enum hd_option_kind kind;
	bool needed; /* text: without it the program does not begin */
	char letter; /* -n as well; 0: none */
	const char *name; /* without the dashes */
	const char *value; /* what it takes, as --help has it; NULL: nothing */
	const char *help; /* its lines; NULL: another row's speak of it */
	size_t at; /* where its value goes, from the beginning of the values */
	uint64_t least, most; /* of whole numbers and bytes */
	double low, high; /* of reals */
	/* 0; -1 when it has printed what was asked for, as --help does; or an exit code when it has said what is wrong. */
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
	const char *usage; /* what --help says before the options */
	const struct hd_option *table;
	const char *after; /* behind the options; NULL: nothing */
	uint32_t column; /* of --help, where words begin; 0: 25 */
	bool arguments; /* takes words that are no options: argv from optind on; else they are errors */
	bool stops; /* at the first of them: what follows is another program's */
};

/* Whom errors are told: a sentence that names the option and its limits. Returns `code`. */
struct hd_option_errors {
	int (*tell)(void *owner, int code, const char *sentence);
	void *owner;
};

/*
 * Reads argv into `values`, whose other fields stay as they are (the defaults). Every program has --version beside its
 * table. errors: NULL tells standard error `NAME: sentence`. 0; -1 when --help or --version has been printed (or what a
 * take() prints); or EX_USAGE (or what a take() says) when it has been told.
 */
int hd_options_read(
	const struct hd_option_program *program,
	int argc,
	char **argv,
	void *values,
	const struct hd_option_errors *errors
);
/* What --help prints. */
void hd_options_print_help(const struct hd_option_program *program);

#endif
