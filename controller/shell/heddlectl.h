/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to heddlectl.
 *
 *   heddlectl.c     options; one command, or the interactive shell
 *   shell_words.c   the grammar: possible next words, their meaning, abbreviations, help
 *   shell_run.c     carries a command out
 *   shell_fetch.c   one session with the controller: tables and commands
 *   shell_server.c  the address of a named node
 *   shell_print.c   aligned columns
 *   shell_line.c    line editing, history, completion (libedit)
 *   shell_shapes.c  the JSON formats of the shell itself
 *   shell_plan.c    elastic plan and fit, which need no controller; shell_plan_print.c prints the results
 *   shell_check.c   checks of this host; they are in shell_check_*.c
 */
#ifndef HEDDLECTL_H
#define HEDDLECTL_H

#include "hd_keys.h"
#include "hd_message.h"
#include "hd_types.h"

#include <jansson.h>
#include <stdio.h>

#define SHELL_WORDS_MAX 32

/* The values of the options. */
struct shell_context {
	const char *controller; /* ADDR[:PORT] */
	const char *controller_from; /* the option or variable that set it */
	bool of_server; /* --server: `controller` is its address */
	const char *server; /* ADDR[:PORT], or a name that the controller knows */
	char server_address[32];
	const char *key_file, *key_file_from;
	struct hd_keyring keys;
	bool keys_read;
	hd_ns timeout; /* for an answer to begin, and between its pages */
	bool json, wide, help;
	double interval_s; /* of watch */
	long count; /* of watch; 0: until interrupted */
	bool interactive;
	hd_ns looked_at; /* when a table of the dataplane was last read; 0: never */
};

/* Prints `heddlectl: ...` and returns the code. */
__attribute__((format(printf, 2, 3))) int shell_error(int code, const char *format, ...);

/* --- shell_fetch.c --- */
struct shell;
/* Reads the keys if needed, and begins a session without waiting. 0 or a sysexits code (reported). */
int shell_open(struct shell_context *context, struct shell **shell);
void shell_close(struct shell *shell);
/* Fetches every page. 0 with *document ({table, at_s, epoch, rows, total}; the caller's), or a sysexits code with a
 * text in error. */
int shell_fetch(
	struct shell *shell,
	const char *table,
	const char *filter,
	json_t **document,
	char *error,
	size_t error_bytes
);
/* Sends a command and waits for the answer. 0 with *done (which may be a refusal), or a sysexits code. */
int shell_command(
	struct shell *shell,
	const struct hd_msg_command *command,
	struct hd_msg_done *done,
	char *error,
	size_t error_bytes
);
/* Keeps the session alive until then, or until Ctrl-C. */
void shell_idle(struct shell *shell, hd_ns until);

/* --- shell_server.c --- */
/* Sets context->controller to the address of context->server. 0 or a sysexits code (reported). */
int shell_find_server(struct shell_context *context);

/* --- shell_words.c --- */
struct shell_form {
	const char *words; /* literals in lower case; JOB HOST RANK VALUE TABLE, [FILTER...] */
	const char *help;
	int (*run)(struct shell_context *context, int count, char **words);
};
extern const struct shell_form shell_forms[];
extern const size_t shell_form_count;
/* Finds the command and runs it; literals may be abbreviated. A sysexits code. */
int shell_do(struct shell_context *context, int count, char **words);
/* Calls add for each possible word at words[count], given the words before it: a literal with its help, or a
 * placeholder in upper case. */
void shell_next(
	int count,
	char **words,
	void (*add)(void *owner, const char *word, const char *help),
	void *owner
);
/* The commands, one a line. */
void shell_help(FILE *file);

/* --- shell_run.c --- */
int shell_run_show(struct shell_context *context, int count, char **words);
int shell_run_why(struct shell_context *context, int count, char **words);
int shell_run_watch(struct shell_context *context, int count, char **words);
int shell_run_show_by(struct shell_context *context, int count, char **words);
int shell_run_watch_by(struct shell_context *context, int count, char **words);
int shell_run_set(struct shell_context *context, int count, char **words);
int shell_run_set_job(struct shell_context *context, int count, char **words);
int shell_run_verb(struct shell_context *context, int count, char **words);
int shell_run_elastic_show(struct shell_context *context, int count, char **words);
int shell_run_elastic_set(struct shell_context *context, int count, char **words);
int shell_run_check(struct shell_context *context, int count, char **words);
int shell_run_help(struct shell_context *context, int count, char **words);
bool shell_interrupted(void); /* Ctrl-C was pressed during a watch */
int shell_run_exit(struct shell_context *context, int count, char **words);
#define SHELL_EXIT (-1) /* from shell_do(): leave the interactive shell */

/* --- shell_plan.c --- */
int shell_run_elastic_plan(struct shell_context *context, int count, char **words);
int shell_run_elastic_fit(struct shell_context *context, int count, char **words);
void shell_plan_help(FILE *file);

/* --- shell_line.c --- */
/* Reads commands until the end of input or `exit`. A sysexits code: of the last command when the input
 * is no terminal. */
int shell_interact(struct shell_context *context);

/* --- shell_print.c --- */
/* Aligned columns: the default ones of the table, or all; `view` (may be NULL) names other default ones. Whole numbers
 * that differ from the row in the table before (NULL: there is none) are followed by the difference. */
void shell_print(const json_t *document, const json_t *before, const char *view, bool wide);
/* The default columns of a table, or of another view of it, TABLE-VIEW; separated by spaces. NULL after the last. */
const char *shell_usual(size_t index, const char **table);

#endif
