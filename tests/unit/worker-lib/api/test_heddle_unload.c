/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library stays mapped when a program that loaded it closes it: a thread of it may still wait for the name server,
 * and comes back to its code. This program has its own getaddrinfo(), which answers when it is let.
 */
#include "heddle.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 5000

static sem_t answer;
static atomic_uint asked, answered;

__attribute__((visibility("default"))) int getaddrinfo(
	const char *host,
	const char *service,
	const struct addrinfo *hints,
	struct addrinfo **found
) {
	(void)host;
	(void)service;
	(void)hints;
	*found = NULL;
	atomic_fetch_add(&asked, 1);
	while (sem_wait(&answer) < 0)
		continue;
	atomic_fetch_add(&answered, 1);
	return EAI_NONAME;
}

static void *symbol(void *library, const char *name) {
	void *found = dlsym(library, name);

	if (!found)
		fail_msg("%s: %s", name, dlerror());
	return found;
}

static void open_job(void *library) {
	int (*create)(const char *, const char *, struct heddle_spec **);
	int (*open)(const struct heddle_spec *, const struct heddle_options *, struct heddle **);
	void (*destroy)(struct heddle_spec *);
	const char *(*last_error)(void);
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	struct heddle *fabric;

	*(void **)&create = symbol(library, "heddle_spec_create");
	*(void **)&open = symbol(library, "heddle_open");
	*(void **)&destroy = symbol(library, "heddle_spec_destroy");
	*(void **)&last_error = symbol(library, "heddle_last_error");
	options.controller = "slow.example";
	options.rank = 0;
	assert_int_equal(create("t", "j", &spec), 0);
	assert_int_equal(open(spec, &options, &fabric), -ETIMEDOUT);
	assert_string_equal(
		last_error(),
		"controller: 'slow.example': the name server did not answer in 5000 ms"
	);
	destroy(spec);
}

/* This one and those that it has begun. */
static unsigned threads(void) {
	DIR *tasks = opendir("/proc/self/task");
	unsigned count = 0;

	assert_non_null(tasks);
	for (const struct dirent *task; (task = readdir(tasks));)
		count += task->d_name[0] != '.';
	assert_int_equal(closedir(tasks), 0);
	return count;
}

static void test_thread_outlives_dlclose(void **state) {
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	unsigned with;

	(void)state;
	if (!library) {
		fail_msg("%s", dlerror());
		return;
	}
	open_job(library);
	assert_int_equal(atomic_load(&asked), 1);
	with = threads(); /* the one that waits, us, and a sanitizer's own */
	assert_true(with >= 2);
	assert_int_equal(dlclose(library), 0);
	sem_post(&answer);
	for (int ms = 0; ms < PATIENCE_MS && atomic_load(&answered) == 0; ms++)
		usleep(1000);
	assert_int_equal(atomic_load(&answered), 1);
	/* The thread goes back to the library, and ends there. */
	for (int ms = 0; ms < PATIENCE_MS && threads() == with; ms++)
		usleep(1000);
	assert_int_equal(threads(), with - 1);
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(library);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_thread_outlives_dlclose)};

	if (sem_init(&answer, 0, 0) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
