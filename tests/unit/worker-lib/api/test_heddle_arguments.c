/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every public function of libheddle gets NULL and nonsense: it refuses them in words, or does nothing, and leaves what
 * it was given as it was. There is a row for each name that the library exports (heddle.map) or a header declares.
 */
#include "arguments.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES (1 << 17)
#define TABLES 8
static const struct arguments_row *const tables[TABLES]
	= {arguments_spec,
	   arguments_handle,
	   arguments_collective,
	   arguments_members,
	   arguments_filter,
	   arguments_list,
	   arguments_send,
	   arguments_state};

char arguments_any;
static const char *running = "setup"; /* the row, to name what dies in it */

static void on_signal(int number) {
	static const char words[] = " died\n";

	(void)!write(STDERR_FILENO, running, strlen(running));
	(void)!write(STDERR_FILENO, words, sizeof words - 1);
	_exit(128 + number);
}

/* Leaves words that no row asks for. */
static const char forgotten[] = "rank 12345: not a member";

void forget(void) {
	assert_int_equal(heddle_shard(NULL, 0, 1, 12345, NULL, 0), -ENOENT);
	assert_string_equal(heddle_last_error(), forgotten);
}

void said(long rc, int code, const char *words) {
	if (strstr(forgotten, words))
		fail_msg("%s: '%s' is what was forgotten, too", running, words);
	if (rc != code)
		fail_msg("%s: %ld, not %d (%s)", running, rc, code, words);
	if (!strstr(heddle_last_error(), words))
		fail_msg("%s: '%s', not '%s'", running, heddle_last_error(), words);
}

static struct heddle_options options_of(const struct arguments_scene *scene) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;

	options.server = "127.0.0.1:9"; /* no server */
	options.key_file = scene->key_path;
	options.rank = 0;
	return options;
}

void not_opened(struct arguments_scene *s, struct heddle_spec *spec, const char *words) {
	struct heddle_options options = options_of(s);
	struct heddle *fabric = ANY;

	refused(heddle_open(spec, &options, &fabric), words);
	assert_ptr_equal(fabric, ANY);
}

static struct heddle *
open_job(struct arguments_scene *scene, const char *name, struct heddle_spec **spec) {
	struct heddle_options options = options_of(scene);
	struct heddle_federated rounds = HEDDLE_FEDERATED_INIT;
	const uint64_t values = VALUES;
	struct heddle *fabric;

	assert_int_equal(heddle_spec_create("tests", name, spec), 0);
	if (!strstr(name, "empty"))
		assert_int_equal(
			heddle_spec_add_tensor(*spec, "w", &values, 1, HEDDLE_INIT_ZERO, 0), 0
		);
	if (strstr(name, "federated"))
		assert_int_equal(heddle_spec_set_federated(*spec, &rounds), 0);
	assert_int_equal(heddle_open(*spec, &options, &fabric), 0);
	return fabric;
}

static int setup(void **state) {
	static const char key[]
		= "1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";
	struct heddle_filter_options options = HEDDLE_FILTER_OPTIONS_INIT;
	struct arguments_scene *scene = calloc(1, sizeof *scene);
	struct heddle_spec *empty;
	int fd;

	assert_non_null(scene);
	(void)snprintf(scene->key_path, sizeof scene->key_path, "/tmp/heddle-key-XXXXXX");
	fd = mkstemp(scene->key_path);
	assert_int_equal(write(fd, key, sizeof key - 1), sizeof key - 1);
	(void)close(fd);
	(void)unsetenv("HEDDLE_JOB");
	scene->none = ANY;
	scene->fabric = open_job(scene, "job", &scene->spec);
	scene->federated = open_job(scene, "federated", &scene->federated_spec);
	scene->empty = open_job(scene, "empty", &empty);
	heddle_spec_destroy(empty);
	scene->nothing = open_job(scene, "empty federated", &empty);
	heddle_spec_destroy(empty);
	assert_int_equal(heddle_push_start(scene->fabric, scene->data, 0, NULL, &scene->ticket), 0);
	options.v = 1;
	assert_int_equal(heddle_filter_create(VALUES, &options, &scene->filter), 0);
	*state = scene;
	return 0;
}

static int teardown(void **state) {
	struct arguments_scene *scene = *state;

	heddle_filter_destroy(scene->filter);
	(void)heddle_close(scene->fabric, 0);
	(void)heddle_close(scene->federated, 0);
	(void)heddle_close(scene->empty, 0);
	(void)heddle_close(scene->nothing, 0);
	heddle_ticket_free(scene->ticket);
	heddle_spec_destroy(scene->spec);
	heddle_spec_destroy(scene->federated_spec);
	(void)unlink(scene->key_path);
	free(scene);
	return 0;
}

static void test_arguments(void **state) {
	struct arguments_scene *scene = *state;
	struct heddle_status status = HEDDLE_STATUS_INIT;

	(void)signal(SIGSEGV, on_signal);
	for (size_t t = 0; t < TABLES; t++)
		for (const struct arguments_row *row = tables[t]; row->name; row++) {
			running = row->name;
			row->call(scene);
			assert_ptr_equal(scene->none, ANY);
			for (int i = 0; i < VALUES; i++)
				assert_true(scene->data[i] == 0);
		}
	/* Requests in flight are as they were. */
	assert_int_equal(heddle_ticket_test(scene->ticket, &status), 0);
	assert_int_equal(status.state, HEDDLE_STATE_QUEUED);
}

/* --- the table is whole ------------------------------------------------------------------------ */

static void read_text(const char *path, char text[TEXT_BYTES]) {
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
	assert_int_equal(fclose(file), 0);
}

static void blank_comments(char *text) {
	for (char *at = text, *end; (at = strstr(at, "/*")); at = end) {
		end = strstr(at, "*/") + 2;
		memset(at, ' ', (size_t)(end - at));
	}
}

static bool in_name(char c) {
	return isalnum((unsigned char)c) || c == '_';
}

static bool is_known(const char *name, size_t bytes) {
	for (size_t t = 0; t < TABLES; t++)
		for (const struct arguments_row *row = tables[t]; row->name; row++)
			if (strlen(row->name) == bytes && strncmp(row->name, name, bytes) == 0)
				return true;
	return false;
}

/* Every name that begins with heddle_ and is followed by `after` has a row. Returns how many there are. */
static unsigned check_names(const char *text, char after) {
	unsigned found = 0;

	for (const char *at = text; (at = strstr(at, "heddle_"));) {
		size_t bytes = 0;
		bool begins = at == text || !in_name(at[-1]);

		while (in_name(at[bytes]))
			bytes++;
		if (begins && at[bytes] == after) {
			found++;
			if (!is_known(at, bytes))
				fail_msg("%.*s has no row", (int)bytes, at);
		}
		at += bytes;
	}
	return found;
}

static void test_table_is_whole(void **state) {
	static char text[TEXT_BYTES];
	unsigned rows = 0, declared = 0;
	glob_t headers;

	(void)state;
	for (size_t t = 0; t < TABLES; t++)
		for (const struct arguments_row *row = tables[t]; row->name; row++)
			rows++;
	assert_int_equal(glob(WORKER_LIB "/include/*.h", 0, NULL, &headers), 0);
	for (size_t h = 0; h < headers.gl_pathc; h++) {
		read_text(headers.gl_pathv[h], text);
		blank_comments(text);
		declared += check_names(text, '(');
	}
	globfree(&headers);
	assert_int_equal(declared, rows);
	read_text(WORKER_LIB "/api/heddle.map", text);
	assert_int_equal(check_names(text, ';'), rows);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_arguments, setup, teardown),
		cmocka_unit_test(test_table_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
