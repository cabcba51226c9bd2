/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-plan: reads a planning problem, prints the controller's plan for it. */
#include "hd_limits.h"
#include "hd_option.h"
#include "hd_problem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

struct options {
	bool table;
};

static const struct hd_option option_table[] = {
	{
		.kind = HD_OPTION_IS_FLAG,
		.letter = 't',
		.name = "table",
		.help = "print tables instead of JSON",
		.at = offsetof(struct options, table),
	},
	{.kind = HD_OPTION_IS_HELP, .letter = 'h', .name = "help", .help = "print this"},
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = "heddle-plan",
	.usage
	= "usage: heddle-plan [--table] [FILE]\n"
	  "Plans the updates of one planning problem (JSON, from FILE or standard input) as the controller\n"
	  "would, and prints the plan as JSON: the order with start, finish and commit times, the\n"
	  "groups that go over an aggregator, the drops with their reasons. docs/schedule.md describes both formats.\n"
	  "\n",
	.table = option_table,
	.column = 15,
	.arguments = true,
};

/* The whole file as a string; NULL with *status set and the reason printed. */
static char *read_all(const char *path, int *status) {
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	const char *const name = file == stdin ? "standard input" : path;
	const size_t room = HD_CONFIG_BYTES_MAX + 1;

	if (!file) {
		(void)fprintf(stderr, "heddle-plan: %s: %s\n", path, strerror(errno));
		*status = EX_NOINPUT;
		return NULL;
	}
	char *text = malloc(room + 1);
	const size_t bytes = !text ? 0 : fread(text, 1, room, file);
	const bool broken = ferror(file) != 0;
	if (file != stdin)
		(void)fclose(file);
	*status = EX_DATAERR;
	if (!text || broken) {
		(void)fprintf(stderr, "heddle-plan: %s: cannot be read\n", name);
		*status = !text ? EX_OSERR : EX_IOERR;
	} else if (bytes == room)
		(void)fprintf(
			stderr,
			"heddle-plan: %s: more than %u bytes (HD_CONFIG_BYTES_MAX)\n",
			name,
			HD_CONFIG_BYTES_MAX
		);
	else if (memchr(text, 0, bytes))
		(void)fprintf(stderr, "heddle-plan: %s: a NUL byte: this is no JSON\n", name);
	else {
		text[bytes] = 0;
		return text;
	}
	free(text);
	return NULL;
}

/* An id or a link's name as text, valid as long as `bytes`. */
static const char *text_of(const json_t *value, char *bytes, size_t room) {
	if (json_is_string(value))
		return json_string_value(value);
	if (json_is_integer(value))
		(void)snprintf(bytes, room, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else
		(void)snprintf(bytes, room, "-");
	return bytes;
}

static double number_of(const json_t *object, const char *key) {
	return json_number_value(json_object_get(object, key));
}

static void print_groups(const json_t *groups) {
	const json_t *row, *id;
	char a[32];
	size_t i, k;

	(void
	)printf("\n%-8s %-16s %12s %12s %12s %12s %12s  %s\n",
		"GROUP",
		"AGGREGATOR",
		"COLLECTED",
		"START",
		"FINISH",
		"COMMIT",
		"DIRECT",
		"MEMBERS");
	json_array_foreach(groups, i, row) {
		const json_t *why = json_object_get(row, "why");

		(void
		)printf("%-8zu %-16s %12.6g %12.6g %12.6g %12.6g %12.6g ",
			i + 1,
			json_string_value(json_object_get(row, "aggregator")),
			number_of(why, "collected"),
			number_of(row, "start"),
			number_of(row, "finish"),
			number_of(row, "commit"),
			number_of(why, "direct"));
		json_array_foreach(json_object_get(row, "members"), k, id)(void)
			printf(" %s", text_of(id, a, sizeof a));
		(void)printf("\n");
	}
}

static void print_table(const json_t *plan) {
	const json_t *order = json_object_get(plan, "order"),
		     *drops = json_object_get(plan, "drops"),
		     *groups = json_object_get(plan, "groups");
	char a[32], b[32], c[32];
	const json_t *row;
	size_t i;

	(void
	)printf("%-16s %8s %12s %12s %12s  %-10s %-16s %s\n",
		"ID",
		"POSITION",
		"START",
		"FINISH",
		"COMMIT",
		"RULE",
		"RUNNER-UP",
		"BOTTLENECK");
	json_array_foreach(order, i, row) {
		const json_t *why = json_object_get(row, "why");

		(void
		)printf("%-16s %8s %12.6g %12.6g %12.6g  %-10s %-16s ",
			text_of(json_object_get(row, "id"), a, sizeof a),
			text_of(json_object_get(row, "position"), b, sizeof b),
			number_of(row, "start"),
			number_of(row, "finish"),
			number_of(row, "commit"),
			json_string_value(json_object_get(row, "rule")),
			text_of(json_object_get(why, "runner_up"), c, sizeof c));
		(void)printf("%s\n", text_of(json_object_get(row, "bottleneck"), a, sizeof a));
	}
	if (json_array_size(groups) > 0)
		print_groups(groups);
	if (json_array_size(drops) > 0)
		(void
		)printf("\n%-16s %-8s %12s %8s %8s\n",
			"DROPPED",
			"REASON",
			"FINISH",
			"DEADLINE",
			"SLACK");
	json_array_foreach(drops, i, row) {
		const json_t *why = json_object_get(row, "why");

		(void
		)printf("%-16s %-8s %12.6g %8.0f %8.0f\n",
			text_of(json_object_get(row, "id"), a, sizeof a),
			json_string_value(json_object_get(row, "reason")),
			number_of(why, "finish"),
			number_of(why, "deadline"),
			number_of(why, "slack"));
	}
}

/* Forms groups with the problem's aggregators; NULL in *used without aggregators. 0, -errno. */
static int run_groups(
	const struct hd_problem *problem,
	const struct hd_plan_entry *entries,
	uint32_t count,
	struct hd_plan_grouper *grouper,
	struct hd_plan_grouped *grouped,
	const struct hd_plan_grouped **used
) {
	struct hd_plan_group_input input;

	*used = NULL;
	if (!hd_problem_group_input(problem, entries, count, &input))
		return 0;
	*used = grouped;
	return hd_plan_group_run(grouper, &input, grouped);
}

static int print_plan(
	const struct hd_problem *problem,
	struct hd_plan *plan,
	struct hd_plan_grouper *grouper,
	bool table
) {
	const struct hd_plan_entry *entries;
	const char *error = "out of memory";
	struct hd_plan_grouped grouped;
	const struct hd_plan_grouped *used;
	uint32_t count;
	int rc = hd_plan_run(plan, hd_problem_input(problem), &entries, &count, &error);
	json_t *json = NULL;

	if (rc == 0)
		rc = run_groups(problem, entries, count, grouper, &grouped, &used);
	if (rc == 0)
		json = hd_problem_plan(problem, entries, count, used);
	if (!json) {
		(void)fprintf(stderr, "heddle-plan: %s\n", error);
		return rc == -EINVAL ? EX_DATAERR : EX_OSERR;
	}
	if (table)
		print_table(json);
	else if (json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) == 0)
		(void)printf("\n");
	json_decref(json);
	if (fflush(stdout) != 0 || ferror(stdout) != 0) {
		(void)fprintf(stderr, "heddle-plan: standard output: cannot be written\n");
		return EX_IOERR;
	}
	return EX_OK;
}

static int plan_file(const char *path, bool table) {
	char error[512] = "out of memory";
	struct hd_problem *problem;
	struct hd_plan_grouper *grouper = NULL;
	struct hd_plan *plan = NULL;
	int status;
	char *text = read_all(path, &status);

	if (!text)
		return status;
	const int rc = hd_problem_parse(text, &problem, error, sizeof error);
	free(text);
	if (rc < 0) {
		(void)fprintf(
			stderr,
			"heddle-plan: %s: %s\n",
			strcmp(path, "-") == 0 ? "standard input" : path,
			error
		);
		return rc == -EINVAL ? EX_DATAERR : EX_OSERR;
	}
	if (hd_plan_create(&plan) < 0 || hd_plan_grouper_create(&grouper) < 0) {
		(void)fprintf(stderr, "heddle-plan: out of memory\n");
		status = EX_OSERR;
	} else {
		status = print_plan(problem, plan, grouper, table);
	}
	hd_plan_destroy(plan);
	hd_plan_grouper_destroy(grouper);
	hd_problem_destroy(problem);
	return status;
}

int main(int argc, char **argv) {
	struct options options = {0};
	int status = hd_options_read(&command_line, argc, argv, &options, NULL);

	if (status < 0)
		return EX_OK;
	if (status == 0 && argc - optind > 1) {
		(void)fprintf(stderr, "heddle-plan: '%s': takes one FILE\n", argv[optind + 1]);
		status = EX_USAGE;
	}
	if (status > 0) {
		(void)fputs("Try 'heddle-plan --help'.\n", stderr);
		return status;
	}
	return plan_file(optind < argc ? argv[optind] : "-", options.table);
}
