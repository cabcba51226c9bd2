/* SPDX-License-Identifier: BSD-3-Clause */
/* The newest text reaches the disk, also when the disk comes back late. */
#include "hd_keeper.h"
#include "hd_state_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
	char folder[64], inner[96];
	atomic_int bad, good;
};

static void said(void *owner, bool good, const char *text) {
	struct place *place = owner;

	assert_non_null(strstr(text, "/state.json: "));
	atomic_fetch_add(good ? &place->good : &place->bad, 1);
}

static int setup(void **state) {
	struct place *place = calloc(1, sizeof *place);

	(void)snprintf(place->folder, sizeof place->folder, "/tmp/heddle-keeper-XXXXXX");
	*state = place;
	if (!mkdtemp(place->folder))
		return -1;
	(void)snprintf(place->inner, sizeof place->inner, "%s/d", place->folder);
	return 0;
}

static int teardown(void **state) {
	struct place *place = *state;
	char path[128];

	(void)snprintf(path, sizeof path, "%s/state.json", place->inner);
	(void)unlink(path);
	(void)rmdir(place->inner);
	(void)rmdir(place->folder);
	free(place);
	return 0;
}

static void file_is(const struct place *place, const char *want) {
	char path[128], text[64] = "";
	FILE *file;

	(void)snprintf(path, sizeof path, "%s/state.json", place->inner);
	file = fopen(path, "r");
	assert_non_null(file);
	(void)fread(text, 1, sizeof text - 1, file);
	(void)fclose(file);
	assert_string_equal(text, want);
	(void)snprintf(path, sizeof path, "%s/state.json.new", place->inner);
	assert_int_equal(access(path, F_OK), -1);
}

/* Waits, with a deadline that only guards against hangs. */
static void until(atomic_int *count, int wanted) {
	for (int i = 0; i < 3000 && atomic_load(count) < wanted; i++)
		(void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	assert_int_equal(atomic_load(count), wanted);
}

static void test_newest_is_written(void **state) {
	struct place *place = *state;
	struct hd_keeper_config config = {place->inner, "state.json", said, place};
	struct hd_keeper *keeper;

	assert_int_equal(mkdir(place->inner, 0755), 0);
	for (int process = 0; process < 20; process++) {
		char text[16];

		assert_int_equal(hd_keeper_open(&config, &keeper), 0);
		for (int i = 0; i <= process; i++) {
			(void)snprintf(text, sizeof text, "%d.%d\n", process, i);
			hd_keeper_put(keeper, strdup(text));
		}
		assert_int_equal(hd_keeper_close(keeper), 0);
		file_is(place, text);
	}
	/* Nothing was put: the file stays as it was. */
	assert_int_equal(hd_keeper_open(&config, &keeper), 0);
	assert_int_equal(hd_keeper_close(keeper), 0);
	file_is(place, "19.19\n");
	assert_int_equal(atomic_load(&place->bad) + atomic_load(&place->good), 0);
	hd_keeper_put(NULL, strdup("without a keeper"));
	assert_int_equal(hd_keeper_close(NULL), 0);
}

/* No place to write to: said once, tried again, said once more. */
static void test_disk_comes_back(void **state) {
	struct place *place = *state;
	struct hd_keeper_config config = {place->inner, "state.json", said, place};
	struct hd_keeper *keeper;

	assert_int_equal(hd_keeper_open(&config, &keeper), 0);
	hd_keeper_put(keeper, strdup("old"));
	until(&place->bad, 1);
	hd_keeper_put(keeper, strdup("new"));
	assert_int_equal(mkdir(place->inner, 0755), 0);
	until(&place->good, 1);
	file_is(place, "new");
	assert_int_equal(hd_keeper_close(keeper), 0);
	assert_int_equal(atomic_load(&place->bad), 1);
}

static void test_end_without_a_disk(void **state) {
	struct place *place = *state;
	struct hd_keeper_config config = {place->inner, "state.json", said, place};
	struct hd_keeper *keeper;

	assert_int_equal(hd_keeper_open(&config, &keeper), 0);
	hd_keeper_put(keeper, strdup("lost"));
	assert_int_equal(hd_keeper_close(keeper), -EIO);
	assert_int_equal(atomic_load(&place->bad), 1);
}

static void test_names(void **state) {
	struct place *place = *state;
	char *name = malloc(5000);

	memset(name, 'n', 4999);
	name[4999] = '\0';
	assert_int_equal(hd_state_file_replace(place->folder, name, ""), -ENAMETOOLONG);
	assert_int_equal(hd_state_file_overwrite(place->folder, "none", ""), -ENOENT);
	free(name);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_newest_is_written, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disk_comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_without_a_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_names, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
