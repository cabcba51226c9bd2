/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_limits.h"
#include "hd_number.h"
#include "hd_option.h"

#include <assert.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define FIRST_ID 256
#define COLUMN 25

/* A row of the program's table, or of a table included in it. */
struct row {
	const struct hd_option *option;
	size_t base; /* the address that its `at` is relative to */
};

struct rows {
	struct row row[HD_OPTIONS_MAX];
	int count;
};

struct reader {
	const struct hd_option_program *program;
	const struct hd_option_errors *errors;
	char *values;
};

static void add(struct rows *rows, const struct hd_option *option, size_t base) {
	assert(rows->count < HD_OPTIONS_MAX);
	rows->row[rows->count++] = (struct row){option, base};
}

static const struct hd_option version_option
	= {.kind = HD_OPTION_IS_VERSION, .name = "version", .help = "which version this is"};

/* An included table includes no others. */
static void collect(const struct hd_option *table, struct rows *rows) {
	rows->count = 0;
	for (; table->kind != HD_OPTION_ENDS; table++) {
		if (table->kind != HD_OPTION_IS_TABLE) {
			add(rows, table, 0);
			continue;
		}
		for (const struct hd_option *o = table->table; o->kind != HD_OPTION_ENDS; o++)
			add(rows, o, table->at);
	}
	add(rows, &version_option, 0);
}

/* --- errors ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static int
refuse(const struct reader *reader, const char *format, ...) {
	char sentence[HD_OPTION_ERROR_BYTES];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(sentence, sizeof sentence, format, args);
	va_end(args);
	if (reader->errors)
		return reader->errors->tell(reader->errors->owner, EX_USAGE, sentence);
	(void)fprintf(stderr, "%s: %s\n", reader->program->name, sentence);
	return EX_USAGE;
}

/* --- values ---------------------------------------------------------------------------------- */

static int
take_real(const struct reader *reader, const struct hd_option *o, const char *text, double *value) {
	if (hd_number_real(text, o->low, o->high, value) == 0)
		return 0;
	return refuse(
		reader, "--%s: '%s' (a number from %g to %g)", o->name, text, o->low, o->high
	);
}

static int
take_float(const struct reader *reader, const struct hd_option *o, const char *text, float *value) {
	double real = 0;
	int status = take_real(reader, o, text, &real);

	if (status == 0)
		*value = (float)real;
	return status;
}

static int take_whole(
	const struct reader *reader,
	const struct hd_option *o,
	const char *text,
	uint64_t *value
) {
	int status = o->kind == HD_OPTION_IS_BYTES ?
		hd_number_bytes(text, o->least, o->most, value) :
		hd_number_whole(text, o->least, o->most, value);

	if (status == 0)
		return 0;
	return refuse(
		reader,
		"--%s: '%s' (a whole number from %llu to %llu)",
		o->name,
		text,
		(unsigned long long)o->least,
		(unsigned long long)o->most
	);
}

static int take_u32(
	const struct reader *reader,
	const struct hd_option *o,
	const char *text,
	uint32_t *value
) {
	uint64_t whole = 0;
	int status = take_whole(reader, o, text, &whole);

	assert(o->most <= UINT32_MAX);
	if (status == 0)
		*value = (uint32_t)whole;
	return status;
}

static int take_name(const struct reader *reader, const struct hd_option *o, const char *text) {
	size_t bytes = strlen(text);

	if (bytes >= 1 && bytes <= HD_NAME_BYTES_MAX)
		return 0;
	return refuse(reader, "--%s: '%s' (1 to %d bytes)", o->name, text, HD_NAME_BYTES_MAX);
}

static int take(const struct reader *reader, const struct row *row, const char *text) {
	const struct hd_option *o = row->option;
	void *value = reader->values + row->base + o->at;

	switch (o->kind) {
	case HD_OPTION_IS_TEXT:
	case HD_OPTION_IS_NAME:
		*(const char **)value = text;
		return 0;
	case HD_OPTION_IS_FLAG:
		*(bool *)value = true;
		return 0;
	case HD_OPTION_IS_REAL:
		return take_real(reader, o, text, value);
	case HD_OPTION_IS_FLOAT:
		return take_float(reader, o, text, value);
	case HD_OPTION_IS_U32:
		return take_u32(reader, o, text, value);
	case HD_OPTION_IS_U64:
	case HD_OPTION_IS_BYTES:
		return take_whole(reader, o, text, value);
	case HD_OPTION_IS_TAKEN:
		return o->take(reader->values + row->base, text);
	case HD_OPTION_IS_VERSION:
		(void)printf("%s " HEDDLE_VERSION "\n", reader->program->name);
		return -1;
	default:
		hd_options_print_help(reader->program);
		return -1;
	}
}

/* Checks that required options are given, and that defaults are within their limits. */
static int check(const struct reader *reader, const struct rows *rows) {
	int status = 0;

	for (int i = 0; i < rows->count && status == 0; i++) {
		const struct hd_option *o = rows->row[i].option;
		const char **text = (void *)(reader->values + rows->row[i].base + o->at);

		if ((o->needed || o->kind == HD_OPTION_IS_NAME) && !*text)
			status = refuse(reader, "--%s: missing", o->name);
		else if (o->kind == HD_OPTION_IS_NAME)
			status = take_name(reader, o, *text);
	}
	return status;
}

/* --- arguments ------------------------------------------------------------------------------- */

/* Fills getopt's tables: a row's id is its letter, or its index. */
static int
prepare(const struct hd_option_program *program,
	const struct rows *rows,
	struct option names[HD_OPTIONS_MAX + 1],
	char letters[2 * HD_OPTIONS_MAX + 2]) {
	int count = 0;

	if (program->stops)
		*letters++ = '+';
	for (int i = 0; i < rows->count; i++) {
		const struct hd_option *o = rows->row[i].option;

		if (!o->name)
			continue;
		names[count++] = (struct option){
			.name = o->name,
			.has_arg = o->value ? required_argument : no_argument,
			.val = FIRST_ID + i,
		};
		if (!o->letter)
			continue;
		*letters++ = o->letter;
		if (o->value)
			*letters++ = ':';
	}
	names[count] = (struct option){0};
	*letters = '\0';
	return count;
}

static const struct row *find(const struct rows *rows, int id) {
	if (id >= FIRST_ID)
		return &rows->row[id - FIRST_ID];
	for (int i = 0; i < rows->count; i++)
		if (rows->row[i].option->letter == id)
			return &rows->row[i];
	return NULL;
}

int hd_options_read(
	const struct hd_option_program *program,
	int argc,
	char **argv,
	void *values,
	const struct hd_option_errors *errors
) {
	const struct reader reader = {program, errors, values};
	struct option names[HD_OPTIONS_MAX + 1];
	char letters[2 * HD_OPTIONS_MAX + 2];
	struct rows rows;
	int id, status = 0;

	collect(program->table, &rows);
	(void)prepare(program, &rows, names, letters);
	while (status == 0 && (id = getopt_long(argc, argv, letters, names, NULL)) != -1) {
		const struct row *row = id == '?' ? NULL : find(&rows, id);

		/* getopt has printed the error */
		status = row ? take(&reader, row, optarg) : EX_USAGE;
	}
	if (status != 0)
		return status;
	if (optind < argc && !program->arguments)
		return refuse(&reader, "'%s': takes no arguments", argv[optind]);
	return check(&reader, &rows);
}

/* --- help ------------------------------------------------------------------------------------ */

static void print_words(const char *words, int column) {
	const char *end;

	for (; (end = strchr(words, '\n')); words = end + 1)
		(void)printf("%.*s\n%*s", (int)(end - words), words, column, "");
	(void)puts(words);
}

void hd_options_print_help(const struct hd_option_program *program) {
	const int column = program->column > 0 ? (int)program->column : COLUMN;
	struct rows rows;

	collect(program->table, &rows);
	(void)fputs(program->usage, stdout);
	for (int i = 0; i < rows.count; i++) {
		const struct hd_option *o = rows.row[i].option;
		int at;

		if (o->kind == HD_OPTION_IS_NOTE)
			(void)puts(o->help);
		if (!o->help || !o->name)
			continue;
		at = o->letter ? printf("  -%c, --%s", o->letter, o->name) :
				 printf("  --%s", o->name);
		at += o->value ? printf(" %s", o->value) : 0;
		(void)printf("%*s", at < column ? column - at : 2, "");
		print_words(o->help, column);
	}
	(void)fputs(program->after ? program->after : "", stdout);
}
