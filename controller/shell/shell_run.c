/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the commands. */
#include "hd_udp.h"
#include "heddlectl.h"
#include "shell_shapes.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define DATAPLANE "dataplane"
#define STALE_NS (2 * HD_SECOND) /* after a longer time, two answers of the nodes are waited for, */
#define TWO_ANSWERS_NS (HD_POLL_INTERVAL_US * HD_US + 150 * HD_MS) /* which are this far apart */

int shell_error(int code, const char *format, ...) {
	va_list args;

	(void)fflush(stdout);
	(void)fputs("heddlectl: ", stderr);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fputc('\n', stderr);
	return code;
}

/* words[from..) with spaces between. */
static int
join_words(const char *field, int from, int count, char **words, char *to, size_t capacity) {
	size_t bytes = 0;

	to[0] = '\0';
	for (int i = from; i < count; i++) {
		size_t length = strlen(words[i]);

		if (bytes + length + 2 > capacity)
			return shell_error(
				EX_USAGE, "%s: too long (%zu bytes)", field, capacity - 1
			);
		if (bytes)
			to[bytes++] = ' ';
		memcpy(to + bytes, words[i], length + 1);
		bytes += length;
	}
	return 0;
}

static int flush(void) {
	return fflush(stdout) ? shell_error(EX_IOERR, "stdout: %s", strerror(errno)) : 0;
}

/* --- show and watch --- */

static int join_filter(int from, int count, char **words, char filter[HD_TEXT_BYTES_MAX + 1]) {
	/* Reserved for the next page. */
	for (int i = from; i < count; i++)
		if (strncmp(words[i], "from=", 5) == 0)
			return shell_error(
				EX_USAGE, "filter: '%s': the table has no such field", words[i]
			);
	return join_words("filter", from, count, words, filter, HD_TEXT_BYTES_MAX - 15);
}

/* The controller polls nodes for their counters while an operator looks, and rates need two answers. */
static int
fetch(struct shell_context *context,
      struct shell *shell,
      const char *table,
      const char *filter,
      json_t **document,
      char error[HD_TEXT_BYTES_MAX + 64]) {
	bool asks = strncmp(table, DATAPLANE, sizeof DATAPLANE - 1) == 0;
	hd_ns now = hd_udp_now();
	int status;

	if (asks && (context->looked_at == 0 || now - context->looked_at > STALE_NS)) {
		status = shell_fetch(shell, table, filter, document, error, HD_TEXT_BYTES_MAX + 64);
		if (status)
			return status;
		json_decref(*document);
		*document = NULL;
		shell_idle(shell, hd_udp_now() + TWO_ANSWERS_NS);
	}
	status = shell_fetch(shell, table, filter, document, error, HD_TEXT_BYTES_MAX + 64);
	if (asks && !status)
		context->looked_at = hd_udp_now();
	return status;
}

/* before: the last printed table, or NULL; it is replaced with this one. */
static int print_table(
	struct shell_context *context,
	struct shell *shell,
	const char *table,
	const char *filter,
	const char *view,
	json_t **before
) {
	char error[HD_TEXT_BYTES_MAX + 64] = "";
	json_t *document = NULL;
	bool none;
	int status = fetch(context, shell, table, filter, &document, error);

	if (status && shell_interrupted())
		return 0;
	if (status)
		return shell_error(
			status,
			"%s %s: %s",
			context->of_server ? "server" : "controller",
			context->controller,
			error
		);
	none = filter[0] && json_array_size(json_object_get(document, "rows")) == 0;
	if (context->json) {
		(void)json_dumpf(document, stdout, JSON_INDENT(2));
		(void)fputc('\n', stdout);
		if (none) /* not in the document: it stays one document */
			(void)shell_error(0, "no %s that fit '%s'", table, filter);
	} else if (none) {
		(void)printf("no %s that fit '%s'\n", table, filter);
	} else {
		shell_print(document, *before, view, context->wide);
	}
	json_decref(*before);
	*before = document;
	return flush();
}

static int
show(struct shell_context *context,
     const char *table,
     int from,
     int count,
     char **words,
     const char *view) {
	char filter[HD_TEXT_BYTES_MAX + 1] = "";
	json_t *printed = NULL;
	struct shell *shell;
	int status;

	status = join_filter(from, count, words, filter);
	if (!status)
		status = shell_open(context, &shell);
	if (!status) {
		status = print_table(context, shell, table, filter, view, &printed);
		shell_close(shell);
	}
	json_decref(printed);
	return status;
}

int shell_run_show(struct shell_context *context, int count, char **words) {
	return show(context, words[1], 2, count, words, NULL);
}

/* show dataplane by WORD, watch dataplane by WORD */
static const char *table_by(const char *word) {
	if (strcmp(word, "host") == 0)
		return DATAPLANE "-hosts";
	return strcmp(word, "job") == 0 ? DATAPLANE "-jobs" : DATAPLANE "-links";
}

int shell_run_show_by(struct shell_context *context, int count, char **words) {
	return show(context, table_by(words[3]), 4, count, words, NULL);
}

int shell_run_elastic_show(struct shell_context *context, int count, char **words) {
	return show(context, words[0], 2, count, words, NULL);
}

int shell_run_why(struct shell_context *context, int count, char **words) {
	return show(context, words[1], 3, count, words, "plan-why");
}

/* Ctrl-C ends `watch`, not the shell. A handler has no argument, so this is global. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
	interrupted = number;
}

bool shell_interrupted(void) {
	return interrupted != 0;
}

static int
watch(struct shell_context *context, struct shell *shell, const char *table, const char *filter) {
	bool clear = !context->json && isatty(STDOUT_FILENO);
	json_t *before = NULL;
	int status = 0;

	for (long i = 0; !status && !interrupted && (!context->count || i < context->count); i++) {
		hd_ns next = hd_udp_now() + (hd_ns)(context->interval_s * 1e9);

		if (clear)
			(void
			)printf("\033[H\033[2Jevery %g s: %s %s\n",
				context->interval_s,
				table,
				filter);
		else if (i && !context->json)
			(void)printf("\n");
		status = print_table(context, shell, table, filter, NULL, &before);
		/* The first read of the dataplane takes longer. */
		if (next < hd_udp_now())
			next = hd_udp_now() + (hd_ns)(context->interval_s * 1e9);
		if (!status && (!context->count || i + 1 < context->count))
			shell_idle(shell, next);
	}
	json_decref(before);
	return status;
}

static int
run_watch(struct shell_context *context, const char *table, int from, int count, char **words) {
	struct sigaction catch = {.sa_handler = on_interrupt}, before;
	char filter[HD_TEXT_BYTES_MAX + 1] = "";
	struct shell *shell;
	int status;

	status = join_filter(from, count, words, filter);
	if (!status)
		status = shell_open(context, &shell);
	if (status)
		return status;
	interrupted = 0;
	(void)sigaction(SIGINT, &catch, &before);
	status = watch(context, shell, table, filter);
	(void)sigaction(SIGINT, &before, NULL);
	interrupted = 0;
	shell_close(shell);
	return status;
}

int shell_run_watch(struct shell_context *context, int count, char **words) {
	return run_watch(context, words[1], 2, count, words);
}

int shell_run_watch_by(struct shell_context *context, int count, char **words) {
	return run_watch(context, table_by(words[3]), 4, count, words);
}

/* --- steering --- */

static int copy_word(const char *field, const char *word, char *to, size_t capacity) {
	if (strlen(word) >= capacity)
		return shell_error(EX_USAGE, "%s: too long (%zu bytes)", field, capacity - 1);
	memcpy(to, word, strlen(word) + 1);
	return 0;
}

static void print_done(const struct shell_context *context, const struct hd_msg_done *done) {
	json_t *document;

	if (!context->json) {
		(void)printf("%s\n", done->text);
		return;
	}
	document = json_object();
	shell_json_put(
		document,
		shell_done_shape.head,
		&(struct done_head){.done = true, .affected = done->affected, .text = done->text}
	);
	(void)json_dumpf(document, stdout, JSON_INDENT(2));
	(void)fputc('\n', stdout);
	json_decref(document);
}

static int send_command(struct shell_context *context, struct hd_msg_command *command) {
	char error[HD_TEXT_BYTES_MAX + 64] = "";
	struct hd_msg_done done;
	struct shell *shell;
	int status = shell_open(context, &shell);

	if (status)
		return status;
	command->request = 1;
	status = shell_command(shell, command, &done, error, sizeof error);
	shell_close(shell);
	if (status && shell_interrupted())
		return 0;
	if (status)
		return shell_error(
			status,
			"%s %s: %s",
			context->of_server ? "server" : "controller",
			context->controller,
			error
		);
	if (done.reason != HD_REASON_NONE)
		return shell_error(EX_DATAERR, "%s", done.text);
	print_done(context, &done);
	return flush();
}

static uint8_t verb_of(const char *word) {
	for (unsigned verb = 1; verb < HD_VERB_COUNT; verb++)
		if (strcmp(hd_verb_name((uint8_t)verb), word) == 0)
			return (uint8_t)verb;
	return HD_VERB_NONE;
}

/* verb object [target [value]] */
int shell_run_verb(struct shell_context *context, int count, char **words) {
	struct hd_msg_command command = {.verb = verb_of(words[0])};

	if (copy_word("object", words[1], command.object, sizeof command.object)
	    || (count > 2 && copy_word(words[1], words[2], command.target, sizeof command.target))
	    || (count > 3 && copy_word("value", words[3], command.value, sizeof command.value)))
		return EX_USAGE;
	return send_command(context, &command);
}

/* elastic set JOB key=value... */
int shell_run_elastic_set(struct shell_context *context, int count, char **words) {
	struct hd_msg_command command = {.verb = HD_VERB_ELASTIC, .object = "set"};

	if (count < 4)
		return shell_error(
			EX_USAGE, "elastic set: key=value is missing (policy=manual n=4)"
		);
	if (copy_word("job", words[2], command.target, sizeof command.target)
	    || join_words("words", 3, count, words, command.value, sizeof command.value))
		return EX_USAGE;
	return send_command(context, &command);
}

int shell_run_set_job(struct shell_context *context, int count, char **words) {
	return shell_run_verb(context, count, words);
}

int shell_run_set(struct shell_context *context, int count, char **words) {
	struct hd_msg_command command = {.verb = HD_VERB_SET};

	(void)count;
	if (copy_word("setting", words[1], command.object, sizeof command.object)
	    || copy_word("value", words[2], command.value, sizeof command.value))
		return EX_USAGE;
	return send_command(context, &command);
}

/* --- the rest --- */

int shell_run_help(struct shell_context *context, int count, char **words) {
	(void)context;
	(void)count;
	(void)words;
	shell_help(stdout);
	return flush();
}

int shell_run_exit(struct shell_context *context, int count, char **words) {
	(void)context;
	(void)count;
	(void)words;
	return SHELL_EXIT;
}
