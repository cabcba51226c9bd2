/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_switch_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum block {
	TOP,
	STRUCT,
	ACTION,
	TABLE,
	TABLE_KEY,
	TABLE_ACTIONS,
	APPLY
};

/*
 * The spec and all that it points to. A block's contents are consecutive lines, so each kind has one array with room
 * for every line of the text.
 */
struct reader {
	struct hd_spec spec; /* first: hd_spec_free() casts back */
	char *text;
	struct hd_spec_struct *structs;
	struct hd_spec_field *fields;
	struct hd_spec_header *headers;
	struct hd_spec_array *registers, *meters;
	struct hd_spec_action *actions;
	struct hd_spec_table *tables;
	struct hd_spec_key *keys;
	struct hd_spec_choice *choices;
	char **lines;
	uint32_t field_count, key_count, choice_count, line_count;
	enum block block;
	bool applied;
	const char *what; /* the error */
};

/* The words of one line. */
struct words {
	uint32_t count;
	char *word[HD_SPEC_WORDS_MAX];
};

static int wrong(struct reader *r, const char *what) {
	r->what = what;
	return -EINVAL;
}

static bool is(const struct words *w, uint32_t index, const char *text) {
	return index < w->count && strcmp(w->word[index], text) == 0;
}

static bool closes(const struct words *w) {
	return w->count == 1 && is(w, 0, "}");
}

static bool read_number(const char *text, uint64_t most, uint64_t *value) {
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 0);
	return errno == 0 && *end == '\0' && *value <= most;
}

/*
 * Joins the words from `first` on with single blanks, in place. They were cut out of one line, so each moves to the
 * left or stays.
 */
static char *join(const struct words *w, uint32_t first, uint32_t end) {
	char *to = w->word[first];

	for (uint32_t i = first; i < end; i++) {
		size_t bytes = strlen(w->word[i]);

		memmove(to, w->word[i], bytes);
		to += bytes;
		*to++ = i + 1 < end ? ' ' : '\0';
	}
	return w->word[first];
}

/* --- blocks -------------------------------------------------------------------------------- */

/* bit<N>, or varbit<N>. */
static bool read_bits(char *word, uint32_t *bits, bool *variable) {
	size_t bytes = strlen(word);
	uint64_t value;

	*variable = strncmp(word, "varbit<", 7) == 0;
	if ((!*variable && strncmp(word, "bit<", 4) != 0) || word[bytes - 1] != '>')
		return false;
	word[bytes - 1] = '\0';
	if (!read_number(word + (*variable ? 7 : 4), 65528, &value) || value == 0 || value % 8 != 0)
		return false;
	*bits = (uint32_t)value;
	return true;
}

static int take_field(struct reader *r, const struct words *w) {
	struct hd_spec_struct *s = &r->structs[r->spec.struct_count - 1];
	struct hd_spec_field *field = &r->fields[r->field_count];

	if (closes(w)) {
		r->block = TOP;
		return s->field_count > 0 ? 0 : wrong(r, "a struct without fields");
	}
	if (s->variable)
		return wrong(r, "a field behind one of variable size");
	if (w->count != 2 || !read_bits(w->word[0], &field->bits, &s->variable))
		return wrong(r, "not a field (bit<N> name; N a multiple of 8)");
	field->name = w->word[1];
	r->field_count++;
	s->field_count++;
	return 0;
}

static int take_line(struct reader *r, const struct words *w, uint32_t *count) {
	if (closes(w)) {
		r->block = TOP;
		return 0;
	}
	r->lines[r->line_count++] = join(w, 0, w->count);
	(*count)++;
	return 0;
}

static int take_key(struct reader *r, const struct words *w) {
	static const char *const names[] = {"exact", "wildcard", "lpm"};
	struct hd_spec_table *table = &r->tables[r->spec.table_count - 1];

	if (closes(w)) {
		r->block = TABLE;
		return 0;
	}
	for (uint32_t i = 0; w->count == 2 && i < 3; i++) {
		if (!is(w, 1, names[i]))
			continue;
		r->keys[r->key_count++] = (struct hd_spec_key){w->word[0], (enum hd_spec_match)i};
		table->key_count++;
		return 0;
	}
	return wrong(r, "not a key (field exact, wildcard or lpm)");
}

static int take_choice(struct reader *r, const struct words *w) {
	struct hd_spec_table *table = &r->tables[r->spec.table_count - 1];
	bool for_entries = is(w, 1, "@tableonly"), for_default = is(w, 1, "@defaultonly");

	if (closes(w)) {
		r->block = TABLE;
		return 0;
	}
	if (w->count > 2 || (w->count == 2 && !for_entries && !for_default))
		return wrong(r, "not an action's name");
	r->choices[r->choice_count++]
		= (struct hd_spec_choice){w->word[0], !for_default, !for_entries};
	table->choice_count++;
	return 0;
}

/* default_action NAME args none|(ARGUMENT VALUE ...) [const] */
static int take_default(struct reader *r, struct hd_spec_table *table, const struct words *w) {
	uint32_t end = w->count;

	if (w->count < 4 || !is(w, 2, "args") || table->default_action)
		return wrong(r, "not a default action, or a second one");
	if (is(w, end - 1, "const")) {
		table->default_const = true;
		end--;
	}
	if (end < 4)
		return wrong(r, "a default action without arguments or none");
	table->default_action = w->word[1];
	if (end != 4 || !is(w, 3, "none"))
		table->default_arguments = join(w, 3, end);
	return 0;
}

static int take_table_line(struct reader *r, const struct words *w) {
	struct hd_spec_table *table = &r->tables[r->spec.table_count - 1];
	uint64_t size;

	if (closes(w)) {
		r->block = TOP;
		return table->default_action ? 0 : wrong(r, "a table without a default action");
	}
	if (is(w, 0, "default_action"))
		return take_default(r, table, w);
	if (w->count != 2)
		return wrong(r, "not a line of a table");
	if (is(w, 1, "{") && is(w, 0, "key")) {
		table->keys = &r->keys[r->key_count];
		r->block = TABLE_KEY;
		return table->key_count == 0 ? 0 : wrong(r, "a second key");
	}
	if (is(w, 1, "{") && is(w, 0, "actions")) {
		table->choices = &r->choices[r->choice_count];
		r->block = TABLE_ACTIONS;
		return table->choice_count == 0 ? 0 : wrong(r, "actions a second time");
	}
	if (is(w, 0, "instanceof"))
		table->type = w->word[1];
	else if (is(w, 0, "hash"))
		table->hash = w->word[1];
	else if (is(w, 0, "pragma"))
		table->options = w->word[1];
	else if (is(w, 0, "size") && read_number(w->word[1], UINT32_MAX, &size))
		table->size = (uint32_t)size;
	else
		return wrong(r, "not a line of a table");
	return 0;
}

/* --- statements outside of blocks ---------------------------------------------------------- */

static int begin_struct(struct reader *r, const struct words *w) {
	if (w->count != 3 || !is(w, 2, "{"))
		return wrong(r, "not a struct (struct NAME {)");
	r->structs[r->spec.struct_count++] = (struct hd_spec_struct){
		.name = w->word[1],
		.fields = &r->fields[r->field_count],
	};
	r->block = STRUCT;
	return 0;
}

static int begin_action(struct reader *r, const struct words *w) {
	bool none = w->count == 5 && is(w, 3, "none");

	if (!is(w, 2, "args") || !is(w, w->count - 1, "{")
	    || (!none && (w->count != 6 || !is(w, 3, "instanceof"))))
		return wrong(r, "not an action (action NAME args none | instanceof STRUCT {)");
	r->actions[r->spec.action_count++] = (struct hd_spec_action){
		.name = w->word[1],
		.arguments = none ? NULL : w->word[4],
		.lines = &r->lines[r->line_count],
	};
	r->block = ACTION;
	return 0;
}

static int begin_table(struct reader *r, const struct words *w) {
	if (w->count != 3 || !is(w, 2, "{"))
		return wrong(r, "not a table (table NAME {)");
	r->tables[r->spec.table_count++] = (struct hd_spec_table){.name = w->word[1]};
	r->block = TABLE;
	return 0;
}

static int begin_apply(struct reader *r, const struct words *w) {
	if (w->count != 2 || !is(w, 1, "{") || r->applied)
		return wrong(r, "not an apply block, or a second one");
	r->spec.lines = &r->lines[r->line_count];
	r->applied = true;
	r->block = APPLY;
	return 0;
}

static int take_header(struct reader *r, const struct words *w) {
	if (w->count != 4 || !is(w, 2, "instanceof"))
		return wrong(r, "not a header (header NAME instanceof STRUCT)");
	r->headers[r->spec.header_count++] = (struct hd_spec_header){w->word[1], w->word[3]};
	return 0;
}

static int take_metadata(struct reader *r, const struct words *w) {
	if (w->count != 3 || !is(w, 1, "instanceof") || r->spec.metadata)
		return wrong(r, "not the metadata (metadata instanceof STRUCT), or a second time");
	r->spec.metadata = w->word[2];
	return 0;
}

/* regarray NAME size N initval V; metarray NAME size N */
static int take_array(struct reader *r, const struct words *w) {
	bool meters = is(w, 0, "metarray");
	uint64_t size, initial = 0;

	if (w->count != (meters ? 4 : 6) || !is(w, 2, "size")
	    || !read_number(w->word[3], UINT32_MAX, &size) || size == 0)
		return wrong(
			r, "not an array (regarray NAME size N initval V, metarray NAME size N)"
		);
	if (!meters && (!is(w, 4, "initval") || !read_number(w->word[5], UINT64_MAX, &initial)))
		return wrong(r, "not an initial value");
	(meters ? r->meters : r->registers
	)[meters ? r->spec.meter_count++ : r->spec.register_count++]
		= (struct hd_spec_array){w->word[1], (uint32_t)size, initial};
	return 0;
}

static int take_top(struct reader *r, const struct words *w) {
	static const struct {
		const char *word;
		int (*take)(struct reader *r, const struct words *w);
	} kinds[] = {
		{"struct", begin_struct},
		{"header", take_header},
		{"metadata", take_metadata},
		{"action", begin_action},
		{"table", begin_table},
		{"regarray", take_array},
		{"metarray", take_array},
		{"apply", begin_apply},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (is(w, 0, kinds[i].word))
			return kinds[i].take(r, w);
	return wrong(
		r, "neither struct, header, metadata, action, table, regarray, metarray nor apply"
	);
}

static int take(struct reader *r, const struct words *w) {
	switch (r->block) {
	case STRUCT:
		return take_field(r, w);
	case ACTION:
		return take_line(r, w, &r->actions[r->spec.action_count - 1].line_count);
	case TABLE:
		return take_table_line(r, w);
	case TABLE_KEY:
		return take_key(r, w);
	case TABLE_ACTIONS:
		return take_choice(r, w);
	case APPLY:
		return take_line(r, w, &r->spec.line_count);
	default:
		return take_top(r, w);
	}
}

/* --- lines --------------------------------------------------------------------------------- */

/* Splits a line into words, up to a comment. False: too many words. */
static bool split(char *line, struct words *w) {
	char *save = NULL;

	w->count = 0;
	for (char *word = strtok_r(line, " \t\r\f\v", &save); word;
	     word = strtok_r(NULL, " \t\r\f\v", &save)) {
		if (word[0] == ';' || word[0] == '#' || strncmp(word, "//", 2) == 0)
			break;
		if (w->count == HD_SPEC_WORDS_MAX)
			return false;
		w->word[w->count++] = word;
	}
	return true;
}

static int read_lines(struct reader *r, struct hd_spec_error *error) {
	struct words words;
	char *next = r->text;
	int code = 0;

	for (error->line = 1; next && code == 0; error->line++) {
		char *line = next;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!split(line, &words))
			code = wrong(r, "too many words");
		else if (words.count > 0)
			code = take(r, &words);
	}
	error->line--;
	return code;
}

static int check_end(struct reader *r, struct hd_spec_error *error) {
	error->line = 0;
	if (r->block != TOP)
		return wrong(r, "ends within a block");
	if (!r->applied || r->spec.line_count == 0)
		return wrong(r, "nothing to apply");
	if (!r->spec.metadata)
		return wrong(r, "no metadata");
	return 0;
}

static bool allocate(struct reader *r, size_t lines) {
	r->structs = calloc(lines, sizeof *r->structs);
	r->fields = calloc(lines, sizeof *r->fields);
	r->headers = calloc(lines, sizeof *r->headers);
	r->registers = calloc(lines, sizeof *r->registers);
	r->meters = calloc(lines, sizeof *r->meters);
	r->actions = calloc(lines, sizeof *r->actions);
	r->tables = calloc(lines, sizeof *r->tables);
	r->keys = calloc(lines, sizeof *r->keys);
	r->choices = calloc(lines, sizeof *r->choices);
	r->lines = calloc(lines, sizeof *r->lines);
	r->spec.structs = r->structs;
	r->spec.headers = r->headers;
	r->spec.registers = r->registers;
	r->spec.meters = r->meters;
	r->spec.actions = r->actions;
	r->spec.tables = r->tables;
	return r->structs && r->fields && r->headers && r->registers && r->meters && r->actions
		&& r->tables && r->keys && r->choices && r->lines;
}

static size_t count_lines(const char *text, size_t bytes) {
	size_t lines = 1;

	for (size_t i = 0; i < bytes; i++)
		lines += text[i] == '\n';
	return lines;
}

int hd_spec_read(
	const char *text,
	size_t bytes,
	struct hd_spec **spec,
	struct hd_spec_error *error
) {
	struct reader *r;
	size_t lines;
	int code;

	*error = (struct hd_spec_error){.what = "too long"};
	lines = bytes <= HD_SPEC_TEXT_BYTES_MAX ? count_lines(text, bytes) : HD_SPEC_LINES_MAX + 1;
	if (lines > HD_SPEC_LINES_MAX)
		return -E2BIG;
	error->what = "no memory";
	r = calloc(1, sizeof *r);
	if (!r)
		return -ENOMEM;
	r->text = malloc(bytes + 1);
	if (!r->text || !allocate(r, lines)) {
		hd_spec_free(&r->spec);
		return -ENOMEM;
	}
	memcpy(r->text, text, bytes);
	r->text[bytes] = '\0';
	code = memchr(text, '\0', bytes) ? wrong(r, "not a text") : read_lines(r, error);
	if (code == 0)
		code = check_end(r, error);
	if (code < 0) {
		error->what = r->what;
		hd_spec_free(&r->spec);
		return code;
	}
	*spec = &r->spec;
	return 0;
}

void hd_spec_free(struct hd_spec *spec) {
	struct reader *r = (struct reader *)spec;

	if (!r)
		return;
	free(r->text);
	free(r->structs);
	free(r->fields);
	free(r->headers);
	free(r->registers);
	free(r->meters);
	free(r->actions);
	free(r->tables);
	free(r->keys);
	free(r->choices);
	free(r->lines);
	free(r);
}
