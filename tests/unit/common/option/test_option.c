/* SPDX-License-Identifier: BSD-3-Clause */
/* Options from a table: values and limits, what is missing, tables in tables, errors and --help. */
#include "hd_limits.h"
#include "hd_option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

struct inner {
	const char *color;
	bool bright;
};

struct values {
	const char *file, *name;
	double share;
	float part;
	uint32_t small;
	uint64_t large, memory;
	char first;
	bool asked, loud;
	struct inner inner;
};

static int take_first(void *values, const char *text) {
	if (!*text)
		return EX_DATAERR;
	((struct values *)values)->first = *text;
	return 0;
}

/* As --version: what follows is not read. */
static int take_asked(void *values, const char *text) {
	assert_null(text);
	((struct values *)values)->asked = true;
	return -1;
}

static const struct hd_option inner_table[] = {
	HD_OPTION_TEXT("color", "NAME", struct inner, color, "of the thing"),
	HD_OPTION_FLAG("bright", struct inner, bright, "makes it so"),
	HD_OPTION_END,
};

static const struct hd_option table[] = {
	HD_OPTION_NEEDED("file", "FILE", struct values, file, "what\nand why"),
	HD_OPTION_NAME("name", struct values, name, NULL),
	HD_OPTION_REAL("share", "X", struct values, share, 0.25, 1, "of it"),
	HD_OPTION_FLOAT("part", "X", struct values, part, 0, 1, NULL),
	HD_OPTION_U32("small", "N", struct values, small, 2, UINT32_MAX, "few"),
	HD_OPTION_U64("large-number", "N", struct values, large, 0, UINT64_MAX, "many"),
	HD_OPTION_BYTES("memory", struct values, memory, 4096, "K, M, G"),
	{.kind = HD_OPTION_IS_TAKEN,
	 .letter = 'f',
	 .name = "first",
	 .value = "C",
	 .take = take_first},
	HD_OPTION_TAKE("ask", NULL, take_asked, NULL),
	{
		.kind = HD_OPTION_IS_FLAG,
		.letter = 'l',
		.name = "loud",
		.help = "and -l",
		.at = offsetof(struct values, loud),
	},
	HD_OPTION_TABLE(inner_table, struct values, inner),
	HD_OPTION_NOTE("  by the way"),
	HD_OPTION_HELP,
	HD_OPTION_END,
};

struct reported {
	char sentence[HD_OPTION_ERROR_BYTES];
	int times;
};

static int tell(void *owner, int code, const char *sentence) {
	struct reported *reported = owner;

	(void)snprintf(reported->sentence, sizeof reported->sentence, "%s", sentence);
	reported->times++;
	return code;
}

/* Reads up to seven words; NULL ends them. */
static int read_words(
	const struct hd_option_program *program,
	struct values *values,
	struct reported *reported,
	const char *const words[7]
) {
	const struct hd_option_errors errors = {tell, reported};
	static char text[8][128] = {"prog"}; /* values point into it */
	char *argv[9] = {text[0]};
	int argc = 1;

	for (int i = 0; i < 7 && words[i]; i++) {
		(void)snprintf(text[argc], sizeof text[argc], "%s", words[i]);
		argv[argc] = text[argc];
		argc++;
	}
	*values = (struct values){.name = "mine", .small = 7};
	*reported = (struct reported){.times = 0};
	optind = 0; /* getopt starts again */
	return hd_options_read(program, argc, argv, values, &errors);
}

#define WORDS(...) ((const char *const[7]){__VA_ARGS__})
static const struct hd_option_program plain = {.name = "prog", .usage = "usage\n", .table = table};

static void test_values(void **state) {
	struct values v;
	struct reported reported;

	(void)state;
	assert_int_equal(read_words(&plain, &v, &reported, WORDS("--file", "a")), 0);
	assert_string_equal(v.file, "a");
	assert_string_equal(v.name, "mine");
	assert_int_equal(v.small, 7);
	assert_false(v.inner.bright);
	assert_int_equal(
		read_words(
			&plain,
			&v,
			&reported,
			WORDS("--file=a",
			      "--share=0.5",
			      "--small=4294967295",
			      "--large=18446744073709551615",
			      "--memory=2K",
			      "--color=red",
			      "--bright")
		),
		0
	);
	assert_true(v.share == 0.5 && v.small == UINT32_MAX && v.large == UINT64_MAX);
	assert_int_equal(v.memory, 2048);
	assert_string_equal(v.inner.color, "red");
	assert_true(v.inner.bright);
	assert_int_equal(
		read_words(&plain, &v, &reported, WORDS("--file", "a", "-f", "xyz", "--part=0.5")),
		0
	);
	assert_true(v.part == 0.5f);
	assert_int_equal(v.first, 'x');
	assert_false(v.loud);
	/* Letters stand together, and the last one's value behind it. */
	assert_int_equal(read_words(&plain, &v, &reported, WORDS("--file", "a", "-lfxyz")), 0);
	assert_true(v.loud);
	assert_int_equal(v.first, 'x');
	assert_int_equal(read_words(&plain, &v, &reported, WORDS("--ask", "--small=1")), -1);
	assert_true(v.asked);
	assert_int_equal(reported.times, 0);
}

static void test_errors(void **state) {
	static const struct {
		const char *word, *sentence;
	} cases[] = {
		{"--share=0.2", "--share: '0.2' (a number from 0.25 to 1)"},
		{"--share=nan", "--share: 'nan' (a number from 0.25 to 1)"},
		{"--share=", "--share: '' (a number from 0.25 to 1)"},
		{"--small=1", "--small: '1' (a whole number from 2 to 4294967295)"},
		{"--small=4294967296",
		 "--small: '4294967296' (a whole number from 2 to 4294967295)"},
		{"--small=-1", "--small: '-1' (a whole number from 2 to 4294967295)"},
		{"--small=2x", "--small: '2x' (a whole number from 2 to 4294967295)"},
		{"--memory=5K", "--memory: '5K' (a whole number from 1 to 4096)"},
		{"--name=", "--name: '' (1 to 64 bytes)"},
		{"more", "'more': takes no arguments"},
		{"--color=red", "--file: missing"},
	};
	struct values v;
	struct reported reported;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		bool missing = strstr(cases[i].sentence, "missing") != NULL;

		assert_int_equal(
			read_words(
				&plain,
				&v,
				&reported,
				WORDS(cases[i].word, missing ? NULL : "--file=a")
			),
			EX_USAGE
		);
		assert_string_equal(reported.sentence, cases[i].sentence);
		assert_int_equal(reported.times, 1);
		assert_int_equal(v.small, 7);
	}
	/* An option with a wrong value has its own exit code; getopt reports its own errors. */
	assert_int_equal(read_words(&plain, &v, &reported, WORDS("--first=")), EX_DATAERR);
	assert_int_equal(read_words(&plain, &v, &reported, WORDS("--nothing")), EX_USAGE);
	assert_int_equal(read_words(&plain, &v, &reported, WORDS("--file")), EX_USAGE);
	assert_int_equal(reported.times, 0);
}

static void test_arguments(void **state) {
	struct hd_option_program program = plain;
	struct values v;
	struct reported reported;

	(void)state;
	program.arguments = true;
	assert_int_equal(read_words(&program, &v, &reported, WORDS("one", "--file=a", "two")), 0);
	assert_int_equal(optind, 2); /* one and two lie behind what getopt knows */
	program.stops = true;
	assert_int_equal(
		read_words(&program, &v, &reported, WORDS("--file=a", "one", "--small=1")), 0
	);
	assert_int_equal(optind, 2);
}

static void test_help(void **state) {
	static const char wanted[] = "usage\n"
				     "  --file FILE  what\n"
				     "               and why\n"
				     "  --share X    of it\n"
				     "  --small N    few\n"
				     "  --large-number N  many\n"
				     "  --memory BYTES  K, M, G\n"
				     "  -l, --loud   and -l\n"
				     "  --color NAME of the thing\n"
				     "  --bright     makes it so\n"
				     "  by the way\n"
				     "  --help       this text\n"
				     "  --version    which version this is\n"
				     "the end\n";
	struct hd_option_program program = plain;
	char text[1024] = "";
	struct values v;
	struct reported reported;
	int fds[2], kept;
	ssize_t bytes;

	(void)state;
	program.column = 15;
	program.after = "the end\n";
	assert_int_equal(pipe(fds), 0);
	(void)fflush(stdout);
	kept = dup(STDOUT_FILENO);
	(void)dup2(fds[1], STDOUT_FILENO);
	assert_int_equal(read_words(&program, &v, &reported, WORDS("--version")), -1);
	assert_int_equal(read_words(&program, &v, &reported, WORDS("--help", "--small=1")), -1);
	(void)fflush(stdout);
	(void)dup2(kept, STDOUT_FILENO);
	bytes = read(fds[0], text, sizeof text - 1);
	assert_true(bytes > 0);
	assert_int_equal(strncmp(text, "prog ", 5), 0);
	assert_true(strspn(text + 5, "0123456789.") > 0);
	assert_int_equal(strspn(text + 5, "0123456789."), strcspn(text + 5, "\n"));
	assert_string_equal(strchr(text, '\n') + 1, wanted);
	(void)close(kept);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_help),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
