/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interactive shell, on libedit: history in ~/.heddlectl_history, completion with the tab key, `?` for the possible
 * words. Names of jobs, hosts and tables are completed from the controller's tables. Input that is no terminal is read
 * line by line, so that commands can be piped in.
 */
#include "heddlectl.h"

#include <histedit.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define HISTORY_LINES 1000
#define LINE_BYTES_MAX 4096
#define CANDIDATES_MAX 256
#define COMPLETION_TIMEOUT (300 * HD_MS)

struct line {
	struct shell_context *context;
	EditLine *edit;
	History *history;
	char history_file[1024];
	int code; /* of the last command */
};

/* --- words of a line --- */

/* Cuts text (changed) at spaces; quotes keep words together. Returns the count, -1 beyond the limit. */
static int split(char *text, char **words) {
	int count = 0;

	for (;;) {
		char *to, quote = 0;

		text += strspn(text, " \t\r\n");
		if (!*text || *text == '#')
			return count;
		if (count == SHELL_WORDS_MAX)
			return -1;
		words[count++] = to = text;
		for (; *text && (quote || !strchr(" \t\r\n", *text)); text++)
			if (!quote && (*text == '"' || *text == '\''))
				quote = *text;
			else if (quote && *text == quote)
				quote = 0;
			else
				*to++ = *text;
		if (*text)
			text++;
		*to = '\0';
	}
}

/* --- possible next words --- */

struct candidate {
	char word[HD_NAME_BYTES_MAX + 1];
	char help[128];
	bool literal;
};

struct candidates {
	struct shell_context *context;
	char typed[HD_TEXT_BYTES_MAX]; /* beginning of the word at the cursor */
	int count;
	struct candidate item[CANDIDATES_MAX];
};

static void add_candidate(struct candidates *c, const char *word, const char *help, bool literal) {
	struct candidate *item;

	if (c->count == CANDIDATES_MAX || strlen(word) >= sizeof item->word)
		return;
	if (literal && strncmp(word, c->typed, strlen(c->typed)) != 0)
		return;
	for (int i = 0; i < c->count; i++)
		if (strcmp(c->item[i].word, word) == 0)
			return;
	item = &c->item[c->count++];
	(void)snprintf(item->word, sizeof item->word, "%s", word);
	(void)snprintf(item->help, sizeof item->help, "%s", help);
	item->literal = literal;
}

/* Values of a field of a table, when the controller answers soon enough. */
static void add_names(struct candidates *c, const char *table, const char *field) {
	struct shell_context context = *c->context;
	json_t *document = NULL;
	struct shell *shell;
	char error[600];
	size_t index;
	json_t *row;

	if (!context.key_file || !context.key_file[0])
		return;
	context.timeout = COMPLETION_TIMEOUT;
	if (shell_open(&context, &shell))
		return;
	c->context->keys = context.keys;
	c->context->keys_read = context.keys_read;
	if (shell_fetch(shell, table, "", &document, error, sizeof error) == 0) {
		json_array_foreach(json_object_get(document, "rows"), index, row) {
			const char *name = json_string_value(json_object_get(row, field));

			if (name && name[0])
				add_candidate(c, name, "", true);
		}
	}
	json_decref(document);
	shell_close(shell);
}

static void add_tables(struct candidates *c) {
	for (size_t f = 0; f < shell_form_count; f++) {
		const char *words = shell_forms[f].words;
		char table[32];
		size_t bytes;

		if (strncmp(words, "show ", 5) != 0 || strncmp(words, "show plan why", 13) == 0)
			continue;
		bytes = strcspn(words + 5, " ");
		(void)snprintf(table, sizeof table, "%.*s", (int)bytes, words + 5);
		add_candidate(c, table, shell_forms[f].help, true);
	}
}

static void on_next(void *owner, const char *word, const char *help) {
	struct candidates *c = owner;

	if (strcmp(word, "JOB") == 0)
		add_names(c, "jobs", "job");
	else if (strcmp(word, "HOST") == 0)
		add_names(c, "nodes", "host");
	else if (strcmp(word, "TABLE") == 0)
		add_tables(c);
	else if (word[0] == '<' || (word[0] >= 'a' && word[0] <= 'z')) {
		add_candidate(c, word, help, word[0] != '<');
		return;
	}
	if (word[0] != '<' && !(word[0] >= 'a' && word[0] <= 'z'))
		add_candidate(c, word, help, false);
}

/* Candidates for the word at the cursor. */
static void find_candidates(struct line *line, struct candidates *c) {
	const LineInfo *info = el_line(line->edit);
	size_t bytes = (size_t)(info->cursor - info->buffer);
	char text[LINE_BYTES_MAX], *words[SHELL_WORDS_MAX];
	bool fresh;
	int count;

	c->context = line->context;
	c->count = 0;
	c->typed[0] = '\0';
	if (bytes >= sizeof text)
		return;
	memcpy(text, info->buffer, bytes);
	text[bytes] = '\0';
	fresh = bytes == 0 || strchr(" \t", text[bytes - 1]);
	count = split(text, words);
	if (count < 0 || (!fresh && count == 0))
		return;
	if (!fresh)
		(void)snprintf(c->typed, sizeof c->typed, "%s", words[--count]);
	shell_next(count, words, on_next, c);
}

static void list_candidates(const struct candidates *c) {
	(void)printf("\n");
	for (int i = 0; i < c->count; i++)
		(void)printf("  %-20s %s\n", c->item[i].word, c->item[i].help);
}

static unsigned char on_help(EditLine *edit, int key) {
	struct candidates *c = calloc(1, sizeof *c);
	struct line *line;

	(void)key;
	el_get(edit, EL_CLIENTDATA, &line);
	if (!c)
		return CC_ERROR;
	find_candidates(line, c);
	list_candidates(c);
	free(c);
	return CC_REDISPLAY;
}

/* The common prefix of all literals, beyond the typed text. */
static size_t common_bytes(const struct candidates *c) {
	const char *first = NULL;
	size_t bytes = 0;

	for (int i = 0; i < c->count; i++) {
		const char *word = c->item[i].word;
		size_t same = 0;

		if (!c->item[i].literal)
			continue;
		if (!first) {
			first = word;
			bytes = strlen(word);
			continue;
		}
		while (same < bytes && word[same] == first[same])
			same++;
		bytes = same;
	}
	return bytes;
}

static unsigned char complete_line(struct line *line, struct candidates *c) {
	size_t typed, bytes;
	int literals = 0, last = 0;
	char more[HD_NAME_BYTES_MAX + 2];

	find_candidates(line, c);
	typed = strlen(c->typed);
	for (int i = 0; i < c->count; i++)
		if (c->item[i].literal) {
			literals++;
			last = i;
		}
	bytes = common_bytes(c);
	if (literals && bytes > typed) {
		(void)snprintf(
			more,
			sizeof more,
			"%.*s%s",
			(int)(bytes - typed),
			c->item[last].word + typed,
			literals == 1 ? " " : ""
		);
		return el_insertstr(line->edit, more) ? CC_ERROR : CC_REFRESH;
	}
	if (literals == 1)
		return el_insertstr(line->edit, " ") ? CC_ERROR : CC_REFRESH;
	if (!c->count)
		return CC_ERROR;
	list_candidates(c);
	return CC_REDISPLAY;
}

static unsigned char on_tab(EditLine *edit, int key) {
	struct candidates *c = calloc(1, sizeof *c);
	unsigned char what = CC_ERROR;
	struct line *line;

	(void)key;
	el_get(edit, EL_CLIENTDATA, &line);
	if (c)
		what = complete_line(line, c);
	free(c);
	return what;
}

static const char *prompt(EditLine *edit) {
	(void)edit;
	return "heddle> ";
}

/* --- the loop --- */

/* False: exit. */
static bool run_line(struct line *line, char *text) {
	bool json = line->context->json;
	char *words[SHELL_WORDS_MAX];
	int count = split(text, words);
	int code;

	if (count == 0)
		return true;
	code = count < 0 ? shell_error(EX_USAGE, "command: more than %d words", SHELL_WORDS_MAX) :
			   shell_do(line->context, count, words);
	line->context->json = json;
	if (code == SHELL_EXIT)
		return false;
	line->code = code;
	return true;
}

static int read_plain(struct line *line) {
	char text[LINE_BYTES_MAX];

	while (fgets(text, sizeof text, stdin))
		if (!run_line(line, text))
			break;
	return line->code;
}

static int open_editor(struct line *line) {
	const char *home = getenv("HOME");
	HistEvent event;

	line->edit = el_init("heddlectl", stdin, stdout, stderr);
	line->history = history_init();
	if (!line->edit || !line->history)
		return shell_error(EX_OSERR, "no memory for line editing");
	if (home && home[0])
		(void)snprintf(
			line->history_file, sizeof line->history_file, "%s/.heddlectl_history", home
		);
	(void)history(line->history, &event, H_SETSIZE, HISTORY_LINES);
	(void)history(line->history, &event, H_SETUNIQUE, 1);
	if (line->history_file[0])
		(void)history(line->history, &event, H_LOAD, line->history_file);
	el_set(line->edit, EL_CLIENTDATA, line);
	el_set(line->edit, EL_PROMPT, prompt);
	el_set(line->edit, EL_EDITOR, "emacs");
	el_set(line->edit, EL_HIST, history, line->history);
	el_set(line->edit, EL_SIGNAL, 1);
	el_set(line->edit, EL_ADDFN, "heddle-complete", "complete the word", on_tab);
	el_set(line->edit, EL_ADDFN, "heddle-help", "what may stand here", on_help);
	el_set(line->edit, EL_BIND, "^I", "heddle-complete", NULL);
	el_set(line->edit, EL_BIND, "?", "heddle-help", NULL);
	el_set(line->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
	(void)el_source(line->edit, NULL); /* ~/.editrc */
	return 0;
}

static void edit_lines(struct line *line) {
	char copy[LINE_BYTES_MAX];
	const char *text;
	HistEvent event;
	int bytes;

	while ((text = el_gets(line->edit, &bytes)) && bytes > 0) {
		if (bytes >= (int)sizeof copy) {
			(void)shell_error(EX_USAGE, "line: too long (%d bytes)", LINE_BYTES_MAX);
			continue;
		}
		(void)snprintf(copy, sizeof copy, "%s", text);
		if (strspn(copy, " \t\r\n") < strlen(copy))
			(void)history(line->history, &event, H_ENTER, text);
		if (!run_line(line, copy))
			return;
	}
	(void)printf("\n");
}

int shell_interact(struct shell_context *context) {
	struct line line = {.context = context};
	HistEvent event;
	int status;

	context->interactive = true;
	if (!isatty(STDIN_FILENO))
		return read_plain(&line);
	status = open_editor(&line);
	if (!status) {
		(void
		)printf("heddlectl: %s; ? shows what may stand where, tab completes\n",
			context->of_server ? context->server : context->controller);
		edit_lines(&line);
		if (line.history_file[0])
			(void)history(line.history, &event, H_SAVE, line.history_file);
	}
	if (line.history)
		history_end(line.history);
	if (line.edit)
		el_end(line.edit);
	return status;
}
